"""Keeps the defaults of one optimiser out of the settings of another."""

import inspect
from collections.abc import Callable
from pydoc import locate
from typing import Any

import torch
from jsonargparse import Namespace, _typehints

_WITH_DEFAULTS = (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)
_discard: Callable[..., None] = _typehints.discard_init_args_on_class_path_change


def install() -> None:
    """Let a new class of optimiser or scheduler begin with its own defaults.

    A setting of the user that is not a default of the old class stays.
    """
    # jsonargparse copies all settings of the old class that the new one also takes, its defaults
    # included. AdamW's default `weight_decay` of 0.01 would so reach an Adam without weight decay,
    # where it is an L2 penalty.
    _typehints.discard_init_args_on_class_path_change = _discard_defaults


def _discard_defaults(parser: Any, previous: Any, value: Any) -> None:
    if previous and previous["class_path"] != value["class_path"] and "init_args" in previous:
        settings = previous["init_args"]
        for name, default in _defaults(previous["class_path"]).items():
            if (
                isinstance(settings, Namespace | dict)
                and name in settings
                and settings[name] == default
            ):
                del settings[name]
    _discard(parser, previous, value)


def _defaults(path: str) -> dict[str, Any]:
    """Return the defaults of an optimiser or scheduler; an empty dictionary for other classes."""
    cls = locate(path)
    if not (isinstance(cls, type) and issubclass(cls, _WITH_DEFAULTS)):
        return {}
    parameters = inspect.signature(cls).parameters.values()
    return {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.default is not parameter.empty
    }
