import gzip
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.commands.study_table import write_all
from app.study import outcomes, pages, study_json
from app.study.derivation import derive, differences
from app.study.study import CellFigures, StudyError
from measure import uncertainty
from tests.run_command import run_command
from tests.unit.app.study.study_samples import TIME, cell, row, study

table_main = partial(run_command, "study table")

HARD, EASY = "1000000000" * 6, "1111111100" * 6
FIGURES = [
    *(cell("a", seed, HARD[seed:] + "1" * seed) for seed in range(3)),
    *(cell("b", seed, "0" * seed + EASY[seed:]) for seed in range(3)),
]


def publish(folder: Path, figures: list[CellFigures] = FIGURES) -> Path:
    """A published study with its outcomes."""
    made, path = study(), folder / "tiny.json"
    study_json.write(path, study_json.content(made, figures, {}))
    outcomes.write(path, study_json.outcomes_of(made, figures))
    return path


def change(path: Path, **values: Any) -> None:
    """Overwrites values of the first comparison."""
    content = json.loads(path.read_text())
    content["comparisons"][0] |= values
    path.write_text(json.dumps(content))


def test_outcomes_give_the_same_file_again(tmp_path: Path) -> None:
    path = publish(tmp_path)
    content = study_json.read(path)
    samples = outcomes.read(path, content["outcomes"])
    assert samples is not None
    assert study_json.text(derive(content, samples)) == study_json.text(content)
    assert pages.check([path]) == []
    # A number for each text and run, and no text.
    line = samples["runs"]["tiny-b-sst2-s0"]["accuracy"]
    assert line["outcomes"] == EASY
    assert samples["samples"][line["samples"]]["ids"] == list(range(60))


@pytest.mark.parametrize(
    "values", [{"p_texts": 0.9}, {"p_holm": 0.9}, {"effect": 1.0}, {"low": 0.0}, {"seeds": [0, 1]}]
)
def test_what_does_not_follow_from_the_outcomes_is_found(
    tmp_path: Path, values: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    path = publish(tmp_path)
    change(path, **values)
    assert table_main(["--check", str(path)]) == 1
    assert f"comparisons[0].{next(iter(values))}" in capsys.readouterr().err
    # So it is where a page shows the file.
    page = tmp_path / "page.md"
    page.write_text("<!-- study: tiny.json mean b accuracy sst2 --><!-- /study -->\n")
    pages.write(page)
    assert [one.page for one in pages.check([page])] == [path]
    assert table_main([str(path), "--publish", str(tmp_path), "--check", str(page)]) == 0


def test_other_permutations_are_no_error(tmp_path: Path) -> None:
    flat = [cell("a", s, "10" * 30) for s in range(3)]
    flat += [cell("b", s, "10" * 20 + "1110" * (5 - s) + "1010" * s) for s in range(3)]
    path = publish(tmp_path, flat)
    known = study_json.read(path)["comparisons"][0]
    again = derive(study_json.read(path), None)["comparisons"][0]
    assert again == known
    change(path, p_texts=known["p_texts"] + 0.002)
    content = study_json.read(path)
    repeated = derive(content, outcomes.read(path, content["outcomes"]))
    assert repeated["comparisons"][0]["p_texts"] == pytest.approx(known["p_texts"] + 0.002)


@pytest.mark.parametrize(
    ("seeds", "drawn", "same"),
    [
        # One seed: the p is exact, and the ends of the interval move in steps of one text of 60.
        (1, {"low": -0.1 - 1 / 60, "high": 0.15}, True),
        (1, {"high": 0.17}, False),
        # Twice the smaller share of 9,999 draws, of 0.4, has a standard error of 0.0098.
        (3, {"p_texts": 0.8452}, True),
        (3, {"p_texts": 0.88}, False),
    ],
)
def test_another_random_stream_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeds: int, drawn: dict[str, Any], same: bool
) -> None:
    flat = [cell("a", seed, "10" * 30) for seed in range(seeds)]
    right = ["1110" * 8 + "1000" * 7, "1000" * 8 + "1110" * 7, "1110" * 9 + "1000" * 6]
    flat += [cell("b", seed, right[seed]) for seed in range(seeds)]
    content = study_json.read(publish(tmp_path, flat))
    real = uncertainty.compare
    monkeypatch.setattr(
        uncertainty, "compare", lambda *sides, **kind: replace(real(*sides, **kind), **drawn)
    )
    again = derive(content, study_json.outcomes_of(study(), flat))
    assert (differences(content, again) == []) == same


def test_without_outcomes_tests_over_texts_are_taken_over(tmp_path: Path) -> None:
    one = [cell("a", 0, HARD), cell("b", 0, EASY)]
    content = study_json.content(study(), one, {})
    content |= {"outcomes": None, "remarks": ["Measured before outcomes were kept."]}
    again = derive(content, None)
    assert again == content
    assert outcomes.read(tmp_path / "tiny.json", None) is None
    # A column that nobody compared then is compared now, over seeds.
    made = study(columns=[*study().columns, TIME], compared=["accuracy"])
    cells = [replace(c, values={**c.values, "loss": 0.1 * i**2}) for i, c in enumerate(FIGURES)]
    content = {**study_json.content(made, cells, {}), "outcomes": None}
    content["compared"]["columns"].append("loss")
    line = derive(content, None)["comparisons"][-1]
    assert (line["column"], line["p_texts"]) == ("loss", None)
    assert line["p"] == line["p_seeds"]


def test_hidden_rows_keep_their_place() -> None:
    rows = row("a"), replace(row("start", seeds=(0,)), shown=False), row("b"), row("c")
    content = study_json.content(study(*rows), [*FIGURES, cell("start", 0, HARD)], {})
    content["outcomes"] = None
    assert derive(content, None) == content


def test_other_outcomes_are_refused(tmp_path: Path) -> None:
    path = publish(tmp_path)
    digest = study_json.read(path)["outcomes"]
    packed = outcomes.path_of(path)
    whole = packed.read_bytes()
    assert gzip.decompress(whole)
    for content in (whole[:-9], b"{}", gzip.compress(b"[]"), gzip.compress(b"{}"), b""):
        packed.write_bytes(content)
        with pytest.raises(StudyError, match="publish both files together"):
            outcomes.read(path, digest)
    changed = json.loads(gzip.decompress(whole))
    changed["runs"]["tiny-b-sst2-s0"]["accuracy"]["outcomes"] = HARD
    with pytest.raises(StudyError, match="from its outcomes, expected the same"):
        derive(study_json.read(path), changed)
    packed.unlink()
    assert "not found" in str(pages.check([path])[0])


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = publish(tmp_path)
    monkeypatch.setattr(outcomes, "LIMIT", 100)
    with pytest.raises(StudyError, match="publish both files together"):
        outcomes.read(path, study_json.read(path)["outcomes"])


def test_a_study_without_outcomes_removes_former_ones(tmp_path: Path) -> None:
    write_all(study(), study_json.content(study(), FIGURES, {}), tmp_path)
    path = tmp_path / "study.json"
    outcomes.write(path, study_json.outcomes_of(study(), FIGURES))
    assert outcomes.path_of(path).is_file()
    outcomes.write(path, None)
    assert not outcomes.path_of(path).exists()


def test_differences_are_named() -> None:
    assert differences({"a": [1.0, 2]}, {"a": [1.0 + 1e-9, 2]}) == []
    assert differences({"a": [1.0]}, {"a": [2.0]}) == ["a[0] is 1, computed again 2"]
    assert differences([1], [1, 2]) == [" is [1], computed again [1, 2]"]
