"""Every method on a device that is not the CPU: no operand is left behind.

A fit, its resumption, a test, an attack and a certificate of each run on `tests.other_device`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch

import certify.parts
import lit_modules
from lit_modules.adversaries.hull import Hull
from tests.faults.settings import ADVERSARIAL, BERT, INSIDE, LISTS, METHODS, OLSA, REVIEWS
from tests.integration.conftest import QUIET, Steadfast
from tests.integration.test_asa_pretraining import ENCODER, TEXT
from tests.integration.test_char_lm import DATA, MODEL
from tests.other_device import DEVICE, OtherDeviceError, OtherTensor, other_device
from tests.unit.datamodules import characters, running_text

OTHER = [*QUIET, "--trainer.strategy=other"]
FEW = [f"--trainer.limit_{loop}_batches=2" for loop in ("train", "val", "test")]
SYNONYMS = ["--model.robustness.against=synonyms", f"--model.robustness.lists={LISTS}"]
LETTERS = "--model.robustness.against=characters"
DETECTOR = "--detect.positive=positive"
WINDOWS = ["--model=WindowMax", *INSIDE[1:]]
CELLS: dict[str, list[str]] = {
    **METHODS,
    **ADVERSARIAL,
    "bag of embeddings": ["--model=TextClassifier", "--model.encoder=mean"],
    "LSTM": ["--model=TextClassifier", "--model.encoder=lstm"],
    "OLSA, L2": [*OLSA, "--model.layers.attention=l2"],
    "FineTuning": ["--model=FineTuning", *BERT],
    "UniBERT": ["--model=UniBERT", *BERT],
    "WordScores": ["--model=WordScores", *SYNONYMS],
    "WordScores, characters": ["--model=WordScores", LETTERS],
    "WordScores, net": [
        "--model=WordScores",
        "--model.window=2",
        "--model.net.hidden=8",
        *SYNONYMS,
    ],
    "MonotoneScores": ["--model=MonotoneScores", DETECTOR],
    "WindowMax": [*WINDOWS, DETECTOR],
    "TextCNN": ["--model=TextCNN", "--model.width=8", *SYNONYMS],
    "LipsLev": ["--model=LipsLev"],
    **{
        adversary: [*INSIDE, f"--model.adversary={adversary}"]
        for adversary in ("FreeLBPlus", "PGDAdversary", "RanMASK", "RDrop", "TemperatureScaling")
    },
}
# The rest takes minutes.
QUICK = ("TextClassifier",)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    refuse = certify.parts.refuse

    def of_values(complaints: Iterator[certify.parts.Complaint]) -> None:
        """Certificates refuse subclasses of tensors, which those of this device are."""
        refuse(it for it in complaints if "OtherTensor" not in it[0])

    monkeypatch.setattr(certify.parts, "refuse", of_values)
    with other_device() as other:
        yield other


@pytest.mark.parametrize(
    "cell", [pytest.param(x, marks=() if x in QUICK else pytest.mark.slow) for x in CELLS]
)
def test_every_method(
    here: Path,
    steadfast: Steadfast,
    device: torch.device,
    cell: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fit = [*CELLS[cell], *REVIEWS, "--data.batch_size=8", *OTHER, *FEW, "--run=a"]
    seen = watch(monkeypatch)
    for command in (
        ["fit", *fit, "--trainer.max_epochs=1"],
        ["fit", *fit, "--trainer.max_epochs=2"],
        ["test", "--run=a", *OTHER, *FEW, "--pgd.epsilon=0"],
        ["attack", "--run=a", *OTHER, "--attack=deepwordbug", "--num_samples=2"],
        ["certify", "--run=a", *OTHER, *FEW],
    ):
        outcome = steadfast(*command)
        assert outcome.status == 0, outcome.err
    assert torch.load("runs/a/checkpoints/last.ckpt", weights_only=True)["global_step"] == 4
    assert seen == {DEVICE}
    # The files are as those of any other device.
    model = lit_modules.load("runs/a/checkpoints/best.ckpt")
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [[*MODEL, *DATA], [*ENCODER, *TEXT], ["--model=MaskedLM", *ENCODER[1:], *TEXT]],
    ids=["CharacterLM", "ASAPretraining", "MaskedLM"],
)
def test_language_models(
    here: Path, steadfast: Steadfast, device: torch.device, settings: list[str]
) -> None:
    characters.write(here / "data" / "ptb_characters", plain=False)
    (here / "text").mkdir()
    running_text.write(here / "text", lines=60)
    fit = [*settings, *OTHER, *FEW, "--run=a"]
    for epochs in (1, 2):
        outcome = steadfast("fit", fit, f"--trainer.max_epochs={epochs}")
        assert outcome.status == 0, outcome.err


def test_an_operand_that_is_left_behind(
    here: Path, steadfast: Steadfast, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hull, "to", lambda self, device: self)
    fit = [*CELLS["DNE"], *REVIEWS, *OTHER, *FEW, "--run=a", "--trainer.max_epochs=1"]
    outcome = steadfast("fit", fit)
    assert outcome.status == 1
    assert "tensors on the CPU" in outcome.err


def test_the_rules_of_the_device(device: torch.device) -> None:
    here, there = torch.ones(2, 3), torch.ones(2, 3, device=device)
    assert there.device == DEVICE
    assert (there * 2).sum().item() == 12
    assert torch.equal(there.cpu(), here)
    assert isinstance(here.to(device) @ there.T, OtherTensor)
    rows = torch.tensor([1])
    assert torch.equal(there[rows].cpu(), here[rows])
    assert torch.equal((there + torch.tensor(1.0)).cpu(), here + 1)
    for operation in (
        lambda: there + here,
        lambda: there @ here.T,
        lambda: torch.cat([there, here]),
        lambda: torch.nn.functional.embedding(rows, there),
        lambda: torch.where(there > 0, here, there),
    ):
        with pytest.raises(OtherDeviceError, match="on the CPU"):
            operation()  # type: ignore[no-untyped-call] # one of torch has no types
    with pytest.raises(OtherDeviceError, match=r"expected \.cpu\(\)"):
        there.numpy()


def watch(patch: pytest.MonkeyPatch) -> set[torch.device]:
    """Return the devices of all parameters before each step, kept up to date."""
    seen: set[torch.device] = set()

    def look(module: pl.LightningModule, optimizer: torch.optim.Optimizer) -> None:
        seen.update(parameter.device for parameter in module.parameters())

    patch.setattr(pl.LightningModule, "on_before_zero_grad", look)
    return seen
