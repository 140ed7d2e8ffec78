import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks.interface import Outcome
from attacks.outcome import AttackRecord
from attacks.summary import summarise
from measure.attack_html import LIMIT, page
from measure.attack_report import Piece, colours, compare, example_lines, example_table, report
from run_files.terminal import harmless
from tests.unit.attacks.outcomes import flipped, record, skipped

NAMES = ["negative", "positive"]
FACTS = {"run": "first", "goal": "untargeted"}
EVIL = "a\x1b[31m <b>good</b>\r\u202e film & \x07plot | *x* [y](z)"


def outcome(*records: AttackRecord, name: str = "pwws") -> Outcome:
    return Outcome(name=name, records=[*records], summary=summarise(records, score="margin"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("a good film", "a fine film", (["good"], ["fine"])),
        ("a good film", "a go od film", (["good"], ["go", "od"])),
        ("a good film", "a film", (["good"], [])),
        ("a film", "a good film", ([], ["good"])),
        ("good, good!", "good, bad!", (["good"], ["bad"])),
        ("same", "same", ([], [])),
        ("", "x", ([], ["x"])),
        ("one two", "two one", (["two"], ["two"])),
    ],
)
def test_changed_words(before: str, after: str, changed: tuple[list[str], list[str]]) -> None:
    pieces = compare(before, after)
    assert tuple([one.text for one in side if one.changed] for side in pieces) == changed


@pytest.mark.long
@given(st.text(), st.text())
def test_nothing_of_a_text_is_lost(before: str, after: str) -> None:
    pieces = compare(before, after)
    assert tuple("".join(one.text for one in side) for side in pieces) == (before, after)
    if before == after:
        assert not any(one.changed for side in pieces for one in side)


def test_pairs_for_a_terminal() -> None:
    found = outcome(skipped(0), flipped(3, similarity=0.91), record(4), flipped(5))
    plain = list(example_lines(found, 5, NAMES, colour=False))
    assert plain == [
        "\nsample 3: positive -> negative, 1 of 3 words, 10 queries, similarity 0.910",
        "  - a [good] film",
        "  + a [fine] film",
        "\nsample 5: positive -> negative, 1 of 3 words, 10 queries",
        "  - a [good] film",
        "  + a [fine] film",
    ]
    coloured = list(example_lines(found, 1, NAMES, colour=True))
    assert coloured[1:] == ["  - a \x1b[1;31mgood\x1b[0m film", "  + a \x1b[1;32mfine\x1b[0m film"]


def test_texts_of_a_pair() -> None:
    found = outcome(flipped(0, text=("a man", "he eats"), adversarial=("a man", "he devours")))
    assert list(example_lines(found, 1, NAMES, colour=False))[1:] == [
        "  - a man",
        "  + a man",
        "  - he [eats]",
        "  + he [devours]",
    ]
    assert "he **eats**" in example_table(found, NAMES)
    assert "<del>eats</del>" in "".join(page(found, NAMES, FACTS))


def test_what_a_text_brings_along_does_not_reach_the_terminal() -> None:
    found = outcome(flipped(0, text=EVIL, adversarial=EVIL.replace("film", "fi\nlm\t")))
    lines = list(example_lines(found, 1, ["\x1b[2J", "b\x07"], colour=False))
    assert len(lines) == 3
    for line in lines:
        assert line.strip("\n").isprintable()
    coloured = "".join(example_lines(found, 1, NAMES, colour=True))
    assert set(re.findall(r"\x1b\[[0-9;]*m", coloured)) <= {"\x1b[1;31m", "\x1b[1;32m", "\x1b[0m"}


@given(st.text(), st.text())
def test_any_text_can_be_shown(before: str, after: str) -> None:
    found = outcome(flipped(0, text=before, adversarial=after))
    for line in example_lines(found, 1, NAMES, colour=False):
        assert harmless(line) == line
        assert "\n" not in line.removeprefix("\n")
    html = "".join(page(found, NAMES, FACTS))
    assert html.encode()
    body = html.split("<h2>")[1]
    assert set(re.findall(r"<(/?[a-z0-9]+)", body)) <= {
        f"{slash}{tag}"
        for slash in ("", "/")
        for tag in "h2 table thead tr th tbody td div br p del ins body html".split()
    }
    assert example_table(found, NAMES).count("\n") == 2


def test_colours_only_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert colours(Terminal())
    assert not colours(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "")  # as the convention has it, an empty one is none
    assert colours(Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colours(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not colours(Terminal())


def test_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    both = {"a": outcome(flipped(0)), "b": outcome(flipped(0), record(1))}
    text = report(both, NAMES, title="OLSA on sst2", stream=io.StringIO())
    assert "sample 0" not in text
    assert "OLSA on sst2: 1 / 2 samples" in text
    assert text.count("clean accuracy") == 1
    assert "mean" not in text
    notes = ["similarity 0 applies to a", "mean accuracy under 2 attacks (a, b): 0.250"]
    text = report(both, NAMES, title="OLSA", notes=notes, stream=io.StringIO())
    assert text.splitlines()[-2:] == notes
    text = report(both, NAMES, show=1, title="OLSA on sst2", stream=Terminal())
    assert text.count("sample 0") == 2
    assert "\x1b[1;31mgood" in text


def test_page() -> None:
    found = outcome(skipped(0), flipped(1, similarity=0.9, exhausted=True), record(2))
    html = "\n".join(page(found, NAMES, FACTS))
    assert html.startswith("<!DOCTYPE html>")
    assert html.index("1: succeeded") < html.index("2: failed") < html.index("0: skipped")
    assert "<title>pwws first: adversarial texts</title>" in html
    assert "<tr><th>run</th><td>first</td></tr>" in html
    assert "<tr><th>goal</th><td>untargeted</td></tr>" in html
    assert "<del>good</del>" in html
    assert "<ins>fine</ins>" in html
    assert "similarity 0.900" in html
    assert "budget used up" in html
    assert "acc. under attack" in html
    assert "http" not in html.replace("http-equiv", "")
    assert "<script" not in html


def test_page_escapes() -> None:
    html = "\n".join(
        page(
            outcome(flipped(0, text=EVIL, adversarial=f"{EVIL} more")), ["<i>", "&"], {"<u>": EVIL}
        )
    )
    assert "<b>" not in html
    assert "<i>" not in html
    assert "<u>" not in html
    assert "&lt;b&gt;" in html
    assert "\\x1b" in html
    assert "\x1b" not in html
    assert "\\u202e" in html


def test_a_page_that_browsers_open() -> None:
    found = outcome(*(record(i) for i in range(LIMIT + 5)), flipped(LIMIT + 5))
    html = "\n".join(page(found, NAMES, FACTS))
    assert html.count("<tr><td>") <= LIMIT + 8
    assert f"{LIMIT + 5}: succeeded" in html
    assert f"The first {LIMIT}" in html


def test_a_doubtful_page_says_so() -> None:
    records = [record(0, saturated=True)]
    found = Outcome(name="pwws", records=records, summary=summarise(records, score="probability"))
    html = "".join(page(found, NAMES, FACTS))
    assert 'class="doubt">pwws: the attack sees no difference' in html
    assert "1 in single precision (100.0 % of the attacked samples)" in html


def test_pieces() -> None:
    assert compare("a, b", "a, c")[0] == [Piece("a, ", False), Piece("b", True)]
