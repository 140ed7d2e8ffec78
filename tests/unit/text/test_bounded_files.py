"""The one reader of foreign bytes: whatever they are, the error is ours and names the file."""

import gzip
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from text.bounded_files import (
    DEPTH_LIMIT,
    DataError,
    json_lines,
    opened_zip,
    parse_json,
    parse_yaml,
    read_bytes,
    read_csv,
    read_json,
    read_text,
    read_yaml,
    reading,
    zip_member,
)
from text.json_shapes import check_shape

READS: list[Callable[[Path], Any]] = [
    read_bytes,
    read_text,
    lambda path: read_json(path, "JSON"),
    lambda path: read_yaml(path, "YAML"),
    lambda path: list(json_lines(path, "lines")),
    lambda path: list(read_csv(path, "rows")),
    lambda path: opened_zip(path).__enter__(),
]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("kind", ["pipe", "zeros", "folder", "link", "absent"])
def test_what_is_no_regular_file(kind: str, read: Callable[[Path], Any], tmp_path: Path) -> None:
    path = tmp_path / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "zeros":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(DataError, match=f"got {path}"):
        read(path)


def test_a_missing_file_has_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "words.json").touch()
    (tmp_path / "other.json").touch()
    message = rf"got {tmp_path}/wrods.json, not found, expected a file \(there is words.json\)$"
    with pytest.raises(DataError, match=message):
        read_json(tmp_path / "wrods.json", "JSON")


@pytest.mark.long
def test_bombs(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b" " * 2**26))
    with pytest.raises(DataError, match="never packed that tightly"):
        read_json(path, "JSON")
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a", b"\0" * 2**26)
    with opened_zip(archive) as opened, pytest.raises(DataError, match="expected fewer"):
        zip_member(archive, opened, "a", limit=2**30)


@pytest.mark.parametrize("offset", [8, 10])
def test_zip_flags(offset: int, tmp_path: Path) -> None:
    """Encrypted, or packed by an unknown method: RuntimeError and NotImplementedError."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("a", b"text")
    raw = bytearray(path.read_bytes())
    raw[raw.rindex(b"PK\1\2") + offset] = 9
    path.write_bytes(raw)
    with pytest.raises(DataError, match=f"{path}"), opened_zip(path) as archive:
        zip_member(path, archive, "a", limit=100)


@pytest.mark.parametrize(
    "raw",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        "[" * (DEPTH_LIMIT + 2) + "]" * (DEPTH_LIMIT + 2),
        "9" * 5000,
        "9" * 50,
        '"\\ud800"',
        b"\xff",
        "{",
        "",
    ],
)
def test_json_that_breaks_parsers_or_readers(raw: str | bytes) -> None:
    with pytest.raises(DataError, match="got a file, which cannot be read"):
        parse_json(raw, "a file", "JSON")


def test_json_that_is_fine() -> None:
    deep: Any = 1
    for _ in range(DEPTH_LIMIT):
        deep = [deep]
    assert parse_json(json.dumps(deep), "a", "JSON") == deep
    assert parse_json('"\\ud83d\\ude00"', "a", "JSON") == "\U0001f600"


LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 60)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, "aliases included"),
        (MERGES, "aliases included"),
        ("[" * 5000, "levels"),
        ("a: &a [*a]", "the alias"),
        ("a: 1\na: 2", "twice the key 'a' in lines 1 and 2"),
        ("2001-99-99", "month"),
        ("a: 2001-01-01", "needs quotes"),
        ("!!binary eA==", "needs quotes"),
        ("? [a]\n: b", "unhashable"),
        ("a: " + "9" * 5000, "limit"),
        ("a: [", "flow"),
    ],
)
def test_yaml_that_breaks_parsers_or_readers(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_yaml(text, "a file", "YAML")


def test_yaml_that_is_read_again_is_as_in_the_file() -> None:
    text = "a: {x: [1]}"
    first = parse_yaml(text, "a", "YAML")
    first["a"]["x"].append(2)
    assert parse_yaml(text, "a", "YAML") == {"a": {"x": [1]}}


def test_yaml_aliases_are_lists_of_their_own() -> None:
    value = parse_yaml("a: &a {x: [1]}\nb: {<<: *a, y: 2}\nc: *a", "a", "YAML")
    assert value == {"a": {"x": [1]}, "b": {"x": [1], "y": 2}, "c": {"x": [1]}}
    assert value["a"]["x"] is not value["c"]["x"]


def test_laughs_take_no_memory(tmp_path: Path) -> None:
    """In a process that may not have more than half a gigabyte beyond its own."""
    path = tmp_path / "a.yaml"
    path.write_text(LAUGHS)
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from text.bounded_files import DataError, read_yaml\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29))\n"
        "try: read_yaml(Path(sys.argv[1]), 'YAML')\n"
        "except DataError: print('refused')\n"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    assert outcome.stdout == "refused\n"


def test_errors_of_any_kind_name_the_file() -> None:
    for error in (KeyError("a"), RuntimeError("b"), MemoryError(), OSError(5, "broken disk")):
        with pytest.raises(DataError, match=r"got a\.b, .*expected c"), reading("a.b", "c"):
            raise error


def test_shapes() -> None:
    check_shape({"a": [1, 2.5, None]}, dict[str, list[float | None]], "f")
    wrong: list[Any] = [{"a": [float("inf")]}, {"a": "x"}, {"a": [True]}, [], {"a": {}}]
    for value in wrong:
        with pytest.raises(DataError, match="got f with"):
            check_shape(value, dict[str, list[float | None]], "f")


def test_packed_files_are_known_by_their_begin(tmp_path: Path) -> None:
    path = tmp_path / "lists.json"
    path.write_bytes(gzip.compress(b'{"good": ["great"]}'))
    assert read_json(path, "lists") == {"good": ["great"]}
    path = tmp_path / "lists.json.gz"
    path.write_text("{}")
    with pytest.raises(DataError, match="cannot be read"):
        read_json(path, "lists")


def test_a_long_field_of_a_csv_file(tmp_path: Path) -> None:
    path, field = tmp_path / "a.csv", "x" * 200_000
    path.write_text(f'a,"{field}"\n')
    assert list(read_csv(path, "rows")) == [(1, ["a", field])]
