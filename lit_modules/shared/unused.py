"""Says which settings have been given and have no effect."""

from collections.abc import Iterator, Mapping
from typing import Any

from lit_modules.adversarial import AdversarialTraining
from lit_modules.shared.settings import parameters, plain
from lit_modules.shared.text_module import TextModule


def unused_settings(module: TextModule) -> Iterator[str]:
    """Settings that are other than by default, and have no effect beside the others.

    Args:
        module: built by the command line or by hand; of adversarial training, the classifier, too.

    Yields:
        A sentence for each: `share=0.3 has no effect with masking=adversarial`.
    """
    settings = dict(module.hparams)
    if isinstance(module, AdversarialTraining):
        yield from _of(module.classifier, settings["classifier"]["settings"])
    yield from _of(module, settings)


def _of(module: TextModule, settings: Mapping[str, Any]) -> Iterator[str]:
    defaults = {name: plain(one.default) for name, one in parameters(type(module)).items()}
    for name, reason in module.unused().items():
        value, default = _found(settings, name), _found(defaults, name)
        if value != default:
            yield f"{name}={value} has no effect with {reason}"


def _found(settings: Mapping[str, Any], name: str) -> Any:
    """Returns a setting by its name, with dots between groups and names."""
    found: Any = settings
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
