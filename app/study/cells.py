"""Cells of a study: its runs, the command lines of their stages, and parts for machines."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from app.cli.run_options import short_name
from app.study.study import (
    Cell,
    CellFigures,
    Settings,
    Stage,
    Study,
    StudyCorpus,
    StudyError,
    StudyRow,
    with_tuples,
)
from app.study.study_file import DATA_DIR, VARIABLE
from run_files import atomic
from run_files.shard import Shard
from text.bounded_files import DataError, read_json

TRAINING = ("train", "fit")
PART_FORMAT = 2
"""Format number of the file of a part; a reader refuses others."""


@dataclass(frozen=True, kw_only=True)
class StudyContext:
    """The parts of a study that its file leaves to the command line; `values` are those of `--set`.

    With `runs_only`, runs are only read: missing values stay as `${NAME}`, and no corpus is loaded.
    """

    study: str
    runs_dir: Path = Path("runs")
    data_dir: Path | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    runs_only: bool = False

    @property
    def out(self) -> Path:
        """Directory of the study's own files."""
        return self.runs_dir / "studies" / self.study

    @property
    def all_values(self) -> dict[str, str]:
        """All values, by their names in the file of the study."""
        return {**self.data_options(DATA_DIR), **self.values}

    def data_options(self, name: str) -> dict[str, str]:
        """Return the directory of the corpora under the name of an option; empty without one."""
        return {} if self.data_dir is None else {name: str(self.data_dir)}


def lay_out(study: Study, context: StudyContext) -> tuple[list[Cell], list[str]]:
    """Return all runs of a study, and one line for each error in the values of the command line."""
    problems = [
        f"got no {name}, expected --set {name}=VALUE: {explanation}"
        for name, explanation in study.needs.items()
        if name not in context.all_values and not context.runs_only
    ]
    problems += [
        f"got --set {name}, which the study does not need, expected "
        f"{', '.join(study.needs) or 'none'}"
        for name in context.values
        if name not in study.needs
    ]
    rows = {row.name: row for row in study.rows}
    corpora = {corpus.name: corpus for corpus in study.corpora}
    runs = [
        _cell(
            (row, corpora.get(corpus), rows.get(row.after or "")), row.seeds[i], context, problems
        )
        # Seed by seed: a study that is stopped early has the first seed of every row.
        for i in range(max((len(row.seeds) for row in study.rows), default=0))
        for row in study.rows
        for corpus in row.corpora or ("",)
        if i < len(row.seeds) and (not corpus or corpus in corpora)
    ]
    # Row `r-a` on corpus `b` and row `r` on corpus `a-b` have one name.
    problems += [
        f"got two runs {name!r}, expected names of rows and corpora that differ"
        for name, count in Counter(cell.run for cell in runs).items()
        if count > 1
    ]
    return runs, list(dict.fromkeys(problems))


