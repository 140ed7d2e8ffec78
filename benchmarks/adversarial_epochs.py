"""Cost of an epoch on a corpus against each adversary, from some of its batches."""

import warnings
from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import torch
import yaml

import datamodules
import lit_modules
from attacks.recipe_settings import RecipeSettings
from benchmarks.adversarial_steps import ASA, METHODS, NAIVE, Steps
from benchmarks.command import table
from benchmarks.program_runs import build_part
from benchmarks.timing import Times, time_work
from lit_modules.adversarial import AdversarialTraining
from lit_modules.adversaries import Adversary, EpochTextAdversary, FGSMAdversary, TextAdversary
from lit_modules.shared.task_module import TaskModule
from text import Batch
from training.join import join, training_samples

CONFIGS = Path(__file__).parents[1] / "configs/text_classifier"


class Epoch(NamedTuple):
    """Seconds of an epoch and its ratio to plain training.

    `generation` is the share of it in which the texts of the whole epoch are made before it.
    """

    seconds: float
    processor: float
    ratio: float
    generation: float = 0.0


class CorpusTask(NamedTuple):
    """A corpus and its model, with some of the `total` batches of an epoch, in the order of a run.

    The first one is not counted: encoders remember sentences.
    """

    module: TaskModule
    corpus: datamodules.TextDataModule
    first: Batch
    batches: list[Batch]
    total: int


def load_task(options: Namespace) -> CorpusTask:
    """Return the classifier of `configs/text_classifier/<corpus>.yaml` and its batches."""
    settings = yaml.safe_load((CONFIGS / f"{options.corpus}.yaml").read_text())
    datamodule = build_part(datamodules, settings["data"], data_dir=str(options.data_dir), seed=0)
    if not isinstance(datamodule, datamodules.TextDataModule):
        msg = f"got corpus {options.corpus!r}, expected one whose texts have labels"
        raise TypeError(msg)
    datamodule.setup("fit")
    torch.manual_seed(0)
    module = build_part(lit_modules, settings["model"])
    if options.init_from is not None:
        module = lit_modules.load(options.init_from).plain
    join(module, datamodule)
    module.configure_model()
    loader = datamodule.train_dataloader()
    source = iter(loader)
    count = min(options.batches, len(loader) - 1)
    # One more than asked for: the first warms up.
    first, *chosen = (next(source).to(options.device) for _ in range(count + 1))
    return CorpusTask(module.to(options.device), datamodule, first, chosen, len(loader))


def by_adversary(task: CorpusTask, methods: Mapping[str, Adversary]) -> dict[str, Epoch]:
    """Return the cost of an epoch, from the same batches for all."""
    steps = Steps(task.module)
    samples = training_samples(task.corpus)
    ids = {sample_id for batch in task.batches for sample_id in batch.sample_ids.tolist()}
    # Of the batches alone: to attack all texts before an epoch would take hours.
    chosen = {sample_id: samples[sample_id] for sample_id in sorted(ids)}
    steps.samples = samples
    before = {NAIVE: Times(0.0, 0.0)}
    for name, adversary in methods.items():
        around = AdversarialTraining(adversary=adversary, classifier=task.module)
        around.attach_samples(lambda: chosen, task.corpus.text_columns)
        adversary.start(around)
        task.module.train()
        with warnings.catch_warnings():
            # There is no trainer that could write what is logged.
            warnings.filterwarnings("ignore", "You are trying to `self.log")
            prepare = partial(adversary.start_epoch, around)
            # Some adversaries attack the whole corpus here, before an epoch.
            before[name] = time_work(prepare, task.module.device.type)
    times_of = steps.interleaved(methods, task.batches, first=task.first)
    count = len(task.batches)

    def epoch(name: str) -> Times:
        generation, measurements = before[name], times_of[name]
        wall = mean(times.wall for times in measurements) + generation.wall / count
        processor = mean(times.processor for times in measurements) + generation.processor / count
        # Mean of the measured batches, extrapolated to all batches of the epoch.
        return Times(wall * task.total, processor * task.total, measurements[0].peak)

    epochs, plain = {}, epoch(NAIVE).compared
    for name in times_of:
        times, generation = epoch(name), before[name]
        # The clock of `Times.compared`: wall on a GPU, processor on a CPU.
        spent = generation.wall if times.peak is not None else generation.processor
        share = spent * task.total / count / times.compared
        epochs[name] = Epoch(times.wall, times.processor, times.compared / plain, share)
    return epochs


def adversaries(options: Namespace) -> dict[str, Adversary]:
    """Return the adversaries that an epoch is measured with."""
    by_name: dict[str, Adversary] = {
        name: METHODS[name]() for name in options.methods if name != ASA
    }
    by_name["FGSM"] = FGSMAdversary()
    resources = {"resources": str(options.resources), "sentence_encoder": options.sentence_encoder}
    for similarity, words in ((None, ""), (0.0, ", no sentence encoder")):
        by_name[f"TextFooler in every step, {options.budget} queries{words}"] = TextAdversary(
            attack=RecipeSettings(
                recipe="textfooler", query_budget=options.budget, similarity=similarity, **resources
            )
        )
    by_name["A2T before the epoch, 20 % of its texts"] = EpochTextAdversary(
        attack=RecipeSettings(recipe="a2t", query_budget=200, **resources), clean_epochs=0
    )
    return by_name


def corpus_table(epochs: Mapping[str, Epoch]) -> str:
    """Return seconds and ratios of an epoch."""
    rows = []
    for name, epoch in epochs.items():
        before = f"{100 * epoch.generation:.0f} %" if epoch.generation >= 0.005 else ""
        rows.append(
            [name, f"{epoch.seconds:.0f}", f"{epoch.processor:.0f}", f"{epoch.ratio:.2f}", before]
        )
    head = ["training", "seconds per epoch", "of the processor", "ratio", "before the epoch"]
    return table(head, rows)
