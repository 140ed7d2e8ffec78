"""What a threshold of sentence similarity means for another encoder: docs/attacks/similarity.md.

    python -m benchmarks.calibration --data_dir DIR [--part human published words effect]

`--encoder NAME` asks another encoder. Prints Markdown tables; with `--out FILE` the figures are
also written there. DIR is laid out as docs/data.md says; used are stsb, sick, textfooler,
sst2_sentences, ag_news, imdb, counterfit.
"""

import csv
import gzip
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr

from attacks.composition import Group
from attacks.constraints.sentence_similarity import SentenceSimilarity
from attacks.document import Document
from attacks.engine import Engine
from attacks.outcome import Sample
from attacks.recipes import build
from attacks.resources.catalogue import Resources
from attacks.resources.sentence_encoders import MINILM, SentenceEncoder
from attacks.resources.stop_words import TEXTFOOLER
from attacks.victims.kinds import CallableVictim
from benchmarks.command import command, save, table

Floats = NDArray[np.float64]


def read(path: Path) -> list[dict[str, str]]:
    """Rows of a TSV file with a header, compressed or not."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def angular(cosines: Floats) -> Floats:
    """1 - angle / pi."""
    result: Floats = 1 - np.arccos(cosines) / np.pi
    return result


def neighbours(data: Path) -> dict[str, list[str]]:
    """Counter-fitted neighbours of each word, the nearest first, at most eight."""
    found: dict[str, list[str]] = {}
    # The second file is the better one for the words it has: nearest first, as measured by angle.
    for name in ("euc_top8_d0.7.json.gz", "counterfitted_neighbors.json.gz"):
        with gzip.open(data / "counterfit" / name, "rt", encoding="utf-8") as file:
            found.update({word: near for word, near in json.load(file).items() if near})
    return found


def samples(data: Path, corpus: str, limit: int) -> list[str]:
    """Texts that TextFooler's authors attacked."""
    lines = (data / "textfooler" / f"{corpus}.txt").read_text(encoding="utf-8").splitlines()
    return [line.partition(" ")[2] for line in Random(0).sample(lines, limit)]


# What people say


def human(encoder: SentenceEncoder, data: Path, limit: int) -> dict[str, Any]:
    """How the encoder agrees with people, and which of its values stand for theirs."""
    pairs: dict[str, list[tuple[str, str, float]]] = {"stsb": [], "sick": []}
    for split in ("validation", "test"):
        for row in read(data / "stsb" / f"{split}.tsv"):
            pairs["stsb"].append((row["sentence1"], row["sentence2"], float(row["score"]) / 5))
        for row in read(data / "sick" / f"{split}.tsv"):
            relatedness = (float(row["relatedness_score"]) - 1) / 4
            pairs["sick"].append((row["sentence_A"], row["sentence_B"], relatedness))
    result: dict[str, Any] = {}
    for name, rows in pairs.items():
        Random(0).shuffle(rows)
        first, second, scores = zip(*rows[:limit], strict=True)
        cosines, said = encoder.cosines(first, second), np.array(scores)
        levels = {}
        for level in (0.7, 0.8, 0.9, 0.95):
            share = float((said >= level).mean())
            threshold = float(np.quantile(cosines, 1 - share))
            above = cosines >= threshold
            levels[f"{level:g}"] = {
                "share": share,
                "cosine": threshold,
                "angular": float(angular(np.array([threshold]))[0]),
                "said_above": float(said[above].mean()),
                "agreement": float((said[above] >= level).mean()),
            }
        result[name] = {
            "pairs": len(said),
            "pearson": float(pearsonr(cosines, said).statistic),
            "spearman": float(spearmanr(cosines, said).statistic),
            "levels": levels,
        }
    return result


def show_human(result: dict[str, Any]) -> None:
    """Prints the figures."""
    print("\n### Human similarity\n")
    print(table(["pairs", "number", "Pearson", "Spearman"], [
        [name, one["pairs"], one["pearson"], one["spearman"]] for name, one in result.items()
    ]))  # fmt: skip
    head = ["pairs", "people say at least", "share", "same share: cosine", "angular", "mean above",
            "right above"]  # fmt: skip
    print()
    print(table(head, [
        [name, level, f["share"], f["cosine"], f["angular"], f["said_above"], f["agreement"]]
        for name, one in result.items()
        for level, f in one["levels"].items()
    ]))  # fmt: skip


