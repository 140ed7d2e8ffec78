from pathlib import Path

import torch

from attacks.digests import file_digest
from tests.integration.conftest import ATTACK, OLSA, REVIEWS, TINY, Steadfast, results


def step(run: str) -> int:
    path = Path("runs") / run / "checkpoints" / "last.ckpt"
    return int(torch.load(path, weights_only=True)["global_step"])


def test_a_finished_run_is_refused(trained: Path, steadfast: Steadfast) -> None:
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*") if path.is_file()}
    arguments = [*OLSA, *REVIEWS, *TINY, *ATTACK, "--trainer.max_epochs=2", "--run=done"]
    for command in ("train", "fit"):
        given = [word for word in arguments if command == "train" or word not in ATTACK]
        outcome = steadfast(command, given)
        assert outcome.status == 1
        assert outcome.err.strip() == (
            "error: run 'done' is finished: evaluate it with `steadfast test --run done`, train it "
            "further with a larger --trainer.max_epochs, or choose another --run"
        )
    after = {path: path.stat().st_mtime_ns for path in trained.rglob("*") if path.is_file()}
    assert before == after


def test_other_settings_are_refused(trained: Path, steadfast: Steadfast) -> None:
    arguments = [*REVIEWS, *TINY, "--trainer.max_epochs=9", "--run=done", "--seed=5"]
    outcome = steadfast(
        "fit", OLSA, arguments, "--model.objective.gamma=9", "--data.limit_train=32"
    )
    assert outcome.status == 1
    assert outcome.err.strip() == (
        "error: run 'done' was made with other settings (seed_everything: 0 in the run, 5 given; "
        "model.objective.gamma: 2.0 in the run, 9.0 given; data.limit_train: 64 in the run, 32 "
        "given); "
        "repeat its settings, or choose another --run"
    )


def test_another_method_is_refused(trained: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("fit", "--model=TextClassifier", REVIEWS, TINY, "--run=done")
    assert outcome.status == 1
    assert "lit_modules.OLSA' in the run, 'lit_modules.TextClassifier' given" in outcome.err


def test_more_epochs_go_on(trained: Path, steadfast: Steadfast) -> None:
    assert step("done") == 8
    seconds = results("done")["seconds"]["fit"]
    tested = results("done")["about"]["test"]["checkpoint"]
    arguments = [*OLSA, *REVIEWS, *TINY, "--trainer.max_epochs=3", "--data.num_workers=0"]
    assert steadfast("fit", arguments, "--run=done").status == 0
    assert step("done") == 12
    found = results("done")
    assert found["seconds"]["fit"] > seconds
    # What was measured stays while its weights are the best, and goes aside with them.
    same = file_digest("runs/done/checkpoints/best.ckpt") == tested
    assert ("test" in found["seconds"]) == ("test/accuracy" in found["metrics"]) == same
    assert Path("runs/done/others").exists() != same


def test_a_limit_of_steps_skips_no_epoch(trained: Path, steadfast: Steadfast) -> None:
    longer = ["--run=done", "--trainer.max_epochs=4", "--trainer.max_steps=14"]
    assert steadfast("fit", longer).status == 0
    assert step("done") == 14


def test_the_name_alone_is_enough_to_go_on(trained: Path, steadfast: Steadfast) -> None:
    assert steadfast("fit", "--run=done", "--trainer.max_epochs=3").status == 0
    assert step("done") == 12


def test_train_does_what_is_left(trained: Path, steadfast: Steadfast) -> None:
    Path("runs/done/results.json").unlink()
    assert steadfast("fit", "--run=done").status == 0  # nothing left to train: marks it only
    assert set(results("done")["seconds"]) == {"fit"}
    outcome = steadfast("train", "--run=done", ATTACK)
    assert outcome.status == 0
    assert set(results("done")["seconds"]) == {"fit", "test", "certify"}
    assert step("done") == 8


def test_a_run_is_trained_by_one_process_at_a_time(trained: Path, steadfast: Steadfast) -> None:
    from run_files.run_directory import RunDirectory

    other = RunDirectory(trained)
    other.lock()
    outcome = steadfast("fit", "--run=done", "--trainer.max_epochs=3")
    assert outcome.status == 1
    assert "another process trains or measures it" in outcome.err
    other.unlock()
    assert steadfast("fit", "--run=done", "--trainer.max_epochs=3").status == 0


def test_a_moved_run_keeps_its_best(trained: Path, steadfast: Steadfast) -> None:
    def best(path: Path) -> float:
        callbacks = torch.load(path, weights_only=True)["callbacks"]
        (state,) = (s for key, s in callbacks.items() if "val/accuracy" in key)
        return float(state["best_model_score"])

    score = best(trained / "checkpoints" / "last.ckpt")
    moved = trained.rename(trained.with_name("moved"))
    assert steadfast("fit", "--run=moved", "--trainer.max_epochs=3").status == 0
    assert best(moved / "checkpoints" / "last.ckpt") >= score


def test_resumed_is_as_uninterrupted(trained: Path, steadfast: Steadfast) -> None:
    # A constant learning rate: a schedule over all steps is another one when these are more.
    same = [
        "--model.optimisation.warmup=0",
        "--model.optimisation.decay=none",
        "--model.layers.dropout=0.5",
    ]
    base = [*OLSA, *same, "--model.objective.schedule.shape=constant", *REVIEWS, *TINY]
    assert steadfast("fit", base, "--trainer.max_epochs=2", "--run=whole").status == 0
    assert steadfast("fit", base, "--trainer.max_epochs=1", "--run=parts").status == 0
    assert steadfast("fit", base, "--trainer.max_epochs=2", "--run=parts").status == 0
    whole, parts = (
        torch.load(f"runs/{run}/checkpoints/last.ckpt", weights_only=True)["state_dict"]
        for run in ("whole", "parts")
    )
    for name, tensor in whole.items():
        assert torch.equal(tensor, parts[name]), name


def test_a_new_run_from_a_checkpoint(trained: Path, steadfast: Steadfast) -> None:
    last = "--ckpt_path=runs/done/checkpoints/last.ckpt"
    arguments = [*OLSA, *REVIEWS, *TINY, "--trainer.max_epochs=3", last]
    assert steadfast("fit", arguments, "--run=new").status == 0
    assert step("new") == 12
    # The best is this run's own, even if the other one's was better.
    assert Path("runs/new/checkpoints/best.ckpt").is_file()
    outcome = steadfast("fit", arguments, "--run=done")
    assert outcome.status == 1
    assert "which resumes from its own last.ckpt" in outcome.err
