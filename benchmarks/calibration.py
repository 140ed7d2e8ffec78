"""What a threshold of sentence similarity means for another encoder: docs/attacks/similarity.md.

    python -m benchmarks.calibration --data_dir DIR [--part human published words effect]

`--encoder NAME` asks another encoder. Prints Markdown tables; with `--json FILE` the figures are
also written there. DIR is laid out as docs/data.md says; used are stsb, sick, textfooler,
sst2_sentences, ag_news, imdb, counterfit.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attacks.composition import Group
from attacks.constraints.sentence_similarity import SentenceSimilarity
from attacks.document import Candidate, Document
from attacks.engine import Engine
from attacks.outcome import Sample
from attacks.recipes import build
from attacks.resources.catalogue import Resources
from attacks.resources.sentence_encoders import MINILM, SentenceEncoder
from attacks.resources.stop_words import TEXTFOOLER
from attacks.victims.kinds import CallableVictim
from benchmarks.calibration_data import angular, neighbours, ranks, read, samples, table
from benchmarks.calibration_published import published, show_published

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
            "pearson": float(np.corrcoef(cosines, said)[0, 1]),
            "spearman": float(np.corrcoef(ranks(cosines), ranks(said))[0, 1]),
            "levels": levels,
        }
    return result


def show_human(result: dict[str, Any]) -> None:
    """Print it."""
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
                values = np.array([_similarity(one) for one in made])
                result[f"{corpus}/{window or 'whole'}/{relation}"] = values.tolist()
    return result


def _similarity(candidate: Candidate) -> float:
    return 0.0 if candidate.similarity is None else candidate.similarity


def show_words(result: dict[str, Any], thresholds: Sequence[float]) -> None:
    """Print it."""
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
    import torch

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


def show_effect(rows: Sequence[Sequence[object]]) -> None:
    """Print it."""
    print("\n### TextFooler on a bag of words, SST-2 sentences\n")
    print(table(["threshold", "accuracy", "under attack", "words changed"], rows))


def main() -> None:
    """Print the parts asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data_dir", type=Path, required=True)
    parser.add_argument("--encoder", default=MINILM)
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
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    encoder = SentenceEncoder(given.encoder)
    result: dict[str, Any] = {"encoder": encoder.name}
    if "human" in given.part:
        result["human"] = human(encoder, given.data_dir, given.pairs)
        show_human(result["human"])
    if "published" in given.part:
        result["published"] = published(encoder, given.data_dir, given.limit)
        show_published(result["published"])
    if "words" in given.part:
        result["words"] = words(encoder, given.data_dir, given.limit)
        show_words(result["words"], given.thresholds)
    if "effect" in given.part:
        result["effect"] = effect(
            given.data_dir, given.encoder, given.limit, (0.0, *given.thresholds)
        )
        show_effect(result["effect"])
    if given.json is not None:
        given.json.write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
