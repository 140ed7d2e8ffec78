"""Every reader of files that may come from anywhere, with a small good file of its kind."""

import gzip
import io
import json
import zipfile
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow
import torch
import yaml
from pyarrow import parquet
from safetensors.torch import save

from app.cli.asked_texts import read_file
from app.commands.runs_list import list_runs
from app.commands.runs_list import table as table_of_runs
from app.serve.api_fields import RequestError, parse_body
from app.study import cells, study_json
from app.study.study_file import examine
from attacks.json_lines import read_lines
from attacks.outcome import from_line
from attacks.resources.counter_fitting import read_pairs
from attacks.resources.neighbours import ListedNeighbours
from attacks.resources.tagger import NAME, Tagger
from attacks.resources.vector_files import read_vectors
from attacks.resources.word_forms import PARTS
from attacks.resources.wordnet import WordNet
from attacks.victims.http_settings import template
from certify.encoding.word_clusters import SynonymEncoding
from certify.threats.synonym_lists import Synonyms
from datamodules.sources.column_names import column_names
from datamodules.sources.readers import read_rows
from datamodules.sources.structured import read_conll, read_entries
from lit_modules import read_checkpoint
from lit_modules.checkpoints.exported import read_exported
from lit_modules.shared.answered_texts import read_answers
from measure.attack_names import read_attack
from measure.published_pairs import read_published
from measure.rating_sheet import read_key, read_rated
from measure.validity_pairs import running_text
from run_files import results, summary_table
from run_files.ledger import Ledger
from run_files.run_directory import RunDirectory
from run_files.sample_records import read_part
from tests.fuzz.mutations import (
    Mutation,
    change_bytes,
    change_json,
    change_yaml,
    change_zip,
    packed,
)
from tests.unit.attacks.outcomes import flipped
from text.bounded_files import DataError, read_json, read_yaml
from training.metrics_file import _rows
from training.trackers import _known


@dataclass(frozen=True)
class Reader:
    """A reader under test.

    Attributes:
        name: in the table.
        file: name of the file, relative to an empty folder.
        seed: good content.
        read: reads the file; its errors have to be ours.
        change: how the content is mutated.
        others: other files in the folder.
    """

    name: str
    file: str
    seed: bytes
    read: Callable[[Path], Any]
    change: Mutation = change_bytes
    others: tuple[tuple[str, bytes], ...] = ()


def _drain(rows: Any) -> None:
    deque(rows, maxlen=0)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _lines(*values: Any) -> bytes:
    return b"".join(_json(value) + b"\n" for value in values)


