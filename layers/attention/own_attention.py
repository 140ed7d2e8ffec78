"""A self-attention of one's own, by its import path."""

import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

import torch
from torch import nn

from layers.attention.attention_check import AttentionCheck

_may_import: ContextVar[bool] = ContextVar("_may_import", default=True)


class NotImportedError(ValueError):
    """A checkpoint names a class whose module has not been imported."""


@contextmanager
def no_imports() -> Iterator[None]:
    """Imports nothing inside the block: settings of a checkpoint run no code."""
    token = _may_import.set(False)
    try:
        yield
    finally:
        _may_import.reset(token)


def own_class(path: str) -> type[nn.Module]:
    """Returns the class of an import path, as `my_file.MyAttention`.

    Args:
        path: module and class.

    Raises:
        NotImportedError: inside `no_imports`, a module that nobody has imported.
        ValueError: there is no such module, or no such `nn.Module` in it.
    """
    name, _, cls = path.rpartition(".")
    got = f"got attention.kind={path!r}"
    if not _may_import.get() and name not in sys.modules:
        msg = (
            f"{got}, which has not been imported, and a checkpoint runs no code: import {name} "
            f"first, or give a command the environment variable STEADFAST_IMPORT={name}"
        )
        raise NotImportedError(msg)
    try:
        module = sys.modules[name] if name in sys.modules else import_module(name)
    except Exception as error:  # of any kind: a file of one's own is run
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        msg = (
            f"{got}, which cannot be imported ({reason}), expected a class in a Python file; give "
            "its folder in PYTHONPATH"
        )
        raise ValueError(msg) from error
    found = getattr(module, cls, None)
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        msg = f"{got}, expected a subclass of torch.nn.Module in {name}"
        raise ValueError(msg)
    return found


def build_own(path: str, offered: Mapping[str, Any]) -> nn.Module:
    """Returns the attention of a layer, checked.

    Args:
        path: see `own_class`.
        offered: the arguments of a layer, with its `width` and `length`. The constructor gets those
            that it names.

    Raises:
        ValueError: the constructor wants something else, or `AttentionCheck` refuses the attention.
    """
    cls = own_class(path)
    named = inspect.signature(cls).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    wanted = [one.name for one in named if one.default is one.empty and one.kind not in kinds]
    if strange := [name for name in wanted if name not in offered]:
        msg = (
            f"got attention.kind={path!r}, whose constructor wants {', '.join(strange)}, expected "
            f"none but {', '.join(offered)}: give the others a default"
        )
        raise ValueError(msg)
    module = cls(**{one.name: offered[one.name] for one in named if one.name in offered})
    if torch.empty(0).device.type != "meta":  # where a checkpoint is only compared with a plan
        AttentionCheck(offered["width"], longest=offered["length"])(module, path)
    return module
