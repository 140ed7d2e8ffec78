"""Show what is in files of texts and labels, and all problems at once.

Separator, encoding, columns, labels, task, lengths, duplicates, texts that two files share, likely
mistakes, and the command to run next. Nothing is written, and no library is loaded.
"""

import argparse
import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.cli.main import collection_paused
from app.cli.run_options import add_option, command_parser
from datamodules.sources.inspection import DataInspection, FileInspection, inspect_files
from datamodules.sources.table_shape import TABLES, check_encoding, check_separator
from datamodules.sources.text_table import TextTable
from run_files.terminal import harmless
from text.plural import plural

EPILOG = "Exit status: 1 if a training would stop, else 0."
_SHOWN = 10
"""Labels and columns in one line."""
_CONFIGS = {"classes": "default", "numbers": "asa/stsb", "tags": "asa/wnut17"}
"""Settings for each task; those for numbers and tags have a pretrained encoder."""
_SETTINGS = ("text_column", "text_pair_column", "label_column", "task", "separator", "encoding")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = command_parser("inspect", __doc__, epilog=EPILOG)
    text = "table (.csv, .tsv, .json, .jsonl, .parquet, ...) or .conll file to train on, and those "
    text += "to validate and to test on"
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=text)
    for setting, text in (
        ("text_column", "column of the text; found if not given, as all the following"),
        ("text_pair_column", "column of the second text of pairs"),
        ("label_column", "column of the label"),
        ("separator", "comma, semicolon, tab, pipe, or another character"),
        ("encoding", "encoding of the files, such as utf-8, utf-16 or latin-1"),
    ):
        metavar = "COLUMN" if setting.endswith("column") else "NAME"
        parser.add_argument(f"--data.{setting}", dest=setting, metavar=metavar, help=text)
    text = "task of labels that are numbers"
    tasks = ("classification", "regression")
    parser.add_argument("--data.task", dest="task", choices=tasks, help=text)
    text = 'print JSON: {"files": [...], "leaks": [...], "problems": [...], "next": ...}'
    add_option(parser, "--json", help=text)
    return parser


def run(args: argparse.Namespace) -> int:
    """Inspect the files, print all about them, and return the exit status."""
    settings = {name: value for name in _SETTINGS if (value := getattr(args, name)) is not None}
    settings["separator"] = check_separator(args.separator)
    settings["encoding"] = check_encoding(args.encoding)
    with collection_paused():  # a quarter of the time
        data = inspect_files(args.files, settings)
    if args.json:
        files = [asdict(file) | {"shape": file.shape and asdict(file.shape)} for file in data.files]
        leaks = [leak._asdict() for leak in data.leaks]
        content = {"files": files, "leaks": leaks, "problems": data.problems}
        print(json.dumps({**content, "next": next_command(data, settings)}, ensure_ascii=False))
    else:
        print(harmless(describe(data, settings)))
    return int(bool(data.problems))


def describe(data: DataInspection, settings: Mapping[str, Any]) -> str:
    """Return an inspection with the settings of `inspect_files` as text."""
    blocks = [_describe_file(file, alone=len(data.files) == 1) for file in data.files]
    if data.problems:
        problems = [problem.replace("\n", "\n  ") for problem in data.problems]
        blocks.append("\n- ".join(["problems, which stop a training:", *problems]))
    mistakes = [
        f"{Path(file.file).name}: {mistake}" if len(data.files) > 1 else mistake
        for file in data.files
        for mistake in file.mistakes
    ]
    mistakes += [
        f"{leak.texts:,} texts of {leak.file} are in {leak.earlier}, too (the first in row "
        f"{leak.first:,}): figures on them say nothing about unseen texts"
        for leak in data.leaks
    ]
    if mistakes:
        blocks.append("\n- ".join(["likely mistakes:", *mistakes]))
    command = next_command(data, settings)
    if command is not None:
        begin = "correct the problems, then:" if data.problems else "next:"
        blocks.append(f"{begin}\n  {command}")
        if data.files[0].task != "classes":
            advice = "with an encoder from the hub, or --model.backbone.pretrained FOLDER"
            blocks[-1] += f"\n  ({advice})"
    return "\n\n".join(blocks)


def _describe_file(file: FileInspection, *, alone: bool) -> str:
    remarks = "" if file.shape is None else "; ".join(file.shape.remarks)
    shape = "tagged sentences" if file.task == "tags" else file.shape or "cannot be read"
    lines = [f"{file.file} ({file.split}): {shape}{f' ({remarks})' if remarks else ''}"]
    roles = dict.fromkeys(file.text_columns, " (text)")
    roles |= {} if file.label_column is None else {file.label_column: " (label)"}
    columns = [f"{name}{roles.get(name, '')}" for name in file.columns]
    labels = [f"{label} {rows:,}" for label, rows in file.labels.items()]
    low, high = file.target_range or (0, 0)
    task = {
        "numbers": f"numbers from {low:g} to {high:g} (a regression)",
        "several labels": "several labels in one row, which are not supported",
        "classes": f"{plural(len(labels), 'label')}: {_first(labels)}",
        "tags": f"tags: {_first(labels)}",
        "no labels": "no labels",
    }[file.task]
    entries = {"columns": _first(columns), "rows": f"{file.rows:,}"}
    if file.rows:
        pairs = "pairs of texts, " if len(file.text_columns) > 1 else ""
        entries["task"] = f"{pairs}{task}"
        entries["unlabelled"] = plural(file.unlabelled, "row") if file.unlabelled else ""
    if file.words is not None and file.characters is not None:
        least, median, greatest = file.words
        characters = f"{file.characters.least:,} to {file.characters.greatest:,} characters"
        words = f"{least:,} to {greatest:,} words, median {median:,}"
        entries["length"] = f"{words}; {characters}"
    if file.duplicates:
        entries["duplicates"] = f"{file.duplicates:,} texts occur again"
        if file.contradictions:
            entries["duplicates"] += f", {file.contradictions:,} of them with another label"
        if alone:
            entries["duplicates"] += "; rows that are drawn to test may be among those to train on"
    if not file.columns:
        return lines[0]
    return "\n".join(lines + [f"  {name:<12}{text}" for name, text in entries.items() if text])


def _first(items: list[str]) -> str:
    more = f" and {len(items) - _SHOWN:,} more" if len(items) > _SHOWN else ""
    short = [item if len(item) <= 60 else f"{item[:60]}..." for item in items[:_SHOWN]]
    return ", ".join(short) + more


def next_command(data: DataInspection, settings: Mapping[str, Any]) -> str | None:
    """Return the command that trains on inspected files; None if there is none."""
    first = data.files[0]
    if first.task not in _CONFIGS:
        return None
    words = ["python", "-m", "steadfast", "train", "--config", _CONFIGS[first.task]]
    path = Path(first.file)
    usual = ".conll" if first.task == "tags" else TABLES
    if path.name.removesuffix(".gz").lower().endswith(usual):
        words += ["--data", first.file]
    else:
        words += ["--data", "TaggedFiles" if first.task == "tags" else "TextFiles"]
        words += ["--data.train", first.file]
    for file in data.files[1:]:
        words += [f"--data.{file.split}", file.file]
    if data.table is not None:
        usual_table = TextTable()
        for name in _SETTINGS:
            value = getattr(data.table, name)
            # A regression is found again, unless its labels are whole numbers.
            automatic = name == "task" and name not in settings
            if value != getattr(usual_table, name) and not automatic:
                words += [f"--data.{name}", value]
    return shlex.join(words)
