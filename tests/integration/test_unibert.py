"""From running text to an encoder with unitary weights, and from it to a classifier."""

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

import lit_modules
from app.cli.main import entry
from lit_modules import MaskedLM, UniBERT
from tests.integration.conftest import QUIET, REVIEWS, TINY, Steadfast, results
from tests.integration.several import same_bits
from tests.unit.datamodules.running_text import write

BERT = (
    '--model.backbone.architecture={"model_type": "bert", "hidden_size": 16, '
    '"num_hidden_layers": 2, "num_attention_heads": 2, '
    '"intermediate_size": 24, "max_position_embeddings": 32}'
)
ENCODER = ["--model=MaskedLM", BERT, "--model.backbone.vocab_size=60", "--model.max_length=32"]
TEXT = [
    "--data=RunningText",
    "--data.files=*.txt",
    "--data.data_dir=text",
    "--data.cache_dir=packed",
    "--data.length=16",
    "--data.batch_size=16",
]
UNITARY = "--model.unitary.method=qr"
CLASSIFIER = ["--model=UniBERT", "--model.max_length=32"]
FOLDER = "runs/pre/backbone"
ATTACK = ["--pgd.steps=2"]
ONCE = "--trainer.max_epochs=1"


@pytest.fixture(scope="session")
def _pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pretrained")
    (path / "text").mkdir()
    write(path / "text", lines=60)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        assert entry(["train", *ENCODER, UNITARY, *TEXT, *QUIET, ONCE, "--run=pre"]) == 0
        patch.delenv("PL_GLOBAL_SEED", raising=False)
    return path


@pytest.fixture
def pretrained(here: Path, _pretrained: Path) -> Path:
    """A working directory with text and a finished run `pre` of an encoder on it."""
    shutil.copytree(_pretrained, here, dirs_exist_ok=True)
    return here / FOLDER


def residual(run: str, file: str) -> float:
    """Of the attention weights in a checkpoint."""
    state = torch.load(f"runs/{run}/checkpoints/{file}", weights_only=True)["state_dict"]
    names = ("query", "key", "value", "attention.output.dense")
    found = [w for name, w in state.items() if name.endswith(tuple(f"{n}.weight" for n in names))]
    assert len(found) == 8
    eye = torch.eye(16)
    return max(float((w.T @ w - eye).abs().max()) for w in found)


def test_an_encoder_is_trained_tested_and_written(pretrained: Path, steadfast: Steadfast) -> None:
    found = results("pre")
    assert set(found["seconds"]) == {"fit", "test"}
    assert (found["method"], found["corpus"]) == ("MaskedLM", "running_text")
    assert {"test/loss", "test/accuracy", "val/accuracy"} <= found["metrics"].keys()
    assert not [name for name in found["metrics"] if "pgd" in name]
    assert not [path for path in Path("runs/pre").iterdir() if path.suffix == ".jsonl"]
    for command in ("train", "fit"):
        outcome = steadfast(command, ENCODER, UNITARY, TEXT, QUIET, ONCE, "--run=pre")
        assert outcome.status == 1
        assert outcome.err.strip().splitlines()[-1].startswith("error: run 'pre' is finished:")
    assert steadfast("test", "--run=pre").status == 0
    assert results("pre")["metrics"] == found["metrics"]


def test_the_folder_is_the_last_checkpoint(pretrained: Path) -> None:
    module = lit_modules.load_module("runs/pre/checkpoints/last.ckpt")
    assert isinstance(module, MaskedLM)
    ours, theirs = module.model, AutoModelForMaskedLM.from_pretrained(pretrained)
    tokenizer = AutoTokenizer.from_pretrained(pretrained)
    inputs = tokenizer("the hare ran , and a tortoise", return_tensors="pt")
    assert inputs["input_ids"][0].tolist() == (
        module.pieces.encode(["the hare ran , and a tortoise"])[0].input_ids
    )
    theirs.eval()
    ours.train(mode=False)
    assert torch.equal(ours(**inputs).logits, theirs(**inputs).logits)


def test_what_asks_for_classes_is_refused(pretrained: Path, steadfast: Steadfast) -> None:
    before = sorted(Path("runs/pre").rglob("*"))
    for command in ("certify", "attack", "predict"):
        outcome = steadfast(command, "--run=pre", QUIET)
        assert outcome.status == 1
        assert outcome.err.strip().splitlines()[-1] == (
            f"error: got {command} for MaskedLM, which classifies nothing, expected a classifier: "
            "train one on its folder, for example --model UniBERT --model.backbone.pretrained "
            "runs/NAME/backbone"
        )
    assert sorted(Path("runs/pre").rglob("*")) == before


