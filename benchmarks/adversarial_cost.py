"""Cost of adversarial training beside plain training.

    python -m benchmarks.adversarial_cost --lengths 128 256 512 [--model minilm] [--batch 16]
        [--repeats 3] [--methods FreeLB-2 FreeLB-3 ...] [--out FILE.json] [--figure FILE.png]
    python -m benchmarks.adversarial_cost --corpus sst2 --data_dir DIR [--batches 8]
        [--init_from CHECKPOINT] [--sentence_encoder FOLDER] [--out FILE.json]
    python -m benchmarks.adversarial_cost --textattack --data_dir DIR --init_from CHECKPOINT
        [--textattack_python PYTHON] [--out FILE.json]
    python -m benchmarks.adversarial_cost --out FILE.json --figure FILE.png

`--lengths`: a training step (forward, backward, fused AdamW) of an encoder of `transformers` with
random weights on texts of so many random tokens, in single precision, beside figure 4a of the ASA
paper. `--corpus`: an epoch of `configs/text_classifier/<corpus>.yaml` against each adversary, from
some of its batches. `--textattack`: attacking the texts of these batches in lock step beside one by
one, and beside TextAttack 0.3.11 where an interpreter that has it is named.

All that is compared is measured in one run, one after the other in each round, and ratios are
taken within a round: of seconds of the processor on a CPU, which others may be using too, of the
wall clock on a GPU. `--out` keeps what the file has of the other parts; `--figure` draws from it.
"""

import json
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from app.figures.charts import Bars, grouped_bars
from benchmarks.adversarial_epochs import Task, adversaries, by_adversary, corpus_table, task
from benchmarks.adversarial_steps import (
    METHODS,
    NAIVE,
    SIZES,
    Cost,
    by_length,
    lengths_table,
    memory_table,
)
from benchmarks.adversarial_texts import attacked, recorded_time, texts_table
from benchmarks.command import command, heading, save, settings

CORPORA = ("sst2", "reviews")


def drawn(content: Mapping[str, Any], path: Path) -> None:
    """Draws the ratios by length, as figure 4a does.

    Args:
        content: of the file that `--out` names.
        path: the PNG to write.

    Raises:
        ValueError: there is nothing about lengths in it.
    """
    found: dict[str, dict[str, dict[str, float]]] = content.get("lengths", {}).get("costs", {})
    if not found:
        msg = "got a file without lengths, expected one that --lengths 128 256 512 has filled"
        raise ValueError(msg)
    lengths = sorted(found, key=int)
    names = [name for name in found[lengths[0]] if name != NAIVE]
    settings = content["lengths"]["settings"]
    grouped_bars(
        lengths,
        [
            Bars(
                name=name,
                height=[found[length][name]["ratio"] for length in lengths],
                low=[found[length][name]["least"] for length in lengths],
                high=[found[length][name]["most"] for length in lengths],
            )
            for name in names
        ],
        path,
        x_label="tokens of a text",
        y_label="time of a step, in naive steps",
        title=f"{settings['model']}, batches of {settings['batch']}, {settings['where']}",
        line=1.0,
    )


def steps_part(given: Namespace) -> dict[str, Any]:
    """Measures and prints steps by length."""
    about = settings(given, "model", "batch", "repeats", "threads")
    costs: dict[int, dict[str, Cost]] = {}
    for length, one in by_length(given):
        costs[length] = one
        print(f"{length} tokens: {one[NAIVE].seconds:.3f} s naive", flush=True)
    print(f"\n{heading(about)}\n\n{lengths_table(costs)}\n\n{memory_table(costs)}\n", flush=True)
    return {"settings": about, "costs": {str(k): as_dicts(row) for k, row in costs.items()}}


def epochs_part(given: Namespace, one: Task) -> dict[str, Any]:
    """Measures and prints epochs."""
    about = {**settings(given, "corpus", "threads"), "batches": len(one.batches), "of": one.total}
    found = by_adversary(one, adversaries(given))
    print(f"{heading(about)}: extrapolated to the epoch\n\n{corpus_table(found)}\n", flush=True)
    return {"settings": about, "epochs": as_dicts(found)}


def texts_part(given: Namespace, one: Task) -> dict[str, Any]:
    """Measures and prints ways to attack."""
    about = {"corpus": one.corpus.corpus, "batches": len(one.batches), **settings(given, "threads")}
    ways, known = attacked(given, one), recorded_time(given.data_dir)
    print(f"{heading(about)}\n\n{texts_table(ways)}\n\n{known}\n", flush=True)
    rows = {name: as_dicts(by) for name, by in ways.items()}
    return {"settings": about, "attacks": rows, "recorded": known}


def as_dicts(rows: Mapping[str, Any]) -> dict[str, Any]:
    """Returns named tuples as dictionaries."""
    return {name: row._asdict() for name, row in rows.items()}


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints, writes and draws."""
    parser = command(__doc__, "data_dir", "batch", "threads", "device", "out", "figure", repeats=3)
    add = parser.add_argument
    add("--lengths", type=int, nargs="+", help="tokens of the texts of a step")
    add("--model", choices=list(SIZES), default="minilm", help="its size")
    add("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    add("--corpus", choices=CORPORA, help="measure an epoch of it")
    add("--batches", type=int, default=8, help="batches of the epoch")
    add("--init_from", type=Path, help="checkpoint; an attack's cost depends on the weights")
    add("--resources", type=Path, help="of the attacks; the data directory if null")
    add("--sentence_encoder", help="folder or hub name, as --attack has it")
    add("--vectors", type=Path, help="word vectors that TextAttack is given")
    add("--budget", type=int, default=100, help="queries for each text")
    add("--textattack", action="store_true", help="compare with one-by-one")
    add("--textattack_python", type=Path, help="interpreter with TextAttack 0.3.11")
    given = parser.parse_args(argv)
    on_corpus = given.corpus is not None or given.textattack
    if not given.lengths and not on_corpus and given.figure is None:
        parser.error("give --lengths N ..., --corpus NAME, --textattack or --figure FILE")
    if on_corpus and given.data_dir is None:
        parser.error("give --data_dir DIR with --corpus and --textattack")
    if given.figure is not None and given.out is None:
        parser.error("give --out FILE with --figure, which is drawn from it")
    numbers = (given.batch, given.repeats, given.threads, *(given.lengths or ()))
    if min(numbers) < 1 or given.batches < 2:
        parser.error("give positive numbers, and at least two batches")
    given.resources = given.resources or given.data_dir
    torch.set_num_threads(given.threads)
    parts: dict[str, Callable[[], dict[str, Any]]] = {}
    if given.lengths:
        parts["lengths"] = partial(steps_part, given)
    if on_corpus:
        settings_of = {"batches": given.batches, "init_from": given.init_from}
        name = given.corpus or CORPORA[0]
        one = task(name, given.data_dir, device=given.device, **settings_of)
        if given.corpus is not None:
            parts["corpus"] = partial(epochs_part, given, one)
        if given.textattack:
            parts["texts"] = partial(texts_part, given, one)
    for name, part in parts.items():
        save(given.out, read(given.out) | {name: part()})
    if given.figure is not None:
        drawn(read(given.out), given.figure)


def read(path: Path | None) -> dict[str, Any]:
    """Returns the figures of earlier runs in a file; none without a file."""
    content: dict[str, Any] = {}
    return json.loads(path.read_text()) if path is not None and path.is_file() else content


if __name__ == "__main__":
    main()
