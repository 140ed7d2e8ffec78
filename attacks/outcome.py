"""Samples, and the records of attacks on them."""

import math
from dataclasses import dataclass, fields
from typing import Any, Literal

from rapidfuzz.distance import LCSseq, Levenshtein

from attacks.compat import Compat
from attacks.document import Document
from attacks.json_lines import writable
from text import Text

Outcome = Literal["skipped", "failed", "succeeded", "error"]
DETECTOR_GOALS = ("evade", "force")
"""Goals about the positive class of a detector, by their names in settings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A text to attack.

    Attributes:
        sample_id: position in the split; seeds its random numbers.
        text: a string or a pair.
        label: gold class; a number in a regression; the names of several classes, or the tag of
            each word, as a tuple.

    Raises:
        ValueError: anything else as text or label.
    """

    sample_id: int
    text: Text
    label: Any

    def __post_init__(self) -> None:
        """Check the text and the label, which come from a user."""
        text: Any = self.text
        # A list would be a data set's idea of a pair: only tuples are.
        texts = text if isinstance(text, tuple) and len(text) == 2 else (text,)
        if not all(isinstance(part, str) for part in texts):
            msg = (
                f"got {text!r:.80} as text of sample {self.sample_id}, expected a string, or "
                "a pair (tuple) of strings"
            )
            raise ValueError(msg)
        if not writable(text):
            msg = (
                f"got {text!r:.80} as text of sample {self.sample_id}, with half a surrogate pair, "
                'expected one that is UTF-8: text.encode("utf-8", "replace").decode() is'
            )
            raise ValueError(msg)
        label: Any = self.label
        # A class name or a NumPy integer would not survive the way through JSON.
        names = isinstance(label, tuple) and all(isinstance(name, str) for name in label)
        number = isinstance(label, float) and math.isfinite(label)
        if not (isinstance(label, int) or number or names):
            msg = (
                f"got label {label!r:.80} of sample {self.sample_id}, expected the number of "
                "its class: 0, 1, ... (other tasks: attacks.task_goals)"
            )
            raise ValueError(msg)


@dataclass(frozen=True, kw_only=True, slots=True)
class AttackRecord:
    """The result of the attack on one sample; a line of `attacks/<recipe>.jsonl`.

    Attributes:
        sample_id: position in the split, see `Sample`.
        label: gold class; see `Sample` for other tasks, whose predictions are of the same kind.
        prediction: class predicted for the clean text; None where that has no valid answer.
        outcome: `skipped` (the clean text is misclassified), `failed`, `succeeded`, or `error`: the
            victim gave no valid answer to one of the texts, and the sample counts in no figure.
        text: the clean text.
        adversarial: the last text of the search, misclassified if it succeeded; None if skipped.
        adversarial_prediction: class predicted for the adversarial text; None if skipped.
        score: score of the goal for the clean text; None where that has no valid answer.
        adversarial_score: score of the goal for the adversarial text.
        words: words of the clean text.
        words_changed: words that were replaced, inserted or deleted (edit distance in words).
        similarity: similarity of the adversarial text, by the sentence encoder of the attack.
        queries: texts the victim was asked about, repeated ones included, as TextAttack counts.
        unique_queries: different ones among them, which the victim computed.
        exhausted: True if the budget ended the search, and not its success.
        saturated: True if the probability of the clean text is 1 in single precision: a score made
            of probabilities then shows no difference between candidates.
        seconds: seconds from its first question to its last answer, with others in flight.
        seed: seed of its random numbers.
        holds: True if the adversarial text succeeded once more when the victim was asked again
            after the search, which no other figure counts; None where it was not asked.
        reason: of an `error`: the invalid answer.
        label_name: name of the gold class; None where the classes have no names, as in records of
            older versions.
        prediction_name: name of the class predicted for the clean text.
        adversarial_prediction_name: name of the class predicted for the adversarial text.
        words_kept: words of the clean text that the adversarial text has in the same order; None in
            records of older versions.
        salience: for each word of the clean text, what the score gains without it, as the search
            has ranked the words; None for words that it has not tried. None where the search ranks
            in another way, or not at all, and in records of older versions.
        score_change: the most by which the score of a text that the victim was asked about differs
            from that of the clean text. None where it was asked about no other, where the search
            does not follow its scores, and in records of older versions.
        recipe: of an ensemble, the attack whose text this is; None for a single attack.
        candidates: changed texts that the search was offered, after all constraints: with 0 it had
            nothing to try. None where a certificate names them, and in records of older versions.
    """

    sample_id: int
    label: Any
    prediction: Any
    outcome: Outcome
    text: Text
    adversarial: Text | None
    adversarial_prediction: Any
    score: float | None
    adversarial_score: float | None
    words: int
    words_changed: int
    similarity: float | None
    queries: int
    unique_queries: int
    exhausted: bool
    saturated: bool
    seconds: float
    seed: int
    holds: bool | None = None
    reason: str | None = None
    label_name: str | None = None
    prediction_name: str | None = None
    adversarial_prediction_name: str | None = None
    words_kept: int | None = None
    salience: tuple[float | None, ...] | None = None
    score_change: float | None = None
    recipe: str | None = None
    candidates: int | None = None

    @property
    def attacked(self) -> bool:
        """True if the attack ended, with or without success."""
        return self.outcome in ("failed", "succeeded")

    @property
    def right(self) -> bool:
        """True if the clean text is predicted rightly; numbers have no right and wrong."""
        return self.attacked or self.prediction == self.label

    def line(self) -> dict[str, Any]:
        """Return a JSON object."""
        # Every value is a constant or a tuple of constants: `asdict` would copy each of them.
        return {field.name: getattr(self, field.name) for field in fields(self)}


def from_line(line: dict[str, Any]) -> AttackRecord:
    """Make the record of a JSON line, in which pairs are lists.

    Raises:
        TypeError: fields are missing or unknown.
    """
    # JSON has no tuples: the texts of a pair come back as lists.
    tuples = {name: tuple(value) for name, value in line.items() if isinstance(value, list)}
    return AttackRecord(**{**line, **tuples})


def words_kept(original: Document, final: Document) -> int:
    """Return the number of words of the original in the final text (longest common subsequence)."""
    return LCSseq.similarity(original.words, final.words)


def words_changed(original: Document, final: Document, *, compat: str) -> int:
    """Return the edit distance in words.

    The reference compares word by word: all words behind an inserted space count as changed.
    """
    if Compat(compat).compares_by_position:
        shared = zip(original.words, final.words, strict=False)
        return sum(a != b for a, b in shared) + abs(len(original) - len(final))
    return Levenshtein.distance(original.words, final.words)
