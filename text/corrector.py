"""Corrects the spelling of single words, and lists all words that one typo can lead to.

A corrector turns "any typo" into a finite list: whatever an attacker types, the model reads the
corrected word. `Corrector.reach` computes that list exactly, for whole vocabularies.

Sources: the index is that of SymSpell (Garbe 2012), which deletes characters from the words of the
dictionary beforehand; here a second entry has the deleted character masked, so that no candidate
needs to be compared. Edits are those of Damerau 1964 (one of them: optimal string alignment).
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, cached_property
from itertools import chain, count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import DamerauLevenshtein

from text.typo_kinds import LETTERS, Flags, TypoKind, are_near, list_edits

if TYPE_CHECKING:
    from torch import Tensor

LONGEST = 24
"""Characters of the longest word that is corrected; a target has fewer."""
MASK = "?"
"""Stands for every character outside `LETTERS`: to a target, all of them are equally wrong."""
FOREIGN = "жщюыэф"
"""Preferred characters outside `LETTERS`: lower-case letters, which are no form of a Latin one."""

_TARGET = re.compile(rf"[a-z0-9]{{1,{LONGEST - 1}}}")
_NOT_LETTER = re.compile(r"[^a-z0-9]")
_CODES = np.zeros(256, np.uint64)
_CODES[[ord(char) for char in LETTERS + MASK]] = np.arange(1, len(LETTERS) + 2)
_SYMBOLS = np.arange(1, len(LETTERS) + 2, dtype=np.uint64)
_HALF = LONGEST // 2
# Digits of base 38, no hash: equal numbers are equal strings. Twelve of them fit into 64 bits. One
# column more than characters, for the shift to the right of a word of LONGEST characters.
_POWERS = np.zeros((2, LONGEST + 2), np.uint64)
for _position in range(LONGEST):
    _POWERS[_position // _HALF, _position] = (len(_SYMBOLS) + 1) ** (_HALF - 1 - _position % _HALF)
_NONE = np.iinfo(np.int64).max
_ROWS = 2**24
"""Strings that are compared at a time; bounds the memory."""
_FEW = 30
"""A word alone takes as long as this many targets in a join."""
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9], np.uint64)
"""Odd numbers of SplitMix64: products with them mix bits."""
_BLOCK = 2**10
"""Words whose typos are listed at a time."""

Numbers = NDArray[np.int64]
Packed = NDArray[np.uint64]


class Reach(NamedTuple):
    """The results of typos in words.

    Attributes:
        ids: results, [M, 2]; the second is -1 where the result is one word.
        starts: rows of word i are `ids[starts[i] : starts[i + 1]]`, [W + 1]. Its own result, that
            of no typo, is the first; then single results, then pairs, by rising ids.
    """

    ids: "Tensor"
    starts: "Tensor"


class Corrector:
    """Corrects a word outside a vocabulary to the word within one edit that has the smallest id.

    An edit inserts, deletes or replaces one character, or swaps two neighbours. Targets are tokens
    of 1 to 23 characters a-z and 0-9. Words of more than 24 characters are never corrected.

    Args:
        tokens: all tokens, in the order of their ids: `Vocabulary` has the most frequent one first.
        first: ids below it are specials, which are never a result.
        unknown: the result of words that are no token and have no target.
        avoid: tokens that are no targets.

    Raises:
        ValueError: a token occurs twice, or `first` or `unknown` is no id.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        *,
        first: int,
        unknown: int,
        avoid: Collection[str] = frozenset(),
    ) -> None:
        if not 0 <= first <= len(tokens) or not 0 <= unknown <= len(tokens):
            msg = (
                f"got first={first}, unknown={unknown} for {len(tokens)} tokens, expected "
                "0 <= first <= tokens and 0 <= unknown <= tokens"
            )
            raise ValueError(msg)
        self.tokens, self.first, self.unknown = list(tokens), first, unknown
        self._ids = {token: first + i for i, token in enumerate(self.tokens[first:])}
        if len(self._ids) != len(self.tokens) - first:
            msg = "got a token twice, expected distinct tokens"
            raise ValueError(msg)
        self._targets = {
            t: i for t, i in self._ids.items() if t not in avoid and _TARGET.fullmatch(t)
        }

    def __call__(self, word: str) -> int:
        """Return the id of a word, else of its correction, else `unknown`."""
        own = self._ids.get(word)
        if own is not None:
            return own
        if len(word) > LONGEST:
            return self.unknown
        near, targets = self._near, self._targets
        # A target that has one character more, or, where the word has a "?", another one there.
        best = near.get(word, _NONE)
        for i, char in enumerate(word):
            head, tail = word[:i], word[i + 1 :]
            if (rest := head + tail) not in near:
                continue  # Every target below is `rest`, or becomes it by a deletion.
            swapped = f"{head}{tail[:1]}{char}{tail[1:]}"
            best = min(
                best,
                targets.get(rest, _NONE),
                targets.get(swapped, _NONE),
                near.get(f"{head}{MASK}{tail}", _NONE),
            )
        return self.unknown if best == _NONE else best

    def reach(
        self, words: Sequence[str], *, splits: bool = False, kind: TypoKind | None = None
    ) -> Reach:
        """Return the distinct results of all typos of each word.

        A typo is none, or one edit that leaves a character. What it inserts or puts in place of
        another may be any character: those outside `LETTERS` differ only where a token has them.

        Args:
            words: words without separators, none of them empty.
            splits: a separator may be typed, too, between two characters or in place of one; its
                results are the pairs of the results of head and tail.
            kind: the edits that are made; None for all.

        Raises:
            ValueError: a word is empty.
        """
        import torch

        if "" in words:
            msg = "got an empty word, expected words of at least one character"
            raise ValueError(msg)
        numbers = {word: i for i, word in enumerate(dict.fromkeys(words))}
        distinct = list(numbers)
        own = np.array([self(word) for word in distinct], np.int64)
        if _FEW * len(distinct) < len(self._targets):
            owners, results = self._list_few(distinct, kind)
        else:
            owners, results = self._list_many(distinct, own, kind)
        base = len(self.tokens) + 2
        # One number for a word and its result (first, second), where second + 1 is 0 if absent.
        keys = [(np.append(np.arange(len(own)), owners) * base + np.append(own, results)) * base]
        if splits:
            keys.append(self._pairs(distinct, base))
        rows = _drop_equal(np.concatenate(keys))
        owners, first, second = rows // base**2, rows // base % base, rows % base - 1
        typed = (first != own[owners]) | (second >= 0)
        # `lexsort` sorts by its last key first.
        order = np.lexsort((first, second >= 0, typed, owners))
        ids = np.stack([first, second], 1)[order]
        # A word may come more than once.
        positions = np.array([numbers[word] for word in words], np.int64)
        begin = np.searchsorted(owners, np.arange(len(distinct) + 1))
        lengths = np.diff(begin)[positions]
        starts = np.append(0, np.cumsum(lengths))
        # The rows of each word: `arange` counts through all, the offset moves it to their begin.
        picks = np.repeat(begin[positions] - starts[:-1], lengths) + np.arange(starts[-1])
        return Reach(torch.from_numpy(ids[picks]), torch.from_numpy(starts))

    def witness(
        self,
        word: str,
        result: Sequence[int],
        *,
        splits: bool = False,
        kind: TypoKind | None = None,
    ) -> str | None:
        """Return a string within one edit of a word whose result this is; None if there is none.

        Args:
            word: a word as for `reach`.
            result: one id, or the two of a pair; -1 is skipped, so that it may be a row of `reach`.
            splits: as for `reach`; without it no pair has a witness.
            kind: as for `reach`.

        Returns:
            A word, or two words with a space between them. The word itself comes first, then a
            token, then letters and digits; last are other characters, "ж" where it fits.
        """
        ids = tuple(i for i in result if i >= 0)
        if len(ids) == 1:
            tokens = [self.tokens[i] for i in ids if self.first <= i < len(self.tokens)]
            # A metric, unlike OSA: two edits at most lead from the word over the typo to a token.
            if tokens and DamerauLevenshtein.distance(word, tokens[0], score_cutoff=2) > 2:
                return None
            near = are_near if kind is None else kind.has
            known = (t for t in tokens if near(word, t))
            typos: Iterator[str] = chain([word], known, self._typos(word, kind))
            if tokens and ids[0] != self.unknown:
                # A string that is corrected to a token is near it: that is seen fast.
                typos = (typo for typo in typos if are_near(typo, tokens[0]))
            return next((typo for typo in typos if self(typo) == ids[0]), None)
        if len(ids) == 2 and splits:
            for head, tail in _cuts(word):
                if self(head) == ids[0] and self(tail) == ids[1]:
                    return f"{head} {tail}"
        return None

    @cached_property
    def _near(self) -> dict[str, int]:
        """The smallest id of a target with one character deleted, or with MASK in its place.

        Targets themselves are keys, too, so that one look-up says whether a target is near. Values
        are read for strings outside the vocabulary only.
        """
        near: dict[str, int] = {}
        for target, number in self._targets.items():
            for i in range(len(target)):
                head, tail = target[:i], target[i + 1 :]
                # Ids rise: the first target that has a key is the smallest.
                near.setdefault(head + tail, number)
                near.setdefault(f"{head}{MASK}{tail}", number)
        for target, number in self._targets.items():
            near.setdefault(target, number)
        return near

    @cached_property
    def _fixed(self) -> dict[str, list[int]]:
        """The ids of tokens that are no target, for each of them and for each of its deletions."""
        fixed: dict[str, list[int]] = {}
        for token, number in self._ids.items():
            if token not in self._targets:
                for key in {token, *_deletions(token)}:
                    fixed.setdefault(key, []).append(number)
        return fixed

    @cached_property
    def _foreign(self) -> frozenset[str]:
        """The characters outside `LETTERS` that tokens have."""
        return frozenset(_NOT_LETTER.findall("".join(self._ids)))

    def _find_fixed(self, word: str, near: Callable[[str, str], bool]) -> list[int]:
        """Return the ids of the tokens within one edit of a word that are no target."""
        get = self._fixed.get
        numbers = {i for key in {word, *_deletions(word)} for i in get(key, ())}
        return sorted(i for i in numbers if near(word, self.tokens[i]))

    def _typos(self, word: str, kind: TypoKind | None = None) -> Iterator[str]:
        """Yield the strings within one edit, with letters and one character that no token has."""
        if kind is not None:
            yield from (typo for typo in self._typos(word) if kind.has(word, typo))
            return
        yield from list_edits(word, LETTERS + self._new(word))

    def alphabet(self, word: str) -> str:
        """Return the characters that typos of a word tell apart: others are like the last one."""
        return LETTERS + "".join(sorted(self._foreign)) + self._new(word)

    def _new(self, word: str) -> str:
        """Return a character outside `LETTERS` that neither a token nor this word has."""
        chars, foreign = chain(FOREIGN, map(chr, count(0xE000))), self._foreign
        return next(char for char in chars if char not in foreign and char not in word)

    def _list_few(self, words: Sequence[str], kind: TypoKind | None) -> tuple[Numbers, Numbers]:
        """Return rows (number of the word, result) by calling the corrector on every typo."""
        near = are_near if kind is None else kind.has
        rows = [
            (i, result)
            for i, word in enumerate(words)
            for result in {*map(self, self._typos(word, kind)), *self._find_fixed(word, near)}
        ]
        owners, results = np.array(rows, np.int64).reshape(-1, 2).T
        return owners, results

    def _list_many(
        self, words: Sequence[str], own: Numbers, kind: TypoKind | None
    ) -> tuple[Numbers, Numbers]:
        """Return the same rows by a join: the typos of all words and targets, sorted.

        The correction of a string is the smallest target among those that it is a typo of. The
        results of the words themselves, `own`, may be absent.
        """
        items = list(dict.fromkeys([*words, *self._targets]))
        blocks = list(_by_length(items))
        # One item more, for strings that are not to count.
        best = np.array([self._targets.get(item, _NONE) for item in items] + [_NONE])
        # Long words become too long to be corrected.
        unknown = np.array([len(item) >= LONGEST for item in items] + [False])
        if kind is not None:
            for index in np.flatnonzero(unknown[: len(words)]).tolist():
                unknown[index] = self.unknown in map(self, self._typos(words[index], kind))
        fixed, dropped = self._list_fixed(words, kind)
        owners, results = [fixed[0]], [fixed[1]]
        base = len(self.tokens)
        join = _Join(best, unknown, own, base)
        for length in range(1, LONGEST + 1):
            probes = self._probe(length, dropped)
            for typos, authors, flags in _list_typos(blocks, length, kind):
                pairs = join.correct(typos, authors, flags, probes)
                owners.append(pairs // base)
                results.append(pairs % base)
        lost = np.flatnonzero(unknown[: len(words)])
        owners.append(lost)
        results.append(np.full(len(lost), self.unknown))
        return np.concatenate(owners), np.concatenate(results)

    def _probe(self, length: int, dropped: Sequence[tuple[str, int]]) -> "_Probes":
        """Return the strings of one length whose typists the join has to find."""
        tokens = [token for token in self._targets if len(token) == length]
        drops = [(pattern, row) for pattern, row in dropped if len(pattern) == length]
        strings = _pack(_codes([*tokens, *(pattern for pattern, _ in drops)], length))
        numbers = np.array([self._targets[token] for token in tokens], np.int64)
        return _Probes(strings, numbers, [row for _, row in drops])

    def _list_fixed(
        self, words: Sequence[str], kind: TypoKind | None
    ) -> tuple[Numbers, list[tuple[str, int]]]:
        """Return what the tokens that are no target change in the results of the join.

        Returns:
            The rows (number of a word, id of such a token within one edit of it), [2, M]; and the
            (pattern, number of a word) where all typos of the word with this pattern are tokens:
            the join would correct the pattern, and no typo is corrected so.
        """
        rows, dropped = [], []
        near = are_near if kind is None else kind.has
        for row, word in enumerate(words):
            for number in self._find_fixed(word, near):
                rows.append((row, number))
                pattern = _NOT_LETTER.sub(MASK, self.tokens[number])
                if len(pattern) > LONGEST or pattern.count(MASK) > 1:
                    continue
                foreign = {*_NOT_LETTER.findall(word), self._new(word)}
                typos = (pattern.replace(MASK, char) for char in foreign)
                if all(t in self._ids for t in typos if near(word, t)):
                    dropped.append((pattern, row))
        return np.array(rows, np.int64).reshape(-1, 2).T, dropped

    def _pairs(self, words: Sequence[str], base: int) -> Numbers:
        """Return the rows of `reach` that have two results."""
        correct = cache(self.__call__)
        rows = [
            (row * base + correct(head)) * base + correct(tail) + 1
            for row, word in enumerate(words)
            for head, tail in _cuts(word)
        ]
        return np.array(rows, np.int64)


class _Probes(NamedTuple):
    """Strings of one length whose typists the join has to find.

    Attributes:
        strings: those of targets, then patterns, as numbers; [1 or 2, T + P].
        numbers: the ids of the targets; [T].
        rows: for each pattern the word that counts for none of its strings; P numbers.
    """

    strings: Packed
    numbers: Numbers
    rows: list[int]


class _Join:
    """Finds the corrections of the strings that several items have as typos.

    Attributes:
        best: id of each item that is a target, else `_NONE`; the last item is to count for none.
        unknown: True for items with a typo that is not corrected; `correct` adds some.
    """

    def __init__(self, best: Numbers, unknown: Flags, own: Numbers, base: int) -> None:
        """Keep `own`, the results of the words, which are the first items; ids are below `base`."""
        self.best, self.unknown = best, unknown
        self._own, self._base = own, base
        self._nobody = len(best) - 1

    def correct(
        self, typos: Packed, authors: Numbers, flags: Flags | None, probes: _Probes
    ) -> Numbers:
        """Return `word * base + result` for the results of words among typos, but for their own.

        Args:
            typos: strings of one length as numbers, [1 or 2, R].
            authors: the item of each, [R].
            flags: True for those of the kind that is asked for, [R]; None for all.
            probes: of the same length.
        """
        count = probes.strings.shape[1]
        strings = np.concatenate([typos, probes.strings], 1)
        # Probes belong to the item that does not count.
        typists = np.append(authors, np.full(count, self._nobody))
        alone = _find_single(strings)
        alone[len(authors) :] = False
        # What no target lists but its author is corrected to it: its own result.
        # Typos of other kinds count for targets alone.
        others = None if flags is None else np.append(~flags, np.zeros(count, np.bool_))
        lost = typists[alone if others is None else alone & ~others]
        self.unknown[lost[self.best[lost] == _NONE]] = True
        met = np.flatnonzero(~alone)
        if not len(met):
            return np.empty(0, np.int64)
        order, starts = _sort(strings[:, met])
        typists = typists[met[order]]
        sizes = np.diff(starts, append=len(order))
        # The smallest target of all that share a string.
        result = np.minimum.reduceat(self.best[typists], starts)
        size = len(met) - count
        at = np.flatnonzero(order >= size)
        group = np.empty(count, np.int64)
        group[order[at] - size] = np.searchsorted(starts, at, side="right") - 1
        # A token is its own result.
        tokens = len(probes.numbers)
        result[group[:tokens]] = probes.numbers
        for i, row in zip(group[tokens:], probes.rows, strict=True):
            rows = typists[starts[i] : starts[i] + sizes[i]]
            rows[rows == row] = self._nobody
        if others is not None:
            typists[others[met[order]]] = self._nobody
        result = np.repeat(result, sizes)
        self.unknown[typists[result == _NONE]] = True
        new = np.flatnonzero((typists < len(self._own)) & (result != _NONE))
        typists, result = typists[new], result[new]
        new = np.flatnonzero(result != self._own[typists])
        return _drop_equal(typists[new] * self._base + result[new])


def _deletions(word: str) -> Iterator[str]:
    """Yield a word without each of its characters."""
    return (word[:i] + word[i + 1 :] for i in range(len(word)))


def _cuts(word: str) -> Iterator[tuple[str, str]]:
    """Yield head and tail for a separator between two characters, or in place of an inner one."""
    for i in range(1, len(word)):
        yield word[:i], word[i:]
        if i + 1 < len(word):
            yield word[:i], word[i + 1 :]


def _by_length(items: Sequence[str]) -> Iterator[tuple[Packed, Numbers]]:
    """Yield the symbols of words of one length, [k, n], and their positions, [k]."""
    lengths = np.array([len(item) for item in items])
    # Typos of longer words are too long to be corrected.
    for length in range(1, LONGEST + 2):
        rows = np.flatnonzero(lengths == length)
        for i in range(0, len(rows), _BLOCK):
            block = rows[i : i + _BLOCK]
            patterns = [_NOT_LETTER.sub(MASK, items[row]) for row in block]
            yield _codes(patterns, length), block


def _codes(patterns: Sequence[str], length: int) -> Packed:
    """Return the symbols of patterns of one length, 1 to 37; [k, length]."""
    return _CODES[np.frombuffer("".join(patterns).encode(), np.uint8)].reshape(-1, length)


def _pack(codes: Packed) -> Packed:
    """Return strings of one length n as numbers; [1, k], or [2, k] if n > 12."""
    return _powers(codes.shape[1])[:, : codes.shape[1]] @ codes.T


def _powers(length: int) -> Packed:
    """Return the weights of characters in strings of a length: of one number, or of two."""
    return _POWERS[: 1 + (length > _HALF)]


def _list_typos(
    blocks: Sequence[tuple[Packed, Numbers]], length: int, kind: TypoKind | None
) -> Iterator[tuple[Packed, Numbers, Flags | None]]:
    """Yield the typos of one length as numbers, [1 or 2, R], and the item of each, [R].

    The third value is True for those of the kind, [R]; None for all. Equal strings come together.
    Memory is bounded: of many strings, some are yielded at a time.
    """
    blocks = [block for block in blocks if abs(block[0].shape[1] - length) <= 1]
    total = sum(codes.shape[0] * (length + 1) * len(_SYMBOLS) for codes, _ in blocks)
    parts = np.uint64(total // _ROWS + 1)
    for part in range(int(parts)):
        strings, items, counted = [], [], []
        for codes, rows in blocks:
            typos = _edit(codes, length - codes.shape[1])
            owners = np.repeat(rows, typos.shape[1] // len(rows))
            flags = None if kind is None else kind.flags(codes, length - codes.shape[1])
            if parts > 1:
                # Any function of the string: its typists must meet.
                mine = (typos[0] + typos[-1]) % parts == part
                typos, owners = typos[:, mine], owners[mine]
                flags = None if flags is None else flags[mine]
            strings.append(typos)
            items.append(owners)
            counted += [] if flags is None else [flags]
        if any(map(len, items)):
            yield (
                np.concatenate(strings, 1),
                np.concatenate(items),
                np.concatenate(counted) if counted else None,
            )


def _edit(codes: Packed, change: int) -> Packed:
    """Return the results of one edit that changes the length by this much, as numbers.

    Without a change of length, the words themselves are among them.

    Args:
        codes: words of one length n, [k, n].
        change: -1, 0 or 1.

    Returns:
        [1 or 2, k * r]: r results of the first word, then those of the second, and so on.
    """
    k, n = codes.shape
    powers = _powers(n + change)
    halves = len(powers)

    def sums(shift: int) -> Packed:
        """Return the sums of the first 0 to n characters, each moved by `shift`; [., k, n + 1]."""
        weights = powers[:, max(shift, 0) : n + shift]
        if shift < 0:
            weights = np.pad(weights, ((0, 0), (1, 0)))
        terms = np.cumsum(codes * weights[:, None], -1)
        return np.pad(terms, ((0, 0), (0, 0), (1, 0)))

    head, moved = sums(0), sums(change)
    if change < 0:
        return (head[..., :-1] + moved[..., -1:] - moved[..., 1:]).reshape(halves, -1)
    rest = head[..., : n + change] + moved[..., -1:] - moved[..., 1 - change :]
    typos = rest[..., None] + powers[:, None, : n + change, None] * _SYMBOLS
    typos = typos.reshape(halves, k, -1)
    if change == 0:
        # Differences may be negative: they wrap around, and the sums are right again.
        steps = (codes[:, 1:] - codes[:, :-1]) * (powers[:, None, : n - 1] - powers[:, None, 1:n])
        typos = np.concatenate([typos, head[..., -1:] + steps], -1)
    return typos.reshape(halves, -1)


def _drop_equal(numbers: Numbers) -> Numbers:
    """Return the distinct numbers, sorted; numpy's `unique` hashes and is four times as slow."""
    numbers = np.sort(numbers)
    distinct: Numbers = numbers[np.append(True, numbers[1:] != numbers[:-1])[: len(numbers)]]
    return distinct


def _find_single(strings: Packed) -> NDArray[np.bool_]:
    """Return where a string is surely different from all others, [R]; a few such are missed.

    Sorting numbers is eight times as fast as finding their order. So each is one number here: its
    position in the lower bits, a hash in the upper ones. Where hashes differ, the strings do.
    """
    size = strings.shape[1]
    low = np.uint64(2 ** max(size - 1, 1).bit_length() - 1)
    keys = strings[0] * _FACTORS[0]
    if len(strings) > 1:
        # The upper bits of the first half depend on all of its bits: they must not cancel out.
        keys = (keys ^ (keys >> np.uint64(32))) * _FACTORS[1] + strings[1] * _FACTORS[0]
    keys ^= keys >> np.uint64(32)
    keys *= _FACTORS[1]
    keys &= ~low
    keys |= np.arange(size, dtype=np.uint64)
    keys.sort()
    positions = (keys & low).astype(np.int64)
    keys &= ~low
    same = keys[1:] == keys[:-1]
    single = np.ones(size, np.bool_)
    single[positions[1:][same]] = False
    single[positions[:-1][same]] = False
    return single


def _sort(strings: Packed) -> tuple[Numbers, Numbers]:
    """Return the order that brings equal strings together, [R], and where each begins, [S]."""
    high = strings[0]
    if len(strings) > 1:
        # Ranks in place of numbers, so that both halves fit into one.
        first, second = (np.unique(half, return_inverse=True)[1] for half in strings)
        high = first * len(second) + second
    order = np.argsort(high)
    ordered = high[order]
    return order, np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
