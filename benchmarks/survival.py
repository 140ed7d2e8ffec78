"""What it costs that a run survives being killed: time and memory of one epoch, as ratios.

    python -m benchmarks.survival [--repeats 7] [--texts 20000 --method OLSA --width 128 ...]

`plain` is Lightning's own Trainer with the same module, corpus and TensorBoard logger, which keeps
no checkpoint at all. `survives` is the trainer of the command line with its defaults: lock,
fingerprint of the data, states of all generators, looking at every loss, `best.ckpt` and
`last.ckpt` with a checksum on the disk at the end of the epoch and every five minutes. The two take
turns in one process, and must end with the same weights. Memory is the peak of a fresh process for
each. Where the time goes is measured by Lightning's profiler in one more epoch. The texts are of
the grammar of the embedded corpus.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

MIB = 2**20
KINDS = ("plain", "survives")
PER_STEP = ("on_train_batch_start", "on_train_batch_end", "on_before_optimizer_step")
VALIDATION = 500
MINUTES = 5
"""Between two checkpoints, by default."""


class Size(NamedTuple):
    """What is trained."""

    texts: int
    method: str
    width: int
    depth: int
    batch: int

    @property
    def options(self) -> list[str]:
        """The same as options of this command."""
        return [part for name in self._fields for part in (f"--{name}", str(getattr(self, name)))]


class Epoch(NamedTuple):
    """One epoch.

    Attributes:
        seconds: of `fit`, from beginning to end.
        cpu: the same of the processor, whatever else the machine does.
        state: the weights.
        trainer: that trained.
    """

    seconds: float
    cpu: float
    state: dict[str, Any]
    trainer: Any


def write_corpus(size: Size, where: Path) -> tuple[Path, Path]:
    """Files to train and to validate on."""
    from datamodules.sources.reviews_grammar import generate

    rows = list(generate(0, size.texts + VALIDATION))
    parts = {"train": rows[: size.texts], "validation": rows[size.texts :]}
    for name, part in parts.items():
        lines = ["text\tlabel", *(f"{text}\t{label}" for text, label in part)]
        (where / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    return where / "train.tsv", where / "validation.tsv"


def plain(size: Size, where: Path) -> Epoch:
    """One epoch of Lightning's Trainer."""
    import pytorch_lightning as pl
    from pytorch_lightning.loggers import TensorBoardLogger

    import lit_modules
    from app.training.join import JoinCorpus
    from datamodules import TextFiles

    train, validation = write_corpus(size, where)
    pl.seed_everything(0)
    method: Any = getattr(lit_modules, size.method)
    model = method(width=size.width, depth=size.depth)
    corpus = TextFiles(train=str(train), validation=str(validation), batch_size=size.batch)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=TensorBoardLogger(where),
        callbacks=[JoinCorpus()],
        log_every_n_steps=10,
        use_distributed_sampler=False,
        inference_mode=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    seconds, cpu = time.perf_counter(), time.process_time()
    trainer.fit(model, datamodule=corpus)
    seconds, cpu = time.perf_counter() - seconds, time.process_time() - cpu
    return Epoch(seconds, cpu, dict(model.state_dict()), trainer)


def survives(size: Size, where: Path, *more: str) -> Epoch:
    """One epoch of the command line's trainer."""
    from app.cli.robust_cli import RobustCLI
    from app.training.trainer import RobustTrainer

    train, validation = write_corpus(size, where)
    arguments = [
        "fit",
        f"--model={size.method}",
        f"--model.width={size.width}",
        f"--model.depth={size.depth}",
        "--data=TextFiles",
        f"--data.train={train}",
        f"--data.validation={validation}",
        f"--data.batch_size={size.batch}",
        "--trainer.accelerator=cpu",
        "--trainer.max_epochs=1",
        "--trainer.enable_progress_bar=false",
        "--trainer.enable_model_summary=false",
        f"--runs_dir={where}",
        "--run=survives",
        *more,
    ]
    with timed(RobustTrainer, "fit") as spent:
        cli = RobustCLI(arguments)
    os.environ.pop("PL_GLOBAL_SEED", None)
    ((seconds, cpu),) = spent
    return Epoch(seconds, cpu, dict(cli.model.state_dict()), cli.trainer)


