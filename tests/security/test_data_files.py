"""Files of a data directory that were made to exhaust memory, to hang, or to be executed."""

import collections
import gzip
import json
import os
import random
import re
import resource
import shutil
import socket
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from datamodules import DREAM, SST2, WNUT17, DataError, TaggedFiles, TextDataModule, TextFiles
from datamodules.sources.readers import Row, find_file, read_rows
from datamodules.sources.structured import PARTS_LIMIT, read_conll, read_entries
from tests.integration.conftest import OLSA, TINY, Steadfast
from tests.security.payloads import Marker, gzip_bomb
from text.bounded_files import EXPANSION, LINE_LIMIT

GIGABYTES = 2 * 2**30
ROWS = {
    "tsv": ("text\tlabel\n", "good\t1\nbad\t0\n"),
    "csv": ("text,label\n", '"good",1\nbad,0\n'),
    "jsonl": ("", '{"text": "good", "label": 1}\n{"text": "bad", "label": 0}\n'),
    "conll": ("", "good\tO\n\nbad\tO\n\n"),
}


def rows_of(path: Path) -> Iterator[Row]:
    name = path.name.removesuffix(".gz")
    if name.endswith(".conll"):
        return read_conll(path)
    if name.endswith(".json"):
        return read_entries(path)
    return read_rows(path, ("text", "label"))


def read(path: Path) -> list[Any]:
    return list(rows_of(path))


