"""The `datasets` library against a server on the loopback interface."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.datamodules.hub_server import hub, load

PROGRAM = """
import json, sys
from text import process_role

process_role.predicts_only = True  # without Lightning, whose import takes longer than the rest
import datamodules

class Nowhere(datamodules.SST2):
    hub_id = "nobody/nothing"

datamodules.Nowhere = Nowhere
results = []
for name, stage, folder in json.loads(sys.argv[1]):
    module = getattr(datamodules, name)(data_dir=folder)
    try:
        module.prepare_data()
        module.setup(stage)
        examples = module._examples.items()
        results.append({split: [row[:3] for row in rows] for split, rows in examples})
    except datamodules.DataError as error:
        results.append(str(error))
print(json.dumps(results))
"""


def lines(*rows: dict[str, object]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


ANLI_SPLITS = [f"{split}_r{i}" for split in ("train", "dev", "test") for i in (1, 2, 3)]
REPOSITORIES = {
    "stanfordnlp/sst2": {
        "data/train.jsonl": lines(
            {"idx": 0, "sentence": "a good film", "label": 1},
            {"idx": 1, "sentence": "a bad film", "label": 0},
        ),
        "data/validation.jsonl": lines({"idx": 0, "sentence": "fine", "label": 1}),
        "data/test.jsonl": lines({"idx": 0, "sentence": "hidden", "label": -1}),
    },
    "stanfordnlp/snli": {
        "train.jsonl": lines(
            {"premise": "it rains", "hypothesis": "it is wet", "label": 0},
            {"premise": "it rains", "hypothesis": "they argue", "label": -1},
            {"premise": "it rains", "hypothesis": "it is dry", "label": 2},
        ),
        "validation.jsonl": lines({"premise": "a", "hypothesis": "b", "label": 1}),
        "test.jsonl": lines({"premise": "c", "hypothesis": "d", "label": -1},
                            {"premise": "e", "hypothesis": "f", "label": 1}),
    },
    "nyu-mll/glue": {
        # Configurations are told in the card, as on the real hub.
        "README.md": b"""---
configs:
- config_name: other
  data_files: [{split: train, path: other/train.jsonl}]
- config_name: qqp
  data_files:
  - {split: train, path: qqp/train.jsonl}
  - {split: validation, path: qqp/validation.jsonl}
  - {split: test, path: qqp/test.jsonl}
- config_name: mnli
  data_files:
  - {split: train, path: mnli/train.jsonl}
  - {split: validation_matched, path: mnli/matched.jsonl}
  - {split: validation_mismatched, path: mnli/mismatched.jsonl}
- config_name: stsb
  data_files:
  - {split: train, path: stsb/train.jsonl}
  - {split: validation, path: stsb/validation.jsonl}
  - {split: test, path: stsb/test.jsonl}
---
""",
        "other/train.jsonl": lines({"x": 1}),
        "qqp/train.jsonl": lines({"question1": "a?", "question2": "b?", "label": 0, "idx": 0}),
        "qqp/validation.jsonl": lines({"question1": "c?", "question2": "d?", "label": 1, "idx": 0}),
        "mnli/train.jsonl": lines({"premise": "a", "hypothesis": "b", "label": 0, "idx": 0}),
        "mnli/matched.jsonl": lines({"premise": "c", "hypothesis": "d", "label": 1, "idx": 0}),
        "mnli/mismatched.jsonl": lines({"premise": "e", "hypothesis": "f", "label": 2, "idx": 0}),
        "stsb/train.jsonl": lines({"sentence1": "a", "sentence2": "b", "label": 2.5, "idx": 0}),
        "stsb/validation.jsonl": lines(
            {"sentence1": "c", "sentence2": "d", "label": 5.0, "idx": 0}
        ),
        "stsb/test.jsonl": lines({"sentence1": "e", "sentence2": "f", "label": -1.0, "idx": 0}),
        "qqp/test.jsonl": lines({"question1": "e?", "question2": "f?", "label": -1, "idx": 0}),
    },
    "facebook/anli": {
        "README.md": ("""---
configs:
- config_name: plain_text
  data_files:
