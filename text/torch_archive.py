"""Checks a file of torch before torch reads it: the archive, and each step of the pickle in it.

torch (`weights_only`) executes nothing in such a file, but a few hundred bytes may still demand any
amount of memory: they name `bytearray`, or a tensor of terabytes. So the pickle is walked first
without creating any object: it may hold plain values, and tensors whose numbers are in the file.
"""

import pickletools
import re
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeGuard

from text.bounded_files import DEPTH_LIMIT, opened

_BEGIN = b"PK\x03\x04"
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)+")
# Bytes of the record that ends a zip archive, without its comment.
_RECORD = 22
_ZIP64 = 0xFFFFFFFF
# Bytes of a number in each kind of storage.
_STORAGES = {
    **dict.fromkeys(("Bool", "Byte", "Char"), 1),
    **dict.fromkeys(("BFloat16", "Half", "Short"), 2),
    **dict.fromkeys(("Float", "Int"), 4),
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8),
}
_TENSOR, _ORDERED = "torch._utils _rebuild_tensor_v2", "collections OrderedDict"
_COUNTER = "collections Counter"  # the milestones of MultiStepLR
_GLOBALS = {_TENSOR, _ORDERED, _COUNTER, *(f"torch {kind}Storage" for kind in _STORAGES)}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_VALUES = ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE")
_PUT, _GET = ("BINPUT", "LONG_BINPUT"), ("BINGET", "LONG_BINGET")
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


CHECKPOINT_KEY = "steadfast"
"""Key of what this project adds to a checkpoint of Lightning."""
CHECKPOINT_FORMAT = 2
"""Format 1 had flat settings, without groups; it is refused."""


