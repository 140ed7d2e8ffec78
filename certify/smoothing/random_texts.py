"""Random texts around a text, and how far their distribution may move when words are changed.

A smoothed classifier answers with the class that a classifier gives to most of these random texts.
Proofs: docs/certificates/baselines.md, section 2.
"""

import math
from collections.abc import Sequence
from random import Random
from typing import Literal, Protocol

from certify.threats import Synonyms, Threat, ThreatName

Noise = Literal["mask", "delete", "substitute"]
NOISES: tuple[Noise, ...] = ("mask", "delete", "substitute")


class RandomTexts(Protocol):
    """A distribution of texts around each text; `overlap` is for the named threats."""

    threats: Sequence[ThreatName]

    def draw(self, words: Sequence[str], random: Random) -> list[str]:
        """Return the words of one random text."""
        ...

    def overlap(self, words: Sequence[str], k: int | None) -> float:
        """Return 1 minus how much a share of random texts can fall by k changes; at least 0."""
        ...


class MaskedWords:
    """Keeps a fixed number of words, drawn without replacement, and masks the others (RanMASK).

    A text keeps `max(1, round((1 - rate) n))` of its n words. A changed word that is masked is not
    seen, and no changed word is seen with the probability C(n - k, m) / C(n, m) for m kept words.
    """

    threats: Sequence[ThreatName] = ("synonyms",)

    def __init__(self, rate: float, mask: str) -> None:
        """Args: rate: share of masked words. mask: the word that replaces them."""
        self.rate, self.mask = rate, mask

    def kept(self, length: int) -> int:
        """Return the number of words of a text that are kept."""
        return min(length, max(1, round((1 - self.rate) * length)))

    def draw(self, words: Sequence[str], random: Random) -> list[str]:
        """See `RandomTexts`."""
        visible = set(random.sample(range(len(words)), self.kept(len(words))))
        return [word if position in visible else self.mask for position, word in enumerate(words)]

    def overlap(self, words: Sequence[str], k: int | None) -> float:
        """See `RandomTexts`."""
        length = len(words)
        changed = length if k is None else min(k, length)
        visible = self.kept(length)
        return math.comb(length - changed, visible) / math.comb(length, visible)


class DeletedWords:
    """Deletes each word with the same probability, independently (CERT-ED).

    All words of a text that an edited one does not have are deleted with the probability rate^k.
    """

    threats: Sequence[ThreatName] = ("synonyms", "words")

    def __init__(self, rate: float) -> None:
        """Args: rate: probability of a deletion."""
        self.rate = rate

    def draw(self, words: Sequence[str], random: Random) -> list[str]:
        """See `RandomTexts`."""
        return [word for word in words if random.random() >= self.rate]

    def overlap(self, words: Sequence[str], k: int | None) -> float:
        """See `RandomTexts`."""
        overlap: float = self.rate ** (len(words) if k is None else k)
        return overlap


class SubstitutedWords:
    """Replaces each word by one that is drawn evenly from its neighbourhood (SAFER).

    The neighbourhood of a word are the words of its list, and those of their lists, and so on for
    `hops` steps; it has the word itself.
    """

    threats: Sequence[ThreatName] = ("synonyms",)

    def __init__(self, threat: Synonyms, hops: int) -> None:
        """Args: threat: its lists. hops: steps of a neighbourhood."""
        self.threat, self.hops = threat, hops
        self._known: dict[str, tuple[str, ...]] = {}
        self._shared: dict[str, float] = {}

    def around(self, word: str) -> tuple[str, ...]:
        """Return the neighbourhood of a word, in alphabetical order."""
        if word not in self._known:
            neighbours = {word}
            for _ in range(self.hops):
                neighbours |= {
                    other for neighbour in neighbours for other in self.threat.of_word(neighbour)
                }
            self._known[word] = tuple(sorted(neighbours))
        return self._known[word]

    def draw(self, words: Sequence[str], random: Random) -> list[str]:
        """See `RandomTexts`."""
        return [random.choice(self.around(word)) for word in words]

    def shared(self, word: str) -> float:
        """Return the least overlap of the two distributions where a word is replaced."""
        if word not in self._shared:
            own = set(self.around(word))
            neighbourhoods = [set(self.around(other)) for other in self.threat.of_word(word)]
            # Two uniform distributions overlap by their common words over the larger size.
            self._shared[word] = min(
                len(own & other) / max(len(own), len(other)) for other in neighbourhoods
            )
        return self._shared[word]

    def overlap(self, words: Sequence[str], k: int | None) -> float:
        """See `RandomTexts`."""
        # The k least overlaps: words are independent.
        return math.prod(sorted(self.shared(word) for word in words)[:k])


def random_texts(noise: Noise, threat: Threat, *, rate: float, mask: str, hops: int) -> RandomTexts:
    """Return the random texts of a smoothed classifier.

    The rate is the share of words that are masked or deleted; hops: see `SubstitutedWords`.

    Raises:
        ValueError: the noise has no certificate for this threat.
    """
    kinds: dict[str, type[RandomTexts]] = {
        "mask": MaskedWords,
        "delete": DeletedWords,
        "substitute": SubstitutedWords,
    }
    if threat.name not in kinds[noise].threats:
        fit = [name for name, kind in kinds.items() if threat.name in kind.threats]
        msg = f"got smoothing.noise={noise} for the threat {threat.name}, expected " + (
            f"one of {', '.join(fit)}" if fit else "synonyms or words, which smoothing is for"
        )
        raise ValueError(msg)
    if noise == "delete":
        return DeletedWords(rate)
    if noise == "mask":
        return MaskedWords(rate, mask)
    if not isinstance(threat, Synonyms) or threat.texts:
        msg = (
            "got lists for texts for smoothing.noise=substitute, expected lists for words: random "
            "texts are drawn around any text, changed ones included"
        )
        raise ValueError(msg)
    return SubstitutedWords(threat, hops)