# What TextFooler's authors published

PUBLISHED = {
    # TextFooler's table of automatic evaluation: victim -> corpus -> (share of words changed in %,
    # similarity by the universal sentence encoder), both means.
    "WordCNN": {"mr": (14.3, 0.68), "imdb": (3.5, 0.89), "yelp": (8.3, 0.82), "ag": (15.2, 0.76)},
    "WordLSTM": {"mr": (14.9, 0.67), "imdb": (5.1, 0.87), "yelp": (10.6, 0.79), "ag": (18.6, 0.63)},
    "BERT": {"mr": (16.7, 0.65), "imdb": (6.1, 0.86), "yelp": (13.9, 0.74), "ag": (22.0, 0.57)},
}
READINGS: dict[str, Callable[[float], float]] = {
    "1 - angle": lambda s: 1 - s,
    "cosine": math.acos,
    "1 - angle / pi": lambda s: math.pi * (1 - s),
}
"""What a published similarity may be; from it to an angle in radians."""


@dataclass(slots=True)
class Text:
    """A text on its way to a share of replaced words; `steps[n]` has n of them replaced."""

    steps: list[Document]
    open_to: list[int]
    wanted: list[int]


def substitute(
    encoder: SentenceEncoder,
    texts: Sequence[str],
    near: dict[str, list[str]],
    *,
    shares: Sequence[float],
    limit: float,
) -> list[float]:
    """Mean angle between texts and what becomes of them when a share of the words is replaced.

    As TextFooler does it but for the victim: words other than stop words, in random order, by a
    random neighbour that keeps the angle of the window of 15 words, before and after the change,
    within the limit.

    Args:
        encoder: says how alike texts are.
        texts: the texts.
        near: neighbours of each word.
        shares: of the words of a text.
        limit: in radians.
    """
    random = Random(0)
    minimum = max(1 - limit / math.pi, 0.0)
    constraint = SentenceSimilarity(encoder, minimum, window=15, against="current")
    running = []
    for text in texts:
        document = Document.of(text)
        lower = [word.lower() for word in document.words]
        places = [i for i, word in enumerate(lower) if word not in TEXTFOOLER and near.get(word)]
        random.shuffle(places)
        # Rounded at random, so that the mean share is the one asked for; one word at least.
        draw = random.random()
        wanted = [max(int(share * len(document) + draw), 1) for share in shares]
        running.append(Text([document], places, wanted))
    while going := [one for one in running if one.open_to and len(one.steps) <= max(one.wanted)]:
        groups = []
        for one in going:
            current, index = one.steps[-1], one.open_to.pop()
            words = near[current.words[index].lower()]
            tried = [current.replace(index, word) for word in random.sample(words, len(words))[:2]]
            groups.append(Group(one.steps[0], current, tried))
        for one, group, kept in zip(going, groups, constraint.keep(groups), strict=True):
            fine = [c for c, keep in zip(group.candidates, kept, strict=True) if keep]
            if fine:
                one.steps.append(group.current.accept(fine[0]))
    means = []
    for i in range(len(shares)):
        ends = [one for one in running if len(one.steps) > one.wanted[i]]
        before = [one.steps[0].columns[0] for one in ends]
        after = [one.steps[one.wanted[i]].columns[0] for one in ends]
        means.append(float(np.arccos(encoder.cosines(before, after)).mean()))
    return means


