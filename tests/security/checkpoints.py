"""Malicious checkpoints, each written from a good one."""

import io
import pickle
import pickletools
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from lit_modules.checkpoints.sealed import SealingWriter
from tests.security.payloads import Evaluate, Hidden, Marker, Shell

Forge = Callable[[Path, Path, Marker], None]
"""Write a malicious checkpoint: from this good one, to that path, with a payload that leaves this
marker."""
Entries = dict[str, bytes]


def seal(path: Path) -> None:
    """Give an archive the checksum that ours carry: whoever writes a file can compute it, too."""
    content = path.read_bytes()
    end = content.rindex(b"PK\5\6")
    content = content[: end + 20] + b"\0\0"
    with path.open("wb") as stream:
        writer = SealingWriter(stream)
        writer.write(content)
        writer.seal()


def content(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = torch.load(path, weights_only=True)
    return loaded


def entries(path: Path) -> Entries:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, parts: Entries, compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def pickle_name(parts: Entries) -> str:
    return next(name for name in parts if name.endswith("/data.pkl"))


# Code


def bare_pickle(good: Path, path: Path, marker: Marker) -> None:
    path.write_bytes(pickle.dumps(Shell(marker.command), protocol=2))


def legacy_format(good: Path, path: Path, marker: Marker) -> None:
    """As torch wrote files before 1.6: pickles in a row."""
    harm = {**content(good), "harm": Shell(marker.command)}
    torch.save(harm, path, _use_new_zipfile_serialization=False)


def pickle_before_archive(good: Path, path: Path, marker: Marker) -> None:
    """A pickle to readers that look at the beginning, and a good archive to those of the end."""
    path.write_bytes(pickle.dumps(Shell(marker.command), protocol=2) + good.read_bytes())


def replaced_pickle(good: Path, path: Path, marker: Marker) -> None:
    parts = entries(good)
    ours = {"steadfast": {"format": 2}, "hyper_parameters": Evaluate(marker)}
    write(path, {**parts, pickle_name(parts): pickle.dumps(ours, protocol=2)})


def prefixed_pickle(good: Path, path: Path, marker: Marker) -> None:
    """The good pickle, with a call in front of it whose result is thrown away."""
    parts = entries(good)
    name = pickle_name(parts)
    argument = marker.command.encode()
    call = b"cposix\nsystem\n(X" + struct.pack("<I", len(argument)) + argument + b"tR0"
    begin, rest = parts[name][:2], parts[name][2:]
    write(path, {**parts, name: begin + call + rest})


def inside(place: str) -> Forge:
    """The good content with a payload deep in one of its parts."""

    def forge(good: Path, path: Path, marker: Marker) -> None:
        harm = content(good)
        payload = {"list": [1, (Shell(marker.command), Evaluate(marker)), Hidden(marker)]}
        if place == "optimizer_states":
            harm[place][0]["state"][0] = payload
        elif place == "callbacks":
            harm[place]["ModelCheckpoint"] = payload
        elif place == "tokenizer":
            harm["steadfast"][place]["vocabulary"] = payload
        elif place == "loops":
            harm[place]["fit_loop"]["state_dict"] = payload
        else:
            harm[place]["harm"] = payload
        torch.save(harm, path)

    return forge


PLACES = ("optimizer_states", "callbacks", "hyper_parameters", "state_dict", "tokenizer", "loops")
CODE: dict[str, Forge] = {
    "bare pickle": bare_pickle,
    "legacy format": legacy_format,
    "pickle before archive": pickle_before_archive,
    "replaced pickle": replaced_pickle,
    "prefixed pickle": prefixed_pickle,
    **{f"inside {place}": inside(place) for place in PLACES},
}

# Archives


def traversal(name: str) -> Forge:
    def forge(good: Path, path: Path, marker: Marker) -> None:
        write(path, {**entries(good), name: b"x"})

    return forge


def compressed(good: Path, path: Path, marker: Marker) -> None:
    """A hundred megabytes of zeros in a hundred kilobytes."""
    torch.save({**content(good), "harm": torch.zeros(25 * 2**20)}, path)
    write(path, entries(path), zipfile.ZIP_DEFLATED)


def overlapping(good: Path, path: Path, marker: Marker) -> None:
    """Many entries of the list of contents that are the same bytes."""
    write(path, {**entries(good), "archive/data/99999": b"\0" * 10**6})
    raw = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        begin, one = archive.start_dir, archive.infolist()[-1]
    end = raw.rindex(b"PK\5\6")
    listed = raw[begin:end]
    last = listed.rindex(b"PK\1\2")
    copies = b"".join(
        listed[last:].replace(one.filename.encode(), f"archive/data/{i:05}".encode())
        for i in range(10_000, 20_000)
    )
    count = len(zipfile.ZipFile(io.BytesIO(raw)).infolist()) + 10_000
    tail = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(listed + copies), begin, 0)
    path.write_bytes(raw[:begin] + listed + copies + tail)


