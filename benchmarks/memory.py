"""Speed and memory of training steps, relative to plain fine-tuning.

    python -m benchmarks.memory --models tiny minilm --lengths 128 512 [--batch 8] [--repeats 3]
        [--methods "gradient checkpointing" FreeLB-2 ...] [--out FILE.json]

A training step (forward, backward, fused AdamW) of an encoder of `transformers` with random weights
on random tokens. Steps are timed one after the other in each round, and ratios are taken within a
round, as in `benchmarks.adversarial_cost`. The memory is that of a process of its own: the most
that it holds in two steps, less what it holds before it builds the model. It includes weights,
gradients and the state of AdamW.
"""

import statistics
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch

from benchmarks.adversarial_steps import (
    DEFENCES,
    METHODS,
    NAIVE,
    SIZES,
    Steps,
    build,
    random_batch,
    random_model,
)
from benchmarks.command import command, heading, save, settings, table
from benchmarks.timing import Times, in_fresh_process, in_memory, resident, rounds, time_work
from layers.lora import Lora, add_adapters
from layers.pretrained_encoders import checkpoint_gradients
from lit_modules.adversaries import Adversary
from text import Batch

CHECKPOINTING, BF16, LORA = "gradient checkpointing", "bf16", "lora"
SAVING = (CHECKPOINTING, BF16, LORA)
"""Ways to need less; `lora` needs the extra, and has rank 8."""
WARM_UP = 8
"""Tokens of the step that pays for start-up."""


class StepCost(NamedTuple):
    """The cost of a training step."""

    seconds: float  # median of the processor's seconds
    speed: float  # median ratio of the plain step's seconds to these: steps per second
    memory: float  # MiB of the process at most, above what it held before the model


def prepare(
    names: Sequence[str], model: str, length: int, batch: int
) -> dict[str, Callable[[int], None]]:
    """Return a function for each method that makes a step on texts of so many tokens."""
    module, tokenizer = random_model(model, "cpu", length=length)
    plain = Steps(module)
    ways: dict[str, Callable[[int], None]] = {}
    for name in names:
        # Methods train one model; ways to need less change theirs.
        steps = plain
        if name in SAVING:
            own: Any = module if len(names) == 1 else random_model(model, "cpu", length=length)[0]
            if name == CHECKPOINTING:
                checkpoint_gradients(own.network.backbone.encoder)
            elif name == LORA:
                add_adapters(own.network.backbone.encoder, Lora(rank=8))
            steps = Steps(own)
        adversary = None
        if name in METHODS | DEFENCES:
            adversary = build(name, steps.module, tokenizer)
        draw = partial(random_batch, batch, tokenizer=tokenizer, device="cpu")
        dtype = torch.bfloat16 if name == BF16 else None
        ways[name] = partial(_step, steps, adversary, draw, dtype)
    return ways


def _step(
    steps: Steps,
    adversary: Adversary | None,
    draw: Callable[[int], Batch],
    dtype: torch.dtype | None,
    tokens: int,
) -> None:
    with nullcontext() if dtype is None else torch.autocast("cpu", dtype):
        steps.step(adversary, draw(tokens))


def peak(name: str, model: str, length: int, batch: int, threads: int) -> float:
    """Return the memory of a method in MiB, see `StepCost`; for a process of its own."""
    torch.set_num_threads(threads)
    # Libraries are loaded by a small step.
    prepare([name], "tiny", WARM_UP, 1)[name](WARM_UP)
    before = in_memory("VmRSS")
    step = prepare([name], model, length, batch)[name]
    for _ in range(2):  # the optimiser has its state after the first one
        step(length)
    return resident() - before


def measure(options: Namespace, model: str, length: int) -> Iterator[tuple[str, StepCost]]:
    """Yield the cost of each method, the plain step first."""
    names = [NAIVE, *options.methods]
    ways = prepare(names, model, length, options.batch)

    def once(name: str, tokens: int) -> Times:
        return time_work(partial(ways[name], tokens))

    times = rounds(names, once, [WARM_UP, *[length] * options.repeats])
    for name in names:
        ratios = [
            plain.compared / own.compared
            for own, plain in zip(times[name], times[NAIVE], strict=True)
        ]
        memory = in_fresh_process(peak, name, model, length, options.batch, options.threads)
        seconds = statistics.median(own.compared for own in times[name])
        yield name, StepCost(seconds, statistics.median(ratios), memory)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = command(__doc__, "threads", "out", batch=8, repeats=3)
    choices = [*SAVING, *METHODS, *DEFENCES]
    parser.add_argument("--models", nargs="+", choices=list(SIZES), default=["tiny", "minilm"])
    parser.add_argument("--lengths", nargs="+", type=int, default=[128, 512], help="tokens")
    parser.add_argument("--methods", nargs="+", choices=choices, default=list(SAVING))
    options = parser.parse_args(argv)
    if min(options.batch, options.repeats, options.threads, *options.lengths) < 1:
        parser.error("give positive numbers")
    torch.set_num_threads(options.threads)
    setup = settings(options, "batch", "repeats", "threads")
    costs: dict[str, dict[str, StepCost]] = {}
    for model in options.models:
        for length in options.lengths:
            costs[f"{model}, {length}"] = dict(measure(options, model, length))
            parts = {
                part: {name: own._asdict() for name, own in row.items()}
                for part, row in costs.items()
            }
            # After each part: a machine may be taken away.
            save(options.out, {"settings": setup, "costs": parts})
    print(f"\n{heading(setup)}\n\n{_table(costs, options.methods)}")


def _table(costs: dict[str, dict[str, StepCost]], methods: Sequence[str]) -> str:
    rows = []
    for name in [NAIVE, *methods]:
        cells = []
        for row in costs.values():
            own, plain = row[name], row[NAIVE]
            if name == NAIVE:
                cells.append(f"{own.seconds:.3g} s, {own.memory:.0f} MiB")
            else:
                cells.append(f"{own.speed:.2f}, {own.memory / plain.memory:.2f}")
        rows.append([name, *cells])
    return table(["step", *costs], rows)


if __name__ == "__main__":
    main()
