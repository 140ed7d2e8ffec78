"""Says which settings have been given and have no effect."""

import inspect
from collections.abc import Iterator

from lit_modules.adversarial import AdversarialTraining
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


def _of(module: TextModule, settings: dict[str, object]) -> Iterator[str]:
    parameters = inspect.signature(type(module).__init__).parameters
    for name, reason in module.unused().items():
        if name in settings and name in parameters and settings[name] != parameters[name].default:
            yield f"{name}={settings[name]} has no effect with {reason}"
