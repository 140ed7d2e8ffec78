"""From running text to an encoder pre-trained with ASA, and from it to a fine-tuned classifier."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import lit_modules
from lit_modules import ASAPretraining, FineTuning
from tests.integration.conftest import QUIET, REVIEWS, ROOT, TINY, Steadfast, results
from tests.integration.several import same_bits
from tests.unit.datamodules.running_text import write

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
}
LONG = {"max_position_embeddings": 40}  # it counts positions as RoBERTa
BERT = f"--model.backbone.architecture={json.dumps({'model_type': 'bert', **SIZES})}"
ENCODER = [
    "--model=ASAPretraining",
    BERT,
    "--model.backbone.vocab_size=60",
    "--model.max_length=32",
]
TEXT = [
    "--data=RunningText",
    "--data.files=*.txt",
    "--data.data_dir=text",
    "--data.cache_dir=packed",
    "--data.length=16",
    "--data.batch_size=16",
]
ONCE = "--trainer.max_epochs=1"


@pytest.fixture
def text(here: Path) -> Path:
    """A working directory with running text."""
    (here / "text").mkdir()
    write(here / "text", lines=60)
    return here


def test_from_text_to_a_classifier(text: Path, steadfast: Steadfast) -> None:
    recipe = f"--config={ROOT / 'configs/asa/pretrain_small.yaml'}"
    small = [BERT, "--model.backbone.vocab_size=60", "--model.max_length=32", *TEXT[1:]]
    outcome = steadfast("train", recipe, small, QUIET, ONCE, "--run=pre")
    assert outcome.status == 0, outcome.err
    found = results("pre")
    assert (found["method"], found["corpus"]) == ("ASAPretraining", "novels_and_reviews")
    assert {"test/loss", "test/accuracy", "val/accuracy"} <= found["metrics"].keys()
    module = lit_modules.load_module("runs/pre/checkpoints/last.ckpt")
    assert isinstance(module, ASAPretraining)
    assert module.masking.masked_over_training
    # The folder knows nothing of what has trained it.
    folder = Path("runs/pre/backbone")
    description = (folder / "config.json").read_text()
    assert "attn_implementation" not in description
    assert "steadfast" not in description
    fine = ["--model=FineTuning", f"--model.backbone.pretrained={folder}", "--model.max_length=32"]
    outcome = steadfast("train", fine, REVIEWS, TINY, ONCE, "--run=fine")
    assert outcome.status == 0, outcome.err
    assert isinstance(lit_modules.load("runs/fine/checkpoints/best.ckpt"), FineTuning)
    assert steadfast("test", "--run=pre").status == 0
    assert results("pre")["metrics"] == found["metrics"]


@pytest.mark.parametrize(
    "masking", ["adversarial", pytest.param("scheduled", marks=pytest.mark.slow)]
)
def test_interrupted_is_as_uninterrupted(
    masking: str, text: Path, steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout, noise in the masks, and what depends on how far the training is."""
    how = ["--model.masking.reversal_schedule=rising", "--model.unitary.method=qr"]
    if masking == "scheduled":
        how = ["--model.masking.kind=scheduled", "--model.masking.schedule=[0.05, 0.3]"]
    arguments = [*ENCODER, *how, *TEXT, *TINY, "--trainer.max_epochs=2"]
    assert steadfast("fit", arguments, "--run=whole").status == 0
    half = torch.load("runs/whole/checkpoints/last.ckpt", weights_only=True)["global_step"] // 2
    real, steps = ASAPretraining.training_step, []

    def training_step(self: Any, batch: Any, batch_idx: int) -> Tensor:
        steps.append(batch_idx)
        if len(steps) == half + 2:  # in the second epoch
            signal.raise_signal(signal.SIGINT)
        return real(self, batch, batch_idx)

    with monkeypatch.context() as patch:
        patch.setattr(ASAPretraining, "training_step", training_step)
        outcome = steadfast("fit", arguments, "--run=parts")
    assert outcome.status == 130, outcome.err
    assert not Path("runs/parts/backbone").exists()
    assert steadfast("fit", arguments, "--run=parts").status == 0
    same_bits(Path("runs/whole"), Path("runs/parts"))
    files = [Path(f"runs/{run}/backbone/model.safetensors") for run in ("whole", "parts")]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [
                "--model.backbone.architecture="
                + json.dumps({**SIZES, "model_type": "rembert", **LONG})
            ],
            "got a backbone of the kind 'rembert', whose attention cannot be biased, expected an "
            "encoder, one of bert, roberta",
        ),
        (["--model.masking.tau=-1"], "got masking.tau=-1.0"),
        (["--model.masking.kind=scheduled"], "expected a schedule for kind scheduled"),
        (["--data.length=64"], "got sequences of 64 tokens (--data.length) for a model of at most"),
    ],
)
def test_what_is_refused(
    text: Path, steadfast: Steadfast, arguments: list[str], message: str
) -> None:
    outcome = steadfast("fit", ENCODER, TEXT, QUIET, ONCE, arguments, "--run=a")
    assert outcome.status == 1
    last = outcome.err.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last
    assert not Path("runs/a/checkpoints").exists()


def test_corpora_with_labels_are_refused(here: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("fit", ENCODER, REVIEWS, QUIET, ONCE, "--run=a")
    assert outcome.status == 1
    assert "got ASAPretraining on Reviews, whose texts are apart and have labels" in outcome.err
