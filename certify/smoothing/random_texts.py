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
    """A distribution of texts around each text.

    Attributes:
        threats: names of the threats that `overlap` is for.
    """

    threats: Sequence[ThreatName]

    def draw(self, words: Sequence[str], random: Random) -> list[str]:
        """Returns the words of one random text."""
        ...

    def overlap(self, words: Sequence[str], k: int | None) -> float:
        """Returns 1 minus how much a share of random texts can fall by k changes; at least 0."""
        ...


class Masked:
    """Keeps a fixed number of words, drawn without replacement, and masks the others (RanMASK).

    A text keeps `max(1, round((1 - rate) n))` of its n words. A changed word that is masked is not
    seen, and no changed word is seen with the probability C(n - k, m) / C(n, m) for m kept words.
    """

    threats: Sequence[ThreatName] = ("synonyms",)

    def __init__(self, rate: float, mask: str) -> None:
        """Args: rate: share of masked words. mask: the word in their place."""
        self.rate, self.mask = rate, mask

    def kept(self, length: int) -> int:
        """Returns the number of words of a text that are kept."""
        return min(length, max(1, round((1 - self.rate) * length)))

    def draw(self, words: Sequence[str], random: Random) -> list[str]:
        """See `RandomTexts`."""
        kept = set(random.sample(range(len(words)), self.kept(len(words))))
        return [word if place in kept else self.mask for place, word in enumerate(words)]

    def overlap(self, words: Sequence[str], k: int | None) -> float:
        """See `RandomTexts`."""
        length = len(words)
        changed = length if k is None else min(k, length)
        kept = self.kept(length)
        return math.comb(length - changed, kept) / math.comb(length, kept)


class Deleted:
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
        found: float = self.rate ** (len(words) if k is None else k)
        return found


class Substituted:
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
        """Returns the neighbourhood of a word, in alphabetical order."""
        if word not in self._known:
            found = {word}
            for _ in range(self.hops):
                found |= {other for one in found for other in self.threat.of_word(one)}
            self._known[word] = tuple(sorted(found))
        return self._known[word]

    def draw(self, words: Sequence[str], random: Random) -> list[str]:
        """See `RandomTexts`."""
        return [random.choice(self.around(word)) for word in words]

    def shared(self, word: str) -> float:
        """Returns the least overlap of the two distributions where a word is replaced."""
        if word not in self._shared:
            own = set(self.around(word))
            others = [set(self.around(other)) for other in self.threat.of_word(word)]
            self._shared[word] = min(
                len(own & other) / max(len(own), len(other)) for other in others
            )
        return self._shared[word]

    def overlap(self, words: Sequence[str], k: int | None) -> float:
        """See `RandomTexts`."""
        return math.prod(sorted(self.shared(word) for word in words)[:k])


def random_texts(noise: Noise, threat: Threat, *, rate: float, mask: str, hops: int) -> RandomTexts:
    """Returns the random texts of a smoothed classifier.

    Args:
        noise: their kind.
        threat: what is certified against.
        rate: share of words that are masked or deleted.
        mask: the word in the place of a masked one.
        hops: see `Substituted`.

    Raises:
        ValueError: the noise has no certificate for this threat.
    """
    kinds: dict[str, type[RandomTexts]] = {
        "mask": Masked,
        "delete": Deleted,
        "substitute": Substituted,
    }
    if threat.name not in kinds[noise].threats:
        fit = [name for name, kind in kinds.items() if threat.name in kind.threats]
        msg = f"got smoothing.noise={noise} for the threat {threat.name}, expected " + (
            f"one of {', '.join(fit)}" if fit else "synonyms or words, which smoothing is for"
        )
        raise ValueError(msg)
    if noise == "delete":
        return Deleted(rate)
    if noise == "mask":
        return Masked(rate, mask)
    if not isinstance(threat, Synonyms) or threat.texts:
        msg = (
            "got lists for texts for smoothing.noise=substitute, expected lists for words: random "
            "texts are drawn around any text, changed ones included"
        )
        raise ValueError(msg)
    return Substituted(threat, hops)
