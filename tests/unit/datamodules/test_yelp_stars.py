"""The corpus of stars: its labels, its splits, its files."""

import gzip
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from datamodules import DataError, YelpStars
from datamodules.sources.rows import Split
from text import Sample

SPLITS: tuple[Split, ...] = ("train", "validation", "test")


def write(folder: Path, rows: list[str], name: str = "yelp_stars/reviews.tsv") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["text\tstars", *rows, ""]))
    return path


def corpus(folder: Path, **settings: Any) -> YelpStars:
    module = YelpStars(data_dir=str(folder), **settings)
    module.setup()
    return module


def texts(module: YelpStars) -> dict[Split, list[Sample]]:
    return {split: [example.text for example in module.examples(split)] for split in SPLITS}


NUMBERED = [f"review {i}\t{1 + i % 5}" for i in range(200)]


def test_up_to_three_stars_are_negative(tmp_path: Path) -> None:
    rows = [f"{stars} in review {i}\t{stars}" for i in range(4) for stars in (1, 2, 3, 4, 5)]
    write(tmp_path, [*rows, "5 as a float\t5.0", "3 as a float\t3.0"])
    module = corpus(tmp_path, shares=(0.4, 0.3, 0.3))
    for split in SPLITS:
        for text, label, *_ in module.examples(split):
            assert label == (str(text)[0] in "45")


def test_splits_are_disjoint_exhaustive_and_repeated(tmp_path: Path) -> None:
    write(tmp_path, NUMBERED)
    splits = texts(corpus(tmp_path))
    assert {split: len(splits[split]) for split in SPLITS} == {
        "train": 160, "validation": 20, "test": 20,
    }  # fmt: skip
    together = [text for split in SPLITS for text in splits[split]]
    assert sorted(map(str, together)) == sorted(row.split("\t")[0] for row in NUMBERED)
    assert texts(corpus(tmp_path, seed=3)) == splits  # that of the run
    assert texts(corpus(tmp_path, split_seed=1)) != splits
    # One stage alone has the same rows, and so has a prediction.
    alone = YelpStars(data_dir=str(tmp_path))
    alone.setup("predict")
    assert [example.text for example in alone.examples("test")] == splits["test"]
    assert [example.sample_id for example in alone.examples("test")] == list(range(20))


def test_a_draw_of_reviews_by_the_seed(tmp_path: Path) -> None:
    write(tmp_path, NUMBERED)
    splits = texts(corpus(tmp_path, reviews=50, shares=(0.5, 0.3, 0.2)))
    assert [len(splits[split]) for split in SPLITS] == [25, 15, 10]
    assert len({text for split in SPLITS for text in splits[split]}) == 50


def test_files_of_the_polarity_corpus_stand_in(tmp_path: Path) -> None:
    write(tmp_path, NUMBERED[:120], "yelp_polarity/train.tsv")
    write(tmp_path, NUMBERED[120:], "yelp_polarity/test.tsv")
    united = texts(corpus(tmp_path))
    packed = tmp_path / "yelp_stars" / "reviews.tsv.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress("\n".join(["text\tstars", *NUMBERED, ""]).encode()))
    assert texts(corpus(tmp_path)) == united
    write(tmp_path, ["own\t1", "an own\t5", "owned\t4"], "yelp_stars/reviews.tsv")
    packed.unlink()
    assert len(texts(corpus(tmp_path, shares=(0.4, 0.3, 0.3)))["train"]) == 1


def test_negatives_are_repeated_in_training_alone(tmp_path: Path) -> None:
    write(tmp_path, NUMBERED)
    plain, doubled = corpus(tmp_path), corpus(tmp_path, upsample={"negative": 2})
    times = Counter(example.text for example in doubled.examples("train"))
    for text, label, *_ in plain.examples("train"):
        assert times[text] == (1 if label else 2)
    for split in SPLITS[1:]:
        assert doubled.examples(split) == plain.examples(split)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["fine\t6"], "line 2: got stars '6', expected a whole number from 1 to 5"),
        (["fine\t4.5"], "line 2: got stars '4.5', expected a whole number from 1 to 5"),
        (["fine\tmany"], "line 2: got stars 'many'"),
        (["fine\t"], "line 2: no label in column 'stars'"),
        (["fine\t5", "dull\t1"], "got 2 review(s) and shares [0.8, 0.1, 0.1], which leave none"),
    ],
)
def test_wrong_rows(tmp_path: Path, rows: list[str], message: str) -> None:
    write(tmp_path, rows)
    with pytest.raises(DataError, match=re.escape(message)):
        corpus(tmp_path)


def test_a_row_without_stars_is_no_row_at_any_stage(tmp_path: Path) -> None:
    write(tmp_path, [*NUMBERED, "bare\t"])
    with pytest.raises(DataError, match="got 1 bad row"):
        corpus(tmp_path)
    splits = texts(corpus(tmp_path, on_bad_row="skip"))
    (tmp_path / "yelp_stars" / "reviews.tsv").unlink()
    write(tmp_path, NUMBERED)
    assert texts(corpus(tmp_path)) == splits


def test_a_missing_column_and_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "yelp_stars" / "reviews.tsv"
    path.parent.mkdir()
    with pytest.raises(DataError, match=r"got no reviews split: .*reviews.* is absent; put it"):
        corpus(tmp_path)
    path.write_text("text\tlabel\nfine\t1\n")
    with pytest.raises(DataError, match=re.escape("expected ['stars'] among them")):
        corpus(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shares": (0.8, 0.1, 0.2)}, "got shares [0.8, 0.1, 0.2], expected three positive"),
        ({"shares": (0.9, 0.1, 0.0)}, "got shares [0.9, 0.1, 0.0], expected three positive"),
        ({"reviews": 2}, "got reviews=2, expected a whole number of at least 3"),
        ({"split_seed": -1}, "got split_seed=-1"),
        ({"upsample": {"negative": 0.5}}, "got upsample.negative=0.5, expected a finite number of"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        YelpStars(**settings)


@pytest.mark.data
def test_real_reviews(data_dir: Path) -> None:
    module = YelpStars(data_dir=str(data_dir))
    module.setup()
    assert [len(module.examples(split)) for split in SPLITS] == [7151, 894, 894]
