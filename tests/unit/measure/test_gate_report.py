"""Reports of a gate: what other programs read of them, and what hostile texts cannot do."""

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from measure.gate import Criterion, GateExample, GateReport
from measure.gate_report import (
    compare_baseline,
    gate_junit,
    gate_markdown,
    gate_table,
    read_baseline,
    summarise_gate,
    write_baseline,
)
from tests.unit.measure.gates import Keywords, by_name, criterion, gate, report_of

HOSTILE = "a|b `c` <script>\x1b[31m\u202e\x00\ufffe\ud800 ]]> & \n# head\n</details>"


def hostile(**settings: object) -> GateReport:
    example = GateExample(0, HOSTILE, f"{HOSTILE} x", 1, 0)
    bad = replace(criterion(0, 10, 10, 0.5, least=True), name="bad", examples=[example])
    good = replace(criterion(10, 10, 10, 0.5, least=True), name="good")
    open_ = replace(criterion(0, 0, 10, 0.5, least=False), name="open", reason="time")
    free = replace(criterion(5, 10, 10, 0.5, least=False), name="free", limit=None)
    return replace(report_of(bad, good, open_, free, **settings), victim=HOSTILE)


def counts(element: ElementTree.Element) -> dict[str, int]:
    return {name: int(element.get(name, "")) for name in ("tests", "failures", "errors", "skipped")}


@pytest.mark.parametrize("allowed", [False, True])
def test_junit_has_the_structure_that_other_systems_read(allowed: bool) -> None:
    # The schema of Jenkins' xUnit plug-in: elements, their order and required attributes.
    root = ElementTree.fromstring(gate_junit(hostile(allow_unchecked=allowed)).encode())
    (suite,) = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    assert [child.tag for child in suite] == ["properties", *["testcase"] * 3]
    kinds = {"failure": 0, "error": 0, "skipped": 0}
    for case in suite.iter("testcase"):
        assert case.get("classname") == "steadfast.check"
        assert float(case.get("time", "")) >= 0
        assert len(case) <= 1
        for child in case:
            kinds[child.tag] += 1
            assert child.get("message")
    assert [case.get("name") for case in suite.iter("testcase")] == ["bad", "good", "open"]
    assert kinds == {"failure": 1, "error": int(not allowed), "skipped": int(allowed)}
    expected = {"tests": 3, "failures": 1, "errors": kinds["error"], "skipped": kinds["skipped"]}
    assert counts(root) == counts(suite) == expected
    assert float(suite.get("time", "")) >= 0
    assert "\\x1b[31m" in str(suite.findtext("testcase/failure"))


def test_hostile_texts_break_neither_markdown_nor_terminal() -> None:
    report = hostile()
    markdown = gate_markdown(report)
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(report.criteria)
    cells = {len(row.replace("\\|", "").split("|")) for row in rows}
    assert cells == {8}
    assert markdown.count("\n</details>") == 1
    # Outside of blocks of code, nothing is markup.
    assert not any("<script>" in line for line in markdown.splitlines() if line[:4] != "    ")
    for text in (markdown, gate_table(report)):
        assert "\x1b" not in text
        assert "\u202e" not in text
        text.encode()


def test_an_example_of_an_attack_is_a_diff_of_words() -> None:
    table = gate_table(gate(max_flip_rate=0.1))
    start = table.index("flip_rate/deepwordbug, the worst texts:")
    minus, plus = table[start:].splitlines()[2:4]
    assert minus.startswith("  - ")
    assert plus.startswith("  + ")
    assert minus.count("[") == plus.count("[") == 1
    assert table.splitlines()[-1].startswith("Fails: 1 of 1 criteria: flip_rate/deepwordbug 1.000")


def test_a_sentence_names_what_fails() -> None:
    report = report_of(
        replace(criterion(1, 10, 10, 0.5, least=True), name="low"),
        replace(criterion(2, 10, 10, 0.1, least=False), name="high"),
        replace(criterion(0, 0, 0, 0.1, least=False), name="empty"),
        replace(criterion(0, 1, 10, 0.1, least=False), name="late", reason="the time was up"),
    )
    assert summarise_gate(report) == (
        "Fails: 4 of 4 criteria: low 0.100 (below 0.5); high 0.200 (above 0.1); empty not checked "
        "on 0 texts (the data have no such text); late not checked on 9 texts (the time was up)."
    )


