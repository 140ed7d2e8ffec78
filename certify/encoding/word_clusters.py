"""Clusters of words that trade fidelity for stability (Jones et al., 2020)."""

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Self

from certify.threats import Synonyms
from text.bounded_files import read_json


@dataclass(frozen=True)
class SynonymEncoding:
    """A map from words to representatives of their clusters; others represent themselves."""

    representatives: Mapping[str, str]

    def of_word(self, word: str) -> str:
        """Return the representative of a word."""
        return self.representatives.get(word, word)

    def of_words(self, words: Sequence[str]) -> str:
        """Return the encoded text, which the classifier reads."""
        return " ".join(self.of_word(word) for word in words)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a JSON object of words and their representatives; a ValueError for other content."""
        content = read_json(Path(path), "an object of words and words")
        if not isinstance(content, dict) or not all(
            isinstance(word, str) for word in content.values()
        ):
            msg = f"got {path} with other JSON, expected an object of words and words"
            raise ValueError(msg)
        return cls(content)


def cluster_words(threat: Synonyms, counts: Mapping[str, int], fidelity: float) -> SynonymEncoding:
    """Merge clusters of words, beginning with single words, while that makes the cost less.

    The cost of an encoding is, over words w with their shares s(w) of a corpus,
    `(1 - fidelity) sum_w s(w) * (encodings that w and its substitutes have)
    + fidelity * sum_w s(w) * [w is not the most frequent word of its cluster]`.
    The best merge of two clusters that some word reaches is made first.

    Args:
        threat: with lists for words.
        counts: how often each word occurs in a corpus.
        fidelity: weight of fidelity, between 0 and 1: 0 merges all words that are connected, and 1
            none.

    Raises:
        ValueError: lists for texts, or a fidelity out of its range.
    """
    if threat.texts:
        msg = "got lists for texts to cluster words by, expected lists for words"
        raise ValueError(msg)
    if not 0 <= fidelity <= 1:
        msg = f"got fidelity={fidelity}, expected between 0 and 1"
        raise ValueError(msg)
    return SynonymEncoding(_Clusters(threat, counts, fidelity).merged())


class _Clusters:
    """The clusters while they are merged; a cluster has the number of one of its words."""

    def __init__(self, threat: Synonyms, counts: Mapping[str, int], fidelity: float) -> None:
        reach = {word: threat.of_word(word) for word in sorted({*counts, *threat.lists})}
        words = sorted({*reach, *(other for reachable in reach.values() for other in reachable)})
        number = {word: index for index, word in enumerate(words)}
        self.words, self.fidelity = words, fidelity
        self.counts = [counts.get(word, 0) for word in words]
        # The clusters that each word reaches, and the words that reach each cluster.
        self.reach = [{number[other] for other in reach.get(word, (word,))} for word in words]
        self.reached: list[set[int]] = [set() for _ in words]
        # How often the words occur that reach both of two clusters.
        self.shared: list[dict[int, int]] = [defaultdict(int) for _ in words]
        for index, clusters in enumerate(self.reach):
            for cluster in clusters:
                self.reached[cluster].add(index)
            # Words that the corpus does not have cost nothing, and gain nothing by a merge.
            if self.counts[index]:
                for first, second in permutations(clusters, 2):
                    self.shared[first][second] += self.counts[index]
        self.members = [[index] for index in range(len(words))]
        self.most = list(self.counts)
        self.age = [0] * len(words)

    def _best(self, cluster: int) -> tuple[float, int, int, int, int] | None:
        """Return the best merge of a cluster: minus its gain, both clusters and their ages."""
        # Words that reach both clusters gain stability; the rarer representative loses fidelity.
        stable, lost = 1 - self.fidelity, self.fidelity
        most, of_cluster = self.most, self.most[cluster]
        gain, other = 0.0, cluster
        for near, count in self.shared[cluster].items():
            its_most = most[near]
            its_gain = stable * count - lost * (its_most if its_most < of_cluster else of_cluster)
            if its_gain > gain or (its_gain == gain > 0 and near < other):
                gain, other = its_gain, near
        low, high = sorted((cluster, other))
        return (-gain, low, high, self.age[low], self.age[high]) if gain > 0 else None

    def merged(self) -> dict[str, str]:
        """Return the representative of each word that has another one than itself."""
        # A merge changes the gains of one cluster, whose best is computed again. The best of
        # another one that would merge with it waits, as a bound, until it comes to the top.
        bests = [self._best(cluster) for cluster in range(len(self.words))]
        heap = [(best, cluster) for cluster, best in enumerate(bests) if best is not None]
        heapq.heapify(heap)
        while heap:
            merge, cluster = heapq.heappop(heap)
            if merge is not bests[cluster]:
                continue  # computed again since
            _, first, second, age, its_age = merge
            if (self.age[first], self.age[second]) == (age, its_age):
                self._merge(first, second)
                bests[second], cluster = None, first
            best = bests[cluster] = self._best(cluster)
            if best is not None:
                heapq.heappush(heap, (best, cluster))
        representatives = {}
        for members in self.members:
            if members:
                # The most frequent word represents its cluster.
                first = min(members, key=lambda index: (-self.counts[index], self.words[index]))
                named = {self.words[i]: self.words[first] for i in members if i != first}
                representatives.update(named)
        return representatives

    def _merge(self, first: int, second: int) -> None:
        row, other = self.shared[first], self.shared[second]
        del row[second], other[first]
        for cluster, count in other.items():
            del self.shared[cluster][second]
            row[cluster] += count
        # Words that reach both clusters were counted twice.
        for word in self.reached[first] & self.reached[second]:
            if self.counts[word]:
                for cluster in self.reach[word] - {first, second}:
                    row[cluster] -= self.counts[word]
        for cluster in other:
            self.shared[cluster][first] = row[cluster]
        for word in self.reached[second]:
            self.reach[word] = (self.reach[word] - {second}) | {first}
        self.reached[first] |= self.reached[second]
        self.members[first] += self.members[second]
        self.most[first] = max(self.most[first], self.most[second])
        self.age[first] += 1
        self.reached[second], self.members[second], self.age[second] = set(), [], -1
        self.shared[second] = {}


def stability(encoding: SynonymEncoding, threat: Synonyms, counts: Mapping[str, int]) -> float:
    """Return the mean number of encodings of a word and its substitutes, over a corpus."""
    total = sum(counts.values())
    encodings: dict[str, int] = defaultdict(int)
    for word in counts:
        encodings[word] = len({encoding.of_word(other) for other in threat.of_word(word)})
    return sum(counts[word] * encodings[word] for word in counts) / total
