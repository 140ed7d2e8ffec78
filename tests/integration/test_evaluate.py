from pathlib import Path

import pytest
import torch
import yaml

import lit_modules
from attacks import PGD
from attacks.digests import file_digest
from lit_modules import TaskModule
from tests.integration.conftest import ATTACK, OLSA, QUIET, REVIEWS, TINY, Steadfast, lines, results
from tests.integration.test_attack import LETTERS
from text import Batch

PGD_OF_MODULE = TaskModule.attack
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


def test_what_older_weights_gave_is_set_aside(here: Path, steadfast: Steadfast) -> None:
    """Each epoch's weights are the best, which every evaluation takes."""
    fit = ["fit", *OLSA, *REVIEWS, *TINY, "--checkpoint.monitor=null", "--run=a"]
    assert steadfast(fit, "--trainer.max_epochs=1").status == 0
    Path("runs/a/results.json").unlink()  # as if it had been interrupted
    few = ["--run=a", *TINY, "--trainer.limit_predict_batches=1"]
    assert steadfast("predict", few).status == 0
    assert steadfast("certify", few).status == 0
    before = Path("runs/a/predictions.jsonl").read_bytes()
    digests = {line["checkpoint"] for line in lines("runs/a/certificates.jsonl")}
    assert digests == {file_digest("runs/a/checkpoints/best.ckpt")[:12]}
    outcome = steadfast(fit, "--trainer.max_epochs=2")
    assert outcome.status == 0, outcome.err
    assert "set aside in runs/a/others/step-4-" in outcome.err
    assert not list(Path("runs/a").glob("*.jsonl"))
    assert set(results("a")["seconds"]) == {"fit"}
    (folder,) = Path("runs/a/others").iterdir()
    assert folder.name == f"step-4-{digests.pop()}"
    assert (folder / "predictions.jsonl").read_bytes() == before
    assert "certify/radius" in results(f"a/others/{folder.name}")["metrics"]
    # Of weights that are not the run's best, in a folder of their own.
    last = ["--ckpt_path=runs/a/checkpoints/previous.ckpt", *TINY, ATTACK[0]]
    outcome = steadfast("test", last)
    assert outcome.status == 0
    (apart,) = set(Path("runs/a/others").iterdir()) - {folder}
    assert outcome.out.strip().splitlines()[-1].endswith(str(apart))
    assert results(f"a/others/{apart.name}")["about"]["test"]["file"] == "previous.ckpt"
    assert "test/accuracy" not in results("a")["metrics"]


def test_an_unfinished_run_is_said_to_be(trained: Path, steadfast: Steadfast) -> None:
    Path("runs/done/results.json").unlink()
    outcome = steadfast("test", "--run=done", TINY, ATTACK)
    assert outcome.status == 0
    said = "run 'done' has not ended its training (it has reached epoch 2 of 2, step 8)"
    assert said in outcome.err
    assert "test: measured before the training had ended (best.ckpt: epoch" in outcome.out
    about = results("done")["about"]["test"]
    assert about["training_ended"] is False
    assert about["checkpoint"] == file_digest(BEST)


def test_figures_of_two_protocols_are_not_mixed(trained: Path, steadfast: Steadfast) -> None:
    assert steadfast("test", "--run=done", TINY, "--pgd.epsilon=0").status == 0
    found = results("done")
    assert not {"test/pgd_accuracy", "test/pgd_epsilon"} & set(found["metrics"])
    assert found["about"]["test"]["pgd"] is None
    assert not Path("runs/done/pgd.jsonl").exists()
    assert Path("runs/done/others/pgd/pgd.jsonl").is_file()
    outcome = steadfast("certify", "--run=done", TINY, "--radii=[3]")
    assert outcome.status == 0
    certified = {name for name in results("done")["metrics"] if name.startswith("certify/acc")}
    assert certified == {"certify/accuracy@3"}
    part = "measured on a part of the split (--trainer.limit_test_batches 1)"
    assert f"test, certify: {part}" in outcome.out
    refused = steadfast("test", "--run=done", "--trainer.limit_test_batches=0", QUIET)
    assert "got --trainer.limit_test_batches 0, expected it to be left out" in refused.err


