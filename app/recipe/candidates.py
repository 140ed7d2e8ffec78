"""The candidates of a recipe: figures, choice and table; and the last table, of all models."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from certify.threats.parsing import parse_k
from measure.labelled_predictions import Predictions, class_mean, most_frequent
from run_files.ledger import Ledger, Record
from run_files.run_directory import RunDirectory
from run_files.terminal import harmless
from text.estimates import IntervalEstimate, aligned, wilson

CERTIFIED = ("3", "all")
"""Numbers of changed words whose certified accuracy is shown."""


def holds(record: Record, k: str) -> bool:
    """Return True for a right prediction that is certified for k changed words."""
    return bool(record["label"] == record["prediction"] and record["holds"][k])


@dataclass(frozen=True, kw_only=True)
class KappaCandidate:
    """A trained model of the grid, with its accuracies on the validation rows."""

    kappa: float  # weight of the worst text
    k: str  # changed words
    clean: IntervalEstimate
    certified: dict[str, IntervalEstimate]  # by the number of changed words
    balanced: dict[str, float]  # means over the classes, by `clean` and the same numbers
    share: float  # of its most frequent prediction
    collapsed: bool

    @classmethod
    def of(cls, kappa: float, k: str, records: Sequence[Record]) -> "KappaCandidate":
        """Return the figures of a candidate by its certificates."""
        made = Predictions.of(records)
        right = {n: [holds(record, n) for record in records] for n in CERTIFIED}
        balanced = {n: class_mean(made.labels, hits) for n, hits in right.items()}
        return cls(
            kappa=kappa,
            k=k,
            clean=made.accuracy,
            certified={n: wilson(sum(hits), len(records)) for n, hits in right.items()},
            balanced={"clean": made.balanced} | balanced,
            share=made.largest[1],
            collapsed=made.collapsed,
        )

    @property
    def name(self) -> str:
        """Name of its run."""
        return candidate_name(self.kappa, self.k)

    def line(self) -> dict[str, Any]:
        """Return the figures as JSON."""
        line = {"kappa": self.kappa, "k": self.k}
        line |= {"samples": self.clean.count, "clean": self.clean.value}
        line |= {f"certified@{n}": share.value for n, share in self.certified.items()}
        line |= {f"balanced@{n}": value for n, value in self.balanced.items()}
        return line | {"largest_class": self.share, "collapsed": self.collapsed}


def candidate_name(kappa: float, k: str) -> str:
    """Return the name of the run of a candidate."""
    return f"kappa-{kappa:g}" + ("" if k == "all" else f"-k-{k}")


def grid(kappas: Sequence[str], defaults: Sequence[float], ks: Sequence[str]) -> list[Any]:
    """Return the pairs of kappa and k to try, each once, in order; refuse a k below 1."""
    for k in ks:
        if parse_k(k) == 0:
            msg = "got --k 0, expected numbers of at least 1, or all"
            raise ValueError(msg)
    numbers = [n for word in kappas for n in (defaults if word == "auto" else [float(word)])]
    order = sorted(set(ks), key=lambda k: math.inf if k == "all" else int(k))
    return [(kappa, k) for k in order for kappa in sorted(set(numbers))]


def choose(candidates: Sequence[KappaCandidate], by: str, clean_loss: float) -> KappaCandidate:
    """Return the best candidate; a collapsed one only if all have collapsed.

    By `certified` or `certified-K` it has the largest certified accuracy among the candidates whose
    clean accuracy is within `clean_loss` points of the best; by `mean`, the largest mean of both.
    """
    # Means over the classes: with a rare class, a model that never predicts it has a high accuracy.
    sound = [c for c in candidates if not c.collapsed] or list(candidates)
    k = by.partition("-")[2] or "all"
    if by == "mean":
        return max(sound, key=lambda c: c.balanced["clean"] + c.balanced[k])
    # Rounding must not exclude a difference of exactly this many points.
    least = max(c.balanced["clean"] for c in sound) - clean_loss / 100 - 1e-9
    near = [c for c in sound if c.balanced["clean"] >= least]
    # Of equally certified candidates the one with the best clean figure.
    return max(near, key=lambda c: (c.balanced[k], c.balanced["clean"]))


def table(candidates: Sequence[KappaCandidate], chosen: KappaCandidate) -> str:
    """Return the table of the candidates; a star marks the chosen one.

    The class means are those of the three accuracies before them.
    """
    certified = [f"certified, {n} words" for n in CERTIFIED]
    rows = [["kappa", "k", "clean", *certified, "class means", "largest class"]]
    for candidate in candidates:
        shares = [candidate.clean, *candidate.certified.values()]
        mark = " *" if candidate == chosen else ""
        note = " (collapsed)" if candidate.collapsed else ""
        means = " / ".join(f"{100 * value:.1f}" for value in candidate.balanced.values())
        cells = [f"{candidate.kappa:g}{mark}", candidate.k, *map(cell, shares), means]
        rows.append([*cells, f"{100 * candidate.share:.1f}{note}"])
    return aligned(rows)


def cell(share: IntervalEstimate) -> str:
    """Return a share and its 95 % interval in %."""
    return f"{100 * share.value:.1f} [{100 * share.low:.1f}, {100 * share.high:.1f}]"


# Models side by side on the test rows


def compare_models(
    runs: Sequence[RunDirectory], stage: str, attacks: Sequence[str], class_names: Sequence[str]
) -> str:
    """Return the table of measured runs, the robust one first, and lines about collapsed models.

    `stage` is the name of its word certificates in `results.json`.
    """
    predictions = [Predictions.of(Ledger(run.predictions).records()) for run in runs]
    pairs = list(zip(runs, predictions, strict=True))
    figures = [list(_figures(run, made, stage, attacks)) for run, made in pairs]
    notes = [line for run, made in pairs for line in _doubts(run.name, made, class_names)]
    labels = predictions[-1].labels
    rows = [["accuracy, %", *(run.name for run in runs)]]
    # A row has one title, and a value for each run.
    rows += [[row[0][0], *(value for _, value in row)] for row in zip(*figures, strict=True)]
    number, share_of_labels = most_frequent(labels)
    title = (
        f"{len(labels):,} test texts, of which {100 * share_of_labels:.1f} % are "
        f"{class_names[number]!r}; 95 % intervals in brackets"
    )
    return "\n".join(map(harmless, [title, aligned(rows), *notes]))


def _figures(
    run: RunDirectory, made: Predictions, stage: str, attacks: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield titles and figures of a run, each share with its mean over the classes."""
    means = "  mean of the classes"
    yield "clean", cell(made.accuracy)
    yield means, f"{100 * made.balanced:.1f}"
    yield "largest class", f"{100 * made.largest[1]:.1f}"
    certificates = Ledger(run.path / f"certificates_{stage.removeprefix('certify_')}.jsonl")
    records = certificates.records()
    labels = [record["label"] for record in records]
    for k in CERTIFIED:
        hits = [holds(record, k) for record in records]
        yield f"certified, {k} words", cell(wilson(sum(hits), len(hits))) if hits else "-"
        yield means, f"{100 * class_mean(labels, hits):.1f}" if hits else "-"
    results = run.results()
    metrics = {} if results is None else results["metrics"]
    rows = [(name, "attacked texts, clean", "clean_accuracy") for name in attacks[:1]]
    for name, title, key in (*rows, *((name, f"under {name}", "accuracy") for name in attacks)):
        yield title, _share(metrics, f"attack/{name}", key)
        yield means, _attacked_mean(run, name, clean=key == "clean_accuracy")