def _cell(
    kind: tuple[StudyRow, StudyCorpus | None, StudyRow | None],
    seed: int,
    context: StudyContext,
    problems: list[str],
) -> Cell:
    """Return the run of a row on a corpus, after the run of a row that comes first."""
    row, corpus, first = kind
    values = context.all_values

    def find_value(match: re.Match[str]) -> str:
        if match[1] == DATA_DIR and DATA_DIR not in values and not context.runs_only:
            problems.append(f"rows.{row.name}: got {match[0]}, expected --data_dir DIR")
        # A missing value may stay where it starts no run.
        return values.get(match[1], match[0] if context.runs_only else "")

    def fill(value: Any) -> Any:
        """Replace `${name}` at any depth."""
        if isinstance(value, Mapping):
            return {key: fill(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [fill(item) for item in value]
        return VARIABLE.sub(find_value, value) if isinstance(value, str) else value

    name = "" if corpus is None else corpus.name
    after = None
    if first is not None:
        # At the same seed and on the same corpus; or the only ones that the first row has.
        on = corpus.name if corpus and name in first.corpora else "".join(first.corpora[:1])
        earlier = seed if seed in first.seeds else first.seeds[0]
        after = _run_name(context.study, first.name, on, earlier)
    # Paths below the directory of runs; in the settings they are full paths.
    start = {} if after is None else {key: f"{after}/{path}" for key, path in row.start.items()}
    settings = {
        **(corpus.settings if corpus else {}),
        **row.settings,
        **row.settings_on.get(name, {}),
        **{key: str(context.runs_dir / path) for key, path in start.items()},
    }
    return Cell(
        row=row.name,
        corpus=name,
        seed=seed,
        run=_run_name(context.study, row.name, name, seed),
        config=tuple(fill([*(corpus.config if corpus else ()), *row.config])),
        settings=fill(settings),
        stages=tuple(replace(stage, options=fill(stage.options)) for stage in row.stages),
        after=after,
        start=start,
    )


def _run_name(study: str, row: str, corpus: str, seed: int) -> str:
    return "-".join(part for part in (study, row, corpus, f"s{seed}") if part)


# Command lines


def command_line(cell: Cell, stage: Stage, context: StudyContext) -> list[str]:
    """Return the words of a stage's command, after the name of the program."""
    run = [f"--run={cell.run}", f"--runs_dir={context.runs_dir}"]
    if stage.command == "diagnose":
        return ["diagnose", *run, *_plain_words(stage.options)]
    if stage.command == "transfer":
        # The adversarial texts of the first run are the static attack.
        names = dict.fromkeys([cell.after or cell.run, cell.run])
        return ["attack", "pairs", "--run", *names, run[1], *_plain_words(stage.options)]
    if stage.threat is not None:
        data = words(context.data_options("data_dir"))
        return ["certify", *run, *_plain_words(stage.options), *data]
    quiet, options = "--trainer.enable_progress_bar=false", words(options_of(stage, context))
    if stage.command in TRAINING:
        seed = f"--seed={cell.seed}"
        return [stage.command, *training_words(cell, context), seed, quiet, *run, *options]
    # A run has its model, data and seed; only the machine may be another one.
    machine = {
        key: cell.settings[key]
        for key in ("trainer.accelerator", "trainer.devices")
        if key in cell.settings
    }
    data = words(context.data_options("data.data_dir"))
    return [stage.command, *run, *words(machine), *data, quiet, *options]


def training_words(cell: Cell, context: StudyContext) -> list[str]:
    """Return the words that describe a run completely, but for its name and seed."""
    files = [f"--config={path}" for path in cell.config]
    return [*files, *words(cell.settings), *words(context.data_options("data.data_dir"))]


def options_of(stage: Stage, context: StudyContext) -> Settings:
    """Return the options of a stage by their names on the command line."""
    if stage.command != "attack":
        return stage.options
    # A study names settings, for example `num_samples` or `attack.num_samples`.
    names = [f"--{key}" if "." in key else f"--attack.{key}" for key in stage.options]
    short = [short_name("attack", name).removeprefix("--") for name in names]
    options = dict(zip(short, stage.options.values(), strict=True))
    # A stage may name its own resources.
    return context.data_options("attack.resources") | options


def words(settings: Settings) -> list[str]:
    """Return settings as words of a command line."""
    return [f"--{key}={_word(value)}" for key, value in settings.items()]


def _plain_words(options: Settings) -> list[str]:
    """Return options for argparse: flags have no value, lists several words."""
    line = []
    for key, value in options.items():
        if isinstance(value, list):
            line += [f"--{key}", *map(_word, value)]
        elif value is True:
            line.append(f"--{key}")
        elif value not in (False, None):
            line.append(f"--{key}={_word(value)}")
    return line


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# Parts of a study


def only(runs: Sequence[Cell], names: Iterable[str] = (), seeds: Iterable[int] = ()) -> list[Cell]:
    """Return the cells of some rows, corpora and seeds, and those that must end before them.

    No name of a row means all rows; corpora and seeds likewise.

    Raises:
        StudyError: row, corpus or seed not found, or no run with all of them.
    """
    selected, numbers = set(names), set(seeds)
    rows, corpora = {cell.row for cell in runs}, {cell.corpus for cell in runs} - {""}
    all_seeds = {cell.seed for cell in runs}
    if unknown := selected - rows - corpora:
        expected = ", ".join([*sorted(rows), *sorted(corpora)])
        msg = f"got --only {_enumerate(unknown)}, expected some of {expected}"
        raise StudyError(msg)
    if lacking := numbers - all_seeds:
        msg = f"got --seeds {_enumerate(lacking)}, expected some of {_enumerate(all_seeds)}"
        raise StudyError(msg)
    # Names of rows alone select all corpora, and the other way round.
    rows, corpora = selected & rows or rows, selected & corpora or corpora | {""}
    numbers = numbers or all_seeds
    needed = {
        cell.run
        for cell in runs
        if cell.row in rows and cell.corpus in corpora and cell.seed in numbers
    }
    if not needed:
        both = f"--only {_enumerate(selected)} and --seeds {_enumerate(numbers)}"
        msg = f"got {both}, which no run has both, expected some that one has"
        raise StudyError(msg)
    # A selected run needs all runs that it starts from.
    before = {cell.run: cell.after for cell in runs}
    needed = {earlier for run in needed for earlier in _path(run, before)}
    return [cell for cell in runs if cell.run in needed]


def _enumerate(items: set[str] | set[int]) -> str:
    return ", ".join(map(str, sorted(items)))


def chains(runs: Sequence[Cell]) -> list[list[Cell]]:
    """Return the cells in groups that no `after` connects, in the order of their first cells."""
    before = {cell.run: cell.after for cell in runs}
    groups: dict[str, list[Cell]] = {}
    for cell in runs:
        groups.setdefault(_path(cell.run, before)[-1], []).append(cell)
    return list(groups.values())


def _path(run: str, before: Mapping[str, str | None]) -> list[str]:
    """Return a run and all that must end before it, the first of them last."""
    earlier = before.get(run)
    return [run] if earlier is None else [run, *_path(earlier, before)]


# Parts of a study that was divided among machines


def write_shard(
    path: Path,
    study: Study,
    shard: Shard,
    figures: Sequence[CellFigures],
    versions: Mapping[str, str],
) -> None:
    """Write the figures of one part, in one step."""
    content = {
        "format": PART_FORMAT,
        "study": study.name,
        "digest": study.digest,
        "shard": str(shard),
        "versions": dict(versions),
        "figures": [asdict(figure) for figure in figures],
    }
    atomic.write_text(path, json.dumps(content, indent=1, sort_keys=True) + "\n")


def merge_shards(study: Study, paths: Sequence[Path]) -> tuple[list[CellFigures], dict[str, str]]:
    """Return the figures of all parts, and the versions that all were made with.

    Raises:
        StudyError: parts are missing, repeated, or not of this study; all problems in one message.
    """
    parts = [_read_shard(path) for path in paths]
    problems = [
        f"got {path} of another file of study {part['study']}, expected parts of {study.name} as "
        "it is now: run that part again"
        for path, part in zip(paths, parts, strict=True)
        if (part["study"], part["digest"]) != (study.name, study.digest)
    ]
    # Parts of two divisions would overlap.
    shards = [Shard.of(part["shard"]) for part in parts]
    counts = {shard.count for shard in shards}
    indices = sorted(shard.index for shard in shards)
    # Also finds a missing last part: each part knows their number.
    expected = list(range(1, max(counts, default=1) + 1))
    if len(counts) > 1:
        divisions = ", ".join(sorted(part["shard"] for part in parts))
        problems.append(f"got parts {divisions}, expected all of one division")
    elif indices != expected:
        numbers = ", ".join(map(str, indices)) or "none"
        problems.append(f"got parts {numbers}, expected each of 1 to {expected[-1]} once")
    versions = [part["versions"] for part in parts]
    if any(other != versions[0] for other in versions):
        changed = sorted(key for key in versions[0] if len({v.get(key) for v in versions}) > 1)
        problems.append(
            f"got parts of several versions of {', '.join(changed)}, expected one: run all parts "
            "with the same program"
        )
    if problems:
        raise StudyError("\n".join(problems))
    figures = [CellFigures(**with_tuples(line)) for part in parts for line in part["figures"]]
    return figures, versions[0]


def _read_shard(path: Path) -> dict[str, Any]:
    content, why = None, ""
    try:
        content = read_json(path, "a part of a study")
    except DataError as error:
        why = f" ({error})"
    if not isinstance(content, dict) or content.get("format") != PART_FORMAT:
        msg = f"got {path}{why}, expected a part that `study run --shard I/N` has written"
        raise StudyError(msg)
    return content
