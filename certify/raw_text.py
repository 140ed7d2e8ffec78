"""Checks everything between a raw text and the logits of a model, for certificates in words.

Such a certificate is about raw texts: tokenizer, splitter, vocabulary, layers and each method of
the model belong to its statement. `check_code` refuses code that is not this program's own, and
`check_copy` refuses a model that holds other values than a copy built anew from its settings, its
words and its weights. What neither can see: docs/certificates/words_proof.md, "Checks before a
certificate".
"""

import re
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from certify.parts import (
    FORWARD_HOOKS,
    Complaint,
    check_everywhere,
    complaints_about_holder,
    refuse,
)
from layers.frozen_backbone import FrozenBackbone
from layers.ngram_scores import NgramScores
from layers.orthogonal import OrthogonalLinear
from text import PretrainedTokenizer
from text.corrector import Corrector
from text.front_end import FrontEnd
from text.module_names import own_package

OURS = ("text", "layers", "lit_modules")
"""The packages that a text passes through."""
_COMPARISONS = ("__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__")
_CHANGES = ("__init__", "__new__", "__setattr__", "__delattr__", "__replace__", "_make", "_replace")
_GENERATED = frozenset((*_COMPARISONS, *_CHANGES, "__repr__", "_asdict"))
"""Methods that the standard library writes for dataclasses and named tuples."""
_NO_EFFECT = frozenset(
    (
        "training",
        "_forward_hooks",
        "_forward_hooks_with_kwargs",
        "_forward_pre_hooks",
        "_forward_pre_hooks_with_kwargs",
        "_backward_hooks",
        "_backward_pre_hooks",
        "_is_full_backward_hook",
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
    )
)
"""Attributes of a module that change no output in evaluation mode, or are compared as hooks."""
_PLAIN = (bool, int, float, str, bytes, type(None))
NEAR = 1e-5
"""Orthogonal matrices may differ so much by the threads that computed them."""


class Cached(NamedTuple):
    """What an object keeps of what can be computed.

    Two equal objects may differ in attributes of these names; `values` are read in their place, as
    tensors or text.
    """

    names: tuple[str, ...]
    values: Callable[[Any], Sequence[Any]]


def _tables(scores: NgramScores) -> list[Tensor]:
    tables = [scores.word_table(), *map(scores.ngram_table, scores.orders)]
    return tables if scores.net is None else [*tables, scores.net_tables()]


def _forget(front_end: FrontEnd) -> list[Any]:
    # What it remembered is computed again, by the corrector that is compared.
    front_end.forget()
    return []


CACHED: dict[type, Cached] = {
    NgramScores: Cached(("_kept", "_net_tables", "_finders"), _tables),
    OrthogonalLinear: Cached(("_cache", "_fixed"), lambda layer: [layer.weight()]),
    FrozenBackbone: Cached(("_cache",), lambda _: ()),  # read while training only
    PretrainedTokenizer: Cached(
        ("_backend", "_unlimited", "_words"), lambda tokenizer: [tokenizer._backend.to_str()]
    ),
    Corrector: Cached(
        ("_near", "_fixed", "_foreign"),
        lambda corrector: [repr([corrector._near, corrector._fixed, sorted(corrector._foreign)])],
    ),
    FrontEnd: Cached(("_ids", "_texts"), _forget),
}


def check_code(holder: object, names: Sequence[str]) -> None:
    """Refuse a model of which any code between a text and its logits is not this program's own.

    Names are its attributes that are read on the way.

    Raises:
        ValueError: a class of another program, a method that was replaced, in the class or on an
            instance, a function of a module that was replaced, or a hook.
    """
    check_everywhere()
    refuse(_replaced_functions())
    refuse(complaints_about_holder(holder))
    objects = [holder]
    for name in names:
        objects += _objects(getattr(holder, name, None), name)
    objects += [hook.__self__ for one in objects for hook in _hooks(one) if _is_own_hook(hook)]
    for kind in dict.fromkeys(base for one in objects for base in type(one).__mro__):
        refuse(_replaced_methods(kind))
    for one in objects[1:]:
        refuse(complaints_about_holder(one, allowed=_is_own_hook))


@torch.no_grad()
def check_copy(holder: object, copy: object, names: Sequence[str]) -> None:
    """Raise a ValueError with the first difference of a model from a copy that was built anew.

    The copy is built from its settings, the state of its tokenizer and its weights; names are
    attributes that are read between a text and its logits.
    """
    for name in names:
        own, other = getattr(holder, name, None), getattr(copy, name, None)
        refuse(_differences(own, other, name))


def _hooks(part: object) -> list[Any]:
    """The hooks on the forward pass of a module."""
    return [hook for kind in FORWARD_HOOKS for hook in getattr(part, kind, {}).values()]


