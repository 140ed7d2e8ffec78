"""Your own self-attention, by its import path."""

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
    """Forbid imports inside the block: the settings of a checkpoint must not run code."""
    token = _may_import.set(False)
    try:
        yield
    finally:
        _may_import.reset(token)


def own_class(path: str) -> type[nn.Module]:
    """Return the class of an import path, as `my_file.MyAttention`.

    Raises:
        NotImportedError: inside `no_imports`, a module that has not been imported.
        ValueError: the module is not found, or has no `nn.Module` of that name.
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
    except Exception as error:  # of any kind: importing runs the user's file
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        msg = (
            f"{got}, which cannot be imported ({reason}), expected a class in a Python file; give "
            "its folder in PYTHONPATH"
        )
        raise ValueError(msg) from error
    attention = getattr(module, cls, None)
    if not (isinstance(attention, type) and issubclass(attention, nn.Module)):
        msg = f"{got}, expected a subclass of torch.nn.Module in {name}"
        raise ValueError(msg)
    return attention


def build_own(path: str, offered: Mapping[str, Any]) -> nn.Module:
    """Return the attention of a layer, checked; path: see `own_class`.

    The constructor gets those of the offered arguments (with `width` and `length`) that it names.

    Raises:
        ValueError: the constructor needs other arguments, or `AttentionCheck` refuses the module.
    """
    cls = own_class(path)
    parameters = inspect.signature(cls).parameters.values()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    required = [p.name for p in parameters if p.default is p.empty and p.kind not in variadic]
    if strange := [name for name in required if name not in offered]:
        msg = (
            f"got attention.kind={path!r}, whose constructor wants {', '.join(strange)}, expected "
            f"none but {', '.join(offered)}: give the others a default"
        )
        raise ValueError(msg)
    module = cls(**{p.name: offered[p.name] for p in parameters if p.name in offered})
    # On the meta device, where a checkpoint is only compared with a plan, nothing is computed.
    if torch.empty(0).device.type != "meta":
        AttentionCheck(offered["width"], longest=offered["length"])(module, path)
    return module
