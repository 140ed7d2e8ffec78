"""`study run`, `study status` and `study merge` on a tiny study."""

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.cli.main import entry
from tests.faults.forked_study import forking
from tests.faults.program import Piped
from tests.integration.conftest import Steadfast, results

BASE = {
    "model": "TextClassifier",
    "model.encoder": "mean",
    "model.width": 8,
    "data": "Reviews",
    "data.limit_train": 64,
    "trainer.max_epochs": 1,
    "trainer.accelerator": "cpu",
    "trainer.enable_model_summary": False,
}
TINY: dict[str, Any] = {
    "title": "A tiny study",
    "base": {"settings": BASE},
    # `train` is both stages in one process.
    "rows": {"plain": {}, "wide": {"settings": {"model.width": 16}, "stages": ["train"]}},
    "stages": ["fit", {"test": {"pgd.epsilon": 0}}],
    "columns": {"accuracy": {"metric": "test/accuracy"}},
    "against": "plain",
}
OUT = Path("runs/studies/tiny")


def written(**changed: Any) -> None:
    Path("tiny.yaml").write_text(yaml.safe_dump({**TINY, **changed}, sort_keys=False))


@pytest.fixture(scope="module", autouse=True)
def _forks() -> Iterator[None]:
    """`test_a_stopped_study_goes_on` starts new interpreters: it is no study of this process."""
    with forking():
        yield


@pytest.fixture
def tiny(here: Path, _tiny: Path) -> Path:
    """A copy of the whole study, in the working directory."""
    shutil.copytree(_tiny, here, dirs_exist_ok=True)
    return here


@pytest.fixture(scope="module")
def _tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    with contextlib.chdir(path), (path / "said").open("w") as said:
        written()
        with contextlib.redirect_stderr(said):
            assert entry(["study", "run", "tiny.yaml", "--jobs=2"]) == 0
    return path


def figures(path: Path = OUT / "study.json") -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    content.pop("seconds")
    return content


def test_a_study_is_run_and_then_there_is_nothing_left(tiny: Path, steadfast: Steadfast) -> None:
    first = (tiny / "said").read_text()
    assert "tiny-wide-s0: done (" in first
    assert "tiny-plain-s0: fit" in first
    assert {one["run"] for one in figures()["cells"]} == {"tiny-plain-s0", "tiny-wide-s0"}
    assert "| wide " in (OUT / "tiny.md").read_text()
    log = (OUT / "logs" / "tiny-plain-s0.test.log").read_text()
    assert log.startswith("$ steadfast test --run=tiny-plain-s0")
    written_before = figures()
    again = steadfast("study", "run", "tiny.yaml")
    assert again.status == 0
    assert ": fit" not in again.err
    assert ": train" not in again.err
    assert ": test" not in again.err
    assert figures() == written_before
    assert "2 of 2 runs are done" in steadfast("study", "status", "tiny.yaml").out
    # An evaluation with other options is run again, and nothing else.
    written(stages=["fit", {"test": {"pgd.epsilon": 0.1, "pgd.steps": 1}}])
    other = steadfast("study", "run", "tiny.yaml", "--only", "plain")
    assert "tiny-plain-s0: test (measured with pgd null, not" in other.err
    assert "tiny-plain-s0: fit" not in other.err
    assert results("tiny-plain-s0")["metrics"]["test/pgd_epsilon"] == pytest.approx(0.1)
    # A limit of batches belongs to the evaluation, and not to the run.
    written(stages=["fit", {"test": {"pgd.epsilon": 0, "trainer.limit_test_batches": 1}}])
    part = steadfast("study", "run", "tiny.yaml", "--only", "plain")
    assert part.status == 0
    assert "tiny-plain-s0: test (measured with" in part.err
    assert "tiny-plain-s0: done" in part.err
    # Another training is refused: a run is never overwritten.
    finished = figures()
    changed = {**BASE, "trainer.max_epochs": 2, "model.width": 9}
    written(base={"settings": changed})
    refused = steadfast("study", "run", "tiny.yaml")
    assert refused.status == 1
    assert "tiny-plain-s0 was made with other settings (model.width 8 in the run, 9" in refused.err
    assert "trainer.max_epochs 1 in the run, 2 in the study" in refused.err
    # The tables of the finished study stay, also without `run`.
    collected = steadfast("study", "collect", "tiny.yaml")
    assert collected.status == 1
    assert "tiny-plain-s0 cannot be used: run tiny-plain-s0 was made with other" in collected.err
    assert "are kept, with figures of tiny-plain-s0" in collected.err
    assert figures() == finished