def claimed(good: Path, path: Path, marker: Marker) -> None:
    """Sizes in the list of contents that are those of terabytes."""
    write(path, entries(good))
    raw = bytearray(path.read_bytes())
    place = raw.rindex(b"PK\1\2")
    raw[place + 20 : place + 28] = struct.pack("<2I", 0xFFFFFFF0, 0xFFFFFFF0)
    path.write_bytes(raw)


def twice(good: Path, path: Path, marker: Marker) -> None:
    """Two entries of one name, of which readers may take the one or the other."""
    parts = entries(good)
    name = pickle_name(parts)
    parts[name.replace("data.pkl", "data.pkX")] = pickle.dumps(Shell(marker.command), protocol=2)
    write(path, parts)
    path.write_bytes(path.read_bytes().replace(b"data.pkX", b"data.pkl"))


ARCHIVES: dict[str, Forge] = {
    **{
        f"entry {name}": traversal(name)
        for name in (
            "../escaped",
            "archive/../../escaped",
            "/tmp/escaped",
            "C:\\escaped",
            "archive/\x1b[2J",
            "a\nb/c",
        )
    },
    "compressed": compressed,
    "overlapping": overlapping,
    "claimed sizes": claimed,
    "twice": twice,
}

# Content


def storage_beyond_its_record(good: Path, path: Path, marker: Marker) -> None:
    """A tensor of a gigabyte, whose numbers are eight bytes in the file."""
    torch.save({**content(good), "harm": torch.zeros(2)}, path)
    parts = entries(path)
    name = pickle_name(parts)
    # BINPERSID of ("storage", FloatStorage, key, "cpu", 2): the last is the number of elements.
    steps = [(step.name, at or 0) for step, _, at in pickletools.genops(parts[name])]
    last = max(i for i, (step, _) in enumerate(steps) if step == "BINPERSID")
    place = max(at for step, at in steps[:last] if step == "BININT1")
    assert parts[name][place : place + 2] == b"K\2"
    data = parts[name][:place] + b"J" + struct.pack("<i", 2**28) + parts[name][place + 2 :]
    write(path, {**parts, name: data})


def posing(good: Path, path: Path, marker: Marker) -> None:
    """Every number of the weights is the same one in the file, of a model of terabytes."""
    harm = content(good)
    width = 2**20
    harm["hyper_parameters"]["width"] = width
    for name, tensor in harm["state_dict"].items():
        shape = [width if size == 8 else size for size in tensor.shape]
        harm["state_dict"][name] = torch.zeros((), dtype=tensor.dtype).expand(shape)
    torch.save(harm, path)


def setting(name: str, value: Any) -> Forge:
    def forge(good: Path, path: Path, marker: Marker) -> None:
        harm = content(good)
        harm["hyper_parameters"][name] = value
        torch.save(harm, path)

    return forge


def part(name: str, value: Any) -> Forge:
    def forge(good: Path, path: Path, marker: Marker) -> None:
        harm = content(good)
        (harm["steadfast"] if name in harm["steadfast"] else harm)[name] = value
        torch.save(harm, path)

    return forge


def laughs() -> list[Any]:
    """A list of 2 ** 40 strings, in 40 lists."""
    value: list[Any] = ["ha"]
    for _ in range(40):
        value = [value, value]
    return value


def circle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def tokenizer(**changes: Any) -> Forge:
    def forge(good: Path, path: Path, marker: Marker) -> None:
        harm = content(good)
        harm["steadfast"]["tokenizer"].update(changes)
        torch.save(harm, path)

    return forge


CONTENT: dict[str, Forge] = {
    "storage beyond its record": storage_beyond_its_record,
    "one number posing as a model": posing,
    "width of terabytes": setting("width", 2**40),
    "a million layers": setting("depth", 10**6),
    "max_length of terabytes": tokenizer(max_length=2**40),
    "lists of lists": setting("heads", laughs()),
    "class names of lists": part("class_names", laughs()),
    "a list in itself": setting("heads", circle()),
    "class names": part("class_names", ["a", 1]),
    "classes as a text": part("class_names", "ab"),
    "method": part("method", ["OLSA"]),
    "pairs": part("pairs", 1),
    "tokenizer": part("tokenizer", "word"),
    "settings": part("hyper_parameters", [1]),
    "weights": part("state_dict", [1]),
    "weights of text": part("state_dict", {"a": "b"}),
    "step": part("global_step", "1"),
    "vocabulary": tokenizer(vocabulary=3),
    "kind of tokenizer": tokenizer(kind="pretrained", definition="{", pad_id=0, unk_id=0),
    "ids of terabytes": tokenizer(
        kind="pretrained",
        definition='{"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 0}, '
        '"unk_token": "a"}, "added_tokens": []}',
        pad_id=2**40,
        unk_id=0,
    ),
}


def sealed(forge: Forge) -> Forge:
    """The same with a checksum that is right."""

    def forge_and_seal(good: Path, path: Path, marker: Marker) -> None:
        forge(good, path, marker)
        if zipfile.is_zipfile(path):
            seal(path)

    return forge_and_seal
