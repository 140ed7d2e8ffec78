"""The recipe `unicode` on all words of the corpora, read by the front end of the detectors."""

import json
from itertools import product
from pathlib import Path

import pytest

from benchmarks.unicode_forms import (
    FORMS,
    POSITIVES,
    choices,
    examine,
    find_changed,
    kind_of,
    main,
    rewrite,
)
from text import CanonicalForm


def test_runs_are_written_in_all_ways() -> None:
    assert choices(3) == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    assert choices(4) == [(0,), (1,), (2,), (3,), (0, 1, 2, 3)]
    texts = list(rewrite("@to.be!"))
    assert len(texts) == 9 * 3
    assert {"@oʇ.be!", "@to.ǝq!", "@oʇ.ǝq!", "@\u202eot\u202c.be!"} <= set(texts)


@pytest.mark.parametrize(
    ("run", "kind"),
    [
        ("uop’t", "marks in words"),
        ("i\x92d", "marks in words"),
        ("ú1", "accents"),
        ("все", "other scripts"),
        ("G.B.", "single letters"),
        ("@D", "single letters"),
    ],
)
def test_runs_with_another_form_have_a_kind(run: str, kind: str) -> None:
    assert find_changed([run, "@snoop", "won't"], FORMS["all"]) == [run]
    assert kind_of(run) == kind
    assert kind_of("won't") == "others"


def test_a_form_that_reads_less_is_noticed() -> None:
    assert find_changed(["free", "@snoop", "123"], CanonicalForm()) == ["free", "@snoop", "123"]


@pytest.mark.long
@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "form"),
    [
        case if case[0] == "PromptInjections" else pytest.param(*case, marks=pytest.mark.slow)
        for case in product(POSITIVES, FORMS)
    ],
)
def test_words_of_the_corpora(data_dir: Path, name: str, form: str) -> None:
    runs = sorted(examine(name, str(data_dir))[0])
    changed = find_changed(runs[:: len(runs) // 2000], FORMS[form])
    assert "others" not in map(kind_of, changed)


@pytest.mark.data
@pytest.mark.slow
def test_all_words_of_a_corpus(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "forms.json"
    main(["--data_dir", str(data_dir), "--corpora", "PromptInjections", "--out", str(out)])
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 2
    printed = capsys.readouterr().out
    for row in rows:
        assert row["others"] == row["positive test texts"] == 0
        assert f"| {row['runs']} | {row['changed']} |" in printed
