"""A study as data: rows, corpora, seeds, stages, columns, and what to compare and draw."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from attacks.set_names import title
from text.multi_line_error import MultiLineError

Settings = Annotated[
    Mapping[str, Any], "settings by their names on the command line, as model.objective.gamma: 2"
]
"""Settings by their names on the command line, without `--`: `model.objective.gamma`."""
Files = Annotated[tuple[str, ...], "a list of settings files"]
Command = Literal[
    "train", "fit", "validate", "test", "certify", "predict", "attack", "diagnose", "transfer"
]
"""The commands of a stage; `transfer` is `attack pairs` with the run that comes first."""

# `yaml_reader` reads most of these classes from the file of a study: a field is a key of it.


class StudyError(MultiLineError):
    """A study that cannot be run or read; the message lists all problems, one per line."""

    def lines(self) -> str:
        """Return the message unchanged: its lines are indented."""
        return str(self)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One command of a cell, with its options without `--`: `attack.recipe`, or just `recipe`."""

    command: Command
    options: Settings = field(default_factory=dict)

    @property
    def recipe(self) -> str:
        """The recipe of an attack or a diagnosis, or several ones with commas between."""
        return str(self.attack_option("recipe") or "textfooler")

    @property
    def tag(self) -> str | None:
        """The tag of the files of an attack; None without one."""
        tag = self.attack_option("tag")
        return None if tag is None else str(tag)

    def attack_option(self, name: str) -> Any:
        """Return an option that may have `attack.` before its name; None without it."""
        return self.options.get(name, self.options.get(f"attack.{name}"))

    @property
    def threat(self) -> str | None:
        """Name of the files of a `certify --threat`; None for all other commands."""
        threat, tag = self.options.get("threat"), self.options.get("tag")
        if self.command != "certify" or threat is None:
            return None
        name = title(str(threat))
        return name if tag is None else f"{name}-{tag}"


@dataclass(frozen=True, kw_only=True)
class StudyCorpus:
    """A corpus that every row is run on, with settings below those of the row."""

    name: str
    title: str
    config: Files = ()
    settings: Settings = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StudyRow:
    """A row of the tables: one method with its settings, above those of `base` and of the corpus.

    The run of row `after` must end first: that at the same seed and on the same corpus, or its only
    run where it has just one seed or corpus. `start` are settings that name a file of that run:
    `model.init_from: checkpoints/best.ckpt`.
    """

    name: str
    title: str
    config: tuple[str, ...] = ()
    settings: Settings = field(default_factory=dict)
    # By corpus; they override all others.
    settings_on: Mapping[str, Settings] = field(default_factory=dict)
    seeds: tuple[int, ...]
    corpora: tuple[str, ...] = ()  # empty where the study has none
    stages: tuple[Stage, ...]
    after: str | None = None
    start: Mapping[str, str] = field(default_factory=dict)
    shown: bool = True  # False for a run that others start from and that the tables leave out


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of the tables: one metric of `results.json`."""

    name: str
    title: str
    metric: str
    scale: float = 1.0  # 100 for percent
    digits: int = 3  # after the point
    better: Literal["higher", "lower"] | None = "higher"  # None where neither is, as for a count
    corpus: str | None = None  # None for all, with a table for each corpus


@dataclass(frozen=True, kw_only=True)
class PaperFigures:
    """Figures of a paper by row, corpus ("" where the study has none) and column, in its unit.

    The source says paper, table, and how its setting differs from ours.
    """

    source: str
    figures: Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A picture of a study: some columns on a corpus, None where the study has none.

    `bars`: a group for each row, a bar for each column; `scatter`: a point for each row, first
    column against the second; `lines`: a line for each column over the rows.
    """

    name: str
    kind: Literal["bars", "scatter", "lines"] = "bars"
    columns: tuple[str, ...]
    corpus: str | None = None


@dataclass(frozen=True, kw_only=True)
class ReferenceLine:
    """Rows of one kind at several accuracies: others are compared with them at equal accuracy.

    `at` is the column that is made equal; the rows may be early checkpoints of a baseline.
    """

    at: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study; see docs/studies.md for its file."""

    name: str
    title: str
    about: str
    notes: tuple[str, ...] = ()  # differences from its source, runs that were left out
    # Values that the command line must give, with an explanation: `encoder`.
    needs: Mapping[str, str] = field(default_factory=dict)
    corpora: tuple[StudyCorpus, ...] = ()
    rows: tuple[StudyRow, ...]  # hidden ones, too
    columns: tuple[Column, ...]
    against: tuple[tuple[str, str], ...] = ()  # rows to compare, and their baselines
    compared: tuple[str, ...] = ()  # columns
    matched: ReferenceLine | None = None
    published: PaperFigures | None = None
    pictures: tuple[Chart, ...] = ()
    digest: str  # SHA-256 of the file


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of a study: a row on a corpus ("" where the study has none) with a seed."""

    row: str
    corpus: str
    seed: int
    run: str
    config: tuple[str, ...]
    settings: Settings  # override the files
    stages: tuple[Stage, ...]
    after: str | None = None  # the run that must end first
    # Settings that name a file of that run, with its path below the directory of runs.
    start: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CellFigures:
    """All that the tables need of one finished run; the parts of a divided study are lists of them.

    `values` and the five mappings from `outcomes` on are by column; columns without a figure, or
    without records of samples, are absent.
    """

    row: str
    corpus: str
    seed: int
    run: str
    values: Mapping[str, float | None]  # in the unit of the metric; None where not finite
    unreliable: tuple[str, ...] = ()  # columns that an attack flagged: no measure of robustness
    # True if the model predicts one of several classes for all texts; None without predictions.
    collapsed: bool | None = None
    # One value per test sample in the order of `ids`: 1 or 0 for right or wrong; the prediction
    # for a correlation.
    outcomes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    samples: Mapping[str, str] = field(default_factory=dict)  # SHA-256 of ids and labels
    ids: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    labels: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # gold values
    # Absent where it is the outcome, or a mean.
    predictions: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    # How columns were measured, in words of their stage; no key in `study.json`.
    protocols: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    weights: str  # SHA-256 of the weights by their names
    revisions: tuple[str, ...] = ()  # of the programs that trained and measured it
    data: Mapping[str, str] = field(default_factory=dict)  # digest of the samples of each split
    seconds: Mapping[str, float] = field(default_factory=dict)  # by stage


def with_tuples(value: Any) -> Any:
    """Return JSON values with tuples for lists, at any depth, as these classes have them."""
    if isinstance(value, Mapping):
        return {key: with_tuples(item) for key, item in value.items()}
    return tuple(map(with_tuples, value)) if isinstance(value, list) else value
