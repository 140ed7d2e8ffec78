"""What adversaries share: the batch as they see it, and what they return."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, get_args

import torch
from torch import Tensor, nn

from lit_modules.shared.averaged import AveragedWeights
from lit_modules.shared.settings import parameters, plain
from lit_modules.shared.task_module import TaskModule
from text import Batch, TaskName, Text


class Found(NamedTuple):
    """What an adversary makes of a batch.

    Attributes:
        loss: scalar, what the step minimises.
        values: by name, scalars to be logged: means over the samples of this process's batch.
        ratios: by name, pairs of such scalars, whose quotient is logged (a rate among some of the
            samples).
    """

    loss: Tensor
    values: dict[str, Tensor]
    ratios: dict[str, tuple[Tensor, Tensor]]

    def shown(self) -> dict[str, Tensor]:
        """All scalars, by names of which means over processes can be taken."""
        parts = {f"train/{name}": value for name, value in self.values.items()}
        for name, (part, whole) in self.ratios.items():
            parts |= {f"{name} of": part.float(), f"{name} in": whole.float()}
        return parts

    def quotients(self, means: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Means of `shown`, with quotients in place of their parts; a rate among none is none."""
        left = dict(means)
        for name in self.ratios:
            part, whole = left.pop(f"{name} of"), left.pop(f"{name} in")
            if whole > 0:
                left[f"train/{name}"] = part / whole
        return left


class TextSample(NamedTuple):
    """A text of the training split.

    Attributes:
        text: a string or a pair.
        label: its class.
    """

    text: Text
    label: int


class TrainingLoop(Protocol):
    """The loop of adversarial training, as an adversary sees it: a LightningModule in a fit."""

    @property
    def classifier(self) -> TaskModule:
        """The classifier that is trained."""

    @property
    def samples(self) -> Mapping[int, TextSample]:
        """The training texts by sample id."""

    @property
    def text_columns(self) -> Sequence[str]:
        """Names of the texts of a pair."""

    @property
    def run_seed(self) -> int:
        """The seed of the run."""

    @property
    def current_epoch(self) -> int:
        """The first is 0."""

    @property
    def global_step(self) -> int:
        """Steps of the optimiser so far."""

    @property
    def global_rank(self) -> int:
        """The process; the first is 0."""

    @property
    def device(self) -> torch.device:
        """Device of the weights."""

    @property
    def logger(self) -> Any:
        """Writes metrics; None where none are written."""


class Adversary:
    """What a step of adversarial training minimises in place of the plain loss.

    Keeps settings, each under the name of its argument; whatever else it has is made by `start`.
    """

    embeds = True
    """Whether it perturbs what `embed` returns."""
    tasks: tuple[TaskName, ...] = get_args(TaskName)
    """What it can train for."""
    average_decay: Sequence[float] = ()
    """Decay of a moving average of the weights, in the first tenth of the steps and after it."""

    @property
    def averages(self) -> bool:
        """Whether it compares with averaged weights; see `Problem.average`."""
        return False

    def settings(self) -> dict[str, Any]:
        """Returns the arguments from which it can be built again, as plain values."""
        return {name: plain(getattr(self, name)) for name in parameters(type(self))}

    def more_texts(self, texts: Sequence[Text]) -> list[str]:
        """What a vocabulary should know beside the training texts.

        Asked before there are weights, where the vocabulary is built anew.
        """
        del texts
        return []

    def start(self, loop: "TrainingLoop") -> None:
        """Make what is needed before the first step; the model has its weights.

        Raises:
            ValueError: something that is needed is not there.
        """

    def start_epoch(self, loop: "TrainingLoop") -> None:
        """Called before the first step of each epoch, by all processes together."""

    def step(self, problem: "Problem") -> Found:
        """The loss of a batch."""
        # Part of the contract that only an adversary can fill in; the base class is never used.
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """What a resumed run needs of it, as plain values in dicts and lists."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` returned."""