def _zip(**entries: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return stream.getvalue()


def _parquet() -> bytes:
    stream = io.BytesIO()
    table = pyarrow.table({"text": ["good", "bad", "fine"], "label": [1, 0, 1]})
    parquet.write_table(table, stream)
    return stream.getvalue()


def _checkpoint() -> bytes:
    stream = io.BytesIO()
    ours = {
        "format": 2,
        "method": "OLSA",
        "tokenizer": {},
        "class_names": ["a", "b"],
        "pairs": False,
    }
    weights = {"a.weight": torch.zeros(2, 3), "b": torch.ones(4, dtype=torch.int64)}
    content = {"state_dict": weights, "hyper_parameters": {"depth": 1, "layers": {"x": [1, 2.5]}}}
    torch.save({**content, "epoch": 0, "global_step": 3, "steadfast": ours}, stream)
    return stream.getvalue()


ROOT = Path(__file__).parents[2]
WEIGHTS = save({"a.weight": torch.zeros(2, 3)})
RECORD = flipped()
"""Of an attack; by hand, so that a new field is a wrong call, and not a seed that nobody reads."""
ABOUT = {
    "checkpoint": "ab" * 32,
    "file": "best.ckpt",
    "epoch": 1,
    "step": 9,
    "training_ended": False,
}
RESULTS = {
    "run": "r",
    "method": "OLSA",
    "corpus": "reviews",
    "seed": 0,
    "versions": {"torch": "2"},
    "metrics": {"test/accuracy": 0.5, "attack/pwws/accuracy": 0.1, "attack/pwws/samples": 10},
    "seconds": {"fit": 1.0, "test": 2.0},
    "about": {"test": ABOUT},
}
CONFIG = yaml.safe_dump(
    {"seed_everything": 1, "model": {"class_path": "lit_modules.OLSA", "init_args": {"depth": 1}}}
).encode()
STUDY = b"""title: A study
base: {config: [sst2.yaml], settings: {model.width: 8}}
seeds: [0, 1]
corpora: {sst2: {title: SST-2}}
axes:
  depth: {setting: model.depth, values: [1, 2]}
stages: [fit, test, {attack: {attack.recipe: pwws}}]
columns: {accuracy: {title: Accuracy, metric: test/accuracy, digits: 2}}
"""
TAGGER = _zip(
    **{
        f"{NAME}/{NAME}.weights.json": _json({"bias": {"NN": 1.0, "VB": -1.0}}),
        f"{NAME}/{NAME}.tagdict.json": _json({"the": "DT"}),
        f"{NAME}/{NAME}.classes.json": _json(["NN", "VB", "DT"]),
    }
)
_SENSE = b"00000000 05 n 02 good 0 fine 0 000 | a sense\n"
WORDNET = _zip(
    **{f"wordnet/index.{part}": b"good n 1 0 1 0 00000000\n" for part in PARTS},
    **{f"wordnet/data.{part}": _SENSE for part in PARTS},
    **{f"wordnet/{part}.exc": b"better good\n" for part in PARTS},
)
TABLE = b"text\tlabel\ngood film\t1\nbad\t0\n"
COMMAS = b'text,label\n"good, film",1\nbad,0\n'
ROWS = _lines({"text": "good", "label": 1}, {"text": "bad", "label": 0})
VECTORS = b"3 2\ngood 0.1 0.2\nbad -1.5 2e3\nfilm 1 2\n"
LISTS = _json({"good": ["fine", "great"], "bad": ["poor"]})
JOURNAL = _lines({"about": {"seed": 0}}, asdict(RECORD))
SIDE = _json({"about": {"checkpoint": "ab", "samples": 3}, "seconds": 1.5, "summary": None})


def _run(path: Path) -> RunDirectory:
    return RunDirectory(path.parent)


def _results(path: Path) -> None:
    content = results.read(path)
    if content is not None:
        summary_table.notes(content)
        summary_table.table(content)


def _runs(path: Path) -> None:
    table_of_runs(list_runs(path.parent.parent))


def _synonyms(path: Path) -> None:
    WordNet(path).synonyms("good")


def _tagger(path: Path) -> None:
    Tagger.read(path).tag(["the", "good", "film"])


def _request(path: Path) -> None:
    try:
        parse_body(path.read_bytes())
    except RequestError as error:
        # The error of the API: the server responds with its status.
        if error.status_code != 400:
            raise
        raise DataError(str(error)) from error


def _records(path: Path) -> None:
    ledger = Ledger(path)
    ledger.seconds()
    ledger.records()
    ledger.problem({"checkpoint": "ab"}, "file this elsewhere")


def _sheet(path: Path) -> None:
    read_rated(path, {"items": {"1": {}}, "classes": ["good", "bad"], "attacks": {}})


def _table(ending: str, content: bytes) -> list[Reader]:
    def read(path: Path) -> None:
        _drain(read_rows(path, ("text", "label")))

    def asked(path: Path) -> None:
        _drain(read_file(path, ("text", "text_pair"), pairs=False))

    change = change_json if ending == "jsonl" else change_bytes
    name = f"train.{ending}"
    return [
        Reader(f"rows .{ending}", name, content, read, change),
        Reader(f"rows .{ending}.gz", f"{name}.gz", gzip.compress(content), read, packed(change)),
        Reader(f"columns .{ending}", name, content, column_names, change),
        Reader(f"asked .{ending}", name, content, asked, change),
    ]


READERS: list[Reader] = [
    *(
        one
        for end, text in (("tsv", TABLE), ("csv", COMMAS), ("jsonl", ROWS))
        for one in _table(end, text)
    ),
    Reader(
        "rows .parquet", "a.parquet", _parquet(), lambda p: _drain(read_rows(p, ("text", "label")))
    ),
    Reader("columns .parquet", "a.parquet", _parquet(), column_names),
    Reader("CoNLL", "a.conll", b"good\tO\nfilm\tB-X\n\nbad\tO\n", lambda p: _drain(read_conll(p))),
    Reader(
        "entries",
        "a.json",
        _json([{"a": [1]}, {"a": [2]}]),
        lambda p: _drain(read_entries(p)),
        change_json,
    ),
    Reader("vectors", "v.txt", VECTORS, read_vectors),
    Reader("vectors .gz", "v.txt.gz", gzip.compress(VECTORS), read_vectors, packed(change_bytes)),
    Reader("vectors .zip", "v.zip", _zip(**{"v.txt": VECTORS}), read_vectors, change_zip),
    Reader("neighbours", "n.json", LISTS, ListedNeighbours.read, change_json),
    Reader(
        "neighbours .gz",
        "n.json.gz",
        gzip.compress(LISTS),
        ListedNeighbours.read,
        packed(change_json),
    ),
    Reader("lists", "l.json", LISTS, Synonyms.read, change_json),
    Reader("lists .gz", "l.json.gz", gzip.compress(LISTS), Synonyms.read, packed(change_json)),
    Reader("encoding", "e.json", _json({"good": "fine"}), SynonymEncoding.read, change_json),
    Reader(
        "word pairs",
        "p.txt",
        b"good fine\nbad poor\n",
        lambda p: read_pairs(p, {"good": 0, "fine": 1}),
    ),
    Reader("tagger", f"{NAME}.zip", TAGGER, _tagger, change_zip),
    Reader("WordNet", "wordnet.zip", WORDNET, _synonyms, change_zip),
    Reader("journal", "j.jsonl", JOURNAL, lambda p: read_lines(p, from_line), change_json),
    Reader("records of ranks", "rank-0.jsonl", JOURNAL, read_part, change_json),
    Reader(
        "attack records",
        "attacks/pwws.jsonl",
        _lines(asdict(RECORD)),
        _records,
        change_json,
        (("attacks/pwws.json", SIDE),),
    ),
    Reader(
        "attack settings",
        "attacks/pwws.json",
        SIDE,
        lambda p: _records(p.with_suffix(".jsonl")),
        change_json,
        (("attacks/pwws.jsonl", _lines(asdict(RECORD))),),
    ),
    Reader("results", "results.json", _json(RESULTS), _results, change_json),
    Reader(
        "runs: results",
        "r/results.json",
        _json(RESULTS),
        _runs,
        change_json,
        (("r/config.yaml", CONFIG),),
    ),
    Reader("runs: settings", "r/config.yaml", CONFIG, _runs, change_yaml),
    Reader(
        "metrics",
        "metrics.csv",
        b"step,epoch,loss\n1,0,0.5\n2,0,0.25\n",
        lambda p: _drain(_rows(p)),
    ),
    Reader(
        "trackers", "trackers.json", _json({"mlflow": "a"}), lambda p: _known(_run(p)), change_json
    ),
    Reader("settings", "config.yaml", CONFIG, lambda p: read_yaml(p, "settings"), change_yaml),
    Reader("study", "study.yaml", STUDY, examine, change_yaml),
    Reader(
        "study.json",
        "study.json",
        (ROOT / "docs/results/lips_lev.json").read_bytes(),
        study_json.read,
        change_json,
    ),
    Reader(
        "part of a study",
        "part.json",
        _json({"format": cells.PART_FORMAT, "study": "a", "digest": "b", "shard": "1/1"}),
        cells._read_shard,
        change_json,
    ),
    Reader(
        "attack",
        "own.yaml",
        b"name: own\ntransformation: {swap: {}}\nsearch: greedy\n",
        lambda p: read_attack(str(p)),
        change_yaml,
    ),
    Reader(
        "published .json",
        "dev.json",
        _json({"sst2": [{"sentence": "good", "label": 1}]}),
        read_published,
        change_json,
    ),
    Reader("published .jsonl", "dev.jsonl", _lines(asdict(RECORD)), read_published, change_json),
    Reader(
        "published .txt",
        "adv.txt",
        b"orig sent (1):\tgood film\nadv sent (0):\tfine film\n\n",
        read_published,
    ),
    Reader("rating sheet", "sheet.csv", b'item,text,class,natural\n1,"good",good,3\n', _sheet),
    Reader("running text", "t.txt", b"good film\nbad\n", lambda p: running_text([p], 9)),
    Reader(
        "rating key",
        "key.json",
        _json({"items": {"1": {}}, "classes": ["a"], "attacks": {}}),
        read_key,
        change_json,
    ),
    Reader(
        "answers",
        "a.jsonl",
        _lines({"text": "a", "prediction": "b", "probability": 0.5}),
        lambda p: read_answers(str(p)),
        change_json,
    ),
    Reader(
        "template",
        "t.json",
        _json({"text": "$text"}),
        lambda p: template(str(p), "request"),
        change_json,
    ),
    Reader("request", "body.json", _json({"text": "a"}), _request, change_json),
    Reader(
        "JSON",
        "a.json",
        _json({"a": [1, {"b": None}]}),
        lambda p: read_json(p, "JSON"),
        change_json,
    ),
    Reader("checkpoint", "last.ckpt", _checkpoint(), read_checkpoint, change_zip),
    Reader(
        "exported model",
        "steadfast.json",
        _json({"weights_sha256": sha256(WEIGHTS).hexdigest(), "epoch": 1}),
        lambda p: read_exported(p.parent),
        change_json,
        (("steadfast.safetensors", WEIGHTS),),
    ),
]
