"""TextAttack's log of our records: its columns, and the same texts when it is read again."""

import csv
from pathlib import Path

import pandas as pd

from measure.attack_csv import COLUMNS, write_csv
from measure.published_pairs import read_published
from tests.unit.attacks.outcomes import flipped, record, skipped


def test_the_texts_come_back(tmp_path: Path) -> None:
    path = tmp_path / "pwws.csv"
    hard = 'He said: "a good\nfilm", 5% [1]; it\'s'
    records = [
        flipped(0, text=hard, adversarial=hard.replace("good", "g00d"), queries=23),
        flipped(1, text="a good film", adversarial="a film"),
        record(2),
        skipped(3),
        record(4, outcome="error", adversarial=None, reason="no number"),
    ]
    write_csv(path, records, ["text"])
    published = read_published(path)
    assert (published.form, published.skipped) == ("TextAttack", 1)
    assert [(p.original, p.adversarial) for p in published.pairs] == [
        (one.text, one.adversarial) for one in records[:3]
    ]
    assert [p.method for p in published.pairs] == ["succeeded", "succeeded", "failed"]
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert tuple(rows[0]) == COLUMNS
    assert rows[0]["perturbed_text"] == 'He said: "a [[g00d]]<SPLIT>film", 5% [1]; it\'s'
    assert rows[3]["result_type"] == "Skipped"
    assert rows[3]["original_text"] == rows[3]["perturbed_text"]
    # As TextAttack's own readers take it: texts are strings, all else are numbers.
    frame = pd.read_csv(path)
    assert frame["num_queries"].tolist()[0] == 23
    assert frame["perturbed_output"].tolist() == [0, 0, 1, 0]
    assert frame["original_score"].dtype == frame["perturbed_score"].dtype == float


def test_pairs_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "pwws.csv"
    pair, other = ("a man eats", "he sleeps"), ("a man eats", "he dozes")
    write_csv(path, [flipped(0, text=pair, adversarial=other)], ["premise", "hypo thesis"])
    (published,) = read_published(path).pairs
    assert (published.original, published.adversarial) == (pair, other)
    assert "[[[[Premise]]]]: a man eats<SPLIT>[[[[Hypo_thesis]]]]: he [[dozes]]" in path.read_text()
