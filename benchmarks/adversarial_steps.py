"""Cost of training steps, plain ones and against adversaries, of one model in one run."""

import json
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import nn

import lit_modules
from benchmarks.command import table
from benchmarks.graph_memory import GraphMemory
from benchmarks.timing import MIB, Times, rounds, time_work
from layers.noise import sample_seeds
from lit_modules import adversaries
from lit_modules.adversaries.hull import HullAdversary
from lit_modules.shared.averaged import AveragedWeights
from lit_modules.shared.encoder_source import EncoderSettings
from lit_modules.shared.task_module import TaskModule, labels_of
from text import Batch, WordTokenizer

NAIVE = "naive"
SIZES = {"minilm": (6, 384, 12, 30522), "bert-base": (12, 768, 12, 30522), "tiny": (2, 16, 2, 64)}
"""Layers, width, heads and words."""
ASA = "ASA"


class OwnStep(adversaries.Adversary):
    """The own step of a module of ASA, as an adversary among the others."""

    def step(self, problem: adversaries.InnerProblem) -> adversaries.AdversarialLoss:
        """Make the step of `ASA.training_step` where nothing is logged."""
        module, batch, labels = problem.classifier, problem.batch, problem.labels
        assert isinstance(module, lit_modules.ASA)  # random_model
        masks = module.masks(batch)
        assert masks is not None  # likewise
        passes = module.passes(batch, masks)
        task, moved = module.loss(passes.clean, labels), module.task.divergence
        moves = moved(passes.clean, passes.biased, labels, symmetric=module.symmetric)
        module.masking.note(masks.masked().mean(), module.progress())
        loss = task + module.alpha * moves + module.penalty(masks, labels)
        return adversaries.AdversarialLoss(loss, {}, {})


METHODS: dict[str, Callable[[], adversaries.Adversary]] = {
    ASA: OwnStep,
    "FreeLB-2": partial(adversaries.FreeLB, steps=2),
    "FreeLB-3": partial(adversaries.FreeLB, steps=3),
    "SMART-1, released": partial(adversaries.SMART, released=True),
    "SMART-1, proximal": adversaries.SMART,
    "PGD-1": partial(adversaries.PGDAdversary, steps=1),
    "PGD-3": partial(adversaries.PGDAdversary, steps=3),
    "virtual": adversaries.VirtualAdversary,
}
DEFENCES: dict[str, Callable[[], adversaries.Adversary]] = {
    "FreeLB++-10": adversaries.FreeLBPlus,
    "TAVAT-2": adversaries.TAVAT,
    "InfoBERT-3": adversaries.InfoBERT,
    "R-Drop": adversaries.RDrop,
    "RanMASK": adversaries.RanMASK,
    "temperature": adversaries.TemperatureScaling,
    "ASCC-10": adversaries.ASCC,
    "DNE-3": adversaries.DNE,
}
"""With the settings of configs/defences/. AMDA and MRAT also attack texts, once an epoch."""
SYNONYMS = 8
"""Of each word, for ASCC and DNE."""
PUBLISHED = {
    ASA: "about 2, below FreeLB-2",
    "FreeLB-2": "about 2",
    "FreeLB-3": "3 to 4",
    "SMART-1, released": "as FreeLB-3",
}
"""Wu and Zhao, "Adversarial Self-Attention for Language Understanding", 2022, figure 4a: the text
gives "about three and four times" for SMART and FreeLB-3 together, and SMART-1 close to FreeLB-3.
"""
COUNTED = 2
"""Texts of the step whose memory is counted: a graph grows in proportion to them."""
_LR = 1e-8
"""A step costs the same at any learning rate; at this one all methods see the same weights."""


class Cost(NamedTuple):
    """Cost of a step: median seconds, and ratios to the naive step next to it.

    Ratios are of the processor on a CPU, which others may be using as well, of the wall clock on a
    GPU. `peak` is MiB of the GPU in use at most, None on a CPU; `graph` MiB that the graph of a
    text holds at most, see `GraphMemory`, on any device.
    """

    seconds: float
    processor: float
    ratio: float
    least: float
    most: float
    peak: float | None
    graph: float | None = None


