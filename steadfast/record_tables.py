"""Results in Python: records with a table for notebooks, for pandas, for files and as a figure."""

import csv
import io
import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, overload

from typing_extensions import override

import steadfast  # noqa: F401 (puts the packages below on the import path)
from attacks.interface import Outcome
from attacks.outcome import AttackRecord
from attacks.summary import Summary, table
from measure.attack_html import marked_texts
from measure.charts import drawing
from run_files import atomic
from run_files.terminal import harmless
from text.extras import extras_named

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Record = dict[str, Any]
"""A record as JSON."""
ENDINGS = (".jsonl", ".csv", ".html")
_SHOWN = 20
"""Records in a notebook."""
_STYLE = 'style="text-align:left;vertical-align:top;max-width:40em"'


class RecordTable(Sequence[Record]):
    """Records of one measurement, one for each text, in the order of the texts."""

    shown: ClassVar[tuple[str, ...]] = ()
    """Fields that a table for people has."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = list(records)

    @override
    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    @override
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        return self._records[index]

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__} of {len(self)} texts"

    @extras_named()
    def to_pandas(self) -> "DataFrame":
        """Return a data frame, a row for each record."""
        from pandas import DataFrame

        return DataFrame(self._records)

    def save(self, path: str | Path) -> Path:
        """Write all records: JSON lines, comma-separated values, or a table in HTML.

        Args:
            path: file with one of `ENDINGS`; written whole or not at all.

        Raises:
            ValueError: another ending.
            OSError: the file cannot be written.
        """
        file = Path(path)
        if file.suffix not in ENDINGS:
            msg = f"got {file} to save records, expected a file with {', '.join(ENDINGS)}"
            raise ValueError(msg)
        if file.suffix == ".jsonl":
            atomic.write_lines(file, self._records)
        else:
            rows = self._html(len(self)) if file.suffix == ".html" else self._csv()
            atomic.write_text(file, rows)
        return file

    @extras_named()
    def plot(self) -> "Figure":
        """Return a figure of all records (docs/python.md)."""
        with drawing(None, size=(6, 3)) as figure:
            self._draw(figure.subplots())
        return figure

    @abstractmethod
    def _draw(self, axes: Any) -> None:
        """Draw all records."""

    def _csv(self) -> str:
        stream = io.StringIO()
        # Records may differ in their fields: the header has all, in the order of first use.
        fields = list(dict.fromkeys(field for record in self for field in record))
        # Quotes everywhere: Python up to 3.12 writes a carriage return in a text without.
        writer = csv.DictWriter(stream, fields, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writeheader()
        for record in self:
            writer.writerow({field: _flat(value) for field, value in record.items()})
        return stream.getvalue()

    def _repr_html_(self) -> str:
        return self._html(_SHOWN)

    def _html(self, count: int) -> str:
        """Return a table of the first records, in which no text is read as HTML."""
        head = "".join(f"<th {_STYLE}>{_escape(name)}</th>" for name in self.shown)
        rows = (
            "".join(f"<td {_STYLE}>{cell}</td>" for cell in self._cells(record))
            for record in self[:count]
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        more = f"<p>and {len(self) - count:,} more</p>" if len(self) > count else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def _cells(self, record: Record) -> Iterator[str]:
        """Yield the cells of a record as HTML."""
        for name in self.shown:
            value = record.get(name)
            yield _escape(f"{value:.4f}" if isinstance(value, float) else _flat(value))


class PredictionTable(RecordTable):
    """Predictions; the fields of a record are those of `predict` (docs/cli.md)."""

    shown = ("text", "prediction", "probability")

    @property
    def labels(self) -> list[str]:
        """Names of the predicted classes."""
        return [record["prediction"] for record in self]

    def _draw(self, axes: Any) -> None:
        """Draw the probabilities of the predictions, by class."""
        names = list(self[0]["probabilities"]) if len(self) and "probabilities" in self[0] else []
        if not names:
            msg = "got no probabilities to draw, expected predictions of a classifier"
            raise ValueError(msg)
        values = [[r["probability"] for r in self if r["prediction"] == name] for name in names]
        axes.hist(values, bins=20, range=(0, 1), stacked=True, label=names)
        axes.set(xlabel="probability of the prediction", ylabel="texts")
        axes.legend()


class AttackTable(RecordTable):
    """Attacked texts; the fields of a record are those of `attacks.outcome.AttackRecord`.

    Attributes:
        name: of the attack.
        summary: its figures, with intervals.
    """

    shown = ("outcome", "classes", "clean", "attacked", "queries")

    def __init__(self, outcome: Outcome) -> None:
        super().__init__([record.line() for record in outcome.records])
        self.name = outcome.name
        self.summary: Summary = outcome.summary
        self._outcome = outcome
        self._attacked = {record.sample_id: record for record in outcome.records}

    @override
    def __repr__(self) -> str:
        return str(self._outcome)

    def _draw(self, axes: Any) -> None:
        _draw_queries(axes, self, self.name)
        axes.set_title(self.name)

    def _cells(self, record: Record) -> Iterator[str]:
        yield from _attack_cells(self._attacked[record["sample_id"]])


class RunAttackTable(RecordTable):
    """Attacks of a run: a record for each text and attack, with the name of the attack.

    Attributes:
        names: of the attacks.
    """

    shown = ("attack", "outcome", "classes", "clean", "attacked", "queries")

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        pairs = [(outcome.name, record) for outcome in outcomes for record in outcome.records]
        super().__init__([{"attack": name, **record.line()} for name, record in pairs])
        self.names = [outcome.name for outcome in outcomes]
        self._summaries = {outcome.name: outcome.summary for outcome in outcomes}
        self._attacked = {(name, record.sample_id): record for name, record in pairs}

    @override
    def __repr__(self) -> str:
        return table(self._summaries)

    def _draw(self, axes: Any) -> None:
        for name in self.names:
            _draw_queries(axes, [record for record in self if record["attack"] == name], name)
        axes.legend()

    def _cells(self, record: Record) -> Iterator[str]:
        yield _escape(record["attack"])
        yield from _attack_cells(self._attacked[record["attack"], record["sample_id"]])


class CertificateTable(RecordTable):
    """Certificates of texts in words: a record for each text and threat (docs/robust_words.md)."""

    shown = ("text", "class", "threat", "sentence")

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__} of {len(self)} texts and threats"

    def shares(self) -> dict[str, dict[str, float]]:
        """Return the share of texts that are certified, by threat and number of changed words."""
        shares: dict[str, dict[str, float]] = {}
        for threat in dict.fromkeys(record["threat"] for record in self):
            holds = [record["holds"] for record in self if record["threat"] == threat]
            shares[threat] = {k: sum(h[k] for h in holds) / len(holds) for k in holds[0]}
        return shares

    def _draw(self, axes: Any) -> None:
        """Draw the certified share of the texts over the number of changed words."""
        for threat, shares in self.shares().items():
            axes.plot(list(shares), list(shares.values()), marker="o", label=threat)
        axes.set(xlabel="changed words", ylabel="certified share", ylim=(0, 1.02))
        axes.legend()


def _draw_queries(axes: Any, records: Sequence[Record], name: str) -> None:
    """Draw the accuracy of an attack over the number of queries for each text."""
    counted = [record for record in records if record["outcome"] != "error"]
    flips = sorted(r["queries"] for r in counted if r["outcome"] == "succeeded")
    right = sum(record["outcome"] in ("succeeded", "failed") for record in counted)
    accuracies = [(right - n) / max(len(counted), 1) for n in range(len(flips) + 1)]
    end = max((record["queries"] for record in counted), default=0)
    # One step down for each success; the last level extends to the end of all searches.
    axes.step([0, *flips, end], [*accuracies, accuracies[-1]], where="post", label=name)
    axes.set(xlabel="queries for each text", ylabel="accuracy", ylim=(0, 1))


def _attack_cells(record: AttackRecord) -> Iterator[str]:
    before, after = marked_texts(record)
    yield _escape(record.outcome)
    yield _escape(" → ".join(_classes(record)))
    yield before
    yield after if record.adversarial is not None else ""
    yield str(record.queries)


def _classes(record: AttackRecord) -> Iterator[str]:
    """Yield the predicted classes, before and after a success."""
    for index, name in (
        (record.prediction, record.prediction_name),
        (record.adversarial_prediction, record.adversarial_prediction_name),
    ):
        if index is not None:
            yield str(index) if name is None else name
        if record.outcome != "succeeded":
            return


def _flat(value: Any) -> str:
    """Return a value in one cell."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _escape(text: str) -> str:
    # Texts come from files and attackers: never raw HTML.
    return escape(harmless(text))
