"""A small number of the inputs of `python -m tests.fuzz`, and that it counts."""

from pathlib import Path

import pytest

from tests.fuzz.__main__ import fuzz, main, table
from tests.fuzz.readers import READERS, Reader


def test_no_foreign_error() -> None:
    counts = fuzz(10 * len(READERS), seed=39)
    assert sum(count.inputs for count in counts.values()) == 10 * len(READERS)
    foreign = {name: list(count.foreign) for name, count in counts.items() if count.foreign}
    assert not foreign, table(counts)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_good_files_are_read(reader: Reader, tmp_path: Path) -> None:
    for name, content in ((reader.file, reader.seed), *reader.others):
        path = tmp_path / "runs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if reader.name == "request":
        return  # of another request
    reader.read(tmp_path / "runs" / reader.file)


def test_a_foreign_error_is_counted_and_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(path: Path) -> None:
        int(path.read_text())  # a ValueError of Python, not of ours

    monkeypatch.setattr("tests.fuzz.__main__.READERS", [Reader("broken", "a", b"x", broken)])
    assert main(["--inputs", "20", "--save", str(tmp_path / "saved")]) == 1
    assert "ValueError" in capsys.readouterr().out
    assert (tmp_path / "saved" / "0.input").is_file()
