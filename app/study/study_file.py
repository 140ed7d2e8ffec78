"""Reads the YAML file of a study; docs/studies.md explains it."""

import difflib
import hashlib
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from app.runs.certified_bounds import FILE_OF
from app.study.fields import NAME, Fields
from app.study.study import (
    Column,
    Command,
    Corpus,
    Matched,
    Picture,
    Published,
    Row,
    Stage,
    Study,
    StudyError,
)
from text.bounded_files import YAML_LIMIT, DataError, decode, parse_yaml, read_bytes

_ROW = {
    "base",
    "title",
    "config",
    "settings",
    "settings_on",
    "seeds",
    "corpora",
    "stages",
    "after",
    "start",
    "shown",
}
_STUDY = {
    *("title", "about", "notes", "needs", "base", "seeds", "corpora", "rows", "axes", "stages"),
    *("columns", "against", "compared", "matched", "paper", "pictures"),
}
_PLACE = re.compile(r"\$\{([^}]*)\}")
ROWS_LIMIT = 1000
"""Rows that the axes of a study may make: a table of more is read by nobody."""
DATA_DIR = "data_dir"
"""The value that `--data_dir` gives, as `--set` gives the others."""


def read_study(path: Path) -> Study:
    """Returns the study of a file.

    Args:
        path: the YAML file; its name is that of the study.

    Raises:
        StudyError: it is no such file; the message lists all that is wrong.
    """
    study, problems = examine(path)
    if problems:
        raise StudyError("\n".join(problems))
    return study


def examine(path: Path) -> tuple[Study, list[str]]:
    """Returns what can be read of a study's file, and all that is wrong with it, a line each.

    Raises:
        StudyError: it cannot be read, is no YAML, or no mapping.
    """
    expected = "the YAML file of a study: configs/studies/example.yaml"
    try:
        raw = read_bytes(path, limit=YAML_LIMIT)
        content = parse_yaml(decode(raw, path), path, expected)
    except DataError as error:
        raise StudyError(str(error)) from error
    if not isinstance(content, Mapping):
        msg = f"got {path}, which holds no study, expected one like configs/studies/example.yaml"
        raise StudyError(msg)
    problems: list[str] = []
    if not NAME.fullmatch(path.stem):
        problems.append(f"got the file's name {path.name!r}, expected letters, digits and . _ -")
    fields = Fields(content, "", _STUDY, problems)
    study = _study(fields, path.stem, hashlib.sha256(raw).hexdigest())
    _check_rows(study, problems)
    _check_tables(study, problems)
    _check_places(content, study, problems)
    return study, list(dict.fromkeys(problems))


def _study(fields: Fields, name: str, digest: str) -> Study:
    base = Fields(fields.values.get("base"), "base", {"config", "settings"}, fields.problems)
    below = (base.get("config", "files", ()), base.get("settings", "settings", {}))
    seeds = fields.get("seeds", "numbers", (0,))
    stages = _stages(fields)
    corpora = tuple(
        Corpus(
            name=key,
            title=one.get("title", "text", key),
            config=below[0] + one.get("config", "files", ()),
            settings={**below[1], **one.get("settings", "settings", {})},
        )
        for key, one in fields.named("corpora", {"title", "config", "settings"})
    )
    known = tuple(corpus.name for corpus in corpora)
    defaults = _Defaults(*below, seeds, known, stages)
    rows = [defaults.row(key, one) for key, one in fields.named("rows", _ROW)]
    axes = [
        list(_axis(key, one)) for key, one in fields.named("axes", {"setting", "values", "title"})
    ]
    if (count := math.prod(map(len, axes))) > ROWS_LIMIT:
        fields.problems.append(
            f"axes: got {count:,} combinations of their values, expected at most {ROWS_LIMIT:,}: "
            "leave values out, or make several studies"
        )
        axes = []
    rows += [defaults.product(chosen) for chosen in itertools.product(*axes) if axes]
    if not rows:
        fields.problems.append("rows: got none, expected rows or axes")
    columns = tuple(_columns(fields))
    return Study(
        name=name,
        title=fields.required("title", "text", name),
        about=fields.get("about", "text", ""),
        notes=fields.get("notes", "texts", ()),
        needs=fields.get("needs", "mapping", {}),
        corpora=corpora,
        rows=tuple(rows),
        columns=columns,
        against=_pairs(fields, rows),
        compared=_compared(fields, columns),
        matched=_matched(fields),
        published=_published(fields, bool(corpora)),
        pictures=tuple(_pictures(fields)),
        digest=digest,
    )


