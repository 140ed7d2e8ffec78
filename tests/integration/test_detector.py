"""A detector by the command line: its threshold, and what it leaves unchanged."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from lit_modules import load, read_checkpoint
from lit_modules.shared.detection import detection_scores
from tests.integration.conftest import QUIET, Steadfast, results
from tests.integration.several import TWO, run, run_two

SCORES = [
    *QUIET,
    *("--model=WordScores", "--data=Reviews", "--data.limit_train=300", "--data.batch_size=50"),
    *("--model.optimisation.decay=none", "--seed=1"),
]
DETECT = ["--detect.positive=Negative", "--detect.false_alarms=0.1"]


def weights(run: str, file: str) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = read_checkpoint(f"runs/{run}/checkpoints/{file}")["state_dict"]
    return state


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


@pytest.mark.usefixtures("here")
def test_threshold_is_in_the_best_weights_alone(steadfast: Steadfast) -> None:
    train = ["train", *SCORES, "--baseline=false", "--pgd.epsilon=0", *DETECT]
    outcome = steadfast(train, "--trainer.max_epochs=2", "--run=guard")
    assert outcome.status == 0, outcome.err
    model = load("runs/guard/checkpoints/best.ckpt")
    detector = model.detector
    assert detector is not None
    assert detector.describe() in outcome.err.splitlines()
    assert detector.positive == "negative"
    assert detector.false_alarms <= 0.1
    stored = results("guard")
    assert stored["detector"] == vars(detector)
    assert f"detected ({detector.positive})" in outcome.out
    metrics = stored["metrics"]
    assert metrics["test/positives"] + metrics["test/negatives"] == metrics["test/samples"]
    assert Path("runs/guard/detection.json").is_file()
    # The same fit without a threshold: the state to resume from is the same.
    plain = steadfast("fit", SCORES, "--trainer.max_epochs=2", "--run=plain")
    assert plain.status == 0, plain.err
    assert same(weights("guard", "last.ckpt"), weights("plain", "last.ckpt"))
    assert load("runs/guard/checkpoints/last.ckpt").detector is None
    # The decision is a comparison with the threshold.
    texts = ["the soup was cold and the waiter was rude", "a fresh and kind place", "the coffee"]
    unshifted = load("runs/plain/checkpoints/best.ckpt").predict_texts(texts)
    decisions = detection_scores(unshifted, 0) >= detector.threshold
    assert (model.predict_texts(texts).argmax(dim=1) == 0).tolist() == decisions.tolist()
    _continue(steadfast, train)


def _continue(steadfast: Steadfast, train: list[str]) -> None:
    """A finished detector that is trained further is the uninterrupted one."""
    shutil.copytree("runs/guard/checkpoints", "before")
    more = steadfast(train, "--trainer.max_epochs=4", "--run=guard")
    assert more.status == 0, more.err
    whole = steadfast("fit", SCORES, DETECT, "--trainer.max_epochs=4", "--run=whole")
    assert whole.status == 0, whole.err
    assert same(weights("guard", "last.ckpt"), weights("whole", "last.ckpt"))
    assert same(weights("guard", "best.ckpt"), weights("whole", "best.ckpt"))
    assert results("guard")["detector"] == results("whole")["detector"]
    # From the shifted weights of a detector, a new fit trains unshifted ones.
    best = ["--ckpt_path=before/best.ckpt", "--trainer.max_epochs=3", "--run=other"]
    other = steadfast("fit", SCORES, best)
    assert other.status == 0, other.err
    assert "network.bias" not in weights("other", "last.ckpt")
    assert load("runs/other/checkpoints/best.ckpt").detector is None


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "--detect.positive=negativ"], "negative, positive; did you mean negative?"),
        (["fit", "--detect.positive=negative", "--trainer.limit_val_batches=0"], "validation"),
        (["fit", "--detect.false_alarms=1.5"], "false_alarms"),
        (["test", "--detect.false_alarms=0.1"], "expected it with `train` or `fit`"),
    ],
)
def test_wrong_settings_are_one_error(steadfast: Steadfast, words: list[str], message: str) -> None:
    command, *options = words
    outcome = steadfast(command, SCORES if command == "fit" else SCORES[:6], options)
    assert outcome.status == 1
    assert message in outcome.err.splitlines()[-1]
    assert not list(Path().glob("runs/*/config.yaml"))


@pytest.mark.usefixtures("here")
def test_a_regression_is_refused(steadfast: Steadfast) -> None:
    Path("scores.csv").write_text(
        "text,label\n" + "".join(f"text {i},{i % 5}\n" for i in range(40))
    )
    data: list[Any] = ["--data=TextFiles", "--data.train=scores.csv", "--data.task=regression"]
    data += ["--data.target_range=[0, 5]", "--model=FineTuning", "--detect.positive=spam"]
    architecture = (
        '--model.backbone.architecture={"model_type": "bert", "hidden_size": 8, '
        '"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}'
    )
    outcome = steadfast("fit", QUIET, data, architecture)
    assert outcome.status == 1
    assert "got --detect.positive spam for regression, expected a class" in outcome.err


@pytest.mark.distributed
def test_two_processes_choose_the_threshold_of_one(here: Path) -> None:
    fit = ["fit", *SCORES, *DETECT, "--trainer.max_epochs=1", "--trainer.precision=64-true"]
    # 500 texts in batches of 7: the last one is shared out unevenly.
    fit += ["--data.limit_train=64", "--data.eval_batch_size=7"]
    one, two = ([*fit, f"--data.batch_size={n}", f"--run={n}"] for n in (16, 8))
    run([one], where=here)
    run_two(*two, *TWO, where=here)
    assert results("16")["detector"] == results("8")["detector"]
    # Other weights differ in their last digits: gradients are summed in another order.
    biases = [weights(name, "best.ckpt")["network.bias"] for name in ("16", "8")]
    assert torch.equal(*biases)