def test_a_criterion_that_may_stay_unchecked_does_not_count_as_holding() -> None:
    late = replace(criterion(0, 0, 10, 0.1, least=False), name="late", reason="the time was up")
    report = report_of(criterion(9, 10, 10, 0.5, least=True), late, allow_unchecked=True)
    assert report.holds
    assert summarise_gate(report) == "Holds: 1 of 2 criteria; not checked: late."


def long_report(hits: int, *, seed: str = "x", least: bool = True) -> GateReport:
    made = replace(criterion(hits, 200, 200, 0.1, least=least), name="recall")
    return replace(report_of(made), subject={"rows": seed, "certificate": None})


@pytest.mark.parametrize(
    ("before", "after", "least", "regressed"),
    [
        (180, 180, True, False),
        (180, 177, True, False),
        (180, 170, True, True),
        (180, 190, True, False),
        (10, 20, False, True),
        (20, 10, False, False),
    ],
)
def test_a_clear_change_for_the_worse_is_a_regression(
    tmp_path: Path, before: int, after: int, least: bool, regressed: bool
) -> None:
    path = tmp_path / "baseline.json"
    write_baseline(long_report(before, least=least), path)
    made = compare_baseline(long_report(after, least=least), read_baseline(path), path)
    assert made.criteria[0].regressed == regressed
    assert made.holds != regressed
    assert ("worse than the baseline" in summarise_gate(made)) == regressed


def test_a_baseline_of_other_texts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write_baseline(long_report(180), path)
    with pytest.raises(ValueError, match=r'other texts or settings \(rows "x" -> "y"\)'):
        compare_baseline(long_report(180, seed="y"), read_baseline(path), path)
    path.write_text(json.dumps({"about": {}}))
    with pytest.raises(ValueError, match="no criteria"):
        read_baseline(path)


def test_a_baseline_is_compared_on_the_texts_of_both(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write_baseline(gate(max_flip_rate=1), path)
    weaker = gate(Keywords(["cash"]), max_flip_rate=1)
    made = by_name(compare_baseline(weaker, read_baseline(path), path))
    # The third text is not detected any more, and so not attacked.
    flips, recall = made["flip_rate/deepwordbug"].change, made["recall"].change
    assert flips is not None
    assert recall is not None
    assert flips.first.count == 2
    assert (recall.lost, recall.gained, recall.first.count) == (1, 0, 4)
    dropped = compare_baseline(gate(min_recall=0.1), read_baseline(path), path)
    assert "the baseline has flip_rate/deepwordbug, which was not measured" in dropped.cautions


def test_without_a_limit_the_baseline_decides(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"

    def free(hits: int) -> GateReport:
        report = long_report(hits)
        criteria: list[Criterion] = [replace(c, limit=None) for c in report.criteria]
        return replace(report, criteria=criteria)

    write_baseline(free(180), path)
    same, worse = (compare_baseline(free(n), read_baseline(path), path) for n in (180, 160))
    assert summarise_gate(same) == "Holds: 1 of 1 criteria."
    assert (same.holds, worse.holds) == (True, False)
    assert 'tests="1" failures="1"' in gate_junit(worse)


def test_without_a_limit_what_was_not_checked_does_not_hold(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"

    def free(hits: int, checked: int) -> GateReport:
        made = criterion(hits, checked, 200, 0.1, least=True)
        report = report_of(replace(made, name="recall", limit=None, reason="the time was up"))
        return replace(report, subject={"rows": "x", "certificate": None})

    write_baseline(free(180, 200), path)
    made = compare_baseline(free(0, 0), read_baseline(path), path)
    assert not made.holds
    assert summarise_gate(made) == (
        "Fails: 1 of 1 criteria: recall not checked on 200 texts (the time was up)."
    )
    # A criterion that the baseline has not measured either has not regressed.
    write_baseline(free(0, 0), path)
    assert compare_baseline(free(0, 0), read_baseline(path), path).holds


def test_a_baseline_of_another_attack_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"

    def attacked(digest: str) -> GateReport:
        made = criterion(20, 200, 200, 0.5, least=False)
        return report_of(replace(made, name="flip_rate/mine", subject=digest))

    write_baseline(attacked("one"), path)
    assert compare_baseline(attacked("one"), read_baseline(path), path).holds
    with pytest.raises(ValueError, match=r"flip_rate/mine of another attack"):
        compare_baseline(attacked("two"), read_baseline(path), path)
    # Older baselines do not name their attacks.
    content = json.loads(path.read_text())
    del content["criteria"]["flip_rate/mine"]["subject"]
    path.write_text(json.dumps(content))
    assert compare_baseline(attacked("two"), read_baseline(path), path).holds
