"""The plain classifier: its encoders and embeddings, alone and under attack."""

import sys
from pathlib import Path

import pytest
import torch

from attacks import PGD
from examples import attention_of_your_own
from layers import Attention, TransformerLayers, WordEmbedding
from lit_modules import CheckpointError, TextClassifier, load
from lit_modules import unused_settings as unused
from lit_modules.shared.radius_objective import RadiusObjective
from tests.unit.lit_modules.builders import SINGLE, attached, batch_of, loader, plain, trainer

PLAIN = WordEmbedding(kind="plain", positions="none")


@pytest.mark.long
@pytest.mark.parametrize("encoder", ["lstm", "transformer"])
def test_an_attack_on_embeddings_finds_a_way(encoder: str) -> None:
    module = attached(plain(encoder=encoder, hidden=6, embedding=PLAIN), classes=2)
    batch = batch_of(module, SINGLE, classes=2)
    x = module.embed(batch).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(module.classify(x, batch.mask).square().sum(), x)
    assert bool((gradient[~batch.mask] == 0).all())
    assert bool((gradient[batch.mask].norm(dim=-1) > 0).all())
    batch.labels = module(batch).argmax(dim=1)
    survived = [
        float(module.attack(PGD(epsilon=radius), batch)["survived"].float().mean())
        for radius in (1e-6, 100.0)
    ]
    assert survived[0] == 1.0
    assert survived[1] < 0.5


def test_the_layers_of_an_lstm_are_shown() -> None:
    module = attached(plain(encoder="lstm", depth=3, hidden=6))
    batch = module.encode_texts(SINGLE)
    shown = module.activations(batch)
    assert [states.shape[-1] for states in shown] == [12, 12, 12]
    assert all(states.shape[:2] == batch.mask.shape for states in shown)


@pytest.mark.parametrize("encoder", ["lstm", "transformer"])
def test_one_output_is_trained_and_comes_back(encoder: str, tmp_path: Path) -> None:
    module = attached(
        plain(encoder=encoder, hidden=6, single_logit=True, embedding=PLAIN), classes=2
    )
    run, batches = trainer(max_epochs=2), loader(module, SINGLE, 3, classes=2)
    run.fit(module, batches, batches)
    logits = module.eval().predict_texts([str(text) for text in SINGLE])
    assert bool((logits[:, 0] == 0).all())
    assert logits.shape == (len(SINGLE), 2)
    run.save_checkpoint(tmp_path / "a.ckpt")
    again = load(tmp_path / "a.ckpt")
    assert isinstance(again, TextClassifier)
    assert torch.equal(again.predict_texts([str(text) for text in SINGLE]), logits)


def test_one_output_for_three_classes_is_refused() -> None:
    with pytest.raises(ValueError, match="got single_logit with 3 classes, expected 2"):
        attached(plain(single_logit=True), classes=3)


def test_wrong_settings() -> None:
    with pytest.raises(ValueError, match=r"got encoder='rnn', expected one of transformer, lstm"):
        TextClassifier(encoder="rnn")  # type: ignore[arg-type] # wrong on purpose
    with pytest.raises(ValueError, match=r"got encoder=lstm with objective.loss=hinge"):
        TextClassifier(encoder="lstm", objective=RadiusObjective(loss="hinge"))
    with pytest.raises(ValueError, match=r"got encoder=mean with embedding.kind=plain"):
        TextClassifier(encoder="mean", embedding=PLAIN)
    with pytest.raises(ValueError, match="got depth=0, expected a whole number of at least 1"):
        TextClassifier(encoder="lstm", depth=0)
    with pytest.raises(ValueError, match=r"got layers\.feedforward=0"):
        TextClassifier(layers=TransformerLayers(feedforward=0))
    with pytest.raises(ValueError, match="got hidden=0"):
        TextClassifier(encoder="lstm", hidden=0)


def test_settings_without_effect_are_said() -> None:
    wide = TransformerLayers(feedforward=9)
    assert list(unused(TextClassifier(encoder="lstm", layers=wide))) == [
        "layers.feedforward=9 has no effect with encoder=lstm"
    ]
    assert list(unused(TextClassifier(hidden=9, embedding_norm=3.0, embedding=PLAIN))) == [
        "hidden=9 has no effect with encoder=transformer",
        "embedding_norm=3.0 has no effect with embedding.kind=plain",
    ]


def test_an_lstm_says_why_it_has_no_certificate() -> None:
    assert "LSTM" in str(TextClassifier(encoder="lstm").no_certificate)
    assert "Transformer" in str(TextClassifier().no_certificate)
    untied = TextClassifier(attention=Attention(kind="l2"))
    assert "Lemma F.1" in str(untied.no_certificate)


def test_a_checkpoint_does_not_import_an_own_attention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(attention_of_your_own.__file__).read_text()
    (tmp_path / "my_file.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        module = attached(plain(attention=Attention(kind="my_file.NearAttention")))
        run, batches = trainer(), loader(module, SINGLE, 3)
        run.fit(module, batches, batches)
        run.save_checkpoint(tmp_path / "a.ckpt")
        texts = [str(text) for text in SINGLE]
        expected = module.eval().predict_texts(texts)
        assert torch.equal(load(tmp_path / "a.ckpt").predict_texts(texts), expected)
        del sys.modules["my_file"]
        with pytest.raises(CheckpointError, match=r"a\.ckpt.*runs no code: import my_file first"):
            load(tmp_path / "a.ckpt")
        assert "my_file" not in sys.modules
    finally:
        sys.modules.pop("my_file", None)