def _share(metrics: Mapping[str, float | None], stage: str, name: str) -> str:
    """Return a share of the samples of a stage; a question mark follows an unreliable one."""
    count = metrics.get(f"{stage}/samples")
    for key, mark in ((name, ""), (f"unreliable_{name}", "?")):
        value = metrics.get(f"{stage}/{key}")
        if value is not None and count:
            return cell(wilson(round(value * count), int(count))) + mark
    return "-"


def _attacked_mean(run: RunDirectory, name: str, *, clean: bool) -> str:
    """Return the mean over the classes of the accuracy of attacked texts, before or after."""
    records = Ledger(run.path / "attacks" / f"{name}.jsonl").records()
    valid = [record for record in records if record["outcome"] != "error"]
    hits = [r["prediction"] == r["label"] and (clean or r["outcome"] != "succeeded") for r in valid]
    return f"{100 * class_mean([r['label'] for r in valid], hits):.1f}" if valid else "-"


def _doubts(name: str, made: Predictions, class_names: Sequence[str]) -> Iterator[str]:
    """Yield the reason to refuse a model, if it has one."""
    number, largest = made.largest
    usual, share = most_frequent(made.labels)
    rare = min(sorted(set(made.labels)), key=list(made.labels).count)
    times = round(share * len(made.labels) / list(made.labels).count(rare))
    advice = ""
    if times > 1:
        repeat = f"--data.upsample '{{{class_names[rare]}: {times}}}'"
        advice = f"; {repeat} trains on a rare class more often"
    if made.collapsed:
        yield (
            f"{name} has collapsed: it predicts {class_names[number]!r} for {100 * largest:.1f} % "
            f"of the texts, whatever they say; that is no robustness{advice}"
        )
    elif made.accuracy.low <= share:
        always = f"to predict {class_names[usual]!r} for every text"
        yield f"{name} is not clearly better than {always}{advice}"
