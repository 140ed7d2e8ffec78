"""Reads the YAML file of a study; docs/studies.md explains it."""

import difflib
import hashlib
import itertools
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from app.study.study import (
    Chart,
    Column,
    Command,
    Files,
    PaperFigures,
    ReferenceLine,
    Settings,
    Stage,
    Study,
    StudyCorpus,
    StudyError,
    StudyRow,
)
from app.study.yaml_reader import NAME, YamlReader
from attacks.recipes import SIX, is_ensemble, recipe_names, split_recipes
from attacks.task_figures import NAMES as TASK_FIGURES
from measure.attack_names import FILES, file_names
from run_files.certified_bounds import FILE_OF
from text.bounded_files import (
    YAML_LIMIT,
    DataError,
    decode,
    kind_of,
    missing,
    parse_yaml,
    read_bytes,
)

VARIABLE = re.compile(r"\$\{([^}]*)\}")
"""A value of the command line in the file: `${NAME}`."""
ROWS_LIMIT = 1000
"""Largest number of rows that the axes of a study may make."""
DATA_DIR = "data_dir"
"""The value that `--data_dir` gives, as `--set` gives the others."""
ATTACK_METRICS = {
    *("samples", "clean_accuracy", "accuracy", "success_rate", "queries", "unique_queries"),
    *("words_changed", "similarity", "exhausted", "saturated", "unreliable", "target"),
    *("unstable", "errors", "flip_rate", "attacked", "words_kept", "query_auc"),
    *(f"{prefix}{name}" for name in TASK_FIGURES for prefix in ("clean_", "")),
}
"""The metrics of one attack in `results.json`."""
_TEST_METRICS = (
    *("accuracy", "f1", "macro_f1", "spearman", "pearson", "loss", "objective", "perplexity"),
    *("pgd_accuracy", "radius", "margin_met", "auc", "average_precision", "recall"),
    *("false_alarms", "recall_at_0.001", "recall_at_0.01", "recall_at_0.05"),
)
"""Usual metrics of a test and a validation."""
MEAN = "attack/mean_accuracy"
"""The mean over the attacks of `SIX` that a run has."""
WORST = "attack/worst_accuracy"
"""The share of the texts that withstand all of these attacks."""

# The keys of the file, where they differ from the classes of `study`


@dataclass(frozen=True, kw_only=True)
class _Base:
    config: Files = ()
    settings: Settings = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _RowEntry(_Base):
    name: str
    title: str
    base: bool = True
    settings_on: Mapping[str, Settings] = field(default_factory=dict)
    seeds: tuple[int, ...] | None = None
    corpora: tuple[str, ...] | None = None
    stages: Any = None
    after: str | None = None
    start: Mapping[str, Any] = field(default_factory=dict)
    shown: bool = True


@dataclass(frozen=True, kw_only=True)
class _Axis:
    name: str
    setting: str | None = None
    values: Any = None
    title: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Paper:
    source: str
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _StudyFile:
    title: str
    about: str = ""
    notes: tuple[str, ...] = ()
    needs: Mapping[str, Any] = field(default_factory=dict)
    base: _Base = _Base()
    seeds: tuple[int, ...] = (0,)
    corpora: Mapping[str, StudyCorpus] = field(default_factory=dict)
    rows: Mapping[str, _RowEntry] = field(default_factory=dict)
    axes: Mapping[str, _Axis] = field(default_factory=dict)
    stages: Any = None
    columns: Mapping[str, Column] = field(default_factory=dict)
    against: Any = None
    compared: tuple[str, ...] | None = None
    matched: ReferenceLine | None = None
    paper: _Paper | None = None
    pictures: Mapping[str, Chart] = field(default_factory=dict)


def read_study(path: Path) -> Study:
    """Return the study of a YAML file, whose name is the name of the study.

    Raises:
        StudyError: not the file of a study; the message lists all errors.
    """
    study, problems = examine(path)
    if problems:
        raise StudyError("\n".join(problems))
    return study


