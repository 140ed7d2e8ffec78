"""Adapters by the command line: resumed, exported, refused where they cannot be."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import lit_modules
import steadfast as sf
from tests.integration.conftest import Steadfast
from tests.integration.test_decoders import fit
from tests.unit.layers.small_decoders import TEXTS, pretrained

LORA = ("--model=FineTuning", "--model.lora.rank=2", "--model.lora.dropout=0.1")


def weights(run: str) -> dict[str, Any]:
    stored: dict[str, Any] = torch.load(f"runs/{run}/checkpoints/last.ckpt", weights_only=True)
    return stored["state_dict"]  # type: ignore[no-any-return] # of a checkpoint


@pytest.fixture
def backbone(here: Path) -> str:
    pytest.importorskip("peft")
    return pretrained("qwen3", here / "decoder")


def test_a_run_with_adapters(backbone: str, steadfast: Steadfast) -> None:
    words = fit(backbone, *LORA, "--run=whole", "--trainer.max_steps=6")
    assert steadfast(words).status == 0
    whole = weights("whole")
    assert all(torch.isfinite(value).all() for value in whole.values())
    begun = lit_modules.load("runs/whole/checkpoints/best.ckpt")
    trained = {name for name, value in begun.named_parameters() if value.requires_grad}
    assert all("lora_" in name or "projection" in name for name in trained)
    expected = begun.predict_texts(TEXTS)
    with pytest.raises(ValueError, match=r"adapters \(lora.rank=2\), .* expected merged ones"):
        begun.exact_copy()
    # A folder has the merged weights, and needs no library for adapters.
    assert steadfast("export", "--run=whole", "--output=out").status == 0
    ours = lit_modules.load("out")
    torch.testing.assert_close(ours.predict_texts(TEXTS), expected)
    assert not [name for name in ours.state_dict() if "lora" in name]
    ours.exact_copy()
    theirs = [record["probability"] for record in sf.load("hf:out").predict(TEXTS)]
    own = [record["probability"] for record in sf.load("out").predict(TEXTS)]
    assert theirs == pytest.approx(own, abs=1e-6)


def test_a_resumed_run_is_the_same(backbone: str, steadfast: Steadfast) -> None:
    steady = ("--model.optimisation.decay=none", "--model.optimisation.warmup=0")
    words = [word for word in fit(backbone, *LORA, *steady) if "max_steps" not in word]
    assert steadfast(words, "--trainer.max_steps=6", "--run=whole").status == 0
    assert steadfast(words, "--trainer.max_steps=4", "--run=parts").status == 0
    assert steadfast("fit", "--run=parts", "--trainer.max_steps=6").status == 0
    whole, parts = weights("whole"), weights("parts")
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_an_adversary_and_adapters(backbone: str, steadfast: Steadfast) -> None:
    words = [word.replace("--model.", "--model.classifier.") for word in fit(backbone)]
    inner = [word.replace("--model", "--model.classifier") for word in LORA]
    outer = ["--model=AdversarialTraining", "--model.adversary=FreeLB"]
    outcome = steadfast(words[0], outer, inner, words[1:], "--run=both")
    assert outcome.status == 0, outcome.err
    assert steadfast("export", "--run=both", "--output=out").status == 0
    theirs = [record["probability"] for record in sf.load("hf:out").predict(TEXTS)]
    own = [record["probability"] for record in sf.load("out").predict(TEXTS)]
    assert theirs == pytest.approx(own, abs=1e-6)
    assert json.loads(Path("out/config.json").read_text())["model_type"] == "qwen3"


def test_unitary_weights_and_adapters(backbone: str, steadfast: Steadfast) -> None:
    outcome = steadfast(fit(backbone, "--model=UniBERT", "--model.lora.rank=2", "--run=no"))
    assert outcome.status == 1
    assert "got lora.rank=2 with unitary.method=qr, expected rank 0 or method none" in outcome.err