class Steps:
    """Training steps of one model; the optimiser is shared by all methods."""

    def __init__(self, module: TaskModule) -> None:
        self.module = module.train()
        self.optimizer = torch.optim.AdamW(module.parameters(), lr=_LR, fused=True)
        self.average: AveragedWeights | None = None
        self._parts: dict[adversaries.Adversary, tuple[nn.ParameterDict, nn.Module | None]] = {}

    def step(self, adversary: adversaries.Adversary | None, batch: Batch) -> None:
        """Make a step as a run does where nothing is logged; without an adversary the plain one."""
        if adversary is None:
            loss = self.module.loss(self.module(batch), labels_of(batch))
        else:
            loss = adversary.step(self._problem(adversary, batch)).loss
        torch.autograd.backward(loss)
        self.optimizer.step()
        # As in a run, gradients are None between steps.
        self.optimizer.zero_grad()
        if adversary is not None and adversary.averages and self.average is not None:
            self.average.update(self.module, adversary.average_decay[1])

    def _problem(self, adversary: adversaries.Adversary, batch: Batch) -> adversaries.InnerProblem:
        if adversary.averages and self.average is None:
            # ASA's own adversary is no part of what others train.
            own = getattr(self.module, "masking", nn.Module()).requires_grad_(False)
            self.average = AveragedWeights(self.module).to(self.module.device)
            own.requires_grad_(True)
        if adversary not in self._parts:
            critic = adversary.build_critic(self.module) if adversary.critic else None
            if critic is not None:
                self.optimizer.add_param_group({"params": critic.parameters()})
            self._parts[adversary] = nn.ParameterDict(), critic
        memory, critic = self._parts[adversary]
        return adversaries.InnerProblem(
            memory=memory,
            critic=critic,
            classifier=self.module,
            batch=batch,
            labels=labels_of(batch),
            seeds=sample_seeds(batch.sample_ids, seed=0, epoch=0),
            logs=False,
            average=self.average if adversary.averages else None,
        )

    def graph(self, adversary: adversaries.Adversary | None, batch: Batch) -> float:
        """Return the MiB that the graph of one text holds at most in a step."""
        memory = GraphMemory([*self.module.parameters(), *self.module.buffers()])
        return memory.of(partial(self.step, adversary, batch)) / len(batch) / MIB

    def interleaved(
        self,
        methods: Mapping[str, adversaries.Adversary],
        batches: Sequence[Batch],
        *,
        first: Batch,
    ) -> dict[str, list[Times]]:
        """Time a naive step and one of each method on each batch, one after the other.

        The `first` batch pays for start-up and is not counted.
        """

        def once(name: str, batch: Batch) -> Times:
            step = partial(self.step, methods.get(name), batch)
            return time_work(step, self.module.device.type)

        return rounds([NAIVE, *methods], once, [first, *batches])


def cost(times: Sequence[Times], naive: Sequence[Times]) -> Cost:
    """Return the cost of steps, relative to naive steps on the same batches."""
    # Per round, so that a slow moment of the machine cancels.
    ratios = [step.compared / plain.compared for step, plain in zip(times, naive, strict=True)]
    peaks = [step.peak for step in times if step.peak is not None]
    return Cost(
        seconds=median(step.wall for step in times),
        processor=median(step.processor for step in times),
        ratio=median(ratios),
        least=min(ratios),
        most=max(ratios),
        peak=max(peaks, default=None),
    )


# Steps on random tokens


def random_model(size: str, device: str, *, length: int) -> tuple[TaskModule, WordTokenizer]:
    """Return an encoder of `transformers` with random weights under a classifier of two classes.

    It is a module of ASA; in all other steps its encoder computes as that of any classifier does.
    """
    depth, width, heads, words = SIZES[size]
    torch.manual_seed(0)
    length = max(512, length)
    # A configuration of `transformers`, so that the code of real encoders is timed.
    architecture = {
        "model_type": "bert",
        "num_hidden_layers": depth,
        "hidden_size": width,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width,
        "max_position_embeddings": length,
    }
    module = lit_modules.ASA(backbone=EncoderSettings(architecture=architecture), max_length=length)
    tokenizer = WordTokenizer.build(
        (f"w{i}" for i in range(words)), max_length=length, max_size=words
    )
    module.attach(tokenizer, ["negative", "positive"])
    module.configure_model()
    return module.to(device), tokenizer