def published(encoder: SentenceEncoder, data: Path, limit: int) -> dict[str, Any]:
    """What half a radian of the universal sentence encoder is in angles of this one.

    For each published mean the same share of words is replaced in the same texts. What the
    similarity constraint lets through depends on the answer itself: measured under several limits,
    and the one chosen that it leads to.
    """
    near = neighbours(data)
    limits = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
    anchors = [(v, c, *figures) for v, means in PUBLISHED.items() for c, figures in means.items()]
    angles = np.zeros((len(limits), len(anchors)))
    for corpus in ("mr", "ag", "yelp", "imdb"):
        texts = samples(data, corpus, limit if corpus in {"mr", "ag"} else limit // 3)
        mine = [i for i, anchor in enumerate(anchors) if anchor[1] == corpus]
        shares = [anchors[i][2] / 100 for i in mine]
        for row, bound in enumerate(limits):
            angles[row, mine] = substitute(encoder, texts, near, shares=shares, limit=bound)
    result: dict[str, Any] = {}
    for reading, angle in READINGS.items():
        theirs = np.array([angle(anchor[3]) for anchor in anchors])
        fits = [_fits(theirs, row) for row in angles]
        # Where what half a radian becomes is the limit under which it was measured.
        chosen = {
            name: float(np.interp(0.0, *_falling([fit[name] for fit in fits], limits)))
            for name in fits[0]
        }
        middle = float(np.mean(list(chosen.values())))
        ours = [float(np.interp(middle, limits, column)) for column in angles.T]
        result[reading] = {
            "limits": chosen,
            "rows": [
                (*anchor, float(there), here, here / float(there))
                for anchor, there, here in zip(anchors, theirs, ours, strict=True)
            ],
        }
    return result


def _fits(theirs: Floats, ours: Floats) -> dict[str, float]:
    """What 0.5 radians there are here, by several guesses at how angles are related."""
    slope, offset = np.polyfit(np.log(theirs), np.log(ours), 1)
    return {
        "proportional": 0.5 * float(np.median(ours / theirs)),
        "power": float(np.exp(offset + slope * np.log(0.5))),
    }


def _falling(
    found: Sequence[float], limits: Sequence[float]
) -> tuple[list[float], Sequence[float]]:
    """Limits by how far they are above what was found under them."""
    return [limit - value for limit, value in zip(limits, found, strict=True)], limits


def show_published(result: dict[str, Any]) -> None:
    """Prints the figures."""
    for reading, one in result.items():
        print(f"\n### Published similarities read as {reading}\n")
        print(table(["relation of angles", "0.5 radians there are here", "angular", "cosine"], [
            [name, limit, 1 - limit / math.pi, math.cos(limit)]
            for name, limit in one["limits"].items()
        ]))  # fmt: skip
        print()
        head = ["victim", "corpus", "words changed, %", "published", "angle there", "angle here",
                "ratio"]  # fmt: skip
        print(table(head, one["rows"]))


# What a threshold lets through


def relations(data: Path) -> dict[str, dict[str, list[str]]]:
    """Words that may stand in the place of a word, by what they have to do with it."""
    near = neighbours(data)
    opposite: dict[str, list[str]] = {}
    for line in (data / "counterfit" / "wordnet_antonyms.txt").read_text("utf-8").splitlines():
        first, _, second = line.partition(" ")
        opposite.setdefault(first, []).append(second)
        opposite.setdefault(second, []).append(first)
    everything = sorted(near)
    random = Random(0)
    return {
        "nearest": {word: words[:1] for word, words in near.items()},
        "neighbour": near,
        "antonym": opposite,
        "random": {word: random.choices(everything, k=3) for word in everything},
    }


def words(encoder: SentenceEncoder, data: Path, limit: int) -> dict[str, Any]:
    """Similarities before and after one word is replaced, by what replaces it."""
    corpora = {
        "sst2_sentences": [r["sentence"] for r in read(data / "sst2_sentences" / "test.tsv")],
        "ag_news": [r["text"] for r in read(data / "ag_news" / "test.tsv.gz")],
        "imdb": samples(data, "imdb", 600),
    }
    tables = relations(data)
    result: dict[str, Any] = {}
    for corpus, texts in corpora.items():
        Random(0).shuffle(texts)
        for window in (15, None):
            if corpus == "imdb" and window is None:
                continue  # one word of two hundred changes next to nothing
            for relation, near in tables.items():
                random = Random(1)
                groups: list[Group] = []
                for text in texts:
                    document = Document.of(text)
                    places = [
                        i
                        for i, word in enumerate(document.words)
                        if near.get(word.lower()) and word.lower() not in TEXTFOOLER
                    ]
                    if len(document) < 15 or not places:
                        continue
                    index = random.choice(places)
                    word = random.choice(near[document.words[index].lower()])
                    groups.append(Group(document, document, [document.replace(index, word)]))
                    if len(groups) == limit:
                        break
                made = [group.candidates[0] for group in groups]
                SentenceSimilarity(encoder, 0.0, window=window).keep(groups)
                values = [float(one.similarity or 0.0) for one in made]
                result[f"{corpus}/{window or 'whole'}/{relation}"] = values
    return result


def show_words(result: dict[str, Any], thresholds: Sequence[float]) -> None:
    """Prints the figures."""
    print("\n### One word replaced: angular similarity, and the share that a threshold accepts\n")
    head = ["corpus/window/replacement", "median", *(f">= {one:.4g}" for one in thresholds)]
    rows = [(name, np.array(values)) for name, values in result.items()]
    print(table(head, [
        [name, float(np.median(values)), *(float(np.mean(values >= t)) for t in thresholds)]
        for name, values in rows
    ]))  # fmt: skip


# What a threshold does to an attack


def bag(data: Path) -> Callable[[list[Any]], NDArray[np.float64]]:
    """A logistic regression on the words of SST-2's sentences, as a victim."""
    rows = read(data / "sst2_sentences" / "train.tsv")
    index: dict[str, int] = {}
    split = [[index.setdefault(w, len(index)) for w in set(r["sentence"].split())] for r in rows]
    signs = torch.tensor([2.0 * int(row["label"]) - 1 for row in rows])
    words = torch.tensor([word for sentence in split for word in sentence])
    starts = torch.tensor(np.cumsum([0, *map(len, split[:-1])]))
    weights = torch.zeros(len(index), 1, requires_grad=True)
    optimiser = torch.optim.LBFGS([weights], max_iter=50)

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        found = torch.nn.functional.embedding_bag(words, weights, starts, mode="sum")[:, 0]
        loss = torch.nn.functional.softplus(-signs * found).mean() + 1e-4 * weights.square().sum()
        loss.backward()  # type: ignore[no-untyped-call] # theirs
        return loss

    optimiser.step(closure)  # type: ignore[no-untyped-call] # theirs
    table = {word: float(weights[i, 0].detach()) for word, i in index.items()}

    def logits(texts: list[Any]) -> NDArray[np.float64]:
        sums = [sum(table.get(word, 0.0) for word in set(text.split())) for text in texts]
        return np.array([[-value / 2, value / 2] for value in sums])

    return logits


def effect(data: Path, encoder: str, limit: int, thresholds: Sequence[float]) -> list[list[object]]:
    """TextFooler under each threshold: what becomes of accuracy."""
    victim, resources = bag(data), Resources(data, sentence_encoder=encoder)
    rows = read(data / "sst2_sentences" / "test.tsv")[:limit]
    given = [
        Sample(sample_id=i, text=row["sentence"], label=int(row["label"]))
        for i, row in enumerate(rows)
    ]
    result: list[list[object]] = []
    for threshold in thresholds:
        attack = build("textfooler", resources, similarity=threshold)
        records = list(Engine(attack, CallableVictim(victim)).run(given))
        outcomes = [record.outcome for record in records]
        changed = [r.words_changed / r.words for r in records if r.outcome == "succeeded"]
        result.append(
            [
                threshold,
                1 - outcomes.count("skipped") / len(records),
                outcomes.count("failed") / len(records),
                float(np.mean(changed)),
            ]
        )
    return result


def main() -> None:
    """Prints the parts asked for."""
    parser = command(__doc__, "out", encoder=MINILM)
    parser.add_argument("--data_dir", type=Path, required=True)
    parts = ("human", "published", "words", "effect")
    parser.add_argument("--part", nargs="+", choices=parts, default=parts)
    parser.add_argument("--limit", type=int, default=300, help="texts of each corpus")
    parser.add_argument("--pairs", type=int, default=2000, help="pairs of sentences of each corpus")
    parser.add_argument(
        "--thresholds",
        type=float,
        nargs="+",
        default=(0.7, 0.75, 0.8, 0.82, 0.840845, 0.86, 0.88, 0.9),
        help="angular similarities",
    )
    given = parser.parse_args()
    encoder, data, limit = SentenceEncoder(given.encoder), given.data_dir, given.limit
    result: dict[str, Any] = {"encoder": encoder.name}
    if "human" in given.part:
        result["human"] = human(encoder, data, given.pairs)
        show_human(result["human"])
    if "published" in given.part:
        result["published"] = published(encoder, data, limit)
        show_published(result["published"])
    if "words" in given.part:
        result["words"] = words(encoder, data, limit)
        show_words(result["words"], given.thresholds)
    if "effect" in given.part:
        result["effect"] = effect(data, given.encoder, limit, (0.0, *given.thresholds))
        print("\n### TextFooler on a bag of words, SST-2 sentences\n")
        print(table(["threshold", "accuracy", "under attack", "words changed"], result["effect"]))
    save(given.out, result)


if __name__ == "__main__":
    main()
