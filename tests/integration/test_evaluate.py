from pathlib import Path

import pytest

import lit_modules
from tests.integration.conftest import ATTACK, OLSA, REVIEWS, TINY, Steadfast, lines, results

BEST = "runs/done/checkpoints/best.ckpt"


@pytest.mark.parametrize("source", [["--run=done"], [f"--ckpt_path={BEST}"]])
def test_evaluations_need_only_the_run(
    trained: Path, steadfast: Steadfast, source: list[str]
) -> None:
    before = results("done")["metrics"]
    Path("runs/done/results.json").unlink()
    assert steadfast("test", source, TINY, ATTACK).status == 0
    assert steadfast("certify", source, TINY).status == 0
    found = results("done")
    after = dict(before)
    assert found["metrics"].pop("test/accuracy") == after.pop("test/accuracy")
    del after["val/accuracy"]
    assert found["metrics"] == after
    assert set(found["seconds"]) == {"test", "certify"}


def test_validate(trained: Path, steadfast: Steadfast) -> None:
    best = results("done")["metrics"]["val/accuracy"]
    assert steadfast("validate", "--run=done", TINY).status == 0
    assert results("done")["metrics"]["val/accuracy"] == pytest.approx(best)
    assert "val/radius" in results("done")["metrics"]


def test_predict_writes_one_line_per_sample(trained: Path, steadfast: Steadfast) -> None:
    assert steadfast("predict", "--run=done", TINY).status == 0
    predictions = lines("runs/done/predictions.jsonl")
    assert [record["sample_id"] for record in predictions] == list(range(1000))
    assert list(predictions[0]) == ["sample_id", "prediction", "class", "logits"]
    names = ["negative", "positive"]
    for record in predictions:
        logits = record["logits"]
        assert record["prediction"] == logits.index(max(logits))
        assert record["class"] == names[record["prediction"]]
    certified = {r["sample_id"]: r["prediction"] for r in lines("runs/done/certificates.jsonl")}
    same = [predictions[i]["prediction"] == prediction for i, prediction in certified.items()]
    assert all(same)


def test_bounds_and_radii(trained: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("certify", "--run=done", TINY, "--bound=paper", "--radii=[0.5,3]")
    assert outcome.status == 0
    assert {"certify_paper/accuracy@0.5", "certify_paper/accuracy@3"} <= set(
        results("done")["metrics"]
    )
    assert {r["bound"] for r in lines("runs/done/printed_paper.jsonl")} == {"paper"}
    assert {r["bound"] for r in lines("runs/done/certificates.jsonl")} == {"sound"}


def test_other_settings_would_mix_results(trained: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("test", "--run=done", TINY, ATTACK, "--data.limit_train=5")
    assert outcome.status == 1
    assert "data.limit_train: 64 in the run, 5 given" in outcome.err
    # How the data are read is no such setting.
    assert steadfast("test", "--run=done", TINY, ATTACK, "--data.eval_batch_size=64").status == 0


def test_a_checkpoint_on_other_data_in_a_new_run(trained: Path, steadfast: Steadfast) -> None:
    arguments = [f"--ckpt_path={BEST}", "--data.corpus_seed=7", "--run=other"]
    assert steadfast("test", arguments, TINY, ATTACK).status == 0
    assert results("other")["metrics"] != results("done")["metrics"]
    assert Path("runs/other/config.yaml").is_file()


def test_the_checkpoint_does_not_override_the_command_line(
    trained: Path, steadfast: Steadfast
) -> None:
    # Lightning would quietly build the model of width 8 that the checkpoint remembers.
    arguments = ["--model=OLSA", "--model.width=16", "--data=Reviews", "--run=other"]
    outcome = steadfast("test", arguments, f"--ckpt_path={BEST}", TINY)
    assert outcome.status == 1
    assert "whose weights do not fit the model" in outcome.err
    assert "Traceback" not in outcome.err


def test_a_checkpoint_outside_of_runs(trained: Path, steadfast: Steadfast) -> None:
    Path(BEST).rename("alone.ckpt")
    arguments = ["--config=runs/done/config.yaml", "--ckpt_path=alone.ckpt", "--run=alone"]
    assert steadfast("certify", arguments, TINY).status == 0
    assert results("alone")["metrics"]["certify/radius"] == pytest.approx(
        results("done")["metrics"]["certify/radius"]
    )
    assert lit_modules.load("alone.ckpt").class_names == ["negative", "positive"]


def test_an_untrained_model_is_not_evaluated(here: Path, steadfast: Steadfast) -> None:
    for command in ("test", "certify", "validate", "predict"):
        outcome = steadfast(command, OLSA, REVIEWS, TINY)
        assert outcome.status == 1
        assert outcome.err.startswith("error: got neither --run nor --ckpt_path")
    assert not list(here.iterdir())


def test_a_checkpoint_of_another_run_is_refused(trained: Path, steadfast: Steadfast) -> None:
    assert steadfast("fit", OLSA, REVIEWS, TINY, "--trainer.max_epochs=1", "--run=b").status == 0
    outcome = steadfast("test", "--run=b", f"--ckpt_path={BEST}", TINY)
    assert outcome.status == 1
    assert "a checkpoint that is not of it" in outcome.err
