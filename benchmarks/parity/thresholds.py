"""The meaning of a similarity threshold for another sentence encoder: docs/attacks/similarity.md.

`--encoder NAME` measures another encoder. The data directory needs stsb, sick, textfooler,
sst2_sentences, ag_news, imdb and counterfit (docs/data.md).
"""

import csv
import gzip
import json
import math
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean, median
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
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build
from attacks.resources.catalogue import Resources
from attacks.resources.sentence_encoders import MINILM, SentenceEncoder
from attacks.victims.kinds import CallableVictim
from benchmarks.command import COMMON, save, table
from text.stop_words import TEXTFOOLER

PARTS = ("human", "published", "words", "effect")
THRESHOLDS = (0.7, 0.75, 0.8, 0.82, 0.840845, 0.86, 0.88, 0.9)


def read(path: Path) -> list[dict[str, str]]:
    """Return the rows of a TSV file with a header, compressed or not."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def neighbours(data: Path) -> dict[str, list[str]]:
    """Return the counter-fitted neighbours of each word, the nearest first, at most eight."""
    near: dict[str, list[str]] = {}
    # The second file is the better one for the words it has: nearest first, as measured by angle.
    for name in ("euc_top8_d0.7.json.gz", "counterfitted_neighbors.json.gz"):
        with gzip.open(data / "counterfit" / name, "rt", encoding="utf-8") as file:
            near.update({word: words for word, words in json.load(file).items() if words})
    return near


def samples(data: Path, corpus: str, limit: int) -> list[str]:
    """Return texts that TextFooler's authors attacked."""
    lines = (data / "textfooler" / f"{corpus}.txt").read_text(encoding="utf-8").splitlines()
    return [line.partition(" ")[2] for line in Random(0).sample(lines, limit)]


# Agreement with people


def human(encoder: SentenceEncoder, data: Path, limit: int) -> dict[str, Any]:
    """Measure how the encoder agrees with people, and which of its values match theirs."""
    scales = {  # columns of both sentences and of the score, with its ends
        "stsb": ("sentence1", "sentence2", "score", 0, 5),
        "sick": ("sentence_A", "sentence_B", "relatedness_score", 1, 5),
    }
    agreement, levels = [], []
    for name, (first, second, score, low, high) in scales.items():
        rows = [r for part in ("validation", "test") for r in read(data / name / f"{part}.tsv")]
        Random(0).shuffle(rows)
        rows = rows[:limit]
        scores = np.array([(float(row[score]) - low) / (high - low) for row in rows])
        cosines = encoder.cosines([row[first] for row in rows], [row[second] for row in rows])
        both = (float(f(cosines, scores).statistic) for f in (pearsonr, spearmanr))
        agreement.append([name, len(scores), *both])
        for level in (0.7, 0.8, 0.9, 0.95):
            share = float((scores >= level).mean())
            # The cosine that as many pairs reach as people rate at this level.
            threshold = float(np.quantile(cosines, 1 - share))
            above = scores[cosines >= threshold]
            figures = (share, threshold, 1 - math.acos(threshold) / math.pi)
            right = float((above >= level).mean())
            levels.append([name, f"{level:g}", *figures, float(above.mean()), right])
    print("\n### Human similarity\n")
    print(table(["pairs", "number", "Pearson", "Spearman"], agreement))
    head = ["pairs", "people say at least", "share", "same share: cosine", "angular"]
    print(f"\n{table([*head, 'mean above', 'right above'], levels)}")
    return {"agreement": agreement, "levels": levels}


# Figures that TextFooler's authors published

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
"""Meanings that a published similarity may have; from it to an angle in radians."""


@dataclass(slots=True)
class ReplacedText:
    """A text on its way to a share of replaced words; `steps[n]` has n of them replaced."""

    steps: list[Document]
    open_to: list[int]
    counts: list[int]


