"""Studies that are shipped can be read, and the example can be run."""

from pathlib import Path

import pytest

from app.study.cell_check import check
from app.study.cells import StudyContext, lay_out
from app.study.study_file import examine, read_study

STUDIES = sorted((Path(__file__).parents[3] / "configs" / "studies").rglob("*.yaml"))


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_has_no_problem(path: Path) -> None:
    study, problems = examine(path)
    values = dict.fromkeys(study.needs, "DIR")
    place = StudyContext(study=study.name, data_dir=Path("DIR"), values=values)
    cells, more = lay_out(study, place)
    assert [*problems, *more] == []
    assert cells


SIX = ("textbugger", "textfooler", "bae", "deepwordbug", "pwws", "a2t")
THESIS = [path for path in STUDIES if path.parent.name == "attention"]


@pytest.mark.parametrize("path", THESIS, ids=lambda path: path.stem)
def test_printed_means_are_those_of_the_printed_figures(path: Path) -> None:
    study = read_study(path)
    assert study.published is not None
    assert set(study.published.figures) <= {row.name for row in study.rows}
    for row, by_corpus in study.published.figures.items():
        for figures in by_corpus.values():
            attacks = [figures[name] for name in SIX if name in figures]
            assert len(attacks) in (0, 6)
            # Rounded twice; a row of two figures has none of the single attacks.
            if attacks:
                assert sum(attacks) / 6 == pytest.approx(figures["mean"], abs=0.011), row


@pytest.mark.long
def test_the_example_has_twelve_runs_that_the_parser_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    [path] = [path for path in STUDIES if path.stem == "example"]
    monkeypatch.chdir(path.parents[2])
    study = read_study(path)
    place = StudyContext(study=study.name)
    cells, _ = lay_out(study, place)
    settings, problems = check(cells, place)
    assert problems == []
    assert len(cells) == 12
    # The runs that others start from are of their own seed: each is parsed.
    assert len(settings) == 6
