"""Changes of good files: of bytes, of values in JSON and YAML, of archives and of pickles."""

import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable
from typing import Any

import yaml

Mutation = Callable[[random.Random, bytes], bytes]

VALUES: list[Any] = [
    *(None, True, -1, 0, 10**30, 10**60, float("nan"), float("inf"), -0.5, 1e300),
    *("", "x", "\ud800", "\0", "../../x", "1", "9" * 5000, [], {}, [None], {"": 0}, [[1]], [{}]),
]
"""What a leaf or a branch may become."""
PIECES = [
    *(
        b"\0",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\r",
        b"\n\n",
        b"\t",
        b",",
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
    ),
    *(b"NaN", b"1e999", b"9" * 5000, b"[" * 3000, b'{"a":' * 3000, b"\\ud800", b"\xe2\x80\xa8"),
    *(b"&a [*a]", b"<<: *a", b"!!binary x", b"? [a]\n: b\n", b"2001-99-99", b"\x1f\x8b", b"PK\3\4"),
]
"""What may be put between bytes."""


def change_bytes(rng: random.Random, content: bytes) -> bytes:
    """Flip, cut, repeat, remove or insert bytes, once to four times."""
    data = bytearray(content)
    for _ in range(rng.randrange(1, 5)):
        at, length = rng.randrange(len(data) + 1), rng.randrange(1, 40)
        kind = rng.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(data):
            data[at] = rng.randrange(256)
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            del data[at : at + length]
        elif kind == 4:
            data[at:at] = data[at : at + length] * rng.randrange(1, 4)
        else:
            data[at:at] = rng.choice(PIECES)
    return bytes(data)


def _replace(rng: random.Random, value: Any) -> Any:
    """Change one value of a tree, at any depth, or take away or add a name."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
        return rng.choice(VALUES)
    if isinstance(value, list):
        at = rng.randrange(len(value))
        return [*value[:at], _replace(rng, value[at]), *value[at + 1 :]]
    key = rng.choice(list(value))
    kind = rng.random()
    if kind < 0.1:
        return {name: part for name, part in value.items() if name != key}
    if kind < 0.2:
        return {**value, rng.choice(["", "x", "about", key + "x"]): rng.choice(VALUES)}
    return {**value, key: _replace(rng, value[key])}


def change_json(rng: random.Random, content: bytes) -> bytes:
    """Change a value in one of the JSON documents of a file, a document in each line or one."""
    if rng.random() < 0.3:
        return change_bytes(rng, content)
    try:
        documents = [json.loads(content)]
    except ValueError:
        documents = [json.loads(line) for line in content.splitlines()]
    at = rng.randrange(len(documents))
    documents[at] = _replace(rng, documents[at])
    return b"\n".join(json.dumps(one).encode() for one in documents) + b"\n"


def change_yaml(rng: random.Random, content: bytes) -> bytes:
    """Change a value in a YAML document."""
    if rng.random() < 0.4:
        return change_bytes(rng, content)
    changed = _replace(rng, yaml.safe_load(content))
    try:
        return yaml.safe_dump(changed, sort_keys=False).encode("utf-8", "surrogatepass")
    except yaml.YAMLError:
        return change_bytes(rng, content)


def packed(change: Mutation) -> Mutation:
    """Change what a gzip file holds, or the file itself."""

    def mutation(rng: random.Random, content: bytes) -> bytes:
        if rng.random() < 0.5:
            return change_bytes(rng, content)
        return gzip.compress(change(rng, gzip.decompress(content)), 1, mtime=0)

    return mutation


def change_zip(rng: random.Random, content: bytes) -> bytes:
    """Change a field of a header, the bytes of an archive, or what one of its entries holds."""
    kind = rng.random()
    if kind < 0.4:
        data = bytearray(content)
        marks = [at for mark in (b"PK\1\2", b"PK\3\4", b"PK\5\6") for at in _places(content, mark)]
        at = rng.choice(marks) + 4 + rng.randrange(42)
        if at < len(data):
            data[at] = rng.choice((0, 1, 9, 0xFF, rng.randrange(256)))
        return bytes(data)
    if kind < 0.6:
        return change_bytes(rng, content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    small = [name for name in parts if name.endswith((".pkl", ".json", ".txt"))] or list(parts)
    name = rng.choice(small)
    parts[name] = change_bytes(rng, parts[name])
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return stream.getvalue()


def _places(content: bytes, mark: bytes) -> list[int]:
    places, at = [], content.find(mark)
    while at >= 0:
        places.append(at)
        at = content.find(mark, at + 1)
    return places
