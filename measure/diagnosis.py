"""Measure the margins and layers of a model for `diagnose` (docs/diagnostics.md)."""

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
    pool,
)
from run_files.ledger import attack_ledger, attack_ledgers
from run_files.run_directory import RunDirectory
from run_files.weights import Weights, weights_of
from text import Text, collate, length_batches

log = logging.getLogger(__name__)

KINDS = ("all", "succeeded", "failed")
"""The outcomes of attacks by which similarities are grouped."""
_CHOICE = 5
"""Key of the permutation that draws records; corpora and attacks have other keys."""


@dataclass(frozen=True, kw_only=True)
class RecordedAttack:
    """The attacked samples of a run.

    Attributes:
        run: the run that was attacked.
        recipe: name of the files of the attack.
        records: the records to measure.
        subject: settings of the attack, its weights and its split.
        digest: SHA-256 of the file of all its records.
        summary: figures of these records.
    """

    run: RunDirectory
    recipe: str
    records: list[AttackRecord]
    subject: dict[str, Any]
    digest: str
    summary: Summary

    @property
    def changed(self) -> list[AttackRecord]:
        """The records with a changed text, of successes and of failures."""
        return [record for record in self.records if _has_changed(record)]

    @property
    def words_changed(self) -> float:
        """Mean share of words that differ in the changed texts."""
        return fmean(record.words_changed / max(record.words, 1) for record in self.changed)


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The measurements of one model.

    Attributes:
        run: name of the run.
        method: class of the method.
        weights: weights of the model.
        texts: the attack with its texts.
        pooling: the vector of a text.
        distances: distances of the clean texts.
        similarities: similarities by the outcome of the attack, see `KINDS`.
        unrelated: mean similarity of two different clean texts, per layer; empty for one text.
    """

    run: str
    method: str
    weights: Weights
    texts: RecordedAttack
    pooling: Pooling
    distances: DistanceSummary
    similarities: dict[str, LayerMoments]
    unrelated: list[float]

    def line(self) -> dict[str, Any]:
        """Return the diagnosis as JSON."""
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
                kind: {"count": moments.count, "mean": moments.mean, "std": moments.std}
                for kind, moments in self.similarities.items()
            },
            "unrelated": self.unrelated,
        }

    def label(self) -> str:
        """Return the name of the run, and its accuracy without and under the attack."""
        summary = self.texts.summary
        if self.texts.run.name != self.run:
            return self.run
        doubt = "?" if summary.unreliable else ""
        clean, attacked = summary.clean_accuracy.value, summary.accuracy.value
        return f"{self.run} (accuracy {clean:.2f} → {attacked:.2f}{doubt})"


def read(run: RunDirectory, recipe: str, *, samples: int) -> RecordedAttack:
    """Read at most so many records of an attack; the draw is the same for every run.

    Raises:
        ValueError: the attack has no records, or none with a changed text.
    """
    # A recipe with a path in it, such as ../other, is none of these names.
    names = [ledger.name for ledger in attack_ledgers(run)]
    if recipe not in names:
        available = (
            f"which has those of {', '.join(names)}" if names else "which was never attacked"
        )
        make = recipe if recipe in recipe_names() else f"RECIPE ({', '.join(recipe_names())})"
        msg = (
            f"got --recipe {recipe} and run {run.name}, {available}; expected records of an "
            f"attack: `python -m steadfast attack --run {run.name} --attack {make}` makes them"
        )
        raise ValueError(msg)
    ledger = attack_ledger(run, recipe)
    try:
        records = [from_line(line) for line in ledger.records()]
    except (AttributeError, TypeError) as error:
        msg = f"got {ledger.records_path} with other fields than records of attacks have; delete it"
        raise ValueError(msg) from error
    # Sorted: the draw keeps the order of the file.
    if len(records) > samples:
        records = [
            records[i] for i in sorted(permutation(len(records), _CHOICE)[:samples].tolist())
        ]
    subject = ledger.subject()
    score: Score = "probability" if subject.get("score") == "probability" else "margin"
    if not any(map(_has_changed, records)):
        msg = (
            f"got {len(records)} record(s) in {ledger.records_path} of which none has a changed "
            "text, expected some: attack more samples with --num_samples, or with another "
            "recipe"
        )
        raise ValueError(msg)
    return RecordedAttack(
        run=run,
        recipe=recipe,
        records=records,
        subject=subject,
        digest=file_digest(ledger.records_path),
        summary=summarise(records, score=score, goal=subject.get("goal"), task=subject.get("task")),
    )


def _has_changed(record: AttackRecord) -> bool:
    return record.adversarial not in (None, record.text)


@torch.no_grad()
def measure(
    checkpoint: Path,
    run: RunDirectory,
    texts: RecordedAttack,
    *,
    pooling: Pooling | None,
    batch_size: int,
    device: torch.device,
) -> Diagnosis:
    """Measure one model.

    Without `pooling`, the vector of a text is the one that the model classifies.

    Raises:
        ValueError: the checkpoint is unusable, the method has no layers, or no prediction is
            correct.
    """
    model = lit_modules.load(checkpoint).to(device)
    weights = weights_of(checkpoint)
    digest = texts.subject.get("checkpoint")
    if texts.run.name == run.name and digest not in (None, "none", weights.checkpoint):
        log.warning("%s was made against another checkpoint than %s", texts.recipe, checkpoint)
    if pooling is None:
        first = isinstance(model.plain, UniBERT) and model.plain.network.head.pooling == "first"
        pooling = "first" if first else "mean"
    # Of all clean texts; the similarities are only of changed ones.
    logits = model.predict_texts([record.text for record in texts.records], batch_size=batch_size)
    labels = torch.tensor([record.label for record in texts.records], device=device)
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
        (record.text, record.adversarial) for record in records if record.adversarial is not None
    ]
    before = tokenizer.encode([clean for clean, _ in pairs])
    after = tokenizer.encode([attacked for _, attacked in pairs])
    # Both texts of a pair are in the same batch: sort by the longer one.
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
        unrelated.update([pool(state, clean.mask, pooling=pooling) for state in states])
        values = activation_similarity(
            states,
            model.activations(attacked),
            clean_mask=clean.mask,
            attacked_mask=attacked.mask,
            pooling=pooling,
        ).cpu()
        for kind, layer_moments in moments.items():
            selected = [kind in ("all", records[i].outcome) for i in rows]
            layer_moments.update(values[:, torch.tensor(selected)])  # [L, samples of this kind]
    return moments, unrelated.mean
