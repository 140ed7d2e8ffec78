"""Tags parts of speech by averaged perceptron; fast for many words in the same place.

Source: Honnibal, "A Good Part-of-Speech Tagger in about 200 Lines of Python" (2013), with the
weights that nltk distributes as `averaged_perceptron_tagger_eng`; Petrov, Das, McDonald, "A
Universal Part-of-Speech Tagset" (2012).

The tagger goes from left to right. A word's tag depends on the two tags before it and on the words
up to two places away. So a tried word affects its own tag and those of the two words before it.
Scores that do not depend on it are added once; then all words are tried at once, by adding rows of
a table. The answers are those of nltk's tagger, ties and rounding included: where two tags are
nearly equal, the scores are added again in its order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attacks.digests import content_digest
from attacks.resources.archive import BrokenFile, member
from attacks.resources.tags import END, START, UNIVERSAL, WordContext, features, normalise
from text.bounded_files import DataError, parse_json, reading
from text.json_shapes import check_shape

Weights = dict[str, dict[str, float]]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NAME = "averaged_perceptron_tagger_eng"
NEAR = 1e-6
"""Scores nearer than this are added again in the order of the original."""

# Which features depend on the word itself, on the word behind it, on the one behind that.
OWN, NEXT, SECOND = frozenset((1, 2, 6, 7)), frozenset((11, 12)), frozenset((13,))


class _Table:
    """Keeps a row of `width` scores per word, made when the word first comes."""

    def __init__(self, make: Callable[[str], Floats | None], width: int) -> None:
        self.make = make
        self.ids: dict[str, int] = {}
        # Row 0 is for unknown words.
        self.rows = np.zeros((256, width))
        self.filled = 1

    def take(self, words: Sequence[str]) -> Floats:
        """Return `[n, width]` scores of n words."""
        ids = self.ids
        try:
            rows = [ids[word] for word in words]
        except KeyError:
            rows = [ids[word] if word in ids else self._enter(word) for word in words]
        return self.rows[rows]

    def _enter(self, word: str) -> int:
        row = self.make(word)
        number = 0
        if row is not None:
            number = self.filled
            # Doubled when full.
            if number == len(self.rows):
                self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
            self.rows[number] = row
            self.filled += 1
        self.ids[word] = number
        return number


class Tagger:
    """Tags words with universal tags.

    Args:
        weights: weights of each feature, by tag.
        tag_of: tags of words that have the same everywhere.
        tags: all tags.

    Attributes:
        universal: the universal tags that there are.
    """

    def __init__(self, weights: Weights, tag_of: Mapping[str, str], tags: Iterable[str]) -> None:
        self._weights = weights
        # In this order the last of equal scores is the one that nltk takes.
        self._tags = sorted({*tags, *tag_of.values()})
        numbers = {tag: i for i, tag in enumerate(self._tags)}
        self._numbers = numbers | {tag: len(self._tags) + i for i, tag in enumerate(START)}
        self._names = [*self._tags, *START]
        coarse = [UNIVERSAL.get(tag, "X") for tag in self._tags]
        self.universal = sorted(set(coarse))
        self._coarse = np.array([self.universal.index(tag) for tag in coarse], dtype=np.int64)
        self._fixed = {word: numbers[tag] for word, tag in tag_of.items()}
        self._dense: dict[str, Floats] = {}
        self._sum = lru_cache(maxsize=1 << 13)(self._make_sum)
        self._one = lru_cache(maxsize=1 << 15)(self._make_one)
        self._beginning = lru_cache(maxsize=1 << 13)(self._left_to_right)
        width = len(self._tags)
        self._own = _Table(
            lambda word: self._row(
                f"i suffix {word[-3:]}", f"i pref1 {word[:1]}", f"i word {normalise(word)}"
            ),
            width,
        )
        self._next = _Table(
            lambda word: self._row(
                f"i+1 word {normalise(word)}", f"i+1 suffix {normalise(word)[-3:]}"
            ),
            width,
        )
        self._second = _Table(lambda word: self._row(f"i+2 word {normalise(word)}"), width)
        self._after_tag = [_Table(partial(self._behind, tag), width) for tag in self._names]

    @classmethod
    def read(cls, path: str | Path) -> "Tagger":
        """Read nltk's folder or zip archive `averaged_perceptron_tagger_eng`.

        Raises:
            BrokenFile: it is not in there.
        """
        path = Path(path)
        try:
            weights, tag_of, tags = (
                parse_json(member(path, f"{NAME}.{part}.json"), path, "a tagger")
                for part in ("weights", "tagdict", "classes")
            )
            check_shape(tag_of, dict[str, str], path)
            check_shape(tags, list[str], path)
            with reading(path, "a tagger"):
                weighed = {tag for row in weights.values() for tag in row}
                kinds = {type(weight) for row in weights.values() for weight in row.values()}
                if not weighed <= {*tags, *tag_of.values()} or not kinds <= {int, float}:
                    msg = "weights of other tags than it has, or that are no numbers"
                    raise ValueError(msg)
                return cls(weights, tag_of, tags)
        except DataError as error:
            msg = f"{path}: got no tagger in it ({error}); delete it and get it again"
            raise BrokenFile(msg) from error

    def about(self) -> dict[str, str]:
        """See `attacks.fingerprint`."""
        return {"digest": content_digest([self._weights, self._fixed, self._tags])}

    def tag(self, words: Sequence[str]) -> list[str]:
        """Return the universal tag of each word of a text."""
        tags = self._beginning(tuple(words), len(words))[2:]
        return [self.universal[self._coarse[tag]] for tag in tags]

    def attempt(self, before: Sequence[str], words: Sequence[str], after: Sequence[str]) -> Ints:
        """Try n words at the same position of a text.

        Args:
            before: the words before that position.
            words: n >= 1 words.
            after: the words behind it; two of them matter.

        Returns:
            `[n]` their universal tags there, as positions in `universal`.
        """
        count = len(before)
        context = [*START, *map(normalise, before)]
        following = (*map(normalise, after[:2]), *END)
        # Tags further left than two places do not depend on the words.
        # Cached: candidates of one word share all words before it.
        settled = self._beginning(tuple(before), max(0, count - 2))
        tags = np.empty((2, len(words)), dtype=np.int64)
        tags[0], tags[1] = settled[-2], settled[-1]
        if count > 1:
            surroundings = WordContext((context[-4], context[-3]), before[-2], (context[-1], ""))
            tags = self._settle(tags, surroundings, SECOND, words)
        if count > 0:
            surroundings = WordContext((context[-3], context[-2]), before[-1], ("", following[0]))
            tags = self._settle(tags, surroundings, NEXT, words)
        surroundings = WordContext((context[-2], context[-1]), "", (following[0], following[1]))
        coarse: Ints = self._coarse[self._settle(tags, surroundings, OWN, words)[1]]
        return coarse

    def _settle(
        self, tags: Ints, surroundings: WordContext, depending: frozenset[int], words: Sequence[str]
    ) -> Ints:
        """Tag a position for each of n words that are tried there, or one or two positions behind.

        Args:
            tags: `[2, n]` of the two words before it.
            surroundings: the words around, the same for all.
            depending: features that depend on the words.
            words: n words.

        Returns:
            `[2, n]` tags of the word before it and of the position itself.
        """
        if depending is not OWN and surroundings.word in self._fixed:
            return np.stack([tags[1], np.full(len(words), self._fixed[surroundings.word])])
        table = {OWN: self._own, NEXT: self._next, SECOND: self._second}[depending]
        scores = table.take(words)
        codes = tags[0] * len(self._names) + tags[1]
        for code in set(codes.tolist()):
            far, near = divmod(code, len(self._names))
            added = self._sum((self._names[far], self._names[near]), surroundings, depending)
            # Words with the same two tags before them share the fixed part of the scores.
            same = codes == code
            if depending is OWN:
                scores[same] += self._after_tag[near].take(words)[same]
            scores[same] += added
        # The last of the largest: nltk decides ties for the tag that is last in the alphabet.
        new: Ints = len(self._tags) - 1 - scores[:, ::-1].argmax(axis=1)
        rows = np.arange(len(words))
        top = scores[rows, new]
        scores[rows, new] = -np.inf
        for i in np.flatnonzero(top - scores.max(axis=1) < NEAR).tolist():
            pair = self._names[tags[0, i]], self._names[tags[1, i]]
            new[i] = self._exact(features(pair, _fill(surroundings, depending, words[i])))
        if depending is OWN:
            for i, word in enumerate(words):
                if word in self._fixed:
                    new[i] = self._fixed[word]
        return np.stack([tags[1], new])

    def _left_to_right(self, words: tuple[str, ...], count: int) -> tuple[int, ...]:
        """Return the two tags before the first word, and those of the first `count` words."""
        context = [*START, *map(normalise, words), *END]
        # The original begins with the nearer one first.
        tags = [self._numbers[START[1]], self._numbers[START[0]]]
        for i, word in enumerate(words[:count]):
            around = WordContext(
                (context[i], context[i + 1]), word, (context[i + 3], context[i + 4])
            )
            pair = self._names[tags[-2]], self._names[tags[-1]]
            tags.append(self._fixed[word] if word in self._fixed else self._one(pair, around))
        return tuple(tags)

    def _make_one(self, tags: tuple[str, str], surroundings: WordContext) -> int:
        """Return the tag of a word, given the two tags before it."""
        names = features(tags, surroundings)
        scores = self._row(*names)
        if scores is not None:
            best = len(scores) - 1 - int(scores[::-1].argmax())
            if np.count_nonzero(scores > scores[best] - NEAR) == 1:
                return best
        return self._exact(names)

    def _exact(self, names: Sequence[str]) -> int:
        """Return the tag of features, computed in the order of the original."""
        scores = dict.fromkeys(self._tags, 0.0)
        for feature in names:
            for tag, weight in self._weights.get(feature, {}).items():
                scores[tag] += weight
        return self._numbers[max(self._tags, key=lambda tag: (scores[tag], tag))]

    def _make_sum(
        self, tags: tuple[str, str], surroundings: WordContext, depending: frozenset[int]
    ) -> Floats:
        """Add the scores of all features of a place that do not depend on the words."""
        settled = (
            feature for i, feature in enumerate(features(tags, surroundings)) if i not in depending
        )
        total = self._row(*settled)
        return np.zeros(len(self._tags)) if total is None else total

    def _behind(self, tag: str, word: str) -> Floats | None:
        """Return the scores of a word behind a tag."""
        return self._row(f"i-1 tag+i word {tag} {normalise(word)}")

    def _row(self, *names: str) -> Floats | None:
        """Add the scores of features; None if all are unknown."""
        total: Floats | None = None
        for feature in names:
            weights = self._weights.get(feature)
            if weights is None:
                continue
            dense = self._dense.get(feature)
            if dense is None:
                dense = self._dense[feature] = np.zeros(len(self._tags))
                for tag, weight in weights.items():
                    dense[self._numbers[tag]] = weight
            total = dense if total is None else total + dense
        return total


def _fill(surroundings: WordContext, depending: frozenset[int], word: str) -> WordContext:
    """Put the tried word into a place."""
    if depending is OWN:
        return surroundings._replace(word=word)
    if depending is NEXT:
        return surroundings._replace(after=(normalise(word), surroundings.after[1]))
    return surroundings._replace(after=(surroundings.after[0], normalise(word)))
