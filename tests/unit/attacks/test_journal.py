from pathlib import Path
from typing import IO

import pytest

from attacks.journal import Journal
from attacks.json_lines import append
from tests.unit.attacks.outcomes import flipped, read_journal, record
from text.bounded_files import LINE_LIMIT
from text.file_lock import take
from text.subjects import differences, joined

ABOUT = {"attack": "pwws", "seed": 0}


def test_records_come_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.jsonl"
    pair = record(1, text=("a", "b"), adversarial=("a", "c"))
    with Journal(path, ABOUT) as journal:
        journal.add(record(0))
        journal.add(pair)
    with Journal(path, ABOUT) as journal:
        assert journal.records == [record(0), pair]
        journal.add(flipped(2))
    about, records, _ = read_journal(path)
    assert about == ABOUT
    assert [one.sample_id for one in records] == [0, 1, 2]


def test_each_record_is_on_disk_at_once(tmp_path: Path) -> None:
    with Journal(tmp_path / "a", ABOUT) as journal:
        journal.add(record(0))
        assert len(read_journal(tmp_path / "a")[1]) == 1


def test_a_full_disk_names_the_file() -> None:
    with Path("/dev/full").open("ab") as stream, pytest.raises(OSError, match="No space") as raised:
        append(stream, [{}])
    assert str(raised.value.filename) == "/dev/full"


@pytest.mark.parametrize(
    "torn", ['{"sample_id": 1, "la', '{"sample_id": 1}\n', "{}", "[1]\n", "\x00\n"]
)
def test_a_torn_end_is_cut_off(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "a"
    with Journal(path, ABOUT) as journal:
        journal.add(record(0))
    whole = path.read_text()
    path.write_text(whole + torn)
    with Journal(path, ABOUT) as journal:
        assert journal.records == [record(0)]
        journal.add(record(1))
    assert [one.sample_id for one in read_journal(path)[1]] == [0, 1]


def test_a_whole_last_line_without_its_end_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with Journal(path, ABOUT) as journal:
        journal.add(record(0))
        journal.add(record(1))
    path.write_text(path.read_text().rstrip("\n"))
    with Journal(path, ABOUT) as journal:
        assert journal.records == [record(0)]
        journal.add(record(1))
    assert [one.sample_id for one in read_journal(path)[1]] == [0, 1]


def test_other_settings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    Journal(path, ABOUT).__exit__(None, None, None)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"other settings \(seed 0 -> 1\), expected the same"):
        Journal(path, {**ABOUT, "seed": 1})
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", ["hello\n", "[1]\n", '{"sample_id": 0}\n', "\n", "hello"])
def test_another_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"a, line 1, which .* expected the settings"):
        Journal(path, ABOUT)
    assert path.read_text() == content


def test_an_empty_file_is_begun(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with Journal(tmp_path / "a", ABOUT) as journal:
        assert journal.records == []
    assert read_journal(tmp_path / "a")[0] == ABOUT


@pytest.mark.parametrize("torn", ["{", '{"about": {"attack": "pw'])
def test_a_torn_first_line_is_no_line(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "a"
    path.write_text(torn)
    with Journal(path, ABOUT) as journal:
        journal.add(record(0))
    assert read_journal(path)[:2] == (ABOUT, [record(0)])


@pytest.mark.parametrize("line", ['{"text": "\\ud800"}', "[1]", "x" * (LINE_LIMIT + 1)])
def test_a_broken_line_costs_no_record_behind_it(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a"
    with Journal(path, ABOUT) as journal:
        journal.add(record(0))
    whole = path.read_text()
    content = f"{whole}{line}\n{whole.splitlines()[1]}\n"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"a, line 3, which cannot be read \(.*remove that line"):
        Journal(path, ABOUT)
    assert path.read_text() == content


def test_no_record_of_another_process_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    with Journal(path, ABOUT) as first, monkeypatch.context() as patched:

        def waiting(stream: IO[bytes]) -> bool:
            first.add(record(0))
            first.__exit__()
            return take(stream)

        patched.setattr("attacks.json_lines.take", waiting)
        with Journal(path, ABOUT) as second:
            assert second.records == [record(0)]
    assert read_journal(path)[1] == [record(0)]


def test_differences_of_nested_settings_are_named() -> None:
    before = {"smooth": "mask", "mask": "a long word of many letters", "alpha": 0.001}
    changes = differences({"around": before}, {"around": {**before, "alpha": 0.01}})
    assert joined(changes) == "around.alpha 0.001 -> 0.01"
    assert joined(differences({"around": None}, {"around": {"list": 3}})) == (
        'around null -> {"list": 3}'
    )


def test_differences() -> None:
    changes = differences({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": None})
    assert list(map(str, changes)) == ["b 2 -> 3"]
    # As JSON has them; of some names alone.
    assert not differences({"a": [1], "p": "x"}, {"a": (1,), "p": Path("x")})
    assert not differences({"a": 1, "b": 2}, {"a": 1}, only={"a"})
    (long,) = differences({"a": "x" * 100}, {"a": None})
    assert len(str(long)) < 80
