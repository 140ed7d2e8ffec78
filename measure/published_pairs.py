"""Read published adversarial texts with their originals."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attacks.digests import file_digest
from datamodules.sources.column_names import PAIRS, usual_texts
from datamodules.sources.readers import read_rows
from run_files.checkpoint_lookup import checkpoint_text
from run_files.ledger import attack_ledger
from run_files.run_directory import RunDirectory
from text import Text
from text.bounded_files import json_lines, read_bytes, read_json

GLUE = {
    "sst2": ("negative", "positive"),
    "qqp": ("not_duplicate", "duplicate"),
    "mnli": ("entailment", "neutral", "contradiction"),
    "mnli-mm": ("entailment", "neutral", "contradiction"),
    "qnli": ("entailment", "not_entailment"),
    "rte": ("entailment", "not_entailment"),
}
"""Tasks of AdvGLUE, and the classes of their labels 0, 1, ... (as in GLUE)."""
_LINE = re.compile(
    r"(?P<side>orig|adv)\s+(?P<part>sent|premise|hypothesis)\s*"
    r"(?:\((?P<label>[^)]*)\))?\s*:[ \t]*(?P<text>.*)"
)
_COLUMNS = ("original_text", "perturbed_text", "ground_truth_output", "result_type")
"""The necessary columns of TextAttack's CSV log."""
_MARK = re.compile(r"\[\[([^\[\]\s]+)\]\]|<font color = \w+>([^<>]*)</font>")
"""A changed word, in the colouring styles `file` and `html` of TextAttack; `plain` has no marks."""
_KEY = (
    r"(?:\[{4}\w+\]{4}|(?:<font color = \w+>){2}\w+(?:</font>){2}|"
    rf"(?:{'|'.join(name.capitalize() for pair in PAIRS for name in pair)})): "
)
_SIDES = re.compile(rf"{_KEY}(.*?)<SPLIT>{_KEY}(.*)", re.DOTALL)
"""The two texts of a pair; TextAttack writes a line feed as `<SPLIT>`."""
_OUTCOMES = {"Successful": "succeeded", "Failed": "failed"}


@dataclass(frozen=True, kw_only=True)
class PublishedPair:
    """An adversarial text.

    Attributes:
        number: its number in the file, from 0.
        original: the original text; None if the file has none.
        adversarial: the text.
        label: the label in the file.
        method: kind of attack; empty if unknown.
    """

    number: int
    original: Text | None
    adversarial: Text
    label: Any
    method: str = ""


@dataclass(frozen=True, kw_only=True)
class PublishedFile:
    """The content of a file.

    Attributes:
        form: AdvGLUE, TextAttack, TextFooler or records.
        names: names of the classes 0, 1, ...; None if unknown.
        pairs: the texts.
        skipped: number of rows without adversarial text: the attack skipped them.
        source: run, weights, name and records of the attack that has made the texts; None if
            unknown.
    """

    form: str
    names: tuple[str, ...] | None
    pairs: list[PublishedPair]
    skipped: int = 0
    source: Mapping[str, str] | None = None


def read_published(path: Path, task: str | None = None) -> PublishedFile:
    """Read a file: `.json` (AdvGLUE), `.jsonl` (ours), `.csv` (TextAttack), else TextFooler's.

    `task` is that of AdvGLUE; None for a file with one task.

    Raises:
        ValueError: the file has another form, no pairs, or no such task.
        OSError: it cannot be read.
    """
    try:
        if path.suffix == ".json":
            published = _adv_glue(path, task)
        elif path.suffix == ".jsonl":
            published = _records(path)
        elif path.suffix == ".csv":
            published = _text_attack(path)
        else:
            pairs = list(_text_fooler(path))
            published = PublishedFile(form="TextFooler", names=None, pairs=pairs)
    # All that a file of another form can raise in the readers below.
    except (
        LookupError,
        TypeError,
        AttributeError,
        UnicodeDecodeError,
        json.JSONDecodeError,
    ) as error:
        msg = (
            f"got {path}, which cannot be read ({type(error).__name__}: {error}), expected "
            "AdvGLUE's JSON, TextAttack's CSV log, TextFooler's adversaries.txt, or records of "
            "`attack` (.jsonl)"
        )
        raise ValueError(msg) from error
    if not published.pairs:
        msg = f"got {path} without adversarial texts, expected some"
        raise ValueError(msg)
    return published


def _adv_glue(path: Path, task: str | None) -> PublishedFile:
    """Read `dev.json` or `dev_ann.json`: rows by task; only the second has originals."""
    tasks = read_json(path, "published pairs")
    if task is None and len(tasks) == 1:
        (task,) = tasks
    if task not in tasks:
        msg = f"got {path} and --task {task}, expected one of {', '.join(tasks)}"
        raise ValueError(msg)
    pairs = []
    for number, row in enumerate(tasks[task]):
        names = usual_texts(list(row))
        if names is None:
            msg = (
                f"got {path}, {task}, row {number} with {', '.join(row)}, expected the columns of "
                "a task of GLUE, such as sentence, or premise and hypothesis"
            )
            raise ValueError(msg)
        # Of a pair, only the changed text has an original.
        originals = [row.get(f"original_{name}") or row[name] for name in names]
        has_original = any(row.get(f"original_{name}") for name in names)
        pairs.append(
            PublishedPair(
                number=number,
                original=_text(originals) if has_original else None,
                adversarial=_text([row[name] for name in names]),
                label=row["label"],
                method=str(row.get("method") or row.get("data_construction") or ""),
            )
        )
    return PublishedFile(form=f"AdvGLUE {task}", names=GLUE.get(str(task)), pairs=pairs)