@dataclass(frozen=True)
class _Defaults:
    """The defaults of a row.

    Attributes:
        config: settings files of `base`.
        settings: settings of `base`.
        seeds: of the study.
        corpora: names of all.
        stages: of the study.
    """

    config: tuple[str, ...]
    settings: Mapping[str, Any]
    seeds: tuple[int, ...]
    corpora: tuple[str, ...]
    stages: tuple[Stage, ...]

    def row(self, name: str, one: Fields) -> Row:
        """The row of a mapping in the file."""
        corpora = one.get("corpora", "texts", self.corpora)
        # Those of a corpus have `base` below them already.
        base = not corpora and one.get("base", "flag", True)
        if corpora and one.get("base", "flag", True) is False:
            one.problem("base", False, "it only in a row with `corpora: []`")
        config, settings = one.get("config", "files", ()), one.get("settings", "settings", {})
        own = Fields(
            one.values.get("settings_on"), one.at("settings_on"), set(corpora), one.problems
        )
        return Row(
            name=name,
            title=one.get("title", "text", name),
            config=self.config + config if base else config,
            settings={**self.settings, **settings} if base else settings,
            settings_on={corpus: own.get(corpus, "settings", {}) for corpus in corpora},
            seeds=one.get("seeds", "numbers", self.seeds),
            corpora=corpora,
            stages=_stages(one) if "stages" in one else self.stages,
            after=one.get("after", "text", None),
            start=one.get("start", "mapping", {}),
            shown=one.get("shown", "flag", True),
        )

    def product(self, chosen: Sequence[Corpus]) -> Row:
        """The row of one value of each axis."""
        parts = (
            [*chosen]
            if self.corpora
            else [Corpus(name="", title="", config=self.config, settings=self.settings), *chosen]
        )
        return Row(
            name="-".join(part.name for part in chosen),
            title=", ".join(part.title for part in chosen),
            config=tuple(itertools.chain.from_iterable(part.config for part in parts)),
            settings={key: value for part in parts for key, value in part.settings.items()},
            seeds=self.seeds,
            corpora=self.corpora,
            stages=self.stages,
        )


def _axis(name: str, one: Fields) -> Iterator[Corpus]:
    """The values of an axis, each with the fields of a corpus: name, title, config, settings."""
    values = one.values.get("values")
    if isinstance(values, Mapping):
        for key, value in one.named("values", {"title", "config", "settings"}):
            yield Corpus(
                name=key,
                title=value.get("title", "text", key),
                config=value.get("config", "files", ()),
                settings=value.get("settings", "settings", {}),
            )
        return
    if not isinstance(values, list) or not values:
        one.problem("values", values, "a list of values, or named ones with config and settings")
        return
    setting = one.required("setting", "text", "")
    title = one.get("title", "text", f"{name} {{value}}")
    for value in values:
        shown = re.sub(r"[^A-Za-z0-9._+=-]", "_", str(value))
        yield Corpus(
            name=f"{name}{shown}",
            title=title.replace("{value}", str(value)),
            settings={setting: value},
        )


