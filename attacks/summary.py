"""The figures of an attack, with 95 % intervals and a check of their reliability."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from attacks.goals import NEAR, Score
from attacks.outcome import DETECTOR_GOALS, AttackRecord
from attacks.task_figures import NAMES, task_figures
from attacks.task_goals import VictimTask
from text.estimates import IntervalEstimate, aligned, interval, mean, wilson

_METRICS = (
    *("samples", "clean_accuracy", "accuracy", "success_rate", "queries", "unique_queries"),
    *("words_changed", "similarity", "exhausted", "saturated", "unreliable", "unstable", "errors"),
    *("flip_rate", "attacked", "words_kept", "query_auc"),
    *(f"{prefix}{name}" for name in NAMES for prefix in ("clean_", "")),
)
_OF_DETECTORS = {"flip_rate", "attacked", "words_kept"}
_COUNTED = {"clean_accuracy", "flip_rate"}
"""Figures whose number of samples is in the table."""
_DOUBTED = {"accuracy", "success_rate", "query_auc"}
QUERIES = 1000
"""End of the curve of success over queries under which `Summary.query_auc` is the area."""
TOLERATED = 0.01
"""Share by which a blind score may overstate the accuracy before it is unreliable."""
FLAT = 1e-6
"""Largest change of a score, relative to it, that rounding in single precision may cause."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """The figures of one attack; see docs/attacks.md.

    Attributes:
        samples: number of samples, but for those with an error.
        attacked: those that were classified rightly, and so were attacked.
        clean_accuracy: share of the samples that are classified rightly.
        accuracy: share of the samples that are classified rightly and stay so under attack.
        success_rate: share of the attacked samples whose attack succeeded.
        words_changed: mean share of words changed, of the samples whose attack succeeded.
        queries: texts the victim was asked about per attacked sample.
        unique_queries: different ones among them.
        similarity: mean similarity by the attack's own sentence encoder, of the samples whose
            attack succeeded.
        seconds: mean seconds from the first question to the last answer of an attacked sample,
            with others in flight.
        exhausted: share of the attacked samples whose search was ended by the budget.
        saturated: share of the attacked samples for which a score made of probabilities is blind.
        overstated: largest error of the accuracy by blind scores, of any kind.
        unreliable: True if that error is above `TOLERATED`.
        unstable: share of the successes that did not succeed once more when the victim was asked
            about their texts again; each took a query that `queries` does not count.
        untouched: number of attacked samples without a candidate, whose search tried nothing.
        errors: samples that are left out, as the victim gave no valid answer to one of their texts.
        flip_rate: with a goal about a detector, the success rate: the share of detections that are
            evaded, or of undetected texts that become false alarms.
        words_kept: with such a goal, the mean share of the words that the adversarial text still
            has, of the samples whose attack succeeded.
        query_auc: area under the curve of the success rate over the queries of a sample, from 0 to
            `QUERIES`, as a share of the largest area: 1 if every text falls at once.
        clean_f1: of a tagger the F1 of entities, of several classes the micro-averaged F1.
        f1: the same under attack.
        clean_absolute_error: of numbers, the mean absolute error.
        absolute_error: the same under attack.
        clean_spearman: of numbers, the rank correlation with the labels.
        spearman: the same under attack.
    """

    samples: int
    attacked: int
    clean_accuracy: IntervalEstimate
    accuracy: IntervalEstimate
    success_rate: IntervalEstimate | None
    words_changed: IntervalEstimate | None
    queries: IntervalEstimate | None
    unique_queries: IntervalEstimate | None
    similarity: IntervalEstimate | None
    seconds: IntervalEstimate | None
    exhausted: float
    saturated: float
    overstated: float
    unreliable: bool
    unstable: IntervalEstimate | None
    errors: int
    flip_rate: IntervalEstimate | None = None
    words_kept: IntervalEstimate | None = None
    query_auc: IntervalEstimate | None = None
    clean_f1: IntervalEstimate | None = None
    f1: IntervalEstimate | None = None
    clean_absolute_error: IntervalEstimate | None = None
    absolute_error: IntervalEstimate | None = None
    clean_spearman: IntervalEstimate | None = None
    spearman: IntervalEstimate | None = None
    untouched: int = 0

    def metrics(self) -> dict[str, float]:
        """Return flat names and numbers; an unreliable accuracy has another name."""
        named = {
            f"unreliable_{name}" if self.unreliable and name in _DOUBTED else name: value
            for name in _METRICS
            if (value := getattr(self, name)) is not None
            and (value or name != "errors")
            and (self.flip_rate is not None or name not in _OF_DETECTORS)
        }
        return {
            name: value.value if isinstance(value, IntervalEstimate) else float(value)
            for name, value in named.items()
        }

    def line(self) -> dict[str, Any]:
        """Return a JSON object with the intervals; null where an interval has no end."""
        return {
            name: {k: v if math.isfinite(v) else None for k, v in value.items()}
            if isinstance(value, dict)
            else value
            for name, value in asdict(self).items()
        }


def summarise(
    records: Iterable[AttackRecord],
    *,
    score: Score,
    goal: str | None = None,
    task: VictimTask | None = None,
) -> Summary:
    """Compute the figures of an attack.

    Args:
        records: one per sample.
        score: kind of score of its goal.
        goal: name of its goal in the settings; `evade` and `force` have figures of their own.
        task: of the victim, which may have figures of its own; a classification if None.

    Raises:
        ValueError: no record without an error.
    """
    read = list(records)
    valid = [record for record in read if record.outcome != "error"]
    if not valid:
        msg = f"got no valid answer to any of {len(read)} samples, the first: "
        msg = f"{msg}{read[0].reason}" if read else "got no records, expected some"
        raise ValueError(msg)
    attacked = [record for record in valid if record.attacked]
    succeeded = [record for record in attacked if record.outcome == "succeeded"]
    held = [record.holds for record in attacked if record.holds is not None]
    success_rate = wilson(len(succeeded), len(attacked)) if attacked else None
    of_detector = goal in DETECTOR_GOALS
    # "Right": the clean text is classified as its gold class.
    right = [record for record in valid if record.right]
    standing = sum(record.outcome != "succeeded" for record in right)
    figures: dict[str, Any] = {
        **_word_figures(succeeded, of_detector=of_detector),
        **_cost_figures(attacked),
        **_saturation(attacked, len(valid), score),
        **task_figures(valid, task or "classification"),
    }
    return Summary(
        samples=len(valid),
        attacked=len(attacked),
        clean_accuracy=wilson(len(right), len(valid)),
        accuracy=wilson(standing, len(valid)),
        success_rate=success_rate,
        unstable=wilson(held.count(False), len(held)) if held else None,
        errors=len(read) - len(valid),
        flip_rate=success_rate if of_detector else None,
        untouched=sum(record.candidates == 0 for record in attacked),
        **figures,
    )


def _word_figures(
    succeeded: Sequence[AttackRecord], *, of_detector: bool
) -> dict[str, IntervalEstimate | None]:
    """Return how much of the texts successes changed; words kept only of a detector."""
    changed = [r.words_changed / r.words for r in succeeded if r.words]
    similar = [s for record in succeeded if (s := record.similarity) is not None]
    kept = [r.words_kept / r.words for r in succeeded if r.words_kept is not None and r.words]
    return {
        # Insertions may change more words than there are.
        "words_changed": mean(changed, top=max([1.0, *changed])),
        "similarity": mean(similar, top=1.0),
        "words_kept": mean(kept, top=1.0) if of_detector else None,
    }


def _cost_figures(attacked: Sequence[AttackRecord]) -> dict[str, Any]:
    """Return how many queries and seconds attacked samples took."""
    # A success counts from its query on: the area is the mean of what is left of the axis.
    left = [
        max(0.0, 1 - record.queries / QUERIES) if record.outcome == "succeeded" else 0.0
        for record in attacked
    ]
    return {
        "queries": mean([record.queries for record in attacked]),
        "unique_queries": mean([record.unique_queries for record in attacked]),
        "seconds": mean([record.seconds for record in attacked]),
        "exhausted": sum(record.exhausted for record in attacked) / max(1, len(attacked)),
        "query_auc": mean(left, top=1.0),
    }


def _saturation(attacked: Sequence[AttackRecord], samples: int, score: Score) -> dict[str, Any]:
    """Return the share of saturated samples, and the error of the accuracy by blind scores."""
    saturated = [_is_saturated(record) for record in attacked]
    # Each failure of a blind attack might have been a success.
    failed = sum(is_blind(record, score) for record in attacked)
    return {
        "saturated": sum(saturated) / max(1, len(attacked)),
        "overstated": failed / samples,
        "unreliable": failed / samples > TOLERATED,
    }


def is_blind(record: AttackRecord, score: Score) -> bool:
    """Return True if an attack has failed, and its score showed no difference between texts."""
    blind = (score == "probability" and _is_saturated(record)) or _is_flat(record)
    return record.outcome == "failed" and blind


def _is_saturated(record: AttackRecord) -> bool:
    """Return True if probabilities of the sample show no difference between candidates.

    They are 1 in single precision, or nearer to it than the tie of the goal.
    """
    score = record.score
    if not isinstance(record.label, int):  # a number begins with the score 0
        return False
    return record.saturated or (score is not None and 0 <= score < NEAR["probability"])


def _is_flat(record: AttackRecord) -> bool:
    """Return True if rounding alone moves the score: without any word, or in any text."""
    # Margins do this, too: of votes, and behind a tanh that is 1 in single precision.
    # The score of a number is how far it has moved: 0 at first.
    if record.score is None or not isinstance(record.label, int | tuple):
        return False
    weights = [abs(weight) for weight in record.salience or () if weight is not None]
    # Without any word: the search ranks them blindly. In any text: it chooses blindly.
    changes = [max(weights)] if weights else []
    changes += [] if record.score_change is None else [record.score_change]
    return min(changes, default=math.inf) <= FLAT * abs(record.score)


FIGURES = (
    ("clean accuracy", "clean_accuracy", 3),
    ("acc. under attack", "accuracy", 3),
    ("clean F1", "clean_f1", 3),
    ("F1 under attack", "f1", 3),
    ("clean abs. error", "clean_absolute_error", 3),
    ("abs. error under attack", "absolute_error", 3),
    ("clean Spearman", "clean_spearman", 3),
    ("Spearman under attack", "spearman", 3),
    ("success rate", "success_rate", 3),
    ("flip rate", "flip_rate", 3),
    ("words kept", "words_kept", 3),
    ("words changed", "words_changed", 3),
    ("queries", "queries", 1),
    ("similarity", "similarity", 3),
    ("seconds", "seconds", 2),
)
"""Columns of the table: title, field of `Summary`, digits."""


def figure_columns(summaries: Iterable[Summary]) -> list[tuple[str, str, int]]:
    """Return the columns of some attacks; a flip rate replaces the success rate."""
    summaries = list(summaries)
    flips = any(summary.flip_rate is not None for summary in summaries)
    unused = {"success_rate"} if flips else {*_OF_DETECTORS}
    of_tasks = [f"{prefix}{name}" for name in NAMES for prefix in ("clean_", "")]
    unused |= {name for name in of_tasks if all(getattr(s, name) is None for s in summaries)}
    return [column for column in FIGURES if column[1] not in unused]


def table(summaries: Mapping[str, Summary]) -> str:
    """Return the figures of attacks as aligned text, the 95 % interval below each."""
    figures = figure_columns(summaries.values())
    rows = [["attack", *(title for title, _, _ in figures)]]
    for name, summary in summaries.items():
        values, intervals = [name], [""]
        for _, field, digits in figures:
            estimate: IntervalEstimate | None = getattr(summary, field)
            doubted = "?" if summary.unreliable and field in _DOUBTED else ""
            values.append("-" if estimate is None else f"{estimate.value:.{digits}f}{doubted}")
            # Of the same samples as the accuracy under attack, which may be few of the split.
            interval_text = "" if estimate is None else interval(estimate, digits)
            if estimate is not None and field in _COUNTED:
                interval_text += f" ({estimate.count})"
            intervals.append(interval_text)
        rows += [values, intervals]
    notes = [note for name, summary in summaries.items() for note in remarks(name, summary)]
    return "\n".join([aligned(rows), *notes])


def remarks(name: str, summary: Summary) -> list[str]:
    """Return warnings about the figures of an attack."""
    texts = [_doubt(name, summary)] if summary.overstated else []
    if summary.untouched > TOLERATED * summary.samples:
        texts.append(
            f"{name}: {summary.untouched} of {summary.attacked} attacked texts have no candidate: "
            "nothing was tried, and they count as robust; its resources, its language or its "
            "constraints leave none"
        )
    if summary.errors:
        texts.append(
            f"{name}: {summary.errors} of {summary.samples + summary.errors} samples are left out: "
            "the victim gave no valid answer to one of their texts; their records say why"
        )
    again = summary.unstable
    if again is not None and again.value:
        texts.append(
            f"{name}: {round(again.value * again.count)} of {again.count} successes did not succeed"
            f" when the victim was asked once more ({again.count} queries that are not counted):"
            " its answers are noisy, and the accuracy under attack is too low"
        )
    return texts


def _doubt(name: str, summary: Summary) -> str:
    verdict = "no measure of robustness" if summary.unreliable else "tolerable"
    return (
        f"{name}: the attack sees no difference between candidates of some samples: no word moves "
        "their score, or their probability is 1 in single precision "
        f"({100 * summary.saturated:.1f} % of the attacked samples); the accuracy may be "
        f"{100 * summary.overstated:.1f} points too high ({verdict}): try score=margin, "
        "hard-label, or the texts of another model (`attack pairs --run`)"
    )


def wins(name: str, records: Iterable[AttackRecord]) -> str:
    """Return a line with the number of successes of each attack of an ensemble; "" for another."""
    counts = Counter(
        record.recipe
        for record in records
        if record.recipe is not None and record.outcome == "succeeded"
    )
    listed = ", ".join(f"{count} by {recipe}" for recipe, count in counts.most_common())
    return f"{name}: successes {listed}" if listed else ""