def test_a_failed_run_stops_only_what_needs_it(here: Path, steadfast: Steadfast) -> None:
    adversarial = {"model": "AdversarialTraining", "model.adversary": "FreeLB"}
    rows: dict[str, Any] = {
        "bad": {"settings": {"trainer.accelerator": "tpu"}},
        "after": {
            "after": "bad",
            "start": {"model.init_from": "checkpoints/best.ckpt"},
            "settings": adversarial,
        },
        "good": {},
    }
    own = {key: BASE[key] for key in BASE if key.startswith("model")}
    rows["bad"]["settings"] |= own
    rows["good"] = {"settings": own}
    base = {key: one for key, one in BASE.items() if key not in own}
    rows["good"]["stages"] = ["train"]
    written(rows=rows, base={"settings": base}, against=[], stages=["fit"])
    status = steadfast("study", "status", "tiny.yaml")
    assert "tiny-good-s0   0 of 1 stages  open" in status.out
    found = steadfast("study", "run", "tiny.yaml")
    assert found.status == 1
    assert "tiny-good-s0: done" in found.err
    results_before = results("tiny-good-s0")
    assert "2 of 3 runs are not done:" in found.err
    assert "tiny-bad-s0: fit: " in found.err
    assert "torch_xla" in found.err
    assert "tiny-after-s0: not run, because tiny-bad-s0 failed" in found.err
    assert [one["run"] for one in figures()["cells"]] == ["tiny-good-s0"]
    # Figures that belong to other weights: the run is named, the others have their tables.
    (OUT / "study.json").unlink()
    path = Path("runs/tiny-good-s0/results.json")
    content = json.loads(path.read_text())
    content["about"]["test"]["checkpoint"] = "0" * 64
    path.write_text(json.dumps(content))
    collected = steadfast("study", "collect", "tiny.yaml")
    assert "tiny: figures of 0 of 3 runs" in collected.out
    path.write_text(json.dumps(results_before))
    collected = steadfast("study", "collect", "tiny.yaml")
    assert collected.status == 0, collected.err
    assert "tiny: figures of 1 of 3 runs" in collected.out
    assert [one["run"] for one in figures()["cells"]] == ["tiny-good-s0"]
    # The run is on another machine, which has published its figures.
    before = figures()
    (OUT / "study.json").rename("published.json")
    (OUT / "study.outcomes.json.gz").rename("published.outcomes.json.gz")
    shutil.rmtree("runs/tiny-good-s0")
    collected = steadfast("study", "collect", "tiny.yaml", "--published", "published.json")
    assert "tiny: figures of 1 of 3 runs" in collected.out, collected.err
    assert figures() == before


def test_all_that_is_wrong_is_said_at_once(here: Path, steadfast: Steadfast) -> None:
    written(
        rows={
            "a": {"settings": {"model.widht": 3}},
            "b": {"config": ["gone.yaml"]},
            "c": {"settings": {"model.width": -1}},
            "e": {"stages": ["fit", {"attack": {"recipe": "pwwws"}}]},
            "f": {"stages": ["fit", {"attack": {"num_samples": 0}}]},
            "d": {"after": "nobody"},
        },
        against=[],
        needs={"encoder": "a folder"},
    )
    found = steadfast("study", "run", "tiny.yaml")
    assert found.status == 1
    for part in (
        "got --model.widht, which TextClassifier does not have",
        "got --config gone.yaml, not found",
        "got width=-1, expected a whole number of at least 1",
        "rows.d.after: got 'nobody'",
        "rows.e, attack: got attack 'pwwws', expected all, worst, one of ",
        "rows.f, attack: got num_samples=0, expected",
        "got no encoder, expected --set encoder=VALUE: a folder",
    ):
        assert part in found.err, part
    assert not Path("runs").exists()
    for words, problem in (
        (["tiny.yaml", "--data_dir=gone"], "got --data_dir gone, which is not a directory"),
        (["tiny.yaml", "--runs_dir=tiny.yaml"], "got --runs_dir tiny.yaml, which is not a dir"),
        (["gone.yaml"], "got gone.yaml, not found"),
    ):
        found = steadfast("study", "run", *words)
        assert found.status == 1
        assert found.err.startswith(f"error: {problem}")


def test_parts_of_a_study_make_the_same_tables(tiny: Path, steadfast: Steadfast) -> None:
    whole = figures()
    for part in range(1, 4):
        outcome = steadfast("study", "run", "tiny.yaml", "--shard", f"{part}/3")
        assert outcome.status == 0, outcome.err
    (OUT / "study.json").unlink()
    assert steadfast("study", "merge", "tiny.yaml").status == 0
    assert figures() == whole
    (OUT / "tiny.shard-2-of-3.json").unlink()
    lacking = steadfast("study", "merge", "tiny.yaml")
    assert lacking.status == 1
    assert "got parts 1, 3, expected each of 1 to 3 once" in lacking.err


def test_a_stopped_study_goes_on(here: Path, steadfast: Steadfast) -> None:
    slow = {**BASE, "trainer.max_epochs": 500, "data.limit_train": 500}
    written(base={"settings": slow}, rows={"plain": {}}, against=[])
    program = Piped("study", "run", "tiny.yaml")
    while not Path("runs/tiny-plain-s0/checkpoints/last.ckpt").exists():
        assert program.poll() is None, program.communicate()
        time.sleep(0.1)
    os.kill(program.pid, signal.SIGTERM)
    _, err = program.communicate()
    assert program.returncode == 128 + signal.SIGTERM
    assert "stopped by SIGTERM: the same command resumes" in err
    log = (OUT / "logs" / "tiny-plain-s0.fit.log").read_text()
    assert "stopped by SIGTERM: saved" in log
    status = steadfast("study", "status", "tiny.yaml")
    assert "tiny-plain-s0  0 of 2 stages  begun" in status.out