def _stages(fields: Fields) -> tuple[Stage, ...]:
    """The commands of a run."""
    given = fields.values.get("stages", ["fit", "test"])
    known = get_args(Command)
    if not isinstance(given, list) or not given:
        fields.problem("stages", given, f"a list of {', '.join(known)}")
        return ()
    stages: list[Stage] = []
    for one in given:
        single = {one: None} if isinstance(one, str) else one
        if not isinstance(single, Mapping) or len(single) != 1 or next(iter(single)) not in known:
            fields.problem("stages", one, f"one of {', '.join(known)}, or one with its options")
            continue
        [(name, options)] = single.items()
        command: Command = name  # type: ignore[assignment] # one of them, as checked above
        if options is not None and not isinstance(options, Mapping):
            fields.problem("stages", one, "options by their names: num_samples: 300")
            continue
        stage = Stage(command=command, options=dict(options or {}))
        if command == "diagnose" and (recipe := _diagnosed(stage)) not in attacks_of(stages):
            fields.problems.append(
                f"{fields.at('stages')}: got diagnose of {recipe!r}, "
                f"{_one_of(attacks_of(stages))}, as the attacks before it are named"
            )
        stages.append(stage)
    twice = [name for name, count in Counter(_outcomes(stages)).items() if count > 1]
    if twice:
        fields.problems.append(
            f"{fields.at('stages')}: got {', '.join(twice)} twice, expected stages whose outcomes "
            "stand beside each other: attacks of one recipe need a `tag`"
        )
    if (
        stages
        and stages[0].command not in ("fit", "train")
        and "ckpt_path" not in stages[0].options
    ):
        fields.problem("stages", stages[0].command, "fit or train as the first stage")
    return tuple(stages)


def _outcomes(stages: Sequence[Stage]) -> Iterator[str]:
    """The names of what some stages measure."""
    for stage in stages:
        if stage.command == "attack":
            yield from (f"attack {name}" for name in attacks_of([stage]))
        elif stage.command == "diagnose":
            yield f"diagnose {_diagnosed(stage)}"
        elif stage.threat is not None:
            yield f"certify {stage.threat}"
        else:
            bound = stage.options.get("bound", "sound")
            yield stage.command if bound == "sound" else f"{stage.command} {bound}"


def _diagnosed(stage: Stage) -> str:
    """The name of the attack that a diagnosis is about."""
    return str(stage.options.get("recipe", "textfooler"))


def _columns(fields: Fields) -> Iterator[Column]:
    known = {"title", "metric", "scale", "digits", "better", "corpus"}
    for name, one in fields.named("columns", known):
        yield Column(
            name=name,
            title=one.get("title", "text", name),
            metric=one.required("metric", "text", ""),
            scale=float(one.get("scale", "number", 1.0)),
            digits=one.get("digits", "count", 3),
            better=one.choice("better", ("higher", "lower", None), "higher"),
            corpus=one.get("corpus", "text", None),
        )


def _pairs(fields: Fields, rows: Sequence[Row]) -> tuple[tuple[str, str], ...]:
    """Pairs of rows to compare."""
    given = fields.values.get("against", [])
    if isinstance(given, str):
        return tuple((row.name, given) for row in rows if row.shown and row.name != given)
    good = isinstance(given, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(one, str) for one in pair)
        for pair in given
    )
    if not good:
        fields.problem("against", given, "the name of a row, or a list of [row, row]")
        return ()
    return tuple((first, second) for first, second in given)


def _compared(fields: Fields, columns: Sequence[Column]) -> tuple[str, ...]:
    """The columns that are compared; the mean of the attacks wherever one of them is."""
    names: tuple[str, ...] = fields.get("compared", "texts", _by_default(fields, columns))
    attacks = {f"attack/{name}/accuracy" for name in SIX}
    if any(column.name in names and column.metric in attacks for column in columns):
        names += tuple(column.name for column in columns if column.metric == MEAN)
    return tuple(dict.fromkeys(names))


def _by_default(fields: Fields, columns: Sequence[Column]) -> tuple[str, ...]:
    """The columns that are compared where the file does not say it."""
    if "against" not in fields:
        return ()
    return tuple(column.name for column in columns if column.better is not None)


def _matched(fields: Fields) -> Matched | None:
    if "matched" not in fields:
        return None
    one = Fields(fields.values["matched"], "matched", {"at", "rows", "columns"}, fields.problems)
    return Matched(
        at=one.required("at", "text", ""),
        rows=one.required("rows", "texts", ()),
        columns=one.required("columns", "texts", ()),
    )


