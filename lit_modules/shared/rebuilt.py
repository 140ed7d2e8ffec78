"""Builds a module again from the content that its checkpoint would have, without a file."""

import copy
import json
from typing import TypeVar

import torch

from lit_modules.shared.text_module import TextModule
from text.error_reasons import describe_error
from text.torch_archive import CHECKPOINT_KEY

Module = TypeVar("Module", bound=TextModule)


def rebuild(module: Module) -> Module:
    """Return a module of the same class, settings, tokenizer and weights, in evaluation mode.

    Raises:
        ValueError: its settings do not lead to such a module.
    """
    try:
        return _rebuilt(module)
    except ValueError:
        raise
    # Invalid attributes lead constructors to exceptions of any kind.
    except Exception as error:
        msg = (
            f"got a model that its settings do not give again ({describe_error(error):.200}), "
            "expected one with layers, as lit_modules.load() returns it"
        )
        raise ValueError(msg) from error


def _rebuilt(module: Module) -> Module:
    checkpoint = {"state_dict": module.state_dict(), "hyper_parameters": module.own_settings()}
    module.on_save_checkpoint(checkpoint)
    content = copy.deepcopy(checkpoint[CHECKPOINT_KEY])
    # JSON turns words of subclasses of str into plain strings.
    content["tokenizer"] = json.loads(json.dumps(content["tokenizer"]))
    checkpoint[CHECKPOINT_KEY] = content
    with torch.random.fork_rng(devices=[]):  # layers draw weights, which are then overwritten
        copied = type(module).from_settings(copy.deepcopy(checkpoint["hyper_parameters"]))
        copied.restore_text(checkpoint)
        copied.configure_model()
    copied.load_state_dict(checkpoint["state_dict"])
    return copied.to(module.device).eval()
