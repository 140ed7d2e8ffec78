"""The model card of an exported folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from lit_modules import TaskModule, TextModule
from run_files.results import Results
from run_files.version import line
from run_files.weights import Weights

_MEASURED = ("test/", "val/", "certify/", "attack/")


def model_card(
    model: TextModule, weights: Weights, results: Results | None, formats: Sequence[str]
) -> str:
    """Return the card as Markdown, with metadata for the hub in front.

    It leaves out figures in `results` (None without a run) that are of other weights; `formats` are
    sentences about the other formats in the folder.
    """
    method, task = type(model).__name__, model.task.name if isinstance(model, TaskModule) else ""
    length = model.require_tokenizer().max_length
    file = f"{weights.file}, step {weights.step}, SHA-256 of the file {weights.checkpoint}"
    rows = [("method", method), ("weights", file)]
    no_certificate: str | None = "the model is not a classifier"
    if isinstance(model, TaskModule):
        names = model.require_text()[1]
        rows.append(("task", f"{task}{' of pairs' if model.pairs else ''}"))
        rows += [("classes", ", ".join(names))] if names else []
        no_certificate = model.no_certificate
    rows.append(("longest text", f"{length} tokens"))
    title, stages, metrics = method, None, dict[str, float | None]()
    if results is not None:
        title = f"{method} on {results['corpus']}"
        stages, metrics = _of_weights(results, weights.checkpoint)
        rows += [("run", results["run"]), ("seed of the training", str(results["seed"]))]
        digests = {
            f"{split}: {digest}"
            for evaluation in stages.values()
            for split, digest in evaluation.get("rows", {}).items()
        }
        rows += [("SHA-256 of the rows", digest) for digest in sorted(digests)]
    rows.append(("written by", line()))
    evaluations = [
        EvalResult(
            task_type="text-classification" if task == "classification" else task or method,
            dataset_type=results["corpus"],
            dataset_name=results["corpus"],
            metric_type=metric,
            metric_value=value,
        )
        for metric, value in metrics.items()
        if results is not None and value is not None
    ]
    card = ModelCard.from_template(
        ModelCardData(library_name="steadfast", model_name=title, eval_results=evaluations or None),
        template_path=str(Path(__file__).with_name("model_card.md.j2")),
        title=title,
        # A cell of a table is one line.
        rows=[(name, " ".join(value.split()).replace("|", "\\|")) for name, value in rows],
        stages=stages,
        metrics=metrics,
        no_certificate=no_certificate,
        predicts=task in ("classification", "regression"),
        pairs=isinstance(model, TaskModule) and model.pairs,
        formats=formats,
        length=length,
    )
    return f"{card}\n"


def _of_weights(
    results: Results, checkpoint: str
) -> tuple[dict[str, dict[str, Any]], dict[str, float | None]]:
    """Return the stages of exactly these weights, and their metrics; a run may have others."""
    stages = {
        stage: evaluation
        for stage, evaluation in results.get("about", {}).items()
        if evaluation["checkpoint"] == checkpoint
    }
    # `validate` writes its metrics under val/, each other stage under its name.
    prefixes = tuple(f"{'val' if stage == 'validate' else stage}/" for stage in stages)
    metrics = {
        metric: value
        for metric, value in sorted(results["metrics"].items())
        if metric.startswith(_MEASURED) and metric.startswith(prefixes)
    }
    return stages, metrics
