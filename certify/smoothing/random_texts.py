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
    """A distribution of texts around each text; `share_after` is for the named threats."""

    threats: Sequence[ThreatName]

    def draw(self, words: Sequence[str], random: Random) -> list[str]:
        """Return the words of one random text."""

    def share_after(self, words: Sequence[str], k: int | None, share: float) -> float:
        """Return a lower bound on the share of a class after at most k changes (None: any number).

        `share` is its share among the random texts of the text, or a lower bound on it.
        """


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

    def share_after(self, words: Sequence[str], k: int | None, share: float) -> float:
        """See `RandomTexts`."""
        length = len(words)
        changed = length if k is None else min(k, length)
        visible = self.kept(length)
        overlap = math.comb(length - changed, visible) / math.comb(length, visible)
        return share - (1 - overlap)


class DeletedWords:
    """Deletes each word with the same probability, independently (CERT-ED, AdaptDel).

    Source: Huang et al., "CERT-ED: Certifiably Robust Text Classification for Edit Distance", 2024,
    and "AdaptDel: Adaptable Deletion Rate Randomized Smoothing for Certified Robustness", 2025. In
    AdaptDel longer texts have a larger one: no text keeps more than `keep` words on average.
    """

    threats: Sequence[ThreatName] = ("synonyms", "words")

    def __init__(self, rate: float, keep: float | None = None, *, inserts: bool = True) -> None:
        """Keep the settings.

        Args:
            rate: least probability of a deletion.
            keep: words that a text keeps on average, at most; None for no limit.
            inserts: True for edits of words, which also insert and delete; False for replacements.
        """
        self.rate, self.keep, self.inserts = rate, keep, inserts

    def rate_of(self, length: int) -> float:
        """Return the probability with which a word of a text of this length is deleted."""
        if self.keep is None or length == 0:
            return self.rate
        return max(self.rate, 1 - self.keep / length)

    def draw(self, words: Sequence[str], random: Random) -> list[str]:
        """See `RandomTexts`."""
        rate = self.rate_of(len(words))
        return [word for word in words if random.random() >= rate]

    def share_after(self, words: Sequence[str], k: int | None, share: float) -> float:
        """See `RandomTexts`: the least bound over all numbers of edits."""
        length = len(words)
        most = length if k is None else k
        if not self.inserts:
            most = min(most, length)
            return self._share_after(length, length - most, length, share)
        return min(
            self._share_after(length, length - lost, length - lost + new, share)
            for lost in range(min(most, length) + 1)
            # A replaced word is lost and new in one edit.
            for new in range(most + 1)
        )

    def _share_after(self, before: int, common: int, after: int, share: float) -> float:
        """Return the bound for texts of so many words, so many of which they have in common."""
        rate, new_rate = self.rate_of(before), self.rate_of(after)
        alone = rate ** (before - common)
        # Not 1 - alone >= share: a probability that is rounded to 0 must not divide.
        if alone <= 1 - share:
            return 0.0
        # Share among the random texts of the common words.
        least = (share - (1 - alone)) / alone
        if rate != new_rate:
            least = least_at_rate(least, common, rate, new_rate)
        return float(new_rate ** (after - common) * least)


def least_at_rate(share: float, length: int, rate: float, new_rate: float) -> float:
    """Return the least share of a class at another rate of deletion, of a text of `length` words.

    At the first rate its share is at least `share`.
    """
    from scipy.stats import binom

    sizes = range(length + 1)
    if new_rate > rate:
        sizes = sizes[::-1]
    # Texts of the class have the numbers of words that the new rate makes rarer (Neyman, Pearson).
    old = binom.pmf(sizes, length, 1 - rate)
    new = binom.pmf(sizes, length, 1 - new_rate)
    filled = (share - (old.cumsum() - old)).clip(0, old)
    part = filled / old.clip(min=1e-300)
    return float((part * new).sum())


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

    def share_after(self, words: Sequence[str], k: int | None, share: float) -> float:
        """See `RandomTexts`."""
        # The k least overlaps: words are independent.
        overlap = math.prod(sorted(self.shared(word) for word in words)[:k])
        return share - (1 - overlap)


def random_texts(
    noise: Noise, threat: Threat, *, rate: float, keep: float | None, mask: str, hops: int
) -> RandomTexts:
    """Return the random texts of a smoothed classifier.

    The rate is the share of words that are masked or deleted; keep: see `DeletedWords`; hops: see
    `SubstitutedWords`.

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
        return DeletedWords(rate, keep, inserts=threat.name == "words")
    if noise == "mask":
        return MaskedWords(rate, mask)
    if not isinstance(threat, Synonyms) or threat.texts:
        msg = (
            "got lists for texts for smoothing.noise=substitute, expected lists for words: random "
            "texts are drawn around any text, changed ones included"
        )
        raise ValueError(msg)
    return SubstitutedWords(threat, hops)
