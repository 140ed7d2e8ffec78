"""What `diagnose` measures of a model, and where that is filed (docs/diagnostics.md)."""

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

import lit_modules
from app import atomic
from app.attack_files import AttackFiles
from app.figures import Series, error_bars, pixels
from app.run_directory import RunDirectory
from app.session import digest
from app.terminal import harmless
from app.version import versions
from attacks.goals import Score
from attacks.recipes import RECIPES
from attacks.records import AttackRecord, from_line
from attacks.summary import Summary, summarise
from datamodules.sampler import permutation
from lit_modules import Classifier
from lit_modules.diagnostics import (
    DistanceSummary,
    LayerMoments,
    Pooling,
    activation_similarity,
    boundary_distances,
)
from text import Text, WordTokenizer, collate, length_batches

log = logging.getLogger(__name__)

KINDS = ("all", "succeeded", "failed")
"""What similarities are told apart by: how the attack ended."""
_CHOICE = 5
"""Key of the permutation that draws records, apart from those of corpora and attacks."""


@dataclass(frozen=True, kw_only=True)
class Records:
    """What an attack has made of a run's samples.

    Attributes:
        run: the run that was attacked.
        recipe: what the attack is filed under.
        records: those that are measured.
        about: what the attack was about.
        summary: its figures, of these records.
    """

    run: RunDirectory
    recipe: str
    records: list[AttackRecord]
    about: dict[str, Any]
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
    """What was measured of one model.

    Attributes:
        run: its name.
        method: its class.
        checkpoint: file of its weights.
        texts: whose records its texts are from.
        pooling: which vector stands for a text.
        distances: of the clean texts.
        similarities: by how the attack ended: all of them, and what `KINDS` has.
    """

    run: str
    method: str
    checkpoint: str
    texts: Records
    pooling: Pooling
    distances: DistanceSummary
    similarities: dict[str, LayerMoments]

    def line(self) -> dict[str, Any]:
        """As JSON."""
        summary = self.texts.summary
        return {
            "run": self.run,
            "method": self.method,
            "checkpoint": self.checkpoint,
            "texts_of": self.texts.run.name,
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
        make = recipe if recipe in RECIPES else f"RECIPE ({', '.join(RECIPES)})"
        msg = (
            f"got --recipe {recipe} and run {run.name}, {there}; expected records of an attack: "
            f"`python -m app attack --run {run.name} --attack {make}` makes them"
        )
        raise ValueError(msg)
    files = AttackFiles(run, recipe)
    try:
        every = [from_line(line) for line in files.records()]
    except (AttributeError, TypeError) as error:
        msg = f"got {files.outcome} with other fields than records of attacks have; delete it"
        raise ValueError(msg) from error
    if len(every) > samples:
        every = [every[i] for i in sorted(permutation(len(every), _CHOICE)[:samples].tolist())]
    about = _about(files)
    score: Score = "probability" if about.get("score") == "probability" else "margin"
    if not any(map(_has_changed, every)):
        msg = (
            f"got {len(every)} record(s) in {files.outcome} of which none has a changed text, "
            "expected some: attack more samples with --attack.num_samples, or with another recipe"
        )
        raise ValueError(msg)
    return Records(
        run=run,
        recipe=recipe,
        records=every,
        about=about,
        summary=summarise(every, score=score),
    )


def _has_changed(record: AttackRecord) -> bool:
    return record.adversarial not in (None, record.text)


def _about(files: AttackFiles) -> dict[str, Any]:
    """What an attack was about; nothing where that cannot be read."""
    try:
        about = json.loads(files.side.read_text())["about"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return about if isinstance(about, dict) else {}


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
        pooling: which vector stands for a text; by the tokenizer if None.
        batch_size: texts per forward pass.
        device: where.

    Raises:
        ValueError: the checkpoint cannot be used, the method has no layers to show, or no sample is
            classified rightly.
    """
    model = lit_modules.load(checkpoint).to(device)
    known = texts.about.get("checkpoint")
    if texts.run.path == run.path and known not in (None, "none", digest(checkpoint)):
        log.warning("%s was made against another checkpoint than %s", texts.recipe, checkpoint)
    if pooling is None:
        pooling = "mean" if isinstance(model.tokenizer, WordTokenizer) else "first"
    logits = model.predict_texts([one.text for one in texts.records], batch_size=batch_size)
    labels = torch.tensor([one.label for one in texts.records], device=device)
    return Diagnosis(
        run=run.name,
        method=type(model).__name__,
        checkpoint=checkpoint.name,
        texts=texts,
        pooling=pooling,
        distances=DistanceSummary.of(boundary_distances(logits, labels)),
        similarities=_similarities(model, texts.changed, pooling, batch_size),
    )


def _similarities(
    model: Classifier, records: Sequence[AttackRecord], pooling: Pooling, batch_size: int
) -> dict[str, LayerMoments]:
    tokenizer, _ = model.require_text()
    pairs: list[tuple[Text, Text]] = [
        (one.text, one.adversarial) for one in records if one.adversarial is not None
    ]
    before = tokenizer.encode([clean for clean, _ in pairs])
    after = tokenizer.encode([attacked for _, attacked in pairs])
    lengths = [max(len(a.input_ids), len(b.input_ids)) for a, b in zip(before, after, strict=True)]
    moments = {kind: LayerMoments() for kind in KINDS}
    for rows in length_batches(lengths, batch_size):
        clean, attacked = (
            collate([encodings[i] for i in rows], pad_id=tokenizer.pad_id, pairs=model.pairs).to(
                model.device
            )
            for encodings in (before, after)
        )
        values = activation_similarity(
            model.activations(clean),
            model.activations(attacked),
            clean_mask=clean.mask,
            attacked_mask=attacked.mask,
            pooling=pooling,
        ).cpu()
        for kind, one in moments.items():
            chosen = [kind in ("all", records[i].outcome) for i in rows]
            one.update(values[:, torch.tensor(chosen)])
    return moments


def write(run: RunDirectory, recipe: str, found: Sequence[Diagnosis]) -> None:
    """File what was measured in a run: JSON, PNG and TensorBoard.

    What was measured under other attacks stays in the JSON file.

    Args:
        run: where.
        recipe: the attack.
        found: the run's own, and then those it is compared with.

    Raises:
        OSError: a file cannot be written.
    """
    from torch.utils.tensorboard import SummaryWriter

    first, *rest = found
    path = run.path / "diagnostics.json"
    content = {
        "run": run.name,
        "attacks": {
            **_before(path),
            recipe: {**first.line(), "against": [one.line() for one in rest]},
        },
        "versions": versions(),
    }
    atomic.write_text(path, json.dumps(content, indent=2) + "\n")
    figure = error_bars(
        [_series(one) for one in found],
        run.path / "layer_similarity.png",
        x_label="layer",
        y_label="cosine similarity, mean ± std",
        title=f"Activations before and after {recipe}",
    )
    writer = SummaryWriter(str(run.path))
    tag, moments = f"diagnostics/{recipe}", first.similarities["all"]
    for name, value in asdict(first.distances).items():
        if value is not None:
            writer.add_scalar(f"diagnostics/distance_{name}", value, 0)
    for layer, (mean, std) in enumerate(zip(moments.mean, moments.std, strict=True), start=1):
        # A curve over layers, where others are over steps.
        writer.add_scalar(f"{tag}/similarity", mean, layer)
        writer.add_scalar(f"{tag}/similarity_std", std, layer)
    writer.add_image(f"{tag}/layer_similarity", pixels(figure), 0, dataformats="HWC")
    writer.close()


def _before(path: Path) -> dict[str, Any]:
    """What was measured before; nothing where that cannot be read."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    attacks = content.get("attacks") if isinstance(content, dict) else None
    return attacks if isinstance(attacks, dict) else {}


def _series(one: Diagnosis) -> Series:
    moments = one.similarities["all"]
    layers = range(1, len(moments.mean) + 1)
    return Series(name=one.label(), x=layers, mean=moments.mean, std=moments.std)


def table(found: Sequence[Diagnosis]) -> str:
    """What was measured, for people."""
    lines = []
    for one in found:
        distances, texts = one.distances, one.texts
        counts = {kind: moments.count for kind, moments in one.similarities.items()}
        lines += [
            f"\n{one.label()}: {one.method}, {one.checkpoint}",
            f"distance to the boundary, {distances.count} of {len(texts.records)} clean texts: "
            f"mean {distances.mean:.4g}, variance {distances.variance:.4g}, "
            f"d_s {_number(distances.normalized)}, mean/std {_number(distances.ratio)}",
            f"similarity of activations ({one.pooling}), {counts['all']} texts changed by "
            f"{texts.recipe} on {texts.run.name} ({counts['succeeded']} succeeded, "
            f"{counts['failed']} failed; {texts.words_changed:.1%} of their words)",
        ]
        moments = one.similarities["all"]
        lines += [
            f"  layer {layer:>2}  {mean:.3f} ± {std:.3f}"
            for layer, (mean, std) in enumerate(zip(moments.mean, moments.std, strict=True), 1)
        ]
    return harmless("\n".join(lines).lstrip("\n"))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