def substitute(
    encoder: SentenceEncoder,
    texts: Sequence[str],
    near: dict[str, list[str]],
    *,
    shares: Sequence[float],
    limit: float,
) -> list[float]:
    """Return mean angles between texts before and after shares of their words are replaced.

    As TextFooler does it but for the victim: words other than stop words, in random order, by a
    random neighbour that keeps the angle of the window of 15 words, before and after the change,
    within the limit, in radians.
    """
    random = Random(0)
    # From radians to the angular similarity of the constraint.
    minimum = max(1 - limit / math.pi, 0.0)
    constraint = SentenceSimilarity(encoder, minimum, window=15, against="current")
    running = []
    for text in texts:
        document = Document.of(text)
        lower = [word.lower() for word in document.words]
        positions = [i for i, word in enumerate(lower) if word not in TEXTFOOLER and near.get(word)]
        random.shuffle(positions)
        # Rounded at random, so that the mean share is the one asked for; one word at least.
        draw = random.random()
        counts = [max(int(share * len(document) + draw), 1) for share in shares]
        running.append(ReplacedText([document], positions, counts))
    while going := [
        state for state in running if state.open_to and len(state.steps) <= max(state.counts)
    ]:
        groups = []
        for state in going:
            current, index = state.steps[-1], state.open_to.pop()
            words = near[current.words[index].lower()]
            tried = [current.replace(index, word) for word in random.sample(words, len(words))[:2]]
            groups.append(Group(state.steps[0], current, tried))
        for state, group, accepted in zip(going, groups, constraint.keep(groups), strict=True):
            fine = [c for c, keep in zip(group.candidates, accepted, strict=True) if keep]
            if fine:
                state.steps.append(group.current.accept(fine[0]))
    means = []
    for i in range(len(shares)):
        ends = [state for state in running if len(state.steps) > state.counts[i]]
        before = [state.steps[0].columns[0] for state in ends]
        after = [state.steps[state.counts[i]].columns[0] for state in ends]
        means.append(float(np.arccos(encoder.cosines(before, after)).mean()))
    return means


def published(encoder: SentenceEncoder, data: Path, limit: int) -> dict[str, Any]:
    """Measure half a radian of the universal sentence encoder in angles of this one.

    For each published mean the same share of words is replaced in the same texts. The effect of the
    similarity constraint depends on the result itself: it is measured under several limits, and the
    limit is chosen that maps to itself.
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
        # 0.5 radians there are here, by two guesses at how angles are related.
        # log(angle here) = slope * log(angle there) + offset.
        lines = [np.polyfit(np.log(theirs), np.log(row), 1) for row in angles]
        guesses = {
            "proportional": [0.5 * float(np.median(row / theirs)) for row in angles],
            "power": [float(np.exp(offset + slope * np.log(0.5))) for slope, offset in lines],
        }
        # Where what half a radian becomes is the limit under which it was measured.
        chosen = {
            name: float(np.interp(0.0, np.subtract(limits, half_radians), limits))
            for name, half_radians in guesses.items()
        }
        middle = float(np.mean(list(chosen.values())))
        # Angles under that limit, between those that were measured.
        ours = [float(np.interp(middle, limits, column)) for column in angles.T]
        rows = [
            (*anchor, float(there), here, here / float(there))
            for anchor, there, here in zip(anchors, theirs, ours, strict=True)
        ]
        result[reading] = {"limits": chosen, "rows": rows}
        print(f"\n### Published similarities read as {reading}\n")
        relations = [
            (k, radians, 1 - radians / math.pi, math.cos(radians)) for k, radians in chosen.items()
        ]
        head = ["relation of angles", "0.5 radians there are here", "angular", "cosine"]
        print(f"{table(head, relations)}\n")
        head = ["victim", "corpus", "words changed, %", "published", "angle there", "angle here"]
        print(table([*head, "ratio"], rows))
    return result


# Replacements that a threshold accepts


def relations(data: Path) -> dict[str, dict[str, list[str]]]:
    """Return replacements of each word, by how they are related to it."""
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


def words(
    encoder: SentenceEncoder, data: Path, limit: int, thresholds: Sequence[float]
) -> dict[str, Any]:
    """Measure similarities before and after one word is replaced, by what replaces it."""
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
                    positions = [
                        i
                        for i, word in enumerate(document.words)
                        if near.get(word.lower()) and word.lower() not in TEXTFOOLER
                    ]
                    if len(document) < 15 or not positions:
                        continue
                    index = random.choice(positions)
                    word = random.choice(near[document.words[index].lower()])
                    groups.append(Group(document, document, [document.replace(index, word)]))
                    if len(groups) == limit:
                        break
                changed = [group.candidates[0] for group in groups]
                SentenceSimilarity(encoder, 0.0, window=window).keep(groups)
                values = [float(entry.similarity or 0.0) for entry in changed]
                result[f"{corpus}/{window or 'whole'}/{relation}"] = values
    print("\n### One word replaced: angular similarity, and the share that a threshold accepts\n")
    head = ["corpus/window/replacement", "median", *(f">= {entry:.4g}" for entry in thresholds)]
    rows = [
        [name, median(values), *(fmean(value >= t for value in values) for t in thresholds)]
        for name, values in result.items()
    ]
    print(table(head, rows))
    return result


# Effect of a threshold on an attack


def bag(data: Path) -> Callable[[list[Any]], NDArray[np.float64]]:
    """Return a logistic regression on the words of SST-2's sentences, as a victim."""
    rows = read(data / "sst2_sentences" / "train.tsv")
    index: dict[str, int] = {}
    split = [[index.setdefault(w, len(index)) for w in set(r["sentence"].split())] for r in rows]
    signs = torch.tensor([2.0 * int(row["label"]) - 1 for row in rows])
    words = torch.tensor([word for sentence in split for word in sentence])
    starts = torch.tensor(np.cumsum([0, *map(len, split[:-1])]))
    weights = torch.zeros(len(index), 1, requires_grad=True)
    # Convex with few weights: one call of LBFGS converges.
    optimiser = torch.optim.LBFGS([weights], max_iter=50)

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        logits = torch.nn.functional.embedding_bag(words, weights, starts, mode="sum")[:, 0]
        loss = torch.nn.functional.softplus(-signs * logits).mean() + 1e-4 * weights.square().sum()
        loss.backward()  # type: ignore[no-untyped-call] # theirs
        return loss

    optimiser.step(closure)  # type: ignore[no-untyped-call] # theirs
    table = {word: float(weights[i, 0].detach()) for word, i in index.items()}

    def logits(texts: list[Any]) -> NDArray[np.float64]:
        sums = [sum(table.get(word, 0.0) for word in set(text.split())) for text in texts]
        return np.array([[-value / 2, value / 2] for value in sums])

    return logits


