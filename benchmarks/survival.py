"""Cost of surviving a kill: time and memory of one epoch, as ratios.

    python -m benchmarks.survival [--repeats 7] [--texts 20000 --method OLSA --width 128 ...]

`plain` is Lightning's own Trainer with the same module, corpus and TensorBoard logger, which keeps
no checkpoint at all. `survives` is the trainer of the command line with its defaults: lock,
fingerprint of the data, states of all generators, looking at every loss, `best.ckpt` and
`last.ckpt` with a checksum on the disk at the end of the epoch and every five minutes. The two take
turns in one process, and must end with the same weights. Memory is the peak of a fresh process for
each. Where the time goes is measured by Lightning's profiler in one more epoch. The texts are of
the grammar of the embedded corpus.
"""

import os
import tempfile
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.command import command, heading, save, settings, table
from benchmarks.timing import Times, in_fresh_process, resident, rounds, silence, time_work

KINDS = ("plain", "survives")
PER_STEP = ("on_train_batch_start", "on_train_batch_end", "on_before_optimizer_step")
VALIDATION = 500
MINUTES = 5
"""Between two checkpoints, by default."""

Epoch = tuple[Times, Any, Any]
"""Time of `fit`, the module and its trainer."""

# Each kind imports what it needs by itself: their memory is compared.


