"""Cost of adversarial training, relative to plain training.

    python -m benchmarks.adversarial_cost --lengths 128 256 512 [--model minilm] [--batch 16]
        [--repeats 3] [--methods FreeLB-2 TAVAT-2 ...] [--out FILE.json] [--figure FILE.png]
    python -m benchmarks.adversarial_cost --out FILE.json --figure FILE.png

`--lengths`: a training step (forward, backward, fused AdamW) of an encoder of `transformers` with
random weights on texts of so many random tokens, in single precision, as in figure 4a of the ASA
paper.

All that is compared is measured in one run, one after the other in each round, and ratios are
taken within a round: of seconds of the processor on a CPU, which others may be using too, of the
wall clock on a GPU. `--out` keeps the other parts of the file; `--figure` draws from it.
"""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.adversarial_steps import (
    DEFENCES,
    METHODS,
    NAIVE,
    SIZES,
    Cost,
    by_length,
    lengths_table,
    memory_table,
)
from benchmarks.command import command, heading, load, save, settings
from measure.charts import Bars, grouped_bars


def draw_ratios(content: Mapping[str, Any], path: Path) -> None:
    """Draw the ratios by length, from the content of the file of `--out`, as figure 4a does."""
    costs: dict[str, dict[str, dict[str, float]]] = content.get("lengths", {}).get("costs", {})
    if not costs:
        msg = "got a file without lengths, expected one that --lengths 128 256 512 has filled"
        raise ValueError(msg)
    lengths = sorted(costs, key=int)
    names = [name for name in costs[lengths[0]] if name != NAIVE]
    settings = content["lengths"]["settings"]
    grouped_bars(
        lengths,
        [
            Bars(
                name=name,
                height=[costs[length][name]["ratio"] for length in lengths],
                low=[costs[length][name]["least"] for length in lengths],
                high=[costs[length][name]["most"] for length in lengths],
            )
            for name in names
        ],
        path,
        x_label="tokens of a text",
        y_label="time of a step, in naive steps",
        title=f"{settings['model']}, batches of {settings['batch']}, {settings['where']}",
        line=1.0,
    )


def steps_part(options: Namespace) -> dict[str, Any]:
    """Measure and print steps by length."""
    setup = settings(options, "model", "batch", "repeats", "threads")
    costs: dict[int, dict[str, Cost]] = {}
    for length, row in by_length(options):
        costs[length] = row
        print(f"{length} tokens: {row[NAIVE].seconds:.3f} s naive", flush=True)
    print(f"\n{heading(setup)}\n\n{lengths_table(costs)}\n\n{memory_table(costs)}\n", flush=True)
    content = {
        str(length): {name: own._asdict() for name, own in row.items()}
        for length, row in costs.items()
    }
    return {"settings": setup, "costs": content}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write and draw."""
    parser = command(__doc__, "batch", "threads", "device", "out", "figure", repeats=3)
    add = parser.add_argument
    add("--lengths", type=int, nargs="+", help="tokens of the texts of a step")
    add("--model", choices=list(SIZES), default="minilm", help="its size")
    add("--methods", nargs="+", choices=[*METHODS, *DEFENCES], default=list(METHODS))
    options = parser.parse_args(argv)
    if not options.lengths and options.figure is None:
        parser.error("give --lengths N ... or --figure FILE")
    if options.figure is not None and options.out is None:
        parser.error("give --out FILE with --figure, which is drawn from it")
    if min(options.batch, options.repeats, options.threads, *(options.lengths or ())) < 1:
        parser.error("give positive numbers")
    torch.set_num_threads(options.threads)
    if options.lengths:
        save(options.out, load(options.out) | {"lengths": steps_part(options)})
    if options.figure is not None:
        draw_ratios(load(options.out), options.figure)


if __name__ == "__main__":
    main()