def effect(data: Path, encoder: str, limit: int, thresholds: Sequence[float]) -> list[list[object]]:
    """Measure TextFooler under each threshold on a bag of words."""
    victim, resources = CallableVictim(bag(data)), Resources(data, sentence_encoder=encoder)
    texts = read(data / "sst2_sentences" / "test.tsv")[:limit]
    attacked = [
        Sample(sample_id=i, text=row["sentence"], label=int(row["label"]))
        for i, row in enumerate(texts)
    ]
    rows: list[list[object]] = []
    for threshold in thresholds:
        attack = build(RecipeSettings(recipe="textfooler", similarity=threshold), resources)
        records = list(Engine(attack, victim).run(attacked))
        outcomes = [record.outcome for record in records]
        changed = [r.words_changed / r.words for r in records if r.outcome == "succeeded"]
        clean, robust = (outcomes.count(kind) / len(records) for kind in ("skipped", "failed"))
        rows.append([threshold, 1 - clean, robust, float(np.mean(changed))])
    print("\n### TextFooler on a bag of words, SST-2 sentences\n")
    print(table(["threshold", "accuracy", "under attack", "words changed"], rows))
    return rows


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--data_dir", type=Path, required=True, help="data directory")
    parser.add_argument("--encoder", default=MINILM, help="another sentence encoder")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--limit", type=int, default=300, help="texts of each corpus")
    parser.add_argument("--pairs", type=int, default=2000, help="pairs of sentences of each corpus")
    parser.add_argument("--thresholds", type=float, nargs="+", default=THRESHOLDS, help="angular")
    parser.add_argument("--out", **COMMON["out"])


def run(options: Namespace) -> int:
    """Print the chosen parts."""
    encoder, data, limit = SentenceEncoder(options.encoder), options.data_dir, options.limit
    parts: dict[str, Callable[[], object]] = {
        "human": lambda: human(encoder, data, options.pairs),
        "published": lambda: published(encoder, data, limit),
        "words": lambda: words(encoder, data, limit, options.thresholds),
        "effect": lambda: effect(data, options.encoder, limit, (0.0, *options.thresholds)),
    }
    measured = {part: measure() for part, measure in parts.items() if part in options.part}
    save(options.out, {"encoder": encoder.name, **measured})
    return 0
