"""Universal triggers: a few words that change the predictions of most texts they are put before.

Source: Wallace et al., "Universal Adversarial Triggers for Attacking and Analyzing NLP", 2019. The
paper takes the candidates for each place by the gradient (HotFlip) with a beam; here all words of a
list are tried, place by place, so that any victim will do. A trigger belongs to all texts together:
it attacks a set of samples, and so no recipe of the engine.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attacks.document import words_of
from attacks.goals import Floats, make_goal
from attacks.outcome import Sample
from attacks.samples import SampleLike, as_samples
from attacks.victims.kinds import Victim, as_victim
from text import Text, check_range
from text.estimates import IntervalEstimate, wilson

_TOGETHER = 1 << 12
"""Texts of one query."""
_Value = tuple[int, float]
"""Number of texts that reach the goal with a trigger, and their mean score."""
_Values = Callable[[Sequence[list[str]]], list[_Value]]


@dataclass(frozen=True, kw_only=True)
class Trigger:
    """Words before a text, and their effect.

    Attributes:
        words: the trigger.
        clean: accuracy on held-out texts without it.
        attacked: accuracy on held-out texts with it.
        searched: accuracy with it on the texts that it was searched on.
        queries: texts that the victim was asked about.
    """

    words: tuple[str, ...]
    clean: IntervalEstimate
    attacked: IntervalEstimate
    searched: IntervalEstimate
    queries: int

    def __str__(self) -> str:
        return (
            f"{' '.join(self.words)}: accuracy {self.clean.value:.3f} -> "
            f"{self.attacked} on {self.attacked.count} held-out texts "
            f"({self.searched.value:.3f} on those of the search), {self.queries} queries"
        )


def universal_trigger(
    model: Any,
    samples: Iterable[SampleLike],
    *,
    tokenizer: Any = None,
    length: int = 3,
    candidates: Sequence[str] | None = None,
    target: int | None = None,
    batch_size: int = 256,
) -> Trigger:
    """Find words that, put before texts, change as many predictions as possible.

    Greedy: one place after the other gets the word with which the fewest predictions stay, and
    among equal ones the largest mean score; then each place is tried again, until none changes.
    Every second sample of each class is held out, and only they give the accuracy that counts.

    Args:
        model: see `attacks.attack`.
        samples: texts (or pairs, before whose last text the trigger is put) with their classes.
        tokenizer: of a `transformers` model.
        length: words of the trigger.
        candidates: words to choose from; the 200 most frequent ones of the texts if None.
        target: class to reach; any but the gold one if None. Texts that have it already, by their
            class or by the victim's prediction, are left out, as in the authors' code.
        batch_size: most texts per forward pass.

    Raises:
        ValueError: fewer than two samples that count, no candidates, or a length below 1.
    """
    check_range({"length": length}, least=1)
    numbered, _ = as_samples(samples)
    words = _frequent([sample.text for sample in numbered]) if candidates is None else [*candidates]
    if not words:
        msg = "got no candidates for a trigger, expected at least one word"
        raise ValueError(msg)
    oracle = _Asked(as_victim(model, tokenizer=tokenizer, batch_size=batch_size), target)
    if target is not None:
        numbered = oracle.without_target(numbered, target)
    if len(numbered) < 2:
        other = "" if target is None else f" that does not have class {target} already"
        msg = f"got {len(numbered)} sample{other}, expected at least two: one half is held out"
        raise ValueError(msg)
    # Half of the samples of each class choose the words, the other half measures them: in a file
    # whose classes alternate, every second sample is of one class.
    by_class = sorted(numbered, key=lambda sample: sample.label)
    searched, held = by_class[::2], by_class[1::2]
    texts = [sample.text for sample in searched]
    labels = np.array([sample.label for sample in searched])
    trigger = _search(length, words, partial(oracle.values, texts, labels))
    held_texts, gold = [sample.text for sample in held], np.array([sample.label for sample in held])
    return Trigger(
        words=tuple(trigger),
        clean=wilson(oracle.kept(held_texts, gold, []), len(held)),
        attacked=wilson(oracle.kept(held_texts, gold, trigger), len(held)),
        searched=wilson(oracle.kept(texts, labels, trigger), len(searched)),
        queries=oracle.queries,
    )


def _search(length: int, words: Sequence[str], values: _Values) -> list[str]:
    """Return the trigger of the largest value that a greedy search finds."""
    trigger: list[str] = []
    for _ in range(length):
        trigger, _ = _best([[*trigger, word] for word in words], values)
    (value,) = values([trigger])
    changed = True
    while changed:
        changed = False
        for position in range(length):
            # Coordinate ascent: one position at a time.
            before, after = trigger[:position], trigger[position + 1 :]
            tried, other = _best([[*before, word, *after] for word in words], values)
            # Strictly larger: words of equal value would replace one another for ever.
            if other > value:
                trigger, value, changed = tried, other, True
    return trigger


def _best(triggers: Sequence[list[str]], values: _Values) -> tuple[list[str], _Value]:
    """Return the first of the triggers of largest value, and that value."""
    rated = values(triggers)
    row = max(range(len(triggers)), key=lambda i: rated[i])
    return triggers[row], rated[row]


class _Asked:
    """Asks a victim about texts with a trigger; about each trigger once."""

    def __init__(self, victim: Victim, target: int | None) -> None:
        self.victim, self.goal = victim, make_goal(target)
        self.queries = 0
        self._known: dict[tuple[str, ...], tuple[int, float]] = {}

    def logits(self, texts: Sequence[Text], trigger: Sequence[str]) -> Floats:
        """Return `[n, C]` logits of texts with a trigger."""
        self.queries += len(texts)
        return self.victim.logits([_put(trigger, text) for text in texts])

    def values(
        self, texts: Sequence[Text], labels: NDArray[np.int64], triggers: Sequence[list[str]]
    ) -> list[_Value]:
        """Return the value of each trigger; the texts of many triggers are one query."""
        keys = [tuple(trigger) for trigger in triggers]
        new = [key for key in dict.fromkeys(keys) if key not in self._known]
        size = max(1, _TOGETHER // len(texts))
        for start in range(0, len(new), size):
            part = new[start : start + size]
            rows = self.victim.logits([_put(key, text) for key in part for text in texts])
            self.queries += len(rows)
            for key, logits in zip(part, np.split(rows, len(part)), strict=True):
                reached = int(self.goal.reached(logits, labels).sum())
                self._known[key] = reached, float(self.goal.judge(logits, labels).mean())
        return [self._known[key] for key in keys]

    def without_target(self, samples: Sequence[Sample], target: int) -> list[Sample]:
        """Return the samples that have the target neither as their class nor as prediction."""
        other_samples = [sample for sample in samples if sample.label != target]
        if not other_samples:
            return []
        predictions = self.logits([sample.text for sample in other_samples], ()).argmax(axis=1)
        pairs = zip(other_samples, predictions, strict=True)
        return [sample for sample, predicted in pairs if predicted != target]

    def kept(self, texts: Sequence[Text], labels: NDArray[np.int64], trigger: Sequence[str]) -> int:
        """Return the number of texts that are classified rightly."""
        return int((self.logits(texts, trigger).argmax(axis=1) == labels).sum())


def _put(trigger: Sequence[str], text: Text) -> Text:
    """Put a trigger before a text, or before the last text of a pair."""
    if not trigger:
        return text
    if isinstance(text, str):
        return f"{' '.join(trigger)} {text}"
    # As in the authors' attacks on entailment: the hypothesis gets the trigger.
    return text[0], f"{' '.join(trigger)} {text[1]}"


def _frequent(texts: Sequence[Text], count: int = 200) -> list[str]:
    """Return the most frequent words, in lower case; of equally frequent ones in their order."""
    parts = (part for text in texts for part in ((text,) if isinstance(text, str) else text))
    counts = Counter(word.lower() for part in parts for word in words_of(part))
    return sorted(counts, key=lambda word: (-counts[word], word))[:count]
