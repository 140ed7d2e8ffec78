"""Counter-fits word vectors: draws synonyms together, and pushes antonyms apart.

Source: Mrksic et al., "Counter-fitting Word Vectors to Linguistic Constraints" (2016), section 2.
Each of the three terms of the cost is a sum over pairs of words of max(0, s (d - limit)), where d
is the cosine distance: s = -1 for antonyms, 1 for synonyms and for words that were near each other.

As in the released code, all pairs take part in each step, a word moves by the mean over its pairs,
and all vectors have length 1 after it. There, a slip keeps only one word of each pair of near ones
where it was; here both are kept, as the paper has it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attacks.resources.archive import BrokenFile, lines_of
from text import check_range

Floats = NDArray[np.float64]
Pairs = NDArray[np.int64]

BLOCK = 512
"""Words whose distances to all others are in memory at once."""


@dataclass(frozen=True, kw_only=True)
class CounterFitting:
    """The settings of the procedure; the defaults are those of its authors.

    Attributes:
        steps: number of steps.
        antonyms: weight of the antonyms; a word moves by at most about this in a step.
        synonyms: weight of the synonyms.
        space: weight of the distances that should not grow.
        antonym_margin: distance at which antonyms are far enough.
        synonym_margin: distance at which synonyms are near enough.
        radius: words that were at most this far from each other should not move apart.
    """

    steps: int = 20
    antonyms: float = 0.1
    synonyms: float = 0.1
    space: float = 0.1
    antonym_margin: float = 1.0
    synonym_margin: float = 0.0
    radius: float = 0.2

    def __post_init__(self) -> None:
        """Raise ValueError for a setting out of its range."""
        check_range({"steps": self.steps}, least=1)
        weights = {"antonyms": self.antonyms, "synonyms": self.synonyms, "space": self.space}
        check_range(weights, least=0)
        margins = {"antonym_margin": self.antonym_margin, "synonym_margin": self.synonym_margin}
        check_range({**margins, "radius": self.radius}, least=0, most=2)


class Term(NamedTuple):
    """One term of the cost: weight * sum over pairs of max(0, sign * (distance - limit)).

    Attributes:
        pairs: `[p, 2]` positions of words, each pair once.
        limits: `[p]` distances.
        sign: 1 if a greater distance costs, -1 if a smaller one does.
        weight: of the term.
    """

    pairs: Pairs
    limits: Floats
    sign: int
    weight: float


def unit(vectors: Floats) -> Floats:
    """Return `[n, d]` vectors of length 1 (of length 0 where the vector is 0)."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    normalised: Floats = vectors / np.maximum(lengths, np.finfo(np.float64).tiny)
    return normalised


def read_pairs(path: str | Path, index: Mapping[str, int]) -> tuple[Pairs, int]:
    """Read pairs of words, two in a line, separated by spaces.

    Returns:
        `[p, 2]` positions in `index` of the pairs of different known words, the smaller one first,
        each once; and the number of lines with an unknown word.

    Raises:
        BrokenFile: a line that is not two words, or no line at all.
    """
    path = Path(path)
    pairs: dict[tuple[int, int], None] = {}
    unknown = lines = 0
    with lines_of(path) as stream:
        for number, line in enumerate(stream, start=1):
            words = line.split()
            if not words:
                continue
            lines += 1
            if len(words) != 2:
                msg = f"{path}, line {number}: got {line.strip()[:60]!r}, expected two words"
                raise BrokenFile(msg)
            rows = sorted(index.get(word, -1) for word in words)
            if rows[0] < 0:
                unknown += 1
            elif rows[0] < rows[1]:
                pairs[rows[0], rows[1]] = None
    if not lines:
        msg = f"{path}: got an empty file, expected two words in a line"
        raise BrokenFile(msg)
    return np.array(list(pairs), dtype=np.int64).reshape(-1, 2), unknown