@dataclass(kw_only=True, eq=False)
class Problem:
    """A batch, and the classifier that is trained on it.

    Attributes:
        classifier: in training mode.
        batch: with labels.
        labels: as the task has them.
        seeds: `[R]` int64 for noise, one for each row of the batch: other ones in each epoch.
        logs: whether values of this step are logged; others need not be computed.
        epoch: of the run, the first is 0.
        seed: of the run.
        scale: see `Gradients`.
        samples: the training samples by their ids; None where there is no corpus.
        average: of the weights, if the adversary asks for one.
    """

    classifier: TaskModule
    batch: Batch
    labels: Tensor
    seeds: Tensor
    logs: bool = True
    epoch: int = 0
    seed: int = 0
    scale: float = 1.0
    samples: Mapping[int, TextSample] | None = None
    average: AveragedWeights | None = None
    attacking: float = 0.0
    """Seconds spent in `attacked` so far."""
    _random: dict[str, list[Tensor]] = field(default_factory=dict, repr=False)

    @property
    def mask(self) -> Tensor:
        """`[B, N]` bool, True at real tokens."""
        return self.batch.mask

    def embed(self) -> Tensor:
        """`[B, N, d]`: the unperturbed tokens."""
        with self._replay("embed"):
            return self.classifier.embed(self.batch)

    def classify(self, x: Tensor) -> Tensor:
        """Logits (`[B, C]`, or as the task has them) of tokens `[R, N, d]`.

        Dropout drops the same in all passes over a batch: two of them differ by their perturbation
        alone (as in FreeLB's inner steps, Zhu et al., 2020, section 3.3).
        """
        with self._replay("classify"):
            return self.classifier.classify(x, self.batch.mask)

    def loss(self, logits: Tensor) -> Tensor:
        """The classifier's own training objective, a scalar."""
        return self.classifier.loss(logits, self.labels)

    def divergence(self, first: Tensor, second: Tensor, *, symmetric: bool = False) -> Tensor:
        """How far the second logits are from the first: a mean over the batch, see `Task`."""
        task = self.classifier.task
        return task.divergence(first, second, self.labels, symmetric=symmetric)

    def parameters(self) -> list[nn.Parameter]:
        """What is trained."""
        return [p for p in self.classifier.parameters() if p.requires_grad]

    @contextmanager
    def _replay(self, name: str) -> Iterator[None]:
        """Draw the random numbers that were drawn the first time."""
        device = self.batch.input_ids.device
        if name not in self._random:
            self._random[name] = random_state(device)
        else:
            set_random_state(self._random[name], device)
        yield

    @contextmanager
    def attacked(self, *, frozen: bool = True) -> Iterator[None]:
        """Look for a perturbation: the time is counted.

        Args:
            frozen: parameters get no gradients, which saves memory.
        """
        started = time.perf_counter()
        try:
            with self.classifier.frozen() if frozen else nullcontext():
                yield
        finally:
            if torch.is_autocast_enabled(self.batch.input_ids.device.type):
                # Weights that were cast without a graph would be used again, without gradients.
                torch.clear_autocast_cache()
            self.attacking += time.perf_counter() - started

    def found(
        self, loss: Tensor, *, clean: Tensor | None, adversarial: Tensor, values: dict[str, Tensor]
    ) -> Found:
        """A loss with what is logged of every adversary in the space of embeddings.

        Args:
            loss: of the step.
            clean: logits `[B, C]` without perturbation; computed here if None and wanted.
            adversarial: logits `[B, C]` under the perturbation.
            values: what else is logged.
        """
        if not self.logs:
            return Found(loss, {}, {})
        clean = self.clean_logits() if clean is None else clean.detach()
        adversarial = adversarial.detach()
        task = self.classifier.task
        with torch.no_grad():
            means = {name: v.mean() for name, v in task.values(clean, self.labels).items()}
            shown = {
                "clean_loss": self.loss(clean),
                "adversarial_loss": self.loss(adversarial),
                **{name: mean for name, mean in means.items() if name != "loss"},
                **{name: value.detach() for name, value in values.items()},
            }
            right = task.right(clean, self.labels)
            still = task.right(adversarial, self.labels)
        if right is None or still is None:
            return Found(loss, shown, {})
        success = ((right & ~still).float().mean(), right.float().mean())
        return Found(loss, shown, {"attack_success": success})

    def averaged_logits(self) -> Tensor | None:
        """Logits `[B, C]` of the batch by the averaged weights, without a graph, if any."""
        if self.average is None:
            return None
        with self._replay("embed"):
            return self.average.logits(self.classifier, self.batch)

    @torch.no_grad()
    def clean_logits(self) -> Tensor:
        """Logits `[B, C]` of the clean batch, under the dropout of all other passes."""
        logits = self.classify(self.embed())
        if torch.is_autocast_enabled(self.batch.input_ids.device.type):
            torch.clear_autocast_cache()
        return logits


def random_state(device: torch.device) -> list[Tensor]:
    """The state of torch's random numbers, on the CPU and on a GPU that is in use."""
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return states


def set_random_state(states: Sequence[Tensor], device: torch.device) -> None:
    """Go back to what `random_state` returned."""
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)


@contextmanager
def undisturbed(module: nn.Module, device: torch.device) -> Iterator[None]:
    """Leave a module as it was, whatever happens: modes, trainable parameters, random numbers."""
    modes = [(child, child.training) for child in module.modules()]
    trainable = [(parameter, parameter.requires_grad) for parameter in module.parameters()]
    states = random_state(device)
    try:
        yield
    finally:
        for child, mode in modes:
            child.training = mode
        for parameter, wanted in trainable:
            parameter.requires_grad_(wanted)
        set_random_state(states, device)
        if torch.is_autocast_enabled(device.type):
            # Weights that were cast without a graph would be used again, without gradients.
            torch.clear_autocast_cache()
