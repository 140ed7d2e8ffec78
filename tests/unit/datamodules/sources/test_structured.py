"""Files whose samples are no rows of fields: CoNLL, and lists in one JSON document."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from datamodules.sources.structured import read_conll, read_entries
from text.bounded_files import LINE_LIMIT, DataError

TAGS = ["O", "B-place", "I-place"]


def write(path: Path, content: str | bytes) -> Path:
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def sentences(path: Path, tags: list[str] | None = None) -> list[tuple[Any, ...]]:
    return [
        (row.line, row.values["words"], row.values["tags"])
        if row.problem is None
        else (row.line, row.problem)
        for row in read_conll(path, tags)
    ]


@pytest.mark.parametrize("name", ["a.conll", "a.conll.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_sentences_of_tagged_words(tmp_path: Path, name: str, end: str) -> None:
    content = end.join(["", "Old\tB-place", "Town\tI-place", "\t", "", "is\tO", "far\tO"])
    expected = [(2, ["Old", "Town"], ["B-place", "I-place"]), (6, ["is", "far"], ["O", "O"])]
    assert sentences(write(tmp_path / name, content), TAGS) == expected
    assert sentences(write(tmp_path / name, "\ufeff" + content + end), TAGS) == expected


def test_words_and_tags_between_spaces(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll", "Old B-place\nTown   I-place \n\nNew York\tB-place\n")
    assert sentences(path) == [
        (1, ["Old", "Town"], ["B-place", "I-place"]),
        (4, ["New York"], ["B-place"]),
    ]


def test_words_alone_have_no_tags(tmp_path: Path) -> None:
    assert sentences(write(tmp_path / "a.conll", "Old\nTown\n")) == [(1, ["Old", "Town"], None)]


def test_an_inside_tag_without_a_beginning_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll", "in\tO\nTown\tI-place\n")
    assert sentences(path, TAGS) == [(1, ["in", "Town"], ["O", "I-place"])]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("a\tO\tO", "got 3 fields, expected 2"),
        ("a NN O", "got 3 fields, expected 2"),
        ("a\tB-time", r"got tag 'B-time', expected one of \['O', 'B-place', 'I-place'\]"),
        ("a\to", "got tag 'o', expected one of"),
        ("a\t", "words with and without a tag in one sentence"),
        ("\tO", "got no word before the tag"),
        ("\u3000\tO", "got no word before the tag"),
        ("a\0\tO", "a NUL character"),
    ],
)
def test_a_bad_line_is_told_and_spoils_its_sentence_only(
    tmp_path: Path, line: str, problem: str
) -> None:
    path = write(tmp_path / "a.conll", f"x\tO\n\nin\tO\n{line}\nso\tX\n\ny\tB-place\n")
    first, bad, last = sentences(path, TAGS)
    assert (first, last) == ((1, ["x"], ["O"]), (7, ["y"], ["B-place"]))
    assert bad[0] == 4
    assert re.search(problem, bad[1])


def test_broken_bytes_in_conll(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll", b"a\tO\ncaf\xe9\tO\n\nb\tO")
    bad, good = sentences(path)
    assert bad[0] == 2
    assert "byte 0xe9" in bad[1]
    assert good == (4, ["b"], ["O"])


def test_any_tag_of_the_scheme_where_none_are_named(tmp_path: Path) -> None:
    bad, good = sentences(write(tmp_path / "a.conll", "a\tNN\n\nb\tI-x-y\n"))
    assert bad == (1, "got tag 'NN', expected O, B-<type> or I-<type>")
    assert good == (3, ["b"], ["I-x-y"])


def entries(path: Path) -> list[tuple[Any, ...]]:
    return [(row.place, row.problem or row.values["value"]) for row in read_entries(path)]


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
@pytest.mark.parametrize("indent", [None, 1])
def test_entries_of_one_document(tmp_path: Path, name: str, indent: int | None) -> None:
    value = [["a", {"b": [1]}], "two\nlines", None]
    path = write(tmp_path / name, "\ufeff" + json.dumps(value, indent=indent) + "\n")
    rows = list(read_entries(path))
    assert [row.values["value"] for row in rows] == value
    assert [row.entry for row in rows] == [1, 2, 3]
    second = json.dumps(value, indent=indent).split('"two')[0].count("\n") + 1
    assert rows[1].place == f"entry 2, line {second}"


def test_an_entry_with_texts_that_cannot_be_used(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", '[["a", {"b\\ud800": 1}],\n"ok", ["x", ["\\u0000"]]]')
    first, second, third = entries(path)
    assert first[0] == "entry 1, line 1"
    assert "broken encoding" in first[1]
    assert second == ("entry 2, line 2", "ok")
    assert third == ("entry 3, line 2", "broken encoding: a NUL character")


@pytest.mark.parametrize("content", ["[]", " [ \n ] "])
def test_an_empty_list_has_no_entries(tmp_path: Path, content: str) -> None:
    assert entries(write(tmp_path / "a.json", content)) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"a\.json: got '', expected a JSON list"),
        ('{"a": 1}', r"a\.json: got .* expected a JSON list"),
        ("[1,\n2,\n}", r"entry 3, line 3: not a JSON value"),
        ("[1, 2", r"behind entry 2: got '', expected a comma or \]"),
        ("[1 2]", r"behind entry 1: got '2', expected a comma"),
        ("[1,]", r"entry 2, line 1: not a JSON value"),
        ("[1] [2]", r"behind the list"),
        ("[1, " + "[" * 100_000, r"entry 2, line 1: not a JSON value"),
        ("[" * 100_000 + "]" * 100_000, r"entry 1, line 1: not a JSON value"),
        ("[" + "9" * 10_000 + "]", r"entry 1, line 1: not a JSON value"),
        (b'["caf\xe9"]', r"line 1: broken encoding: byte 0xe9"),
        (b'["a"]'.ljust(LINE_LIMIT + 2), r"line 1: got more than 16,777,216 bytes"),
        (b"[\n".ljust(LINE_LIMIT - 2) + b"\n1,\n]", r"JSON document of more than 16,777,216"),
    ],
)
def test_documents_that_are_broken_as_a_whole(
    tmp_path: Path, content: str | bytes, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        entries(write(tmp_path / "a.json", content))
    assert len(str(caught.value)) < 500


@pytest.mark.long
@pytest.mark.parametrize("read", [entries, sentences])
def test_files_that_are_none(tmp_path: Path, read: Any) -> None:
    with pytest.raises(DataError, match="not found"):
        read(tmp_path / "a.json")
    (tmp_path / "b").mkdir()
    with pytest.raises(DataError, match="is a folder, expected a regular file"):
        read(tmp_path / "b")
    broken = tmp_path / "a.gz"
    packed = gzip.compress(b"[1,\n" + bytes(range(48, 58)) * 50_000)
    broken.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DataError, match="broken or cut off"):
        read(broken)
    # What is packed a thousand times smaller is no text.
    write(broken, b"[\n" + b"1,\n" * 6_000_000)
    with pytest.raises(DataError, match=r"never packed that tightly|JSON document of more"):
        read(broken)


def test_an_empty_conll_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="empty file"):
        sentences(write(tmp_path / "a.conll", ""))