def without(pairs: Pairs, excluded: Pairs) -> NDArray[np.bool_]:
    """Return `[p]`, True for pairs that are not among the others."""
    # A pair becomes one number: first * size + second.
    size = 1 + max(pairs.max(initial=0), excluded.max(initial=0))
    apart: NDArray[np.bool_] = ~np.isin(pairs @ [size, 1], excluded @ [size, 1])
    return apart


def near_pairs(vectors: Floats, radius: float) -> tuple[Pairs, Floats]:
    """Return the pairs of words with a cosine distance of `radius` at most, and their distances.

    `vectors` are `[n, d]`, of length 1.
    """
    pairs: list[Pairs] = []
    distances: list[Floats] = []
    for start in range(0, len(vectors), BLOCK):
        apart = 1 - vectors[start : start + BLOCK] @ vectors[start:].T
        first, second = np.nonzero(apart <= radius)
        # Each pair once, and no word with itself.
        later = second > first
        first, second = first[later], second[later]
        pairs.append(np.stack([first, second], axis=1) + start)
        distances.append(apart[first, second])
    return np.concatenate(pairs), np.concatenate(distances)


def cosines(vectors: Floats, pairs: Pairs) -> Floats:
    """Return `[p]` cosines of pairs of vectors of length 1."""
    products: Floats = np.einsum("pd,pd->p", vectors[pairs[:, 0]], vectors[pairs[:, 1]])
    return products


def cost(vectors: Floats, terms: Sequence[Term]) -> tuple[float, Floats, Floats]:
    """Return the cost of vectors `[n, d]` of length 1, its gradient, and each word's pairs.

    The gradient `[n, d]` is that on the sphere, without the part along a vector; `[n]` pairs move
    each word.
    """
    from scipy.sparse import coo_array

    n = len(vectors)
    total, rows, columns, values, along = 0.0, [], [], [], np.zeros(n)
    counts = np.zeros(n)
    for pairs, limits, sign, weight in terms:
        cosine = cosines(vectors, pairs)
        excess = sign * (1 - cosine - limits)
        moved = excess > 0
        total += weight * float(excess[moved].sum())
        # The gradient of 1 - u v in u, for u of length 1, is u (u v) - v.
        first, second = pairs[moved, 0], pairs[moved, 1]
        for row, other in ((first, second), (second, first)):
            rows.append(row)
            columns.append(other)
            values.append(np.full(len(row), -sign * weight))
            along += sign * weight * np.bincount(row, cosine[moved], minlength=n)
            counts += np.bincount(row, minlength=n)
    positions = (np.concatenate(rows), np.concatenate(columns))
    # A sparse product adds up each word's partners: [n, n] @ [n, d].
    gradient = coo_array((np.concatenate(values), positions), shape=(n, n)).tocsr() @ vectors
    return total, gradient + along[:, None] * vectors, counts


def counter_fit(
    vectors: Floats,
    synonyms: Pairs,
    antonyms: Pairs,
    settings: CounterFitting = CounterFitting(),
    *,
    after: Callable[[int, float], None] = lambda step, total: None,
) -> Floats:
    """Return counter-fitted vectors `[n, d]` of length 1.

    Args:
        vectors: `[n, d]`.
        synonyms: `[p, 2]`; a pair of antonyms among them counts as such alone.
        antonyms: `[q, 2]`.
        settings: of the procedure.
        after: told the number of steps done and the cost before the last of them.
    """
    now = unit(vectors.astype(np.float64))
    synonyms = synonyms[without(synonyms, antonyms)]
    near, distances = near_pairs(now, settings.radius)
    allowed = without(near, antonyms)
    near, distances = near[allowed], distances[allowed]
    apart = np.full(len(antonyms), settings.antonym_margin)
    together = np.full(len(synonyms), settings.synonym_margin)
    terms = (
        Term(antonyms, apart, -1, settings.antonyms),
        Term(synonyms, together, 1, settings.synonyms),
        Term(near, distances, 1, settings.space),
    )
    for step in range(1, settings.steps + 1):
        total, gradient, counts = cost(now, terms)
        # The mean over the pairs that move a word, then back to the sphere.
        now = unit(now - gradient / np.maximum(counts, 1)[:, None])
        after(step, total)
    return now
