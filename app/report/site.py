"""All runs as a static site: a table of runs, robust against clean accuracy, a page for each."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from app.report.heat_maps import RunAttacks, heat_maps
from app.report.report_page import check_names, render, write_report
from app.report.run_tables import main_figure, trade_off
from measure.verdict import FigureKind, RunVerdict, VerdictFigure
from run_files import atomic
from run_files.run_directory import RunDirectory
from text.bounded_files import kind_of
from text.error_reasons import describe_error
from text.plural import plural

log = logging.getLogger(__name__)

INDEX = "index.html"
_TITLE = "<title>Runs</title>"
_SCRIPT = (Path(__file__).parent / "site.js").read_text(encoding="utf-8")
_COLUMNS: dict[FigureKind, str] = {
    "clean": "clean texts",
    "attack": "under the strongest attack",
    "words": "certified in words",
    "radius": "certified radius",
}


class SiteRow(NamedTuple):
    """A run of the site: its page in the folder, its verdict, and its main figures by kind."""

    name: str
    page: str
    method: str
    corpus: str
    verdict: RunVerdict
    figures: Sequence[VerdictFigure | None]


@dataclass(frozen=True)
class Site:
    """The index, and contradicted certificates."""

    index: Path
    contradictions: Sequence[str]


def find_runs(folder: Path) -> list[RunDirectory]:
    """Return the runs of a directory, by name.

    Raises:
        FileNotFoundError: no directory, or no run in it.
    """
    paths = sorted(folder.glob("*/config.yaml")) if folder.is_dir() else []
    runs = [RunDirectory(path.parent) for path in paths if kind_of(path)]
    if not runs:
        msg = f"got --runs_dir {folder}, which has no runs, expected some: `train` makes one"
        raise FileNotFoundError(msg)
    return runs


def write_site(runs: Sequence[RunDirectory], folder: Path) -> Site:
    """Write the index, and the report of each run into a folder with its name.

    A run that cannot be read is a warning.

    Raises:
        ValueError: no run can be read, several have one name, or the folder has the index of
            another site.
        OSError: a page cannot be written.
    """
    check_names(runs)
    index = folder / INDEX
    if index.exists() and _TITLE not in index.read_text(encoding="utf-8", errors="replace"):
        msg = f"got --output {folder} with another {INDEX}, expected a new folder, or an old site"
        raise ValueError(msg)
    rows, contradictions, attacks = list[SiteRow](), list[str](), list[RunAttacks]()
    for run in runs:
        try:
            report = write_report([run], folder / run.name)
        except ValueError as error:
            # One damaged run must not hide all others.
            log.warning("run %s is left out: %s", run.name, describe_error(error))
            continue
        contradictions += report.contradictions
        attacks += report.attacks
        results = run.results()
        verdict = report.verdicts[0]
        rows.append(
            SiteRow(
                name=run.name,
                page=f"{run.name}/{report.page.name}",
                method="" if results is None else results["method"],
                corpus="" if results is None else results["corpus"],
                verdict=verdict,
                figures=[_figure(verdict, kind) for kind in _COLUMNS],
            )
        )
    if not rows:
        msg = f"got {plural(len(runs), 'run')} that cannot be read, expected one with figures"
        raise ValueError(msg)
    compared = []
    # Accuracies of different corpora do not compare.
    for i, corpus in enumerate(dict.fromkeys(row.corpus for row in rows), 1):
        verdicts = {row.name: row.verdict for row in rows if row.corpus == corpus}
        picture = trade_off(f"clean-against-robust-{i}", verdicts)
        compared.append((corpus, picture, heat_maps([a for a in attacks if a.corpus == corpus])))
    columns = [*_COLUMNS.values()]
    html = render("site.html.j2", _SCRIPT, rows=rows, columns=columns, compared=compared)
    atomic.write_text(index, html)
    return Site(index, contradictions)


def _figure(verdict: RunVerdict, kind: FigureKind) -> VerdictFigure | None:
    """Return a figure of a run for its column; None if it is not measured."""
    figure = main_figure(verdict, kind)
    # Without a radius, the main figure about vectors is the accuracy under PGD, an attack.
    pgd = kind == "radius" and figure is not None and "radius" not in figure.name
    return None if pgd else figure
