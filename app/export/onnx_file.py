"""A classifier as an ONNX file, which is kept where its logits are those of the model."""

import copy
import importlib.util
import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from layers import OrthogonalLinear
from lit_modules import TaskModule
from text import Batch, collate

FILE = "model.onnx"
NEEDED = ("onnx", "onnxruntime", "onnxscript")
SAME = 1e-4
"""Largest difference of logits, as a share of the largest one but of at least 1."""
_WORDS = ("a", "good", "bad", "film", "the", "not", "very", ".", "and", "soup", "cold", "waiter")
# Lengths and sizes of batches that are compared: the first one is what the graph is made from.
_SIZES = ((2, 5, 8), (1,), (12, 3, 1, 7, 9))


def write_onnx(model: TaskModule, path: Path) -> str | None:
    """Writes the file; returns the reason where there is none.

    Inputs are `input_ids` `[B, N]` int64, `mask` `[B, N]` bool (True at real tokens) and, of a
    pretrained encoder that reads them, `segment_ids`; the output is `logits` `[B, C]`. B and N are
    free.

    Args:
        model: a classifier or a regression.
        path: of the file, in a folder that is there.
    """
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        return f"{', '.join(missing)} not installed: pip install 'steadfast[onnx]'"
    try:
        given = [_inputs(model, lengths) for lengths in _SIZES]
        _export(model, given[0], path)
        worst = _difference(model, given, path)
    except Exception as error:  # torch has many, for operators and for sizes it cannot export
        path.unlink(missing_ok=True)
        return f"torch cannot export this model ({_first_line(error)})"
    if not worst <= SAME:
        path.unlink(missing_ok=True)
        return f"the logits of the file would differ from the model's by {worst:.2g}"
    return None


class _Plain(nn.Module):
    """A model from tensors, with its orthogonal maps as plain matrices."""

    def __init__(self, model: TaskModule) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        for layer in self.model.modules():
            if isinstance(layer, OrthogonalLinear):
                layer.fix(layer.weight().clone())

    def forward(self, input_ids: Tensor, mask: Tensor, segment_ids: Tensor | None = None) -> Tensor:
        ids = torch.zeros(input_ids.shape[0], dtype=torch.int64)
        batch = Batch(
            input_ids=input_ids, mask=mask, labels=None, sample_ids=ids, segment_ids=segment_ids
        )
        logits: Tensor = self.model(batch)
        return logits


def _export(model: TaskModule, given: dict[str, Tensor], path: Path) -> None:
    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    shapes = dict.fromkeys(given, free)
    quiet = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(
                _Plain(model), (), given, dynamic_shapes=shapes, strict=False
            )
            program = program.run_decompositions(_SPELT_OUT)
            torch.onnx.export(
                program,
                (),
                str(path),
                kwargs=given,
                input_names=list(given),
                output_names=["logits"],
                dynamic_shapes=shapes,
                dynamo=True,
                external_data=False,
                verbose=False,
            )
    finally:
        logging.disable(quiet)


def _distances(x: Tensor, y: Tensor, p: float, compute_mode: int | None = None) -> Tensor:
    """`torch.cdist` for l1, which ONNX has no operator for."""
    del compute_mode
    if p != 1:
        msg = f"got distances of order {p}, expected 1"
        raise ValueError(msg)
    return (x.unsqueeze(-2) - y.unsqueeze(-3)).abs().sum(-1)


def _maximum(x: Tensor, dim: tuple[int, ...] = (), keepdim: bool = False) -> Any:
    """`amax` of all values, which torch's exporter asks a dimension of."""
    if dim or keepdim:
        return NotImplemented
    return x.flatten().amax(0)


_SPELT_OUT: dict[Any, Any] = {
    torch.ops.aten.cdist.default: _distances,
    torch.ops.aten.amax.default: _maximum,
}
"""Operators that torch's exporter does not know, in terms of others."""


@torch.no_grad()
def _difference(model: TaskModule, given: list[dict[str, Tensor]], path: Path) -> float:
    """The largest difference of logits, see `SAME`."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    plain, worst = _Plain(model), 0.0
    for one in given:
        expected = plain(**one)
        [found] = session.run(None, {name: tensor.numpy() for name, tensor in one.items()})
        largest = float(expected.abs().max().clamp_min(1))
        worst = max(worst, float((torch.from_numpy(found) - expected).abs().max()) / largest)
    return worst


def _inputs(model: TaskModule, lengths: tuple[int, ...]) -> dict[str, Tensor]:
    """A padded batch of texts of so many words."""
    tokenizer = model.require_tokenizer()
    texts: list[Any] = [" ".join(_WORDS[:n]) for n in lengths]
    if model.pairs:
        texts = [(text, " ".join(reversed(text.split()))) for text in texts]
    batch = collate(tokenizer.encode(texts), pad_id=tokenizer.pad_id, pairs=model.pairs)
    found = {"input_ids": batch.input_ids, "mask": batch.mask}
    return found if batch.segment_ids is None else found | {"segment_ids": batch.segment_ids}


def _first_line(error: Exception) -> str:
    """The cause of an error of torch's exporter, which quotes pages of it."""
    while error.__cause__ is not None and isinstance(error.__cause__, Exception):
        error = error.__cause__
    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
    return f"{type(error).__name__}: {lines[0].strip():.160}"
