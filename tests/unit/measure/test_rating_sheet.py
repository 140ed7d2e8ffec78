"""Rating sheets: what they show, what they hide, and what is read from them."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from app.commands.attack_sheet import result
from attacks.outcome import AttackRecord
from measure.rating_sheet import COLUMNS, as_csv, as_html, draw, make_key, read_key, read_rated
from tests.unit.attacks.outcomes import record

CLASSES = ["neg", "pos"]


def ended(number: int, outcome: Any, text: str | None = None) -> AttackRecord:
    attacked = outcome != "skipped"
    return record(
        number,
        label=number % 2,
        prediction=number % 2,
        outcome=outcome,
        text=text or f"original {number}",
        adversarial=f"changed {number}" if attacked else None,
        adversarial_prediction=1 - number % 2 if attacked else None,
    )


OUTCOMES = ["succeeded", "succeeded", "failed", "skipped"]
RECORDS = {
    "pwws": [ended(i, OUTCOMES[i % 4]) for i in range(40)],
    "textfooler": [ended(i, OUTCOMES[(i + 1) % 4]) for i in range(40)],
}


def test_a_sheet_is_blind_and_the_same_for_the_same_seed() -> None:
    items = draw(RECORDS, texts=6, originals=5, seed=3)
    assert items == draw(RECORDS, texts=6, originals=5, seed=3)
    assert items != draw(RECORDS, texts=6, originals=5, seed=4)
    assert sum(one.adversarial for one in items) == 12
    assert len(items) == 17
    # No text beside its original, and no sample twice.
    assert len({one.sample_id for one in items}) == len(items)
    assert len({one.item for one in items}) == len(items)
    for page in (as_html(items, CLASSES), as_csv(items)):
        for word in ("pwws", "textfooler", "succeeded", "adversarial", "sample"):
            assert word not in page
        assert all(one.item in page for one in items)
    order = [one.adversarial for one in items]
    assert order not in (sorted(order), sorted(order, reverse=True))


def test_no_success_is_no_sheet() -> None:
    with pytest.raises(ValueError, match="without a success"):
        draw({"a": [ended(0, "failed")]}, texts=5, originals=5, seed=0)


def test_texts_are_inert() -> None:
    hostile = '<script>alert(1)</script>\x1b[31m,"quoted"\nline'
    items = draw(
        {"a": [ended(0, "succeeded")], "b": [ended(1, "failed", hostile)]},
        texts=1,
        originals=1,
        seed=0,
    )
    assert len(items) == 2
    page = as_html(items, ["<b>", "pos"])
    assert "<script>alert" not in page
    assert "<b>" not in page.partition("<form>")[2].partition("</form>")[0]
    assert "\x1b" not in page
    rows = list(csv.DictReader(io.StringIO(as_csv(items))))
    assert hostile in [row["text"] for row in rows]
    formula = draw(
        {"a": [ended(0, "succeeded")], "b": [ended(1, "failed", "=1+1")]},
        texts=1,
        originals=1,
        seed=0,
    )
    assert "'=1+1" in as_csv(formula)


def rated(path: Path, answers: dict[str, tuple[str, str]]) -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        writer.writerows((item, "text", *both) for item, both in answers.items())
    return path


def test_agreement_and_corrected_success(tmp_path: Path) -> None:
    items = draw(RECORDS, texts=6, originals=4, seed=0)
    key = json.loads(json.dumps(make_key(items, CLASSES, RECORDS, 0)))
    assert key["attacks"]["pwws"] == {"attacked": 30, "succeeded": 20}
    gold = {one.item: CLASSES[one.label] for one in items}
    wrong = {one.item: CLASSES[1 - one.label] for one in items}
    of_pwws = [one.item for one in items if one.attack == "pwws" and one.adversarial]
    spoilt = set(of_pwws[:3])
    sheets = []
    for number in range(3):
        # All agree that three texts of PWWS have changed their class; the third rater is unsure
        # about a fourth one, and has not rated naturalness.
        answers = {
            item: (wrong[item] if item in spoilt else gold[item], "" if number == 2 else "4")
            for item in gold
        }
        if number == 2:
            answers[of_pwws[3]] = ("Unsure", "")
        sheets.append(read_rated(rated(tmp_path / f"{number}.csv", answers), key))
    found = result(key, sheets)
    assert found["attacks"]["pwws"]["valid"]["value"] == 0.5
    assert found["attacks"]["textfooler"]["valid"]["value"] == 1
    assert found["originals"]["valid"]["value"] == 1
    assert found["attacks"]["pwws"]["success_rate"]["value"] == pytest.approx(2 / 3)
    assert found["attacks"]["pwws"]["valid_success_rate"]["value"] == pytest.approx(1 / 3)
    assert found["attacks"]["pwws"]["natural"] == 4
    assert 0.9 < found["alpha"]["class"] < 1
    assert found["alpha"]["natural"] is None


def test_classes_that_differ_in_case_alone(tmp_path: Path) -> None:
    key = {"items": {"x": {}, "y": {}, "z": {}}, "classes": ["US", "us"], "attacks": {}}
    answers = {"x": ("US", "1"), "y": ("us", "1"), "z": ("Unsure", "1")}
    read = read_rated(rated(tmp_path / "a.csv", answers), key)
    assert [name for name, _ in read.values()] == ["US", "us", "unsure"]


def test_one_half_is_no_majority(tmp_path: Path) -> None:
    items = draw({"a": [ended(0, "succeeded")]}, texts=1, originals=0, seed=0)
    key = make_key(items, CLASSES, {"a": [ended(0, "succeeded")]}, 0)
    name = items[0].item
    sheets = [
        read_rated(rated(tmp_path / "a.csv", {name: (answer, "1")}), key) for answer in CLASSES
    ]
    assert result(key, sheets)["attacks"]["a"]["valid"]["value"] == 0


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"nothing": ("pos", "1")}, "line 2: got item 'nothing' which is not in the key"),
        ({"ITEM": ("positive", "1")}, "line 2: got class 'positive', expected one of neg, pos"),
        ({"ITEM": ("pos", "6")}, "line 2: got natural '6', expected 1 to 5"),
    ],
)
def test_wrong_answers_are_named(
    tmp_path: Path, answers: dict[str, tuple[str, str]], message: str
) -> None:
    items = draw(RECORDS, texts=2, originals=0, seed=0)
    key = make_key(items, CLASSES, RECORDS, 0)
    given = {name.replace("ITEM", items[0].item): both for name, both in answers.items()}
    with pytest.raises(ValueError, match=r".*") as error:
        read_rated(rated(tmp_path / "a.csv", given), key)
    assert message in str(error.value)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\nx,1\n")
    with pytest.raises(ValueError, match="expected item, text, class, natural"):
        read_rated(path, {"items": {}, "classes": CLASSES})
    with pytest.raises(ValueError, match=r"expected key\.json"):
        read_key(path)
    with pytest.raises(FileNotFoundError, match=r"got no key at .*: --key FILE"):
        read_key(tmp_path / "absent.json")
    with pytest.raises(ValueError, match="no rating, expected a class"):
        read_rated(rated(path, {"x": ("", "")}), {"items": {"x": {}}, "classes": CLASSES})


def test_a_text_with_a_line_end_of_any_kind_stays_one_row() -> None:
    text = "one\rtwo"
    records = {"pwws": [ended(i, "succeeded", text) for i in range(4)]}
    items = draw(records, texts=1, originals=2, seed=0)
    rows = list(csv.reader(io.StringIO(as_csv(items), newline=""), strict=True))
    assert [row[1] for row in rows[1:]] == [item.text for item in items]
    assert text in [row[1] for row in rows]