@pytest.fixture
def within_memory() -> Iterator[None]:
    """The test is to need less than half a gigabyte more than this process has had so far."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 512 * 1024, f"{grown} kB"


@pytest.mark.usefixtures("within_memory")
@pytest.mark.parametrize("ending", [*ROWS, "json"])
def test_packed_line_of_gigabytes(ending: str, tmp_path: Path) -> None:
    path, block = tmp_path / f"train.{ending}.gz", b"a" * 2**24
    gzip_bomb(path, ROWS.get(ending, "[")[0].encode(), block, GIGABYTES // len(block))
    assert path.stat().st_size < 2**23
    with pytest.raises(DataError, match=r"line \d: got more than 16,777,216 bytes without a line"):
        read(path)


@pytest.mark.usefixtures("within_memory")
@pytest.mark.parametrize(
    "ending", ["tsv", *(pytest.param(x, marks=pytest.mark.slow) for x in ROWS if x != "tsv")]
)
def test_packed_rows_of_gigabytes(ending: str, tmp_path: Path) -> None:
    path, (header, rows) = tmp_path / f"train.{ending}.gz", ROWS[ending]
    block = rows.encode() * (2**24 // len(rows))
    gzip_bomb(path, header.encode(), block, GIGABYTES // 4 // len(block))
    found = rows_of(path)
    assert "good" in str(next(found).values)
    with pytest.raises(DataError, match="never packed that tightly") as caught:
        collections.deque(found, maxlen=0)
    line = re.search(r"line (\d+)", str(caught.value))
    assert line is not None
    assert int(line[1]) < EXPANSION * path.stat().st_size / 64


@pytest.mark.usefixtures("within_memory")
@pytest.mark.parametrize("ending", [*ROWS, "json"])
def test_line_of_gigabytes(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"train.{ending}"
    path.write_text("".join(ROWS.get(ending, "[\n")))
    os.truncate(path, GIGABYTES)  # zeros that take no place on the disk
    with pytest.raises(DataError, match=r"line \d: got more than 16,777,216 bytes without a line"):
        read(path)


def test_a_line_as_long_as_allowed_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    text = "x" * (LINE_LIMIT - len("\t1\n"))
    path.write_text(f"text\tlabel\n{text}\t1\n")
    assert [row.values["text"] == text for row in read(path)] == [True]


def test_repetitive_text_is_no_bomb(tmp_path: Path) -> None:
    path, (header, rows) = tmp_path / "a.tsv.gz", ROWS["tsv"]
    gzip_bomb(path, header.encode(), rows.encode() * 10_000, 1)
    assert len(read(path)) == 20_000
    assert path.stat().st_size < 1000


@pytest.mark.usefixtures("within_memory")
@pytest.mark.parametrize("schema", [True, False])
def test_parquet_that_repeats_a_long_text(schema: bool, tmp_path: Path) -> None:
    path, rows, length = tmp_path / "train.parquet", 100_000, 8 * 2**20
    text = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array([0] * rows, pyarrow.int32()), pyarrow.array(["x" * length])
    )
    table = pyarrow.table({"text": text, "label": [0] * rows})
    parquet.write_table(table, path, compression="zstd", store_schema=schema)
    assert path.stat().st_size < 5000
    with pytest.raises(DataError, match="never packed that tightly"):
        read(path)


@pytest.mark.usefixtures("within_memory")
def test_parquet_of_millions_of_empty_rows(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    schema = pyarrow.schema({"text": pyarrow.string(), "label": pyarrow.int8()})
    zero = pyarrow.array([0] * 1_000_000, pyarrow.int8())
    text = pyarrow.array([""] * 1_000_000)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for _ in range(20):
            writer.write_table(pyarrow.table({"text": text, "label": zero}))
    with pytest.raises(DataError, match="never packed that tightly"):
        collections.deque(read_rows(path, ("text", "label")), maxlen=0)


@pytest.mark.parametrize("compression", ["snappy", "zstd"])
def test_parquet_with_senseless_metadata(compression: str, tmp_path: Path) -> None:
    path, rng = tmp_path / "a.parquet", random.Random(0)
    rows = range(300)
    table = pyarrow.table({"text": [f"text {i}" for i in rows], "label": [i % 2 for i in rows]})
    parquet.write_table(table, path, compression=compression)
    good = path.read_bytes()
    footer = int.from_bytes(good[-8:-4], "little")
    refused = 0
    for _ in range(300):
        changed = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            place = len(good) - 8 - rng.randrange(footer)
            changed[place if rng.random() < 0.7 else rng.randrange(len(good))] = rng.randrange(256)
        path.write_bytes(changed)
        try:
            read(path)
        except DataError:  # nothing else may come out
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("kind", ["list", "struct", "fixed"])
def test_parquet_columns_that_are_no_text(kind: str, tmp_path: Path) -> None:
    column = {
        "list": pyarrow.array([["a"], ["b"]]),
        "struct": pyarrow.array([{"a": 1}, {"a": 2}]),
        "fixed": pyarrow.array([b"ab", b"cd"], pyarrow.binary(2)),
    }[kind]
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"text": column, "label": [0, 1]}), path)
    with pytest.raises(DataError, match="expected text or numbers"):
        read(path)


def test_parquet_texts_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    text = pyarrow.array([b"caf\xe9", b"a\0b", b"ok"]).view(pyarrow.string())
    parquet.write_table(pyarrow.table({"text": text, "label": [0, 1, 1]}), path)
    first, second, third = read(path)
    assert first.problem == "broken encoding: byte 0xe9 at column 4 is not UTF-8"
    assert second.problem == "broken encoding: a NUL character"
    assert third.values == {"text": "ok", "label": 1}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[" * 100_000, "not a JSON value"),
        ('{"text": ' * 100_000, "not a JSON value"),
        ("[" * 1_000_000, "more than 131,072 lists and objects"),
        ('{"text": ' * 1_000_000, "more than 131,072 lists and objects"),
        ('{"text": "a", "label": ' + "9" * 10_000 + "}", "not a JSON value"),
        ('{"text": "a\\u0000b", "label": 1}', "broken encoding: a NUL character"),
        ('{"text": "\\ud800", "label": 1}', "broken encoding"),
        ('{"text": "a", "label": "\\udfff"}', "broken encoding"),
        ("{" + ", ".join(f'"k{i}": 1' for i in range(9999)) + "}", "... ("),
    ],
    ids=[
        "lists",
        "objects",
        "many lists",
        "many objects",
        "number",
        "nul",
        "surrogate",
        "label",
        "keys",
    ],
)
def test_json_lines_that_are_made_to_hurt(line: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(line + '\n{"text": "ok", "label": 1}\n')
    bad, good = read(path)
    assert problem in bad.problem
    assert len(bad.problem) < 500
    assert good.values == {"text": "ok", "label": 1}


@pytest.mark.usefixtures("within_memory")
def test_a_json_line_of_lists_in_lists(tmp_path: Path) -> None:
    """Read, it would take 800 MiB."""
    deep = "[" * 300 + "]" * 300
    line = '{"text": "a", "label": [' + ",".join([deep] * 25_000) + "]}"
    path = tmp_path / "a.jsonl"
    path.write_text(line + '\n{"text": "ok", "label": 1}\n')
    bad, good = read(path)
    assert bad.problem == "more than 131,072 lists and objects in a JSON value"
    assert good.values == {"text": "ok", "label": 1}


# Each would take more than half a gigabyte, or a minute.
@pytest.mark.usefixtures("within_memory")
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "part",
    [
        "0,",
        "[],",
        '{"":0},',
        "[" * 300 + "]" * 300 + ",",
        '{"":' * 300 + "0" + "}" * 300 + ",",
        "\n",
    ],
    ids=["numbers", "lists", "objects", "deep lists", "deep objects", "lines"],
)
def test_a_document_of_millions_of_values(part: str, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / ("a.json.gz" if packed else "a.json")
    text = f"[[{part * ((LINE_LIMIT - 9) // len(part))}0]]"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    with pytest.raises(
        DataError,
        match=r"line \d+: got .* more than 1,048,576 values|line \d+: .* packed that tightly",
    ):
        read(path)


@pytest.mark.usefixtures("within_memory")
def test_a_packed_document_of_gigabytes(tmp_path: Path) -> None:
    path, block = tmp_path / "a.json.gz", b'"a long text without anything",\n' * 2**19
    gzip_bomb(path, b"[\n", block, GIGABYTES // len(block))
    with pytest.raises(DataError, match=r"JSON document of more than|never packed that tightly"):
        read(path)


@pytest.mark.usefixtures("within_memory")
@pytest.mark.parametrize("deep", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_document_as_large_as_allowed_is_read(deep: bool, tmp_path: Path) -> None:
    path, count = tmp_path / "a.json", (PARTS_LIMIT - 9) // 301
    one = '{"":' * 300 + "0" + "}" * 300 if deep else ",".join("0" * 301)
    path.write_text("[" + ",".join(f"{one}" for _ in range(count)) + "]")
    assert len(read(path)) == (count if deep else count * 301)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("value", ["[" * 8_000_000, '{"":' * 1_000_000, "9" * 10_000, "NaN" * 999])
def test_documents_that_are_no_json(value: str, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / ("a.json.gz" if packed else "a.json")
    raw = f'["ok",\n{value}]'.encode()
    path.write_bytes(gzip.compress(raw) if packed else raw)
    with pytest.raises(
        DataError, match=r"line 2: (not a JSON value|got a JSON document)|behind"
    ) as e:
        read(path)
    assert len(str(e.value)) < 500


def dialogue(turn: str, questions: int, choices: list[str], *, question: str = "why?") -> str:
    asked = {"question": question, "choice": choices, "answer": choices[0]}
    return json.dumps([[[turn], [asked] * questions, "1"]])


@pytest.mark.usefixtures("within_memory")
def test_dialogues_are_not_multiplied(tmp_path: Path) -> None:
    """A dialogue is read with each of its questions, and a question with each of its answers."""
    path, corpus = tmp_path / "dream" / "test.json", DREAM(data_dir=str(tmp_path))
    path.parent.mkdir()
    path.write_text(dialogue("x" * 2**22, 20_000, ["a", "b", "c"]))
    with pytest.raises(DataError, match=r"entry 1, line 1: got 20,000 questions about a dialogue"):
        corpus.setup("test")
    path.write_text(dialogue("x", 1, [str(i) for i in range(99_999)], question="y" * 2**22))
    with pytest.raises(
        DataError, match="question 1: got 99999 choices in column 'choice', expected 3"
    ):
        corpus.setup("test")
    path.write_text(dialogue("x" * 2**20, 10, ["a", "b", "c"]))
    corpus.setup("test")
    assert len(corpus.examples("test")) == 10


@pytest.mark.usefixtures("within_memory")
@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("ab " * 5_000_000, "got 5000000 fields, expected 2"),
        ("a\t" * 5_000_000, "got 5000001 fields, expected 2"),
        ("a\t" + "X" * 10_000_000, "... (10,000,002 characters)"),
        ("a\t" + "B-" * 10_000, "got tag"),
        ("a\0\tO", "broken encoding: a NUL character"),
        ("a\t\x1b[2J\u202e", r"got tag '\x1b[2J\u202e', expected"),
    ],
    ids=["spaces", "tabs", "tag", "dashes", "nul", "escape"],
)
def test_conll_lines_that_are_made_to_hurt(line: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "wnut17" / "test.conll"
    path.parent.mkdir()
    path.write_text(f"{line}\n\nok\tO\n")
    bad, good = read_conll(path, ["O", "B-x"])
    assert bad.problem is not None
    assert problem in bad.problem
    assert len(bad.problem) < 500
    assert good.values == {"words": ["ok"], "tags": ["O"]}


def test_tags_by_the_thousand_are_no_tags(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("".join(f"a\tB-{i}\n" for i in range(1001)))
    with pytest.raises(DataError, match="got more than 1,000 types of tags"):
        TaggedFiles(train=str(path)).setup("fit")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'["caf\xe9"]', "line 1: broken encoding: byte 0xe9 at column 6 is not UTF-8"),
        (b'["a",\n"\0"]', "line 2: broken encoding: a NUL character"),
        (b"[]".decode().encode("utf-16"), "got UTF-16, expected UTF-8"),
        (b"\x1b[2J[]", r"got '\x1b[2J[]', expected a JSON list"),
        (b"[]\x1b[2J", r"got '\x1b[2J' behind the list"),
        (b"[0\x9b]", "broken encoding: byte 0x9b"),
    ],
)
def test_documents_that_are_no_text(raw: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(raw)
    with pytest.raises(DataError) as caught:
        read(path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "entry",
    [
        '"\\u0000"',
        '"\\ud800"',
        '{"\\udfff": 1}',
        '"\\u001b[2J"',
        '[["a"], ["\\u202e"], 1]',
        '"\u202e"',
    ],
)
def test_an_entry_that_is_made_to_hurt_is_told_harmlessly(entry: str, tmp_path: Path) -> None:
    path = tmp_path / "dream" / "test.json"
    path.parent.mkdir()
    good = dialogue("x", 1, ["a", "b", "c"])[1:-1]
    path.write_text(f"[{entry}, {good}]")
    with pytest.raises(DataError, match="entry 1, line 1: ") as caught:
        DREAM(data_dir=str(tmp_path)).setup("test")
    assert all(c.isprintable() or c == "\n" for c in str(caught.value))
    skipping = DREAM(data_dir=str(tmp_path), on_bad_row="skip")
    skipping.setup("test")
    assert len(skipping.examples("test")) == 1


def test_csv_fields_have_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    half = "x" * (LINE_LIMIT // 2)
    path.write_text(f'text,label\n"{half}\n{half}",1\nok,1\n"{half}\n{half} never closed,1\n')
    rows = read(path)
    assert "field larger than field limit" in rows[0].problem
    assert rows[1].values == {"text": "ok", "label": "1"}
    assert "field larger than field limit" in rows[2].problem


def test_a_header_of_megabytes_makes_a_short_message(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"\x1b[2J" * 1_000_000 + b"\n")
    with pytest.raises(DataError) as caught:
        read(path)
    assert len(str(caught.value)) < 500
    assert "\x1b" not in str(caught.value)


# What is no regular file


def pipe(path: Path) -> None:
    os.mkfifo(path)


def linked_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def unix_socket(path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)  # such names have room for a hundred bytes
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(before)


def folder(path: Path) -> None:
    path.mkdir()


def nowhere(path: Path) -> None:
    path.symlink_to("absent")


def circle(path: Path) -> None:
    path.symlink_to(path.name)


KINDS = {
    pipe: "a named pipe",
    linked_pipe: "a named pipe",
    endless: "a device",
    unix_socket: "a socket",
    folder: "a folder",
    nowhere: "a broken link",
    circle: "a broken link",
}


@pytest.mark.parametrize(
    "ending", ["tsv", "csv.gz", "jsonl", "parquet", "conll", "conll.gz", "json", "json.gz"]
)
@pytest.mark.parametrize(
    ("make", "name"), KINDS.items(), ids=lambda value: getattr(value, "__name__", value)
)
def test_what_is_no_file_is_refused_at_once(
    make: Callable[[Path], None], name: str, ending: str, tmp_path: Path
) -> None:
    kinds: dict[str, type[TextDataModule]] = {"conll": WNUT17, "json": DREAM}
    kind = kinds.get(ending.removesuffix(".gz"), SST2)
    path = tmp_path / kind.corpus / f"train.{ending}"
    path.parent.mkdir()
    make(path)
    corpus = kind(data_dir=str(tmp_path))
    files = TextFiles if kind is SST2 else TaggedFiles
    own = files(train=str(path), test=str(path))
    for action in (
        lambda: find_file(path.parent, "train", kind.endings),
        lambda: read(path),
        lambda: corpus.setup("fit"),
        lambda: own.setup("test"),
    ):
        with pytest.raises(DataError, match=f"which is {name}, expected a regular file"):
            action()


def test_a_link_to_a_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.tsv").write_text("".join(ROWS["tsv"]))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.tsv").symlink_to("../real.tsv")
    found = find_file(tmp_path / "data", "train")
    assert found is not None
    assert len(read(found)) == 2


def test_a_pipe_stops_the_run(here: Path, steadfast: Steadfast) -> None:
    Path("d/sst2").mkdir(parents=True)
    os.mkfifo("d/sst2/train.tsv")
    arguments = [*OLSA, *TINY, "--data=SST2", "--data.data_dir=d", "--trainer.max_epochs=1"]
    outcome = steadfast("fit", arguments, "--run=a")
    assert outcome.status == 1
    assert outcome.err.strip().splitlines()[-1] == (
        "error: got d/sst2/train.tsv, which is a named pipe, expected a regular file: remove or "
        "replace it"
    )


# Archives


def test_archives_are_not_touched(
    here: Path, steadfast: Steadfast, listing: Callable[[], set[str]]
) -> None:
    """Nothing here unpacks an archive; `gz` is one packed file, whose inner name is not used."""
    folder = here / "d" / "sst2"
    folder.mkdir(parents=True)
    for split in ("train", "validation", "test"):
        header, rows = ROWS["tsv"]
        (folder / f"{split}.tsv").write_text(header.replace("text", "sentence") + rows * 20)
        with zipfile.ZipFile(folder / f"{split}.zip", "w") as archive:
            archive.writestr("../../../escaped", "x")
        shutil.copy(folder / f"{split}.zip", folder / f"{split}.tsv.zip")
        with tarfile.open(folder / f"{split}.tar.gz", "w:gz") as packed:
            packed.add(folder / f"{split}.tsv", "../../../escaped")
    before = listing()
    arguments = [*OLSA, *TINY, "--data=SST2", "--data.data_dir=d", "--trainer.max_epochs=1"]
    assert steadfast("fit", arguments, "--run=a").status == 0
    written = {path for path in listing() - before if not path.startswith(f"{here.name}/runs")}
    assert not written
    for name in ("a.zip", "a.tar.gz", "a.tsv.zip"):
        with pytest.raises(DataError, match="expected a file ending in"):
            read(folder / name)


# Names


@pytest.mark.parametrize(
    "name", ["$({}).tsv", "`{}`.tsv", "; {} #.tsv", "| {}.tsv", "-rf.tsv", "&& {}\n.tsv", "'\".tsv"]
)
def test_no_shell_sees_a_file_name(name: str, tmp_path: Path, marker: Marker) -> None:
    command = f"touch {marker.path.name}"
    path = tmp_path / name.format(command)
    path.write_text("".join(ROWS["tsv"]))
    module = TextFiles(train=path.name, test=path.name, data_dir=str(tmp_path))
    module.setup("test")
    assert [example.text for example in module.examples("test")] == ["good", "bad"]
    assert marker.untouched()
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_the_name_of_a_corpus_is_no_path(
    here: Path, steadfast: Steadfast, listing: Callable[[], set[str]]
) -> None:
    Path("a.tsv").write_text("text\tlabel\n" + ROWS["tsv"][1] * 20)
    before = listing()
    arguments = [*OLSA, *TINY, "--trainer.max_epochs=1", "--run=a", "--data=TextFiles"]
    files = [f"--data.{split}=a.tsv" for split in ("train", "validation", "test")]
    assert steadfast("fit", arguments, files, "--data.name=../../escaped").status == 0
    assert {path.split("/")[1] for path in listing() - before} == {"runs"}
    assert json.loads(Path("runs/a/results.json").read_text())["corpus"] == "../../escaped"
