"""`assert_holds`: the kinds of classifiers that it takes, and its message."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from steadfast.testing import assert_holds
from tests.unit.measure.gates import Keywords
from text import Text

TEXTS = ["win cash now", "free cash prize", "lunch at noon", "see you later"]
LABELS = ["spam", "spam", "ham", "ham"]
CLASSES = ["ham", "spam"]
Classify = Callable[[list[Text]], Any]


def spam(text: Text) -> bool:
    return "cash" in str(text).split()


def logits(texts: list[Text]) -> Any:
    return [[0.0, 3.0 if spam(text) else -3.0] for text in texts]


def probabilities(texts: list[Text]) -> Any:
    return np.array([[0.1, 0.9] if spam(text) else [0.9, 0.1] for text in texts])


def probability(texts: list[Text]) -> Any:
    return [0.9 if spam(text) else 0.1 for text in texts]


@pytest.mark.parametrize("classify", [logits, probabilities, probability, Keywords()])
def test_every_kind_of_classifier_is_attacked(classify: Classify) -> None:
    with pytest.raises(AssertionError) as error:
        assert_holds(
            classify, TEXTS, LABELS, classes=CLASSES, recipes=["deepwordbug"], positive="spam"
        )
    message = str(error.value)
    assert "flip_rate/deepwordbug  1.000" in message
    # A diff of the changed words.
    assert "  - win [cash] now" in message
    assert "spam -> ham" in message
    report = assert_holds(
        classify, TEXTS, LABELS, classes=CLASSES, recipes="deepwordbug", max_flip_rate=1
    )
    assert report.holds


def test_without_labels_the_predictions_count() -> None:
    report = assert_holds(probability, TEXTS, recipes="deepwordbug", max_flip_rate=1)
    assert report.criteria[0].share is not None
    assert report.criteria[0].share.value == 1
    assert list(report.classes) == ["0", "1"]


def test_labels_of_a_function_are_classes() -> None:
    def classify(texts: list[Text]) -> list[str]:
        return ["spam" if spam(text) else "ham" for text in texts]

    report = assert_holds(classify, TEXTS, LABELS, min_accuracy=1)
    assert list(report.classes) == CLASSES
    with pytest.raises(AssertionError, match=r"accuracy 0\.750 \(below 1\)"):
        assert_holds(classify, TEXTS, ["spam", "ham", "ham", "ham"], min_accuracy=1)


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        ([], None, "got no texts"),
        (TEXTS, LABELS[:3], "4 texts and 3 labels"),
        (TEXTS, [*LABELS[:3], "eggs"], "unknown label 'eggs'"),
        (TEXTS, [*LABELS[:3], None], "expected a label for each text"),
    ],
)
def test_wrong_texts_are_refused(texts: list[str], labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        assert_holds(logits, texts, labels, classes=CLASSES, min_accuracy=0.5)


def test_the_name_of_a_model_is_that_of_the_command_line() -> None:
    with pytest.raises(ValueError, match="--victim ftp:x, expected hf:FOLDER_OR_ID"):
        assert_holds("ftp:x", TEXTS)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        assert_holds("nowhere", TEXTS)
