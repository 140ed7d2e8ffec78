"""Checks that a network is one that the theorem covers, part by part.

A certificate is computed from weights and settings, on the assumption that each part computes what
its class does. Whatever could make a part compute something else is refused: a subclass, a hook, a
parametrisation, a method or an attribute of the instance's own, a part instead of another.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from layers.attention.additive import ACTIVATIONS
from layers.attention.bounds import ADDITIVE_BOUNDS, BOUNDS
from layers.attention.l2 import L2Attention, TiedL2Attention
from layers.attention.one_lipschitz import OneLipschitzSelfAttention
from layers.attention.one_lipschitz_l2 import OneLipschitzL2Attention
from layers.encoders import (
    LipschitzBlock,
    LipschitzClassifier,
    LipschitzEncoder,
    MeanOnlyNorm,
    OrthogonalFeedForward,
)
from layers.groupsort import GroupSort
from layers.orthogonal import OrthogonalLinear

Check = Callable[[Any], bool]


def _count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _positive(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < math.inf


def _plain(value: Any) -> bool:
    return value is None or type(value) in (bool, int, float, str)


def _tensors(value: Any) -> bool:
    parts = value if type(value) is tuple else (value,)
    return value is None or all(type(part) is Tensor for part in parts)


@dataclass(frozen=True, kw_only=True)
class Part:
    """All that an instance of a class may hold.

    Attributes:
        parameters: by name; others are refused, and so is one that is missing.
        optional: parameters that may be None.
        settings: its other attributes by name, and what their values must be.
        children: its parts by name, and their very class.
        alternatives: the class that a part of that name may have instead.
        absent: children that may be None.
    """

    parameters: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    settings: Mapping[str, Check] = field(default_factory=dict)
    children: Mapping[str, type[nn.Module]] = field(default_factory=dict)
    alternatives: Mapping[str, type[nn.Module]] = field(default_factory=dict)
    absent: tuple[str, ...] = ()


PARTS: dict[type[nn.Module], Part] = {
    LipschitzClassifier: Part(children={"encoder": LipschitzEncoder, "head": nn.Linear}),
    LipschitzEncoder: Part(settings={"radius": _positive}, children={"blocks": nn.ModuleList}),
    nn.ModuleList: Part(),  # of an encoder: any number of blocks
    LipschitzBlock: Part(
        children={
            "attention": OneLipschitzSelfAttention,
            "feedforward": OrthogonalFeedForward,
            "norm": MeanOnlyNorm,
            "dropout": nn.Dropout,
        },
        alternatives={"attention": OneLipschitzL2Attention},
        absent=("feedforward", "norm"),
    ),
    OneLipschitzSelfAttention: Part(
        parameters=("raw_score", "raw_alpha_1"),
        settings={
            "width": _count,
            "heads": _count,
            "offset_heads": _count,
            "value_clip": lambda value: value is None or _positive(value),
            "bound": lambda value: value in ADDITIVE_BOUNDS,
            "activation": lambda value: value in ACTIVATIONS,
            "form": _plain,
        },
        children={"value": OrthogonalLinear, "query_key": OrthogonalLinear},
    ),
    OneLipschitzL2Attention: Part(
        parameters=("raw_alpha_1",),
        settings={"width": _count, "heads": _count, "bound": lambda value: value in BOUNDS},
        children={"query": OrthogonalLinear, "output": OrthogonalLinear},
    ),
    OrthogonalFeedForward: Part(
        children={"inner": OrthogonalLinear, "outer": OrthogonalLinear, "activation": GroupSort}
    ),
    OrthogonalLinear: Part(
        parameters=("raw",),
        settings={
            **dict.fromkeys(("in_features", "out_features", "count"), _count),
            "method": _plain,
            # Measured as they are: the forward pass multiplies by what `weight()` gives.
            **dict.fromkeys(("_cache", "_fixed"), _tensors),
        },
    ),
    GroupSort: Part(settings={"group_size": lambda value: _count(value) and value >= 2}),
    MeanOnlyNorm: Part(parameters=("bias",)),
    nn.Dropout: Part(settings={"p": _plain, "inplace": _plain}),
    nn.Linear: Part(
        parameters=("weight", "bias"),
        optional=("bias",),
        settings={"in_features": _count, "out_features": _count},
    ),
}
"""The classes whose compositions docs/certificates.md proves bounds for."""

# Attributes that every module has.
_STATE = frozenset(vars(nn.Module()))
FORWARD_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
Complaint = tuple[str, str]
"""The part found, and the expected one."""


def check_network(network: nn.Module) -> None:
    """Raise a ValueError for a network that may compute anything else than the theorem says."""
    check_everywhere()
    refuse(_in_part(network, LipschitzClassifier, "network"))


def check_holder(holder: object, network: nn.Module) -> None:
    """Raise a ValueError for an object with the network that may change its inputs or outputs.

    That is a method of the instance's own, or a hook on its forward pass. A module in it that holds
    the network is checked, too.
    """
    around = [holder]
    if isinstance(holder, nn.Module):
        inside = [part for part in holder.modules() if part is not holder and part is not network]
        around += [part for part in inside if any(inner is network for inner in part.modules())]
    for inner in around:
        refuse(complaints_about_holder(inner))


def check_unwrapped(*parts: object) -> None:
    """Raise a ValueError for a module inside another one that runs it otherwise.

    That is a compiled module, or one for several devices, also without a certificate.
    """
    for part in parts:
        # `torch.compile` keeps the module under this name; its own class is slow to import.
        compiled = "_orig_mod" in getattr(part, "_modules", {})
        if compiled or isinstance(part, _WRAPPERS):
            msg = (
                f"got a {type(part).__name__} around the network, expected the network itself: "
                "certify the model before it is compiled or spread over devices, as "
                "lit_modules.load() returns it"
            )
            raise ValueError(msg)


_WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel, torch.jit.ScriptModule)


def foreign_code(network: nn.Module) -> str | None:
    """Return the first hook on a forward pass, or method of an instance's own; None for none."""
    of_parts = chain.from_iterable(map(complaints_about_holder, network.modules()))
    complaints = [*_everywhere(), *of_parts]
    return complaints[0][0] if complaints else None


