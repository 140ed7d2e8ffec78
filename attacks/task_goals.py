"""Goals of attacks on models other than classifiers; they also say what the answers mean.

A classifier answers with logits, and an attack succeeds when the largest one is another. The other
tasks have labels, predictions and scores of their own; the engine asks `Reading` for them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from attacks.document import Document
from attacks.goals import Floats, Score, top_margins
from text import Text, check_range
from text.entities import entities

VictimTask = Literal["classification", "choice", "regression", "multi-label", "tagging"]
Label = int | float | tuple[str, ...]
"""A class or choice by its index; a number; the names of several classes, or the tag of each word.
"""
Gold = Label | tuple[tuple[str, ...], tuple[str, ...]]
"""The gold that a goal compares answers with; see `Reading.gold`."""
LOW = -1e4
"""Score of a text that cannot succeed, such as one that lost a word of an entity."""


def task_of(victim: Any) -> VictimTask:
    """Return the task of a victim; one that does not say is a classifier."""
    task: VictimTask = getattr(victim, "task", "classification")
    return task


class Reading:
    """The meaning of the answers of a classifier; the base of the goals of other tasks.

    Attributes:
        task: of the victims that it reads.
        types: of its labels.
    """

    task: ClassVar[VictimTask] = "classification"
    types: ClassVar[tuple[type, ...]] = (int,)

    def gold(self, text: Text, label: Label, prediction: Label | None = None) -> Gold:
        """Return what answers about a sample are compared with.

        Args:
            text: of the sample.
            label: of the sample.
            prediction: for the clean text; None before it is known.
        """
        return label

    def labels(self, golds: Sequence[Any], answers: Floats) -> Any:
        """Return `golds` as the goal expects them.

        Raises:
            ValueError: a class that the victim does not have.
        """
        labels = np.array(golds)
        # A label of -1 would silently index the last class.
        if labels.min() < 0 or labels.max() >= answers.shape[1]:
            msg = (
                f"got labels {sorted(set(labels.tolist()))} for a victim of {answers.shape[1]} "
                "classes, expected the classes of the victim"
            )
            raise ValueError(msg)
        return labels

    def predictions(self, answers: Floats) -> list[Label]:
        """Return the prediction of each answer."""
        classes: list[Label] = answers.argmax(axis=1).tolist()
        return classes

    def margins(self, answers: Floats) -> Floats:
        """Return `[n]`; the largest of a sample is the scale of its scores."""
        return top_margins(answers)

    def right(self, prediction: Label, label: Label) -> bool:
        """Return True if a clean text is to be attacked."""
        return prediction == label

    def frozen(self, document: Document, label: Label) -> frozenset[int]:
        """Return the numbers of the words that must stay."""
        return frozenset()


class ChoiceReading(Reading):
    """The meaning of the answers of a model of multiple choice: choices are its classes."""

    task: ClassVar[VictimTask] = "choice"

    def frozen(self, document: Document, label: Label) -> frozenset[int]:
        """See `Reading`: the words of the choices, the second text of a pair."""
        return frozenset(i for i in range(len(document)) if document.column_of(i) == 1)


READINGS: dict[str, Reading] = {r.task: r for r in (Reading(), ChoiceReading())}
"""Of the victims whose largest logit is their prediction: the goals are those of classes."""


class TaskGoal(Reading):
    """A goal of an attack on a model other than a classifier; see `attacks.goals.Goal`."""

    score: ClassVar[Score] = "margin"

    def judge(self, logits: Any, labels: Any, *, probabilities: Floats | None = None) -> Floats:
        """See `Goal`."""
        raise NotImplementedError  # each goal has its own

    def reached(
        self, logits: Any, labels: Any, *, probabilities: Floats | None = None
    ) -> NDArray[np.bool_]:
        """See `Goal`."""
        raise NotImplementedError  # each goal has its own


@dataclass(frozen=True, kw_only=True)
class Moved(TaskGoal):
    """A number at least `delta` above or below that for the clean text. All texts are attacked.

    Attributes:
        delta: the distance, above 0.
    """

    task: ClassVar[VictimTask] = "regression"
    types: ClassVar[tuple[type, ...]] = (int, float)
    delta: float

    def __post_init__(self) -> None:
        """Raise ValueError for a distance that is not above 0."""
        check_range({"delta": self.delta}, above=0)

    def gold(self, text: Text, label: Label, prediction: Label | None = None) -> Gold:
        """See `Reading`: the number for the clean text, once it is known."""
        return label if prediction is None else prediction

    def labels(self, golds: Sequence[Any], answers: Floats) -> Floats:
        """See `Reading`."""
        return np.array(golds, dtype=np.float64)

    def judge(self, logits: Any, labels: Any, *, probabilities: Floats | None = None) -> Floats:
        """See `Goal`."""
        distance: Floats = np.abs(logits[:, 0] - labels)
        return distance

    def reached(
        self, logits: Any, labels: Any, *, probabilities: Floats | None = None
    ) -> NDArray[np.bool_]:
        """See `Goal`."""
        far: NDArray[np.bool_] = self.judge(logits, labels) >= self.delta
        return far

    def predictions(self, answers: Floats) -> list[Label]:
        """See `Reading`."""
        numbers: list[Label] = answers[:, 0].tolist()
        return numbers

    def margins(self, answers: Floats) -> Floats:
        """See `Reading`: numbers round in proportion to their size."""
        sizes: Floats = np.abs(answers[:, 0])
        return sizes

    def right(self, prediction: Label, label: Label) -> bool:
        """See `Reading`."""
        return True


@dataclass(frozen=True, kw_only=True)
class LabelsChanged(TaskGoal):
    """Another set of classes with a probability above 0.5, the sigmoid of a logit above 0.

    The score is the largest logit on the wrong side of 0.

    Attributes:
        names: of the classes.
    """

    task: ClassVar[VictimTask] = "multi-label"
    types: ClassVar[tuple[type, ...]] = (tuple,)
    names: tuple[str, ...]

    def labels(self, golds: Sequence[Any], answers: Floats) -> NDArray[np.bool_]:
        """See `Reading`: `[n, C]`."""
        if unknown := sorted({name for gold in golds for name in gold} - set(self.names)):
            msg = f"got labels {unknown[:5]}, expected the classes of the victim: {self.names}"
            raise ValueError(msg)
        return np.array([[name in gold for name in self.names] for gold in golds], dtype=bool)

    def judge(self, logits: Any, labels: Any, *, probabilities: Floats | None = None) -> Floats:
        """See `Goal`."""
        wrong: Floats = np.where(labels, -logits, logits).max(axis=1)
        return wrong

    def reached(
        self, logits: Any, labels: Any, *, probabilities: Floats | None = None
    ) -> NDArray[np.bool_]:
        """See `Goal`."""
        changed: NDArray[np.bool_] = ((logits > 0) != labels).any(axis=1)
        return changed

    def predictions(self, answers: Floats) -> list[Label]:
        """See `Reading`."""
        return [
            tuple(name for name, logit in zip(self.names, row, strict=True) if logit > 0)
            for row in answers.tolist()
        ]

    def margins(self, answers: Floats) -> Floats:
        """See `Reading`."""
        sizes: Floats = np.abs(answers).max(axis=1)
        return sizes

    def right(self, prediction: Label, label: Label) -> bool:
        """See `Reading`: the classes may be in another order."""
        assert isinstance(prediction, tuple)  # of this task
        assert isinstance(label, tuple)  # of this task
        return set(prediction) == set(label)


class TaggedWords(NamedTuple):
    """The answer of a tagger to a text.

    Attributes:
        words: the words of the text.
        seen: numbers of the words that the tagger has seen; it truncates long texts.
        logits: `[len(seen), T]`.
    """

    words: tuple[str, ...]
    seen: tuple[int, ...]
    logits: Floats


@dataclass(frozen=True, kw_only=True)
class EntitiesChanged(TaskGoal):
    """Another set of entities than the gold one: one is lost, or one is invented.

    An entity is lost if its type, its first or its last word is not predicted exactly. The words of
    gold entities must stay. Words that are inserted are in no entity.

    Source: SeqAttack (Simoncini and Spanakis, 2021) has the constraint, and counts mispredicted
    words of entities as its score. An entity that is invented counts here as well, and the score is
    the largest margin of a wrong tag, which every change moves.

    Attributes:
        tags: names of the tags: `O`, `B-TYPE`, `I-TYPE`.
    """

    task: ClassVar[VictimTask] = "tagging"
    types: ClassVar[tuple[type, ...]] = (tuple,)
    tags: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raise ValueError for tags that mark no entities."""
        strange = [tag for tag in self.tags if tag != "O" and tag[:2] not in ("B-", "I-")]
        if strange or len(self.tags) < 2 or "O" not in self.tags:
            msg = (
                f"got a tagger with the tags {', '.join(self.tags):.200}, expected entities: O, "
                "B-TYPE and I-TYPE"
            )
            raise ValueError(msg)

    def gold(self, text: Text, label: Label, prediction: Label | None = None) -> Gold:
        """See `Reading`: words and tags."""
        words = split_words(text)
        tags = label if isinstance(label, tuple) else ()
        if len(words) != len(tags):
            msg = (
                f"got {len(tags)} tags for {len(words)} words, {text!r:.80}, expected one for each"
            )
            raise ValueError(msg)
        return words, tags

    def labels(self, golds: Sequence[Any], answers: Floats) -> list[Any]:
        """See `Reading`."""
        if unknown := sorted({tag for _, tags in golds for tag in tags} - set(self.tags)):
            msg = f"got tags {unknown[:5]}, expected those of the victim: {', '.join(self.tags)}"
            raise ValueError(msg)
        return list(golds)

    def judge(self, logits: Any, labels: Any, *, probabilities: Floats | None = None) -> Floats:
        """See `Goal`."""
        return np.array(
            [self._wrongness(answer, *gold) for answer, gold in zip(logits, labels, strict=True)]
        )

    def reached(
        self, logits: Any, labels: Any, *, probabilities: Floats | None = None
    ) -> NDArray[np.bool_]:
        """See `Goal`."""
        pairs = zip(logits, labels, self.predictions(logits), strict=True)
        changed = []
        for answer, gold, predicted in pairs:
            words, gold_tags = gold
            tags = align_tags(words, gold_tags, answer.words)
            assert isinstance(predicted, tuple)  # see `predictions`
            changed.append(tags is not None and entities(predicted) != entities(tags))
        return np.array(changed, dtype=bool)

    def predictions(self, answers: Any) -> list[Label]:
        """See `Reading`: words that the tagger has not seen are in no entity."""
        predictions: list[Label] = []
        for answer in answers:
            tags = ["O"] * len(answer.words)
            for word, tag in zip(answer.seen, answer.logits.argmax(axis=1).tolist(), strict=True):
                tags[word] = self.tags[tag]
            predictions.append(tuple(tags))
        return predictions

    def margins(self, answers: Any) -> Floats:
        """See `Reading`."""
        return np.array(
            [top_margins(answer.logits).max() if answer.seen else 0.0 for answer in answers]
        )

    def right(self, prediction: Label, label: Label) -> bool:
        """See `Reading`: the entities are the gold ones; I-X may begin one as B-X does."""
        assert isinstance(prediction, tuple)  # of this task
        assert isinstance(label, tuple)  # of this task
        return entities(prediction) == entities(label)

    def frozen(self, document: Document, label: Label) -> frozenset[int]:
        """See `Reading`: the words of gold entities."""
        text = document.columns[0]
        tags = label if isinstance(label, tuple) else ()
        spans = [match.span() for match in _WORD.finditer(text)]
        kept = [span for span, tag in zip(spans, tags, strict=True) if tag != "O"]
        return frozenset(
            number
            for number, (_, begin, end) in enumerate(document.spans)
            if any(begin < stop and start < end for start, stop in kept)
        )

    def _wrongness(
        self, answer: TaggedWords, words: tuple[str, ...], tags: tuple[str, ...]
    ) -> float:
        """Return the largest margin of a tag that changes an entity over the ones that do not."""
        aligned = align_tags(words, tags, answer.words)
        if aligned is None or not answer.seen:
            return LOW
        right = np.array(self._equivalent(aligned))[list(answer.seen)]
        kept = np.where(right, answer.logits, -np.inf).max(axis=1)
        rival = np.where(right, -np.inf, answer.logits).max(axis=1)
        return float((rival - kept).max())

    def _equivalent(self, tags: Sequence[str]) -> list[list[bool]]:
        """Return `[words, T]`: True for each tag that leaves the entities as they are."""
        rows = []
        for before, tag in pairwise(["O", *tags]):
            kind = tag[2:]
            # B-X and I-X both begin an entity, unless one of its type ends just before.
            begins = tag != "O" and before[2:] != kind
            same = {f"B-{kind}", f"I-{kind}"} if begins else {tag}
            rows.append([name in same for name in self.tags])
        return rows


_WORD = re.compile(r"\S+")


def split_words(text: Text) -> tuple[str, ...]:
    """Return the words of a tagger: text between spaces, punctuation included."""
    return tuple(_WORD.findall(text if isinstance(text, str) else " ".join(text)))


def align_tags(
    words: Sequence[str], tags: Sequence[str], changed: Sequence[str]
) -> tuple[str, ...] | None:
    """Return the gold tags of a changed text; None if a word of an entity is not there any more.

    Args:
        words: of the clean text.
        tags: of the clean text.
        changed: words of the changed text; those without a counterpart are in no entity.
    """
    if len(words) == len(changed):
        if any(w != c for w, c, tag in zip(words, changed, tags, strict=True) if tag != "O"):
            return None
        return tuple(tags)
    aligned, kept = ["O"] * len(changed), 0
    for code in Levenshtein.opcodes(words, changed):
        if code.tag == "equal":
            aligned[code.dest_start : code.dest_end] = tags[code.src_start : code.src_end]
            kept += sum(tag != "O" for tag in tags[code.src_start : code.src_end])
    if kept < sum(tag != "O" for tag in tags):
        return None
    # Words that were inserted into an entity have torn it.
    return tuple(aligned) if len(entities(aligned)) == len(entities(tags)) else None
