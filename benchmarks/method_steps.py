"""Cost of a training step of each method, relative to plain training of the same encoder.

    python -m benchmarks.method_steps --encoder FOLDER [--batch 16 --length 128] [--steps 20]
        [--device cuda --precision bf16-mixed] [--methods FineTuning UniBERT ...] [--out FILE.json]

Each method is trained by Lightning's Trainer on texts of the full length; a step lasts from the
begin of a batch to that of the next, so projections and other callbacks count. The encoder is a
folder, such as `python -m benchmarks.random_encoder` writes. Methods that classify are compared
with FineTuning, those on running text with MaskedLM. A method that cannot take the encoder is
listed with the reason.
"""

import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytorch_lightning as pl
import torch

import lit_modules
from benchmarks.adversarial_steps import METHODS as ADVERSARIES
from benchmarks.command import command, heading, save, settings, table
from benchmarks.program_runs import quiet_trainer
from benchmarks.timing import MIB, silence
from datamodules import Corpus, RunningText, TextFiles
from datamodules.sources.reviews_grammar import generate
from layers.frozen_backbone import FrozenEncoder
from lit_modules.shared.encoder_source import EncoderSettings
from lit_modules.shared.optimisation import Optimisation
from lit_modules.shared.text_module import TextModule
from training.join import JoinCorpus

START_UP = 3
"""Steps at the beginning that are not counted."""
PLAIN = {False: "FineTuning", True: "MaskedLM"}
"""Plain training of texts with labels, and of running text."""


def makers(options: Namespace) -> dict[str, Callable[[], TextModule]]:
    """Return what makes each method, by name; the plain one of each kind comes first."""
    optimisation = Optimisation(optimizer=partial(torch.optim.AdamW, lr=1e-6))
    common: dict[str, Any] = {"max_length": options.length, "optimisation": optimisation}
    backbone = EncoderSettings(pretrained=options.encoder)
    frozen = FrozenEncoder(pretrained=options.encoder)

    def against(adversary: str) -> TextModule:
        classifier = lit_modules.FineTuning(backbone=backbone, **common)
        return lit_modules.AdversarialTraining(
            adversary=ADVERSARIES[adversary](), classifier=classifier
        )

    def by_name(*names: str) -> dict[str, Callable[[], TextModule]]:
        return {
            name: partial(getattr(lit_modules, name), backbone=backbone, **common) for name in names
        }

    names = ("PGD-3", "FreeLB-2", "SMART-1, proximal", "virtual")
    return {
        **by_name("FineTuning", "UniBERT", "ASA"),
        **{f"AdversarialTraining, {name}": partial(against, name) for name in names},
        "OLSA": partial(lit_modules.OLSA, backbone=frozen, **common),
        **by_name("MaskedLM", "ASAPretraining", "UnitaryDistillation"),
    }


class StepTimes(pl.Callback):
    """Notes the time at the begin of each step."""

    def __init__(self) -> None:
        self.begins: list[float] = []

    def on_train_batch_start(self, *args: Any) -> None:
        """Note the time."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        # Kernels are asynchronous: without the wait above, steps would seem free.
        self.begins.append(time.perf_counter())

    @property
    def seconds(self) -> list[float]:
        """Seconds of the steps after the start-up."""
        begins = self.begins[START_UP:]
        # From begin to begin, so that callbacks between steps count.
        return [after - begin for begin, after in pairwise(begins)]


def write_texts(options: Namespace, folder: Path) -> None:
    """Write texts of at least the full length, with labels and as running text."""
    count = options.batch * (options.steps + START_UP + 2)
    # One long list of words; texts are windows of it.
    words = " ".join(text for text, _ in generate(0, 2000)).split()
    texts = [
        " ".join(words[(i * 97 + j) % len(words)] for j in range(options.length))
        for i in range(count)
    ]
    rows = [f"{text}\t{i % 2}" for i, text in enumerate(texts)]
    (folder / "rows.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    (folder / "running.txt").write_text("\n".join(texts) + "\n")


def corpus_of(options: Namespace, folder: Path, *, running: bool) -> Corpus:
    """Return the corpus of a kind of method."""
    if running:
        return RunningText(
            files="running.txt",
            data_dir=str(folder),
            length=options.length,
            batch_size=options.batch,
            cache_dir=str(folder / "cache"),
        )
    file = str(folder / "rows.tsv")
    return TextFiles(train=file, validation=file, batch_size=options.batch)


def measure(options: Namespace, make: Callable[[], TextModule], folder: Path) -> dict[str, Any]:
    """Return the seconds of a step, the memory of the GPU, and the kind of the corpus."""
    pl.seed_everything(0)
    # Seeded before: a method begins with the same weights in each run.
    module, times = make(), StepTimes()
    running = not isinstance(module, lit_modules.TaskModule)
    if options.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    trainer = quiet_trainer(
        accelerator="gpu" if options.device == "cuda" else "cpu",
        devices=1,
        precision=options.precision,
        max_steps=options.steps + START_UP + 1,
        limit_val_batches=0,
        num_sanity_val_steps=0,
        inference_mode=False,
        callbacks=[JoinCorpus(), times],
    )
    with silence():
        trainer.fit(module, datamodule=corpus_of(options, folder, running=running))
    # The allocator of torch, without the context of CUDA.
    peak = torch.cuda.max_memory_allocated() / MIB if options.device == "cuda" else None
    return {"seconds": median(times.seconds), "peak_mib": peak, "running": running}


def main() -> None:
    """Measure and print."""
    parser = command(__doc__, "batch", "length", "threads", "device", "out", "encoder")
    parser.add_argument("--steps", type=int, default=20, help="steps that are counted")
    parser.add_argument("--precision", default="32-true", help="see Lightning's Trainer")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="all by default")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    makes = makers(options)
    if options.encoder is None or (unknown := {*(options.methods or makes)} - {*makes}):
        parser.error("give --encoder FOLDER" if options.encoder is None else f"got {unknown}")
    measurements: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as where:
        write_texts(options, Path(where))
        for name in options.methods or makes:
            try:
                measurements[name] = measure(options, makes[name], Path(where))
            except ValueError as error:  # an encoder that the method cannot take
                measurements[name] = {"reason": " ".join(str(error).split())}
    setup = settings(options, "encoder", "batch", "length", "steps", "precision", "threads")
    rows = []
    for name, figures in measurements.items():
        if "reason" in figures:
            rows.append([name, "", "", "", figures["reason"]])
            continue
        base = measurements.get(PLAIN[figures["running"]], {}).get("seconds")
        figures["ratio"] = None if base is None else figures["seconds"] / base
        peak = "" if figures["peak_mib"] is None else f"{figures['peak_mib']:.0f}"
        rows.append([name, f"{1e3 * figures['seconds']:.1f}", figures["ratio"] or "", peak, ""])
    head = ["method", "ms per step", "ratio to plain", "peak MiB of the GPU", "not possible"]
    print(f"{heading(setup)}\n\n{table(head, rows)}")
    save(options.out, {"settings": setup, "methods": measurements})


if __name__ == "__main__":
    main()
