"""`attack text`: texts that are given or typed, by the real command line."""

import io
import json
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import Steadfast

FILM = "def scores(texts):\n    return [[0.0, t.count('good') - 0.5] for t in texts]\n"
PAIR = "def pairs(texts):\n    return [[0.0, b.count('good') - 0.5] for _, b in texts]\n"


@pytest.fixture
def line(here: Path) -> list[str]:
    (here / "typed_scores.py").write_text(FILM + PAIR)
    return ["attack", "text", "--victim=python:typed_scores:scores", "--classes=bad,fine"]


def test_texts_of_the_command_line(line: list[str], steadfast: Steadfast) -> None:
    texts = ["--text=a good film", "--text=odd"]
    found = steadfast(line, "--attack=deepwordbug,worst:case,charmer", *texts)
    assert found.status == 0, found.err
    shown = found.out.splitlines()
    assert shown[0] == "deepwordbug"
    assert shown[1].startswith("sample 0: fine -> bad, 1 of 3 words")
    assert shown[2] == "  - a [good] film"
    assert "by case" in shown[5]
    # Nothing makes `odd` a film of the other class but the word itself.
    assert shown[8].startswith("deepwordbug failed: sample 1: bad, ")
    assert not Path("attacked").exists()


def test_typed_texts_and_their_records(
    line: list[str], steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(b"a good film\nodd\n"))
    monkeypatch.setattr(sys, "stdin", stream)
    found = steadfast(line, "--attack=charmer", "--attack.edits=1", "--label=fine", "--json")
    assert found.status == 0, found.err
    first, second = map(json.loads, found.out.splitlines())
    assert (first["attack"], first["outcome"]) == ("charmer", "succeeded")
    assert (second["sample_id"], second["outcome"]) == (1, "skipped")


def test_pairs(line: list[str], steadfast: Steadfast) -> None:
    line[2] = "--victim=python:typed_scores:pairs"
    found = steadfast(line, "--text=a", "--text_pair=good", "--attack=deepwordbug")
    assert found.status == 0, found.err
    assert "fine -> bad" in found.out


def test_the_goal_of_a_file(line: list[str], here: Path, steadfast: Steadfast) -> None:
    (here / "own.yaml").write_text(
        "name: own\n"
        "transformation: {class_path: SwapCharacters, init_args: {one: false}}\n"
        "search: {class_path: Beam, init_args: {width: 1}}\n"
        "goal: {class_path: Targeted, init_args: {target: 1}}\n"
    )
    found = steadfast(line, "--attack=own.yaml", "--text=a good film", "--text=a dull film")
    assert found.status == 0, found.err
    already, other = found.out.splitlines()
    assert already.startswith("own: not attacked")
    assert other.startswith("own failed: sample 1: bad")


def test_a_detector_with_a_threshold(line: list[str], steadfast: Steadfast) -> None:
    # The other class is likelier, and the threshold is reached: 1 / (1 + e^0.5) = 0.378.
    options = ["--attack=deepwordbug", "--attack.goal=evade", "--attack.positive=fine", "--json"]
    for threshold, outcome in (("0.37", "failed"), ("0.38", "skipped")):
        found = steadfast(
            line, *options, f"--attack.threshold={threshold}", "--text=odd", "--label=fine"
        )
        assert found.status == 0, found.err
        assert json.loads(found.out)["outcome"] == outcome


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--text=a", "--label=x"], "got --label x, expected one of bad, fine"),
        (["--text=a", "--output=x"], "got --output x, expected it to be left out"),
        (["--text= "], "got the empty text"),
        (["--text=a", "--text=b", "--text_pair=c"], "got 2 --text and 1 --text_pair"),
        (["--text=a", "--attack=witness"], "got no threat for witness"),
    ],
)
def test_wrong_options(
    line: list[str], steadfast: Steadfast, options: list[str], says: str
) -> None:
    found = steadfast(line, "--attack=deepwordbug", *options)
    assert found.status == 1
    assert says in found.err
