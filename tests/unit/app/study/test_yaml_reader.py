"""Values of every type that the file of a study has, right and wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from app.study.yaml_reader import YamlReader


@dataclass(frozen=True, kw_only=True)
class Entry:
    name: str
    title: str
    count: int = 3
    better: Literal["higher", "lower"] | None = "higher"


@dataclass(frozen=True, kw_only=True)
class File:
    label: str
    flag: bool = True
    scale: float = 1.0
    seeds: tuple[int, ...] = (0,)
    files: Annotated[tuple[str, ...], "a list of settings files"] = ()
    entries: Mapping[str, Entry] = field(default_factory=dict)
    single: Entry | None = None
    raw: Any = None


def read(**content: Any) -> tuple[File, list[str]]:
    reader = YamlReader()
    return reader.read(File, {"label": "x", **content}), reader.problems


def test_all_fields_by_their_types() -> None:
    content = {"scale": 2, "seeds": [1, 2], "files": ["a.yaml"], "raw": [1], "flag": None}
    entries = {"a": {"better": None, "count": 0}, "b": {"title": "B"}, "c": None}
    file, problems = read(**content, entries=entries)
    assert problems == []
    assert file == File(
        label="x",
        scale=2.0,
        seeds=(1, 2),
        files=("a.yaml",),
        raw=[1],
        entries={
            "a": Entry(name="a", title="a", count=0, better=None),
            "b": Entry(name="b", title="B"),
            "c": Entry(name="c", title="c"),
        },
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"label": None}, "label: got nothing, expected a text"),
        ({"label": 3}, "label: got 3, expected a text"),
        ({"flag": 1}, "flag: got 1, expected true or false"),
        ({"scale": True}, "scale: got True, expected a number"),
        ({"seeds": [1, 1]}, "seeds: got [1, 1], expected a list of whole numbers from 0 on"),
        ({"seeds": [True]}, "seeds: got [True], expected a list of whole numbers from 0 on"),
        ({"files": "a"}, "files: got 'a', expected a list of settings files"),
        ({"entries": {1: {}}}, "entries: got {1: {}}, expected a mapping of names"),
        ({"entries": {"a b": {}}}, "entries: got 'a b', expected a name of letters"),
        ({"entries": {"a": {"count": -1}}}, "entries.a.count: got -1, expected a whole number"),
        ({"entries": {"a": {"name": "b"}}}, "entries.a.name: got an unknown key, expected one of"),
        ({"entries": {"a": {"better": "up"}}}, "entries.a.better: got 'up', expected one of"),
        ({"entries": {"a": [1]}}, "entries.a: got [1], expected a mapping with better, count, t"),
        ({"other": 1}, "other: got an unknown key, expected one of entries, files, flag, label"),
    ],
)
def test_a_wrong_value_is_one_line_and_the_default(content: dict[str, Any], problem: str) -> None:
    file, problems = read(**content)
    assert [line[: len(problem)] for line in problems] == [problem]
    assert (file.flag, file.scale, file.seeds, file.files) == (True, 1.0, (0,), ())
