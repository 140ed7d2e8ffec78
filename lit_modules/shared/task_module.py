"""The base class of classifiers: from texts to logits, with the same metrics for all."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from attacks import PGD
from certify.certificate import evaluating
from certify.encoding import ListedCertifier, ListedModel
from certify.raw_text import check_code, check_copy
from certify.threats import (
    AdditionKind,
    SameFormCertifier,
    TextCertifier,
    Threat,
    ThreatName,
    is_same_form,
)
from layers.single_logit import SingleLogit
from lit_modules.shared.detection import Detector, find_positive
from lit_modules.shared.process_means import batch_weight
from lit_modules.shared.rebuilt import rebuild
from lit_modules.shared.tasks import TASKS, Task, positive_class
from lit_modules.shared.text_module import METHODS, TextModule, checkpoint_content
from text import (
    Batch,
    Encoding,
    TaskName,
    Text,
    Texts,
    Tokenizer,
    collate,
    cuts_unsaid,
    given_texts,
    length_batches,
    same_classes,
    say_cut,
)
from text.torch_archive import CHECKPOINT_KEY

if TYPE_CHECKING:
    from lit_modules.shared.scores import SplitScores

Layers = TypeVar("Layers", bound=nn.Module)
READ = ("tokenizer", "class_names", "pairs")
"""Attributes, other than layers, that determine the logits of a text."""
LISTED_TOKENS = 1 << 13
"""Tokens of the inputs that are classified together when a set is listed."""
_FIGURES = ("val_means", "test_means", "val_scores", "test_scores")


class TaskModule(TextModule):
    """A text classifier: `embed` a batch, `classify` the embedded tokens.

    Perturbations and certificates apply between the two. A module gets its vocabulary and classes
    from a corpus (`attach`) or a checkpoint (`restore_text`); `configure_model` then builds the
    layers. Predictions need the checkpoint only.
    """

    network: nn.Module
    """From tokens `[B, N, d]` and mask `[B, N]` to logits `[B, C]`; built by `configure_model`."""

    tasks: Sequence[TaskName] = ("classification",)
    """Tasks that the method can be trained for."""
    threats: Sequence[ThreatName] = ()
    """Threats for which `text_certifier` has certificates, at least with some settings."""
    positive_name: str | None = None
    """The class that evidence speaks for, where a method has one; None for its default."""
    addition: AdditionKind | None = None
    """Text whose addition changes no detection, as `certify --threat` names it; None for none."""
    perturbation_sets: str | None = None
    """Names of the perturbation sets that it is trained against, with commas between."""
    resources: str | None = None
    """Folder with the resources of these sets."""
    val_scores: "SplitScores"
    test_scores: "SplitScores"

    def __init__(self, **base: Any) -> None:
        """Keep the settings.

        Args:
            base: settings of `TextModule`.
        """
        super().__init__(**base)
        self.class_names: list[str] | None = None
        self.pairs = False
        self.task: Task = TASKS["classification"]
        self._positive: int | None = None
        self.detector: Detector | None = None
        """Its threshold, if it is a detector: then it is part of the output bias."""
        self.test_attack: PGD | None = None
        """An attack that every test step runs; not a setting of the model."""
        self.test_sweep: Sequence[float] = ()
        """Further radii of `test_attack`, each an attack of its own."""
        self.former_attacks: Mapping[int, Mapping[str, Any]] = {}
        """Records of `test_attack` from a former start, by sample: they are not made again."""

    # Texts and classes

    def attach(
        self,
        tokenizer: Tokenizer,
        class_names: Sequence[str],
        *,
        pairs: bool = False,
        task: TaskName = "classification",
        synonyms: Sequence[Sequence[str]] = (),
    ) -> None:
        """Set the tokenizer, the task and its classes, once, before `configure_model`.

        Args:
            tokenizer: turns texts into ids.
            class_names: name of each class, in label order, at least two; in tagging the tags, in
                multiple choice the choices; empty for a regression.
            pairs: whether inputs are pairs of texts.
            task: kind of prediction, see `shared.tasks`.
            synonyms: other names of the classes, in the same order; a model that has these keeps
                its own names.

        Raises:
            ValueError: fewer than two classes, an unsupported task, or another vocabulary, task or
                other classes than before.
        """
        names = list(class_names)
        # A model keeps its own names for the same classes.
        if self.class_names is not None and any(
            same_classes(self.class_names, other) for other in (names, *synonyms)
        ):
            names = self.class_names
        if task not in self.tasks:
            msg = (
                f"got a corpus for {task}, expected one for {' or '.join(self.tasks)}, which is "
                f"what {self.method} does; FineTuning and ASA do the other tasks"
            )
            raise ValueError(msg)
        TASKS[task].check(names)
        own = None if self.class_names is None else (self.task.name, self.class_names, self.pairs)
        if own is not None and own != (task, names, pairs):
            advice = "use a corpus of the same task"
            if names and (task, len(names), pairs) == (own[0], len(own[1]), own[2]):
                advice += (
                    ", or name the classes of files of your own as the model does: --data.classes "
                    f"'[{', '.join(own[1])}]'"
                )
            msg = (
                f"got a corpus with classes {names} (pairs: {pairs}) for {task}, expected the "
                f"model's {own[1]} (pairs: {own[2]}) for {own[0]}: {advice}"
            )
            raise ValueError(msg)
        self.attach_tokenizer(tokenizer)
        if own is None:
            self.class_names, self.pairs, self.task = names, pairs, TASKS[task]
            objective = ("objective",) if self.own_objective else ()
            self.metric_names = (*self.task.means, *objective, *self.extra_metrics)
            self.set_positive(None)

    @property
    def positive(self) -> str | None:
        """Name of the class of the metric `f1`; None without this metric."""
        _, names = self.require_text()
        return None if self._positive is None else names[self._positive]

    def set_positive(self, index: int | None) -> None:
        """Set the class of the metric `f1`; None is the second of two classes."""
        _, names = self.require_text()
        self._positive = positive_class(self.task.name, names, index)

    @property
    def headline(self) -> str:  # type: ignore[override] # is never set here
        return self.task.headline

    @property
    def method(self) -> str:
        """Its name."""
        return type(self).__name__

    def restore_text(self, checkpoint: dict[str, Any]) -> None:
        super().restore_text(checkpoint)
        content = checkpoint_content(checkpoint)
        self.attach(
            self.require_tokenizer(),
            content["class_names"],
            pairs=content["pairs"],
            task=content["task"],
        )
        self.set_detector(Detector.from_checkpoint(content.get("detector")))

    def require_text(self) -> tuple[Tokenizer, list[str]]:
        """Return the tokenizer and the class names; raise RuntimeError before they are attached."""
        if self.tokenizer is None or self.class_names is None:
            msg = (
                "got a model without vocabulary and classes, expected attach(tokenizer, "
                "class_names) before it is used, or lit_modules.load(checkpoint)"
            )
            raise RuntimeError(msg)
        return self.tokenizer, self.class_names

    def require_single_texts(self) -> tuple[Tokenizer, list[str]]:
        """Return the tokenizer and the class names.

        Raises:
            RuntimeError: they are not attached yet.
            ValueError: the corpus has pairs of texts, which this method does not read.
        """
        if self.pairs:
            msg = f"got pairs of texts for {self.method}, expected single texts"
            raise ValueError(msg)
        return self.require_text()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        _, class_names = self.require_text()
        super().on_save_checkpoint(checkpoint)
        checkpoint[CHECKPOINT_KEY] |= {
            "class_names": class_names,
            "pairs": self.pairs,
            "task": self.task.name,
        }
        # Not in the checkpoints of other models, which stay what they were.
        if self.detector is not None:
            checkpoint[CHECKPOINT_KEY]["detector"] = asdict(self.detector)

    # The threshold of a detector

    @property
    def output_layer(self) -> nn.Module | None:
        """The last layer, whose `bias` `[C]` is added to the logits; None if there is none.

        The bias has one number if the logits of two classes are (0, z).
        """
        head = getattr(getattr(self, "network", None), "head", None)
        layer = head.linear if isinstance(head, SingleLogit) else head
        return layer if isinstance(layer, nn.Linear) else None

    @property
    def applies_output_layer(self) -> bool:
        """True if the logits are what `output_layer` gives for one vector of each text."""
        return True

    @property
    def trains_bias(self) -> bool:
        """True if `output_layer` has a bias without a detector as well."""
        return True

    def output_bias(self) -> nn.Parameter:
        """Return the bias that is added to the logits.

        Raises:
            ValueError: the method has none, or no layers yet.
        """
        bias = None if self.output_layer is None else self.output_layer.bias
        if not isinstance(bias, nn.Parameter):
            msg = (
                f"got {self.method}, whose logits have no bias that a threshold could be part of, "
                "expected a method that has one, without --model.smoothing.noise"
            )
            raise ValueError(msg)
        return bias

    def set_detector(self, detector: Detector | None) -> None:
        """Set or remove the record of the threshold, and the bias of a layer that trains none."""
        self.detector = detector
        layer: Any = self.output_layer
        if layer is None or self.trains_bias:
            return
        if detector is None:
            layer.bias = None
        elif layer.bias is None:
            _, names = self.require_text()
            zeros = torch.zeros(len(names), device=self.device)
            layer.bias = nn.Parameter(zeros, requires_grad=False)

    def fold(self, detector: Detector) -> None:
        """Make a classifier a detector: subtract the threshold from the bias of its class."""
        self.unfold()
        self.set_detector(detector)
        self._shift(detector, -detector.threshold)

    def unfold(self) -> None:
        """Make a detector a classifier without threshold, as it was trained."""
        if self.detector is not None:
            self._shift(self.detector, self.detector.threshold)
            self.set_detector(None)

    @torch.no_grad()
    def _shift(self, detector: Detector, amount: float) -> None:
        """Add to the logit of the positive class, relative to the others."""
        _, names = self.require_text()
        index, bias = find_positive(detector.positive, names), self.output_bias()
        if len(bias) == 1:  # logits (0, z)
            bias.add_(amount if index == 1 else -amount)
        else:
            bias[index] += amount

    @property
    def plain(self) -> "TaskModule":
        """The classifier itself, without a module around it that trains it."""
        return self

    # The classifier contract

    def embed(self, batch: Batch) -> Tensor:
        """`[R, N, d]`: the space of perturbations and certificates.

        R is B, except in multiple choice, where each sample has a row for each choice.
        """
        # Not an abstract method: text methods without embeddings need not define it.
        msg = f"got {type(self).__name__} without embed(), expected every method to define it"
        raise NotImplementedError(msg)

    def classify(self, x: Tensor, mask: Tensor) -> Tensor:
        """`[R, N, d]` embedded tokens and mask `[R, N]` to logits.

        They are `[B, C]`; for a regression `[B, 1]`, for tagging `[B, N, C]`.
        """
        logits: Tensor = self.network(x, mask)
        return logits

    def word_evidence(self, text: Text, index: int) -> list[tuple[str, float]]:
        """Return the words of a text with their evidence for a class; none unless overridden.

        Evidence is the score of the class less the largest one of another class.
        """
        del text, index
        return []

    def predict_logits(self, batch: Batch) -> Tensor:
        """Return logits for predictions: those of `forward` unless overridden."""
        logits: Tensor = self(batch)
        return logits

    @property
    def no_certificate(self) -> str | None:
        """The reason, one sentence, why predictions have no certificate; None if they have one."""
        return (
            "no Lipschitz constant is proven for a Transformer with dot-product attention and "
            "LayerNorm; OLSA has one"
        )

    def text_certifier(self, threat: Threat) -> TextCertifier:
        """Return a certifier of raw texts against a threat, see `certify.threats`.

        It certifies the present weights; later changes of the model have no effect on it.

        Raises:
            ValueError: no certificate for this threat with these settings, or see `exact_copy`.
        """
        if is_same_form(threat):
            copied = self.exact_copy()
            return SameFormCertifier(copied.predict_texts, copied.require_tokenizer(), threat)
        if threat.name not in self.threats:
            raise ValueError(self.no_certifier(threat))
        return self.exact_copy().own_certifier(threat)

    def own_certifier(self, threat: Threat) -> TextCertifier:
        """Return the certifier, against one of `threats`, of a model that `exact_copy` made.

        Raises:
            ValueError: no certificate for this threat with these settings.
        """
        raise ValueError(self.no_certifier(threat))

    @property
    def evidence_class(self) -> int | None:
        """Index of the class that no added text takes away; None without such a class."""
        return None

    def follow_detector(self) -> None:
        """Let evidence speak for the class of `--detect.positive` in a fit, if none is named."""
        detection = getattr(self._trainer, "detection", None)
        if self.positive_name is None and detection is not None and detection.positive is not None:
            _, names = self.require_text()
            # A wrong name is refused at the start of the fit.
            with suppress(ValueError):
                self.positive_name = names[find_positive(detection.positive, names)]
                self.hparams["positive"] = self.positive_name

    def exact_copy(self) -> "TaskModule":
        """Return a copy in evaluation mode with exactly the code of its class.

        Raises:
            ValueError: the model has other code or other values than its class.
        """
        # The copy is built from settings, tokenizer state and weights, and compared with this
        # model, see `certify.raw_text`. So a certificate of the copy is one of this model.
        check_code(self, [*READ, *self._layers()])
        copied = rebuild(self)
        with evaluating(self):
            check_copy(self, copied, [*READ, *copied._layers()])
        return copied.requires_grad_(requires_grad=False)

    @property
    def predicts_in_float64(self) -> bool:
        """True if predictions come from a pass in float64, to which its certificates apply."""
        return False

    def _float64_copy(self) -> "TaskModule":
        copied = self.exact_copy()
        return copied if copied.predicts_in_float64 else copied.to(torch.float64)

    def exact_answer(self) -> Callable[[list[str]], Tensor]:
        """Return a function from n texts to logits `[n, C]` of an exact copy, in float64."""
        copied = self._float64_copy()

        def answer(texts: list[str]) -> Tensor:
            # Each text alone: in a batch, rounding would depend on the other texts.
            with cuts_unsaid():
                return copied.predict_texts(texts, batch_size=1).to(torch.float64)

        return answer

    def listed_certifier(self, threat: Threat, limit: int) -> ListedCertifier:
        """Return a certifier that lists all inputs, at most `limit`, of the texts of a set.

        Raises:
            ValueError: pairs of texts, see `ListedCertifier`, or see `exact_copy`.
        """
        if self.pairs:
            msg = f"got pairs of texts for a list of {limit} inputs, expected single texts"
            raise ValueError(msg)
        return ListedCertifier(self._float64_copy().listed_model(), threat, limit=limit)

    def listed_model(self) -> ListedModel:
        """Return the classifier of a copy in float64, for lists of inputs."""
        return ListedModel.of(self.require_tokenizer(), self.predict_encodings)

    def _layers(self) -> list[str]:
        """Return names of the modules that compute logits, without metrics."""
        return [name for name in self._modules if name not in _FIGURES]

    def no_certifier(self, threat: Threat, reason: str | None = None) -> str:
        """Return the message for a threat for which this model has no certificate.

        `reason` is for a method that has a certificate with other settings.
        """
        able = [
            name
            for name, method in METHODS.items()
            if issubclass(method, TaskModule) and threat.name in method.threats
        ]
        others = ", ".join(sorted({*able} - {self.method}))
        if reason is not None:
            expected = f"another setting, or one of {others}" if others else "another setting"
            return f"got {self.method}, {reason}, expected {expected}"
        return (
            f"got {self.method}, a model without a certificate for {threat.name}, "
            f"expected a method that has one: {others or 'none so far'}"
        )

    def _encode(self, texts: Texts) -> list[Encoding]:
        """Encode texts of a caller, and log the number of truncated texts."""
        tokenizer, _ = self.require_text()
        encodings = tokenizer.encode(given_texts(texts, pairs=self.pairs))
        say_cut(encodings, tokenizer.max_length)
        return encodings

    def encode_texts(self, texts: Texts) -> Batch:
        """Return one padded batch, on the model's device, of `predict_texts`' texts.

        Raises:
            ValueError: input of another type, or no texts.
        """
        tokenizer, _ = self.require_text()
        encodings = self._encode(texts)
        return collate(encodings, pad_id=tokenizer.pad_id, pairs=self.pairs).to(self.device)

    @torch.no_grad()
    def predict_texts(self, texts: Texts, *, batch_size: int = 256) -> Tensor:
        """Return logits `[n, C]` of n raw texts, in evaluation mode.

        Args:
            texts: one text, or a list of texts; a text is a string, or, for a model of pairs, a
                tuple of two strings. A warning has the number of truncated texts.
            batch_size: texts per forward pass; texts of similar length are grouped.

        Raises:
            ValueError: input of another type, or a model for tagging or multiple choice.
        """
        if self.task.name not in ("classification", "regression"):
            msg = (
                f"got a model for {self.task.name}, expected one that answers to a text or a pair; "
                "`predict` answers to a corpus"
            )
            raise ValueError(msg)
        logits: Tensor = self.predict_encodings(self._encode(texts), batch_size)
        return logits

    @torch.no_grad()
    def predict_encodings(
        self,
        encodings: Sequence[Encoding],
        batch_size: int | None = None,
        predict: Callable[[Batch], Tensor] | None = None,
    ) -> Tensor:
        """Return logits `[n, C]` of n encoded texts, see `predict_texts`.

        Without `batch_size`, a forward pass, by default `predict_logits`, has `LISTED_TOKENS`
        tokens.
        """
        tokenizer, class_names = self.require_text()
        if not encodings:
            return torch.empty(0, self.task.outputs(class_names), device=self.device)
        lengths = [len(encoding.input_ids) for encoding in encodings]
        size = max(1, LISTED_TOKENS // max(lengths)) if batch_size is None else batch_size
        batches = length_batches(lengths, size, device=self.device.type)
        parts = []
        training = self.training
        self.eval()
        try:
            for rows in batches:
                chunk = [encodings[i] for i in rows]
                batch = collate(chunk, pad_id=tokenizer.pad_id, pairs=self.pairs)
                parts.append((predict or self.predict_logits)(batch.to(self.device)))
        finally:
            self.train(training)
        # Back from the order of lengths to the order of the texts.
        logits = torch.cat(parts)
        order = torch.tensor([i for rows in batches for i in rows], device=logits.device)
        return logits[order.argsort()]

    # Steps

    def forward(self, batch: Batch) -> Tensor:
        """Return logits of a batch, see `classify`."""
        return self.classify(self.embed(batch), batch.mask)

    @property
    def own_objective(self) -> bool:
        """True if training minimises another objective than the task's loss.

        `val/loss` and `test/loss` are comparable: they are the task's loss for every method. With
        True, `val/objective` and `test/objective` have the training objective.
        """
        return False

    @property
    def extra_metrics(self) -> tuple[str, ...]:
        """Keys of `extra_values`; none unless overridden."""
        return ()

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """`[B]`: the training objective of each sample; that of the task unless overridden."""
        return self.task.losses(logits, labels)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the training objective, a mean over the batch."""
        return self.task.mean(self.losses(logits, labels), labels)

    @property
    def loss_scale(self) -> float:
        """Factor of losses in 16-mixed precision, also for gradients of embedded words; else 1."""
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        return 1.0 if scaler is None else float(scaler.get_scale())

    def step_weight(self, batch: Batch, batch_idx: int) -> float:
        """Return the weight of this process's batch mean, see `batch_weight`."""
        weight = batch_weight(self.trainer, batch_idx)
        if not self.task.by_word or self.trainer.world_size == 1:
            return weight
        # A mean over words is weighted by their number.
        units = float(weight > 0) * self.task.units(labels_of(batch)).sum()
        # `reduce` works in place: pass a copy.
        total = torch.as_tensor(self.trainer.strategy.reduce(units.clone(), reduce_op="sum"))
        return float(self.trainer.world_size * units / total.clamp_min(1))

    def training_values(self, batch: Batch) -> dict[str, Tensor]:
        """Return scalars that a method logs during training, by their full names.

        Called only at steps whose metrics are written.
        """
        del batch
        return {}

    def trained_on(self, batch: Batch) -> Batch:
        """Return the batch that a training step uses: the same unless overridden."""
        return batch

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        batch = self.trained_on(batch)
        logits, labels = self(batch), labels_of(batch)
        return self.log_loss_of(self.loss(logits, labels), logits, batch, batch_idx)

    def log_loss_of(self, loss: Tensor, logits: Tensor, batch: Batch, batch_idx: int) -> Tensor:
        """Log a training step; return its loss with the weight that `step_weight` gives it.

        The loss is a mean over this process's samples; the batch is that of `trained_on`.
        """
        weight = self.step_weight(batch, batch_idx)
        metrics = {"train/loss": loss.detach()}
        if self.logs_this_step():
            metrics |= self.answers(logits, labels_of(batch))
            metrics |= self.training_values(batch)
        self.log_step(metrics, weight, size=len(batch))
        return weight * loss

    def answers(self, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return the training metrics of predictions, by their logged names."""
        logits = logits.detach()
        values = self.task.values(logits, labels) | self.extra_values(logits, labels)
        return {f"train/{name}": v.mean() for name, v in values.items() if name != "loss"}

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        values, answered = self._evaluated(batch)
        self.accumulate(self.val_means, values, batch_idx, self.val_scores, answered)

    def test_step(self, batch: Batch, batch_idx: int) -> dict[str, Tensor]:
        values, answered = self._evaluated(batch, count=True)
        outcome = {"sample_ids": batch.sample_ids, "prediction": answered[0]}
        if self.test_attack is not None:
            outcome = self._former_attack(batch) or self.attack(self.test_attack, batch)
            values["pgd_accuracy"] = outcome["survived"].float()
            for name, figure in self._sweep_names.items():
                values[figure] = outcome[name].float()
        self.accumulate(self.test_means, values, batch_idx, self.test_scores, answered)
        return outcome

    @property
    def _sweep_names(self) -> Mapping[str, str]:
        """The column in the records of each radius of the sweep, and its figure."""
        return {f"survived@{radius:g}": f"pgd_accuracy@{radius:g}" for radius in self.test_sweep}

    def _former_attack(self, batch: Batch) -> dict[str, Tensor] | None:
        """Return the outcome of `attack` on a batch from its records; None unless all are there."""
        records = [self.former_attacks.get(sample) for sample in batch.sample_ids.tolist()]
        if None in records:
            return None
        columns = {
            name: torch.tensor([record[name] for record in records if record], device=self.device)
            for name in ("prediction", "pgd_prediction", "survived", *self._sweep_names)
        }
        return {"sample_ids": batch.sample_ids, "labels": labels_of(batch), **columns}

    def attack(self, attack: PGD, batch: Batch) -> dict[str, Tensor]:
        """Run the PGD attack on a batch.

        Return `[B]` each: `sample_ids`, `labels`, `prediction`, `pgd_prediction` (at the perturbed
        point) and `survived`: the prediction is right, and the attack did not change it;
        `survived@RADIUS` for each radius of `test_sweep`.
        """
        # The attack perturbs embeddings, not tokens.
        x, labels = self.embed(batch).detach(), labels_of(batch)
        prediction = self.classify(x, batch.mask).argmax(dim=1)
        with self.frozen():
            search = partial(
                attack, self.classify, x, batch.mask, labels, seeds=batch.sample_ids.tolist()
            )
            perturbed, flipped = search()
            others = [search(epsilon=x.new_full((len(batch),), r))[1] for r in self.test_sweep]
        return {
            "sample_ids": batch.sample_ids,
            "labels": labels,
            "prediction": prediction,
            "pgd_prediction": self.classify(perturbed, batch.mask).argmax(dim=1),
            "survived": (prediction == labels) & ~flipped,
            **{
                name: (prediction == labels) & ~other
                for name, other in zip(self._sweep_names, others, strict=True)
            },
        }

    def activations(self, batch: Batch) -> list[Tensor]:
        """`[B, N, d]` after each layer, the first layer first.

        Raises:
            ValueError: the method has no layers with activations.
        """
        del batch
        msg = (
            f"got {type(self).__name__}, which shows no activations of its layers, expected a "
            "method with layers, as OLSA or UniBERT with a depth of at least 1"
        )
        raise ValueError(msg)

    def predict_step(self, batch: Batch, batch_idx: int) -> dict[str, Tensor]:
        logits = self.predict_logits(batch)
        return {
            "sample_ids": batch.sample_ids,
            "logits": logits,
            "prediction": self.task.prediction(logits),
        }

    # Evaluation

    @property
    def mean_names(self) -> Sequence[str]:
        return (*self.metric_names, "pgd_accuracy", *self._sweep_names.values())

    def setup(self, stage: str) -> None:
        from lit_modules.shared.scores import SplitScores

        super().setup(stage)
        _, names = self.require_text()
        self.val_scores, self.test_scores = (
            SplitScores(
                self.task.name, names, self._positive, counts=counts, detector=self.detector
            )
            for counts in (False, True)
        )

    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        """Return values of each sample (or word), whose means over a split become its metrics."""
        return self._evaluated(batch)[0]

    def _evaluated(
        self, batch: Batch, *, count: bool = False
    ) -> tuple[dict[str, Tensor], tuple[Tensor, ...]]:
        """Return the values, and the inputs of `SplitScores`: without count the first two."""
        logits, labels = self(batch), labels_of(batch)
        values, answered = self.task.metric_inputs(logits, labels, batch.cut_tags)
        values |= self.extra_values(logits, labels)
        if self.own_objective:
            values["objective"] = self.losses(logits, labels)
        return values, (*answered, logits, batch.lengths) if count else answered

    def extra_values(self, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return values `[B]` for the extra metrics; none unless overridden."""
        del logits, labels
        return {}

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Switch gradients of parameters off, which saves memory; inputs may have gradients."""
        trainable = [p for p in self.parameters() if p.requires_grad]
        try:
            for parameter in trainable:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter in trainable:
                parameter.requires_grad_(True)

    def on_validation_epoch_end(self) -> None:
        self.log_means("val", self.val_means.take(self.metric_names) | self.val_scores.take())

    def on_test_epoch_end(self) -> None:
        attacked = () if self.test_attack is None else ("pgd_accuracy", *self._sweep_names.values())
        means = self.test_means.take((*self.metric_names, *attacked))
        self.log_means("test", means | self.test_scores.take())


def require_layers(layers: Layers | None) -> Layers:
    """Return the layers of a model; raise RuntimeError before they are built."""
    if layers is None:
        msg = "got a model without layers, expected configure_model() before its first use"
        raise RuntimeError(msg)
    return layers


def labels_of(batch: Batch) -> Tensor:
    """Return the labels of a batch; raise ValueError if it has none."""
    if batch.labels is None:
        msg = "got a batch without labels, expected labelled data; `predict` needs none"
        raise ValueError(msg)
    return batch.labels
