"""Describes objects as JSON: their settings, and digests of large values.

They identify the records of an attack (`attacks/journal.py`).
"""

import json
import sys
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from attacks.digests import content_digest, digest

if TYPE_CHECKING:
    from torch import Tensor, nn

_SHORT = 200
"""Characters of JSON up to which a list is kept, and not its digest."""
_DEEP = 10
"""Depth of nested objects that are described."""


def describe(value: Any, *, depth: int = _DEEP) -> Any:
    """Describe an object by its class and its settings.

    Settings are what its `about()` returns; else the arguments of a dataclass; else its public
    attributes. Models and arrays give a digest. Code is left out.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if _is_tensor(value) or isinstance(value, np.ndarray):
        return digest([str(value.dtype), str(tuple(value.shape)), _bytes(value)])
    if isinstance(value, Mapping):
        return {str(key): describe(item, depth=depth - 1) for key, item in value.items()}
    if isinstance(value, Set | Sequence):
        parts = [describe(item, depth=depth - 1) for item in value]
        parts = sorted(parts, key=json.dumps) if isinstance(value, Set) else parts
        # A list of parts is kept; long lists of words become a digest.
        objects = any(isinstance(part, dict) for part in parts)
        return parts if objects or len(json.dumps(parts)) <= _SHORT else content_digest(parts)
    name = getattr(value, "__qualname__", None)  # of classes and functions
    if name is None:
        # A class that was renamed keeps its name in stored descriptions.
        name = getattr(type(value), "described_as", type(value).__qualname__)
        if depth > 0:
            settings = {
                k: describe(setting, depth=depth - 1) for k, setting in _settings(value).items()
            }
            return {"class": name, **settings}
    return name


def flat(description: Any, name: str) -> dict[str, Any]:
    """Flatten a description to dotted names."""
    if isinstance(description, list) and any(isinstance(item, dict) for item in description):
        description = {str(i): item for i, item in enumerate(description)}
    if not isinstance(description, dict):
        return {name: description}
    parts: dict[str, Any] = {}
    for key, value in description.items():
        parts |= flat(value, name if key == "class" else f"{name}.{key}")
    return parts


def weights_digest(module: "nn.Module") -> str:
    """Return a digest of all parameters and buffers, and of their names."""
    return digest(
        part
        for name, tensor in module.state_dict().items()
        if _is_tensor(tensor)
        for part in (name, str(tensor.dtype), str(tuple(tensor.shape)), _bytes(tensor))
    )


def _settings(value: Any) -> Mapping[str, Any]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.nn.Module):
        return {"weights": weights_digest(value)}
    own = getattr(value, "about", None)
    if callable(own):
        settings: Mapping[str, Any] = own()
        return settings
    if is_dataclass(value):
        # Fields that are computed from others are left out.
        return {item.name: getattr(value, item.name) for item in fields(value) if item.init}
    public = getattr(value, "__dict__", {})
    return {name: public[name] for name in public if name[0] != "_"}


def _bytes(value: Any) -> bytes:
    if _is_tensor(value):
        import torch

        # bfloat16 has no numpy type: the bytes are read as uint8.
        value = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    content: bytes = np.ascontiguousarray(value).tobytes()
    return content


def _is_tensor(value: Any) -> "TypeGuard[Tensor]":
    # Without torch in memory there is no tensor, and this needs no import of it.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)
