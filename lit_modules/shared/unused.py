"""Finds settings that were changed but have no effect."""

from collections.abc import Iterator, Mapping
from typing import Any

from lit_modules.adversarial import AdversarialTraining
from lit_modules.shared.settings import parameters, plain
from lit_modules.shared.text_module import TextModule
from lit_modules.window_max import WindowMax


def unused_settings(module: TextModule) -> Iterator[str]:
    """Yield settings that differ from their default, but have no effect with the other settings.

    A classifier in the module is included.

    Yields:
        A sentence for each: `share=0.3 has no effect with masking=adversarial`.
    """
    settings = dict(module.hparams)
    if isinstance(module, AdversarialTraining | WindowMax):
        yield from _of(module.classifier, settings["classifier"]["settings"])
    yield from _of(module, settings)


def _of(module: TextModule, settings: Mapping[str, Any]) -> Iterator[str]:
    defaults = {name: plain(p.default) for name, p in parameters(type(module)).items()}
    for name, reason in module.unused().items():
        value, default = _look_up(settings, name), _look_up(defaults, name)
        # A setting that has its default was probably not set by the user.
        if value != default:
            yield f"{name}={value} has no effect with {reason}"


def _look_up(settings: Mapping[str, Any], name: str) -> Any:
    """Return a setting by its name, with dots between groups and names."""
    value: Any = settings
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
