"""Refuse a model for which a command has no meaning."""

from torch import nn

from lit_modules import CharacterLM, TaskModule
from text import TaskName


def require_classifier(model: nn.Module, option: str) -> None:
    """Raise ValueError for a model that classifies nothing."""
    if not isinstance(model, TaskModule):
        advice = (
            "train one on its folder, for example --model UniBERT --model.backbone.pretrained "
            "runs/NAME/backbone"
        )
        if isinstance(model, CharacterLM):
            advice = "its commands are fit, validate, test and predict, which writes text"
        msg = (
            f"got {option} for {type(model).__name__}, which classifies nothing, expected a "
            f"classifier: {advice}"
        )
        raise ValueError(msg)


def require_classification(task: TaskName, command: str) -> None:
    """Raise ValueError unless the task of a model is to give classes to texts or pairs."""
    if task != "classification":
        msg = (
            f"got a model for {task}, expected one that gives a class to a text "
            f"or a pair: that is all that `{command}` is about"
        )
        raise ValueError(msg)


def require_attackable(task: TaskName) -> None:
    """Raise ValueError for a task with other texts than strings: runs of taggers and choices."""
    if task != "regression":
        require_classification(task, "attack")
