"""The command line of `train --recipe`, without a training."""

from pathlib import Path
from typing import Any

import pytest

from app.cli.main import entry
from app.commands import train_recipe
from app.recipe import robust
from app.recipe.candidates import compare_models
from attacks.resources.catalogue import ResourceError
from run_files import atomic
from run_files.results import merge
from run_files.run_directory import RunDirectory

BASE = ["--recipe", "robust", "--data", "mails.tsv"]


@pytest.fixture(autouse=True)
def mails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of the command line, in the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("mails.tsv").write_text("text\tlabel\n" + "a mail\tham\nan offer\tspam\n" * 5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--recipe", "robsut"], "got 'robsut', expected one of robust; did you mean robust?"),
        (["--compare", "bga"], "expected one of plain, bag, transformer, none; did you mean bag?"),
        (["--compare", "bag,none"], "got 'bag,none', expected names, or none"),
        (["--attack", "pwsw"], "did you mean pwws?"),
        (
            ["--against", "typo"],
            "got perturbation set 'typo' (did you mean typos?), expected recipes",
        ),
        (["--kappa", "2"], "got '2', expected auto, or numbers from 0 to 1"),
        (["--kappa", "much"], "got 'much', expected auto, or numbers from 0 to 1"),
        (["--choose_by", "luck"], "invalid choice: 'luck'"),
        (["--batch_size", "3"], "unrecognized arguments: --batch_size"),
    ],
)
def test_a_wrong_word_is_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry(["train", *BASE, *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_other_settings_are_passed_on() -> None:
    words = ["--data.text_column", "body", "--trainer.max_epochs=1", "--compare", "none"]
    args = train_recipe.parser().parse_args([*BASE, *words])
    assert args.passed == ["--data.text_column=body", "--trainer.max_epochs=1"]
    assert args.compare == []
    assert args.data == "mails.tsv"
    assert robust._data_words(args) == [
        "--data=TextFiles",
        "--data.train=mails.tsv",
        "--data.test_share=0.2",
        "--data.name=mails",
        "--data.text_column=body",
    ]


def test_a_stop_is_said_and_has_its_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from training.interrupt import Stopped

    def stop(_: Any) -> None:
        raise Stopped(15)

    monkeypatch.setattr(robust, "train_robust", stop)
    assert entry(["train", *BASE]) == 143
    assert "stopped by SIGTERM: the same command resumes" in capsys.readouterr().err


def test_without_wordnet_it_uses_typos(capsys: pytest.CaptureFixture[str]) -> None:
    class Some:
        def wordnet_place(self) -> None: ...

    class Nothing:
        def wordnet_place(self) -> None:
            msg = "got no wordnet.zip"
            raise ResourceError(msg)

    assert robust._usual_sets(Some()) == "pwws,deepwordbug"  # type: ignore[arg-type] # a stand-in
    assert capsys.readouterr().out == ""
    assert robust._usual_sets(Nothing()) == "typos,deepwordbug"  # type: ignore[arg-type] # a stand-in
    assert "`python -m steadfast resources wordnet`" in capsys.readouterr().out


def test_attacks_without_resources_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(settings: Any) -> list[Any]:
        if settings.recipe == "pwws":
            msg = "got no wordnet.zip"
            raise ResourceError(msg)
        return []

    monkeypatch.setattr(robust, "plan", plan)
    attacks, missing = robust._find_attacks(["pwws", "deepwordbug"], None)
    assert attacks == ["deepwordbug"]
    assert missing == ["no pwws: `python -m steadfast resources wordnet` gets its resources"]


def test_the_comparison_names_models_that_are_no_good(tmp_path: Any) -> None:
    labels = [0] * 40 + [1] * 40 + [2] * 20
    models = {"sound": labels, "constant": [1] * 100, "poor": [0, 1] * 50}
    runs = []
    for name, predictions in models.items():
        run = RunDirectory(tmp_path / name)
        pairs = enumerate(zip(labels, predictions, strict=True))
        rows = [{"sample_id": i, "label": y, "prediction": p} for i, (y, p) in pairs]
        atomic.write_lines(run.predictions, rows)
        identity = {"run": name, "method": "M", "corpus": "c", "seed": 0}
        metrics = {
            "attack/pwws/accuracy": 0.5,
            "attack/pwws/clean_accuracy": 0.75,
            "attack/pwws/samples": 20.0,
        }
        merge(run.results_path, "attack/pwws", identity=identity, metrics=metrics, seconds=1.0)
        attacked: list[dict[str, Any]] = [
            {"sample_id": 0, "label": 0, "prediction": 0, "outcome": "succeeded"},
            {"sample_id": 1, "label": 0, "prediction": 0, "outcome": "failed"},
            {"sample_id": 2, "label": 1, "prediction": 1, "outcome": "failed"},
            {"sample_id": 3, "label": 1, "prediction": 0, "outcome": "skipped"},
            {"sample_id": 4, "label": 1, "prediction": None, "outcome": "error"},
            {"sample_id": 5, "label": 1, "prediction": 0, "outcome": "skipped"},
        ]
        atomic.write_lines(run.path / "attacks" / "pwws.jsonl", attacked)
        runs.append(run)
    text = compare_models(runs, "certify_typos", ["pwws"], ["a", "b", "c"])
    assert "100 test texts, of which 40.0 % are 'a'" in text
    lines = {line.strip().split("  ")[0]: line for line in text.splitlines()}
    assert "100.0 [96.3, 100.0]" in lines["clean"]
    assert lines["certified, all words"].split()[-3:] == ["-", "-", "-"]
    assert "75.0 [53.1, 88.8]" in lines["attacked texts, clean"]
    # One of three texts of the second class is right, before the attack and after it.
    order = text.splitlines()
    clean = next(i for i, line in enumerate(order) if line.startswith("attacked texts, clean"))
    means = [order[i].split("  ")[-1].strip() for i in (clean + 1, clean + 3)]
    assert means == ["66.7", "41.7"]
    assert "constant has collapsed: it predicts 'b' for 100.0 % of the texts" in text
    assert "poor is not clearly better than to predict 'a' for every text" in text
    assert "sound is" not in text
