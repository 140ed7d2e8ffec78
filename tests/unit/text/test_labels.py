"""The meaning of labels: spellings, names before indices, one kind in a file."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from text import ClassLabels, FileLabelsError, find_classes, label_text, same_classes

NUMBERS = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False)


@pytest.mark.parametrize(
    ("values", "spelling"),
    [
        ((1, 1.0, "1", "1.0", " 1 ", "+1", "1.", np.int64(1), np.float32(1), np.str_("1")), "1"),
        ((-1, -1.0, "-1", "-1.0"), "-1"),
        ((0, -0.0, "-0.0", "0.00"), "0"),
        ((0.5, "0.5", "0.50", np.float64(0.5)), "0.5"),
        ((True, np.bool_(True), "True"), "True"),
        (("None", " None\t"), "None"),
        (("caf\u00e9", "cafe\u0301", "\u00a0caf\u00e9 "), "caf\u00e9"),
        (("01",), "01"),
        (("1e5",), "1e5"),
        ((None, "", " \t", math.nan, np.float32("nan")), None),
    ],
)
def test_spellings(values: tuple[Any, ...], spelling: str | None) -> None:
    assert [label_text(value) for value in values] == [spelling] * len(values)


@given(NUMBERS)
@example(1e16)
@example(2.0**53)
@example(1e-5)
@example(math.inf)
def test_a_number_is_the_same_label_as_its_digits(value: float) -> None:
    assert label_text(value) == label_text(str(value))


@pytest.mark.long
@given(st.text())
def test_a_spelling_is_its_own_spelling(text: str) -> None:
    try:
        spelling = label_text(text)
    except FileLabelsError:
        return
    assert spelling is None or label_text(spelling) == spelling


@pytest.mark.parametrize(
    "value",
    [[0, 3], [1], [], ("a", "b"), {"a": 1}, np.array([0, 1]), "[0, 3]", "[0 1 0]", "['joy', 'a']"],
)
def test_several_labels_are_refused(value: Any) -> None:
    with pytest.raises(FileLabelsError, match="multi-label data"):
        ClassLabels(["a", "b"])(value)
    assert label_text("[other]") == "[other]"


def test_numbers_are_names_where_a_class_is_named_by_one() -> None:
    stars = ["1", "2", "3", "4", "5"]
    index = ClassLabels(stars)
    assert [index(value) for value in (1, "2", 3.0, "4.0", " 5")] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="unknown label '0'"):
        index(0)
    for names in (["1", "2", "other"], ["0.5", "1.5"], ["\u0661", "a"]):
        with pytest.raises(ValueError, match="unknown label '0'"):
            ClassLabels(names)(0)


def test_a_file_has_names_or_indices() -> None:
    index = ClassLabels(["negative", "positive"])
    assert [index(value) for value in (1, "0", 1.0, "-1", None)] == [1, 0, 1, None, None]
    assert index.by_number
    with pytest.raises(FileLabelsError, match="'positive', which names a class, and the label 1,"):
        index("positive")
    index = ClassLabels(["negative", "positive"])
    assert index("positive") == 1
    assert not index.by_number
    with pytest.raises(FileLabelsError, match="in one file"):
        index("1")


def test_marks_of_missing_labels_are_missing_only_where_they_name_no_class() -> None:
    marks = ["-1", -1, -1.0, "-", "nan", "NaN"]
    assert [ClassLabels(["a", "b"])(mark) for mark in marks] == [None] * len(marks)
    names = ["-1", "-", "NaN", "None"]
    assert [ClassLabels(names)(value) for value in (-1.0, "-", "nan", "None")] == [0, 1, 2, 3]
    assert [ClassLabels(names)(value) for value in (None, math.nan, "")] == [None] * 3
    with pytest.raises(ValueError, match="unknown label 'None'"):
        ClassLabels(["a", "b"])("None")


def test_case_counts_where_names_differ_in_nothing_else() -> None:
    assert [ClassLabels(["False", "True"])(value) for value in (True, "TRUE", "false")] == [1, 1, 0]
    index = ClassLabels(["us", "US"])
    assert [index(value) for value in ("us", "US")] == [0, 1]
    with pytest.raises(ValueError, match="unknown label 'Us'"):
        index("Us")
    with pytest.raises(ValueError, match="unknown label 'a'"):
        ClassLabels(["a", "a", "b"])("a")


def test_names_of_a_data_set() -> None:
    data = ("neg", "pos")
    assert [ClassLabels(["POS", "NEG"], data_names=data)(value) for value in (0, 1)] == [1, 0]
    # A number is what the data set says, and never the name of a class.
    with pytest.raises(ValueError, match=r"unknown label 1 \(pos\)"):
        ClassLabels(["1", "2"], data_names=data)(1)
    bare = ["LABEL_0", "LABEL_1", "LABEL_2"]
    assert ClassLabels(bare[:2], data_names=data)(1) == 1
    with pytest.raises(ValueError, match=r"unknown label 1 \(pos\)"):
        ClassLabels(bare, data_names=data)(1)
    assert ClassLabels(["POS", "NEG"], data_names=data).legend() == "0 = NEG, 1 = POS"
    assert ClassLabels(["a", "b"]).legend() == "0 = a, 1 = b"


def test_labels_that_a_user_explains() -> None:
    index = ClassLabels(["a", "b"], meanings={"1.0": 1, "-1": 0, "no": 0})
    assert [index(value) for value in (1, -1, "NO", None)] == [1, 0, 0, None]
    with pytest.raises(ValueError, match="unknown label '0'"):
        index(0)


def test_classes_of_a_file() -> None:
    assert find_classes(["10", "9", "-1", "0.5"]) == ["-1", "0.5", "9", "10"]
    assert find_classes(["None", "b", "nan", "B"]) == ["B", "None", "b"]
    assert find_classes(["01", "1", "2"]) == ["01", "1", "2"]
    assert same_classes(["1.0", "2"], ["1", "2.0"])
    assert not same_classes(["1", "2"], ["2", "1"])
