"""Columns and labels of tables, found or asked for."""

import json
from pathlib import Path
from typing import Any

import pytest
from datasets import ClassLabel, Dataset, Features, Value

from datamodules.sources.column_names import column_names
from measure import table_samples
from measure.table_samples import LabelledTable, as_classes, read_table
from text.bounded_files import DataError

ROWS = [{"premise": "A dog runs.", "hypothesis": "A cat sleeps.", "label": 2, "id": "x"}]


@pytest.mark.parametrize("ending", [".tsv", ".csv", ".jsonl", ".parquet"])
def test_usual_columns_are_found_in_every_format(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"rows{ending}"
    if ending == ".parquet":
        Dataset.from_list(ROWS).to_parquet(path)
    elif ending == ".jsonl":
        path.write_text(json.dumps(ROWS[0]) + "\n")
    else:
        mark = "\t" if ending == ".tsv" else ","
        content = [[*ROWS[0]], [str(value) for value in ROWS[0].values()]]
        path.write_text("".join(mark.join(row) + "\n" for row in content))
    assert column_names(path) == ["premise", "hypothesis", "label", "id"]
    table = read_table(str(path))
    assert table.columns == ("premise", "hypothesis")
    (sample,) = as_classes(table, ["a", "b", "c"])
    assert (sample.text, sample.label) == (("A dog runs.", "A cat sleeps."), 2)


def test_all_that_is_missing_is_asked_for_at_once(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("body\tstars\nfine\t1\n")
    with pytest.raises(ValueError, match=r"columns body, stars, .*--columns TEXT .* and --label"):
        read_table(str(path))
    with pytest.raises(ValueError, match=r"without words.*meant: --columns TEXT"):
        read_table(str(path), columns=["words"], label="stars")
    assert read_table(str(path), columns=["body"], label="stars").rows == [(0, "fine", "1")]


def test_an_empty_file_is_named_as_empty(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.touch()
    with pytest.raises(ValueError, match=r"rows.tsv, which is empty, expected the names of"):
        read_table(str(path))


def test_a_broken_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("text\tlabel\nfine\t1\nworse\n")
    with pytest.raises(ValueError, match="line 3: got 1 fields, expected 2"):
        read_table(str(path))
    with pytest.raises(DataError, match="not found"):
        column_names(tmp_path / "nowhere.tsv")


def table(labels: list[Any], names: tuple[str, ...] | None = None) -> LabelledTable:
    rows: list[Any] = [(i, f"text {i}", label) for i, label in enumerate(labels)]
    return LabelledTable(name="rows", columns=("text",), rows=rows, names=names)


def labels(*given: Any, **named: Any) -> list[int]:
    return [sample.label for sample in as_classes(*given, **named)]


def test_names_count_before_numbers() -> None:
    glue = ("entailment", "neutral", "contradiction")
    other = ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"]
    assert labels(table([0, 1, 2], glue), other) == [2, 1, 0]
    assert labels(table(["Neutral", "entailment"]), other) == [1, 2]
    assert labels(table([0, 1, 2], glue), ["LABEL_0", "LABEL_1", "LABEL_2"]) == [0, 1, 2]
    assert labels(table(["0", "2"]), other) == [0, 2]


def test_other_names_have_to_be_told() -> None:
    with pytest.raises(ValueError, match=r"labels 0 \(bad\), 1 \(good\) in rows.*LABEL=CLASS"):
        as_classes(table([0, 1], ("bad", "good")), ["negative", "positive"])
    told = ["bad=negative", "good=positive"]
    assert labels(table([1, 0], ("bad", "good")), ["negative", "positive"], told) == [1, 0]
    assert labels(table([0, 1]), ["negative", "positive"], ["positive", "negative"]) == [1, 0]
    with pytest.raises(ValueError, match="expected classes of the victim: negative, positive"):
        as_classes(table([0]), ["negative", "positive"], ["great"])


def test_a_data_set_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    features = Features({"text": Value("string"), "label": ClassLabel(names=["neg", "pos"])})
    rows = {"text": ["fine", "unknown", "dull"], "label": [1, -1, 0]}
    asked = []

    def load(*given: Any) -> Dataset:
        asked.append(given)
        return Dataset.from_dict(rows, features=features)

    monkeypatch.setattr(table_samples, "load", load)
    found = read_table("hf:owner/name:config:validation")
    assert asked == [("owner/name", "config", "validation")]
    assert found.names == ("neg", "pos")
    # Rows without a label are left out; the others keep their place.
    assert [(one.sample_id, one.label) for one in as_classes(found, ["POS", "NEG"])] == [
        (0, 0),
        (2, 1),
    ]
    read_table("hf:owner/name:test")
    assert asked[-1] == ("owner/name", None, "test")
    with pytest.raises(ValueError, match="expected hf:ID:SPLIT"):
        read_table("hf:owner/name")
