"""The base class of all LightningModules here: tokenizer, optimiser and checkpoints."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

from attacks.resources.lemmas import find_lemmas_again
from lit_modules.shared.lightning_base import LightningModule
from lit_modules.shared.optimisation import Optimisation, undo_division
from lit_modules.shared.process_means import batch_weight, global_means
from lit_modules.shared.schedule import learning_rate_factor
from lit_modules.shared.settings import CODE, parameters, plain, rebuilt, within
from lit_modules.shared.weight_decay import exempt_vectors
from text import Batch, FrontEnd, Text, Tokenizer, check_range, tokenizer_from_state
from text.torch_archive import CHECKPOINT_FORMAT, CHECKPOINT_KEY

if TYPE_CHECKING:
    from pytorch_lightning.utilities.types import OptimizerLRScheduler

    from lit_modules.shared.means import SampleMeans
    from lit_modules.shared.scores import SplitScores

log = logging.getLogger(__name__)

METHODS: dict[str, type["TextModule"]] = {}
"""Every method, by the name that its checkpoints carry."""


class TextModule(LightningModule):
    """A network over tokens: a `TaskModule`, or one that is trained on text without labels.

    It gets its tokenizer from a corpus or from a checkpoint; `configure_model` then builds the
    layers.
    """

    nested: Sequence[str] = ()
    """Arguments, such as modules, that `save_hyperparameters` ignores."""
    headline: str = "accuracy"
    """Validation metric with which the command line selects the best weights."""
    lower_is_better: bool = False
    """True if the least value of `headline` is the best one."""
    default_epochs: int = 20
    """Epochs of a fit from the command line without a limit."""
    more_parameters: Sequence[nn.Parameter] = ()
    """Parameters of another module that its optimiser trains as well."""
    shards: bool = False
    """True if its weights can be split among devices."""
    metric_names: Sequence[str] = ()
    """Keys of `evaluate` whose means are logged."""
    val_means: "SampleMeans"
    test_means: "SampleMeans"

    def __init_subclass__(cls, *, method: bool = False, **settings: Any) -> None:
        """Register a method, unless it is a base class of methods, under its name."""
        super().__init_subclass__(**settings)
        if method:
            METHODS[cls.__name__] = cls

    def __init__(
        self, *, max_length: int = 128, optimisation: Optimisation = Optimisation()
    ) -> None:
        """Keep the settings; layers are built once the vocabulary is known.

        Args:
            max_length: longest text in tokens; longer ones are cut, and counted.
            optimisation: optimiser and learning rate.
        """
        super().__init__()
        check_range({"max_length": max_length}, least=1)
        self.tokenizer: Tokenizer | None = None
        self.max_length, self.optimisation = max_length, optimisation
        # Lightning collects the arguments of all constructors on the call stack.
        self.save_hyperparameters(ignore=self.nested)
        # A class without `**base` has none of its bases' settings; other entries are notes of the
        # command line.
        own, noted = parameters(type(self)), set(self.hparams) - set(parameters(TextModule))
        self._set_settings({k: v for k, v in self.hparams.items() if k in own or k in noted})

    def _set_settings(self, settings: Mapping[str, Any]) -> None:
        """Keep the settings that checkpoints hold, as plain values."""
        settings = {name: plain(value) for name, value in settings.items() if name not in CODE}
        self.hparams.clear()
        self.hparams.update(settings)

    def own_settings(self) -> dict[str, Any]:
        """Return the settings from which `from_settings` builds it again."""
        settings = dict(self.hparams)
        # If the command line has built it inside another module, it has that one's arguments.
        outer = settings.get("classifier")
        if isinstance(outer, Mapping) and "class_path" in outer:
            inner = {**outer.get("init_args", {}), **outer.get("dict_kwargs", {})}
            self._set_settings({n: v for n, v in inner.items() if n in parameters(type(self))})
            settings = dict(self.hparams)
        return {name: value for name, value in settings.items() if not name.startswith("_")}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Build a module from the settings that a checkpoint holds."""
        module = cls(**rebuilt(cls, settings))
        module._set_settings(settings)
        return module

    def unused(self) -> dict[str, str]:
        """Return the settings without effect, each with the setting that disables it."""
        return within("optimisation", self.optimisation.unused)

    def lasting(self) -> dict[str, str]:
        """Return the settings that need the length of the run, each with a value that does not."""
        return within("optimisation", self.optimisation.lasting)

    # Text

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        """Return the tokenizer of this method for a corpus."""
        # Every method implements it; Lightning's modules cannot be abstract classes.
        msg = f"got {type(self).__name__} without build_tokenizer(), expected it of every method"
        raise NotImplementedError(msg)

    def attach_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Set the tokenizer, once, before `configure_model`.

        Raises:
            ValueError: another vocabulary than the one attached before.
        """
        if self.tokenizer is None:
            self.tokenizer = tokenizer
        elif tokenizer is not self.tokenizer and tokenizer.state() != self.tokenizer.state():
            msg = (
                f"got another vocabulary ({tokenizer.vocab_size} ids) than the model has "
                f"({self.tokenizer.vocab_size} ids), expected the same: its weights belong to it"
            )
            raise ValueError(msg)

    def require_tokenizer(self) -> Tokenizer:
        """Return the tokenizer; raise RuntimeError before it is attached."""
        if self.tokenizer is None:
            msg = (
                "got a model without vocabulary, expected it to be joined to a corpus or restored "
                "from a checkpoint before it is used"
            )
            raise RuntimeError(msg)
        return self.tokenizer

    @property
    def front_end(self) -> FrontEnd | None:
        """The front end: texts with the same `front_end.form` have the same prediction."""
        return self.require_tokenizer().front_end

    def restore_text(self, checkpoint: dict[str, Any]) -> None:
        """Attach the tokenizer and classes of a checkpoint (as `read_checkpoint` returns it).

        Raises:
            ValueError: it has none, or they differ from those of the model.
            ResourceError: the tokenizer needs WordNet or a tagger, which is missing.
        """
        state = checkpoint_content(checkpoint)["tokenizer"]
        self.attach_tokenizer(tokenizer_from_state(state, find_lemmas_again))

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint[CHECKPOINT_KEY] = {
            "format": CHECKPOINT_FORMAT,
            "method": type(self).__name__,
            "tokenizer": self.require_tokenizer().state(),
            "class_names": [],
            "pairs": False,
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.restore_text(checkpoint)

    # Training

    def parameter_groups(self) -> list[nn.Parameter] | list[dict[str, Any]]:
        """Return the trainable parameters, or groups of them, for the optimiser.

        A group's `lr_factor` multiplies its learning rate, and its `divisor` is that of its
        objective, see `undo_division`. `exempt_vectors` selects the parameters that decay.
        """
        return [p for p in self.parameters() if p.requires_grad]

    def configure_optimizers(self) -> "OptimizerLRScheduler":
        settings = self.optimisation
        self.refuse_endless()
        groups: list[Any] = self.parameter_groups()
        if self.more_parameters:
            alone = isinstance(groups[0], nn.Parameter)
            more = {"params": list(self.more_parameters)}
            groups = [*([{"params": groups}] if alone else groups), more]
        optimizer = settings.optimizer(groups)
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * group.pop("lr_factor", 1.0)
            undo_division(group, group.pop("divisor", 1.0))
        exempt_vectors(optimizer)
        if settings.lr_scheduler is not None:
            scheduler = settings.lr_scheduler(optimizer)
            if isinstance(scheduler, ReduceLROnPlateau):
                # LightningCLI's own class has a `monitor`; torch's has none.
                monitor = getattr(scheduler, "monitor", "val/loss")
                return {
                    "optimizer": optimizer,
                    "lr_scheduler": {"scheduler": scheduler, "monitor": monitor},
                }
            return [optimizer], [scheduler]
        if settings.warmup == 0 and settings.decay == "none":
            return optimizer
        # 0: a run without end, for which `refuse_endless` allows no schedule that needs one.
        total = self.total_steps()
        if 0 < total < settings.warmup:
            log.warning(
                "got a warm-up of %d steps in a run of %d, so that the learning rate never reaches "
                "its value; give a share of the steps, such as --model.optimisation.warmup 0.1",
                settings.warmup,
                total,
            )
        factor = learning_rate_factor(total, warmup=settings.warmup, decay=settings.decay)
        schedule = LambdaLR(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def total_steps(self) -> int:
        """Return the optimiser steps of the full run, 0 for a run without end."""
        steps = self.trainer.estimated_stepping_batches
        return int(steps) if steps != float("inf") else 0

    def progress(self) -> float:
        """Return the share of completed optimiser steps; 1 outside a fit."""
        if self._trainer is None or self.trainer.state.fn != "fit":
            return 1.0
        total = self.total_steps()
        # Also 1 in a run without end: `refuse_endless` makes sure that no setting depends on it.
        return min(1.0, self.trainer.global_step / total) if total else 1.0

    def refuse_endless(self) -> None:
        """Refuse settings that need the length of the run, in a run without an end.

        Raises:
            ValueError: such settings; the message has each name and a value that is allowed.
        """
        values = self.lasting() if self._trainer is not None else {}
        if values and self.trainer.max_epochs == -1 and self.trainer.max_steps == -1:
            msg = (
                f"got a run without an end, and settings that need its length "
                f"({', '.join(f'--model.{name}' for name in values)}), expected an end "
                "(--trainer.max_epochs N or --trainer.max_steps N) or "
                + ", ".join(f"--model.{name} {value}" for name, value in values.items())
            )
            raise ValueError(msg)

    def logs_this_step(self) -> bool:
        """Return True if the trainer writes metrics at this step."""
        interval: int = self.trainer.log_every_n_steps  # type: ignore[attr-defined] # set by a connector
        return interval > 0 and (self.trainer.global_step + 1) % interval == 0  # 0: no logging

    def log_step(self, metrics: dict[str, Tensor], weight: float, *, size: int) -> None:
        """Log training metrics of a step: means over all processes where they are written.

        `metrics` are means over this process's samples, with `weight` in those over all, see
        `batch_weight`; `size` are the samples in the batch.
        """
        # At other steps, this process's values suffice: communication would slow training down.
        if self.logs_this_step():
            metrics = global_means(self.trainer, metrics, weight)
        for name, value in metrics.items():
            self.log(name, value, batch_size=size, prog_bar=name == "train/loss")

    # Evaluation

    @property
    def mean_names(self) -> Sequence[str]:
        """Names of the means of a split."""
        return self.metric_names

    def setup(self, stage: str) -> None:
        # Not in the constructor: predictions need no metrics, and torchmetrics is slow to load.
        from lit_modules.shared.means import SampleMeans
        from lit_modules.shared.sharding import check_sharding

        check_sharding(self.trainer.strategy, type(self).__name__, shards=self.shards)
        self.val_means, self.test_means = (SampleMeans(self.mean_names) for _ in range(2))

    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        """Return values of each sample (or word), whose means over a split become its metrics."""
        # Every method implements it; Lightning's modules cannot be abstract classes.
        raise NotImplementedError

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self.accumulate(self.val_means, self.evaluate(batch), batch_idx)

    def test_step(self, batch: Batch, batch_idx: int) -> dict[str, Tensor] | None:
        self.accumulate(self.test_means, self.evaluate(batch), batch_idx)
        return None

    def on_validation_epoch_end(self) -> None:
        self.log_evaluation("val", self.val_means)

    def on_test_epoch_end(self) -> None:
        self.log_evaluation("test", self.test_means)

    def log_evaluation(self, stage: str, means: "SampleMeans") -> None:
        """Log the metrics of a split from its means."""
        self.log_means(stage, means.take(self.metric_names))

    def accumulate(
        self,
        means: "SampleMeans",
        values: dict[str, Tensor],
        batch_idx: int,
        scores: "SplitScores | None" = None,
        answered: tuple[Tensor, ...] | None = None,
    ) -> None:
        """Add the results of an evaluation batch, unless it repeats one of another process.

        `values` are those of samples or words; `answered` are predictions, labels and perhaps
        logits, for `scores`.
        """
        if batch_weight(self.trainer, batch_idx) > 0:
            means.update(values)
            if scores is not None and answered is not None:
                scores.update(*answered)

    def log_means(self, stage: str, means: dict[str, Tensor]) -> None:
        """Log the metrics of a split."""
        for name, mean in means.items():
            self.log(f"{stage}/{name}", mean, prog_bar=name in ("accuracy", "spearman", "f1"))


def checkpoint_content(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Return this project's part of a checkpoint; raise ValueError if it is missing."""
    content: dict[str, Any] | None = checkpoint.get(CHECKPOINT_KEY)
    if content is None:
        msg = "got a checkpoint without vocabulary and classes, expected one of this project"
        raise ValueError(msg)
    return content