def _published(fields: Fields, corpora: bool) -> Published | None:
    if "paper" not in fields:
        return None
    one = Fields(fields.values["paper"], "paper", {"source", "figures"}, fields.problems)
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for row, value in one.get("figures", "mapping", {}).items():
        parts = value if corpora else {"": value}
        if not isinstance(parts, Mapping):
            one.problem(f"figures.{row}", parts, "figures by corpus and column")
            continue
        for corpus, found in parts.items():
            numbers = isinstance(found, Mapping) and all(
                isinstance(number, int | float) for number in found.values()
            )
            if not numbers:
                one.problem(f"figures.{row}", found, "numbers by corpus and column")
                continue
            figures.setdefault(row, {})[corpus] = {k: float(v) for k, v in found.items()}
    return Published(source=one.required("source", "text", ""), figures=figures)


def _pictures(fields: Fields) -> Iterator[Picture]:
    for name, one in fields.named("pictures", {"kind", "columns", "corpus"}):
        yield Picture(
            name=name,
            kind=one.choice("kind", ("bars", "scatter", "lines"), "bars"),
            columns=one.required("columns", "texts", ()),
            corpus=one.get("corpus", "text", None),
        )


def _check_rows(study: Study, problems: list[str]) -> None:
    """Checks what rows say of each other and of corpora."""
    rows = {row.name: row for row in study.rows}
    corpora = {corpus.name for corpus in study.corpora}
    if len(rows) < len(study.rows):
        names = [row.name for row in study.rows]
        twice = sorted({name for name in names if names.count(name) > 1})
        problems.append(f"rows: got {', '.join(twice)} twice, expected names of their own")
    for row in study.rows:
        unknown = [name for name in row.corpora if name not in corpora]
        if unknown:
            problems.append(
                f"rows.{row.name}.corpora: got {', '.join(unknown)}, {_one_of(corpora)}"
            )
        if row.start and row.after is None:
            problems.append(f"rows.{row.name}.start: got it without `after`, expected both")
        if row.after is None:
            continue
        if row.after not in rows:
            problems.append(f"rows.{row.name}.after: got {row.after!r}, {_one_of(rows)}")
            continue
        first, where = rows[row.after], f"rows.{row.name}.after"
        lacking = set(row.corpora) - set(first.corpora)
        if lacking and len(first.corpora) > 1:
            problems.append(
                f"{where}: got {row.after}, which is not on {', '.join(sorted(lacking))}"
            )
        lacking_seeds = sorted(set(row.seeds) - set(first.seeds))
        if lacking_seeds and len(first.seeds) > 1:
            problems.append(f"{where}: got {row.after}, which has no seed {lacking_seeds[0]}")
    for row in study.rows:
        way, now = [row.name], row.after
        while now in rows and now not in way:
            way.append(now)
            now = rows[now].after
        if now == row.name:
            problems.append(f"rows: got a circle of `after`: {' -> '.join([*way, row.name])}")


def _check_tables(study: Study, problems: list[str]) -> None:
    """Checks the names in columns, comparisons, pictures and figures of the paper."""
    rows = {row.name for row in study.rows}
    columns = {column.name for column in study.columns}
    corpora = {corpus.name for corpus in study.corpora}

    def need(where: str, names: Sequence[str], known: set[str]) -> None:
        unknown = [name for name in names if name not in known]
        if unknown:
            problems.append(f"{where}: got {', '.join(unknown)}, {_one_of(known)}")

    for column in study.columns:
        need(f"columns.{column.name}.corpus", [column.corpus] if column.corpus else [], corpora)
        if problem := _unknown_metric(study, column.metric):
            problems.append(f"columns.{column.name}.metric: {problem}")
    for pair in study.against:
        need("against", pair, rows)
    need("compared", study.compared, columns)
    if study.matched is not None:
        need("matched.at", [study.matched.at] if study.matched.at else [], columns)
        need("matched.rows", study.matched.rows, {row.name for row in study.rows if row.shown})
        need("matched.columns", study.matched.columns, columns)
        if len(set(study.matched.rows)) < 2:
            problems.append("matched.rows: got fewer than two rows, expected the ends of a line")
    for picture in study.pictures:
        need(f"pictures.{picture.name}.columns", picture.columns, columns)
        need(f"pictures.{picture.name}.corpus", [picture.corpus] if picture.corpus else [], corpora)
    if study.published is not None:
        need("paper.figures", list(study.published.figures), rows)
        for row, parts in study.published.figures.items():
            need(f"paper.figures.{row}", list(parts), corpora or {""})
            for corpus, found in parts.items():
                need(f"paper.figures.{row}.{corpus}", list(found), columns)


