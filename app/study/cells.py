"""Cells of a study: its runs, and the command lines of their stages."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from app.study.study import Cell, Settings, Stage, Study, StudyCorpus, StudyError, StudyRow
from app.study.study_file import DATA_DIR

TRAINING = ("train", "fit")
_PLACE = re.compile(r"\$\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+=-]*")


@dataclass(frozen=True, kw_only=True)
class Place:
    """The place of a study: all that its file leaves to the command line.

    Attributes:
        study: name of the study.
        runs_dir: directory of all runs.
        data_dir: folder of the corpora; None if none is given.
        values: those of `--set`.
        runs_only: True where only runs are read: values that are not given stay as `${NAME}`, and
            no corpus is loaded.
    """

    study: str
    runs_dir: Path = Path("runs")
    data_dir: Path | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    runs_only: bool = False

    @property
    def out(self) -> Path:
        """Folder of the study's own files."""
        return self.runs_dir / "studies" / self.study

    @property
    def given(self) -> dict[str, str]:
        """All values, by the names that a study's file calls them."""
        data = {} if self.data_dir is None else {DATA_DIR: str(self.data_dir)}
        return {**data, **self.values}


def cells(study: Study, place: Place) -> list[Cell]:
    """Returns all runs of a study: those with the first seed of every row, then the second, ...

    So a study that is stopped has whole tables, of fewer seeds.

    Args:
        study: the study.
        place: where it is run.

    Raises:
        StudyError: a value that the study needs is missing, or one is given that it does not need.
    """
    found, problems = laid_out(study, place)
    if problems:
        raise StudyError("\n".join(problems))
    return found


