"""`compare` and the figures behind it, on real small runs."""

from pathlib import Path

import pytest

from app.study.collect import collect_run
from app.study.study import Column
from run_files.run_directory import RunDirectory
from tests.integration.conftest import ATTACK, OLSA, REVIEWS, TINY, Steadfast, results

TOLD = ["--attack=deepwordbug", "--num_samples=10"]


def test_figures_of_real_runs(trained: Path, steadfast: Steadfast) -> None:
    other = ["--run=other-s1", "--seed=1", "--trainer.max_epochs=1"]
    assert steadfast("train", OLSA, REVIEWS, TINY, ATTACK, other).status == 0
    for name in ("done", "other-s1"):
        # On the same batches as the test.
        assert (
            steadfast("predict", f"--run={name}", "--trainer.limit_predict_batches=1").status == 0
        )
        assert steadfast("attack", f"--run={name}", TOLD).status == 0

    metrics = [name for name, value in results("done")["metrics"].items() if value is not None]
    columns = [Column(name=name, title=name, metric=name) for name in metrics]
    found = collect_run(RunDirectory(trained), columns, row="a", corpus="", seed=0)
    assert found.values == {name: results("done")["metrics"][name] for name in metrics}
    for name in (
        *("test/accuracy", "test/f1", "test/pgd_accuracy", "certify/radius_correct"),
        *("certify/accuracy@0.5", "attack/deepwordbug/accuracy"),
    ):
        assert name in found.outcomes, name
    assert len(found.outcomes["attack/deepwordbug/accuracy"]) == 10
    assert found.labels.keys() == found.outcomes.keys() > {"test/f1", "test/macro_f1"}

    outcome = steadfast("compare", "--run", "done", "other-s1")
    assert outcome.status == 0, outcome.err
    assert "| done " in outcome.out
    assert "trainer.max_epochs" in outcome.out
    assert "McNemar's exact test" in " ".join(outcome.out.split())  # on two lines
    # Its own figure stands in the table.
    accuracy = 100 * results("done")["metrics"]["test/accuracy"]
    assert f"{accuracy:.1f}" in outcome.out

    outcome = steadfast("compare", "--run", "done", "absent")
    assert outcome.status == 1
    assert outcome.err.startswith("error: got run 'absent'")
    assert steadfast("compare").status == 2


@pytest.mark.parametrize("command", [["compare"], ["study", "table"]])
def test_help(steadfast: Steadfast, command: list[str]) -> None:
    outcome = steadfast(*command, "--help")
    assert outcome.status == 0
    assert f"usage: steadfast {' '.join(command)}" in outcome.out