def limit_attacks(monkeypatch: pytest.MonkeyPatch, most: int) -> list[int]:
    """Let PGD fail after some batches; return the sizes of the attacked ones."""
    sizes: list[int] = []

    def limited(self: TaskModule, pgd: PGD, batch: Batch) -> dict[str, torch.Tensor]:
        if len(sizes) == most:
            raise OSError("the disk is gone")
        sizes.append(len(batch))
        return PGD_OF_MODULE(self, pgd, batch)

    monkeypatch.setattr(TaskModule, "attack", limited)
    return sizes


def test_a_killed_test_resumes_after_its_attacks(
    trained: Path, steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = ["--trainer.limit_test_batches=3", "--data.eval_batch_size=20"]
    command = ["test", "--run=done", *QUIET, *ATTACK, *limits]
    assert steadfast(command).status == 0
    records = Path("runs/done/pgd.jsonl")
    before, metrics = records.read_bytes(), results("done")["metrics"]
    records.unlink()
    assert limit_attacks(monkeypatch, 2) == []
    assert steadfast(command).status != 0
    assert not records.exists()
    sizes = limit_attacks(monkeypatch, 10)
    assert steadfast(command).status == 0
    assert sizes == [20]
    assert records.read_bytes() == before
    assert results("done")["metrics"] == metrics
    assert not Path("runs/done/pgd.parts").exists()
    # Another attack begins anew.
    limit_attacks(monkeypatch, 2)
    assert steadfast(command).status != 0
    sizes = limit_attacks(monkeypatch, 10)
    assert steadfast(command, "--pgd.steps=3").status == 0
    assert sizes == [20, 20, 20]


def test_the_seed_of_a_run_is_that_of_its_training(trained: Path, steadfast: Steadfast) -> None:
    assert steadfast("test", "--run=done", TINY, ATTACK, "--seed=5").status == 0
    found = results("done")
    assert (found["seed"], found["about"]["test"]["seed"]) == (0, 5)


def test_other_rows_under_the_same_name(trained: Path, steadfast: Steadfast) -> None:
    source = [f"--ckpt_path={BEST}", "--run=mine", *QUIET, *ATTACK]
    assert steadfast("test", source, own_texts("a.tsv", "0110")).status == 0
    before = results("mine")
    own_texts("a.tsv", "011")
    assert steadfast("certify", source[:-1]).status == 0
    assert set(results("mine")["seconds"]) == {"certify"}
    (folder,) = Path("runs/mine/others").iterdir()
    assert folder.name.endswith("-rows")
    assert results(f"mine/others/{folder.name}") == before
    assert len(lines(folder / "pgd.jsonl")) == 4


def test_validate(trained: Path, steadfast: Steadfast) -> None:
    best = results("done")["metrics"]["val/accuracy"]
    assert steadfast("validate", "--run=done", TINY).status == 0
    assert results("done")["metrics"]["val/accuracy"] == pytest.approx(best)
    assert "val/radius" in results("done")["metrics"]


def test_predict_writes_one_line_per_sample(trained: Path, steadfast: Steadfast) -> None:
    assert steadfast("predict", "--run=done", TINY).status == 0
    predictions = lines("runs/done/predictions.jsonl")
    assert [record["sample_id"] for record in predictions] == list(range(1000))
    fields = ["sample_id", "label", "prediction", "class", "logits"]
    assert list(predictions[0]) == [*fields, "label_name", "prediction_name", "checkpoint"]
    names = ["negative", "positive"]
    for record in predictions:
        logits = record["logits"]
        assert record["prediction"] == logits.index(max(logits))
        assert record["class"] == names[record["prediction"]]
    certified = {r["sample_id"]: r["prediction"] for r in lines("runs/done/certificates.jsonl")}
    same = [predictions[i]["prediction"] == prediction for i, prediction in certified.items()]
    assert all(same)
    labels = {r["sample_id"]: r["label"] for r in lines("runs/done/certificates.jsonl")}
    assert [predictions[i]["label"] for i in labels] == list(labels.values())


def test_a_killed_prediction_resumes(
    trained: Path, steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = ["--trainer.limit_predict_batches=3", "--data.eval_batch_size=20"]
    command = ["predict", "--run=done", *QUIET, *limits]
    assert steadfast(command).status == 0
    records = Path("runs/done/predictions.jsonl")
    before, metrics = records.read_bytes(), results("done")["metrics"]
    records.unlink()
    predict, sizes = TaskModule.predict_step, list[int]()

    def limited(self: TaskModule, batch: Batch, batch_idx: int) -> dict[str, torch.Tensor]:
        if len(sizes) == 2:
            raise OSError("the disk is gone")
        sizes.append(len(batch))
        return predict(self, batch, batch_idx)

    monkeypatch.setattr(TaskModule, "predict_step", limited)
    assert steadfast(command).status != 0
    assert not records.exists()
    sizes = [0]
    assert steadfast(command).status == 0
    assert sizes == [0, 20]
    assert records.read_bytes() == before
    assert results("done")["metrics"] == metrics
    assert not Path("runs/done/predictions.parts").exists()


def test_bounds_and_radii(trained: Path, steadfast: Steadfast) -> None:
    radii = ["--radii=[0.5,3]", "--propagation.words=2"]
    outcome = steadfast("certify", "--run=done", TINY, "--bound=paper", radii)
    assert "propagation.words=2 has no effect with bound=paper" in outcome.err
    assert outcome.status == 0
    assert {"certify_paper/accuracy@0.5", "certify_paper/accuracy@3"} <= set(
        results("done")["metrics"]
    )
    assert {r["bound"] for r in lines("runs/done/printed_paper.jsonl")} == {"paper"}
    assert {r["bound"] for r in lines("runs/done/certificates.jsonl")} == {"sound"}


def test_a_bound_about_another_network_leaves_nothing(trained: Path, steadfast: Steadfast) -> None:
    before = sorted(trained.rglob("*"))
    outcome = steadfast("certify", "--run=done", TINY, "--bound=kim")
    assert outcome.status == 1
    assert "got bound=kim for a network with additive attention as encoder" in outcome.err
    assert sorted(trained.rglob("*")) == before


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


def paraphrases(folder: str, columns: tuple[str, str], labels: list[str]) -> None:
    """A corpus of pairs, the same words in both texts, with these labels by turns."""
    Path(f"data/{folder}").mkdir(parents=True)
    rows = [f"who is {i % 7}\tis {i % 7} who\t{labels[i % 2]}" for i in range(24)]
    for split in ("train", "validation"):
        text = "\n".join(["\t".join([*columns, "label"]), *rows]) + "\n"
        Path(f"data/{folder}/{split}.tsv").write_text(text)


def test_trained_on_qqp_tested_on_paws(here: Path, steadfast: Steadfast) -> None:
    """OLSA's Table 4: the classes have other names there, and are the same."""
    paraphrases("qqp", ("question1", "question2"), ["0", "1"])
    paraphrases("paws_qqp", ("sentence1", "sentence2"), ["different", "paraphrase"])
    common = ["--data.data_dir=data", *QUIET, "--trainer.max_epochs=1"]
    assert steadfast("fit", OLSA, "--data=QQP", common, "--run=qqp").status == 0
    best = "runs/qqp/checkpoints/best.ckpt"
    other = [f"--ckpt_path={best}", "--data=PAWSQQP", "--data.data_dir=data", "--run=paws"]
    for command in (["test", *ATTACK], ["certify"], ["predict"]):
        outcome = steadfast(command[0], other, QUIET, *command[1:])
        assert outcome.status == 0, outcome.err
    found = results("paws")
    assert (found["method"], found["corpus"]) == ("OLSA", "paws_qqp")
    assert {"test/accuracy", "test/pgd_accuracy", "certify/radius"} <= found["metrics"].keys()
    written = lines("runs/paws/predictions.jsonl")
    assert {one["class"] for one in written} <= {"different", "duplicate"}
    right = sum(one["prediction"] == i % 2 for i, one in enumerate(written))
    assert found["metrics"]["test/accuracy"] == pytest.approx(right / 24)
    adversarial = ["--model=AdversarialTraining", "--model.adversary=FreeLB"]
    go_on = [*adversarial, f"--model.init_from={best}", "--data=PAWSQQP", "--run=more"]
    outcome = steadfast("fit", go_on, common)
    assert outcome.status == 0, outcome.err
    assert lit_modules.load("runs/more/checkpoints/last.ckpt").class_names == [
        "different",
        "duplicate",
    ]


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


def own_texts(name: str, labels: str) -> list[str]:
    """A file of one's own with a row for each label; the arguments that name it."""
    rows = [f"a dull film, number {i}\t{label}" for i, label in enumerate(labels)]
    Path(name).write_text("\n".join(["text\tlabel", *rows]) + "\n")
    return ["--data=TextFiles", f"--data.test={name}", "--data.classes=[negative, positive]"]


def test_texts_without_labels_are_certified(trained: Path, steadfast: Steadfast) -> None:
    rows = ["text", "a dull film", "the soup was good, but cold"]
    Path("bare.tsv").write_text("\n".join(rows) + "\n")
    bare = ["--data=TextFiles", "--data.test=bare.tsv", "--data.classes=[negative, positive]"]
    source = [f"--ckpt_path={BEST}", "--run=bare", *QUIET]
    outcome = steadfast("certify", source, bare)
    assert outcome.status == 0, outcome.err
    certificates = lines("runs/bare/certificates.jsonl")
    assert [record["label"] for record in certificates] == [None, None]
    assert all(record["margin"] > 0 and record["radius"] > 0 for record in certificates)
    mean = sum(record["radius"] for record in certificates) / 2
    assert results("bare")["metrics"] == {"certify/radius": pytest.approx(mean)}
    assert "mean certified radius, right or wrong" in outcome.out
    assert "accuracy" not in outcome.out
    # Nothing else is made of them than predictions, which are the certified ones.
    assert steadfast("predict", source).status == 0
    predictions = lines("runs/bare/predictions.jsonl")
    assert [r["prediction"] for r in predictions] == [r["prediction"] for r in certificates]
    assert not any("label" in record for record in predictions)
    outcome = steadfast("test", source)
    assert outcome.status == 1
    assert "expected ['label'] among them" in outcome.err
    Path("bare.tsv").write_text("text\tlabel\na dull film\t\n")
    outcome = steadfast("test", source)
    assert outcome.status == 1
    assert "got a test split without labels" in outcome.err


def test_a_run_that_an_evaluation_has_begun_goes_on(trained: Path, steadfast: Steadfast) -> None:
    source = [f"--ckpt_path={BEST}", "--run=mine", *TINY]
    assert steadfast("test", source, own_texts("a.tsv", "0110"), ATTACK).status == 0
    assert steadfast("test", source, own_texts("a.tsv", "0110"), ATTACK).status == 0
    # The corpus is that of the run.
    assert steadfast("certify", source).status == 0
    assert len(lines("runs/mine/certificates.jsonl")) == 4
    Path("letters.yaml").write_text(yaml.safe_dump(LETTERS))
    for recipe, count in (("letters.yaml", 2), ("letters.yaml", 4), ("deepwordbug", 2)):
        samples = f"--num_samples={count}"
        outcome = steadfast("attack", source, f"--attack={recipe}", samples)
        assert outcome.status == 0, outcome.err
        assert len(lines(f"runs/mine/attacks/{Path(recipe).stem}.jsonl")) == count
    assert {"test", "certify"} < set(results("mine")["seconds"])
    outcome = steadfast("test", source, own_texts("b.tsv", "01"))
    assert "run 'mine' was made with other settings (data.test" in outcome.err
    Path(BEST).write_bytes(Path("runs/done/checkpoints/previous.ckpt").read_bytes())
    assert "a checkpoint that is not of it" in steadfast("certify", source).err


def test_a_prediction_that_has_failed_begins_no_run(trained: Path, steadfast: Steadfast) -> None:
    arguments = [f"--ckpt_path={BEST}", "--run=mine", *TINY]
    wrong = steadfast("predict", arguments, own_texts("a.tsv", "01x"))
    assert wrong.status == 1
    assert "a.tsv, line 4" in wrong.err
    assert not Path("runs/mine").exists()
    corrected = steadfast("predict", arguments, own_texts("b.tsv", "011"))
    assert corrected.status == 0, corrected.err
    assert len(lines("runs/mine/predictions.jsonl")) == 3
    assert Path("runs/mine/config.yaml").is_file()


def test_what_is_refused_leaves_nothing(trained: Path, steadfast: Steadfast) -> None:
    before = sorted(trained.rglob("*"))
    assert steadfast("certify", "--run=done", TINY, "--data.limit_train=5").status == 1
    assert steadfast("certify", "--run=done", TINY, "--trainer.precision=bf16-mixed").status == 1
    wrong = own_texts("a.tsv", "01x")
    assert steadfast("certify", f"--ckpt_path={BEST}", "--run=new", TINY, wrong).status == 1
    assert steadfast("fit", OLSA, wrong, "--data.train=a.tsv", TINY).status == 1
    assert sorted(trained.rglob("*")) == before
    assert [path.name for path in trained.parent.iterdir()] == ["done"]
