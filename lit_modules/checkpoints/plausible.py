"""Checks that a checkpoint is plausible before it is used.

torch (`weights_only`) executes nothing in a checkpoint. A malicious file can still ask for too much
memory: a few kilobytes that unpack to gigabytes, or a model of a huge width. So these checks
compare all sizes with the size of the file.
"""

import copy
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from lit_modules.shared.text_module import CHECKPOINT_KEY, TextModule

_BEGIN = b"PK\x03\x04"
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)+")
_TYPES: dict[str, type] = {"method": str, "tokenizer": dict, "class_names": list, "pairs": bool}
_MODULES_PER_TENSOR, _MODULES = 20, 1000
_DEPTH = 20


def check_archive(path: Path) -> None:
    """Raise ValueError unless a file is a zip archive as torch writes them.

    Their entries are not compressed, so that the content is no larger than the file. Python's
    reader and torch's read the same list of contents, at the end.
    """
    with path.open("rb") as stream:
        if stream.read(len(_BEGIN)) != _BEGIN:
            msg = "it is no zip archive"
            raise ValueError(msg)
        try:
            entries = zipfile.ZipFile(stream).infolist()
        except (zipfile.BadZipFile, RuntimeError, ValueError) as error:
            msg = f"its list of contents is broken: {error}"
            raise ValueError(msg) from error
    names = [entry.filename for entry in entries]
    for name in names:
        if not _NAME.fullmatch(name) or ".." in name.split("/"):
            msg = f"it has an entry of the name {name[:80]!r}"
            raise ValueError(msg)
    packed = any(entry.compress_type or entry.file_size != entry.compress_size for entry in entries)
    size = sum(entry.file_size for entry in entries)
    if packed or len(set(names)) < len(names) or size > path.stat().st_size:
        msg = f"it would unpack to {size:,} bytes from {path.stat().st_size:,}, or twice the same"
        raise ValueError(msg)


def check_content(checkpoint: Mapping[str, Any]) -> None:
    """Raises ValueError unless this project's parts have the expected types."""
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


def _is_tree(value: Any, seen: set[int], depth: int = 0) -> bool:
    """Returns True for a tree of scalars, lists and dicts, without shared parts.

    Nested lists that repeat one list are small in memory, but grow exponentially when written.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return True
    if not isinstance(value, list | tuple | dict) or id(value) in seen or depth > _DEPTH:
        return False
    # Empty ones may be one object; so may the tuples that Python makes of constants.
    if value and not isinstance(value, tuple):
        seen.add(id(value))
    parts = value.values() if isinstance(value, dict) else value
    keys = isinstance(value, dict) and not all(isinstance(key, str) for key in value)
    return not keys and all(_is_tree(part, seen, depth + 1) for part in parts)


def _is_stored(tensor: Tensor) -> bool:
    """Returns True if the storage has every number of a tensor (strides may repeat one)."""
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        return False
    return tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()


def without_weights(checkpoint: Mapping[str, Any], model: TextModule) -> TextModule:
    """Returns the model of a checkpoint, without memory for its weights.

    Args:
        checkpoint: as `read_checkpoint` returns it.
        model: with the text of the checkpoint (`restore_text`), and without weights.

    Raises:
        ValueError: it would have far more modules than there are tensors in the file.
    """
    probe = copy.deepcopy(model)
    with torch.device("meta"), _counted(len(checkpoint["state_dict"])):
        probe.configure_model()
    return probe


@contextmanager
def _counted(tensors: int) -> Iterator[None]:
    limit, count = _MODULES + _MODULES_PER_TENSOR * tensors, 0

    def one_more(module: nn.Module, name: str, child: Any) -> None:
        nonlocal count
        count += 1
        if count > limit:
            msg = f"settings for more than {limit:,} modules, and {tensors:,} tensors"
            raise ValueError(msg)

    hooks = [
        register_module_module_registration_hook(one_more),
        register_module_parameter_registration_hook(one_more),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
