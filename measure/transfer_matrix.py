"""The adversarial texts of each run, read by each run."""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

from attacks.outcome import AttackRecord
from run_files import atomic, results
from run_files.run_directory import TRANSFER, RunDirectory
from text import Text
from text.estimates import IntervalEstimate, aligned, wilson
from text.subjects import Subject, differences, joined

OF_MODEL = ("checkpoint", "precision", "program", "classes", "victim", "front_end")
"""Parts of the subject of an attack that are about the attacked model, and not the protocol."""
Classify = Callable[[Sequence[Text]], Sequence[str]]
"""From texts to names of classes."""


@dataclass(frozen=True, kw_only=True)
class AttackedRun:
    """A model, and the run with the records of one attack of it; their labels have names."""

    name: str
    subject: Subject
    records: Sequence[AttackRecord]
    classify: Classify


class TransferCell(NamedTuple):
    """The texts of one run, read by another.

    Attributes:
        fooled: share of the adversarial texts that change the prediction, among those whose clean
            text both models classify rightly; None without such a text.
        accuracy: share of all samples with a correct prediction, where an adversarial text takes
            the place of its clean text: the accuracy under a static attack.
        changed: share of the changed texts with a correct prediction, also of those that have not
            fooled the attacked model; None without such a text.
    """

    fooled: IntervalEstimate | None
    accuracy: IntervalEstimate
    changed: IntervalEstimate | None


def check_protocol(runs: Sequence[AttackedRun]) -> None:
    """Raise ValueError unless all runs were attacked in the same way on the same samples."""
    first = runs[0]
    samples = [(record.sample_id, record.text, record.label_name) for record in first.records]
    protocol = _protocol(first)
    for run in runs[1:]:
        own_protocol = _protocol(run)
        # A run names a split of its corpus, another victim a table: the samples tell if they agree.
        mixed = ("corpus" in protocol) != ("corpus" in own_protocol)
        only = (protocol.keys() & own_protocol.keys()) - {"columns", "split"} if mixed else None
        if changes := differences(protocol, own_protocol, only=only):
            msg = (
                f"got attacks of {first.name} and {run.name} that differ in {joined(changes)}, "
                "expected one protocol and the same data: attack both with the same options"
            )
            raise ValueError(msg)
        own = [(record.sample_id, record.text, record.label_name) for record in run.records]
        if own != samples:
            msg = (
                f"got {len(samples)} samples of {first.name} and {len(own)} of {run.name}, "
                "expected the same samples: attack both with the same --num_samples"
            )
            raise ValueError(msg)


def _protocol(run: AttackedRun) -> dict[str, object]:
    return {name: value for name, value in run.subject.items() if name not in OF_MODEL}


def transfer_matrix(runs: Sequence[AttackedRun]) -> dict[str, dict[str, TransferCell]]:
    """Return the cells by the run whose texts are read, and by the run that reads them.

    Raises:
        ValueError: see `check_protocol`.
    """
    check_protocol(runs)
    matrix: dict[str, dict[str, TransferCell]] = {run.name: {} for run in runs}
    # Clean texts are common to all runs: each reader predicts them once.
    texts = list(dict.fromkeys(text for run in runs for text in _texts(run.records)))
    for reader in runs:
        predictions = dict(zip(texts, reader.classify(texts), strict=True))
        for run in runs:
            matrix[run.name][reader.name] = _cell(run.records, predictions)
    return matrix


def _texts(records: Sequence[AttackRecord]) -> list[Text]:
    changed = [record.adversarial for record in records if record.adversarial is not None]
    return [*(record.text for record in records), *changed]


def _cell(records: Sequence[AttackRecord], predictions: Mapping[Text, str]) -> TransferCell:
    fooled, correct, changed = [], [], []
    for record in records:
        if record.outcome == "error":  # counts in no figure
            continue
        clean = predictions[record.text] == record.label_name
        after = clean
        if record.adversarial is not None:
            after = predictions[record.adversarial] == record.label_name
            changed.append(after)
        succeeded = record.outcome == "succeeded"
        # As for the attacked model: a text without a success stays as it was.
        correct.append(after if succeeded else clean)
        # An attack succeeds only where its own model is right about the clean text.
        if succeeded and clean:
            fooled.append(not after)
    return TransferCell(_share(fooled), wilson(sum(correct), len(correct)), _share(changed))