def _is_own_hook(hook: Any) -> bool:
    """True for a method of a class of ours: attention of another library is masked by some."""
    return isinstance(hook, MethodType) and _is_ours(type(hook.__self__))


# Objects


def _is_ours(kind: type) -> bool:
    return own_package(kind.__module__) in OURS


def _objects(value: Any, path: str) -> list[Any]:
    """Returns all objects with attributes that a value leads to.

    Raises:
        ValueError: a function, or an object of another program, instead of a value of ours.
    """
    objects: list[Any] = []
    seen: set[int] = set()
    waiting = [(value, path)]
    while waiting:
        one, where = waiting.pop()
        if type(one) in _PLAIN or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, dict):
            waiting += [(inner, where) for pair in one.items() for inner in pair]
        elif isinstance(one, list | tuple | set | frozenset):
            waiting += [(inner, where) for inner in one]
        elif isinstance(one, nn.Module):
            refuse(_derived(one, where))
            objects.append(one)
            waiting += [(part, f"{where}.{name}") for name, part in one._modules.items()]
        elif _is_ours(type(one)):
            objects.append(one)
            waiting += [(inner, f"{where}.{name}") for name, inner in vars(one).items()]
        elif callable(one) or not _is_trusted(type(one)):
            refuse(iter([(f"a {type(one).__name__} as {where}", "an object of this program")]))
    return objects


def _derived(part: nn.Module, path: str) -> Iterator[Complaint]:
    """A parametrised module, or one of another program's class that is derived from one of ours."""
    kind = type(part)
    ours = None if _is_ours(kind) else next(filter(_is_ours, kind.__mro__), None)
    base = kind.__mro__[1] if "parametrizations" in part._modules else ours
    if base is not None:
        yield f"a {kind.__name__} as {path}", f"a {base.__name__}"


def _is_trusted(kind: type) -> bool:
    """True for a class of this program, of the standard library or of another installed package."""
    if kind.__module__ in ("builtins", *sys.builtin_module_names):
        return True
    source = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return source is not None and _has_package(source)


# Code