def test_a_classifier_is_trained_from_the_folder(pretrained: Path, steadfast: Steadfast) -> None:
    arguments = [*CLASSIFIER, f"--model.backbone.pretrained={FOLDER}", *REVIEWS, *TINY]
    outcome = steadfast("train", arguments, ATTACK, ONCE, "--run=fine")
    assert outcome.status == 0, outcome.err
    assert "Loading weights" not in outcome.err
    found = results("fine")
    assert set(found["seconds"]) == {"fit", "test", "certify"}
    assert "certify/radius" not in found["metrics"]
    assert "no Lipschitz constant" in found["no_certificate"]
    for file in ("last.ckpt", "best.ckpt"):
        assert residual("pre", file) < 1e-5
        assert residual("fine", file) < 1e-5
    # From here on the run stands for itself.
    shutil.rmtree(pretrained.parent)
    assert steadfast("test", "--run=fine", TINY, ATTACK).status == 0
    assert results("fine")["metrics"] == found["metrics"]
    assert steadfast("fit", "--run=fine", "--trainer.max_epochs=2").status == 0
    assert residual("fine", "last.ckpt") < 1e-5
    assert isinstance(lit_modules.load("runs/fine/checkpoints/best.ckpt"), UniBERT)


def test_without_unitary_weights(here: Path, steadfast: Steadfast) -> None:
    arguments = [*CLASSIFIER, BERT, "--model.backbone.vocab_size=100", *REVIEWS, *TINY, ONCE]
    assert steadfast("fit", arguments, "--model.unitary.method=none", "--run=plain").status == 0
    assert residual("plain", "last.ckpt") > 0.1


def interrupted(monkeypatch: pytest.MonkeyPatch, method: type[Any], *, at: int) -> None:
    """Ctrl-C in that step of training, once."""
    real: Callable[..., Any] = method.training_step
    steps: list[int] = []

    def training_step(self: Any, batch: Any, batch_idx: int) -> Any:
        steps.append(batch_idx)
        if len(steps) == at:
            signal.raise_signal(signal.SIGINT)
        return real(self, batch, batch_idx)

    monkeypatch.setattr(method, "training_step", training_step)


@pytest.mark.parametrize("name", ["encoder", pytest.param("classifier", marks=pytest.mark.slow)])
def test_interrupted_is_as_uninterrupted(
    name: str, here: Path, steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("text").mkdir()
    write(Path("text"), lines=60)
    method: type[Any] = MaskedLM if name == "encoder" else UniBERT
    arguments = [*CLASSIFIER, BERT, "--model.backbone.vocab_size=100", *REVIEWS, *TINY]
    if name == "encoder":
        arguments = [*ENCODER, UNITARY, *TEXT, *TINY]
    arguments += ["--trainer.max_epochs=2", "--model.unitary.every_n_steps=2"]
    assert steadfast("fit", arguments, "--run=whole").status == 0
    steps = torch.load("runs/whole/checkpoints/last.ckpt", weights_only=True)["global_step"]
    with monkeypatch.context() as patch:
        interrupted(patch, method, at=steps // 2 + 1)  # in the second epoch, an odd step
        outcome = steadfast("fit", arguments, "--run=parts")
    assert outcome.status == 130, outcome.err
    before = torch.load("runs/parts/checkpoints/last.ckpt", weights_only=True)["global_step"]
    assert before == steps // 2 + 1
    assert not Path("runs/parts/backbone").exists()
    assert steadfast("fit", arguments, "--run=parts").status == 0
    same_bits(Path("runs/whole"), Path("runs/parts"))
    assert residual("parts", "last.ckpt") < 1e-5
    assert residual("parts", "best.ckpt") < 1e-5
    if name == "encoder":
        files = [f"runs/{run}/backbone/model.safetensors" for run in ("whole", "parts")]
        assert Path(files[0]).read_bytes() == Path(files[1]).read_bytes()


def test_a_stream_has_no_end(pretrained: Path, steadfast: Steadfast) -> None:
    """Its number of steps is not known beforehand: no schedule can be made of it."""
    streamed = [*ENCODER, *TEXT, "--data.streaming=true", *QUIET]
    outcome = steadfast("train", streamed, "--trainer.max_steps=4", "--run=steps")
    assert outcome.status == 0, outcome.err
    assert Path("runs/steps/backbone/config.json").is_file()


def test_without_validation(pretrained: Path, steadfast: Steadfast) -> None:
    outcome = steadfast(
        "train", ENCODER, TEXT, QUIET, "--data.validation_share=0", ONCE, "--run=all"
    )
    assert outcome.status == 0, outcome.err
    assert "Total length" not in outcome.err
    assert set(results("all")["seconds"]) == {"fit", "test"}
    assert Path("runs/all/backbone/config.json").is_file()
