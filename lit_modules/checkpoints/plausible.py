"""Checks that a checkpoint is plausible before it is used.

torch (`weights_only`) executes nothing in a checkpoint. A malicious file can still demand too much
memory: a model of a huge width, or of a million layers. So these checks compare all sizes with the
tensors in the file; `text/torch_archive.py` checks the file itself.
"""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.overrides import TorchFunctionMode

from lit_modules.shared.text_module import TextModule
from text.torch_archive import CHECKPOINT_KEY

_TYPES: dict[str, type] = {"method": str, "tokenizer": dict, "class_names": list, "pairs": bool}
_MODULES_PER_TENSOR, _MODULES = 20, 1000
_DEPTH = 20
# Settings that count layers, each with a tensor, and their limit for a small file.
_DEPTHS, _LAYERS = ("depth", "layers"), 64
# Largest other setting, unless the file has more numbers; parts of names of other integers.
_SIZE, _NO_SIZES = 2**20, ("seed", "vocab", "steps")


def check_content(checkpoint: Mapping[str, Any]) -> None:
    """Raise ValueError unless this project's parts have the expected types."""
    ours = checkpoint[CHECKPOINT_KEY]
    wrong = [name for name, kind in _TYPES.items() if not isinstance(ours[name], kind)]
    wrong += [
        name
        for name in ("state_dict", "hyper_parameters")
        if not isinstance(checkpoint[name], dict)
    ]
    wrong += [name for name in ("epoch", "global_step") if type(checkpoint.get(name, 0)) is not int]
    if not wrong and not all(isinstance(name, str) for name in ours["class_names"]):
        wrong.append("class_names")
    if wrong:
        msg = f"{', '.join(wrong)} of another kind than expected"
        raise ValueError(msg)
    parts = {"hyper_parameters": checkpoint["hyper_parameters"], CHECKPOINT_KEY: ours}
    for name, part in parts.items():
        if not _is_tree(part, set()):
            msg = f"{name} with more than plain values, or twice the same list"
            raise ValueError(msg)
    for name, tensor in checkpoint["state_dict"].items():
        if not (isinstance(name, str) and isinstance(tensor, Tensor) and _is_stored(tensor)):
            msg = f"state_dict with {name!r:.80}, which is no tensor with all its numbers"
            raise ValueError(msg)


def _is_tree(value: Any, visited: set[int], depth: int = 0) -> bool:
    """Return True for a tree of scalars, lists and dicts, without shared parts."""
    # Nested lists that repeat one list are small in memory, but grow exponentially when written.
    if value is None or isinstance(value, bool | int | float | str):
        return True
    if not isinstance(value, list | tuple | dict) or id(value) in visited or depth > _DEPTH:
        return False
    # Python may use one object for all empty containers, and for equal constant tuples.
    if value and not isinstance(value, tuple):
        visited.add(id(value))
    parts = value.values() if isinstance(value, dict) else value
    keys = isinstance(value, dict) and not all(isinstance(key, str) for key in value)
    return not keys and all(_is_tree(part, visited, depth + 1) for part in parts)


def _is_stored(tensor: Tensor) -> bool:
    """Return True if the storage has every number of a tensor (strides may repeat one)."""
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        return False
    return tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()


def without_weights(checkpoint: Mapping[str, Any], model: TextModule) -> TextModule:
    """Return the model of a checkpoint, without memory for its weights.

    `model` has the text of the checkpoint (`restore_text`), and no weights.

    Raises:
        ValueError: it would have far more modules than there are tensors in the file.
    """
    check_sizes(checkpoint["hyper_parameters"], checkpoint["state_dict"])
    probe = copy.deepcopy(model)
    with torch.device("meta"), _Unfilled(), _counted(len(checkpoint["state_dict"])):
        probe.configure_model()
    return probe


class _Unfilled(TorchFunctionMode):
    """Skips the filling of weights, which have no numbers on the meta device."""

    # Not for speed alone: random numbers of a meta tensor would load torch's compiler.
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        own = getattr(func, "__module__", None) == nn.init.__name__
        if own or func in (Tensor.normal_, Tensor.uniform_):
            return args[0] if args else kwargs["tensor"]
        if func in (torch.randn, torch.rand):
            kwargs.pop("generator", None)
            func = torch.empty
        return func(*args, **kwargs)


def check_sizes(settings: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Raise ValueError for a size in the nested settings that the weights of a file cannot have."""
    # Before any layer is built: a list of a thousand million empty layers does not fit into memory.
    most = max(_SIZE, sum(tensor.numel() for tensor in weights.values()))
    waiting = [(name, settings[name]) for name in settings]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += value.items()
        elif isinstance(value, list | tuple):
            waiting += [(name, part) for part in value]
        elif type(value) is int and not any(word in name for word in _NO_SIZES):
            limit = max(_LAYERS, len(weights)) if name in _DEPTHS else most
            if value > limit:
                msg = f"the setting {name}={value:,}, more than its {len(weights):,} tensors allow"
                raise ValueError(msg)


@contextmanager
def _counted(tensors: int) -> Iterator[None]:
    limit, count = _MODULES + _MODULES_PER_TENSOR * tensors, 0

    def count_registration(module: nn.Module, name: str, child: Any) -> None:
        nonlocal count
        count += 1
        if count > limit:
            msg = f"settings for more than {limit:,} modules, and {tensors:,} tensors"
            raise ValueError(msg)

    hooks = [
        register_module_module_registration_hook(count_registration),
        register_module_parameter_registration_hook(count_registration),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
