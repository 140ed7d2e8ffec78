"""Measures a model for `diagnose` (docs/diagnostics.md)."""

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

import lit_modules
from attacks.digests import file_digest
from attacks.goals import Score
from attacks.outcome import AttackRecord, from_line
from attacks.recipes import recipe_names
from attacks.summary import Summary, summarise
from datamodules.batching.sampler import permutation
from lit_modules import TaskModule, UniBERT
from measure.diagnosis_statistics import (
    DistanceSummary,
    LayerMoments,
    PairSimilarity,
    Pooling,
    activation_similarity,
    boundary_distances,
    pooled,
)
from run_files.ledger import attack_ledger
from run_files.run_directory import RunDirectory
from run_files.weights import Weights, weights_of
from text import Text, collate, length_batches

log = logging.getLogger(__name__)

KINDS = ("all", "succeeded", "failed")
"""The outcomes of attacks by which similarities are grouped."""
_CHOICE = 5
"""Key of the permutation that draws records, apart from those of corpora and attacks."""


@dataclass(frozen=True, kw_only=True)
class Records:
    """The attacked samples of a run.

    Attributes:
        run: the run that was attacked.
        recipe: name that the attack is filed under.
        records: those that are measured.
        about: settings of the attack, its weights and its split.
        digest: SHA-256 of the file of all its records.
        summary: figures of these records.
    """

    run: RunDirectory
    recipe: str
    records: list[AttackRecord]
    about: dict[str, Any]
    digest: str
    summary: Summary

    @property
    def changed(self) -> list[AttackRecord]:
        """Those whose text an attack has changed, whether it succeeded or not."""
        return [one for one in self.records if _has_changed(one)]

    @property
    def words_changed(self) -> float:
        """Mean share of words that differ in the changed texts."""
        return fmean(one.words_changed / max(one.words, 1) for one in self.changed)


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The measurements of one model.

    Attributes:
        run: name of the run.
        method: class of the method.
        weights: weights of the model.
        texts: whose records its texts are from.
        pooling: vector that stands for a text.
        distances: distances of the clean texts.
        similarities: similarities by how the attack ended: all of them, and what `KINDS` has.
        unrelated: mean similarity of two different ones of these clean texts, per layer; empty of
            one text.
    """

    run: str
    method: str
    weights: Weights
    texts: Records
    pooling: Pooling
    distances: DistanceSummary
    similarities: dict[str, LayerMoments]
    unrelated: list[float]

    def line(self) -> dict[str, Any]:
        """As JSON."""
        summary = self.texts.summary
        return {
            "run": self.run,
            "method": self.method,
            "checkpoint": self.weights.file,
            "weights": self.weights.about(),
            "texts_of": self.texts.run.name,
            "texts": self.texts.digest,
            "records": len(self.texts.records),
            "words_changed": self.texts.words_changed,
            "pooling": self.pooling,
            "clean_accuracy": summary.clean_accuracy.value,
            "accuracy": summary.accuracy.value,
            "unreliable": summary.unreliable,
            "distances": asdict(self.distances),
            "similarities": {
                kind: {"count": one.count, "mean": one.mean, "std": one.std}
                for kind, one in self.similarities.items()
            },
            "unrelated": self.unrelated,
        }

    def label(self) -> str:
        """The run, and how its accuracy changes under the attack."""
        summary = self.texts.summary
        if self.texts.run.name != self.run:
            return self.run
        doubt = "?" if summary.unreliable else ""
        clean, attacked = summary.clean_accuracy.value, summary.accuracy.value
        return f"{self.run} (accuracy {clean:.2f} → {attacked:.2f}{doubt})"


def read(run: RunDirectory, recipe: str, *, samples: int) -> Records:
    """The records of an attack.

    Args:
        run: the run that was attacked.
        recipe: what the attack is filed under.
        samples: how many of them; drawn, the same ones for every run, if there are more.

    Raises:
        ValueError: there are none, or none whose text was changed.
    """
    # Also keeps a name with a path in it from leading elsewhere.
    found = sorted(path.stem for path in (run.path / "attacks").glob("*.jsonl"))
    if recipe not in found:
        there = f"which has those of {', '.join(found)}" if found else "which was never attacked"
        make = recipe if recipe in recipe_names() else f"RECIPE ({', '.join(recipe_names())})"
        msg = (
            f"got --recipe {recipe} and run {run.name}, {there}; expected records of an attack: "
            f"`python -m steadfast attack --run {run.name} --attack {make}` makes them"
        )
        raise ValueError(msg)
    ledger = attack_ledger(run, recipe)
    try:
        every = [from_line(line) for line in ledger.records()]
    except (AttributeError, TypeError) as error:
        msg = f"got {ledger.records_path} with other fields than records of attacks have; delete it"
        raise ValueError(msg) from error
    if len(every) > samples:
        every = [every[i] for i in sorted(permutation(len(every), _CHOICE)[:samples].tolist())]
    about = ledger.subject()
    score: Score = "probability" if about.get("score") == "probability" else "margin"
    if not any(map(_has_changed, every)):
        msg = (
            f"got {len(every)} record(s) in {ledger.records_path} of which none has a changed "
            "text, expected some: attack more samples with --attack.num_samples, or with another "
            "recipe"
        )
        raise ValueError(msg)
    return Records(
        run=run,
        recipe=recipe,
        records=every,
        about=about,
        digest=file_digest(ledger.records_path),
        summary=summarise(every, score=score),
    )


def _has_changed(record: AttackRecord) -> bool:
    return record.adversarial not in (None, record.text)


@torch.no_grad()
def measure(
    checkpoint: Path,
    run: RunDirectory,
    texts: Records,
    *,
    pooling: Pooling | None,
    batch_size: int,
    device: torch.device,
) -> Diagnosis:
    """Measure one model.

    Args:
        checkpoint: its weights.
        run: its run.
        texts: clean and attacked texts.
        pooling: which vector stands for a text; the one that the model classifies if None.
        batch_size: texts per forward pass.
        device: where.

    Raises:
        ValueError: the checkpoint cannot be used, the method has no layers to show, or no sample is
            classified rightly.
    """
    model = lit_modules.load(checkpoint).to(device)
    weights = weights_of(checkpoint)
    known = texts.about.get("checkpoint")
    if texts.run.name == run.name and known not in (None, "none", weights.checkpoint):
        log.warning("%s was made against another checkpoint than %s", texts.recipe, checkpoint)
    if pooling is None:
        pooling = model.plain.pooling if isinstance(model.plain, UniBERT) else "mean"
    logits = model.predict_texts([one.text for one in texts.records], batch_size=batch_size)
    labels = torch.tensor([one.label for one in texts.records], device=device)
    similarities, unrelated = _similarities(model, texts.changed, pooling, batch_size)
    return Diagnosis(
        run=run.name,
        method=type(model).__name__,
        weights=weights,
        texts=texts,
        pooling=pooling,
        distances=DistanceSummary.of(boundary_distances(logits, labels)),
        similarities=similarities,
        unrelated=unrelated,
    )


def _similarities(
    model: TaskModule, records: Sequence[AttackRecord], pooling: Pooling, batch_size: int
) -> tuple[dict[str, LayerMoments], list[float]]:
    tokenizer, _ = model.require_text()
    pairs: list[tuple[Text, Text]] = [
        (one.text, one.adversarial) for one in records if one.adversarial is not None
    ]
    before = tokenizer.encode([clean for clean, _ in pairs])
    after = tokenizer.encode([attacked for _, attacked in pairs])
    lengths = [max(len(a.input_ids), len(b.input_ids)) for a, b in zip(before, after, strict=True)]
    moments, unrelated = {kind: LayerMoments() for kind in KINDS}, PairSimilarity()
    for rows in length_batches(lengths, batch_size, device=model.device.type):
        clean, attacked = (
            collate([encodings[i] for i in rows], pad_id=tokenizer.pad_id, pairs=model.pairs).to(
                model.device
            )
            for encodings in (before, after)
        )
        states = model.activations(clean)
        unrelated.update([pooled(one, clean.mask, pooling=pooling) for one in states])
        values = activation_similarity(
            states,
            model.activations(attacked),
            clean_mask=clean.mask,
            attacked_mask=attacked.mask,
            pooling=pooling,
        ).cpu()
        for kind, one in moments.items():
            chosen = [kind in ("all", records[i].outcome) for i in rows]
            one.update(values[:, torch.tensor(chosen)])
    return moments, unrelated.mean