def _share(outcomes: Sequence[bool]) -> IntervalEstimate | None:
    return wilson(sum(outcomes), len(outcomes)) if outcomes else None


def matrix_table(
    matrix: Mapping[str, Mapping[str, TransferCell]], figure: Literal["fooled", "accuracy"]
) -> str:
    """Return a figure of all cells as text: a row for each run whose texts are read."""
    rows = [["texts of", *(f"read by {name}" for name in matrix)]]
    rows += [
        [name, *(_shown(getattr(cell, figure)) for cell in row.values())]
        for name, row in matrix.items()
    ]
    return aligned(rows)


def matrix_files(attack: str, matrix: Mapping[str, Mapping[str, TransferCell]]) -> tuple[str, str]:
    """Return the cells of a matrix as JSON, and as comma-separated values, a line for each."""
    rows = []
    for source, row in matrix.items():
        for reader, cell in row.items():
            line: dict[str, object] = {"attack": attack, "texts_of": source, "read_by": reader}
            for name, share in cell._asdict().items():
                for part in ("value", "low", "high", "count"):
                    line[f"{name}_{part}"] = None if share is None else getattr(share, part)
            rows.append(line)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return json.dumps(rows, indent=2) + "\n", stream.getvalue()


def _shown(share: IntervalEstimate | None) -> str:
    if share is None:
        return "no text"
    hits = round(share.value * share.count)
    return f"{share} {hits}/{share.count}"


def file_transfers(
    run: RunDirectory,
    attack: str,
    matrix: Mapping[str, Mapping[str, TransferCell]],
    subjects: Mapping[str, Subject],
    seconds: float,
    *,
    records: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write the column of a run: into its results, and a file for each other run.

    The texts of the first run in `matrix` are the static attack. By run, `subjects` are those of
    the attacks, and `records` the digests of their records.

    Raises:
        ValueError: the run has no results.
        OSError: a file cannot be written.
    """
    old = run.results()
    if old is None:
        msg = f"got run {run.name} without results.json, expected a stage of it to have ended"
        raise ValueError(msg)
    column = {source: row[run.name] for source, row in matrix.items()}
    first = next(iter(column.values()))
    metrics = _metrics(f"{TRANSFER}/{attack}", first)
    for source, cell in column.items():
        metrics |= _metrics(f"{TRANSFER}/{attack}/of/{source}", cell)
        if source == run.name or cell.changed is None:
            continue
        content = {
            "weights": subjects[run.name].get("checkpoint"),
            "source": {
                "run": source,
                "checkpoint": subjects[source].get("checkpoint"),
                "attack": attack,
                **({"records": records[source]} if source in records else {}),
            },
            "form": "records",
            "all": {"adversarial": asdict(cell.changed)},
            "fooled": None if cell.fooled is None else asdict(cell.fooled),
            "static": asdict(cell.accuracy),
        }
        path = run.path / TRANSFER / source / f"{attack}.json"
        atomic.write_text(path, json.dumps(content, indent=2) + "\n")
    identity = ("run", "method", "corpus", "seed", "positive", "no_certificate", "detector")
    results.merge(
        run.results_path,
        f"{TRANSFER}/{attack}",
        identity={name: old[name] for name in identity if name in old},  # type: ignore[literal-required] # names of its keys
        metrics=metrics,
        seconds=seconds,
        subject={
            "checkpoint": subjects[run.name].get("checkpoint"),
            "sources": {name: subject.get("checkpoint") for name, subject in subjects.items()},
            "records": dict(records),
        },
    )


def _metrics(prefix: str, cell: TransferCell) -> dict[str, float]:
    metrics = {f"{prefix}/accuracy": cell.accuracy.value, f"{prefix}/samples": cell.accuracy.count}
    if cell.fooled is not None:
        metrics |= {f"{prefix}/fooled": cell.fooled.value, f"{prefix}/texts": cell.fooled.count}
    return metrics