def _unknown_metric(study: Study, metric: str) -> str | None:
    """The reason that no run of a study has a metric; None if one may have it."""
    stages = [stage for row in study.rows if row.shown for stage in row.stages]
    commands = {stage.command for stage in stages}
    family, _, rest = metric.partition("/")
    made_by: dict[str, set[str]] = {
        "test": {"test", "train"},
        "val": {"fit", "train", "validate"},
        **{stage: {"certify"} for stage in FILE_OF},
        "certify": {"certify", "train"},
        "attack": {"attack"},
        "diagnose": {"diagnose"},
    }
    threats = {stage.threat for stage in stages if stage.threat is not None}
    if family.removeprefix("certify_") in threats and rest:
        return None
    if family not in made_by or not rest:
        return f"got {metric!r}, expected a metric of results.json: test/accuracy (docs/cli.md)"
    if not commands & made_by[family]:
        wanted = " or ".join(sorted(made_by[family]))
        return f"got {metric!r}, which no stage measures, expected {wanted} among the stages"
    if family == "diagnose":
        diagnosed = {_diagnosed(stage) for stage in stages if stage.command == "diagnose"}
        name = rest.partition("/")[0]
        return None if name in diagnosed else f"got diagnosis {name!r}, {_one_of(diagnosed)}"
    return _unknown_figure(family, rest, attacks_of(stages))


def _unknown_figure(family: str, rest: str, named: Sequence[str]) -> str | None:
    """The reason that a test or an attack has no such figure; None if it may have it."""
    if family in ("test", "val") and rest not in _FIGURES:
        # Methods have figures of their own.
        near = difflib.get_close_matches(rest, _FIGURES, 1, cutoff=0.85)
        return f"got '{family}/{rest}', expected perhaps {family}/{near[0]}" if near else None
    if family != "attack" or rest.startswith("mean_"):
        return None
    name, _, figure = rest.rpartition("/")
    if name not in named:
        return f"got attack {name!r}, {_one_of(named)}, as the stages name them"
    return None if figure in ATTACK_METRICS else f"got {figure!r}, {_one_of(ATTACK_METRICS)}"


ATTACK_METRICS = {
    *("samples", "clean_accuracy", "accuracy", "success_rate", "queries", "unique_queries"),
    *("words_changed", "similarity", "exhausted", "saturated", "unreliable", "target"),
    *("unstable", "errors"),
}
"""The metrics of one attack in `results.json`."""
_FIGURES = (
    *("accuracy", "f1", "macro_f1", "spearman", "pearson", "loss", "objective", "perplexity"),
    *("pgd_accuracy", "radius", "margin_met"),
)
"""Usual figures of a test and a validation."""
SIX = ("textfooler", "textbugger", "bae", "deepwordbug", "pwws", "a2t")
"""The attacks that `all` stands for, and that `attack/mean_accuracy` is a mean of."""
MEAN = "attack/mean_accuracy"
"""The mean over the attacks of `SIX` that a run has."""


def attacks_of(stages: Sequence[Stage]) -> list[str]:
    """Returns the names under which the attacks of some stages are filed."""
    names: list[str] = []
    for stage in stages:
        if stage.command != "attack":
            continue
        tag = stage.options.get("tag")
        for part in str(stage.options.get("recipe", "textfooler")).split(","):
            one = part.strip()
            every = SIX if one == "all" else (Path(one).stem if one.endswith(_FILES) else one,)
            names += [name if tag is None else f"{name}-{tag}" for name in every]
    return list(dict.fromkeys(names))


_FILES = (".yaml", ".yml", ".json")


def _check_places(content: Mapping[str, Any], study: Study, problems: list[str]) -> None:
    """Checks that every `${name}` of the file is explained in `needs`."""
    problems += [
        f"got ${{{name}}}, expected it in needs, with what it is: {{{name}: folder of ...}}"
        for name in sorted(set(_PLACE.findall(repr(content))))
        if name != DATA_DIR and name not in study.needs
    ]


def _one_of(known: Any) -> str:
    return f"expected one of {', '.join(sorted(known)) or 'none, as there are none'}"
