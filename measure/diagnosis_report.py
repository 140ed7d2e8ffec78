"""Report the results of `diagnose`: files, TensorBoard and a table."""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attacks.digests import file_digest
from measure.charts import Series, error_bars, pixels
from measure.diagnosis import Diagnosis
from run_files import atomic
from run_files.event_files import evaluation_writer
from run_files.ledger import attack_ledger
from run_files.run_directory import RunDirectory
from run_files.terminal import harmless
from run_files.version import versions
from text.bounded_files import DataError, read_json
from text.file_lock import locked
from text.subjects import Subject


def write(
    run: RunDirectory, recipe: str, diagnoses: Sequence[Diagnosis], options: Mapping[str, Any]
) -> None:
    """Write the results into a run: JSON, PNG and TensorBoard.

    The JSON file keeps its results under other attacks. The first diagnosis is that of the run, the
    others are compared with it; the results depend on `options`.

    Raises:
        OSError: a file cannot be written.
    """
    first, *rest = diagnoses
    path = run.path / "diagnostics.json"
    outcome = {
        **first.line(),
        "against": [diagnosis.line() for diagnosis in rest],
        "options": dict(options),
    }
    # Two recipes may be diagnosed at the same time.
    with locked(path):
        attacks = {**_before(path), recipe: outcome}
        content = {"run": run.name, "attacks": attacks, "versions": versions()}
        atomic.write_text(path, json.dumps(content, indent=2) + "\n")
    figure = error_bars(
        [
            Series(
                name=diagnosis.label(),
                x=range(1, len(diagnosis.similarities["all"].mean) + 1),
                mean=diagnosis.similarities["all"].mean,
                std=diagnosis.similarities["all"].std,
                reference=diagnosis.unrelated or None,
            )
            for diagnosis in diagnoses
        ],
        run.path / "layer_similarity.png",
        x_label="layer",
        y_label="cosine similarity, mean ± std",
        title=f"Activations before and after {recipe}",
        reference="two different clean texts",
        description="; ".join(f"{diagnosis.run}: {diagnosis.weights}" for diagnosis in diagnoses),
    )
    # The distances have the same names under each recipe: the last recipe overwrites them.
    with closing(evaluation_writer(run, "diagnose")) as writer:
        for name, value in asdict(first.distances).items():
            if value is not None:
                writer.add_scalar(f"diagnostics/distance_{name}", value, 0)
    writer = evaluation_writer(run, f"diagnose-{recipe}")
    tag, moments = f"diagnostics/{recipe}", first.similarities["all"]
    for layer, (mean, std) in enumerate(zip(moments.mean, moments.std, strict=True), start=1):
        # The axis of this curve is the layer, not the training step.
        writer.add_scalar(f"{tag}/similarity", mean, layer)
        writer.add_scalar(f"{tag}/similarity_std", std, layer)
    writer.add_image(f"{tag}/layer_similarity", pixels(figure), 0, dataformats="HWC")
    writer.close()


def _before(path: Path) -> dict[str, Any]:
    """Return the former results by recipe; empty if the file is unreadable."""
    try:
        content = read_json(path, "results of diagnose")
    except DataError:
        return {}
    attacks = content.get("attacks") if isinstance(content, dict) else None
    return attacks if isinstance(attacks, dict) else {}


def stored_subject(run: RunDirectory, recipe: str) -> Subject | None:
    """Return the subject of the results under an attack; None without readable results."""
    try:
        diagnosis = _before(run.path / "diagnostics.json")[recipe]
        subject: dict[str, Any] = dict(diagnosis["options"])
        for model in (diagnosis, *diagnosis["against"]):
            checkpoint, texts = model["weights"]["checkpoint"], model["texts"]
            subject |= _model_subject(model["run"], checkpoint, texts)
    except (KeyError, TypeError, ValueError):
        return None
    return subject


def present_subject(run: RunDirectory, recipe: str, options: Subject) -> Subject:
    """Return the subject that the results of a run have now, if it is measured with options."""
    subject = dict(options)
    for model in (run, *(RunDirectory(run.path.parent / name) for name in options["against"])):
        attacked = run if options["same_texts"] else model
        files = model.chosen, attack_ledger(attacked, recipe).records_path
        digests = (file_digest(path) if path.is_file() else None for path in files)
        subject |= _model_subject(model.name, *digests)
    return subject


def _model_subject(run: str, weights: str | None, texts: str | None) -> dict[str, str | None]:
    return {f"weights of {run}": weights, f"texts of {run}": texts}


def table(diagnoses: Sequence[Diagnosis]) -> str:
    """Return the results as a table."""
    lines = []
    for diagnosis in diagnoses:
        distances, texts = diagnosis.distances, diagnosis.texts
        counts = {kind: moments.count for kind, moments in diagnosis.similarities.items()}
        lines += [
            f"\n{diagnosis.label()}: {diagnosis.method}, {diagnosis.weights.file}",
            f"distance to the boundary, {distances.count} of {len(texts.records)} clean texts: "
            f"mean {distances.mean:.4g}, variance {distances.variance:.4g}, "
            f"d_s {_number(distances.normalized)}, mean/std {_number(distances.ratio)}",
            f"similarity of activations ({diagnosis.pooling}), {counts['all']} texts changed by "
            f"{texts.recipe} on {texts.run.name} ({counts['succeeded']} succeeded, "
            f"{counts['failed']} failed; {texts.words_changed:.1%} of their words)",
        ]
        moments = diagnosis.similarities["all"]
        # The baseline: two unrelated texts may be similar as well.
        chance = [f"{value:.3f}" for value in diagnosis.unrelated] or ["-"] * len(moments.mean)
        lines += [
            f"  layer {layer:>2}  {mean:.3f} ± {std:.3f}   two different texts {other}"
            for layer, (mean, std, other) in enumerate(
                zip(moments.mean, moments.std, chance, strict=True), 1
            )
        ]
    return harmless("\n".join(lines).lstrip("\n"))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
