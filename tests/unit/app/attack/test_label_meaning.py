"""The same column of labels means the same classes in training, `--dataset` and `attack pairs`."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datamodules import DataError, TextFiles
from measure.published_pairs import record_classes
from measure.table_samples import LabelledTable, as_classes, read_table
from tests.unit.attacks.outcomes import record

NAMES = st.sampled_from(
    ["negative", "positive", "None", "-", "a b", "True", "caf\u00e9", "01", "B"]
)
NUMBERS = st.integers(-1, 9)
COLUMNS = st.one_of(
    st.lists(NAMES, min_size=2, max_size=8),
    st.lists(NUMBERS, min_size=2, max_size=8),
    st.lists(NUMBERS.map(float), min_size=2, max_size=8),
    st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0]), min_size=2, max_size=8),
    st.lists(st.booleans(), min_size=2, max_size=8),
).filter(lambda labels: len(set(labels)) > 1)
ENDINGS = (".tsv", ".csv", ".jsonl", ".parquet")


def write(folder: Path, ending: str, labels: list[Any]) -> str:
    """Write texts with these labels; returns the name of the file."""
    path = folder / f"rows{ending}"
    rows = [{"text": f"text {i}", "label": label} for i, label in enumerate(labels)]
    if ending == ".parquet":
        Dataset.from_list(rows).to_parquet(path)
    elif ending == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with path.open("w", newline="") as stream:
            mark = "\t" if ending == ".tsv" else ","
            writer = csv.writer(stream, delimiter=mark, lineterminator="\n")
            writer.writerows([["text", "label"], *(row.values() for row in rows)])
    return path.name


@pytest.mark.long
@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(labels=COLUMNS, missing=st.booleans())
def test_one_column_means_one_thing(tmp_path: Path, labels: list[Any], missing: bool) -> None:
    column = [*labels, None] if missing else labels
    trained: set[tuple[str, ...]] = set()
    read: set[tuple[int, ...]] = set()
    for ending in ENDINGS:
        name = write(tmp_path, ending, column)
        corpus = TextFiles(
            train=name, test=name, min_rows_per_class=0, on_bad_row="skip", data_dir=str(tmp_path)
        )
        corpus.setup("test")
        trained.add(tuple(corpus.class_names))
        own = tuple(one.label for one in corpus.examples("test") if isinstance(one.label, int))
        samples = as_classes(read_table(str(tmp_path / name)), corpus.class_names)
        assert tuple(one.label for one in samples) == own
        # A victim with the same classes in another order.
        turned = corpus.class_names[::-1]
        others = as_classes(read_table(str(tmp_path / name)), turned)
        assert [turned[one.label] for one in others] == [corpus.class_names[i] for i in own]
        read.add(own)
    assert len(trained) == len(read) == 1
    (own,) = read
    (classes,) = trained
    # The records of an attack name these classes.
    path = tmp_path / "records.jsonl"
    rows = [record(i, label=one, label_name=classes[one]).line() for i, one in enumerate(own)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    named = record_classes(path)
    assert named is not None
    pairs: list[Any] = [(i, "text", one) for i, one in enumerate(own)]
    table = LabelledTable(name="records", columns=("text",), rows=pairs, names=named)
    again = as_classes(table, classes[::-1])
    assert [classes[::-1][one.label] for one in again] == [classes[i] for i in own]


@pytest.mark.parametrize("ending", ENDINGS)
def test_float_labels_of_training_and_whole_ones_of_the_test(tmp_path: Path, ending: str) -> None:
    train = write(tmp_path, ending, [1.0, 2.0, 3.0])
    (tmp_path / train).rename(tmp_path / f"train{ending}")
    test = write(tmp_path, ending, [1, 2, 3])
    corpus = TextFiles(
        train=f"train{ending}", test=test, min_rows_per_class=0, data_dir=str(tmp_path)
    )
    corpus.setup("test")
    assert corpus.class_names == ["1", "2", "3"]
    assert [one.label for one in corpus.examples("test")] == [0, 1, 2]


@pytest.mark.parametrize("on_bad_row", ["stop", "skip"])
def test_names_and_indices_in_one_file_are_refused(tmp_path: Path, on_bad_row: Any) -> None:
    name = write(tmp_path, ".tsv", ["positive", "negative", 1])
    corpus = TextFiles(
        test=name, classes=["negative", "positive"], on_bad_row=on_bad_row, data_dir=str(tmp_path)
    )
    with pytest.raises(DataError, match=r"line 4: got the label 'positive', .* in one file"):
        corpus.setup("test")
    with pytest.raises(ValueError, match=r"row 3: got the label 'positive', .* in one file"):
        as_classes(read_table(str(tmp_path / name)), ["negative", "positive"])


def test_an_index_is_no_name_of_a_star(tmp_path: Path) -> None:
    name = write(tmp_path, ".tsv", [0, 1, 2, 3, 4])
    with pytest.raises(ValueError, match=r"got labels '0' in .*--label_names"):
        as_classes(read_table(str(tmp_path / name)), ["1", "2", "3", "4", "5"])


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
@pytest.mark.parametrize("on_bad_row", ["stop", "skip"])
def test_several_labels_of_a_text_are_refused(tmp_path: Path, ending: str, on_bad_row: Any) -> None:
    name = write(tmp_path, ending, [[0, 3], [1], [2]])
    for classes in (None, ["a", "b", "c", "d"]):
        corpus = TextFiles(
            train=name, test=name, classes=classes, on_bad_row=on_bad_row, data_dir=str(tmp_path)
        )
        with pytest.raises(DataError, match="multi-label data"):
            corpus.setup("test")
    with pytest.raises(ValueError, match="multi-label data"):
        as_classes(read_table(str(tmp_path / name)), ["a", "b", "c", "d"])


def test_what_numbers_mean_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    name = write(tmp_path, ".tsv", [0, 1, 0, 1, ""])
    corpus = TextFiles(train=name, test=name, classes=["no", "yes"], on_bad_row="skip",
                       data_dir=str(tmp_path))  # fmt: skip
    with caplog.at_level("INFO"):
        corpus.setup()
        assert caplog.text.count("labels are numbers: 0 = no, 1 = yes") == 1
        caplog.clear()
        as_classes(read_table(str(tmp_path / name)), ["no", "yes"])
    assert "labels are numbers: 0 = no, 1 = yes" in caplog.text
    assert "1 row without label left out" in caplog.text