def laid_out(study: Study, place: Place) -> tuple[list[Cell], list[str]]:
    """Returns the same, and all that is wrong with the values that are given, a line each."""
    problems = [
        f"got no {name}, expected --set {name}=VALUE: {what}"
        for name, what in study.needs.items()
        if name not in place.given and not place.runs_only
    ]
    problems += [
        f"got --set {name}, which the study does not need, expected "
        f"{', '.join(study.needs) or 'none'}"
        for name in place.values
        if name not in study.needs
    ]
    rows = {row.name: row for row in study.rows}
    corpora = {corpus.name: corpus for corpus in study.corpora}
    kinds = [
        _Kind(row, corpora.get(corpus), rows.get(row.after) if row.after else None)
        for row in study.rows
        for corpus in row.corpora or ("",)
        if not corpus or corpus in corpora
    ]
    found = [
        _cell(kind, kind.row.seeds[number], place, problems)
        for number in range(max((len(kind.row.seeds) for kind in kinds), default=0))
        for kind in kinds
        if number < len(kind.row.seeds)
    ]
    names = [cell.run for cell in found]
    problems += [
        f"got two runs {name!r}, expected names of rows and corpora that differ"
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    return found, list(dict.fromkeys(problems))


class _Kind(NamedTuple):
    """A row on a corpus, and the row that comes first."""

    row: StudyRow
    corpus: StudyCorpus | None
    first: StudyRow | None


def _cell(kind: _Kind, seed: int, place: Place, problems: list[str]) -> Cell:
    row, corpus, first = kind
    given, where = place.given, f"rows.{row.name}"

    def fill(value: Any) -> Any:
        return _filled(value, given, where, None if place.runs_only else problems)

    name = "" if corpus is None else corpus.name
    after = None if first is None else _run_before(first, name, seed, place)
    settings = {
        **(corpus.settings if corpus else {}),
        **row.settings,
        **row.settings_on.get(name, {}),
    }
    start = {} if after is None else {key: f"{after}/{path}" for key, path in row.start.items()}
    settings |= {key: str(place.runs_dir / path) for key, path in start.items()}
    return Cell(
        row=row.name,
        corpus=name,
        seed=seed,
        run=run_name(place.study, row.name, name, seed),
        config=tuple(fill([*(corpus.config if corpus else ()), *row.config])),
        settings=fill(settings),
        stages=tuple(
            Stage(command=stage.command, options=fill(stage.options)) for stage in row.stages
        ),
        after=after,
        start=start,
    )


def _run_before(first: StudyRow, corpus: str, seed: int, place: Place) -> str:
    """The run of another row that has to have ended."""
    on = corpus if corpus in first.corpora else "".join(first.corpora[:1])
    of = seed if seed in first.seeds else first.seeds[0]
    return run_name(place.study, first.name, on, of)


def run_name(study: str, row: str, corpus: str, seed: int) -> str:
    """Returns the name of a run."""
    return "-".join(part for part in (study, row, corpus, f"s{seed}") if part)


def _filled(value: Any, given: Mapping[str, str], where: str, problems: list[str] | None) -> Any:
    """A value with `${name}` replaced, at any depth; without problems, a lacking one stays."""
    if isinstance(value, Mapping):
        return {key: _filled(one, given, where, problems) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(one, given, where, problems) for one in value]
    if not isinstance(value, str):
        return value

    def replaced(match: re.Match[str]) -> str:
        name = match[1]
        if problems is None:
            return given.get(name, match[0])
        if name == DATA_DIR and name not in given:
            problems.append(f"{where}: got ${{{name}}}, expected --data_dir DIR")
        return given.get(name, "")

    return _PLACE.sub(replaced, value)


# Command lines


def command_line(cell: Cell, stage: Stage, place: Place) -> list[str]:
    """Returns the words of a stage's command, after the name of the program."""
    if stage.command == "diagnose":
        return ["diagnose", *_of_run(cell, place), *_plain_words(stage.options)]
    if stage.threat is not None:
        where = [] if place.data_dir is None else [f"--data_dir={place.data_dir}"]
        return ["certify", *_of_run(cell, place), *_plain_words(stage.options), *where]
    quiet = ["--trainer.enable_progress_bar=false"]
    if stage.command in TRAINING:
        return [
            *(stage.command, *training_words(cell, place), *quiet),
            *(*_of_run(cell, place), *words(options_of(stage, place))),
        ]
    # A run keeps its model, data and seed; where it computes is given anew.
    machine = {
        key: cell.settings[key]
        for key in ("trainer.accelerator", "trainer.devices")
        if key in cell.settings
    }
    return [
        *(stage.command, *_of_run(cell, place), *words(machine), *data_words(place), *quiet),
        *words(options_of(stage, place)),
    ]


def training_words(cell: Cell, place: Place) -> list[str]:
    """Returns the words that say all about a run but its name."""
    return [
        *(f"--config={path}" for path in cell.config),
        *words(cell.settings),
        *data_words(place),
        f"--seed_everything={cell.seed}",
    ]


def options_of(stage: Stage, place: Place) -> Settings:
    """Returns the options of a stage by their full names on the command line."""
    if stage.command != "attack":
        return stage.options
    options = {} if place.data_dir is None else {"attack.resources": str(place.data_dir)}
    full = {(key if "." in key else f"attack.{key}"): one for key, one in stage.options.items()}
    return {**options, **full}


def data_words(place: Place) -> list[str]:
    """Returns the words that name the folder of the corpora."""
    return [] if place.data_dir is None else [f"--data.data_dir={place.data_dir}"]


def words(settings: Settings) -> list[str]:
    """Returns settings as words of a command line."""
    return [f"--{key}={_written(value)}" for key, value in settings.items()]


def _plain_words(options: Settings) -> list[str]:
    """Options of a command that is not Lightning's: flags have no value, lists several words."""
    found = []
    for key, value in options.items():
        if isinstance(value, list):
            found += [f"--{key}", *map(_written, value)]
        elif value is True:
            found.append(f"--{key}")
        elif value not in (False, None):
            found.append(f"--{key}={_written(value)}")
    return found


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _of_run(cell: Cell, place: Place) -> list[str]:
    return [f"--run={cell.run}", f"--runs_dir={place.runs_dir}"]


# Parts of a study


def only(every: Sequence[Cell], names: Iterable[str] = (), seeds: Iterable[int] = ()) -> list[Cell]:
    """Returns the cells of some rows, corpora and seeds, and those that must have ended before.

    Args:
        every: all cells.
        names: of rows and corpora; all rows where none is named, all corpora where none is.
        seeds: of the runs; all if none is given.

    Raises:
        StudyError: there is no such row, corpus or seed, or no run with all of them.
    """
    wanted = set(names)
    rows, corpora = {cell.row for cell in every}, {cell.corpus for cell in every} - {""}
    if unknown := sorted(wanted - rows - corpora):
        known = ", ".join([*sorted(rows), *sorted(corpora)])
        msg = f"got --only {', '.join(unknown)}, expected some of {known}"
        raise StudyError(msg)
    drawn, known_seeds = set(seeds), {cell.seed for cell in every}
    if lacking := sorted(drawn - known_seeds):
        msg = f"got --seeds {_listed(lacking)}, expected some of {_listed(sorted(known_seeds))}"
        raise StudyError(msg)
    rows, corpora = wanted & rows or rows, wanted & corpora or corpora | {""}
    drawn = drawn or known_seeds
    before = {cell.run: cell.after for cell in every}
    kept = {
        cell.run
        for cell in every
        if cell.row in rows and cell.corpus in corpora and cell.seed in drawn
    }
    if not kept:
        both = f"--only {', '.join(sorted(wanted))} and --seeds {_listed(sorted(drawn))}"
        msg = f"got {both}, which no run has both, expected some that one has"
        raise StudyError(msg)
    for run in list(kept):
        now = before[run]
        while now is not None:
            kept.add(now)
            now = before.get(now)
    return [cell for cell in every if cell.run in kept]


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def chains(every: Sequence[Cell]) -> list[list[Cell]]:
    """Returns the cells in groups that no `after` connects, in the order of their first cells."""
    before = {cell.run: cell.after for cell in every}

    def root(run: str) -> str:
        while (earlier := before.get(run)) is not None:
            run = earlier
        return run

    found: dict[str, list[Cell]] = {}
    for cell in every:
        found.setdefault(root(cell.run), []).append(cell)
    return list(found.values())
