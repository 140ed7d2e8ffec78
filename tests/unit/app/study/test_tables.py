import csv
import io
from dataclasses import replace
from typing import Any

import pytest

from app.study import study_json, tables
from app.study.study import CellFigures, PaperFigures, Study
from app.study.table_formats import WIDTH, Table, escape_latex, markdown
from tests.unit.app.study.study_samples import ACCURACY, ATTACKED, NEWS, SST2, cell, row, study

HARD, EASY = "1000000000" * 20, "1111111100" * 20


def three(name: str, outcomes: str, **options: Any) -> list[CellFigures]:
    return [cell(name, seed, outcomes, **options) for seed in range(3)]


def content(made: Study, figures: list[CellFigures], **refused: Any) -> study_json.Content:
    return study_json.content(made, figures, {}, **refused)


def grid() -> study_json.Content:
    """Two rows on two corpora: full, of one seed and flagged, not run."""
    rows = row("a", corpora=("sst2", "news")), row("b", corpora=("sst2", "news"))
    paper = PaperFigures(source="Table 2, BERT-base", figures={"a": {"sst2": {"accuracy": 92.125}}})
    made = study(
        *rows,
        columns=[ACCURACY, ATTACKED],
        corpora=[SST2, NEWS],
        published=paper,
        notes=["Only a test."],
    )
    full = [cell("a", seed, HARD[seed:] + "0" * seed) for seed in range(3)]
    full += [cell("b", seed, "0" * seed + EASY[seed:]) for seed in range(3)]
    one = cell("a", 0, EASY, corpus="news", values={"fooled": 0.5}, unreliable=["fooled"])
    return content(made, [*full, one])


