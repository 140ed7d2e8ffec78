"""The candidates of a recipe: their figures on validation rows, the choice, the table."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from certify.threats.parsing import parse_k
from measure.labelled_predictions import Predictions, class_mean
from run_files.ledger import Record
from text.estimates import IntervalEstimate, aligned, wilson

CERTIFIED = ("3", "all")
"""Numbers of changed words whose certified accuracy is shown."""


def holds(record: Record, k: str) -> bool:
    """Return True for a right prediction that is certified for k changed words."""
    return bool(record["label"] == record["prediction"] and record["holds"][k])


@dataclass(frozen=True, kw_only=True)
class KappaCandidate:
    """A trained model of the grid.

    Attributes:
        kappa: weight of the worst text in training.
        k: number of changed words in training; `all` for any.
        clean: clean accuracy on the validation rows.
        certified: certified accuracy there, by the number of changed words.
        balanced: the means of these accuracies over the classes, by `clean` and the same numbers.
        share: share of its most frequent prediction.
        collapsed: True if it predicts one class for nearly all texts.
    """

    kappa: float
    k: str
    clean: IntervalEstimate
    certified: dict[str, IntervalEstimate]
    balanced: dict[str, float]
    share: float
    collapsed: bool

    @classmethod
    def of(cls, kappa: float, k: str, records: Sequence[Record]) -> "KappaCandidate":
        """Return the figures of a candidate by its certificates."""
        made = Predictions.of(records)
        right = {n: [holds(record, n) for record in records] for n in CERTIFIED}
        return cls(
            kappa=kappa,
            k=k,
            clean=made.accuracy,
            certified={n: wilson(sum(hits), len(records)) for n, hits in right.items()},
            balanced={"clean": made.balanced}
            | {n: class_mean(made.labels, hits) for n, hits in right.items()},
            share=made.largest[1],
            collapsed=made.collapsed,
        )

    @property
    def name(self) -> str:
        """Name of its run."""
        return candidate_name(self.kappa, self.k)

    def line(self) -> dict[str, Any]:
        """Return the figures as JSON."""
        certified = {f"certified@{n}": share.value for n, share in self.certified.items()}
        balanced = {f"balanced@{n}": value for n, value in self.balanced.items()}
        return {
            "kappa": self.kappa,
            "k": self.k,
            "samples": self.clean.count,
            "clean": self.clean.value,
            **certified,
            **balanced,
            "largest_class": self.share,
            "collapsed": self.collapsed,
        }


def candidate_name(kappa: float, k: str) -> str:
    """Return the name of the run of a candidate."""
    return f"kappa-{kappa:g}" + ("" if k == "all" else f"-k-{k}")


def grid(kappas: Sequence[str], defaults: Sequence[float], ks: Sequence[str]) -> list[Any]:
    """Return the pairs of kappa and k to try, each once, in order.

    Raises:
        ValueError: a malformed k, or one below 1.
    """
    for k in ks:
        if parse_k(k) == 0:
            msg = "got --k 0, expected numbers of at least 1, or all"
            raise ValueError(msg)
    numbers = [n for word in kappas for n in (defaults if word == "auto" else [float(word)])]
    order = sorted(set(ks), key=lambda k: math.inf if k == "all" else int(k))
    return [(kappa, k) for k in order for kappa in sorted(set(numbers))]


def choose(candidates: Sequence[KappaCandidate], by: str, clean_loss: float) -> KappaCandidate:
    """Return the best candidate; a collapsed one only if there is no other.

    Args:
        candidates: at least one.
        by: `certified` or `certified-K`, the largest certified accuracy among the candidates whose
            clean accuracy is near the best; `mean`, the largest mean of clean and certified.
        clean_loss: largest distance to the best clean accuracy, in points. All these accuracies
            are means over the classes.
    """
    # Means over the classes: with a rare class, a model that never predicts it has a high accuracy.
    sound = [c for c in candidates if not c.collapsed] or list(candidates)
    k = by.partition("-")[2] or "all"
    if by == "mean":
        return max(sound, key=lambda c: c.balanced["clean"] + c.balanced[k])
    # Rounding must not exclude a difference of exactly this many points.
    least = max(c.balanced["clean"] for c in sound) - clean_loss / 100 - 1e-9
    near = [c for c in sound if c.balanced["clean"] >= least]
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
