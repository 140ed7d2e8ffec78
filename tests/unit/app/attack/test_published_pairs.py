"""Files of adversarial texts that others have published."""

import json
from pathlib import Path

import pytest

from app.attack.published_pairs import read_published

FOOLED = """orig sent (1):\ta fine film , really
adv sent (0):\ta okay film , really

orig sent (0):\tdull: from the start
adv sent (1):\tflat: from the start

"""
FOOLED_PAIR = """orig premise:\tA man eats .
orig hypothesis (contradiction):\tA man sleeps .
adv hypothesis (neutral):\tA man dozes .
"""
GLUE = {
    "sst2": [
        {
            "idx": 0,
            "label": 1,
            "sentence": "a fnie film",
            "original_sentence": "a fine film",
            "method": "textbugger",
            "data_construction": "word",
        },
        {"idx": 1, "label": 0, "sentence": "who cares", "method": "checklist"},
    ],
    "mnli": [
        {
            "idx": 0,
            "label": 2,
            "premise": "A man eats.",
            "hypothesis": "A man dozes.",
            "original_hypothesis": "A man sleeps.",
        },
    ],
}


def test_text_fooler(tmp_path: Path) -> None:
    path = tmp_path / "adversaries.txt"
    path.write_text(FOOLED)
    found = read_published(path)
    assert found.form == "TextFooler"
    assert [(one.original, one.adversarial, one.label) for one in found.pairs] == [
        ("a fine film , really", "a okay film , really", "1"),
        ("dull: from the start", "flat: from the start", "0"),
    ]
    path.write_text(FOOLED_PAIR)
    (one,) = read_published(path).pairs
    assert one.original == ("A man eats .", "A man sleeps .")
    assert one.adversarial == ("A man eats .", "A man dozes .")
    assert one.label == "contradiction"


def test_adv_glue(tmp_path: Path) -> None:
    path = tmp_path / "dev_ann.json"
    path.write_text(json.dumps(GLUE))
    found = read_published(path, "sst2")
    assert found.names == ("negative", "positive")
    first, second = found.pairs
    assert (first.original, first.adversarial, first.label) == ("a fine film", "a fnie film", 1)
    assert (first.method, second.method, second.original) == ("textbugger", "checklist", None)
    (pair,) = read_published(path, "mnli").pairs
    assert pair.original == ("A man eats.", "A man sleeps.")
    assert pair.adversarial == ("A man eats.", "A man dozes.")
    for task in (None, "cola"):
        with pytest.raises(ValueError, match="expected one of sst2, mnli"):
            read_published(path, task)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "orig sent (1):\tx\nadversarial: y\n", "line 2: 'adversarial: y', expected"),
        ("a.txt", "adv sent (1):\tx\n", "line 1: an adversarial sent without original"),
        ("a.txt", "\n", "without adversarial texts"),
        ("a.json", '{"sst2": []}', "without adversarial texts"),
        ("a.json", '{"sst2": [{"label": 1, "words": "x"}]}', "row 0 with label, words, expected"),
        ("a.json", '{"sst2": [{"sentence": "x"}]}', "cannot be read"),
        ("a.json", "{", "cannot be read"),
        ("a.jsonl", '{"text": "x"}\n', "cannot be read"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(ValueError, match=r".*") as error:
        read_published(path)
    assert message in str(error.value)