def _records(path: Path) -> PublishedFile:
    """Read the records of an attack of ours, without the samples that it skipped."""
    rows = [row for _, row in json_lines(path, "records")]
    pairs = [
        PublishedPair(
            number=number,
            original=_text(row["text"]),
            adversarial=_text(row["adversarial"]),
            label=row["label"],
            method=row["outcome"],
        )
        for number, row in enumerate(rows)
        if row["adversarial"] is not None
    ]
    return PublishedFile(
        form="records",
        names=record_classes(path),
        pairs=pairs,
        skipped=len(rows) - len(pairs),
        source=_record_source(path),
    )


def _record_source(path: Path) -> Mapping[str, str] | None:
    """Return run, weights, attack and digest of records; None outside of a run."""
    run = RunDirectory(path.resolve().parent.parent)
    checkpoint = attack_ledger(run, path.stem).subject().get("checkpoint")
    if not run.begun or not isinstance(checkpoint, str):
        return None
    names = {"run": run.name, "checkpoint": checkpoint, "attack": path.stem}
    return {**names, "records": file_digest(path)}


def _text_attack(path: Path) -> PublishedFile:
    """Read the CSV log of TextAttack (`--log-to-csv`), without the samples that it skipped.

    Source: QData/TextAttack, `textattack/loggers/csv_logger.py`.
    """
    rows = []
    for row in read_rows(path, _COLUMNS):
        if row.problem is not None:
            msg = f"got {path}, {row.place}: {row.problem}; expected a row of TextAttack's CSV log"
            raise ValueError(msg)
        rows.append(row.values)
    # A log of pairs has the names of the columns inside of each text.
    split = all(_SIDES.fullmatch(row[name]) for row in rows for name in _COLUMNS[:2])
    pairs = [
        PublishedPair(
            number=number,
            original=_plain(row["original_text"], split=split),
            adversarial=_plain(row["perturbed_text"], split=split),
            label=row["ground_truth_output"],
            method=_OUTCOMES.get(row["result_type"], row["result_type"]),
        )
        for number, row in enumerate(rows)
        if row["result_type"] != "Skipped"
    ]
    return PublishedFile(form="TextAttack", names=None, pairs=pairs, skipped=len(rows) - len(pairs))


def _plain(marked: str, *, split: bool) -> Text:
    """Return the text, or the pair, without the marks of TextAttack."""
    sides = _SIDES.fullmatch(marked) if split else None
    return _text(
        [
            _MARK.sub(lambda mark: mark[1] or mark[2], part).replace("<SPLIT>", "\n")
            for part in ([marked] if sides is None else sides.groups())
        ]
    )


def record_classes(path: Path) -> tuple[str, ...] | None:
    """Return the classes 0, 1, ... of the attacked model; None if unknown.

    The settings of the attack or the checkpoint of the run name them all. Records name those that
    occur, and in older versions none.
    """
    run = RunDirectory(path.resolve().parent.parent)
    subject = attack_ledger(run, path.stem).subject()
    classes = subject.get("classes") or checkpoint_text(run).get("class_names") or ()
    names = dict(enumerate(map(str, classes)))
    for _, row in json_lines(path, "records"):
        if not isinstance(row.get("label"), int):
            msg = f"got {path} with labels like {row.get('label')!r:.80}, expected classes"
            raise ValueError(msg)
        # The record of a pair of index and name, wherever it occurs.
        for key in ("label", "prediction", "adversarial_prediction"):
            if row.get(f"{key}_name") is not None:
                names[row[key]] = row[f"{key}_name"]
    return tuple(names.get(i, "") for i in range(max(names) + 1)) if names else None


def _text_fooler(path: Path) -> Iterator[PublishedPair]:
    """Read `adversaries.txt`: lines `orig sent (LABEL): TEXT` and `adv sent (LABEL): TEXT`.

    Lines of pairs are `orig premise:`, `orig hypothesis (LABEL):` and `adv hypothesis (LABEL):`.
    """
    number = 0
    side: dict[str, tuple[str, str | None]] = {}
    # Only line feeds end lines: texts may contain other separators of lines.
    for line_number, raw in enumerate(read_bytes(path).split(b"\n"), start=1):
        line = raw.decode("utf-8").strip(" \t\r")
        if not line:
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            msg = (
                f"got {path}, line {line_number}: {line[:60]!r}, expected "
                "`orig sent (LABEL): TEXT` or `adv sent (LABEL): TEXT`, as TextFooler writes them"
            )
            raise ValueError(msg)
        if match["side"] == "orig":
            # A new original begins; a hypothesis belongs to the premise before it.
            if match["part"] in ("sent", "premise"):
                side = {}
            side[match["part"]] = (match["text"], match["label"])
            continue
        part = match["part"]
        if part not in side:
            msg = (
                f"got {path}, line {line_number}: an adversarial {part} without original before it"
            )
            raise ValueError(msg)
        before = [text for text, _ in side.values()]
        after = [match["text"] if key == part else text for key, (text, _) in side.items()]
        label = next(
            (text_label for _, text_label in reversed(side.values()) if text_label is not None),
            None,
        )
        yield PublishedPair(
            number=number, original=_text(before), adversarial=_text(after), label=label
        )
        number += 1


def _text(parts: str | Sequence[str]) -> Text:
    if isinstance(parts, str):
        return parts
    return parts[0] if len(parts) == 1 else (parts[0], parts[1])
