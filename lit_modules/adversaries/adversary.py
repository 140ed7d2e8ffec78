"""The base class of adversaries, their input (`InnerProblem`) and result (`AdversarialLoss`)."""

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


class AdversarialLoss(NamedTuple):
    """The result of an adversary on a batch.

    Attributes:
        loss: scalar, which the step minimises.
        values: scalars to be logged, by name: means over the samples of this process's batch.
        ratios: by name, numerator and denominator of a logged rate; each is a mean over samples.
    """

    loss: Tensor
    values: dict[str, Tensor]
    ratios: dict[str, tuple[Tensor, Tensor]]

    def scalars(self) -> dict[str, Tensor]:
        """Return all scalars by name, ready for means over processes."""
        parts = {f"train/{name}": value for name, value in self.values.items()}
        for name, (part, total) in self.ratios.items():
            parts |= {f"{name} of": part.float(), f"{name} in": total.float()}
        return parts

    def divide(self, means: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Replace the parts of each rate in means over processes by their quotient."""
        metrics = dict(means)
        for name in self.ratios:
            part, total = metrics.pop(f"{name} of"), metrics.pop(f"{name} in")
            if total > 0:
                # After the mean over processes, which may have different numbers of samples.
                metrics[f"train/{name}"] = part / total
        return metrics


class TextSample(NamedTuple):
    """A text, or a pair of texts, of the training split, with its class."""

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
        """Write metrics; None where none are written."""


class Adversary:
    """Computes the loss that a step of adversarial training minimises.

    An attribute has each setting, under the name of its argument; `start` makes all other state.
    """

    embeds = True
    """True if it needs a classifier with `embed`."""
    reads_texts = False
    """True if it needs the texts of the training split."""
    tasks: tuple[TaskName, ...] = get_args(TaskName)
    """Tasks that it can train for."""
    average_decay: Sequence[float] = ()
    """Decay of a moving average of the weights, in the first tenth of the steps and after it."""
    remembers = False
    """True if it keeps tensors from batch to batch; see `InnerProblem.memory`."""
    votes = 0
    """Passes of each prediction, see `predict`; 0 if the classifier alone predicts."""
    calibrate = False
    """True if the fit ends with a calibration of the output layer."""

    critic = False
    """True if it trains a network of its own; see `InnerProblem.critic`."""

    @property
    def averages(self) -> bool:
        """True if it needs averaged weights; see `InnerProblem.average`."""
        return False

    def build_critic(self, classifier: TaskModule) -> nn.Module:
        """Return the network that is trained with the classifier; only with `critic`.

        Raises:
            ValueError: the classifier does not fit.
        """
        raise NotImplementedError  # only with `critic`

    def settings(self) -> dict[str, Any]:
        """Return the arguments from which it can be built again, as plain values."""
        return {name: plain(getattr(self, name)) for name in parameters(type(self))}

    def more_texts(self, texts: Sequence[Text]) -> list[str]:
        """Return texts for the vocabulary in addition to the training texts.

        Called before there are weights, when a new vocabulary is built.
        """
        del texts
        return []

    def start(self, loop: "TrainingLoop") -> None:
        """Prepare the training; called before the first step, when the model has its weights.

        Raises:
            ValueError: a resource is missing.
        """

    def start_epoch(self, loop: "TrainingLoop") -> None:
        """Prepare an epoch; all processes call it together, before the first step."""

    def step(self, problem: "InnerProblem") -> AdversarialLoss:
        """Return the loss of a batch."""
        # Subclasses implement it; the command line needs a base class without abstract methods.
        raise NotImplementedError

    def predict(self, classifier: TaskModule, batch: Batch) -> Tensor:
        """Return logits `[B, C]` of a trained classifier; overridden where `votes` is above 0."""
        return classifier.predict_logits(batch)

    def state(self) -> dict[str, Any]:
        """Return the state for a resumed run, as plain values in dicts and lists."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state` returned."""


@dataclass(kw_only=True, eq=False)
class InnerProblem:
    """The inner problem of adversarial training: a batch and the classifier to attack on it.

    Attributes:
        classifier: classifier, in training mode.
        batch: batch with labels.
        labels: labels in the form of the task.
        seeds: `[R]` int64 for noise, one for each row of the batch; they change each epoch.
        logs: True if values of this step are logged; else they need not be computed.
        epoch: epoch of the run, the first is 0.
        seed: seed of the run.
        scale: scale of the loss, see `Gradients`.
        samples: the training samples by their ids; None without a corpus.
        average: average of the weights, if the adversary needs one.
        memory: tensors that the adversary keeps; the checkpoint has them.
        critic: network of the adversary that is trained with the classifier, if it has one.
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
    memory: nn.ParameterDict = field(default_factory=nn.ParameterDict)
    critic: nn.Module | None = None
    attacking: float = 0.0
    """Seconds spent in `searching` so far."""
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
        """Return logits (`[B, C]`, or the task's shape) of tokens `[R, N, d]`."""
        # The same dropout in all passes, so that they differ by their perturbation only (as in
        # FreeLB's inner steps, Zhu et al., 2020, section 3.3).
        with self._replay("classify"):
            return self.classifier.classify(x, self.batch.mask)

    def classify_anew(self) -> Tensor:
        """Return logits of the batch under new dropout; called after the other passes."""
        return self.classifier.classify(self.classifier.embed(self.batch), self.batch.mask)

    def loss(self, logits: Tensor) -> Tensor:
        """Return the classifier's own training objective, a scalar."""
        return self.classifier.loss(logits, self.labels)

    def divergence(self, first: Tensor, second: Tensor, *, symmetric: bool = False) -> Tensor:
        """Divergence of the second logits from the first: a mean over the batch, see `Task`."""
        task = self.classifier.task
        return task.divergence(first, second, self.labels, symmetric=symmetric)

    def parameters(self) -> list[nn.Parameter]:
        """Return the trainable parameters, those of a critic included."""
        modules = [self.classifier] if self.critic is None else [self.classifier, self.critic]
        return [p for module in modules for p in module.parameters() if p.requires_grad]

    @contextmanager
    def _replay(self, name: str) -> Iterator[None]:
        """Restore the random state of the first pass, for the same dropout."""
        device = self.batch.input_ids.device
        # One state for each kind of pass: `embed` may have its own dropout.
        if name not in self._random:
            self._random[name] = random_state(device)
        else:
            set_random_state(self._random[name], device)
        yield

    @contextmanager
    def searching(self, *, frozen: bool = True) -> Iterator[None]:
        """Measure the time of the search for a perturbation; `frozen` weights have no gradients."""
        started = time.perf_counter()
        try:
            with self.classifier.frozen() if frozen else nullcontext():
                yield
        finally:
            if torch.is_autocast_enabled(self.batch.input_ids.device.type):
                # The cache has weights cast without a graph: later passes would get no gradients.
                torch.clear_autocast_cache()
            self.attacking += time.perf_counter() - started

    def result(
        self, loss: Tensor, *, clean: Tensor | None, adversarial: Tensor, values: dict[str, Tensor]
    ) -> AdversarialLoss:
        """Return the loss of a step with the values that every adversary on embeddings logs.

        `clean` and `adversarial` are logits `[B, C]` without and under the perturbation; the former
        are computed here if None and needed. `values` are further ones to log.
        """
        if not self.logs:
            return AdversarialLoss(loss, {}, {})
        clean = self.clean_logits() if clean is None else clean.detach()
        adversarial = adversarial.detach()
        task = self.classifier.task
        with torch.no_grad():
            means = {name: v.mean() for name, v in task.values(clean, self.labels).items()}
            metrics = {
                "clean_loss": self.loss(clean),
                "adversarial_loss": self.loss(adversarial),
                **{name: mean for name, mean in means.items() if name != "loss"},
                **{name: value.detach() for name, value in values.items()},
            }
            right = task.right(clean, self.labels)
            still = task.right(adversarial, self.labels)
        if right is None or still is None:
            return AdversarialLoss(loss, metrics, {})
        # The rate of changed predictions among those that were right without the perturbation.
        success = ((right & ~still).float().mean(), right.float().mean())
        return AdversarialLoss(loss, metrics, {"attack_success": success})

    def averaged_logits(self) -> Tensor | None:
        """Return logits `[B, C]` of the batch by the averaged weights, without a graph, if any."""
        if self.average is None:
            return None
        with self._replay("embed"):
            return self.average.logits(self.classifier, self.batch)

    @torch.no_grad()
    def clean_logits(self) -> Tensor:
        """Return logits `[B, C]` of the clean batch, under the dropout of all other passes."""
        logits = self.classify(self.embed())
        if torch.is_autocast_enabled(self.batch.input_ids.device.type):
            torch.clear_autocast_cache()
        return logits


def random_state(device: torch.device) -> list[Tensor]:
    """Return the state of torch's random numbers, on the CPU and on a GPU that is in use."""
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return states


def set_random_state(states: Sequence[Tensor], device: torch.device) -> None:
    """Restore the result of `random_state`."""
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)


@contextmanager
def undisturbed(module: nn.Module, device: torch.device) -> Iterator[None]:
    """Restore modes, trainable parameters and random state at the end, also after an error."""
    modes = [(child, child.training) for child in module.modules()]
    trainable = [(parameter, parameter.requires_grad) for parameter in module.parameters()]
    states = random_state(device)
    try:
        yield
    finally:
        for child, mode in modes:
            child.training = mode
        for parameter, requires_grad in trainable:
            parameter.requires_grad_(requires_grad)
        set_random_state(states, device)
        if torch.is_autocast_enabled(device.type):
            # See `InnerProblem.searching`.
            torch.clear_autocast_cache()