def test_markdown() -> None:
    text = tables.render(grid(), "markdown")
    rows = [[part.strip() for part in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["", "accuracy, %", "paper", "TextFooler, %"] in rows
    assert ["A", "9.7 ± 0.3 (3)", "92.1", "–"] in rows
    assert ["B", "79.5 ± 0.5▲ (3)", "–", "–"] in rows
    assert ["A", "80.0 (1 seed)", "50.0† (1 seed)"] in rows
    assert ["B", "not run", "not run"] in rows
    for said in (
        "**SST-2**",
        "**AG News**",
        "- Mean ± standard deviation over seeds",
        "“1 seed”",
        "- † The attack",
        "▲ ▼ significantly above or below A",
        "- Not run: A on AG News (seeds 1, 2); B on AG News (seeds 0, 1, 2).",
        "- “paper”: Table 2, BERT-base.",
        "- Only a test.",
        "< 0.001",
    ):
        assert said in text, said
    # Notes keep to the width of a page.
    assert all(len(line) <= 118 for line in text.splitlines() if not line.startswith("|"))
    # Every line of a table has as many cells.
    assert len({line.count("|") for line in text.split("\n\n")[1].splitlines()}) == 1


def test_one_table_where_columns_name_corpora() -> None:
    columns = [
        ACCURACY.__class__(
            name=corpus.name, title=corpus.title, metric="test/accuracy", corpus=corpus.name
        )
        for corpus in (SST2, NEWS)
    ]
    rows = row("a", corpora=("sst2", "news"), seeds=(0,)), row("b", corpora=("news",), seeds=(0,))
    made = study(*rows, columns=columns, corpora=[SST2, NEWS], compared=(), against=())
    cells = [
        cell("a", 0, corpus="sst2", values={"sst2": 0.5}),
        cell("a", 0, corpus="news", values={"news": 0.25}),
    ]
    (table,) = tables.main_tables(content(made, cells))
    assert table.header == ["", "SST-2", "AG News"]
    assert table.rows == [["A", "0.500", "0.250"], ["B", "–", "not run"]]


def test_a_figure_that_a_method_lacks_is_not_said_to_be_not_run() -> None:
    rows = row("a", seeds=(0, 1)), row("b", seeds=(0, 1))
    made = study(*rows, columns=[ACCURACY, ATTACKED], compared=(), against=())
    (table,) = tables.main_tables(content(made, [cell("a", 0, HARD)]))
    assert [line[2] for line in table.rows] == ["–", "not run"]


def test_no_sign_for_a_figure_that_measures_nothing() -> None:
    cells = [*three("a", HARD), *three("b", EASY, unreliable=["accuracy"])]
    (table,) = tables.main_tables(content(study(), cells))
    assert table.rows[1][1] == "80.0 ± 0.0†"
    (line,) = content(study(), cells)["comparisons"]
    assert line["p_holm"] < 0.05
    notes = tables.notes(content(study(), cells))
    assert any(
        note.startswith("No difference is significant, except of figures with † or ‡ (p")
        for note in notes
    )


def test_notes_say_where_the_rule_is_another_one() -> None:
    """Intervals of equal differences, single runs with other seeds, rows with two baselines."""
    rows = row("a"), row("b"), row("c")
    varied = [cell("c", seed, "0" * seed + EASY[seed:]) for seed in range(3)]
    cells = [*three("a", HARD), *three("b", EASY), *varied]

    def notes(*against: tuple[str, str], figures: list[CellFigures] = cells) -> str:
        return " ".join(tables.notes(content(study(*rows, against=against), figures)))

    first, both = "in the tables of figures the first of several", [("c", "a"), ("c", "b")]
    assert first in notes(*both)
    assert first not in notes(("b", "a"), ("c", "a"))
    equal = "of one seed, or where all seeds have the same difference, the percentile bootstrap"
    assert equal in notes(("b", "a"))
    assert equal not in notes(("c", "a"))
    # Without outcomes, there are no tests over texts either.
    plain = [cell(name, 0, values={"accuracy": 0.5}) for name in "ab"]
    assert "single texts are not kept." in notes(("b", "a"), figures=plain)
    other = "the same seeds, or are single runs."
    assert other in notes(("b", "a"), figures=[cells[0], cells[4]])
    assert other not in notes(("b", "a"), figures=[cells[0], cells[3]])


def test_a_model_that_has_collapsed_is_flagged() -> None:
    cells = [*three("a", HARD), *three("b", EASY)]
    cells[4] = replace(cells[4], collapsed=True)
    (table,) = tables.main_tables(content(study(), cells))
    assert table.rows[1][1] == "80.0 ± 0.0‡"
    text = tables.render(content(study(), cells), "markdown")
    assert "‡ A model that gives all texts the same answer is among the seeds (tiny-b-sst2-s1)" in (
        " ".join(text.split())
    )
    assert "‡" not in tables.render(content(study(), [*three("a", HARD)]), "markdown")
    lines = csv.DictReader(io.StringIO(tables.render(content(study(), cells), "csv")))
    flags = [(line["kind"], line["row"], line["collapsed"]) for line in lines]
    assert flags == [("figure", "a", "False"), ("figure", "b", "True"), ("difference", "b", "True")]
    assert r"\textsuperscript{\ddag}" in tables.render(content(study(), cells), "latex")


def test_a_single_seed_gets_no_mark() -> None:
    cells = [cell("a", 0, HARD), cell("b", 0, EASY)]
    made = content(study(), cells)
    (table,) = tables.main_tables(made)
    assert table.rows[1][1] == "80.0"
    (line,) = made["comparisons"]
    assert line["p_texts"] < 0.001
    assert (line["p"], line["p_holm"]) == (None, None)
    assert (
        "Differences of one or two seeds are not tested as a whole, and get no mark"
        in tables.render(made, "markdown")
    )


@pytest.mark.parametrize(
    ("revisions", "said"),
    [
        ((("a1",), ("a1",)), "Runs of revision a1."),
        ((("a1",), ("b2",)), "Runs of mixed revisions: a1, b2."),
        ((("a1",), ()), "Runs of revision a1, not recorded of others."),
        ((("a1-dirty",), ("a1-dirty",)), "revision a1-dirty (-dirty: with changes that are in no"),
        (((), ()), "The revisions of the runs were not recorded."),
    ],
)
def test_revisions_are_those_of_the_runs(revisions: tuple[tuple[str, ...], ...], said: str) -> None:
    cells = [cell(name, 0, HARD, revisions=one) for name, one in zip("ab", revisions, strict=True)]
    made = study_json.content(study(), cells, {"revision": "c3"})
    assert said in " ".join(tables.notes(made))
    assert "c3" not in study_json.text(made)


def test_below() -> None:
    cells = [*three("a", EASY), *three("b", HARD)]
    (table,) = tables.main_tables(content(study(), cells))
    assert table.rows[1][1] == "10.0 ± 0.0▼"


def test_differences() -> None:
    (table,) = tables.comparisons(grid())
    assert table.title == "Differences from: A"
    (line,) = table.rows
    assert line[:2] == ["B", "accuracy, %"]
    assert line[2].startswith("+69.8 [+69.")
    assert line[2].endswith("]▲")
    assert tables.comparisons(content(study(against=()), [])) == []


def test_the_number_of_seeds_stands_in_the_notes_if_all_figures_have_it() -> None:
    three = content(study(), [cell("a", seed, HARD[seed:] + "0" * seed) for seed in range(3)])
    (table,) = tables.main_tables(three)
    assert table.rows[0][1] == "9.7 ± 0.3"
    assert tables.notes(three)[0] == "Mean ± standard deviation over 3 seeds."
    one = content(study(), [cell("a", 0, EASY), cell("b", 0, HARD)])
    assert tables.notes(one)[0] == "One seed: chance among seeds is not known."
    other = content(study(), [*(cell("a", seed, EASY) for seed in (0, 1)), cell("b", 0, HARD)])
    assert "their number in brackets" in tables.notes(other)[0]


def test_a_wide_table_is_continued_below() -> None:
    header = ["", "first " * 6, "paper", "second " * 6, "third " * 6]
    wide = Table(title="", header=header, rows=[["row", "1.0", "2.0", "3.0", "4.0"]])
    lines = markdown(wide).splitlines()
    assert max(map(len, lines)) <= WIDTH
    heads = [line for line in lines if "first" in line or "third" in line]
    # A figure stays with the paper's, and each part names its rows.
    assert "paper" in heads[0]
    assert "third" in heads[1]
    assert sum(line.startswith("| row") for line in lines) == 2


def test_a_corpus_without_figures_has_no_table_beside_others() -> None:
    rows = [row(name, corpora=("sst2", "news"), seeds=(0,)) for name in "ab"]
    made = study(*rows, corpora=[SST2, NEWS])
    cells = [cell(name, 0, EASY, corpus="sst2") for name in "ab"]
    assert [one.title for one in tables.main_tables(content(made, cells))] == ["SST-2"]
    assert [one.title for one in tables.main_tables(content(made, []))] == ["SST-2", "AG News"]


def test_latex() -> None:
    paper = PaperFigures(
        source="Table #2 & 3_a {x} ~ ^ \\", figures={"a": {"sst2": {"accuracy": 1}}}
    )
    cells = [*three("a", HARD), *three("b", EASY)]
    text = tables.render(content(study(published=paper), cells), "latex")
    assert "accuracy, \\% & paper \\\\" in text
    assert "0.0$\\blacktriangle$" in text
    escaped = r"Table \#2 \& 3\_a \{x\} \textasciitilde{} \textasciicircum{} \textbackslash{}"
    assert escaped in text
    assert "``paper''" in text
    for word in ("\\toprule", "\\midrule", "\\bottomrule"):
        assert text.count(word) == 2
    assert text.count("\\begin{table}") == text.count("\\end{table}") == 2
    assert escape_latex("γ = 2, Λ ± 1") == "$\\gamma$ = 2, $\\Lambda$ $\\pm$ 1"
    # TeX reads it in any encoding.
    assert text.isascii()


def test_csv() -> None:
    lines = list(csv.DictReader(io.StringIO(tables.render(grid(), "csv"))))
    kinds = [line["kind"] for line in lines]
    assert [kinds.count(kind) for kind in ("figure", "paper", "difference", "not run")] == [
        *(4, 1, 1, 5)
    ]
    figure = lines[0]
    assert (figure["row"], figure["corpus"], figure["seeds"]) == ("a", "sst2", "0 1 2")
    assert float(figure["value"]) == pytest.approx(9.67, abs=0.01)
    difference = next(line for line in lines if line["kind"] == "difference")
    assert float(difference["p_holm"]) < 0.05
    paper = next(line for line in lines if line["kind"] == "paper")
    assert paper["value"] == "92.125"


def test_not_finite() -> None:
    cells = [cell("a", seed, values={"accuracy": value}) for seed, value in enumerate((0.5, None))]
    (table,) = tables.main_tables(content(study(), cells))
    assert table.rows == [["A", "not finite"], ["B", "not run"]]


def test_what_is_not_compared_is_named() -> None:
    cells = [cell("a", 0, HARD, samples="x"), cell("b", 0, EASY)]
    refused = {("b", "a", "accuracy"): "num_samples 100 and 300"}
    text = tables.render(content(study(), cells, refused=refused), "markdown")
    assert "accuracy, %: B and A are not compared: num_samples 100 and 300." in text


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [(-0.001, 1, "0.0"), (1234.56, 1, "1234.6"), (0.5, 0, "0"), (-2.25, 2, "-2.25")],
)
def test_numbers(value: float, digits: int, shown: str) -> None:
    assert tables.number(value, digits) == shown


def test_signed_numbers_and_probabilities() -> None:
    assert tables.number(0.04, 1, sign=True) == "0.0"
    assert tables.number(0.06, 1, sign=True) == "+0.1"
    assert [tables.probability(p) for p in (None, 0.0004, 0.001, 1.0)] == [
        *("–", "< 0.001", "0.001", "1.000")
    ]


def test_a_long_title_is_wrapped() -> None:
    table = Table(title="of a row, " * 20, header=["a"], rows=[["1"]])
    lines = markdown(table).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert " ".join(lines[: lines.index("")]) == f"**{' '.join(table.title.split())}**"


def test_a_cell_of_a_table_is_one_line() -> None:
    table = Table(title="", header=["a|b"], rows=[["x\ny"]])
    assert markdown(table).splitlines() == [r"| a\|b |", "| ---- |", "| x y  |"]