def examine(path: Path) -> tuple[Study, list[str]]:
    """Return the readable parts of a study's file, and all its errors, one per line.

    Raises:
        StudyError: the file cannot be read, is not YAML, or not a mapping.
    """
    expected = "the YAML file of a study: configs/studies/example.yaml"
    try:
        if kind_of(path) is None:
            raise missing(path, expected)
        raw = read_bytes(path, limit=YAML_LIMIT)
        content = parse_yaml(decode(raw, path), path, expected)
    except DataError as error:
        raise StudyError(str(error)) from error
    if not isinstance(content, Mapping):
        msg = f"got {path}, which holds no study, expected one like configs/studies/example.yaml"
        raise StudyError(msg)
    reader = YamlReader()
    problems = reader.problems
    # The name is a part of the names of all runs.
    if not NAME.fullmatch(path.stem):
        problems.append(f"got the file's name {path.name!r}, expected letters, digits and . _ -")
    study = _build(reader, content, path.stem, hashlib.sha256(raw).hexdigest())
    _check_rows(study, problems)
    _check_tables(study, problems)
    problems += [
        f"got ${{{name}}}, expected it in needs, with what it is: {{{name}: folder of ...}}"
        for name in sorted(set(VARIABLE.findall(repr(content))) - {DATA_DIR, *study.needs})
    ]
    return study, list(dict.fromkeys(problems))


def _build(reader: YamlReader, content: Mapping[str, Any], name: str, digest: str) -> Study:
    file = reader.read(_StudyFile, content)
    stages = _stages(reader, "stages", ["fit", "test"] if file.stages is None else file.stages)
    rows = [_row(reader, file, entry, stages) for entry in file.rows.values()]
    rows += _combine_axes(reader, file, stages)
    if not rows:
        reader.problems.append("rows: got none, expected rows or axes")
    base, columns = file.base, tuple(file.columns.values())
    corpora = [
        replace(c, config=base.config + c.config, settings={**base.settings, **c.settings})
        for c in file.corpora.values()
    ]
    return Study(
        name=name,
        **{key: getattr(file, key) for key in ("title", "about", "notes", "needs", "matched")},
        corpora=tuple(corpora),
        rows=tuple(rows),
        columns=columns,
        against=_pairs(reader, file.against, rows),
        compared=_compared(file, columns),
        published=_paper_figures(reader, file),
        pictures=tuple(file.pictures.values()),
        digest=digest,
    )


def _row(
    reader: YamlReader, file: _StudyFile, entry: _RowEntry, stages: tuple[Stage, ...]
) -> StudyRow:
    key = f"rows.{entry.name}"
    corpora = tuple(file.corpora) if entry.corpora is None else entry.corpora
    if corpora and not entry.base:
        reader.add(f"{key}.base", False, "it only in a row with `corpora: []`")
    # With corpora, `base` is below the settings of each corpus already.
    base = _Base() if corpora or not entry.base else file.base
    reader.mapping(entry.settings_on, f"{key}.settings_on", corpora)
    fields = {name: value for name, value in vars(entry).items() if name != "base"}
    fields |= {
        "config": base.config + entry.config,
        "settings": {**base.settings, **entry.settings},
        "seeds": entry.seeds or file.seeds,
        "corpora": corpora,
    }
    if entry.stages is not None:
        stages = _stages(reader, f"{key}.stages", entry.stages)
    return StudyRow(**{**fields, "stages": stages})


def _combine_axes(
    reader: YamlReader, file: _StudyFile, stages: tuple[Stage, ...]
) -> Iterator[StudyRow]:
    """Yield a row for each combination of the values of all axes."""
    axes = [_axis_values(reader, axis) for axis in file.axes.values()]
    # Counted before they are combined: five axes of 60 values have 777 million combinations.
    if (count := math.prod(map(len, axes))) > ROWS_LIMIT:
        reader.problems.append(
            f"axes: got {count:,} combinations of their values, expected at most {ROWS_LIMIT:,}: "
            "leave values out, or make several studies"
        )
        return
    for values in itertools.product(*axes) if axes else ():
        parts: list[_Base | StudyCorpus] = [_Base() if file.corpora else file.base, *values]
        yield StudyRow(
            name="-".join(value.name for value in values),
            title=", ".join(value.title for value in values),
            config=tuple(path for part in parts for path in part.config),
            settings={key: value for part in parts for key, value in part.settings.items()},
            seeds=file.seeds,
            corpora=tuple(file.corpora),
            stages=stages,
        )