@contextmanager
def timed(owner: Any, name: str) -> Iterator[list[tuple[float, float]]]:
    """Seconds, by the clock and of the processor, of each call of a method."""
    real: Callable[..., Any] = getattr(owner, name)
    spent: list[tuple[float, float]] = []

    def method(*args: Any, **kwargs: Any) -> Any:
        seconds, cpu = time.perf_counter(), time.process_time()
        try:
            return real(*args, **kwargs)
        finally:
            spent.append((time.perf_counter() - seconds, time.process_time() - cpu))

    setattr(owner, name, method)
    try:
        yield spent
    finally:
        setattr(owner, name, real)


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory for one run, and nothing of what Lightning says."""
    with (
        tempfile.TemporaryDirectory() as where,
        Path(os.devnull).open("w") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        yield Path(where)


def once(kind: str, size: Size) -> Epoch:
    """One epoch of one kind."""
    with scratch() as where:
        return plain(size, where) if kind == "plain" else survives(size, where)


def times(size: Size, repeats: int) -> dict[str, tuple[list[float], list[float]]]:
    """Seconds and processor seconds of each kind; they take turns, the first pays for start-up."""
    import torch

    seen: dict[str, tuple[list[float], list[float]]] = {kind: ([], []) for kind in KINDS}
    states: list[dict[str, Any]] = []
    for repeat in range(repeats + 1):
        # Who comes first changes, so that no kind always finds the memory as the other left it.
        for kind in KINDS if repeat % 2 else KINDS[::-1]:
            epoch = once(kind, size)
            states = [*states[-1:], epoch.state]
            if repeat:
                seen[kind][0].append(epoch.seconds)
                seen[kind][1].append(epoch.cpu)
    one, other = states
    if any(not torch.equal(one[name], other[name]) for name in one):
        msg = "got other weights with the survival machinery than without, expected the same"
        raise RuntimeError(msg)
    return seen


def peak(kind: str, size: Size) -> float:
    """MiB at most resident in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.survival", "--peak_of", kind, *size.options]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(found.stdout)


def resident() -> float:
    """MiB at most resident so far in this process; macOS counts in bytes, Linux in KiB."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (used if sys.platform == "darwin" else used * 1024) / MIB


def parts(size: Size) -> tuple[dict[str, float], dict[str, float], list[float]]:
    """Where the time goes.

    Returns:
        Milliseconds per step of each callback; milliseconds of an epoch that each spends in all
        its hooks; milliseconds of each checkpoint that was written.
    """
    from app.training.checkpoint_callbacks import AtomicCheckpointIO

    with timed(AtomicCheckpointIO, "save_checkpoint") as saved, scratch() as where:
        trainer = survives(size, where, "--trainer.profiler=simple").trainer
    per_step: dict[str, float] = defaultdict(float)
    whole: dict[str, float] = defaultdict(float)
    for action, durations in trainer.profiler.recorded_durations.items():
        if not action.startswith("[Callback]"):
            continue
        name, hook = action.removeprefix("[Callback]").rsplit(".", 1)
        name = name.split("{")[0]
        whole[name] += 1e3 * sum(durations)
        if hook in PER_STEP:
            per_step[name] += 1e3 * sum(durations) / trainer.global_step
    return per_step, whole, [1e3 * seconds for seconds, _ in saved]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--texts", type=int, default=20_000, help="of the epoch")
    parser.add_argument("--method", choices=["OLSA", "TextClassifier"], default="OLSA")
    parser.add_argument("--width", type=int, default=128, help="token width")
    parser.add_argument("--depth", type=int, default=2, help="layers")
    parser.add_argument("--batch", type=int, default=64, help="texts per batch")
    parser.add_argument("--repeats", type=int, default=7, help="timed epochs of each kind")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--json", type=Path, help="where the numbers are written")
    parser.add_argument("--peak_of", choices=KINDS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(given.threads)
    size = Size(given.texts, given.method, given.width, given.depth, given.batch)
    if given.peak_of is not None:
        once(given.peak_of, size)
        print(resident())
        return
    memory = {kind: peak(kind, size) for kind in KINDS}
    seen = times(size, given.repeats)
    per_step, whole, saved = parts(size)
    seconds, cpu = ([statistics.median(seen[kind][i]) for kind in KINDS] for i in (0, 1))
    import torch

    print(f"{size}, {given.threads} thread(s), torch {torch.__version__}, CPU\n")
    print("| one epoch | plain | survives | ratio |\n|---|---|---|---|")
    rows = {"seconds": seconds, "processor seconds": cpu, "peak MiB": list(memory.values())}
    for name, (base, ours) in rows.items():
        print(f"| {name} | {base:.2f} | {ours:.2f} | {ours / base:.3f} |")
    print(f"\n{len(saved)} checkpoints, {statistics.median(saved):.1f} ms each: ", end="")
    print(f"{statistics.median(saved) / (600 * MINUTES):.4f} % of {MINUTES} minutes\n")
    print("| callback | ms per step | ms in the epoch |\n|---|---|---|")
    for name in sorted(whole, key=lambda name: -whole[name]):
        print(f"| {name} | {per_step[name]:.3f} | {whole[name]:.1f} |")
    if given.json is not None:
        content = {
            "size": size._asdict(),
            "threads": given.threads,
            "torch": torch.__version__,
            "ratios": {name: ours / base for name, (base, ours) in rows.items()},
            **{name: dict(zip(KINDS, values, strict=True)) for name, values in rows.items()},
            "checkpoint_ms": saved,
            "per_step_ms": per_step,
        }
        given.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