def random_batch(size: int, length: int, tokenizer: WordTokenizer, device: str) -> Batch:
    """Return texts of random words, none of them padded."""
    # The first three ids are special tokens.
    tokens = torch.randint(3, tokenizer.vocab_size, (size, length))
    batch = Batch(
        input_ids=tokens,
        mask=torch.ones_like(tokens, dtype=torch.bool),
        sample_ids=torch.arange(size),
        labels=torch.arange(size) % 2,
    )
    return batch.to(device)


def build(name: str, module: TaskModule, tokenizer: WordTokenizer) -> adversaries.Adversary:
    """Return the adversary of a name, which may train the module; each word has some synonyms."""
    adversary = (METHODS | DEFENCES)[name]()
    if isinstance(adversary, HullAdversary):
        words = tokenizer.vocabulary.words()
        lists = {
            word: [words[(number + step) % len(words)] for step in range(1, SYNONYMS + 1)]
            for number, word in enumerate(words)
        }
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "synonyms.json")
            path.write_text(json.dumps(lists))
            adversary.sets = str(path)
            # All that a hull needs of the loop.
            adversary.start(SimpleNamespace(classifier=module, device=module.device))
    return adversary


def by_length(options: Namespace) -> Iterator[tuple[int, dict[str, Cost]]]:
    """Yield the cost of a step at each length."""
    module, tokenizer = random_model(options.model, options.device, length=max(options.lengths))
    steps = Steps(module)
    methods = {name: build(name, module, tokenizer) for name in options.methods}
    for length in options.lengths:
        # The batch that is timed, one text, and the texts whose graph is counted.
        sizes = (options.batch, 1, min(COUNTED, options.batch))
        batch, single, few = (random_batch(n, length, tokenizer, options.device) for n in sizes)
        # On a GPU, memory is found in the first round; on a CPU, a text is enough.
        first = batch if options.device == "cuda" else single
        measured = steps.interleaved(methods, [batch] * options.repeats, first=first)
        yield (
            length,
            {
                name: cost(times, measured[NAIVE])._replace(
                    graph=steps.graph(methods.get(name), few)
                )
                for name, times in measured.items()
            },
        )


def lengths_table(costs_by_length: Mapping[int, Mapping[str, Cost]]) -> str:
    """Return ratios by length, next to the paper's."""
    rows = []
    for name in next(iter(costs_by_length.values())):
        cells = []
        for costs in costs_by_length.values():
            own, plain = costs[name], costs[NAIVE]
            peak = "" if own.peak is None else f", {own.peak:.0f} MiB"
            if name == NAIVE:
                cells.append(f"{own.seconds:.3g} s ({own.processor:.3g} s of processor){peak}")
                continue
            if own.peak is not None and plain.peak:
                peak += f" ({own.peak / plain.peak:.2f})"
            cells.append(f"{own.ratio:.2f} ({own.least:.2f} to {own.most:.2f}){peak}")
        rows.append([name, *cells, PUBLISHED.get(name, "")])
    return table(["step", *(f"N = {length}" for length in costs_by_length), "paper, N = 512"], rows)


def memory_table(costs_by_length: Mapping[int, Mapping[str, Cost]]) -> str:
    """Return the memory of a text's graph, in MiB and relative to the naive step's."""
    rows = []
    for name in next(iter(costs_by_length.values())):
        graphs = [
            (costs[name].graph or 0.0, costs[NAIVE].graph or 1.0)
            for costs in costs_by_length.values()
        ]
        naive = name == NAIVE
        rows.append([name, *(f"{a:.1f} MiB" if naive else f"{a / b:.2f}" for a, b in graphs)])
    return table(["graph of a text", *(f"N = {length}" for length in costs_by_length)], rows)
