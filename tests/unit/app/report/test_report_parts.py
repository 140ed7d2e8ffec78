"""Parts of the page on records made by hand, and the explorer in a browser."""

import json
from pathlib import Path

import pytest

from app.cli.main import entry
from app.report.attack_part import changed_words, moves, remaining
from app.report.page_parts import Change, changes
from app.report.report_page import write_report
from app.report.report_pictures import RunPoint, pareto
from app.report.text_explorer import explorer
from app.report.text_facts import by_length, join_texts
from app.report.training_part import read_metrics
from measure.evidence import read_evidence
from tests.unit.app.report.report_samples import certified_run, write_predictions, write_text_attack
from text.estimates import wilson

PAIRS = [
    ("a good film here", "a god film here"),
    ("good and long and good", "fine and long and fine"),
    ("the film", None),
]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("before", "after", "parts"),
    [
        ("a good film .", "a fine film .", ["a ", ("good", "fine"), " film ."]),
        ("so very good", "so good", ["so ", ("very", ""), "good"]),
        ("so good", "so very good", ["so ", ("", "very"), " good"]),
        ("bad good", "fine nice", [("bad good", "fine nice")]),
        ("the end", "the", ["the", ("end", "")]),
        ("same", "same", ["same"]),
    ],
)
def test_changes_are_the_text_after_with_old_words(
    before: str, after: str, parts: list[str | tuple[str, str]]
) -> None:
    expected = [Change(p, p) if isinstance(p, str) else Change(*p) for p in parts]
    assert [*changes(before, after)] == expected
    assert "".join(part.new for part in changes(before, after)) == after


def test_accuracy_that_is_left_for_a_budget(runs: Path) -> None:
    run = certified_run(runs / "first")
    write_text_attack(run, "typos", PAIRS)
    (attack,) = read_evidence(run).attacks
    assert remaining(attack.records, {0: 2.0, 1: 5.0}) == ([0, 2, 5], [1.0, 2 / 3, 1 / 3])


def test_classes_and_words_that_an_attack_changes(runs: Path) -> None:
    run = certified_run(runs / "first")
    write_text_attack(run, "typos", PAIRS)
    evidence = read_evidence(run)
    moved = moves(evidence.attacks[0], evidence)
    assert (moved.before, moved.after) == ([[3, 0], [0, 0]], [[1, 2], [0, 0]])
    # "good" changes in both texts that have it, twice in one of them: each text counts once.
    (row,) = changed_words(evidence.attacks)
    assert (row.word, row.changed, row.texts, set(row.became)) == ("good", 2, 2, {"god", "fine"})


def test_records_of_other_rows_are_not_joined(runs: Path) -> None:
    run = certified_run(runs / "first")
    write_text_attack(run, "typos", PAIRS)
    write_predictions(run, [{"logits": [0.0, 0.0], "label": 0, "prediction": 0}] * 3)
    texts = join_texts(read_evidence(run))
    assert [text.radius for text in texts] == [0.5, 1.5, 0.0, 2.5]
    assert [text.confidence for text in texts] == [0.5, 0.5, 0.5, None]
    assert [list(text.attacks) for text in texts] == [["typos"]] * 3 + [[]]
    assert list(by_length(texts)) == ["2", "4", "5"]
    content = json.loads(run.results_path.read_text())
    content["about"]["attack/typos"] = {"rows": {"test": "others"}}
    run.results_path.write_text(json.dumps(content))
    assert not any(text.attacks for text in join_texts(read_evidence(run)))


def test_the_explorer_has_the_interesting_texts_first_and_a_limit(runs: Path) -> None:
    run = certified_run(runs / "first")
    write_text_attack(run, "typos", PAIRS)
    texts = join_texts(read_evidence(run))

    def shown(most: int, broken: set[int]) -> list[int]:
        built = explorer(texts, ("bad", "good"), broken, most)
        assert built is not None
        assert built.total == 4
        return [row["id"] for row in json.loads(built.content)["rows"]]

    # Both successes changed one word: of five words, and of four.
    assert shown(10_000, set()) == [1, 0, 2]
    assert shown(10_000, {2}) == [2, 1, 0]
    assert shown(400, set()) == [1]
    assert explorer([], (), set()) is None


def test_metrics_of_a_training(runs: Path) -> None:
    run = certified_run(runs / "first")
    assert read_metrics(run) == {}
    run.metrics_path.write_text("step,train/loss,val/loss\n9,0.5,\n19,nan,0.25\n")
    metrics = read_metrics(run)
    assert metrics["train/loss"] == [(9, 0.5)]
    assert metrics["val/loss"] == [(19, 0.25)]
    text = write_report([run]).page.read_text()
    assert "loss: training batches from 0.500 to 0.500; loss: validation from 0.250" in text


def test_the_front_of_runs() -> None:
    accuracies = [("a", 9, 2), ("b", 8, 5), ("c", 7, 4), ("d", 6, 6), ("e", 6, 5)]
    points = [RunPoint(name, wilson(x, 10), wilson(y, 10)) for name, x, y in accuracies]
    assert [run.name for run in pareto(points)] == ["d", "b", "a"]


def test_a_site_of_all_runs(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, right in (("first", 0.75), ("second", 0.5)):
        run = certified_run(runs / name, metrics={"test/accuracy": right})
        write_text_attack(run, "typos", PAIRS)
    certified_run(runs / "lost").results_path.write_text("no JSON")
    assert entry(["site", "--output", "out"]) == 0
    out = capsys.readouterr().out
    assert out == "out/index.html\n"
    text = Path("out/index.html").read_text()
    for name in ("first", "second"):
        assert f'<a href="{name}/report.html">{name}</a>' in text
        assert Path("out", name, "report.html").is_file()
    assert "lost" not in text
    assert not (runs / "first" / "report").exists()
    assert entry(["site", "--runs_dir", "none"]) == 1
    assert "none, which has no runs" in capsys.readouterr().err


def test_the_explorer_filters_in_a_browser(runs: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    if not Path("/usr/bin/chromium").exists():
        pytest.skip("no chromium")
    run = certified_run(runs / "first")
    write_text_attack(run, "typos", [*PAIRS, ("<b>bold</b> x", "<b>bald</b> x")])
    page_path = write_report([run]).page
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page, errors = browser.new_page(), list[str]()
        page.on("console", lambda message: errors.append(message.text))
        page.goto(page_path.resolve().as_uri())
        assert page.locator(".list article").count() == 4
        assert page.locator(".list article b").count() == 0  # a text, not markup
        page.select_option("[name=kind]", "wrong")
        assert "the film" in page.locator(".list").inner_text()
        page.select_option("[name=kind]", "changed")
        page.fill("[name=words]", "long")
        assert page.locator(".list article").count() == 1
        assert page.locator("del").last.inner_text() == "good"
        assert "1 of 4 texts, 1 shown" in page.locator("output").inner_text()
        assert errors == []
        browser.close()