def check_everywhere() -> None:
    """Raise a ValueError for hooks that torch calls for all modules."""
    refuse(_everywhere())


def refuse(complaints: Iterator[Complaint]) -> None:
    """Raise a ValueError with the first of some complaints."""
    for actual, expected in complaints:
        msg = (
            f"got {actual}, expected {expected}: no theorem covers others; certify a model as "
            "lit_modules.load() returns it"
        )
        raise ValueError(msg)


def _everywhere() -> Iterator[Complaint]:
    if any(getattr(torch_module, f"_global{hooks}") for hooks in FORWARD_HOOKS):
        yield "a forward hook on all modules", "none"


def complaints_about_holder(
    holder: object, *, allowed: Callable[[Any], bool] | None = None
) -> Iterator[Complaint]:
    """Yield hooks on a forward pass, and attributes of an instance that replace a method.

    Without `allowed` no hook is allowed.
    """
    name = type(holder).__name__
    if isinstance(holder, nn.Module):
        hooks = [hook for kind in FORWARD_HOOKS for hook in getattr(holder, kind).values()]
        if allowed is None or not all(map(allowed, hooks)):
            yield from _hooks(holder, name)
    for attribute, value in vars(holder).items():
        method = getattr(type(holder), attribute, None)
        # Lightning's strategy for several processes leaves the class's own method on the instance.
        own = getattr(value, "__func__", None) is method
        # A compiled module has a function instead of None.
        special = attribute.startswith("__") or attribute == "_compiled_call_impl"
        if callable(method) or (special and callable(value)):
            if own and getattr(value, "__self__", None) is holder:
                continue
            yield f"{attribute}() set on the instance of {name}", "the class's own"


def _in_part(part: nn.Module, kind: type[nn.Module], path: str) -> Iterator[Complaint]:
    if isinstance(part, L2Attention) and not isinstance(part, TiedL2Attention):
        theorem = "which has no Lipschitz constant (Kim et al., 2021, Lemma F.1)"
        yield f"L2 attention with own keys as {path}, {theorem}", "a tied one"
    # Not isinstance: a subclass may compute something else.
    if type(part) is not kind:
        yield f"a {type(part).__name__} as {path}", f"a {kind.__name__}"
    yield from _hooks(part, path)
    yield from _tensors_of(part, PARTS[kind], path)
    yield from _attributes(part, PARTS[kind], path)
    yield from _children(part, PARTS[kind], path)


def _hooks(part: nn.Module, path: str) -> Iterator[Complaint]:
    """Yield a complaint about forward hooks; those of the backward pass change no output."""
    if any(getattr(part, hooks) for hooks in FORWARD_HOOKS):
        yield f"a forward hook on {path}", "none"


def _tensors_of(part: nn.Module, allowed: Part, path: str) -> Iterator[Complaint]:
    tensors = {**part._parameters, **part._buffers}
    if tensors.keys() != set(allowed.parameters):
        yield f"tensors {list(tensors)} in {path}", f"{list(allowed.parameters)}"
    for name, tensor in tensors.items():
        if type(tensor) is not nn.Parameter and (
            tensor is not None or name not in allowed.optional
        ):
            yield f"a {type(tensor).__name__} as {path}.{name}", "a Parameter"


def _attributes(part: nn.Module, allowed: Part, path: str) -> Iterator[Complaint]:
    own = {name: value for name, value in vars(part).items() if name not in _STATE}
    for name in allowed.absent:
        # A part that is absent is a plain attribute, None.
        if name not in part._modules and own.get(name, part) is None:
            del own[name]
    if own.keys() != allowed.settings.keys():
        yield f"attributes {sorted(own)} of {path}", f"{sorted(allowed.settings)}"
    for name, value in own.items():
        if not allowed.settings[name](value):
            yield f"{path}.{name}={value!r}", "a value that its class takes"


def _children(part: nn.Module, allowed: Part, path: str) -> Iterator[Complaint]:
    children = part._modules
    kinds = allowed.children
    if type(part) is nn.ModuleList:
        kinds = dict.fromkeys(children, LipschitzBlock)
    if children.keys() - kinds.keys() or kinds.keys() - children.keys() - set(allowed.absent):
        yield f"parts {list(children)} in {path}", f"{list(kinds)}"
    for name, child in children.items():
        if child is not None:
            other = allowed.alternatives.get(name)
            kind = other if other is not None and type(child) is other else kinds[name]
            yield from _in_part(child, kind, f"{path}.{name}")
        elif name not in allowed.absent:
            yield f"None as {path}.{name}", f"a {kinds[name].__name__}"
