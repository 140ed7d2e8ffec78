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
from app.training.join import join, training_samples
from attacks.recipe_settings import RecipeSettings
from benchmarks.adversarial_steps import ASA, METHODS, NAIVE, Steps
from benchmarks.command import table
from benchmarks.program_runs import built
from benchmarks.timing import Times, timed
from lit_modules.adversarial import AdversarialTraining
from lit_modules.adversaries import Adversary, EpochTextAdversary, FGSMAdversary, TextAdversary
from lit_modules.shared.task_module import TaskModule
from text import Batch

CONFIGS = Path(__file__).parents[1] / "configs/text_classifier"


class Epoch(NamedTuple):
    """Cost of an epoch.

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
    """Returns the classifier of `configs/text_classifier/<corpus>.yaml` and its batches."""
    settings = yaml.safe_load((CONFIGS / f"{corpus}.yaml").read_text())
    made = built(datamodules, settings["data"], data_dir=str(data_dir), seed=0)
    if not isinstance(made, datamodules.TextDataModule):
        msg = f"got corpus {corpus!r}, expected one whose texts have labels"
        raise TypeError(msg)
    made.setup("fit")
    torch.manual_seed(0)
    module = built(lit_modules, settings["model"])
    if init_from is not None:
        module = lit_modules.load(init_from).plain
    join(module, made)
    module.configure_model()
    loader = made.train_dataloader()
    source = iter(loader)
    count = min(batches, len(loader) - 1)
    first, *chosen = (next(source).to(device) for _ in range(count + 1))
    return Task(module.to(device), made, first, chosen, len(loader))


def by_adversary(given: Task, methods: Mapping[str, Adversary]) -> dict[str, Epoch]:
    """Returns the cost of an epoch, from the same batches for all."""
    steps = Steps(given.module)
    every = training_samples(given.corpus)
    ids = {one for batch in given.batches for one in batch.sample_ids.tolist()}
    # Of the batches alone: whoever attacks all texts before an epoch would take hours.
    chosen = {one: every[one] for one in sorted(ids)}
    steps.samples = every
    before = {NAIVE: Times(0.0, 0.0)}
    for name, adversary in methods.items():
        around = AdversarialTraining(adversary=adversary, classifier=given.module)
        around.attach_samples(lambda: chosen, given.corpus.text_columns)
        adversary.start(around)
        given.module.train()
        with warnings.catch_warnings():
            # There is no trainer that could write what is logged.
            warnings.filterwarnings("ignore", "You are trying to `self.log")
            prepare = partial(adversary.start_epoch, around)
            before[name] = timed(prepare, given.module.device.type)
    seen = steps.interleaved(methods, given.batches, first=given.first)
    count = len(given.batches)

    def epoch(name: str) -> Times:
        made, one = before[name], seen[name]
        wall = mean(times.wall for times in one) + made.wall / count
        processor = mean(times.processor for times in one) + made.processor / count
        return Times(wall * given.total, processor * given.total, one[0].peak)

    found, plain = {}, epoch(NAIVE).compared
    for name in seen:
        one, made = epoch(name), before[name]
        spent = made.wall if one.peak is not None else made.processor
        share = spent * given.total / count / one.compared
        found[name] = Epoch(one.wall, one.processor, one.compared / plain, share)
    return found


def adversaries(given: Namespace) -> dict[str, Adversary]:
    """Returns the adversaries that an epoch is measured with."""
    made: dict[str, Adversary] = {name: METHODS[name]() for name in given.methods if name != ASA}
    made["FGSM"] = FGSMAdversary()
    places = {"resources": str(given.resources), "sentence_encoder": given.sentence_encoder}
    for similarity, words in ((None, ""), (0.0, ", no sentence encoder")):
        made[f"TextFooler in every step, {given.budget} queries{words}"] = TextAdversary(
            attack=RecipeSettings(
                recipe="textfooler", query_budget=given.budget, similarity=similarity, **places
            )
        )
    made["A2T before the epoch, 20 % of its texts"] = EpochTextAdversary(
        attack=RecipeSettings(recipe="a2t", query_budget=200, **places), clean_epochs=0
    )
    return made


def corpus_table(found: Mapping[str, Epoch]) -> str:
    """Returns seconds and ratios of an epoch."""
    rows = []
    for name, one in found.items():
        before = f"{100 * one.generation:.0f} %" if one.generation >= 0.005 else ""
        rows.append(
            [name, f"{one.seconds:.0f}", f"{one.processor:.0f}", f"{one.ratio:.2f}", before]
        )
    head = ["training", "seconds per epoch", "of the processor", "ratio", "before the epoch"]
    return table(head, rows)
