"""What a run has left on disk: compared, and looked through for anything half-done."""

import csv
import json
import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lit_modules import CheckpointError, read_checkpoint

# Where the run lies and how long it took is no part of what was learnt.
APART = {
    "dirpath",
    "best_model_path",
    "kth_best_model_path",
    "last_model_path",
    "seconds",
    # Where the data are and how fast they come; what may not differ is compared on starting.
    "datamodule_hyper_parameters",
    # Lightning notes it for its messages, and does not restore it.
    "current_score",
}

RECORDS = ("certificates.jsonl", "pgd.jsonl", "predictions.jsonl")


def checkpoint(run: Path, name: str = "last") -> dict[str, Any]:
    """The content of a checkpoint, its checksum compared."""
    return read_checkpoint(run / "checkpoints" / f"{name}.ckpt")


def step(run: Path, name: str = "last") -> int:
    return int(checkpoint(run, name)["global_step"])


def differences(one: Any, other: Any, at: str = "") -> Iterator[str]:
    """Where two checkpoints differ in a single bit, in weights, optimiser, generators or counts."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        same = one.dtype == other.dtype and one.shape == other.shape
        if not same or one.numpy().tobytes() != other.numpy().tobytes():
            yield at
    elif isinstance(one, Mapping) and isinstance(other, Mapping):
        if at.endswith("best_k_models"):  # by path
            one, other = dict(enumerate(one.values())), dict(enumerate(other.values()))
        for key in [*one, *(key for key in other if key not in one)]:
            if key in APART:
                continue
            if key in one and key in other:
                yield from differences(one[key], other[key], f"{at}/{key}")
            else:
                yield f"{at}/{key} is only in one"
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            yield f"{at} (lengths {len(one)}, {len(other)})"
        for index, (first, second) in enumerate(zip(one, other, strict=False)):
            yield from differences(first, second, f"{at}/{index}")
    elif repr(one) != repr(other):
        yield f"{at} ({one!r:.40}, {other!r:.40})"


def metrics(run: Path) -> dict[str, float | None]:
    content: dict[str, float | None] = json.loads((run / "results.json").read_text())["metrics"]
    return content


TIMES = ("train/attack_share", "train/adversarial_seconds")
"""Curves of what the clock says."""


def compare_runs(whole: Path, parts: Path) -> list[str]:
    """Where a run that was interrupted differs from one that was not."""
    found = [
        f"{name}.ckpt{place}"
        for name in ("last", "best")
        for place in differences(checkpoint(whole, name), checkpoint(parts, name))
    ]
    # JSON writes the shortest text that gives the same double: equal numbers are equal bits.
    if metrics(whole) != metrics(parts):
        found.append(f"metrics {metrics(whole)} {metrics(parts)}")
    for file in RECORDS:
        texts = [records(run / file) for run in (whole, parts) if (run / file).exists()]
        if len(texts) == 1 or texts[1:] != texts[:1] * (len(texts) - 1):
            found.append(file)
    shown, seen = curves(whole), curves(parts)
    found += [
        f"curve {tag}: {curve} {seen.get(tag)}"
        for tag, curve in shown.items()
        if curve != seen.get(tag)
    ]
    if (texts := [table(run) for run in (whole, parts)])[0] != texts[1]:
        found.append(f"metrics.csv: {texts}")
    return found


def table(run: Path) -> list[dict[str, str]]:
    """The rows of `metrics.csv`, but for what the clock says."""
    path = run / "metrics.csv"
    if not path.exists():
        return []
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [{key: cell for key, cell in row.items() if key not in TIMES} for row in rows]


def records(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, but for the digest of the checkpoint, which holds seconds."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "checkpoint"} for line in lines]


def curves(run: Path) -> dict[str, dict[int, float]]:
    """What TensorBoard shows of a training, by tag and step."""
    # It says how much of what killed programs had written it leaves out.
    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    events = EventAccumulator(str(run), size_guidance={"scalars": 0})
    events.Reload()
    return {
        tag: {e.step: e.value for e in events.Scalars(tag)}
        for tag in events.Tags()["scalars"]
        if tag.startswith(("train/", "val/", "lr-")) and tag not in TIMES
    }


def damage(run: Path) -> list[str]:
    """What could not be gone on from: nothing, whenever the program was killed."""
    found: list[str] = []
    for path in sorted((run / "checkpoints").glob("*.ckpt")):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                read_checkpoint(path)
        except CheckpointError as error:
            found.append(str(error))
    for name, read in (("config.yaml", yaml.safe_load), ("results.json", json.loads)):
        path = run / name
        if path.exists() and not isinstance(read(path.read_text()), dict):
            found.append(f"{name} is not whole")
    for path in run.glob("*.jsonl"):
        for line in path.read_text().splitlines():
            json.loads(line)
    return found


def left_over(run: Path) -> list[str]:
    """Files that no run should have when it has ended by itself.

    A hidden `.part` beside `results.json` is what a killed program was writing there. It is cleared
    away when it is old enough to be nobody's, and harmless until then.
    """
    known = {"config.yaml", "results.json", "metrics.csv", ".lock", *RECORDS}
    known |= {".results.json.lock"}
    known |= {f"checkpoints/{name}.ckpt" for name in ("best", "last", "previous")}
    names = [str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()]
    page = r"report/[\w-]+\.(html|svg)"
    harmless = re.compile(rf"events\.out\.tfevents\.[^/]*|\.[^/]*\.part|{page}")
    return sorted(name for name in names if name not in known and not harmless.fullmatch(name))


def flip(path: Path, where: float = 0.5) -> None:
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 1
    path.write_bytes(content)


def shapes(runs: Sequence[Path]) -> str:
    """For messages: what lies in the runs."""
    return "\n".join(str(path) for run in runs for path in sorted(run.rglob("*")))
