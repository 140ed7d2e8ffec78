"""What is said of a corpus before training, and what stops it."""

import logging
from pathlib import Path
from typing import Any

import pytest

from datamodules import AGNews, DataError, Reviews, TaggedFiles, TextFiles
from datamodules.sources.survey import describe_rows


def written(path: Path, rows: list[tuple[str, str]]) -> str:
    lines = [f"{text}\t{label}" for text, label in rows]
    path.write_text("\n".join(["text\tlabel", *lines]) + "\n")
    return str(path)


def rows(**counts: int) -> list[tuple[str, str]]:
    return [(f"{label} text {i}", label) for label, n in counts.items() for i in range(n)]


def corpus(folder: Path, train: list[tuple[str, str]], **settings: Any) -> TextFiles:
    validation = written(folder / "validation.tsv", rows(neg=1, pos=1))
    test = written(folder / "test.tsv", [("pos text 3", "pos"), ("a new text", "neg")])
    return TextFiles(
        train=written(folder / "train.tsv", train), validation=validation, test=test, **settings
    )


def test_a_typo_is_no_class(tmp_path: Path) -> None:
    module = corpus(tmp_path, rows(neg=30, pos=30, Pos=1))
    with pytest.raises(DataError) as error:
        module.setup("fit")
    assert str(error.value) == (
        "text_files: got too few training rows, 1 of 'Pos' (a typo of 'pos'?) "
        "(Pos 1, neg 30, pos 30), expected at least 2 of each class: correct the labels, or pass "
        "`--data.min_rows_per_class 1`"
    )
    corpus(tmp_path, rows(neg=30, pos=30, Pos=1), min_rows_per_class=1).setup("fit")
    with pytest.raises(DataError, match="expected at least 50 of each class"):
        corpus(tmp_path, rows(neg=30, pos=60), min_rows_per_class=50).setup("fit")


def test_a_class_without_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "ag_news").mkdir()
    for split in ("train", "validation", "test"):
        written(tmp_path / "ag_news" / f"{split}.tsv", rows(World=3, Sports=3, Business=3))
    # No typo can make a class of a corpus whose classes are known.
    AGNews(data_dir=str(tmp_path)).setup("fit")
    assert "train 9 (World 3, Sports 3, Business 3, Sci/Tech 0)" in caplog.text
    settings: dict[str, Any] = {"train": str(tmp_path / "ag_news" / "train.tsv"), "name": "mine"}
    classes = ["World", "Sports", "Business", "Tech"]
    with pytest.raises(DataError, match=r"too few training rows, 0 of 'Tech' \(World 3"):
        TextFiles(**settings, classes=classes).setup("fit")
    TextFiles(**settings, classes=classes, min_rows_per_class=0).setup("fit")


def test_types_of_tags(tmp_path: Path) -> None:
    sentence = "we O\nlove O\nParis B-place\n\n"
    path = tmp_path / "train.conll"
    path.write_text(5 * sentence + "Rome B-plcae\n\n")
    with pytest.raises(DataError, match=r"1 of 'plcae' \(a typo of 'place'\?\) \(place 5, plcae 1"):
        TaggedFiles(train=str(path), validation=str(path)).setup("fit")


def test_what_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    train = rows(neg=30, pos=30, Pos=2)
    corpus(tmp_path, train, limit_train=20).setup("fit")
    messages = caplog.messages
    assert messages[0].startswith("text_files: train 20 (Pos ")
    assert messages[0].endswith(
        "; validation 2 (Pos 0, neg 1, pos 1); test 2 (Pos 0, neg 1, pos 1)"
    )
    assert messages[1] == "text_files: classes 'Pos' and 'pos' differ in case alone"
    caplog.clear()
    corpus(tmp_path, train).setup("fit")
    assert [line.partition(": ")[2] for line in caplog.messages[2:]] == [
        "2 of 2 validation texts (100.0 %) are training texts, too: a figure on these says "
        "nothing about unseen texts",
        "1 of 2 test texts (50.0 %) are training texts, too: a figure on these says nothing "
        "about unseen texts",
    ]


def test_a_broken_test_file_does_not_keep_from_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    module = corpus(tmp_path, rows(neg=30, pos=30))
    (tmp_path / "test.tsv").write_text("text\tlabel\nfine\tunknown\n")
    module.setup("fit")
    assert caplog.messages[0].startswith("text_files: the test split is not looked at (got 1 bad")
    with pytest.raises(DataError, match="unknown label"):
        module.setup("test")


def test_the_built_in_corpus_shares_no_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    Reviews().setup("fit")
    assert caplog.messages == [
        "reviews: train 4,000 (negative 2,000, positive 2,000); "
        "validation 500 (negative 250, positive 250); test 1,000 (negative 500, positive 500)"
    ]


def test_many_classes_make_one_line() -> None:
    many = {f"class {i}": 1 + i for i in range(1000)}
    line = describe_rows(many)
    assert line.startswith("1,000 classes, most rows: class 999 1,000, class 998 999,")
    assert line.endswith("class 1 2, class 0 1")
    assert len(line) < 250
