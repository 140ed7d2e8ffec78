"""A method, a corpus, a recipe and a measurement of an installed package work by command."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import datamodules
from attacks.recipes import find_recipe, recipe_names
from lit_modules import METHODS, TextModule
from measure.text_measurement import find_measurement, measurement_names
from tests.integration.conftest import QUIET, ROOT, TINY
from tests.integration.conftest import lines as lines_of
from text import plugins

ROWS = ["sun all day\tgood", "rain all day\tbad", "a warm wind\tgood", "a cold wind\tbad"]
STUDY = """
title: Plug-ins
about: A study of a class of another package.
rows: {deep: {settings: {model: DeepAveraging, data: Weather, data.data_dir: data}}}
stages: [fit, test]
columns: {accuracy: {title: accuracy, metric: test/accuracy}}
"""
PROGRAM = """
import sys
from app.cli.main import entry

for expected, words in LINES:
    print("==", words[0], flush=True)
    status = entry(words)
    assert status == expected, (words, status)
"""


def install_example(target: Path) -> None:
    """Install the example into a folder, as pip does."""
    source = target / "source"
    source.mkdir()
    for file in (ROOT / "examples" / "plugin").iterdir():
        if file.is_file():
            (source / file.name).write_bytes(file.read_bytes())
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--target", str(target), str(source)]
    subprocess.run(command, check=True, capture_output=True)


def write_weather() -> None:
    """Write the corpus of the example into `data`."""
    Path("data/weather").mkdir(parents=True)
    for split in ("train", "test"):
        Path(f"data/weather/{split}.tsv").write_text("\n".join(["text\tlabel", *ROWS * 10]) + "\n")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which pip has installed the example."""
    target = tmp_path_factory.mktemp("installed")
    install_example(target)
    return target


def test_every_command_knows_the_classes(installed: Path, here: Path) -> None:
    write_weather()
    Path("plugins.yaml").write_text(STUDY)
    attack = ["--attack", "double-letter", "--num_samples", "3", "--trainer.accelerator", "cpu"]
    classes = ["--model", "DeepAveraging", "--data", "Weather", "--data.data_dir", "data"]
    lines = [
        ["train", "--run", "deep", *classes, *TINY, *QUIET],
        ["attack", "--run", "deep", *attack],
        ["predict", "--run", "deep", "--text", "sun all day"],
        ["measure", "reversed-words", "--run", "deep", "--device", "cpu"],
        ["measure", "reversed-words", "--run", "deep", "--tag", "two", "--settings.group", "2"],
        ["study", "run", "plugins.yaml", "--check"],
        ["report", "--run", "deep"],
    ]
    refused = [*lines[3], "--settings.group", "3"]
    given = [*((0, words) for words in lines), (1, refused)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(installed)])}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("LINES", repr(given))],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    metrics = json.loads(Path("runs/deep/results.json").read_text())["metrics"]
    assert {"test/accuracy", "attack/double-letter/accuracy"} <= metrics.keys()
    assert '"prediction": ' in done.stdout
    # The mean of a text does not depend on the order, but for the positions of its words.
    assert metrics["measure/reversed-words/clean_accuracy"] == metrics["test/accuracy"]
    (first, *_), (two, *_) = (
        lines_of(f"runs/deep/measure/{name}.jsonl")
        for name in ("reversed-words", "reversed-words-two")
    )
    assert (first["text"], first["reversed"]) == ("sun all day", "day all sun")
    assert two["reversed"] == "all sun day"
    assert "settings.group null -> 3" in done.stderr
    assert "by --tag" in done.stderr
    # A process that only predicts, without Lightning.
    command = [sys.executable, "-m", "app", "predict", "--run", "deep", "--text", "rain all day"]
    alone = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(alone.stdout)["prediction"] in ("bad", "good")
    # Without the package the error names the method.
    environment["PYTHONPATH"] = str(ROOT)
    without = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert without.returncode == 1
    assert "of method DeepAveraging, expected one of" in without.stderr


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, EntryPoint]]:
    """The entry points of the process, to be filled."""
    given: dict[str, EntryPoint] = {}
    for name in ("text.plugins", "attacks.recipes", "measure.text_measurement"):
        monkeypatch.setattr(sys.modules[name], "plugins", lambda group: given)
    find_recipe.cache_clear()
    yield given
    find_recipe.cache_clear()


def _point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group="steadfast.methods")


def test_a_faulty_plugin_is_a_warning_and_an_error_where_it_is_used(
    points: dict[str, EntryPoint], caplog: pytest.LogCaptureFixture
) -> None:
    points |= {
        "Gone": _point("Gone", "no_such_module:Gone"),
        "OLSA": _point("OLSA", "lit_modules:UniBERT"),
        "Renamed": _point("Renamed", "lit_modules:UniBERT"),
        "Corpus": _point("Corpus", "datamodules:IMDB"),
        "UniBERT": _point("UniBERT", "lit_modules:UniBERT"),
    }
    known = {"OLSA": METHODS["OLSA"]}
    loaded = dict(plugins.load_classes("steadfast.methods", known, TextModule))
    assert loaded == {"UniBERT": METHODS["UniBERT"]}
    messages = [record.getMessage() for record in caplog.records]
    assert [message.split(",")[0] for message in messages] == [
        "got plug-in Gone of an unknown package",
        "got plug-in OLSA",
        "got plug-in Renamed",
        "got plug-in Corpus",
    ]
    assert "No module named 'no_such_module'" in messages[0]
    assert "Gone" in recipe_names()
    with pytest.raises(ValueError, match=r"got plug-in Gone .*cannot be imported"):
        find_recipe("Gone")
    with pytest.raises(ValueError, match=r"got plug-in OLSA, which is a .*, expected a recipe"):
        find_recipe("OLSA")
    assert "Gone" in measurement_names()
    with pytest.raises(ValueError, match=r"got plug-in Gone .*cannot be imported"):
        find_measurement("Gone")
    with pytest.raises(ValueError, match=r"got plug-in OLSA, .*, expected a TextMeasurement"):
        find_measurement("OLSA")
    with pytest.raises(ValueError, match="got measurement 'accuracy', expected one of Corpus, "):
        find_measurement("accuracy")
    # Our own recipes come first.
    points["pwws"] = _point("pwws", "lit_modules:UniBERT")
    assert recipe_names().count("pwws") == 1
    assert find_recipe("pwws").needs


def test_our_own_classes_are_all_there() -> None:
    assert "IMDB" in datamodules.CORPORA
    assert "OLSA" in METHODS
