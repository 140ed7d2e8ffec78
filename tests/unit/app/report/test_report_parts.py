"""Parts of the page on records made by hand, and the explorer in a browser."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from app.cli.main import entry
from app.report.attack_part import attack_part, changed_words, moves, remaining
from app.report.clean_part import detection_picture
from app.report.heat_maps import heat_maps, run_attacks
from app.report.page_parts import Change, FigureCell, changes, estimate_cell
from app.report.report_page import write_report
from app.report.report_pictures import RunPoint, pareto
from app.report.text_explorer import explorer
from app.report.text_facts import group_part, join_texts
from app.report.training_part import read_metrics
from attacks.digests import file_digest
from measure.evidence import read_evidence
from measure.verdict import judge_evidence
from run_files.run_directory import RunDirectory
from tests.unit.app.report.report_samples import certified_run, write_predictions, write_text_attack
from tests.unit.app.study.run_samples import digest, write_lines
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
    part = group_part(read_evidence(run), texts, 1)
    assert part is not None
    assert [row.name for row in part.groups["words of the text"]] == ["2", "4", "5"]
    # Of a run without stored texts, the certificates know the number of tokens.
    (run.path / "attacks" / "typos.json").unlink()
    path = run.path / "certificates.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    write_lines(path, [{**one, "tokens": 3 + i // 2} for i, one in enumerate(lines)])
    evidence = read_evidence(run)
    part = group_part(evidence, join_texts(evidence), 1)
    assert part is not None
    assert [row.texts for row in part.groups["tokens of the text"]] == [2, 2]
    assert part.picture is not None
    assert "3: median 1.000 of 2 texts" in part.picture.alt
    write_text_attack(run, "typos", PAIRS)
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


@pytest.mark.long
def test_words_are_shaded_by_their_salience(runs: Path) -> None:
    run = certified_run(runs / "first")
    write_text_attack(run, "typos", [("a good <b>film", "a god <b>film"), ("so long", None)])
    path = run.path / "attacks" / "typos.jsonl"
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    # The second one is of an attack that cuts other words.
    weights = [[0.01, 2.0, None, -0.5], [1.0]]
    lines = [{**one, "salience": w} for one, w in zip((first, second), weights, strict=True)]
    write_lines(path, lines)
    built = explorer(join_texts(read_evidence(run)), ("bad", "good"), set())
    assert built is not None
    assert built.shaded
    rows = {row["id"]: row for row in json.loads(built.content)["rows"]}
    assert rows[0]["shaded"] == ["a ", ["good", 1.0], " <b>", ["film", -0.25], ""]
    assert "shaded" not in rows[1]
    assert "Shaded words" in write_report([run]).page.read_text()


@pytest.mark.long
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


@pytest.mark.long
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


def write_transfer(run: RunDirectory, source: str, weights: str, hits: int) -> None:
    share = {"adversarial": asdict(wilson(hits, 10))}
    about = {"run": source, "checkpoint": weights, "attack": "typos"}
    path = run.path / "transfer" / source / "typos.json"
    path.parent.mkdir(parents=True)
    content = {"weights": digest(run.path), "source": about, "all": share}
    path.write_text(json.dumps(content))


@pytest.mark.long
def test_transfer_of_attacked_texts(runs: Path) -> None:
    first, second = certified_run(runs / "first"), certified_run(runs / "second")
    # Of three texts two are changed, and none of these is right.
    write_text_attack(first, "typos", PAIRS)
    write_transfer(second, "first", digest(first.path), 8)
    write_transfer(second, "gone", "0" * 64, 5)
    under, transfer = heat_maps([run_attacks(read_evidence(run)) for run in (first, second)])
    assert [row.name for row in under.rows] == ["typos"]
    assert under.rows[0].cells[1] is None
    assert transfer.columns == ["first", "second"]
    own, other = transfer.rows[0].cells
    assert own is not None
    assert own.value == 0.0
    assert estimate_cell(own) == FigureCell("0.000", "0.000 to 0.658, 2 texts")
    assert other is not None
    assert other.value == 0.8
    assert [row.name for row in transfer.rows] == ["first", "gone"]
    text = write_report([first, second]).page.read_text()
    assert text.count("<caption>Transfer of typos: accuracy left") == 1
    # Texts of the second one on the first have not been tried; it has none.
    assert "--victim run:" not in text
    # Alone, too: its own page has the texts of other models.
    assert "Texts of other models" in write_report([second]).page.read_text()
    assert entry(["site", "--output", "out"]) == 0
    assert "Transfer of typos" in Path("out/index.html").read_text()


def test_an_attack_on_another_split_is_about_other_texts(runs: Path) -> None:
    """Its samples have the numbers of test texts, and are not these."""
    run = certified_run(runs / "first")
    write_text_attack(run, "typos", PAIRS, split="validation")
    evidence = read_evidence(run)
    texts = join_texts(evidence)
    assert all(not text.attacks and text.text is None for text in texts)
    part = group_part(evidence, texts, 1)
    assert part is None or part.attack == ""
    assert heat_maps([run_attacks(evidence), run_attacks(evidence)]) == []
    write_text_attack(run, "typos", PAIRS)
    evidence = read_evidence(run)
    assert [text.text for text in join_texts(evidence)][:3] == [before for before, _ in PAIRS]


def test_a_blind_attack_of_an_older_version_is_flagged(runs: Path) -> None:
    """Older versions have filed its accuracy as one that counts; its records tell."""
    name = "attack/pwws"
    figures = {f"{name}/samples": 3, f"{name}/clean_accuracy": 1.0, f"{name}/accuracy": 1.0}
    combined = {"attack/mean_accuracy": 1.0, "attack/worst_accuracy": 1.0}
    run = certified_run(runs / "first", metrics={**figures, **combined})
    write_text_attack(run, "pwws", [(text, None) for text, _ in PAIRS])
    path = run.path / "attacks" / "pwws.jsonl"
    path.write_text(path.read_text().replace('"score": -1.0', '"salience": [0.0], "score": 1.0'))
    evidence = read_evidence(run)
    assert f"{name}/accuracy" not in evidence.metrics
    assert evidence.metrics[f"{name}/unreliable_accuracy"] == 1.0
    assert not combined.keys() & evidence.metrics.keys()
    figure = judge_evidence(evidence).figure(f"{name}/accuracy")
    assert figure is not None
    assert figure.doubted
    (under,) = heat_maps([run_attacks(evidence), run_attacks(evidence)])
    assert under.rows[0].doubted == (True, True)
    text = write_report([run, certified_run(runs / "second")]).page.read_text()
    assert "1.000?" in text


def test_input_reduction_is_no_accuracy_under_attack(runs: Path) -> None:
    """Its successes keep the right prediction; docs/attacks.md: no verdict reads it."""
    run = certified_run(runs / "first")
    write_text_attack(run, "typos", PAIRS)
    write_text_attack(run, "less", [(text, "a") for text, _ in PAIRS], recipe="input-reduction")
    evidence = read_evidence(run)
    under, *_ = heat_maps([run_attacks(evidence), run_attacks(evidence)])
    assert [row.name for row in under.rows] == ["typos"]
    part = group_part(evidence, join_texts(evidence), 1)
    assert part is not None
    assert part.attack == "typos"
    own = attack_part(evidence, 1)
    assert own is not None
    assert own.picture is not None
    assert "less" not in own.picture.alt
    assert [row.word for row in own.words] == ["good"]
    for suffix in ("json", "jsonl"):
        (run.path / "attacks" / f"typos.{suffix}").unlink()
    text = write_report([run]).page.read_text()
    assert text.count("no measure of robustness") == 1
    assert "Accuracy under attacks" not in text


def test_attacks_of_another_goal_have_their_own_row(runs: Path) -> None:
    """Those on a detector are about the texts of one class."""
    first, second = certified_run(runs / "first"), certified_run(runs / "second")
    write_text_attack(first, "typos", PAIRS)
    write_text_attack(second, "typos", PAIRS, goal="evade")
    under, *_ = heat_maps([run_attacks(read_evidence(run)) for run in (first, second)])
    assert [row.name for row in under.rows] == ["typos", "typos (evade)"]
    assert [cell is None for cell in under.rows[0].cells] == [False, True]


def test_a_blind_attack_is_not_the_strongest_in_groups(runs: Path) -> None:
    run = certified_run(runs / "first")
    write_text_attack(run, "typos", [(text, None) for text, _ in PAIRS])
    write_text_attack(run, "pwws", [PAIRS[0], *((text, None) for text, _ in PAIRS[1:])])
    path = run.path / "attacks" / "pwws.jsonl"
    path.write_text(path.read_text().replace('"score": -1.0', '"salience": [0.0], "score": 1.0'))
    evidence = read_evidence(run)
    part = group_part(evidence, join_texts(evidence), 1)
    assert part is not None
    assert part.attack == "typos"


@pytest.mark.parametrize("auc", [None, 0.5])
def test_without_a_ranking_there_are_no_curves(runs: Path, auc: float | None) -> None:
    """Of texts of one kind, recall or false alarms would be 0 at every threshold."""
    run = certified_run(runs / "first", metrics={} if auc is None else {"test/auc": auc})
    run.write_detection([(0.0, 0.0, 0.0), (1.0, 0.0, 0.0)])
    assert (detection_picture(read_evidence(run), 1) is None) == (auc is None)


def test_long_names_fit_into_pictures(runs: Path) -> None:
    run = certified_run(runs / "first")
    write_text_attack(run, "a" * 60, PAIRS)
    path = run.path / "attacks" / f"{'a' * 60}.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    write_lines(path, [{**one, "label_name": "b" * 100} for one in records])
    # matplotlib warns where a name leaves no room for the axes, and a warning is an error here.
    write_report([run])


def test_transfer_of_other_weights(runs: Path) -> None:
    first, second = certified_run(runs / "first"), certified_run(runs / "second")
    write_transfer(second, "first", "0" * 64, 8)
    (transfer,) = heat_maps([run_attacks(read_evidence(run)) for run in (first, second)])
    assert [row.name for row in transfer.rows] == ["first, other weights"]
    second.best.write_bytes(b"trained again")
    evidence = read_evidence(second)
    assert not evidence.transfers
    assert any(line.startswith("transfer/first/typos: of other") for line in evidence.unused)
    (second.path / "transfer" / "first" / "typos.json").write_text('{"weights": 1}')
    with pytest.raises(ValueError, match="it is damaged"):
        read_evidence(second)


def test_transfer_of_other_texts(runs: Path) -> None:
    """The first run was attacked again: the second one has read texts that are gone."""
    first, second = certified_run(runs / "first"), certified_run(runs / "second")
    write_text_attack(first, "typos", PAIRS)
    write_transfer(second, "first", digest(first.path), 8)
    path = second.path / "transfer" / "first" / "typos.json"
    content = json.loads(path.read_text())
    content["source"]["records"] = file_digest(first.path / "attacks" / "typos.jsonl")
    path.write_text(json.dumps(content))

    def names() -> list[str]:
        _, transfer = heat_maps([run_attacks(read_evidence(run)) for run in (first, second)])
        return [row.name for row in transfer.rows]

    assert names() == ["first"]
    write_text_attack(first, "typos", PAIRS[:2])
    assert names() == ["first", "first, other texts"]


@pytest.mark.long
def test_the_explorer_filters_in_a_browser(runs: Path, browser: Any) -> None:
    run = certified_run(runs / "first")
    long = "z" * 100_000
    other = [("<b>bold</b> x", '<b>"bald"</b> x'), (f"{long} one", f"{long}y one")]
    write_text_attack(run, "typos", [*PAIRS, *other, (f"{long} two", f"{long}y two")])
    page_path = write_report([run]).page
    page, errors = browser.new_page(), list[str]()
    page.on("console", lambda message: errors.append(message.text))
    page.goto(page_path.resolve().as_uri())
    assert page.locator(".list article").count() == 6
    assert page.locator(".list article b").count() == 0  # a text, not markup
    # A word of 100,000 characters is shortened, in the list and in the table of words.
    assert page.evaluate("document.body.innerText.length") < 30_000
    # Texts before and after an attack, and no names of our fields.
    for words, count in (("queries", 0), ('"bald"</b> x', 1), ("a god film", 1), ("good film", 1)):
        page.fill("[name=words]", words)
        assert page.locator(".list article").count() == count
    page.fill("[name=words]", "")
    page.select_option("[name=kind]", "wrong")
    assert "the film" in page.locator(".list").inner_text()
    page.select_option("[name=kind]", "changed")
    page.fill("[name=words]", "long")
    assert page.locator(".list article").count() == 1
    assert page.locator("del").last.inner_text() == "good"
    assert "1 of 6 texts, 1 shown" in page.locator("output").inner_text()
    assert errors == []


@pytest.mark.long
def test_long_names_leave_a_narrow_page_narrow(runs: Path, browser: Any) -> None:
    run = certified_run(runs / "first")
    write_text_attack(run, "a" * 60, PAIRS)
    page_path = write_report([run]).page
    page = browser.new_page(viewport={"width": 360, "height": 800})
    page.goto(page_path.resolve().as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == 360