def check_archive(path: Path) -> Any:
    """Return the plain values of an archive as torch writes them, with None for each tensor.

    Several calls about one file return the same object: do not change it.

    Raises:
        ValueError: another file, or one whose pickle makes anything else.
    """
    with opened(path) as stream:
        if stream.read(len(_BEGIN)) != _BEGIN:
            msg = "it is no zip archive"
            raise ValueError(msg)
        size = stream.seek(0, 2)
        try:
            archive = zipfile.ZipFile(stream)
            entries = archive.infolist()
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError) as error:
            msg = f"its list of contents is broken: {error}"
            raise ValueError(msg) from error
        # Python's reader and torch's must read the same list of contents, the last one in the file.
        stream.seek(size - _RECORD - len(archive.comment))
        (listed,) = struct.unpack_from("<L", stream.read(_RECORD), 16)
        # Two lists of contents could show one pickle to this check and another one to torch.
        if listed not in (archive.start_dir, _ZIP64):
            msg = "its list of contents is in two places"
            raise ValueError(msg)
        _check_entries(entries, size)
        root = entries[0].filename.split("/")[0] if entries else ""
        sizes = {entry.filename: entry.file_size for entry in entries}
        prefix = f"{root}/data/"
        stored = {n.removeprefix(prefix): sizes[n] for n in sizes if n.startswith(prefix)}
        try:
            pickle = archive.read(f"{root}/data.pkl")
        except (KeyError, NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
            msg = f"it has no pickle that can be read: {error}"
            raise ValueError(msg) from error
    return _check_once(pickle, tuple(stored.items()))


@lru_cache(maxsize=4)  # a command reads the same checkpoint up to five times
def _check_once(pickle: bytes, stored: tuple[tuple[str, int], ...]) -> Any:
    return check_pickle(pickle, dict(stored))


def _check_entries(entries: list[zipfile.ZipInfo], size: int) -> None:
    names = [entry.filename for entry in entries]
    for name in names:
        if not _NAME.fullmatch(name) or ".." in name.split("/"):
            msg = f"it has an entry of the name {name[:80]!r}"
            raise ValueError(msg)
    if len({name.split("/")[0] for name in names}) > 1:
        msg = "it has entries in several folders"
        raise ValueError(msg)
    # Without compression, the content is never larger than the file.
    packed = any(entry.compress_type or entry.file_size != entry.compress_size for entry in entries)
    unpacked = sum(entry.file_size for entry in entries)
    if packed or len(set(names)) < len(names) or unpacked > size:
        msg = f"it would unpack to {unpacked:,} bytes from {size:,}, or twice the same"
        raise ValueError(msg)


@dataclass(frozen=True, eq=False)
class _Global:
    """A class or function that the pickle names."""

    name: str


@dataclass(frozen=True, eq=False)
class _Storage:
    """Numbers of the file."""

    count: int


@dataclass(eq=False)
class _Object:
    """A list, a dictionary or a tensor.

    Attributes:
        kind: which.
        content: the list or the dictionary; None for a tensor.
        depth: levels within it.
    """

    kind: str
    content: Any = None
    depth: int = 1


class _Mark:
    """The begin of several values."""


def check_pickle(pickle: bytes, stored: Mapping[str, int]) -> Any:
    """Return the plain values of a pickle, with None for each tensor.

    Args:
        pickle: written by `torch.save`.
        stored: bytes of each storage in the file, by its name.

    Raises:
        ValueError: it makes more than plain values, and tensors that are in the file.
    """
    machine = _Machine(stored)
    try:
        for operation, argument, _ in pickletools.genops(pickle):
            machine.step(operation.name, argument)
        return machine.content()
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        msg = f"its pickle is broken ({type(error).__name__})"
        raise ValueError(msg) from error


class _Machine:
    """Walks a pickle; each value is a constant, a tuple of values, or a placeholder."""

    def __init__(self, stored: Mapping[str, int]) -> None:
        self._stored = stored
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._depths: dict[int, int] = {}
        self._tuples: dict[int, tuple[Any, ...]] = {}

    def content(self) -> Any:
        """Return the plain values of the last step."""
        return self._plain(self._stack[-1])

    def _plain(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return self._tuples.get(id(value), ())
        if isinstance(value, _Object):
            return value.content
        return None if isinstance(value, _Global | _Storage) else value

    def step(self, name: str, argument: Any) -> None:
        """Take one step."""
        stack = self._stack
        if name in _VALUES:
            stack.append(argument)
        elif name in _PUT:
            self._memo[argument] = stack[-1]
        elif name in _GET:
            stack.append(self._memo[argument])
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in ("EMPTY_DICT", "EMPTY_LIST"):
            stack.append(_Object(name, {} if name == "EMPTY_DICT" else []))
        elif name == "MARK":
            stack.append(_Mark())
        elif name in _TUPLES:
            self._tuple(self._pop(_TUPLES[name]))
        elif name not in ("PROTO", "STOP"):
            self._other(name, argument)

    def _other(self, name: str, argument: Any) -> None:
        if name == "TUPLE":
            self._tuple(self._since_mark())
        elif name in ("APPEND", "APPENDS"):
            self._fill("EMPTY_LIST", self._pop(1) if name == "APPEND" else self._since_mark(), 1)
        elif name in ("SETITEM", "SETITEMS"):
            self._fill("EMPTY_DICT", self._pop(2) if name == "SETITEM" else self._since_mark(), 2)
        elif name == "GLOBAL":
            if argument not in _GLOBALS:
                msg = f"its pickle names {argument[:80]!r}, expected tensors and plain values"
                raise ValueError(msg)
            self._stack.append(_Global(argument))
        elif name == "BINPERSID":
            self._stack.append(self._storage(self._stack.pop()))
        elif name == "REDUCE":
            function, arguments = self._pop(2)
            self._stack.append(self._call(function, arguments))
        elif name == "BUILD":
            # The state of an OrderedDict: the versions of modules that torch stores with weights.
            self._fill("EMPTY_DICT", [None, self._stack.pop()], 2)
            self._stack[-1].content.pop(None)
        else:
            msg = f"its pickle has a step {name}, which none of ours has"
            raise ValueError(msg)

    def _pop(self, count: int) -> list[Any]:
        values = self._stack[-count:]
        if len(values) < count:
            raise IndexError
        del self._stack[-count:]
        return values

    def _since_mark(self) -> list[Any]:
        values = []
        while not isinstance(value := self._stack.pop(), _Mark):
            values.append(value)
        return values[::-1]

    def _depth(self, value: Any) -> int:
        if isinstance(value, _Object):
            return value.depth
        return self._depths.get(id(value), 0) if isinstance(value, tuple) else 0

    def _deeper(self, values: list[Any]) -> int:
        depth = 1 + max(map(self._depth, values), default=0)
        if depth > DEPTH_LIMIT:
            msg = f"its pickle has more than {DEPTH_LIMIT} levels"
            raise ValueError(msg)
        return depth

    def _tuple(self, values: list[Any]) -> None:
        joined = tuple(values)
        self._depths[id(joined)] = self._deeper(values)
        self._tuples[id(joined)] = tuple(map(self._plain, values))
        # Keep a reference: Python would give the id of a deleted tuple to another one.
        self._memo[-1 - len(self._memo)] = joined
        self._stack.append(joined)

    def _fill(self, kind: str, values: list[Any], width: int) -> None:
        target = self._stack[-1]
        keys = values[::2] if width == 2 else []
        if not isinstance(target, _Object) or target.kind != kind or len(values) % width:
            msg = "its pickle fills what is no list or dictionary"
            raise ValueError(msg)
        # Hashing tuples nested in each other may take exponential time.
        if not all(key is None or isinstance(key, str | int) for key in keys):
            msg = "its pickle has a dictionary with other keys than texts and whole numbers"
            raise ValueError(msg)
        target.depth = max(target.depth, self._deeper(values))
        plain = map(self._plain, values[width - 1 :: width])
        if width == 2:
            target.content.update(zip(keys, plain, strict=True))
        else:
            target.content.extend(plain)

    def _storage(self, described: Any) -> _Storage:
        if isinstance(described, tuple) and len(described) == 5 and described[0] == "storage":
            _, kind, key, _, count = described
            width = _STORAGES.get(kind.name[6:-7], 0) if isinstance(kind, _Global) else 0
            if width and isinstance(key, str) and _is_count(count):
                size = self._stored.get(key, 0)
                if count * width <= size:
                    return _Storage(count)
                msg = f"its pickle has {count:,} numbers in {size:,} bytes"
                raise ValueError(msg)
        msg = "its pickle has a storage of another form than expected"
        raise ValueError(msg)

    def _call(self, function: Any, arguments: Any) -> _Object:
        name = function.name if isinstance(function, _Global) else ""
        if name == _ORDERED and arguments == ():
            return _Object("EMPTY_DICT", {})
        if name == _COUNTER and isinstance(arguments, tuple) and len(arguments) == 1:
            counts: Any = arguments[0]
            if isinstance(counts, _Object) and counts.kind == "EMPTY_DICT":
                # Another name: torch copies the dictionary, and many calls could copy it again.
                counts.kind = "counter"
                return counts
        if name == _TENSOR and isinstance(arguments, tuple) and len(arguments) in (6, 7):
            storage, offset, size, stride, needs_grad, hooks, *more = arguments
            plain = (
                isinstance(needs_grad, bool) and isinstance(hooks, _Object) and more in ([], [None])
            )
            sizes = _are_counts(size) and _are_counts(stride) and len(size) == len(stride)
            if plain and sizes and isinstance(storage, _Storage) and _is_count(offset):
                _check_tensor(storage.count, offset, size, stride)
                return _Object("tensor")
        msg = f"its pickle calls {name or 'what is no function'} with other values than expected"
        raise ValueError(msg)


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def _are_counts(values: Any) -> TypeGuard[tuple[int, ...]]:
    return isinstance(values, tuple) and len(values) <= 64 and all(map(_is_count, values))


def _check_tensor(count: int, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> None:
    """Raise ValueError unless a tensor lies within its storage and has no more numbers than it."""
    numbers, last = 1, offset
    for length, step in zip(size, stride, strict=True):
        numbers *= length
        last += max(0, length - 1) * step
    if numbers and (numbers > count or last >= count):
        msg = f"its pickle has a tensor of {numbers:,} numbers, or beyond the {count:,} of the file"
        raise ValueError(msg)
