"""Adversarial training by the real command line."""

from pathlib import Path

import pytest
import torch

from lit_modules import load
from tests.integration.conftest import ATTACK, QUIET, TINY, Steadfast, results

SMALL = [
    "--model=AdversarialTraining",
    "--model.classifier=TextClassifier",
    "--model.classifier.width=8",
    "--model.classifier.heads=2",
    "--model.classifier.optimisation.warmup=0",
    "--model.classifier.optimisation.decay=none",
]
DATA = ["--data=Reviews", "--data.limit_train=96", "--data.batch_size=16"]
STANDARD = [
    "--model=TextClassifier",
    "--model.width=8",
    "--model.heads=2",
    *DATA,
    "--trainer.max_epochs=1",
]
TEXT = ["--model.adversary.attack.recipe=deepwordbug"]


@pytest.mark.parametrize(
    "adversary",
    [["TextAdversary", *TEXT], pytest.param(["SMART"], marks=pytest.mark.slow)],
    ids=lambda a: a[0],
)
def test_from_a_trained_classifier(here: Path, steadfast: Steadfast, adversary: list[str]) -> None:
    assert steadfast("train", STANDARD, TINY, ATTACK, "--run=first").status == 0
    first = "--model.init_from=runs/first/checkpoints/best.ckpt"
    outcome = steadfast(
        "train",
        ["--model=AdversarialTraining", first, "--model.adversary", *adversary],
        [*DATA, *TINY, *ATTACK, "--trainer.max_epochs=1", "--run=second"],
    )
    assert outcome.status == 0, outcome.err
    assert results("second")["method"] == "AdversarialTraining"
    assert {"test/accuracy", "test/pgd_accuracy"} <= results("second")["metrics"].keys()
    # All that follows needs the first run no more.
    Path("runs/first/checkpoints/best.ckpt").unlink()
    assert steadfast("validate", "--run=second", QUIET).status == 0
    attack = ["--attack=deepwordbug", "--num_samples=4"]
    outcome = steadfast("attack", "--run=second", attack, QUIET)
    assert outcome.status == 0, outcome.err


@pytest.mark.usefixtures("here")
def test_a_calibration_is_in_the_best_weights_alone(steadfast: Steadfast) -> None:
    line = ["fit", *SMALL, *DATA, *TINY, "--model.adversary=TemperatureScaling", "--run=hot"]
    outcome = steadfast(line, "--trainer.max_epochs=1")
    assert outcome.status == 0, outcome.err
    [said] = [row for row in outcome.err.splitlines() if row.startswith("calibrated: ")]
    temperature = float(said.rpartition(" ")[2])
    assert abs(temperature - 1) > 0.05
    best, last = (load(f"runs/hot/checkpoints/{name}.ckpt") for name in ("best", "last"))
    texts = ["the soup was cold and the waiter was rude", "a fresh and kind place", "the coffee"]
    divided = last.predict_texts(texts) / temperature
    torch.testing.assert_close(best.predict_texts(texts), divided, rtol=0.01, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["--model.classifier=TextClassifier"], "got no adversary, expected one"),
        (["--model.adversary=FreeLB"], "got neither classifier nor init_from"),
        (["--model.adversary=FreeLP"], "got --model.adversary FreeLP, expected one of PGDAdv"),
        (
            ["--model.adversary=FreeLB", "--model.classifier=MaskedLM"],
            "got --model.classifier MaskedLM, expected one of FineTuning, ASA, WordScores",
        ),
        (
            [
                *SMALL[1:],
                "--model.adversary=TextAdversary",
                "--model.adversary.attack.recipe=texfooler",
            ],
            "got recipe 'texfooler', expected one of a2t, a2t-mlm",
        ),
        ([*SMALL[1:], "--model.adversary=FreeLB", "--model.adversary.steps=0"], "got steps=0"),
        ([*SMALL[1:], "--model.adversary=FreeLB", "--model.classifier.depth=-1"], "got depth=-1"),
        (
            [*SMALL[1:], "--model.adversary=TextAdversary", "--model.adversary.attack.recipe=pwws"],
            "`python -m steadfast resources wordnet` gets it",
        ),
        (
            [*SMALL[1:], "--model.adversary=TextAdversary", "--model.adversary.attack.recipy=pwws"],
            "got --model.adversary.attack.recipy, which TextAdversary does not have, "
            "expected perhaps --model.adversary.attack.recipe; "
            "--model.adversary.help TextAdversary lists its settings",
        ),
        (
            ["--model.adversary=FreeLB", "--model.init_from=none.ckpt"],
            "got checkpoint none.ckpt, not found",
        ),
    ],
)
def test_errors(here: Path, steadfast: Steadfast, settings: list[str], says: str) -> None:
    settings = ["--model=AdversarialTraining", *settings, *DATA, *QUIET, "--trainer.max_epochs=1"]
    outcome = steadfast("train", settings, "--run=a")
    assert outcome.status != 0
    assert says in outcome.err
    # One line; nothing is left behind that a second try would take for a run.
    assert sum(line.startswith("error: ") for line in outcome.err.splitlines()) == 1
    assert not Path("runs/a/checkpoints").exists()


def test_a_budget_that_only_ranks_is_warned_about(here: Path, steadfast: Steadfast) -> None:
    settings = [*SMALL, "--model.adversary=TextAdversary", *TEXT]
    outcome = steadfast(
        "fit",
        [
            *settings,
            "--model.adversary.attack.query_budget=3",
            *DATA,
            *QUIET,
            "--trainer.max_steps=1",
        ],
        "--run=a",
    )
    assert outcome.status == 0
    assert outcome.err.count("are used up by ranking the words") == 1


def test_other_classes(here: Path, steadfast: Steadfast) -> None:
    assert steadfast("fit", STANDARD, TINY, "--run=first").status == 0
    rows = "\n".join(f"word {i}\t{'abc'[i % 3]}" for i in range(30))
    for split in ("train", "validation", "test"):
        Path(f"{split}.tsv").write_text(f"text\tlabel\n{rows}\n")
    outcome = steadfast(
        "fit",
        ["--model=AdversarialTraining", "--model.adversary=FreeLB"],
        ["--model.init_from=runs/first/checkpoints/best.ckpt", "--data=TextFiles"],
        [f"--data.{split}={split}.tsv" for split in ("train", "validation", "test")],
        ["--run=a", *QUIET, "--trainer.max_epochs=1"],
    )
    assert outcome.status == 1
    assert "expected the model's ['negative', 'positive']" in outcome.err