def _axis_values(reader: YamlReader, axis: _Axis) -> list[StudyCorpus]:
    """Return the values of an axis; each has the fields of a corpus."""
    key, values = f"axes.{axis.name}", axis.values
    if isinstance(values, Mapping):
        return [*reader.check(Mapping[str, StudyCorpus], values, f"{key}.values", {}).values()]
    if not isinstance(values, list) or not values:
        expected = "a list of values, or named ones with config and settings"
        reader.add(f"{key}.values", values, expected)
        return []
    setting = reader.check(str, axis.setting, f"{key}.setting")
    title = f"{axis.name} {{value}}" if axis.title is None else axis.title
    return [
        # A value such as 1/3 cannot be part of the name of a directory.
        StudyCorpus(
            name=axis.name + re.sub(r"[^A-Za-z0-9._+=-]", "_", str(value)),
            title=title.replace("{value}", str(value)),
            settings={setting: value},
        )
        for value in values
    ]


def _stages(reader: YamlReader, key: str, content: Any) -> tuple[Stage, ...]:
    """Return the commands of a run."""
    commands = get_args(Command)
    if not isinstance(content, list) or not content:
        reader.add(key, content, f"a list of {', '.join(commands)}")
        return ()
    stages: list[Stage] = []
    for entry in content:
        single = {entry: None} if isinstance(entry, str) else entry
        if not isinstance(single, Mapping) or len(single) != 1 or not {*single} <= {*commands}:
            reader.add(key, entry, f"one of {', '.join(commands)}, or one with its options")
            continue
        [(command, options)] = single.items()
        name: Command = command  # type: ignore[assignment] # one of them, as checked above
        if options is not None and not isinstance(options, Mapping):
            reader.add(key, entry, "options by their names: num_samples: 300")
            continue
        stage = Stage(command=name, options=dict(options or {}))
        if name == "transfer" and "attack" not in stage.options:
            reader.add(key, entry, "the attacks of both runs: transfer: {attack: pwws}")
        attacks = attacks_of(stages)
        if name == "diagnose" and stage.recipe not in attacks and not _unknown_recipes(stages):
            reader.problems.append(
                f"{key}: got diagnose of {stage.recipe!r}, {_one_of(attacks)}, as the attacks "
                "before it are named"
            )
        stages.append(stage)
    if repeated := [name for name, count in Counter(_outcomes(stages)).items() if count > 1]:
        reader.problems.append(
            f"{key}: got {', '.join(repeated)} twice, expected stages with outcomes of different "
            "names: attacks of one recipe need a `tag`"
        )
    # Without a valid stage there is a message already.
    first = stages[0] if stages else Stage(command="fit")
    if first.command not in ("fit", "train") and "ckpt_path" not in first.options:
        reader.add(key, first.command, "fit or train as the first stage")
    return tuple(stages)


def _outcomes(stages: Sequence[Stage]) -> Iterator[str]:
    """Yield the names of what some stages measure."""
    for stage in stages:
        if stage.command == "attack":
            yield from (f"attack {name}" for name in attacks_of([stage]))
        elif stage.command == "diagnose":
            yield f"diagnose {stage.recipe}"
        elif stage.threat is not None:
            yield f"certify {stage.threat}"
        else:
            # Each bound of `certify` has files of its own.
            bound = stage.options.get("bound", "sound")
            yield stage.command if bound == "sound" else f"{stage.command} {bound}"


def attacks_of(stages: Sequence[Stage]) -> list[str]:
    """Return the names under which the attacks of some stages are filed."""
    names: dict[str, None] = {}
    for stage, recipe in _recipes(stages):
        try:
            filed = file_names(recipe, stage.tag)
        except ValueError:  # the check of its run says so
            filed = [Path(recipe).stem]
        names |= dict.fromkeys(filed)
    return list(names)


def _recipes(stages: Sequence[Stage]) -> list[tuple[Stage, str]]:
    return [
        (stage, recipe)
        for stage in stages
        if stage.command == "attack"
        for recipe in split_recipes(stage.recipe)
    ]


