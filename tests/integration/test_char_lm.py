"""A language model over characters, by the command line: from sentences to texts."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch

import lit_modules
from app.cli.main import entry
from benchmarks.lipschitz import trained
from benchmarks.lipschitz.__main__ import main as lipschitz
from lit_modules import CharacterLM, Generation
from tests.integration.conftest import QUIET, REVIEWS, Steadfast, lines, results
from tests.integration.several import TWO, run_two
from tests.unit.datamodules.characters import write

MODEL = [
    "--model=CharacterLM",
    "--model.attention=l2_contractive",
    *("--model.width=16", "--model.heads=2", "--model.depth=1", "--model.hidden=24"),
    *("--model.base_rate=0.5", "--model.optimisation.warmup=10"),
]
DATA = ["--data=PTBCharacters", "--data.data_dir=data", "--data.batch_size=16"]
TEXTS = ["--generation.number=5", "--generation.length=20", "--generation.prompt=the "]


@pytest.fixture(scope="session")
def _written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("characters")
    write(path / "data" / "ptb_characters", plain=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        assert entry(["train", *MODEL, *DATA, *QUIET, "--trainer.max_epochs=4", "--run=a"]) == 0
        patch.delenv("PL_GLOBAL_SEED", raising=False)
    return path


@pytest.fixture
def written(here: Path, _written: Path) -> Path:
    """A working directory with sentences and a finished run `a` on them."""
    shutil.copytree(_written, here, dirs_exist_ok=True)
    return here


def test_results_are_of_the_least_loss(written: Path, steadfast: Steadfast) -> None:
    found = results("a")
    assert (found["method"], found["corpus"]) == ("CharacterLM", "ptb_characters")
    assert set(found["seconds"]) == {"fit", "test"}
    metrics = found["metrics"]
    assert metrics["test/bits_per_character"] == pytest.approx(
        metrics["test/loss"] / math.log(2), rel=1e-5
    )
    assert list(found["about"]["test"]["rows"]) == ["test"]
    state = torch.load("runs/a/checkpoints/best.ckpt", weights_only=True)["callbacks"]
    [best] = [state[key] for key in state if key.startswith("BestCheckpoint")]
    assert float(best["best_model_score"]) == pytest.approx(metrics["val/loss"])
    outcome = steadfast("validate", "--run=a", QUIET)
    assert outcome.status == 0, outcome.err
    assert results("a")["metrics"]["val/loss"] == pytest.approx(metrics["val/loss"])
    outcome = steadfast("test", "--run=a", QUIET, "--data.eval_batch_size=3")
    assert "nats per character" in outcome.out
    assert "bits per character" in outcome.out
    assert results("a")["metrics"]["test/loss"] == pytest.approx(metrics["test/loss"])


def test_the_least_loss_decides_and_ends_the_fit(here: Path, steadfast: Steadfast) -> None:
    write(here / "data" / "ptb_characters")
    # The rate rises so far that the loss grows, from the second validation on.
    wild = [*MODEL, "--model.base_rate=60", "--model.optimisation.warmup=25", *DATA, *QUIET]
    outcome = steadfast("fit", wild, "--run=b", "--early_stopping.patience=2")
    assert outcome.status == 0, outcome.err
    assert "training ends: val/loss has not got better than" in outcome.err
    best, last = (
        torch.load(f"runs/b/checkpoints/{name}.ckpt", weights_only=True)
        for name in ("best", "last")
    )
    assert best["global_step"] == last["global_step"] - 2 * 5


def test_texts_are_written(written: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("predict", "--run=a", QUIET, TEXTS)
    assert outcome.status == 0, outcome.err
    found = lines("runs/a/predictions.jsonl")
    assert [record["sample_id"] for record in found] == list(range(5))
    assert all(record["text"].startswith("the ") for record in found)
    assert all(len(record["text"]) <= 24 for record in found)
    for record in found:
        assert record["text"] in outcome.out
    model = lit_modules.load_module("runs/a/checkpoints/best.ckpt")
    assert isinstance(model, CharacterLM)
    settings = Generation(number=5, length=20, prompt="the ")
    assert [record["text"] for record in found] == model.generate(settings)
    assert steadfast("predict", "--run=a", QUIET, TEXTS, "--generation.seed=1").status == 0
    assert lines("runs/a/predictions.jsonl") != found


@pytest.mark.distributed
def test_two_processes_write_the_texts_of_one(written: Path, steadfast: Steadfast) -> None:
    alone = ["predict", "--run=a", *QUIET, *TEXTS]
    assert steadfast(alone).status == 0
    found = lines("runs/a/predictions.jsonl")
    run_two(*alone, *TWO, where=written)
    assert lines("runs/a/predictions.jsonl") == found


def test_what_asks_for_classes_is_refused(written: Path, steadfast: Steadfast) -> None:
    before = sorted(Path("runs/a").rglob("*"))
    for command in ("certify", "attack"):
        outcome = steadfast(command, "--run=a", QUIET)
        assert outcome.status == 1
        assert outcome.err.strip().splitlines()[-1] == (
            f"error: got {command} for CharacterLM, which classifies nothing, expected a "
            "classifier: its commands are fit, validate, test and predict, which writes text"
        )
    assert sorted(Path("runs/a").rglob("*")) == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ([*MODEL, *REVIEWS], "got CharacterLM on Reviews, expected sentences of characters"),
        (
            ["--model=OLSA", "--model.width=8", "--model.heads=2", *DATA],
            "got OLSA on PTBCharacters, expected sentences of characters",
        ),
        (
            [*MODEL, "--model.max_length=289", *DATA],
            "got sentences of up to 288 characters (--data.longest) for a model of at most 289",
        ),
        ([*MODEL, *DATA, "--data.name=absent"], "absent: got no train split"),
        ([*MODEL, "--model.optimisation.decay=linear", *DATA], "expected inverse_sqrt and"),
        ([*MODEL, *DATA, "--model.attention=cubic"], "--model.attention cubic, expected one of"),
    ],
)
def test_wrong_settings(
    here: Path, steadfast: Steadfast, settings: list[str], message: str
) -> None:
    write(here / "data" / "ptb_characters")
    outcome = steadfast("fit", settings, QUIET, "--run=wrong")
    assert outcome.status in (1, 2)
    assert message in outcome.err
    assert not Path("runs/wrong").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("--generation.prompt=É", "got a text with ['É'], expected characters of the training"),
        ("--generation.number=0", "got generation.number=0"),
        ("--generation.length=300", "expected at most 288 together, the longest text of the model"),
    ],
)
def test_wrong_texts(written: Path, steadfast: Steadfast, settings: str, message: str) -> None:
    outcome = steadfast("predict", "--run=a", QUIET, settings)
    assert outcome.status == 1
    assert message in outcome.err
    assert not Path("runs/a/predictions.jsonl").exists()


def test_a_study_of_it_makes_its_table(written: Path, steadfast: Steadfast) -> None:
    content = {
        "title": "Two attentions",
        "seeds": [0],
        "base": {
            "settings": {
                "model": "CharacterLM",
                "model.width": 16,
                "model.heads": 2,
                "model.depth": 1,
                "model.hidden": 24,
                "data": "PTBCharacters",
                "data.data_dir": "data",
                "trainer.max_steps": 3,
                "trainer.accelerator": "cpu",
            }
        },
        "rows": {name: {"settings": {"model.attention": name}} for name in ("l2", "lstm")},
        "stages": ["train"],
        "columns": {
            "nll": {"title": "test NLL", "metric": "test/loss", "digits": 3, "better": "lower"}
        },
    }
    Path("two.yaml").write_text(json.dumps(content))
    outcome = steadfast("study", "run", "two.yaml", "--check")
    assert outcome.status == 0, outcome.err


def test_the_attention_of_a_run_is_measured(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = ["--width=16", "--heads=2", "--tokens=4", "--texts=3", "--device=cpu"]
    kinds = ["--kinds", "run:a", "scaled_dot_product"]
    lipschitz(["stability", *kinds, *sizes, "--bins=5", "--curves", "a"])
    folder = written / "runs" / "lipschitz_stability"
    found = json.loads((folder / "stability.json").read_text())
    assert set(found["settings"]["weights"]) == {"run:a"}
    contractive = found["lines"][0]
    # Its constant is 1 in the norm inf, and it maps 0 to its bias.
    bias = float(
        lit_modules.load_module("runs/a/checkpoints/best.ckpt")
        .state_dict()["network.blocks.0.attention.output.bias"]
        .abs()
        .amax()
    )
    assert contractive["output_largest"] <= contractive["input_largest"] + bias
    assert sum(contractive["counts"]) == 3 * 4 * 16
    [curve] = found["curves"]
    assert curve["steps"] == sorted(curve["steps"])
    assert curve["values"][-1] < curve["values"][0]
    assert (folder / "stability_curves.png").is_file()
    # The weights of a run are part of what was measured.
    monkeypatch.setattr(trained, "weights_digest", lambda _: "of other weights")
    with pytest.raises(ValueError, match=r"other settings \(weights\)"):
        lipschitz(["stability", *kinds, *sizes, "--bins=5"])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--kinds", "run:nothing"], "expected the name of a run with"),
        (["--kinds", "run:a"], "give --width 16 --heads 2"),
        (["--curves", "nothing"], "which has logged no train/loss"),
    ],
)
def test_wrong_runs(written: Path, more: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lipschitz(["stability", *more, "--texts=2"])