@cache
def _folders() -> tuple[str, ...]:
    """The folders of this program's packages, of the standard library and of other packages."""
    root = Path(__file__).parent.parent
    own = (root / name for name in (*OURS, "attacks", "certify", "datamodules"))
    shared = (sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
    return tuple(f"{folder}/" for folder in (*own, *shared))


def _unwrapped(function: Any) -> Any:
    """The function inside decorators that keep it, as `torch.no_grad` does."""
    while isinstance(function, FunctionType) and "__wrapped__" in vars(function):
        inner = vars(function)["__wrapped__"]
        if not _has_package(_file_of(function)):
            return function
        function = inner
    return function


def _file_of(function: FunctionType) -> str:
    return function.__code__.co_filename


def _has_package(file: str) -> bool:
    """True for a file of this program or of an installed package."""
    return file.startswith((*_folders(), "<frozen "))


def _replaced_functions() -> Iterator[Complaint]:
    """Functions and classes in modules of ours that no package has."""
    modules = [
        (name, module) for name, module in list(sys.modules.items()) if own_package(name) in OURS
    ]
    for name, module in modules:
        for key, value in list(vars(module).items()):
            inner = _unwrapped(value)
            if isinstance(value, type):
                fits = _is_trusted(value)
            else:
                fits = not isinstance(inner, FunctionType) or _has_package(_file_of(inner))
            if not fits:
                yield f"another program's {name}.{key}", "this program's own"
            own = isinstance(inner, FunctionType) and inner.__module__ == name
            proper = own and inner.__name__ in (key, "<lambda>")
            if own and not (proper and _file_of(inner) == module.__file__):
                yield f"{name}.{key} that was replaced", "the program's own"


def _replaced_methods(kind: type) -> Iterator[Complaint]:
    name = f"{kind.__module__}.{kind.__qualname__}"
    module = sys.modules.get(kind.__module__)
    if not _is_trusted(kind):
        yield f"the class {name}", "one of this program"
    if _is_ours(kind) and getattr(module, kind.__name__, None) is not kind:
        yield f"the class {name}, which its module does not have", "one of this program"
    source = getattr(module, "__file__", None)
    for key, value in vars(kind).items():
        for function in _functions(value):
            file = _file_of(function)
            if file == "<string>" and key in _GENERATED:
                continue
            ours = _is_ours(kind)
            proper = file == source if ours else _has_package(file)
            named = not ours or function.__qualname__ == f"{kind.__qualname__}.{key}"
            if not (proper and named):
                yield f"{name}.{key}() that was replaced", "the class's own"
        usual = isinstance(value, FunctionType | staticmethod | classmethod | type)
        if _is_ours(kind) and callable(value) and not usual:
            yield f"a {type(value).__name__} as {name}.{key}", "a method of the class"


def _functions(value: Any) -> list[FunctionType]:
    """The functions of an attribute of a class."""
    if isinstance(value, property):
        parts: list[Any] = [value.fget, value.fset, value.fdel]
    elif isinstance(value, cached_property):
        parts = [value.func]
    elif isinstance(value, classmethod | staticmethod):
        parts = [value.__func__]
    else:
        parts = [value]
    found = (_unwrapped(part) for part in parts)
    return [part for part in found if isinstance(part, FunctionType)]


# Values


def _differences(own: Any, copy: Any, path: str) -> Iterator[Complaint]:
    if type(own) is not type(copy):
        yield _described(own, path), _described(copy, path).partition(" as ")[0]
    elif isinstance(own, Tensor):
        yield from _numbers(own, copy, path)
    elif isinstance(own, dict | list | tuple) and _is_plain(own) and _is_plain(copy):
        if own != copy:
            yield f"other entries in {path}", "those that its settings give"
    elif isinstance(own, dict):
        yield from _entries(own, copy, path)
    elif isinstance(own, list | tuple):
        if len(own) != len(copy):
            yield f"{len(own)} entries of {path}", f"{len(copy)}"
        for number, (one, other) in enumerate(zip(own, copy, strict=False)):
            yield from _differences(one, other, f"{path}[{number}]")
    elif isinstance(own, nn.Module) or _is_ours(type(own)):
        yield from _attributes(own, copy, path)
    elif isinstance(own, FunctionType | MethodType):
        if own != copy and getattr(own, "__func__", own) is not getattr(copy, "__func__", copy):
            yield f"another function as {path}", "that of its class"
    elif isinstance(own, (*_PLAIN, set, frozenset, re.Pattern)) and own != copy:
        yield f"{path}={own!r}"[:80], f"{copy!r}"[:80]


def _is_plain(value: Any) -> bool:
    """True for a container of nothing but plain values."""
    if isinstance(value, dict):
        return all(type(key) in _PLAIN and type(one) in _PLAIN for key, one in value.items())
    return all(type(one) in _PLAIN for one in value)


def _attributes(own: Any, copy: Any, path: str) -> Iterator[Complaint]:
    cached = CACHED.get(type(own))
    left_out = _NO_EFFECT if isinstance(own, nn.Module) else frozenset()
    # They are kept by numbers, which differ.
    yield from _differences(_hooks(own), _hooks(copy), f"{path}, hooks")
    if cached is not None:
        left_out |= frozenset(cached.names)
        for one, other in zip(cached.values(own), cached.values(copy), strict=True):
            same = one == other if isinstance(one, str) else _near(own, one, other)
            if not same:
                yield f"kept values in {path} that are not those of its weights", "those of them"
        # What is read is what is certified, to the last bit.
        vars(copy).update({name: vars(own)[name] for name in cached.names})
    # Attributes of other libraries may hold anything.
    foreign = isinstance(own, nn.Module) and not _is_ours(type(own))
    first, second = (
        {name: value for name, value in vars(one).items() if name not in left_out}
        for one in (own, copy)
    )
    yield from _entries(first, second, path, plain=foreign)


def _near(holder: Any, own: Tensor, copy: Tensor) -> bool:
    if isinstance(holder, OrthogonalLinear):
        return own.shape == copy.shape and bool(((own - copy).abs() <= NEAR).all())
    return _same(own, copy)


def _entries(
    own: Mapping[Any, Any], copy: Mapping[Any, Any], path: str, *, plain: bool = False
) -> Iterator[Complaint]:
    for name in own.keys() ^ copy.keys():
        yield f"{'' if name in own else 'no '}{name} in {path}", "the attributes of its class"
    for name in own.keys() & copy.keys():
        value = own[name]
        if not plain or not isinstance(value, list | tuple | set | frozenset):
            yield from _differences(value, copy[name], f"{path}.{name}")


def _numbers(own: Tensor, copy: Tensor, path: str) -> Iterator[Complaint]:
    if any(callable(value) for value in vars(own).values()):
        yield f"methods of its own on the tensor {path}", "none"
    if not _same(own, copy):
        yield f"other numbers in {path}", "those that its settings and weights give"


def _same(own: Tensor, copy: Tensor) -> bool:
    """Bit by bit, so that a NaN equals itself."""
    if own.shape != copy.shape or own.dtype != copy.dtype:
        return False
    flat, other = (one.detach().contiguous().reshape(-1) for one in (own, copy.to(own.device)))
    return torch.equal(flat.view(torch.uint8), other.view(torch.uint8))


def _described(value: Any, path: str) -> str:
    return f"{'None' if value is None else f'a {type(value).__name__}'} as {path}"
