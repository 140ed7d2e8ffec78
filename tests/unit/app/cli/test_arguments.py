"""Words of the command line in an order that the parser can read, on top of a stored run."""

import re
from pathlib import Path

import pytest
import yaml

from app.cli.arguments import (
    check_classes,
    check_groups,
    classes_first,
    device_words,
    with_stored_settings,
)
from app.cli.data_files import file_words
from lit_modules import CheckpointError
from run_files.run_directory import RunDirectory

STORED = {
    "seed_everything": 3,
    "model": {"class_path": "lit_modules.OLSA"},
    "data": {"class_path": "datamodules.Reviews"},
    "trainer": {"max_epochs": 2},
    "checkpoint": {"monitor": "val/loss"},
}


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    RunDirectory(Path("runs/a")).write_config(STORED)


def inserted(*argv: str) -> set[str]:
    found = with_stored_settings(argv, ("train", "fit", "test", "certify", "predict"))
    if found == list(argv):
        return set()
    i = found.index("--config")
    assert i == 1
    assert [*found[:i], *found[i + 2 :]] == list(argv)
    content = yaml.safe_load(found[i + 1])
    assert all(content[key] == STORED[key] for key in content)
    return set(content)


@pytest.mark.parametrize(
    "argv",
    [
        ["test", "--run", "a"],
        ["test", "--run=a", "--data.batch_size=3"],
        ["certify", "--ckpt_path", "runs/a/checkpoints/best.ckpt"],
        ["predict", "--run=b", "--ckpt_path=runs/a/checkpoints/last.ckpt"],
        ["test", "--run=a", "--runs_dir=runs"],
    ],
)
def test_evaluations_take_model_and_data(argv: list[str]) -> None:
    assert inserted(*argv) == {"seed_everything", "model", "data"}


def test_training_takes_everything() -> None:
    assert inserted("train", "--run=a", "--trainer.max_epochs=5") == set(STORED)


def test_another_class_inherits_nothing() -> None:
    assert inserted("test", "--run=a", "--data=SST2") == {"seed_everything", "model"}
    assert inserted("test", "--run=a", "--model", "OLSA") == {"seed_everything", "data"}


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--help"],
        ["test", "--help"],
        ["test", "--model.help=OLSA"],
        ["test", "--run=absent", "--print_config"],
        ["test", "--run"],
        ["test", "--run=absent", "--model=OLSA", "--data=Reviews"],
        ["test", "--run=absent", "--model.class_path=OLSA", "--data.class_path=Reviews"],
        ["test", "--run=a", "--config=c.yaml"],
        ["test", "--run=a", "-c", "c.yaml"],
        ["test", "--ckpt_path=other.ckpt", "--config=c.yaml"],
        ["fit", "--run=a", "--model=OLSA"],
        ["fit", "--run=a", "--data=Reviews"],
        ["fit", "--model=OLSA"],
    ],
)
def test_nothing_is_taken(argv: list[str]) -> None:
    assert inserted(*argv) == set()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["test"], "got neither --run nor --ckpt_path.*`test` is about a trained model"),
        (["predict", "--data=Reviews"], "got neither --run nor --ckpt_path"),
        (["test", "--run=absent"], r"got run 'absent', which is not in runs \(there are: a\)"),
        (["test", "--run=absent", "--data=Reviews"], "got run 'absent'"),
        (["certify", "--run=a", "--runs_dir=elsewhere"], "which is not in elsewhere"),
        (["test", "--ckpt_path=absent.ckpt"], "got checkpoint absent.ckpt, not found"),
        (["test", "--ckpt_path=alone.ckpt"], "alone.ckpt, which lies in no run.*--config FILE"),
    ],
)
def test_what_names_no_settings(argv: list[str], message: str) -> None:
    Path("alone.ckpt").touch()
    with pytest.raises((ValueError, OSError, CheckpointError), match=message):
        inserted(*argv)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("fit --data.batch_size=8 --data X", "fit --data X --data.batch_size=8"),
        ("fit --data.a 1 --data=X", "fit --data=X --data.a 1"),
        ("--model.a=1 --data.b=2 --data=D --model=M", "--model=M --model.a=1 --data=D --data.b=2"),
        # The file would override what is moved in front of it.
        ("--data.a=1 --config c --data=X", "--data.a=1 --config c --data=X"),
        ("--data=X --data.a=1 --data.b=2", "--data=X --data.a=1 --data.b=2"),
        ("--data.a=1", "--data.a=1"),
        ("--database=1 --data.a=1", "--database=1 --data.a=1"),
    ],
)
def test_classes_first(given: str, expected: str) -> None:
    assert classes_first(given.split()) == expected.split()


