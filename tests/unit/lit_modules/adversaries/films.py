"""A corpus on films, a small classifier of it, and the resources of attacks on it."""

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from attacks.recipe_settings import RecipeSettings
from layers.noise import sample_seeds
from lit_modules import TaskModule, TextClassifier
from lit_modules.adversaries import AdversarialLoss, Adversary, InnerProblem, TextSample
from lit_modules.shared.task_module import labels_of
from tests.unit.attacks.lexicon import write_tagger
from text import Batch, Text

GOOD = ("good", "fine", "great")
BAD = ("bad", "dull", "awful")
THINGS = ("film", "plot", "end", "story")
LISTS = {
    "good": ["fine", "solid"],
    "fine": ["good", "dull"],
    "great": ["fine", "awful"],
    "bad": ["dull", "fine"],
    "dull": ["bad", "good"],
    "awful": ["great", "bad"],
    "film": ["movie", "plot"],
    "plot": ["story", "film"],
}
COUNT = 24


class Alike:
    """An encoder to which all texts are nearly the same."""

    name = "alike"

    def cosines(self, first: Sequence[str], second: Sequence[str]) -> NDArray[np.float64]:
        assert len(first) == len(second)
        return np.full(len(first), 0.999)


def write_resources(folder: Path) -> Path:
    write_tagger(folder / "taggers")
    (folder / "counterfitted_neighbors.json").write_text(json.dumps(LISTS))
    return folder


def corpus(*, pairs: bool = False) -> dict[int, TextSample]:
    things, kinds = cycle(THINGS), (cycle(BAD), cycle(GOOD))
    found: dict[int, TextSample] = {}
    for i in range(COUNT):
        label = i % 2
        text = f"a {next(kinds[label])} {next(things)}, and the {next(things)} was it"
        given: Text = (text, "someone saw a film") if pairs else text
        found[i] = TextSample(given, label)
    return found


def classifier(samples: Mapping[int, TextSample], *, pairs: bool = False) -> TextClassifier:
    """Trained until it knows some, not all of them; with dropout."""
    torch.manual_seed(0)
    module = TextClassifier(width=8, heads=2, depth=1, dropout=0.2)
    texts = [sample.text for sample in samples.values()]
    tokenizer = module.build_tokenizer([*texts, "movie solid"])
    module.attach(tokenizer, ["bad", "good"], pairs=pairs)
    module.configure_model()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    batch = batch_of(module, samples, list(samples))
    for _ in range(15):
        optimizer.zero_grad()
        torch.autograd.backward(module.loss(module(batch), labels_of(batch)))
        optimizer.step()
    return module.train()


def batch_of(module: TaskModule, samples: Mapping[int, TextSample], ids: Sequence[int]) -> Batch:
    batch = module.encode_texts([samples[i].text for i in ids])
    batch.sample_ids = torch.tensor(ids)
    batch.labels = torch.tensor([samples[i].label for i in ids])
    return batch


@dataclass
class World:
    """What an adversary sees of a training, without a trainer."""

    pairs: bool = False
    seed: int = 3
    epoch: int = 0
    columns: Sequence[str] = ("text",)
    logged: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.samples = corpus(pairs=self.pairs)
        self.classifier = classifier(self.samples, pairs=self.pairs)

    def module(self) -> Any:
        def log_metrics(metrics: dict[str, float], step: int) -> None:
            assert step == 7
            self.logged |= metrics

        return cast(
            "Any",
            SimpleNamespace(
                classifier=self.classifier,
                samples=self.samples,
                text_columns=self.columns,
                device=torch.device("cpu"),
                run_seed=self.seed,
                current_epoch=self.epoch,
                global_rank=0,
                global_step=7,
                logger=SimpleNamespace(log_metrics=log_metrics),
            ),
        )

    def started(self, adversary: Adversary) -> Adversary:
        adversary.start(self.module())
        return adversary

    def problem(self, ids: Sequence[int], *, logs: bool = True) -> InnerProblem:
        batch = batch_of(self.classifier, self.samples, ids)
        seeds = sample_seeds(batch.sample_ids, seed=self.seed, epoch=self.epoch)
        return InnerProblem(
            classifier=self.classifier,
            batch=batch,
            labels=labels_of(batch),
            seeds=seeds,
            logs=logs,
            epoch=self.epoch,
            seed=self.seed,
            samples=self.samples,
        )

    def step(
        self, adversary: Adversary, ids: Sequence[int], *, logs: bool = True
    ) -> AdversarialLoss:
        return adversary.step(self.problem(ids, logs=logs))


A = TypeVar("A", bound=Adversary)


def made(cls: type[A], **settings: Any) -> A:
    """Makes an adversary from its settings and from those of its attack, by name."""
    own = {field.name for field in fields(RecipeSettings)} & set(settings)
    default = inspect.signature(cls).parameters["attack"].default
    attack = replace(default, **{name: settings.pop(name) for name in own})
    return cls(**{"attack": attack, **settings})
