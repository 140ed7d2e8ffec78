"""`augment`: a record per text, whole or not at all, and the same after a kill."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.commands import augment as augment_command
from attacks.augmenting import Augmenter
from attacks.resources.catalogue import ResourceError
from tests.run_command import run_command

main = partial(run_command, "augment")

TEXTS = [f"number {i} was a wonderful evening in the city" for i in range(150)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


def command(table: Path, output: Path, *more: str) -> int:
    return main(
        [
            *("--file", str(table), "--recipe", "deepwordbug", "--copies", "2"),
            *("--output", str(output), *more),
        ]
    )


def test_a_record_per_text(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "copies.jsonl"
    assert command(table, output) == 0
    records = [json.loads(line) for line in output.read_text().splitlines()]
    assert [one["text"] for one in records] == TEXTS
    assert all(len(one["augmented"]) == 2 for one in records)
    assert "300 copies of 150 texts" in capsys.readouterr().out
    assert not output.with_name("copies.jsonl.journal").exists()
    again = tmp_path / "again.jsonl"
    command(table, again)
    assert again.read_bytes() == output.read_bytes()
    command(table, again, "--seed", "1")
    assert again.read_bytes() != output.read_bytes()


def test_a_stopped_command_goes_on(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, stopped = tmp_path / "whole.jsonl", tmp_path / "stopped.jsonl"
    command(table, whole)
    journal = tmp_path / "stopped.jsonl.journal"

    class Stops(Augmenter):
        def run(self, texts: Any, *, first: int = 0) -> Any:
            for i, copies in enumerate(super().run(texts, first=first)):
                if first + i == 70:
                    raise KeyboardInterrupt
                yield copies

    monkeypatch.setattr(augment_command, "Augmenter", Stops)
    with pytest.raises(KeyboardInterrupt):
        command(table, stopped)
    assert not stopped.exists()
    # A line that a kill has torn.
    with journal.open("ab") as stream:
        stream.write(b'{"number": 70, "text"')
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"other settings .*seed 0 -> 5"):
        command(table, stopped, "--seed", "5")
    command(table, stopped)
    assert "resuming after 70 of 150" in capsys.readouterr().out
    assert stopped.read_bytes() == whole.read_bytes()
    assert not journal.exists()


def test_given_texts_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--text", "Das war ein sch\u00f6ner Abend", "--recipe", "pruthi", "--language", "german"])
    (line,) = capsys.readouterr().out.splitlines()
    record = json.loads(line)
    (copy,) = record["augmented"]
    assert copy != record["text"]
    main(["--text", "a film", "--text_pair", "a plot", "--recipe", "pruthi"])
    assert json.loads(capsys.readouterr().out)["text"] == ["a film", "a plot"]


def test_texts_come_from_one_place(table: Path) -> None:
    for argv in ([], ["--text", "a", "--file", str(table)]):
        with pytest.raises(ValueError, match="one place"):
            main(argv)


def test_a_missing_resource_names_the_setting_of_this_command(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NLTK_DATA", raising=False)
    (tmp_path / "empty").mkdir()
    settings = ("--recipe", "textfooler", "--resources", str(tmp_path / "empty"))
    with pytest.raises(ResourceError, match=r"\(--resources\)") as caught:
        command(table, tmp_path / "copies.jsonl", *settings)
    assert "--attack" not in str(caught.value)


def test_where_no_copies_can_be_made(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="which is a folder, expected --output FILE"):
        command(table, table.parent)
    with pytest.raises(ValueError, match=r"got gbda, .*expected a recipe with replacements"):
        main(["--text", "a fine film", "--recipe", "gbda"])
    assert capsys.readouterr().out == ""
