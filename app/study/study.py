"""A study as data: rows, corpora, seeds, stages, columns, and what to compare and draw."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Settings = Mapping[str, Any]
"""Settings by their names on the command line, without `--`: `model.objective.gamma`."""
Command = Literal["train", "fit", "validate", "test", "certify", "predict", "attack", "diagnose"]


class StudyError(ValueError):
    """A study that cannot be run or read; the message lists all that is wrong, a line each."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One command of a cell.

    Attributes:
        command: of the program.
        options: of the command, by their names there without `--` (of `attack` and `diagnose`
            without the name of the command, too: `num_samples`, `recipe`).
    """

    command: Command
    options: Settings = field(default_factory=dict)

    @property
    def threat(self) -> str | None:
        """Name of the files of a `certify --threat`; None for all other commands."""
        threat, tag = self.options.get("threat"), self.options.get("tag")
        if self.command != "certify" or threat is None:
            return None
        return str(threat if tag is None else f"{threat}-{tag}")


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A corpus that every row is run on.

    Attributes:
        name: in names of runs.
        title: in tables.
        config: settings files, before those of the row.
        settings: below those of the row.
    """

    name: str
    title: str
    config: tuple[str, ...] = ()
    settings: Settings = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the tables: one method with its settings.

    Attributes:
        name: in names of runs.
        title: in tables.
        config: settings files, after those of the corpus.
        settings: above those of `base` and of the corpus.
        settings_on: settings on one corpus alone, by its name: above all others.
        seeds: of the runs.
        corpora: names of the corpora that it is run on; empty where the study has none.
        stages: commands of each run, in order.
        after: row whose run must have ended first; at the same seed and on the same corpus, or the
            only one where that row has but one.
        start: settings that name a file of that run, with the file: `model.init_from:
            checkpoints/best.ckpt`.
        shown: False for a run that others start from and that is no row of a table.
    """

    name: str
    title: str
    config: tuple[str, ...] = ()
    settings: Settings = field(default_factory=dict)
    settings_on: Mapping[str, Settings] = field(default_factory=dict)
    seeds: tuple[int, ...]
    corpora: tuple[str, ...] = ()
    stages: tuple[Stage, ...]
    after: str | None = None
    start: Mapping[str, str] = field(default_factory=dict)
    shown: bool = True


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of the tables: one metric.

    Attributes:
        name: in the file of figures.
        title: in tables.
        metric: of `results.json`.
        scale: what the metric is multiplied by: 100 for percent.
        digits: after the point.
        better: which values are better; None where no value is, as of a count.
        corpus: the corpus; None for all, with a table for each corpus.
    """

    name: str
    title: str
    metric: str
    scale: float = 1.0
    digits: int = 3
    better: Literal["higher", "lower"] | None = "higher"
    corpus: str | None = None


@dataclass(frozen=True, kw_only=True)
class Published:
    """Figures of a paper, beside ours.

    Attributes:
        source: paper, table, and in what its setting differs from ours.
        figures: by row, corpus ("" where the study has none) and column, in the unit of the column.
    """

    source: str
    figures: Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture of a study.

    Attributes:
        name: of its files.
        kind: `bars`: a group for each row, a bar for each column; `scatter`: a point for each row,
            first column against the second; `lines`: a line for each column over the rows.
        columns: their names.
        corpus: which one; None where the study has none.
    """

    name: str
    kind: Literal["bars", "scatter", "lines"]
    columns: tuple[str, ...]
    corpus: str | None = None


@dataclass(frozen=True, kw_only=True)
class Matched:
    """Rows of one kind at several accuracies, beside which the others stand at equal accuracy.

    Attributes:
        at: the column that is made equal: accuracy.
        rows: names of the rows of one kind, such as early checkpoints of a baseline.
        columns: names of the columns that are compared there.
    """

    at: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study; see docs/studies.md for its file.

    Attributes:
        name: that of its file.
        title: of its tables.
        about: what it is to show.
        notes: lines beneath its tables: in what it departs from its source, what was not run.
        needs: values that the command line must give, and what they are: `encoder`.
        corpora: may be empty.
        rows: hidden ones, too.
        columns: of its tables.
        against: pairs of rows that are compared, the second being the one to exceed.
        compared: names of the columns that are compared.
        matched: rows at several accuracies, for comparisons at equal accuracy; None for none.
        published: figures of the paper.
        pictures: what to draw.
        digest: SHA-256 of the file.
    """

    name: str
    title: str
    about: str
    notes: tuple[str, ...] = ()
    needs: Mapping[str, str] = field(default_factory=dict)
    corpora: tuple[Corpus, ...] = ()
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    against: tuple[tuple[str, str], ...] = ()
    compared: tuple[str, ...] = ()
    matched: Matched | None = None
    published: Published | None = None
    pictures: tuple[Picture, ...] = ()
    digest: str


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of a study: a row on a corpus with a seed.

    Attributes:
        row: name of the row.
        corpus: name of the corpus; "" where the study has none.
        seed: of the run.
        run: its name.
        config: settings files, in order.
        settings: over them; the files of `Row.start` are paths here.
        stages: its commands.
        after: run that must have ended first; None if it needs none.
        start: settings that name a file of that run, with its path below the directory of runs.
    """

    row: str
    corpus: str
    seed: int
    run: str
    config: tuple[str, ...]
    settings: Settings
    stages: tuple[Stage, ...]
    after: str | None = None
    start: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CellFigures:
    """All that the tables need of one finished run; parts of a study travel as lists of these.

    Attributes:
        row: name of the row.
        corpus: name of the corpus; "" where the study has none.
        seed: of the run.
        run: its name.
        values: by column, in the metric's own unit; None where it is not finite. Columns that the
            run has no figure for are absent.
        unreliable: columns whose figure an attack flagged: no measure of robustness.
        collapsed: True if the model gives all texts the same answer, of which it should give
            several; None where no record has its answers.
        outcomes: by column, one value per test sample in the order of `ids`: 1 or 0 for right or
            wrong; the prediction for a correlation. Columns without records are absent.
        samples: by column, SHA-256 of the ids and labels of those samples.
        ids: by column, those of the samples.
        labels: by column, the gold values.
        predictions: by column, what the model answered; absent where it is the outcome, or a mean.
        weights: SHA-256 of the weights by their names.
        revisions: of the programs that trained and measured the run; empty if not recorded.
        data: digest of the samples of each split.
        seconds: by stage.
    """

    row: str
    corpus: str
    seed: int
    run: str
    values: Mapping[str, float | None]
    unreliable: tuple[str, ...] = ()
    collapsed: bool | None = None
    outcomes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    samples: Mapping[str, str] = field(default_factory=dict)
    ids: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    labels: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    predictions: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    weights: str
    revisions: tuple[str, ...] = ()
    data: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
