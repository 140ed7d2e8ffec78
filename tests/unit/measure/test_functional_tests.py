"""Functional tests: what passes, in which order, and what a second start asks again."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.commands.functional import name_of
from attacks.goals import Floats
from attacks.victims.kinds import VictimError
from measure import functional_tests
from measure.archive import FolderArchive
from measure.functional_tests import (
    FunctionalTests,
    functional_table,
    functionalities,
    invariance_tests,
    labelled_tests,
)
from measure.runner import run
from measure.table_samples import read_table
from run_files.run_directory import RunDirectory
from text import Text

ROWS = [
    ("i hate you", 1, "direct", "a"),
    ("i hate them", 1, "direct", "a"),
    ("they are vermin", 1, "implied", "b"),
    ("they are scum", 1, "implied", "b"),
    ("i hate rain", 0, "harmless", "c"),
    ("i love rain", 0, "harmless", "c"),
]


class Hates:
    """Predicts class 1 for texts with `hate` or `scum`; fails after some texts."""

    name = "hates"

    def __init__(self, most: int = 100) -> None:
        self.most = most
        self.queries: list[Text] = []

    def logits(self, texts: Sequence[Text]) -> Floats:
        if len(self.queries) + len(texts) > self.most:
            raise VictimError("down")
        self.queries += texts
        hits = np.array([any(word in text for word in ("hate", "scum")) for text in texts])
        return np.stack([~hits, hits], axis=1).astype(float)


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "tests.tsv"
    lines = ["text\tlabel\tfunctionality\tpair", *("\t".join(map(str, row)) for row in ROWS)]
    file.write_text("\n".join(lines) + "\n")
    return str(file)


def make(path: str, victim: Hates, **columns: Any) -> FunctionalTests:
    table = read_table(path, group="functionality", **columns)
    tests = invariance_tests(table) if columns else labelled_tests(table, ["rest", "hate"])
    return FunctionalTests(
        victim, tests, name="t", classes=["rest", "hate"], identity={"victim": "hates"}
    )


def test_a_labelled_test_passes_if_the_prediction_is_the_label(path: str) -> None:
    table = read_table(path, group="functionality")
    tests = labelled_tests(table, ["rest", "hate"])
    made = FunctionalTests(Hates(), tests, name="t", classes=["rest", "hate"], identity={})
    records = run(made, None).records
    rows = [(row.name, row.passed, row.share.count) for row in functionalities(records)]
    # The lowest pass rate first; equal ones by name.
    assert rows == [("harmless", 1, 2), ("implied", 1, 2), ("direct", 2, 2)]
    figures = made.figures(records)
    assert figures["pass_rate"] == pytest.approx(4 / 6)
    assert figures["mean_pass_rate"] == pytest.approx((0.5 + 0.5 + 1) / 3)
    assert figures["pass_rate@direct"] == 1
    assert figures["samples@direct"] == 2
    assert functional_table(records).splitlines()[2].split()[:4] == ["harmless", "1", "of", "2"]


def test_a_pair_passes_if_all_its_texts_get_the_same_prediction(path: str) -> None:
    records = run(make(path, Hates(), label="pair"), None).records
    rows = {row.name: (row.passed, row.share.count) for row in functionalities(records)}
    assert rows == {"direct": (1, 1), "implied": (0, 1), "harmless": (0, 1)}
    assert "of a pair" in functional_table(records)


def test_a_pair_of_one_text_is_refused(path: str) -> None:
    Path(path).write_text("text\tfunctionality\tpair\nx\tdirect\ta\ny\tother\ta\n")
    with pytest.raises(ValueError, match=r"2 pairs of one text.*a of direct"):
        invariance_tests(read_table(path, label="pair", group="functionality"))


def test_the_labels_are_classes_or_are_refused(path: str) -> None:
    table = read_table(path, group="functionality")
    with pytest.raises(ValueError, match=r"labels 0, 1 .*hate, offensive, neither.*--label_names"):
        labelled_tests(table, ["hate", "offensive", "neither"])
    names = ["0=neither", "1=hate"]
    tests = labelled_tests(table, ["hate", "offensive", "neither"], names)
    assert [test.label for test in tests] == [0, 0, 0, 0, 2, 2]


def test_a_row_needs_a_functionality(path: str) -> None:
    with pytest.raises(ValueError, match="columns text, label, functionality, pair, expected kind"):
        read_table(path, group="kind")
    Path(path).write_text("text\tlabel\tfunctionality\nx\t1\t\n")
    with pytest.raises(ValueError, match="line 2: got no value in the column functionality"):
        read_table(path, group="functionality")


def test_a_second_start_asks_only_for_what_is_missing(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functional_tests, "AT_ONCE", 2)
    identity: dict[str, Any] = {"run": "r", "method": "m", "corpus": "c", "seed": 0}
    archive = FolderArchive(RunDirectory(tmp_path / "run"), identity)
    table = read_table(path, group="functionality")
    tests = labelled_tests(table, ["rest", "hate"])

    def start(victim: Hates) -> None:
        named: dict[str, Any] = {"name": "t", "classes": ["rest", "hate"], "identity": {}}
        run(FunctionalTests(victim, tests, **named), archive)

    with pytest.raises(VictimError, match="4 of 6 samples are done"):
        start(Hates(most=4))
    again = Hates()
    start(again)
    assert again.queries == [text for text, *_ in ROWS[4:]]
    lines = (tmp_path / "run" / "functional" / "t.jsonl").read_text().splitlines()
    assert [json.loads(line)["prediction_name"] for line in lines][:3] == ["hate", "hate", "rest"]
    metrics = json.loads((tmp_path / "run" / "results.json").read_text())["metrics"]
    assert metrics["functional/t/pass_rate@implied"] == 0.5


@pytest.mark.parametrize(
    ("file", "name"), [("data/hatecheck/test.tsv", "hatecheck"), ("a/mine.csv.gz", "mine")]
)
def test_the_name_of_a_file_is_not_that_of_a_split(file: str, name: str) -> None:
    assert name_of(file) == name