@pytest.mark.parametrize(
    "words",
    [
        "--data MultipleChoice",
        "--data=datamodules.multiple_choice.MultipleChoice",
        "--data datamodules.Corpus",
        "--model lit_modules.TaskModule",
        "--model OSLA",
    ],
)
def test_base_classes_and_unknown_names_are_refused(words: str) -> None:
    key, name = words.replace("=", " ").split()
    corpora_or_methods = "SST2, .*TextFiles" if key == "--data" else "OLSA.*TextClassifier"
    with pytest.raises(ValueError, match=f"got {key} {name}, expected .*{corpora_or_methods}"):
        check_classes(["fit", *words.split()])


@pytest.mark.parametrize(
    "words",
    [
        "--data Reviews",
        "--data=datamodules.Reviews",
        "--data datamodules.reviews.Reviews",
        "--data null",
        "--data mine.Corpus",
        "--data settings.yaml",
        "--model lit_modules.olsa.OLSA",
    ],
)
def test_other_names_are_left_to_the_parser(words: str) -> None:
    check_classes(["fit", *words.split()])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("test --device cpu", "test --trainer.accelerator=cpu --trainer.devices=1"),
        ("test --device=auto --run a", "test --trainer.accelerator=auto --run a"),
        ("test --device cuda", "test --trainer.accelerator=gpu --trainer.devices=1"),
        (
            "test --device=cuda:1 --run a",
            "test --trainer.accelerator=gpu --trainer.devices=[1] --run a",
        ),
        ("test --trainer.devices 2", "test --trainer.devices 2"),
    ],
)
def test_a_device_is_short_for_settings_of_the_trainer(given: str, expected: str) -> None:
    assert device_words(given.split()) == expected.split()


def test_a_file_is_a_corpus() -> None:
    assert file_words(["--data", "a/mails.csv.gz", "--data.batch_size=8"]) == [
        "--data=TextFiles",
        "--data.train=a/mails.csv.gz",
        "--data.test_share=0.2",
        "--data.name=mails",
        "--data.batch_size=8",
    ]
    own = ["--data=b.tsv", "--data.test=t.tsv", "--data.name=x"]
    assert file_words(own) == ["--data=TextFiles", "--data.train=b.tsv", *own[1:]]
    assert file_words(["--data=b.conll.gz", "--data.test=t.conll"])[:3] == [
        "--data=TaggedFiles",
        "--data.train=b.conll.gz",
        "--data.name=b",
    ]
    for words in (["--data", "SST2"], ["--data.train", "a.tsv"], ["--dataset", "a.tsv"]):
        assert file_words(words) == words


@pytest.mark.parametrize(
    ("words", "group"),
    [
        ("--model=OLSA --model.objective=3", "objective"),
        ("--model OLSA --model.objective [3]", "objective"),
        ("--model=OLSA --model.objective.schedule=linear", "objective.schedule"),
        ("--model=WordScores --model.net=[8]", "net"),
        ("--model.objective.schedule=linear", "objective.schedule"),
        (
            "--model=AdversarialTraining --model.classifier=OLSA --model.classifier.layers=x",
            "classifier.layers",
        ),
    ],
)
def test_a_value_for_a_group_names_its_settings(words: str, group: str) -> None:
    with pytest.raises(
        ValueError, match=rf"got --model\.{re.escape(group)} .*: --model\.{group}\."
    ):
        check_groups(["fit", *words.split()])


@pytest.mark.parametrize(
    "words",
    [
        ["--model=OLSA", "--model.objective.gamma=2"],
        ["--model=OLSA", '--model.objective={"gamma": 2}'],
        ["--model=OLSA", "--model.objective=null"],
        ["--model=OLSA", "--model.width=8"],
        ["--config=default", "--model.words.split=joined"],
        ["--model=ASA", "--model.masking.kind=bernoulli"],
    ],
)
def test_settings_of_groups_pass(words: list[str]) -> None:
    check_groups(["fit", *words])
