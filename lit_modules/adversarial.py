"""Adversarial training of any classifier with any adversary.

Sources and measurements are in docs/methods/adversarial.md.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from certify.encoding import ListedCertifier
from certify.raw_text import check_code, check_copy
from certify.threats import TextCertifier, Threat
from layers.noise import row_seeds, sample_seeds
from lit_modules.adversaries import (
    ADVERSARIES,
    AdversarialLoss,
    Adversary,
    InnerProblem,
    TextSample,
)
from lit_modules.checkpoints.reading import CheckpointError, check_fits, load
from lit_modules.shared.averaged import AveragedWeights
from lit_modules.shared.classifier_wrapper import ClassifierWrapper
from lit_modules.shared.detection import Detector
from lit_modules.shared.optimisation import OptimisationChanges
from lit_modules.shared.process_means import global_means
from lit_modules.shared.settings import named, rebuilt
from lit_modules.shared.task_module import READ, TaskModule, labels_of
from lit_modules.shared.text_module import checkpoint_content
from lit_modules.shared.word_level import WordLevel
from text import Batch, TaskName, Text, Tokenizer
from text.run_seed import run_seed
from text.torch_archive import CHECKPOINT_KEY

if TYPE_CHECKING:
    from pytorch_lightning import Callback
    from pytorch_lightning.utilities.types import OptimizerLRScheduler

_VOTES = "predictions are votes, of which `certify --smooth mask` has a probabilistic certificate"


class AdversarialTraining(ClassifierWrapper, method=True):
    """Trains a classifier against an adversary; its predictions are those of the classifier.

    It can be tested, attacked and certified like any classifier.
    """

    nested = ("classifier", "adversary", "init_from")

    def __init__(
        self,
        *,
        adversary: Adversary | None = None,
        classifier: TaskModule | None = None,
        init_from: str | None = None,
        optimisation: OptimisationChanges = OptimisationChanges(),
    ) -> None:
        """Keep the settings.

        Args:
            adversary: the adversary, or another defence, and its settings: PGDAdversary,
                FGSMAdversary, FreeLB, FreeLBPlus, SMART, TAVAT, VirtualAdversary, TextAdversary,
                EpochTextAdversary, AMDA, MRAT, InfoBERT, ASCC, DNE, RanMASK, RDrop or
                TemperatureScaling.
            classifier: the method to train, one that classifies, and its settings. Not needed with
                init_from.
            init_from: checkpoint of a classifier to begin with: vocabulary, classes and weights.
            optimisation: changes to the classifier's optimisation.
        """
        if adversary is None:
            msg = (
                "got no adversary, expected one: give --model.adversary, one of "
                f"{', '.join(ADVERSARIES)}"
            )
            raise ValueError(msg)
        super().__init__(optimisation=optimisation)
        # As `adopt` does for the classifier, which `init_from` may bring.
        self.hparams.update(adversary=named(adversary, adversary.settings()), classifier=None)
        self.adversary, self.init_from = adversary, init_from
        self.text_columns: Sequence[str] = ("text",)
        self._read_samples: Callable[[], Mapping[int, TextSample]] | None = None
        self._samples: Mapping[int, TextSample] | None = None
        self._origin: TaskModule | None = None
        self._unreadable: ValueError | None = None
        self._since, self._attacking, self._averaged = time.perf_counter(), 0.0, 0
        self._remembered: dict[str, tuple[int, ...]] = {}
        _check_classifier(classifier, init_from)
        if classifier is not None:
            self.adopt(classifier)
        if init_from is not None:
            self._read(init_from)

    def adopt(self, classifier: TaskModule) -> None:
        """Set the classifier to train, with or without weights.

        Raises:
            ValueError: the adversary needs embeddings, and the classifier has none; or the
                classifier is smoothed, and trains on random texts.
        """
        if isinstance(classifier, WordLevel) and classifier.smoothing.noise != "none":
            msg = (
                f"got smoothing.noise={classifier.smoothing.noise} in AdversarialTraining, "
                "expected none: an adversary changes the texts as they are"
            )
            raise ValueError(msg)
        if self.adversary.embeds and type(classifier).embed is TaskModule.embed:
            msg = (
                f"got {type(classifier).__name__}, which has no embed(), with "
                f"{type(self.adversary).__name__}, which needs embeddings; expected a method "
                "with embed(), or an adversary on texts: TextAdversary, EpochTextAdversary"
            )
            raise ValueError(msg)
        super().adopt(classifier)
        if self._trainer is not None:
            classifier.trainer = self._trainer

    def _read(self, path: str) -> None:
        """Read the checkpoint `init_from`."""
        try:
            self._origin = load(path).plain
            self._origin.unfold()
        except CheckpointError as error:
            # Raised later: an evaluated or resumed run needs only its own checkpoint.
            self._unreadable = error
            return
        name = type(self._origin).__name__
        if not hasattr(self, "classifier"):
            self.adopt(self._origin.train())
            self._origin = None
            self.configure_model()  # the average of its weights, if needed
        elif type(self.classifier) is not type(self._origin):
            msg = (
                f"got init_from {path}, a checkpoint of {name}, for a classifier "
                f"{type(self.classifier).__name__}: leave --model.classifier out, or say "
                f"--model.classifier {name}"
            )
            raise CheckpointError(msg)

    @classmethod
    @override
    def rebuild_nested(cls, settings: dict[str, Any]) -> dict[str, Any]:
        if "init_from" in settings:
            msg = "a setting init_from, which no checkpoint of ours has: it would have a file read"
            raise ValueError(msg)
        outer = settings.pop("adversary")
        adversary_class = ADVERSARIES[outer["name"]]
        adversary = adversary_class(**rebuilt(adversary_class, outer["settings"]))
        return super().rebuild_nested(settings) | {"adversary": adversary}

    # Texts and classes

    @property
    def plain(self) -> TaskModule:
        return self.classifier

    def attach_samples(
        self, samples: Callable[[], Mapping[int, TextSample]], text_columns: Sequence[str]
    ) -> None:
        """Set the reader of the training texts by id, and the names of the texts of a pair.

        The texts are read on first use.
        """
        self._read_samples, self._samples = samples, None
        self.text_columns = text_columns

    @property
    def samples(self) -> Mapping[int, TextSample]:
        """The training texts by sample id.

        Raises:
            RuntimeError: no corpus has been attached.
        """
        if self._samples is None and self._read_samples is not None:
            self._samples = self._read_samples()
        if self._samples is None:
            msg = (
                "got no training texts, expected attach_samples() before a fit with "
                f"{type(self.adversary).__name__}"
            )
            raise RuntimeError(msg)
        return self._samples

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        if self._unreadable is not None:
            raise self._unreadable
        origin = self._origin or self.classifier
        if origin.tokenizer is not None:
            return origin.tokenizer
        corpus = list(texts)
        return self.classifier.build_tokenizer([*corpus, *self.adversary.more_texts(corpus)])

    def attach(
        self,
        tokenizer: Tokenizer,
        class_names: Sequence[str],
        *,
        pairs: bool = False,
        task: TaskName = "classification",
        synonyms: Sequence[Sequence[str]] = (),
    ) -> None:
        if task not in self.adversary.tasks:
            msg = (
                f"got {type(self.adversary).__name__} on a corpus for {task}, expected one for "
                f"{' or '.join(self.adversary.tasks)}, or another adversary (FreeLB, SMART)"
            )
            raise ValueError(msg)
        for module in (self._origin, self.classifier):
            if module is not None:
                module.attach(tokenizer, class_names, pairs=pairs, task=task, synonyms=synonyms)
                _, class_names = module.require_text()  # it may have other names for the classes
        super().attach(tokenizer, class_names, pairs=pairs, task=task, synonyms=synonyms)

    @property
    def method(self) -> str:
        return self.classifier.method

    def restore_text(self, checkpoint: dict[str, Any]) -> None:
        # The checkpoint of this run replaces that of `init_from`.
        self._origin = self._unreadable = None
        if not hasattr(self, "classifier"):
            stored = self.from_settings(
                {name: checkpoint["hyper_parameters"][name] for name in ("classifier", "adversary")}
            )
            self.adopt(stored.classifier)
        self.classifier.restore_text(checkpoint)
        super().restore_text(checkpoint)
        content = checkpoint_content(checkpoint)
        self._remembered = {
            name.removeprefix("memory."): tuple(tensor.shape)
            for name, tensor in checkpoint["state_dict"].items()
            if name.startswith("memory.")
        }
        self.adversary.restore(content["adversary"])
        self._averaged = int(content["averaged_steps"])

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        checkpoint[CHECKPOINT_KEY] |= {
            "adversary": self.adversary.state(),
            "averaged_steps": self._averaged,
        }

    @property
    def output_layer(self) -> nn.Module | None:
        # A bias adds nothing to votes.
        return None if self.adversary.votes else self.classifier.output_layer

    def output_bias(self) -> nn.Parameter:
        # Not that of its own `output_layer`: `WindowMax` adds another one.
        return super().output_bias() if self.adversary.votes else self.classifier.output_bias()

    @property
    def trains_bias(self) -> bool:
        return self.classifier.trains_bias

    def set_detector(self, detector: Detector | None) -> None:
        super().set_detector(detector)
        self.classifier.set_detector(detector)

    # Layers

    def setup(self, stage: str) -> None:
        if stage == "test" and self.adversary.votes and self.test_attack is not None:
            msg = (
                f"got pgd.epsilon={self.test_attack.epsilon:g} for {type(self.adversary).__name__},"
                " which predicts by votes over texts, expected --pgd.epsilon 0: embeddings have "
                "no votes"
            )
            raise ValueError(msg)
        super().setup(stage)

    def configure_model(self) -> None:
        self.classifier.configure_model()
        if self._origin is not None and self.init_from is not None:
            origin, self._origin = self._origin, None
            content = {CHECKPOINT_KEY: {"method": type(origin).__name__}}
            weights = origin.state_dict()
            check_fits(
                {**content, "state_dict": weights},
                self.classifier,
                self.init_from,
                advice="give --model.classifier its settings, or leave it out",
            )
            # After `check_fits`, which has a better message than torch's.
            self.classifier.load_state_dict(weights)
        if self.adversary.averages and not hasattr(self, "average"):
            self.average = AveragedWeights(self.classifier)
        if self.adversary.remembers and not hasattr(self, "memory"):
            # A new run makes its tensors in the first step, when their sizes are known.
            self.memory = nn.ParameterDict(
                {
                    name: nn.Parameter(torch.empty(shape), requires_grad=False)
                    for name, shape in self._remembered.items()
                }
            )
        if self.adversary.critic and not hasattr(self, "critic"):
            self.critic = self.adversary.build_critic(self.classifier)

    def configure_callbacks(self) -> list["Callback"]:
        """Return the callbacks of the classifier."""
        if self._unreadable is not None:
            raise self._unreadable
        return super().configure_callbacks()

    def lasting(self) -> dict[str, str]:
        settings = super().lasting()
        # A decay that changes after a tenth of the run needs the length of the run.
        early, *later = self.adversary.average_decay if self.adversary.averages else (0.0,)
        if any(decay != early for decay in later):
            settings["adversary.average_decay"] = str([*later, *later])
        return settings

    def configure_optimizers(self) -> "OptimizerLRScheduler":
        if self.adversary.critic:
            self.classifier.more_parameters = [*self.critic.parameters()]
        return super().configure_optimizers()

    def embed(self, batch: Batch) -> Tensor:
        """`[B, N, d]`, as the classifier embeds."""
        return self.classifier.embed(batch)

    def classify(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.classifier.classify(x, mask)

    def forward(self, batch: Batch) -> Tensor:
        """Return logits of a batch: those of the classifier, or of its votes."""
        return self.predict_logits(batch) if self.adversary.votes else super().forward(batch)

    def predict_logits(self, batch: Batch) -> Tensor:
        return self.adversary.predict(self.classifier, batch)

    @property
    def no_certificate(self) -> str | None:
        if self.adversary.votes:
            return _VOTES
        # Without a classifier, which a checkpoint may bring, the reason is unknown.
        return self.classifier.no_certificate if hasattr(self, "classifier") else None

    def text_certifier(self, threat: Threat) -> TextCertifier:
        if self.adversary.votes:
            raise ValueError(self.no_certifier(threat, _VOTES))
        self._check_reading()
        return self.classifier.text_certifier(threat)

    def listed_certifier(self, threat: Threat, limit: int) -> ListedCertifier:
        self._check_no_votes()
        return super().listed_certifier(threat, limit)

    def exact_answer(self) -> Callable[[list[str]], Tensor]:
        self._check_no_votes()
        return super().exact_answer()

    def _check_no_votes(self) -> None:
        """Raise ValueError if predictions are votes: the classifier alone has others."""
        if self.adversary.votes:
            msg = (
                f"got {self.method}, whose {_VOTES}, expected a model without votes: "
                "--model.adversary.votes 0"
            )
            raise ValueError(msg)

    def exact_copy(self) -> TaskModule:
        """Return a copy of the classifier."""
        self._check_reading()
        return self.classifier.exact_copy()

    def _check_reading(self) -> None:
        """Raise ValueError if this module reads texts differently from its classifier."""
        check_code(self, READ)
        check_copy(self, self.classifier, READ)

    def activations(self, batch: Batch) -> list[Tensor]:
        return self.classifier.activations(batch)

    @property
    def extra_metrics(self) -> tuple[str, ...]:
        return self.classifier.extra_metrics

    def extra_values(self, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return self.classifier.extra_values(logits, labels)

    def training_values(self, batch: Batch) -> dict[str, Tensor]:
        return self.classifier.training_values(batch)

    # Steps

    @property
    def run_seed(self) -> int:
        """The seed of the run."""
        return run_seed()

    def on_fit_start(self) -> None:
        if self.adversary.calibrate and not self.trainer.limit_val_batches:
            msg = (
                "got calibrate=true without validation, expected a split on which a temperature is "
                "chosen, or --model.adversary.calibrate false"
            )
            raise ValueError(msg)
        self.adversary.start(self)
        self._since, self._attacking = time.perf_counter(), 0.0

    def on_train_epoch_start(self) -> None:
        self.adversary.start_epoch(self)

    def problem(self, batch: Batch, *, logs: bool = True) -> InnerProblem:
        """Return the input of the adversary for a batch."""
        seeds = sample_seeds(batch.sample_ids, seed=self.run_seed, epoch=self.current_epoch)
        seeds = row_seeds(seeds, batch.choices)
        return InnerProblem(
            classifier=self.classifier,
            batch=batch,
            labels=labels_of(batch),
            seeds=seeds,
            logs=logs,
            epoch=self.current_epoch,
            seed=self.run_seed,
            scale=self.loss_scale,
            samples=self.samples if self.adversary.reads_texts else None,
            average=getattr(self, "average", None),
            memory=self.memory if self.adversary.remembers else nn.ParameterDict(),
            critic=getattr(self, "critic", None),
        )

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        self._follow()
        problem = self.problem(batch, logs=self.logs_this_step())
        result = self.adversary.step(problem)
        self._attacking += problem.attacking
        weight = self.classifier.step_weight(batch, batch_idx)
        self.log_loss(result, batch, weight)
        return weight * result.loss

    def log_loss(self, result: AdversarialLoss, batch: Batch, weight: float) -> None:
        """Log a step: means over all processes, at steps whose metrics are written.

        `weight` is the `step_weight` of the batch.
        """
        metrics = {"train/loss": result.loss.detach()}
        if self.logs_this_step():
            metrics |= result.scalars() | self.training_values(batch)
            metrics = result.divide(global_means(self.trainer, metrics, weight))
            now = time.perf_counter()
            share = self._attacking / max(now - self._since, 1e-9)
            metrics["train/attack_share"] = result.loss.new_tensor(share).detach()
            self._since, self._attacking = now, 0.0
        for name, value in metrics.items():
            self.log(name, value, batch_size=len(batch), prog_bar=name == "train/loss")

    def _follow(self) -> None:
        """Update the averaged weights after a step of the optimiser."""
        # Called before the next batch: after a step, the hook of the module would run later than
        # callbacks that write checkpoints and project weights.
        if not self.adversary.averages or self.trainer.global_step == self._averaged:
            return
        self._averaged = self.trainer.global_step
        # SMART's released code: the first decay for the first tenth of the steps.
        early = self._averaged <= 0.1 * self.classifier.total_steps()
        self.average.update(self.classifier, self.adversary.average_decay[0 if early else 1])


def _check_classifier(classifier: TaskModule | None, init_from: str | None) -> None:
    """Raise ValueError without a classifier, or for one with its own training step."""
    if classifier is None and init_from is None:
        msg = (
            "got neither classifier nor init_from, expected what is to be trained: give "
            "--model.classifier CLASS or --model.init_from CHECKPOINT"
        )
        raise ValueError(msg)
    if isinstance(classifier, AdversarialTraining):
        msg = "got AdversarialTraining in AdversarialTraining, expected a plain classifier"
        raise ValueError(msg)
    if classifier is not None and type(classifier).training_step is not TaskModule.training_step:
        msg = (
            f"got {type(classifier).__name__}, which has a training step of its own, "
            "expected a plain classifier; FineTuning is the one of its kind"
        )
        raise ValueError(msg)
