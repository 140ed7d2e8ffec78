"""Trained models for others: the model card, and ONNX.

An ONNX file is kept only if its logits are those of the model.
"""

import copy
import importlib.util
import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from torch import Tensor, nn

from datamodules import Corpus
from layers import OrthogonalLinear
from lit_modules import TaskModule, TextModule
from measure.verdict import VerdictFigure
from run_files.results import Results
from run_files.version import line
from run_files.weights import Weights
from text import Batch, collate
from text.extras import install

# The model card


_MEASURED = ("test/", "val/", "certify/", "attack/")


def model_card(
    model: TextModule,
    weights: Weights,
    results: Results | None,
    formats: Sequence[str],
    *,
    corpus: type[Corpus] | None = None,
    figures: Sequence[VerdictFigure] = (),
    for_transformers: bool = False,
) -> str:
    """Return the card as Markdown, with metadata for the hub in front.

    It has the results of exactly these weights; `figures` are of the verdict on the run, for the
    metadata. `formats` are sentences about the other formats in the folder; `for_transformers` is
    True if `transformers` loads the classifier.
    """
    method, task = type(model).__name__, model.task.name if isinstance(model, TaskModule) else ""
    rows = _model_rows(model, weights)
    kind = "text-classification" if task == "classification" else task or method
    title, stages, metrics = method, None, dict[str, float | None]()
    evaluations: list[EvalResult] = []
    if results is not None:
        title = f"{method} on {results['corpus']}"
        stages, metrics = _of_weights(results, weights.checkpoint)
        rows += [("run", results["run"]), ("seed of the training", str(results["seed"]))]
        splits = (evaluation.get("rows", {}).items() for evaluation in stages.values())
        digests = {f"{split}: {digest}" for pairs in splits for split, digest in pairs}
        rows += [("SHA-256 of the rows", digest) for digest in sorted(digests)]
        own = [figure for figure in figures if figure.name in metrics]
        evaluations = _evaluations(results["corpus"], corpus, kind, own)
    rows.append(("written by", line()))
    loads = for_transformers and task == "classification"
    card = ModelCard.from_template(
        ModelCardData(
            library_name="transformers" if for_transformers else "steadfast",
            pipeline_tag="text-classification" if loads else None,
            tags=["steadfast", "robustness"],
            model_name=title,
            eval_results=evaluations or None,
        ),
        template_path=str(Path(__file__).with_name("model_card.md.j2")),
        title=title,
        # A cell of a table is one line.
        rows=[(name, " ".join(value.split()).replace("|", "\\|")) for name, value in rows],
        stages=stages,
        metrics=metrics,
        no_certificate=getattr(model, "no_certificate", "the model is not a classifier"),
        predicts=task in ("classification", "regression"),
        for_transformers=loads,
        pairs=isinstance(model, TaskModule) and model.pairs,
        formats=formats,
        length=model.require_tokenizer().max_length,
    )
    return f"{card}\n"


def _model_rows(model: TextModule, weights: Weights) -> list[tuple[str, str]]:
    """Return the rows of the card about the model, without its run: names and values."""
    file = f"{weights.file}, step {weights.step}, SHA-256 of the file {weights.checkpoint}"
    rows = [("method", type(model).__name__), ("weights", file)]
    if isinstance(model, TaskModule):
        names = model.require_text()[1]
        rows.append(("task", f"{model.task.name}{' of pairs' if model.pairs else ''}"))
        rows += [("classes", ", ".join(names))] if names else []
    return [*rows, ("longest text", f"{model.require_tokenizer().max_length} tokens")]


def _evaluations(
    name: str, corpus: type[Corpus] | None, kind: str, figures: Sequence[VerdictFigure]
) -> list[EvalResult]:
    """Return the figures of a verdict as the hub has them."""
    # Only corpora of labelled texts have names on the hub.
    splits = getattr(corpus, "hub_splits", {})
    return [
        EvalResult(
            task_type=kind,
            dataset_type=getattr(corpus, "hub_id", None) or name,
            dataset_name=name,
            dataset_config=getattr(corpus, "hub_config", None),
            dataset_split=splits.get("test", "test"),
            metric_type=figure.name.rpartition("/")[2].partition("@")[0],
            metric_name=figure.title,
            metric_value=figure.value,
        )
        for figure in figures
    ]


def _of_weights(
    results: Results, checkpoint: str
) -> tuple[dict[str, dict[str, Any]], dict[str, float | None]]:
    """Return the stages of exactly these weights, and their metrics; a run may have others."""
    about = results.get("about", {})
    stages = {stage: about[stage] for stage in about if about[stage]["checkpoint"] == checkpoint}
    # `validate` writes its metrics under val/, each other stage under its name.
    prefixes = tuple(f"{'val' if stage == 'validate' else stage}/" for stage in stages)
    metrics = [m for m in results["metrics"] if m.startswith(_MEASURED) and m.startswith(prefixes)]
    return stages, {metric: results["metrics"][metric] for metric in sorted(metrics)}


# ONNX


FILE = "model.onnx"
LIBRARIES = ("onnx", "onnxruntime", "onnxscript")
TOLERANCE = 1e-4
"""Largest difference of logits, relative to the largest one or 1."""
_WORDS = ("a", "good", "bad", "film", "the", "not", "very", ".", "and", "soup", "cold", "waiter")
# Lengths of the texts in the compared batches; the first batch is traced, the others test B and N.
_SIZES = ((2, 5, 8), (1,), (12, 3, 1, 7, 9))


