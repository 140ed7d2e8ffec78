"""Wrong settings through the real parser: one line that names the setting, and no run."""

from pathlib import Path

import pytest

from tests.integration.conftest import QUIET, Steadfast

FIT = ["fit", "--data=Reviews", *QUIET, "--trainer.max_epochs=1"]
TRAINED = "--model.classifier=OLSA"
STEPS = ["--model.adversary=FreeLB", "--model.adversary.steps=0"]
WRONG: list[tuple[list[str], str]] = [
    (["--model=OLSA", "--model.width=-128"], "got width=-128, expected a whole number of at lea"),
    (
        ["--model=OLSA", "--model.objective.gamma=.nan"],
        "got --model.objective.gamma nan, expected a",
    ),
    (
        [
            "--model=OLSA",
            "--model.optimisation.optimizer=AdamW",
            "--model.optimisation.optimizer.lr=nan",
        ],
        "got --model.optimi",
    ),
    (
        [
            "--model=OLSA",
            "--model.optimisation.optimizer=AdamW",
            "--model.optimisation.optimizer.lr=.inf",
        ],
        "got --model.optim",
    ),
    (
        [
            "--model=OLSA",
            "--model.optimisation.optimizer=AdamW",
            "--model.optimisation.optimizer.lr=-1",
        ],
        "got --model.optimisation.optimizer",
    ),
    (
        [
            "--model=OLSA",
            "--model.optimisation.optimizer=AdamW",
            "--model.optimisation.optimizer.weight_decay=x",
        ],
        "got --model.optimisation.optimizer.weight_decay x, expected a number",
    ),
    (
        ["--model=AdversarialTraining", TRAINED, *STEPS],
        "got steps=0, expected a whole number of at least 1",
    ),
    (["--model=OLSA", "--data.batch_size=0"], "got batch_size=0, expected a whole number of at le"),
    (["--model=OLSA", "--seed=-7"], "got --seed=-7, expected a whole number"),
    (["--model=OLSA", "--trainer.max_epochs=0"], "got --trainer.max_epochs=0, expected at least 1"),
    (["--model=OLSA", "--trainer.max_steps=-2"], "got --trainer.max_steps=-2, expected"),
    (
        ["--model=OLSA", "--trainer.accumulate_grad_batches=0"],
        "got --trainer.accumulate_grad_batches=0, expected",
    ),
    (["--model=OLSA", "--trainer.gradient_clip_val=.nan"], "got --trainer.gradient_clip_val nan"),
    (["--config=texts.tsv"], "got --config texts.tsv, which holds no settings ("),
    (["--config=no.yaml"], "got --config no.yaml, not found, expected one, or the na"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=[given[-1] for given, _ in WRONG])
def test_wrong_settings(here: Path, steadfast: Steadfast, given: list[str], message: str) -> None:
    Path("texts.tsv").write_text('text\tlabel\n"a: b\tpos\n')
    outcome = steadfast(FIT, given)
    assert outcome.status in (1, 2)
    lines = outcome.err.splitlines()
    assert len(lines) == 1, outcome.err
    assert lines[0].startswith(f"error: {message}")
    assert "--debug" not in lines[0]
    assert not Path("runs").exists()


def test_a_setting_without_effect_is_said(here: Path, steadfast: Steadfast) -> None:
    given = ["--model=TextClassifier", "--model.encoder=mean", "--model.depth=5"]
    given += ["--detect.false_alarms=0.1", "--trainer.limit_val_batches=0"]
    outcome = steadfast(FIT, given, "--data.limit_train=32")
    assert outcome.status == 0, outcome.err
    assert "depth=5 has no effect with encoder=mean" in outcome.err
    assert "detect.false_alarms=0.1 has no effect with detect.positive=null" in outcome.err
