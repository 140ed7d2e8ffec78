import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.study import outcomes, study_json
from app.study.derivation import published_figures
from app.study.study import CellFigures, PaperFigures, Study, StudyError
from tests.unit.app.study.study_samples import ATTACKED, NEWS, SST2, TIME, cell, row, study

SIX = [
    cell(name, seed, outcomes)
    for name, every in {
        "a": ("110010", "100110", "110000"),
        "b": ("111110", "111110", "111111"),
    }.items()
    for seed, outcomes in enumerate(every)
]


def content(made: Study, figures: list[CellFigures], **refused: Any) -> study_json.Content:
    return study_json.content(made, figures, {"torch": "2.13.0"}, **refused)


def test_figures_and_comparisons() -> None:
    found = content(study(), SIX)
    assert [one["row"] for one in found["figures"]] == ["a", "b"]
    first = found["figures"][0]
    assert first["mean"] == pytest.approx(100 * (3 + 3 + 2) / 18)
    assert first["seeds"] == [0, 1, 2]
    assert first["low"] < first["mean"] - first["sd"] / 2
    (line,) = found["comparisons"]
    assert (line["row"], line["against"], line["texts"]) == ("b", "a", 6)
    assert line["effect"] == pytest.approx(100 * (16 - 8) / 18)
    assert line["low"] < line["effect"] < line["high"]
    assert line["p"] == line["p_holm"] >= max(line["p_texts"], line["p_seeds"])
    assert found["missing"] == []
    assert found["seconds"]["tiny-a-sst2-s1"] == {"fit": 2.5}


@pytest.mark.long
def test_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    found = content(study(), SIX)
    assert study_json.text(found) == study_json.text(content(study(), SIX[::-1]))
    study_json.write(tmp_path / "new" / "study.json", found)
    assert study_json.read(tmp_path / "new" / "study.json") == found
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["study.json"]
    # Only seconds may differ between two machines.
    slower = [replace(one, seconds={"fit": 99.0}) for one in SIX]
    again = content(study(), slower)
    assert again.pop("seconds") != found.pop("seconds")
    assert again == found


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    path.write_text("{")
    with pytest.raises(StudyError, match="cannot be read"):
        study_json.read(path)
    path.write_text(json.dumps({"format": 99}))
    with pytest.raises(StudyError, match="format 99, expected"):
        study_json.read(path)


def test_what_was_not_run_is_named() -> None:
    rows = row("a", corpora=("sst2", "news")), row("b", seeds=(0,), corpora=("news",))
    made = study(*rows, corpora=(SST2, NEWS), columns=study().columns)
    found = content(made, [cell("a", 0, "10", corpus="news")])
    assert [(one["row"], one["corpus"], one["seed"]) for one in found["missing"]] == [
        *(("a", "sst2", seed) for seed in range(3)),
        *(("a", "news", seed) for seed in (1, 2)),
        ("b", "news", 0),
    ]
    assert found["comparisons"] == []


def test_only_seeds_that_both_have_are_compared() -> None:
    (line,) = content(study(), [SIX[1], SIX[2], SIX[3], SIX[4]])["comparisons"]
    assert line["seeds"] == [1]
    assert line["texts_test"] == "McNemar"
    assert line["p_seeds"] is None


def test_single_runs_of_other_seeds_are_compared_by_texts() -> None:
    (line,) = content(study(), [SIX[0], SIX[4]])["comparisons"]
    assert (line["seeds"], line["texts_test"], line["p_seeds"]) == ([1], "McNemar", None)
    # Of several, nothing pairs them.
    assert content(study(), [SIX[0], SIX[1], SIX[5]])["comparisons"] == []


def test_without_outcomes_seeds_alone_are_tested() -> None:
    made = study(columns=[TIME], compared=["loss"])
    cells = [
        cell(name, seed, values={"loss": value + seed})
        for name, values in {"a": (0.5, 0.7, 0.2), "b": (0.9, 0.8, 0.9)}.items()
        for seed, value in enumerate(values)
    ]
    (line,) = content(made, cells)["comparisons"]
    assert (line["p_texts"], line["texts"]) == (None, None)
    assert line["p"] == line["p_seeds"]


def test_a_lower_scale_turns_the_interval() -> None:
    turned = replace(study().columns[0], scale=-100)
    (line,) = content(study(columns=[turned]), SIX)["comparisons"]
    assert line["low"] < line["effect"] < 0 < line["high"] or line["high"] < 0


def test_holm_counts_all_comparisons() -> None:
    made = study(columns=[study().columns[0], TIME], compared=["accuracy", "loss"])
    cells = [replace(one, values={**one.values, "loss": 0.1 * i}) for i, one in enumerate(SIX)]
    found = content(made, cells)["comparisons"]
    assert len(found) == 2
    known = [line["p"] for line in found if line["p"] is not None]
    assert min(line["p_holm"] for line in found if line["p"] is not None) == pytest.approx(
        min(1.0, min(known) * len(known))
    )


def test_hidden_rows_are_cells_only() -> None:
    hidden = replace(row("start", seeds=(0,)), shown=False)
    found = content(study(row("a"), row("b"), hidden), [*SIX, cell("start", 0, "10")])
    assert [one["name"] for one in found["rows"]] == ["a", "b"]
    assert len(found["cells"]) == 7
    assert {one["row"] for one in found["figures"]} == {"a", "b"}