""" + "".join(f"  - {{split: {split}, path: data/{split}.jsonl}}\n" for split in ANLI_SPLITS)
                      + "---\n").encode(),
        **{
            f"data/{split}.jsonl": lines(
                {"uid": "1", "premise": split, "hypothesis": "b", "label": 2, "reason": ""}
            )
            for split in ANLI_SPLITS
        },
    },
    "Rowan/hellaswag": {
        "train.jsonl": lines(
            {"ind": 1, "ctx": "a man", "endings": ["runs.", "eats.", "is.", "sits."], "label": "3"}
        ),
        "validation.jsonl": lines(
            {"ind": 2, "ctx": "a dog", "endings": ["barks.", "reads.", "is.", "as."], "label": "0"}
        ),
        "test.jsonl": lines(
            {"ind": 3, "ctx": "a cat", "endings": ["a.", "b.", "c.", "d."], "label": ""}
        ),
    },
    "fancyzhx/ag_news": {
        "train.jsonl": lines(*({"text": f"item {i}", "label": i % 4} for i in range(40))),
        "test.jsonl": lines({"text": "item", "label": 3}),
    },
    "fancyzhx/yelp_polarity": {
        "train.jsonl": lines({"review": "a", "label": 0}),
        "test.jsonl": lines({"review": "a", "label": 0}),
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hub")


@pytest.fixture(scope="module")
def online(home: Path) -> tuple[dict[str, Any], str, list[str]]:
    """What each corpus gives with the hub in reach, the log, and the requests."""
    names = ["SST2", "SNLI", "QQP", "AGNews", "YelpPolarity", "Nowhere"]
    names += ["MNLI", "STSB", "ANLI", "HellaSwag"]
    with hub(REPOSITORIES) as (endpoint, requests):
        results, log = load(PROGRAM, endpoint, home, [(name, None, None) for name in names])
    return dict(zip(names, results, strict=True)), log, requests


def test_corpora_of_the_hub(online: tuple[dict[str, Any], str, list[str]]) -> None:
    results, log, requests = online
    assert any("sst2/resolve" in request and "train.jsonl" in request for request in requests)
    # The hub's test texts of SST-2 and QQP have no labels: validation stands for them, and it is
    # said so.
    assert results["SST2"] == {
        "train": [["a good film", 1, 0], ["a bad film", 0, 1]],
        "validation": [["fine", 1, 0]],
        "test": [["fine", 1, 0]],
    }
    assert results["QQP"] == {
        "train": [[["a?", "b?"], 0, 0]],
        "validation": [[["c?", "d?"], 1, 0]],
        "test": [[["c?", "d?"], 1, 0]],
    }
    assert "sst2: no labelled test split" in log
    assert "qqp: no labelled test split" in log
    # Pairs without agreement are no part of SNLI.
    assert results["SNLI"] == {
        "train": [[["it rains", "it is wet"], 0, 0], [["it rains", "it is dry"], 2, 1]],
        "validation": [[["a", "b"], 1, 0]],
        "test": [[["e", "f"], 1, 0]],
    }
    # AG News has no validation split: two of forty.
    sizes = {split: len(examples) for split, examples in results["AGNews"].items()}
    assert sizes == {"train": 38, "validation": 2, "test": 1}


def test_corpora_in_several_splits_and_of_other_tasks(
    online: tuple[dict[str, Any], str, list[str]],
) -> None:
    results, log, _ = online
    matched = [[["c", "d"], 1, 0]]
    assert results["MNLI"] == {
        "train": [[["a", "b"], 0, 0]],
        "validation": matched,
        "test": matched,
    }
    assert results["STSB"] == {
        "train": [[["a", "b"], 2.5, 0]],
        "validation": [[["c", "d"], 5.0, 0]],
        "test": [[["c", "d"], 5.0, 0]],
    }
    assert results["ANLI"]["validation"] == [[[f"dev_r{i}", "b"], 2, i - 1] for i in (1, 2, 3)]
    assert results["ANLI"]["test"] == [[[f"test_r{i}", "b"], 2, i - 1] for i in (1, 2, 3)]
    dog = [[["a dog", ["barks.", "reads.", "is.", "as."]], 0, 0]]
    assert results["HellaSwag"]["train"] == [[["a man", ["runs.", "eats.", "is.", "sits."]], 3, 0]]
    assert results["HellaSwag"]["validation"] == results["HellaSwag"]["test"] == dog
    for corpus in ("mnli", "stsb", "hellaswag"):
        assert f"{corpus}: no labelled test split" in log
    assert "anli: no labelled" not in log


def test_hub_datasets_that_cannot_be_used(online: tuple[dict[str, Any], str, list[str]]) -> None:
    results, _, _ = online
    assert "got columns ['review', 'label'], expected ['text']" in results["YelpPolarity"]
    assert "no --data.data_dir was given" in results["Nowhere"]
    assert "nobody/nothing" in results["Nowhere"]
    assert "doesn't exist on the Hub" in results["Nowhere"]


def test_without_the_hub_the_cache_or_one_error_at_once(
    online: tuple[dict[str, Any], str, list[str]], home: Path, tmp_path: Path
) -> None:
    # Nothing listens there. The library alone would repeat its requests for most of a minute.
    jobs = [("SST2", None, None), ("Nowhere", "fit", str(tmp_path))]
    (cached, error), _ = load(PROGRAM, "http://127.0.0.1:9", home, jobs)
    assert cached == online[0]["SST2"]
    assert str(tmp_path / "sst2" / "train") in error
    assert "hub dataset nobody/nothing could not be loaded" in error
    assert "the hub cannot be reached" in error
    assert "Either put it into a folder DIR as sst2/train.tsv and pass --data.data_dir DIR" in error
    assert "or run once where the hub can be reached" in error