def _unknown_recipes(stages: Sequence[Stage]) -> bool:
    """Return True if an attack has no such recipe: the check of its run says so."""
    known = {*recipe_names(), "all"}
    return not all(
        name in known or name.endswith(FILES) or is_ensemble(name) for _, name in _recipes(stages)
    )


def _pairs(
    reader: YamlReader, against: Any, rows: Sequence[StudyRow]
) -> tuple[tuple[str, str], ...]:
    """Return the pairs of rows to compare."""
    if against is None:
        return ()
    if isinstance(against, str):
        return tuple((row.name, against) for row in rows if row.shown and row.name != against)
    if not isinstance(against, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(name, str) for name in pair)
        for pair in against
    ):
        reader.add("against", against, "the name of a row, or a list of [row, row]")
        return ()
    return tuple((first, second) for first, second in against)


def _compared(file: _StudyFile, columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the compared columns; with any attack of `SIX`, also the mean of the attacks."""
    names = file.compared
    if names is None:
        directed = tuple(column.name for column in columns if column.better is not None)
        names = () if file.against is None else directed
    # Who compares one attack must show what is over all: no attack is picked by its result.
    attacks = {f"attack/{name}/accuracy" for name in SIX}
    if any(column.name in names and column.metric in attacks for column in columns):
        names += tuple(column.name for column in columns if column.metric in (MEAN, WORST))
    return tuple(dict.fromkeys(names))


def _paper_figures(reader: YamlReader, file: _StudyFile) -> PaperFigures | None:
    if file.paper is None:
        return None
    kind: Any = Mapping[str, Mapping[str, float]]
    kind = Mapping[str, kind] if file.corpora else kind
    figures = reader.check(kind, file.paper.figures, "paper.figures", {})
    if not file.corpora:
        figures = {row: {"": values} for row, values in figures.items()}
    return PaperFigures(source=file.paper.source, figures=figures)


def _check_rows(study: Study, problems: list[str]) -> None:
    """Check the names of rows and corpora that rows refer to."""
    rows = {row.name: row for row in study.rows}
    corpora = {corpus.name for corpus in study.corpora}
    counts = Counter(row.name for row in study.rows)
    if repeated := sorted(name for name, count in counts.items() if count > 1):
        problems.append(f"rows: got {', '.join(repeated)} twice, expected names of their own")
    for row in study.rows:
        key = f"rows.{row.name}"
        _check_names(problems, f"{key}.corpora", row.corpora, corpora)
        if row.start and row.after is None:
            problems.append(f"{key}.start: got it without `after`, expected both")
        if row.after is None:
            continue
        if (first := rows.get(row.after)) is None:
            problems.append(f"{key}.after: got {row.after!r}, {_one_of(rows)}")
            continue
        # A first row with a single corpus, or seed, serves all of this row.
        got = f"{key}.after: got {row.after}, which"
        if (lacking := set(row.corpora) - set(first.corpora)) and len(first.corpora) > 1:
            problems.append(f"{got} is not on {', '.join(sorted(lacking))}")
        if (lacking_seeds := set(row.seeds) - set(first.seeds)) and len(first.seeds) > 1:
            problems.append(f"{got} has no seed {min(lacking_seeds)}")
    for row in study.rows:
        path, after = [row.name], row.after
        while after in rows and after not in path:
            path.append(after)
            after = rows[after].after
        # A row before a circle, which is not in it, gets no line of its own.
        if after == row.name:
            problems.append(f"rows: got a circle of `after`: {' -> '.join([*path, row.name])}")


def _check_tables(study: Study, problems: list[str]) -> None:
    """Check the names in columns, comparisons, pictures and figures of the paper."""
    rows = {row.name for row in study.rows}
    columns = {column.name for column in study.columns}
    corpora = {corpus.name for corpus in study.corpora}
    for column in study.columns:
        key = f"columns.{column.name}"
        _check_names(problems, f"{key}.corpus", [column.corpus or None], corpora)
        if problem := _unknown_metric(study, column.metric):
            problems.append(f"{key}.metric: {problem}")
    # A hidden row has no figures in the tables.
    visible = {row.name for row in study.rows if row.shown}
    pairs = Counter(frozenset(pair) for pair in study.against)
    for pair in study.against:
        _check_names(problems, "against", pair, visible)
        # Holm's correction would count it again.
        if len({*pair}) < 2 or pairs[frozenset(pair)] > 1:
            problems.append(f"against: got {list(pair)}, expected two rows, and each pair once")
    _check_names(problems, "compared", study.compared, columns)
    if (line := study.matched) is not None:
        _check_names(problems, "matched.at", [line.at or None], columns)
        _check_names(problems, "matched.rows", line.rows, visible)
        _check_names(problems, "matched.columns", line.columns, columns)
        if len(set(line.rows)) < 2:
            problems.append("matched.rows: got fewer than two rows, expected the ends of a line")
    for chart in study.pictures:
        _check_names(problems, f"pictures.{chart.name}.columns", chart.columns, columns)
        _check_names(problems, f"pictures.{chart.name}.corpus", [chart.corpus or None], corpora)
    if study.published is not None:
        _check_names(problems, "paper.figures", study.published.figures, rows)
        for row, parts in study.published.figures.items():
            _check_names(problems, f"paper.figures.{row}", parts, corpora or {""})
            for corpus, values in parts.items():
                _check_names(problems, f"paper.figures.{row}.{corpus}", values, columns)


def _check_names(
    problems: list[str], key: str, names: Iterable[str | None], allowed: Collection[str]
) -> None:
    if unknown := [name for name in names if name is not None and name not in allowed]:
        problems.append(f"{key}: got {', '.join(unknown)}, {_one_of(allowed)}")


def _unknown_metric(study: Study, metric: str) -> str | None:
    """Return the reason that no run of a study has a metric; None if one may have it."""
    stages = [stage for row in study.rows if row.shown for stage in row.stages]
    family, _, name = metric.partition("/")
    measured_by: dict[str, set[str]] = {
        "test": {"test", "train"},
        "val": {"fit", "train", "validate"},
        **{stage: {"certify"} for stage in FILE_OF},
        "certify": {"certify", "train"},
        "attack": {"attack"},
        "diagnose": {"diagnose"},
        "transfer": {"transfer"},
    }
    threats = {stage.threat for stage in stages if stage.threat is not None}
    # A threat names its own metrics: certify_THREAT/accuracy@K.
    if family.removeprefix("certify_") in threats and name:
        return None
    if family not in measured_by or not name:
        return f"got {metric!r}, expected a metric of results.json: test/accuracy (docs/cli.md)"
    if measured_by[family].isdisjoint(stage.command for stage in stages):
        commands = " or ".join(sorted(measured_by[family]))
        return f"got {metric!r}, which no stage measures, expected {commands} among the stages"
    if family == "diagnose":
        diagnosed = {stage.recipe for stage in stages if stage.command == "diagnose"}
        attack = name.partition("/")[0]
        return None if attack in diagnosed else f"got diagnosis {attack!r}, {_one_of(diagnosed)}"
    return _unknown_figure(family, name, stages)


def _unknown_figure(family: str, name: str, stages: Sequence[Stage]) -> str | None:
    """Return the reason that a test or an attack has no such figure; None if it may have it."""
    if family in ("test", "val") and name not in _TEST_METRICS:
        # Methods have metrics of their own, so that only a misspelt usual one is an error.
        near = difflib.get_close_matches(name, _TEST_METRICS, 1, cutoff=0.85)
        return f"got '{family}/{name}', expected perhaps {family}/{near[0]}" if near else None
    if family != "attack" or name.startswith("mean_"):
        return None
    names, _, figure = name.rpartition("/")
    attacks = attacks_of(stages)
    # Of `A+B`: the texts that withstand both.
    for attack in (joined := names.split("+")):
        if attack not in attacks and not _unknown_recipes(stages):
            return f"got attack {attack!r}, {_one_of(attacks)}, as the stages name them"
    if len(joined) > 1 and figure != "accuracy":
        return f"got {figure!r} of {len(joined)} attacks, expected accuracy"
    return None if figure in ATTACK_METRICS else f"got {figure!r}, {_one_of(ATTACK_METRICS)}"


def _one_of(names: Iterable[str]) -> str:
    return f"expected one of {', '.join(sorted(names)) or 'none, as there are none'}"