@pytest.mark.parametrize("field", ["samples", "data"])
@pytest.mark.parametrize("which", [2, 4])
def test_other_samples_are_not_mixed(field: str, which: int) -> None:
    cells = list(SIX)
    name, seed = cells[which].row, cells[which].seed
    changed: dict[str, Any] = {field: "other"}
    cells[which] = cell(name, seed, "101010", **changed)
    with pytest.raises(StudyError) as error:
        content(study(), cells)
    assert f"tiny-{name}-sst2-s{seed}" in str(error.value)
    assert "expected the same" in str(error.value)


def test_other_samples_of_rows_that_are_not_compared() -> None:
    cells = [cell("a", 0, "10", samples="one"), cell("b", 0, "10", samples="two")]
    found = content(study(against=()), cells)
    assert len(found["figures"]) == 2
    refused = {("b", "a", "accuracy"): "other samples"}
    found = content(study(), cells, refused=refused)
    assert found["comparisons"] == []
    assert found["refused"][0]["reason"] == "other samples"


def test_two_runs_of_one_cell() -> None:
    with pytest.raises(StudyError, match="expected one"):
        content(study(), [*SIX, SIX[0]])
    with pytest.raises(StudyError, match="expected a cell of study tiny"):
        content(study(), [cell("c", 0, "1")])


def test_figures_that_are_not_finite_or_flagged() -> None:
    made = study(columns=[ATTACKED], compared=["fooled"])
    cells = [
        cell("a", 0, values={"fooled": None}),
        cell("a", 1, values={"fooled": 0.5}),
        cell("b", 0, values={"fooled": 0.5}, unreliable=["fooled"]),
        cell("b", 1, values={"fooled": 0.4}),
    ]
    found = content(made, cells)
    assert found["figures"][0]["mean"] is None
    assert [one["unreliable"] for one in found["figures"]] == [False, True]
    (line,) = found["comparisons"]
    assert line["seeds"] == [1]
    assert line["unreliable"] is False


def test_figures_of_the_paper() -> None:
    paper = PaperFigures(source="Table 2", figures={"a": {"sst2": {"accuracy": 92.1}}})
    found = content(study(published=paper), SIX)
    assert found["paper"] == {"source": "Table 2", "figures": {"a": {"sst2": {"accuracy": 92.1}}}}


def test_every_key_is_on_the_page() -> None:
    page = (Path(__file__).parents[4] / "docs" / "tables.md").read_text()
    found = content(study(), SIX)
    names = {*found, *found["figures"][0], *found["comparisons"][0], *found["cells"][0]}
    plain = {"row", "against", "corpus", "column", "run", "seed"}
    assert [name for name in sorted(names - plain) if f"`{name}`" not in page] == []


def test_published_cells_are_read_with_their_outcomes(tmp_path: Path) -> None:
    made, path = study(), tmp_path / "tiny.json"
    data = content(made, SIX)
    study_json.write(path, data)
    outcomes.write(path, study_json.outcomes_of(made, SIX))
    read = published_figures(path, made, {"torch": "2.13.0", "revision": "new"})
    # Half of the runs are here: the file is the same as that of all runs.
    here = [one for one in SIX if one.row == "a"]
    both = [*here, *(one for one in read if one.row == "b")]
    assert content(made, both) == data
    with pytest.raises(StudyError, match="another file of study tiny"):
        published_figures(path, replace(made, digest="1" * 64), {"torch": "2.13.0"})
    with pytest.raises(StudyError, match="other versions of torch"):
        published_figures(path, made, {"torch": "2.14.1"})


def test_rows_with_other_attacks_are_not_compared() -> None:
    """They may have stages of their own, with another score or budget."""

    def cells(**b: Any) -> list[CellFigures]:
        own = {"a": {"score": "margin", "query_budget": None}, "b": b}
        return [replace(one, protocols={"accuracy": own[one.row]}) for one in SIX]

    assert content(study(), cells(score="margin", query_budget=None))["refused"] == []
    # Nothing is known of published runs.
    assert content(study(), cells())["comparisons"] == content(study(), SIX)["comparisons"]
    found = content(study(), cells(score="probability", query_budget=None))
    assert found["comparisons"] == []
    (refused,) = found["refused"]
    assert refused["reason"] == "measured with score margin and probability"
    assert content(study(), SIX, refused={("b", "a", "accuracy"): refused["reason"]})[
        "refused"
    ] == [refused]


def test_other_rows_are_found_next_to_a_run_that_names_none() -> None:
    """The first run is of an older version, which has not stored the digest of its rows."""
    cells = [replace(SIX[0], data={}), SIX[1], replace(SIX[2], data={"test": "others"})]
    alone = study(row("a"), against=(), compared=())
    with pytest.raises(StudyError, match=r"s1 and tiny-a-sst2-s2 on other rows of the test split"):
        content(alone, cells)


def test_only_a_p_by_permutations_may_differ_by_chance() -> None:
    """McNemar's exact test gives the same p everywhere: another one was not computed so."""
    seeds = [one for one in SIX if one.seed == 0]
    made = study(row("a", seeds=(0,)), row("b", seeds=(0,)))
    former = content(made, seeds)
    (line,) = former["comparisons"]
    assert line["texts_test"] == "McNemar"
    exact = line["p_texts"]
    line["p_texts"] = exact - 0.004
    assert content(made, seeds, former=former)["comparisons"][0]["p_texts"] == exact