def write_onnx(model: TaskModule, path: Path) -> str | None:
    """Write the file; return the reason if that is impossible.

    Inputs are `input_ids` `[B, N]` int64, `mask` `[B, N]` bool (True at real tokens) and, of a
    pretrained encoder that reads them, `segment_ids`; the output is `logits` `[B, C]`. B and N are
    free.
    """
    if missing := [name for name in LIBRARIES if importlib.util.find_spec(name) is None]:
        return f"{', '.join(missing)} not installed: {install('onnx')}"
    try:
        plain = _PlainModel(model)
        batches = [_tensors(sample_batch(model, lengths)) for lengths in _SIZES]
        _export(plain, batches[0], path)
        difference = _max_difference(plain, batches, path)
    except Exception as error:  # torch has many kinds, for operators and sizes it cannot export
        path.unlink(missing_ok=True)
        # The first cause: torch's exporter wraps it in errors that quote pages of the graph.
        cause: BaseException = error
        while isinstance(cause.__cause__, Exception):
            cause = cause.__cause__
        line = next((line.strip() for line in str(cause).splitlines() if line.strip()), "")
        return f"torch cannot export this model ({type(cause).__name__}: {line:.160})"
    if not difference <= TOLERANCE:  # also true for NaN
        path.unlink(missing_ok=True)
        return f"the logits of the file would differ from the model's by {difference:.2g}"
    return None


class _PlainModel(nn.Module):
    """A model that takes tensors, with its orthogonal maps as plain matrices."""

    def __init__(self, model: TaskModule) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        # Else the graph would orthogonalise the weights again in each call.
        for layer in self.model.modules():
            if isinstance(layer, OrthogonalLinear):
                layer.fix(layer.weight().clone())

    def forward(self, input_ids: Tensor, mask: Tensor, segment_ids: Tensor | None = None) -> Tensor:
        ids = torch.zeros(input_ids.shape[0], dtype=torch.int64)
        batch = Batch(input_ids, mask, labels=None, sample_ids=ids, segment_ids=segment_ids)
        logits: Tensor = self.model(batch)
        return logits


def _export(model: nn.Module, inputs: dict[str, Tensor], path: Path) -> None:
    # Both dimensions of [B, N] are free.
    shapes = dict.fromkeys(inputs, dict.fromkeys((0, 1), torch.export.Dim.DYNAMIC))
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(model, (), inputs, dynamic_shapes=shapes, strict=False)
            # Traces the whole model again: a third of the time of most exports.
            if any(node.target in _DECOMPOSITIONS for node in program.graph.nodes):
                program = program.run_decompositions(_DECOMPOSITIONS)
            torch.onnx.export(
                program,
                (),
                str(path),
                kwargs=inputs,
                input_names=list(inputs),
                output_names=["logits"],
                dynamic_shapes=shapes,
                dynamo=True,
                external_data=False,
                verbose=False,
            )
    finally:
        logging.disable(level)


def _distances(x: Tensor, y: Tensor, p: float, compute_mode: int | None = None) -> Tensor:
    """Return `torch.cdist` for l1, for which ONNX has no operator."""
    del compute_mode
    if p != 1:
        msg = f"got distances of order {p}, expected 1"
        raise ValueError(msg)
    return (x.unsqueeze(-2) - y.unsqueeze(-3)).abs().sum(-1)


def _maximum(x: Tensor, dim: tuple[int, ...] = (), keepdim: bool = False) -> Any:
    """Return `amax` of all values: torch's exporter demands a dimension."""
    if dim or keepdim:
        return NotImplemented
    return x.flatten().amax(0)


_DECOMPOSITIONS: dict[Any, Any] = {
    torch.ops.aten.cdist.default: _distances,
    torch.ops.aten.amax.default: _maximum,
}
"""Operators that torch's exporter does not know, by others."""


@torch.no_grad()
def _max_difference(model: nn.Module, batches: list[dict[str, Tensor]], path: Path) -> float:
    """Return the largest difference of logits, see `TOLERANCE`."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    differences = []
    for inputs in batches:
        expected = model(**inputs)  # [B, C]
        [logits] = session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
        # Relative to large logits, absolute for small ones.
        scale = float(expected.abs().max().clamp_min(1))
        differences.append(float((torch.from_numpy(logits) - expected).abs().max()) / scale)
    return max(differences)


def sample_batch(model: TaskModule, lengths: tuple[int, ...]) -> Batch:
    """Return a padded batch of texts, or pairs, with these numbers of common words."""
    tokenizer = model.require_tokenizer()
    texts: list[Any] = [" ".join(_WORDS[:n]) for n in lengths]
    if model.pairs:
        texts = [(text, " ".join(reversed(text.split()))) for text in texts]
    return collate(tokenizer.encode(texts), pad_id=tokenizer.pad_id, pairs=model.pairs)


def _tensors(batch: Batch) -> dict[str, Tensor]:
    inputs = {"input_ids": batch.input_ids, "mask": batch.mask}
    return inputs if batch.segment_ids is None else inputs | {"segment_ids": batch.segment_ids}
