"""Settings of a module, and of what is nested in it, as plain values that checkpoints hold."""

import inspect
from collections.abc import Mapping
from typing import Any

from lit_modules.shared.task_module import TaskModule

CODE = ("optimizer", "lr_scheduler")
"""Settings that no checkpoint holds."""


def named(one: object, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values from which it can be built again."""
    return {"name": type(one).__name__, "settings": dict(settings)}


def settings_of(classifier: TaskModule) -> dict[str, Any]:
    """The arguments of a classifier that checkpoints hold."""
    settings = dict(classifier.hparams)
    # Built by the command line inside another module, it has the notes of that one's arguments.
    given = settings.get("classifier")
    if isinstance(given, Mapping):
        accepted = inspect.signature(type(classifier).__init__).parameters
        arguments = {**given.get("init_args", {}), **given.get("dict_kwargs", {})}
        settings = {name: value for name, value in arguments.items() if name in accepted}
        classifier.hparams.clear()
        classifier.hparams.update(settings)
    return {k: v for k, v in settings.items() if k not in CODE and not k.startswith("_")}
