"""ONNX files give the logits of the model; where there is none, the reason is said."""

from pathlib import Path

import numpy as np
import pytest
import torch

from app import export as onnx_file
from app.export import write_onnx
from layers import OrthogonalLinear
from layers.orthogonal import METHODS as ORTHOGONAL
from tests.unit.lit_modules.builders import METHODS, PAIRS, SINGLE, Build, attached, olsa, plain
from text import collate

OPTIONS = olsa(value_clip=0.7, offset_heads=2, feedforward=True, mean_norm=True, head_bias=True)
WORK = [
    # One layer: torch's exporter takes ten seconds or more for each, and exports them one by one.
    pytest.param(OPTIONS, False, id="olsa, all options", marks=pytest.mark.slow),
    # Segments of pairs are embedded alike in all of them.
    pytest.param(METHODS["mean"], True, id="mean, pairs"),
    pytest.param(METHODS["transformer"], False, id="transformer, 2 layers", marks=pytest.mark.slow),
]


def needed() -> None:
    for name in onnx_file.LIBRARIES:
        pytest.importorskip(name, reason="not installed: pip install 'steadfast-nlp[onnx]'")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(("build", "pairs"), WORK)
def test_the_same_logits(build: Build, pairs: bool, tmp_path: Path) -> None:
    needed()
    import onnxruntime

    module = attached(build, pairs=pairs)
    assert write_onnx(module, tmp_path / "model.onnx") is None
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    names = {one.name for one in session.get_inputs()}
    tokenizer = module.require_tokenizer()
    texts = PAIRS if pairs else SINGLE
    # As one padded batch, and each alone: neither size nor padding changes a logit.
    for given in (texts, *([one] for one in texts)):
        batch = collate(tokenizer.encode(given), pad_id=tokenizer.pad_id, pairs=pairs)
        inputs = {"input_ids": batch.input_ids, "mask": batch.mask}
        if batch.segment_ids is not None:
            inputs["segment_ids"] = batch.segment_ids
        assert names <= set(inputs)
        [found] = session.run(None, {name: inputs[name].numpy() for name in names})
        with torch.no_grad():
            expected = module(batch).numpy()
        np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("method", ORTHOGONAL)
def test_orthogonal_maps_are_plain_matrices(method: str) -> None:
    """So the exported graph is the same for all parametrisations."""
    module = attached(olsa(orthogonal=method))
    exported = onnx_file._PlainModel(module)
    maps = [layer for layer in exported.modules() if isinstance(layer, OrthogonalLinear)]
    assert maps
    for layer in maps:
        layer.raw.fill_(torch.nan)
    batch = module.encode_texts(SINGLE)
    with torch.no_grad():
        assert torch.equal(exported(batch.input_ids, batch.mask), module(batch))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_an_lstm_cannot_be_exported(tmp_path: Path) -> None:
    needed()
    reason = write_onnx(attached(plain(encoder="lstm", hidden=6)), tmp_path / "model.onnx")
    assert reason is not None
    assert reason.startswith("torch cannot export this model (")
    assert "\n" not in reason
    assert not list(tmp_path.iterdir())


def test_other_logits_are_no_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: True)
    monkeypatch.setattr(onnx_file, "_export", lambda *given: given[-1].touch())
    monkeypatch.setattr(onnx_file, "_max_difference", lambda *_: float("nan"))
    reason = write_onnx(attached(plain()), tmp_path / "model.onnx")
    assert reason == "the logits of the file would differ from the model's by nan"
    assert not list(tmp_path.iterdir())


def test_what_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    reason = write_onnx(attached(plain()), tmp_path / "model.onnx")
    install = "pip install 'steadfast-nlp[onnx]'"
    assert reason == f"onnx, onnxruntime, onnxscript not installed: {install}"
