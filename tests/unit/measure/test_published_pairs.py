"""Files of adversarial texts that others have published."""

import json
from pathlib import Path

import pytest

from measure.published_pairs import read_published

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
        }
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


LINE_ENDS = "a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i"
"""All that `str.splitlines` takes for a line end, but for the usual ones."""


@pytest.mark.parametrize("escaped", [True, False])
def test_only_line_feeds_end_a_record(tmp_path: Path, escaped: bool) -> None:
    path = tmp_path / "a.jsonl"
    text = LINE_ENDS.translate(dict.fromkeys((11, 12, 28, 29, 30)))
    text = LINE_ENDS if escaped else text  # JSON has no control characters in strings
    row = {"text": text, "adversarial": f"{text}!", "label": 0, "outcome": "failed"}
    path.write_text(json.dumps(row, ensure_ascii=escaped) + "\n")
    (pair,) = read_published(path).pairs
    assert (pair.original, pair.adversarial) == (text, f"{text}!")


def test_only_line_feeds_end_a_line_of_text_fooler(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(f"orig sent (1):\t{LINE_ENDS}\nadv sent (0):\t\n\n".encode())
    (pair,) = read_published(path).pairs
    assert (pair.original, pair.adversarial) == (LINE_ENDS, "")


HEAD = (
    '"original_text","perturbed_text","original_score","perturbed_score","original_output",'
    '"perturbed_output","ground_truth_output","num_queries","result_type"\n'
)


def test_text_attack(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        HEAD
        + '"a [[fine]] ""film""<SPLIT>really [1]","a [[okay]] ""film""<SPLIT>really [1]",'
        + '0.1,0.7,1,0,1,23,"Successful"\n'
        + '"dull","dull",0.1,0.1,0,0,0,9,"Failed"\n'
        + '"so so","so so",0.9,0.9,0,0,1,1,"Skipped"\n'
    )
    found = read_published(path)
    assert (found.form, found.skipped) == ("TextAttack", 1)
    first, second = found.pairs
    assert first.original == 'a fine "film"\nreally [1]'
    assert first.adversarial == 'a okay "film"\nreally [1]'
    assert (first.label, first.method) == ("1", "succeeded")
    assert (second.adversarial, second.method, second.number) == ("dull", "failed", 1)


@pytest.mark.parametrize(
    ("key", "mark"),
    [
        ("[[[[{}]]]]", "[[{}]]"),
        ("{}", "{}"),
        (
            "<font color = bold><font color = underline>{}</font></font>",
            "<font color = red>{}</font>",
        ),
    ],
)
def test_text_attack_of_pairs_in_each_style(tmp_path: Path, key: str, mark: str) -> None:
    path = tmp_path / "log.csv"
    front = f"{key.format('Premise')}: A man: he eats .<SPLIT>{key.format('Hypothesis')}: A man "
    sides = [front + mark.format(word) + " ." for word in ("sleeps", "dozes")]
    path.write_text(HEAD + ",".join(f'"{side}"' for side in sides) + ',0,1,2,1,2,7,"Successful"\n')
    (pair,) = read_published(path).pairs
    assert pair.original == ("A man: he eats .", "A man sleeps .")
    assert pair.adversarial == ("A man: he eats .", "A man dozes .")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "text,label\nx,1\n", "original_text"),
        ("a.csv", HEAD, "without adversarial texts"),
        ("a.csv", HEAD + '"x","y"\n', "line 2"),
        ("a.jsonl", '{"text": "x"', "line 1, which cannot be read"),
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
