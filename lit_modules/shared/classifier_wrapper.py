"""Methods around another classifier, whose layers they train and read."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

from torch import Tensor, nn
from typing_extensions import override

from lit_modules.shared.optimisation import OptimisationChanges
from lit_modules.shared.settings import named, rebuilt
from lit_modules.shared.task_module import TaskModule
from lit_modules.shared.text_module import METHODS
from text.torch_archive import CHECKPOINT_KEY

if TYPE_CHECKING:
    from pytorch_lightning import Callback
    from pytorch_lightning.utilities.types import OptimizerLRScheduler


class ClassifierWrapper(TaskModule):
    """A method around a classifier. Its checkpoints hold the classifier under `classifier.`."""

    classifier: TaskModule
    nested: Sequence[str] = ("classifier",)

    def __init__(self, *, optimisation: OptimisationChanges) -> None:
        """Keep the settings; the classifier follows with `adopt`.

        Args:
            optimisation: changes to the classifier's optimisation.
        """
        super().__init__()
        self.changes = optimisation

    def adopt(self, classifier: TaskModule) -> None:
        """Set the classifier, with or without weights."""
        self.classifier, self.tasks = classifier, classifier.tasks
        self.default_epochs = classifier.default_epochs
        # Checkpoints store the classifier by name and settings, not as an object.
        self.hparams["classifier"] = named(classifier, classifier.own_settings())
        classifier.optimisation = self.changes.applied(classifier.optimisation)

    @classmethod
    @override
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        parts = dict(settings)
        nested = cls.rebuild_nested(parts)
        module = cls(**nested, **rebuilt(cls, parts))
        module._set_settings(settings)
        return module

    @classmethod
    def rebuild_nested(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """Take the modules out of stored settings, and build them: the inverse of `named`."""
        inner = settings.pop("classifier")
        classifier = METHODS[inner["name"]].from_settings(inner["settings"])
        if not isinstance(classifier, TaskModule):
            msg = f"{inner['name']} in {cls.__name__}, which classifies nothing"
            raise ValueError(msg)
        return {"classifier": classifier}

    @property
    def own_objective(self) -> bool:
        """The property of the classifier, whose objective this method has, too."""
        return self.classifier.own_objective

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        return self.classifier.losses(logits, labels)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        # Without `super()`: vocabulary and classes are the classifier's.
        self.classifier.on_save_checkpoint(checkpoint)
        content = checkpoint[CHECKPOINT_KEY]
        content["method"] = type(self).__name__
        # The classifier of a detector need not be one: `WindowMax` has a bias of its own.
        if self.detector is not None:
            content["detector"] = asdict(self.detector)

    def setup(self, stage: str) -> None:
        super().setup(stage)
        self.classifier.setup(stage)

    def configure_callbacks(self) -> list["Callback"]:
        """Return the callbacks of the classifier, such as a projection of its weights."""
        # Lightning asks only the outermost module for callbacks and optimisers.
        callbacks = self.classifier.configure_callbacks()
        return list(callbacks) if isinstance(callbacks, Sequence) else [callbacks]

    def configure_optimizers(self) -> "OptimizerLRScheduler":
        self.refuse_endless()
        return self.classifier.configure_optimizers()

    def lasting(self) -> dict[str, str]:
        # `optimisation` is also a group of this method, with changes to that of the classifier.
        return {
            name if name.startswith("optimisation.") else f"classifier.{name}": value
            for name, value in self.classifier.lasting().items()
        }

    @property
    def network(self) -> nn.Module:  # type: ignore[override] # is never set here
        return self.classifier.network
