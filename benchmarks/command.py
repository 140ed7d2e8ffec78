"""The command line of a benchmark: common options, Markdown tables, and results as JSON."""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from run_files import atomic
from text.estimates import markdown_row, markdown_table

COMMON: dict[str, dict[str, Any]] = {
    "run": {"type": Path, "required": True, "metavar": "RUN", "help": "run directory"},
    "data_dir": {"type": Path, "metavar": "DIR", "help": "data directory (docs/data.md)"},
    "batch": {"type": int, "default": 16, "help": "texts of a step"},
    "length": {"type": int, "default": 128, "help": "tokens of a text"},
    "repeats": {"type": int, "default": 5, "help": "timed rounds"},
    "threads": {"type": int, "default": 1, "help": "threads of torch"},
    "device": {
        "choices": ["cpu", "cuda"],
        "default": "cuda" if torch.cuda.is_available() else "cpu",
        "help": "where it is computed",
    },
    "out": {"type": Path, "help": "file for the figures, as JSON"},
    "figure": {"type": Path, "help": "file for the picture, as PNG"},
}
"""Options that several benchmarks have."""


def command(doc: str | None, *names: str, **defaults: Any) -> ArgumentParser:
    """Return a parser with common options; from here on, wrong input prints one line.

    The first line of the docstring describes it. Options are those of `COMMON`; `defaults` names
    further ones, with defaults of this benchmark.
    """
    parser = ArgumentParser(description=(doc or "").partition("\n")[0])
    for name in (*names, *defaults):
        parser.add_argument(f"--{name}", **COMMON[name])
    parser.set_defaults(**defaults)
    # A hook, as benchmarks have no common entry point.
    sys.excepthook = _print_error
    return parser


def _print_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print wrong input in one line, as the commands of the program do."""
    if issubclass(kind, ValueError | OSError) and not os.environ.get("STEADFAST_DEBUG"):
        print(f"error: {error} (STEADFAST_DEBUG=1 shows where)", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


def check_paths(*paths: str | Path | None) -> None:
    """Raise a ValueError for a file or folder that does not exist; None is skipped."""
    for path in paths:
        if path is not None and not Path(path).exists():
            msg = f"got {path}, expected a file or folder that exists"
            raise ValueError(msg)


def settings(options: Namespace, *names: str) -> dict[str, Any]:
    """Return the named options, the version of torch, the device and the load of the machine."""
    on_gpu = getattr(options, "device", "cpu") == "cuda"
    where = torch.cuda.get_device_name() if on_gpu else "CPU"
    values = {name: getattr(options, name) for name in names}
    # Kept with the figures: times on a busy machine are longer.
    load = round(os.getloadavg()[0], 1)
    return {**values, "torch": torch.__version__, "where": where, "load": load}


def heading(values: Mapping[str, Any]) -> str:
    """Return settings as the line above a table."""
    return ", ".join(f"{name} {value}" for name, value in values.items())


def table(head: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a Markdown table; floats have three digits."""
    return markdown_table(head, map(_texts, rows))


def line(cells: Iterable[object]) -> str:
    """Return a line of a Markdown table."""
    return markdown_row(_texts(cells))


def _texts(cells: Iterable[object]) -> Iterator[str]:
    return (f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells)


def load(path: Path | None) -> dict[str, Any]:
    """Return the figures of a file of `save`; none without a file."""
    content: dict[str, Any] = {}
    return json.loads(path.read_text()) if path is not None and path.is_file() else content


def save(path: Path | None, content: object) -> None:
    """Write figures as JSON; without a path it does nothing."""
    if path is not None:
        atomic.write_text(path, json.dumps(content, indent=2) + "\n")