def write_corpus(size: Namespace, where: Path) -> dict[str, str]:
    """Write files to train and to validate on."""
    from datamodules.sources.reviews_grammar import generate

    # The same texts for both kinds: the generator is seeded.
    rows = list(generate(0, size.texts + VALIDATION))
    parts = {"train": rows[: size.texts], "validation": rows[size.texts :]}
    for name, part in parts.items():
        lines = ["text\tlabel", *(f"{text}\t{label}" for text, label in part)]
        (where / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    return {name: str(where / f"{name}.tsv") for name in parts}


def plain(size: Namespace, where: Path) -> Epoch:
    """Train one epoch with Lightning's Trainer."""
    import pytorch_lightning as pl
    from pytorch_lightning.loggers import TensorBoardLogger

    import lit_modules
    from benchmarks.program_runs import quiet_trainer
    from datamodules import TextFiles
    from training.join import JoinCorpus

    files = write_corpus(size, where)
    pl.seed_everything(0)
    model = getattr(lit_modules, size.method)(width=size.width, depth=size.depth)
    corpus = TextFiles(train=files["train"], validation=files["validation"], batch_size=size.batch)
    # The logger of the program, without its other callbacks.
    trainer = quiet_trainer(
        max_epochs=1,
        logger=TensorBoardLogger(where),
        callbacks=[JoinCorpus()],
        log_every_n_steps=10,
        inference_mode=False,
    )
    return time_work(partial(trainer.fit, model, datamodule=corpus)), model, trainer


def survives(size: Namespace, where: Path, *more: str) -> Epoch:
    """Train one epoch with the command line's trainer."""
    from app.cli.robust_cli import RobustCLI
    from training.trainer import RobustTrainer

    arguments = [
        "fit",
        f"--model={size.method}",
        f"--model.width={size.width}",
        f"--model.depth={size.depth}",
        "--data=TextFiles",
        *(f"--data.{name}={path}" for name, path in write_corpus(size, where).items()),
        f"--data.batch_size={size.batch}",
        "--trainer.accelerator=cpu",
        "--trainer.max_epochs=1",
        "--trainer.enable_progress_bar=false",
        "--trainer.enable_model_summary=false",
        f"--runs_dir={where}",
        "--run=survives",
        *more,
    ]
    with calls_of(RobustTrainer, "fit") as spent:
        cli = RobustCLI(arguments)
    # Left by Lightning: the next run must not inherit it.
    os.environ.pop("PL_GLOBAL_SEED", None)
    return spent[0], cli.model, cli.trainer


@contextmanager
def calls_of(owner: Any, name: str) -> Iterator[list[Times]]:
    """Measure each call of a method."""
    real = getattr(owner, name)
    spent: list[Times] = []

    def method(*args: Any, **kwargs: Any) -> Any:
        results: list[Any] = []
        spent.append(time_work(lambda: results.append(real(*args, **kwargs))))
        return results[0]

    setattr(owner, name, method)
    try:
        yield spent
    finally:
        setattr(owner, name, real)


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a directory for one run, and silence Lightning."""
    with tempfile.TemporaryDirectory() as where, silence():
        yield Path(where)


def once(kind: str, size: Namespace) -> tuple[Times, dict[str, Any]]:
    """Return the time of one epoch of one kind, and its weights."""
    with scratch() as where:
        times, module, _ = (plain if kind == "plain" else survives)(size, where)
    return times, dict(module.state_dict())


def peak(kind: str, size: Namespace) -> float:
    """Return the MiB that one epoch needs at most in this process."""
    torch.set_num_threads(size.threads)
    once(kind, size)
    return resident()


def times(size: Namespace) -> dict[str, list[Times]]:
    """Measure both kinds by turns; they must end with the same weights."""
    # Who comes first changes, so that no kind always finds the memory as the other left it.
    turns = range(size.repeats + 1)
    measurements = rounds(KINDS, lambda kind, _: once(kind, size), turns, alternate=True)
    first, second = (measurements[kind][-1][1] for kind in KINDS)
    # The machinery must not change training by a bit.
    if any(not torch.equal(first[name], second[name]) for name in first):
        msg = "got other weights with the survival machinery than without, expected the same"
        raise RuntimeError(msg)
    return {kind: [spent for spent, _ in each] for kind, each in measurements.items()}


def parts(size: Namespace) -> tuple[dict[str, float], dict[str, float], list[float]]:
    """Measure where the time goes, in milliseconds.

    Of each callback per step; of each in all its hooks of an epoch; of each written checkpoint.
    """
    from training.checkpoint_callbacks import AtomicCheckpointIO

    with calls_of(AtomicCheckpointIO, "save_checkpoint") as saved, scratch() as where:
        trainer = survives(size, where, "--trainer.profiler=simple")[2]
    per_step: dict[str, float] = defaultdict(float)
    totals: dict[str, float] = defaultdict(float)
    for action, durations in trainer.profiler.recorded_durations.items():
        if not action.startswith("[Callback]"):
            continue
        # "[Callback]Name{key}.hook" in the profiler of Lightning.
        name, hook = action.removeprefix("[Callback]").rsplit(".", 1)
        name = name.split("{")[0]
        totals[name] += 1e3 * sum(durations)
        if hook in PER_STEP:
            per_step[name] += 1e3 * sum(durations) / trainer.global_step
    return per_step, totals, [1e3 * times.wall for times in saved]


def main() -> None:
    """Measure and print."""
    parser = command(__doc__, "threads", "out", batch=64, repeats=7)
    parser.add_argument("--texts", type=int, default=20_000, help="of the epoch")
    parser.add_argument("--method", choices=["OLSA", "TextClassifier"], default="OLSA")
    parser.add_argument("--width", type=int, default=128, help="token width")
    parser.add_argument("--depth", type=int, default=2, help="layers")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    # In fresh processes: the peak of a process never sinks.
    memory = {kind: in_fresh_process(peak, kind, options) for kind in KINDS}
    measurements = times(options)
    per_step, totals, saved = parts(options)
    rows = {
        "seconds": [median(measured.wall for measured in measurements[kind]) for kind in KINDS],
        "processor seconds": [
            median(measured.processor for measured in measurements[kind]) for kind in KINDS
        ],
        "peak MiB": list(memory.values()),
    }
    setup = settings(options, "texts", "method", "width", "depth", "batch", "threads")
    cells = [[name, f"{a:.2f}", f"{b:.2f}", b / a] for name, (a, b) in rows.items()]
    print(f"{heading(setup)}\n\n{table(['one epoch', *KINDS, 'ratio'], cells)}")
    print(f"\n{len(saved)} checkpoints, {median(saved):.1f} ms each: ", end="")
    print(f"{median(saved) / (600 * MINUTES):.4f} % of {MINUTES} minutes\n")
    cells = [
        [name, per_step[name], f"{spent:.1f}"]
        for name, spent in sorted(totals.items(), key=lambda item: -item[1])
    ]
    print(table(["callback", "ms per step", "ms in the epoch"], cells))
    figures = {name: dict(zip(KINDS, values, strict=True)) for name, values in rows.items()}
    ratios = {name: ours / base for name, (base, ours) in rows.items()}
    content = {"settings": setup, "ratios": ratios, **figures, "checkpoint_ms": saved}
    save(options.out, {**content, "per_step_ms": per_step})


if __name__ == "__main__":
    main()
