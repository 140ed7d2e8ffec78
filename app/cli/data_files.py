"""Reads `--data FILE` on a command line, and checks the file before torch is loaded."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from datamodules.sources.rows import Split
from datamodules.sources.table_shape import TABLES, check_encoding, check_separator
from datamodules.sources.text_table import TextTable
from text.bounded_files import DataError, kind_of, parse_yaml

TEST_SHARE = 0.2
"""Share of the rows of `--data FILE` that test."""
TAGS = ".conll"
"""Ending of a file of sentences with tags."""


class CommandLineOption(NamedTuple):
    """An option in a command line: its position and number of words, its name and value."""

    at: int
    size: int
    name: str
    value: str


def split_options(words: Sequence[str]) -> list[CommandLineOption]:
    """Return all words that may be options: `--name=value`, or `--name` before its value."""
    options = []
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        # A slice, as the last option may have no value.
        value = value if equals else "".join(words[at + 1 : at + 2])
        options.append(CommandLineOption(at, 1 if equals else 2, name, value))
    return options


def file_words(words: Sequence[str]) -> list[str]:
    """Replace `--data FILE` by the settings of `TextFiles` or `TaggedFiles` that read the file.

    Without a test file, a fifth of its rows tests. Labels that are numbers with fractions make a
    regression, whose range is that of the files.
    """
    words = list(words)
    options = split_options(words)
    # From the end: a replacement of another length would shift the options after it.
    for option in reversed(options):
        path = Path(option.value)
        if option.name == "--data" and _is_file(path):
            tagged = path.name.removesuffix(".gz").endswith(TAGS)
            settings = [f"--data={'TaggedFiles' if tagged else 'TextFiles'}"]
            settings.append(f"--data.train={option.value}")
            if not any(o.name.startswith("--data.test") for o in options):
                settings.append(f"--data.test_share={TEST_SHARE}")
            if not any(o.name == "--data.name" for o in options):
                settings.append(f"--data.name={path.with_name(path.name.removesuffix('.gz')).stem}")
            words[option.at : option.at + option.size] = settings
            words[option.at + len(settings) : option.at + len(settings)] = _regression(words)
    return words


def _is_file(path: Path) -> bool:
    """Return True for a file of texts; a YAML file holds settings of a corpus."""
    suffix = Path(path.name.removesuffix(".gz").lower()).suffix
    usual = suffix in (*TABLES, TAGS)
    return usual or (suffix not in (".yaml", ".yml") and kind_of(path) == "file")


def _regression(words: Sequence[str]) -> list[str]:
    """Return the task and the range of labels that are numbers; nothing for classes."""
    data = find_user_data(words)
    task = None if data is None else data.settings.get("task")
    if data is None or "classes" in data.settings or task not in (None, "regression"):
        return []
    try:
        limits = data.table.find_range(data.files["train"], fractions=task is None)
    except DataError:  # the check of the file names the problem
        return []
    if limits is None:
        return []
    for path in data.files.values():
        with suppress(DataError):  # a test file needs no labels
            low, high = data.table.find_range(path) or limits
            limits = min(limits[0], low), max(limits[1], high)
    added = {"task": "regression", "target_range": f"[{limits[0]:g}, {limits[1]:g}]"}
    return [f"--data.{n}={v}" for n, v in added.items() if n not in data.settings]


class UserData(NamedTuple):
    """The files of a user that a command line names."""

    table: TextTable  # the way to read them
    files: Mapping[Split, Path]
    settings: Mapping[str, str]  # all of the corpus, by name


def find_user_data(words: Sequence[str]) -> UserData | None:
    """Return the files of `--data TextFiles` in the words of `file_words`.

    None for other corpora, or without a training file.

    Raises:
        ValueError: a wrong separator or encoding.
    """
    values = {option.name: option.value for option in split_options(words)}
    if values.get("--data") != "TextFiles" or not values.get("--data.train"):
        return None
    settings = {n.removeprefix("--data."): v for n, v in values.items() if n.startswith("--data.")}
    folder = settings.get("data_dir", values.get("--data_dir", ""))
    splits: tuple[Split, ...] = ("train", "validation", "test")
    files = {split: Path(folder, settings[split]) for split in splits if settings.get(split)}
    names = ("text_column", "text_pair_column", "label_column", "task")
    changes: dict[str, Any] = {n: settings[n] for n in names if n in settings}
    changes["separator"] = check_separator(settings.get("separator"))
    changes["encoding"] = check_encoding(settings.get("encoding"))
    for name in ("classes", "target_range"):
        value = parse_yaml(settings.get(name, "null"), f"--data.{name}", "a list")
        changes |= {name: tuple(value)} if isinstance(value, list) else {}
    return UserData(TextTable(**changes), files, settings)


def check_user_data(words: Sequence[str]) -> None:
    """Check the files of `--data` of a command that trains before anything is loaded.

    Raises:
        DataError: all reasons to refuse the files.
        ValueError: a wrong separator or encoding.
    """
    if (data := find_user_data(file_words(words))) is None:
        return
    least = data.settings.get("min_rows_per_class", "")
    problems = data.table.problems(
        data.files,
        on_bad_row="skip" if data.settings.get("on_bad_row") == "skip" else "stop",
        min_rows_per_class=int(least) if least.isdecimal() else 2,
        corpus=data.settings.get("name", "text_files"),
    )
    if problems:
        paths = " ".join(map(str, data.files.values()))
        if all(map(kind_of, data.files.values())):
            problems.append(f"`python -m steadfast inspect {paths}` lists all about the data")
        raise DataError("\n".join(problems))
