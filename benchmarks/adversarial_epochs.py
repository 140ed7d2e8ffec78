"""What an epoch on a corpus costs against each adversary, from some of its batches."""

import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import torch
import yaml

import datamodules
import lit_modules
from app.training.join import join, training_samples
from benchmarks.adversarial_steps import NAIVE, Steps, Times, interleaved
from lit_modules.adversarial import AdversarialTraining
from lit_modules.adversaries import Adversary
from lit_modules.shared.task_module import TaskModule
from text import Batch

CONFIGS = Path(__file__).parents[1] / "configs/text_classifier"


class Epoch(NamedTuple):
    """What an epoch costs.

    Attributes:
        seconds: of the wall clock, for all batches.
        processor: seconds of the processor, likewise.
        ratio: to plain training.
        generation: share of it in which the texts of the whole epoch are made before it.
    """

    seconds: float
    processor: float
    ratio: float
    generation: float = 0.0


class Task(NamedTuple):
    """A corpus and its model.

    Attributes:
        module: with its weights.
        corpus: set up.
        first: a training batch to begin with, which is not counted: encoders remember sentences.
        batches: the next ones, in the order of a run.
        total: how many there are in an epoch.
    """

    module: TaskModule
    corpus: datamodules.TextDataModule
    first: Batch
    batches: list[Batch]
    total: int


def task(corpus: str, data_dir: Path, *, batches: int, init_from: Path | None, device: str) -> Task:
    """The classifier of `configs/text_classifier/<corpus>.yaml` and its batches."""
    settings = yaml.safe_load((CONFIGS / f"{corpus}.yaml").read_text())
    made = _made(datamodules, settings["data"], data_dir=str(data_dir), seed=0)
    if not isinstance(made, datamodules.TextDataModule):
        msg = f"got corpus {corpus!r}, expected one whose texts have labels"
        raise TypeError(msg)
    made.setup("fit")
    torch.manual_seed(0)
    if init_from is None:
        module = _made(lit_modules, settings["model"])
    else:
        module = lit_modules.load(init_from).plain
    join(module, made)
    module.configure_model()
    loader = made.train_dataloader()
    source = iter(loader)
    count = min(batches, len(loader) - 1)
    first, *chosen = (next(source).to(device) for _ in range(count + 1))
    return Task(module.to(device), made, first, chosen, len(loader))


def _made(room: Any, settings: Mapping[str, Any], **more: object) -> Any:
    """What a part of a configuration describes, without its optimiser."""
    arguments = {k: v for k, v in settings["init_args"].items() if k != "optimizer"}
    return getattr(room, settings["class_path"])(**arguments, **more)


def by_adversary(given: Task, methods: Mapping[str, Adversary]) -> dict[str, Epoch]:
    """What an epoch costs, from the same batches for all."""
    steps = Steps(given.module)
    every = training_samples(given.corpus)
    ids = {one for batch in given.batches for one in batch.sample_ids.tolist()}
    # Of the batches alone: whoever attacks all texts before an epoch would take hours.
    chosen = {one: every[one] for one in sorted(ids)}
    steps.samples = every
    before: dict[str, Times] = {}
    for name, adversary in methods.items():
        around = AdversarialTraining(adversary=adversary, classifier=given.module)
        around.attach_samples(lambda: chosen, given.corpus.text_columns)
        adversary.start(around)
        given.module.train()
        with warnings.catch_warnings():
            # There is no trainer that could write what is logged.
            warnings.filterwarnings("ignore", "You are trying to `self.log")
            before[name] = steps.times(partial(adversary.start_epoch, around))
    seen = interleaved(steps, methods, given.batches, first=given.first)
    count = len(given.batches)

    def epoch(name: str) -> Times:
        made = before.get(name, Times(0.0, 0.0))
        one = seen[name]
        wall = mean(times.wall for times in one) + made.wall / count
        processor = mean(times.processor for times in one) + made.processor / count
        return Times(wall * given.total, processor * given.total, one[0].peak)

    plain = epoch(NAIVE).compared
    return {
        name: Epoch(
            seconds=epoch(name).wall,
            processor=epoch(name).processor,
            ratio=epoch(name).compared / plain,
            generation=_share(before.get(name), epoch(name), given.total / count),
        )
        for name in seen
    }


def _share(before: Times | None, epoch: Times, factor: float) -> float:
    if before is None:
        return 0.0
    compared = before.wall if epoch.peak is not None else before.processor
    return compared * factor / epoch.compared
