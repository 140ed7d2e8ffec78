"""A device that is none: tensors that compute on the CPU, and refuse those of the CPU.

A kernel of a GPU fails where an operand is still on the CPU. Tests find such operands without a
GPU: tensors of this device carry the name of the device `meta`, but have values, and every
operation is checked by the rules of CUDA.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from pytorch_lightning.strategies import SingleDeviceStrategy, StrategyRegistry
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

DEVICE = torch.device("meta")
aten = torch.ops.aten
ON_CPU = {
    aten._pack_padded_sequence.default: (1, 1),
    aten._pack_padded_sequence_backward.default: (2, None),
    aten._pad_packed_sequence.default: (1, 1),
    aten.lstm.data: (1, None),
}
"""Operations with a number of the batch on the CPU: its position, and that in the result."""
COPIES = (aten._to_copy.default, aten.copy_.default)
"""Operations that may move values from a device to another one."""
INDEXED = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default)
"""Operations that take indices from the CPU."""


class OtherDeviceError(RuntimeError):
    """An operation got tensors of the CPU and of the other device."""


class OtherStrategy(SingleDeviceStrategy):
    """Puts modules and batches on the other device: `--trainer.strategy=other`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "device": DEVICE})

    def setup_environment(self) -> None:
        """Do not let the accelerator of the CPU refuse the device."""


class OtherTensor(torch.Tensor):
    """A tensor of the other device.

    Attributes:
        content: the same tensor on the CPU.
    """

    content: torch.Tensor
    is_meta = False  # torch skips what has no values

    @staticmethod
    def __new__(cls: type["OtherTensor"], values: torch.Tensor) -> "OtherTensor":
        return torch.Tensor._make_wrapper_subclass(
            cls,
            values.size(),
            strides=values.stride(),
            storage_offset=values.storage_offset(),
            dtype=values.dtype,
            device=DEVICE,
            requires_grad=values.requires_grad,
        )

    def __init__(self, values: torch.Tensor) -> None:
        self.content = values

    def __repr__(self, **_: Any) -> str:  # type: ignore[override] # torch's name is not needed
        return f"OtherTensor({self.content})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        # A file has the values.
        return torch.Tensor.__reduce_ex__(self.content, protocol)  # type: ignore[no-untyped-call] # torch has none

    def tolist(self) -> Any:
        return self.content.tolist()

    def numpy(self, **_: Any) -> Any:
        msg = "got a tensor of the other device, expected .cpu() before .numpy()"
        raise OtherDeviceError(msg)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override] # torch declares a function
        cls,
        operation: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return _run(operation, args, dict(kwargs or {}))


class _Factories(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch has none
    """Makes new tensors of the other device where `device=meta` is asked for."""

    def __torch_dispatch__(
        self,
        operation: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return _run(operation, args, dict(kwargs or {}))


class _Constants(TorchFunctionMode):
    """Makes tensors of numbers on the CPU first: torch leaves those of `device=meta` empty."""

    def __torch_function__(
        self,
        function: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        settings = dict(kwargs or {})
        if function in (torch.tensor, torch.as_tensor) and settings.get("device") is not None:
            device = settings.pop("device")
            return function(*args, **settings).to(device)
        if function is torch.Tensor.new_tensor:
            like, data = args
            made = torch.tensor(data, dtype=settings.get("dtype", like.dtype))
            return made.to(settings.get("device", like.device))
        if function is torch.unravel_index:
            # It makes tensors of numbers, too.
            indices = function(args[0].cpu(), *args[1:], **settings)
            return tuple(x.to(args[0].device) for x in indices)
        if function in (torch.where, torch.Tensor.where):
            # torch would make a tensor of the number below the level that is seen here.
            args = tuple(_scalar(arg, args) for arg in args)
        return function(*args, **settings)


def _scalar(arg: Any, args: Sequence[Any]) -> Any:
    """Return a number of `where` as a tensor of the type that the result has."""
    if isinstance(arg, torch.Tensor):
        return arg
    tensors = [other for other in args if isinstance(other, torch.Tensor)]
    return torch.scalar_tensor(arg, dtype=torch.result_type(tensors[-1], arg))


def _run(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    others = [tensor for tensor in tensors if isinstance(tensor, OtherTensor)]
    device = kwargs.get("device")
    moved = device is not None and torch.device(device) == DEVICE
    if moved:
        kwargs["device"] = torch.device("cpu")
    if others and operation not in COPIES:
        _check(operation, args, tensors)
    args, kwargs = tree_map_only(OtherTensor, lambda x: x.content, (args, kwargs))
    result = operation(*args, **kwargs)
    if operation == aten._local_scalar_dense.default:
        return result
    if operation == aten.copy_.default:
        here = isinstance(tensors[0], OtherTensor)
    else:
        here = moved if device is not None else bool(others)
    if not here:
        return result
    if operation in ON_CPU and (place := ON_CPU[operation][1]) is not None:
        return tuple(x if i == place else OtherTensor(x) for i, x in enumerate(result))
    # In-place operations return their first argument, whose gradient graph hangs on the object.
    known = {id(tensor.content): tensor for tensor in others}
    return tree_map_only(
        torch.Tensor, lambda x: known[id(x)] if id(x) in known else OtherTensor(x), result
    )


def _check(operation: Any, args: tuple[Any, ...], tensors: list[torch.Tensor]) -> None:
    """Raise OtherDeviceError where CUDA would: scalars and indices may be on the CPU."""
    if operation in INDEXED:
        indices = {id(index) for index in args[1] if index is not None}
        tensors = [tensor for tensor in tensors if id(tensor) not in indices]
    if operation in ON_CPU:
        place, _ = ON_CPU[operation]
        tensors = [tensor for tensor in tensors if tensor is not args[place]]
    left = [x for x in tensors if not isinstance(x, OtherTensor) and x.dim() > 0]
    if left:
        msg = f"{operation} got {len(left)} of {len(tensors)} tensors on the CPU"
        raise OtherDeviceError(msg)


@contextmanager
def other_device() -> Iterator[torch.device]:
    """Within it, `device=meta` means the other device."""
    changes = {
        # The device `meta` has no autocast.
        (torch.autocast, "__init__"): _on_cpu(torch.autocast.__init__, 1),
        (torch, "is_autocast_enabled"): _on_cpu(torch.is_autocast_enabled, 0),
        (torch, "get_autocast_dtype"): _on_cpu(torch.get_autocast_dtype, 0),
    }
    before = {change: getattr(*change) for change in changes}
    overwrite = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    StrategyRegistry.register("other", OtherStrategy, override=True)
    for (owner, name), function in changes.items():
        setattr(owner, name, function)
    try:
        with _Constants(), _Factories():  # type: ignore[no-untyped-call] # torch has none
            yield DEVICE
    finally:
        for (owner, name), function in before.items():
            setattr(owner, name, function)
        StrategyRegistry.remove("other")
        torch.__future__.set_overwrite_module_params_on_conversion(overwrite)


def _on_cpu(function: Callable[..., Any], place: int) -> Callable[..., Any]:
    """Return a function of a kind of device that takes the other device for the CPU."""

    def changed(*args: Any, **settings: Any) -> Any:
        parts = list(args)
        if len(parts) > place and parts[place] == DEVICE.type:
            parts[place] = "cpu"
        if settings.get("device_type") == DEVICE.type:
            settings["device_type"] = "cpu"
        return function(*parts, **settings)

    return changed
