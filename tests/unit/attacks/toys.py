"""Small parts with which engine and searches can be tested by hand."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from attacks.composition import Attack, Group, Job
from attacks.document import Candidate, Document
from attacks.goals import Floats
from attacks.outcome import Sample
from text import Text

WEIGHTS = {"good": 2.0, "fine": 1.0, "okay": 0.25, "dull": -1.0, "bad": -2.0, "awful": -3.0}
SYNONYMS = {
    "good": ("fine", "okay", "solid"),
    "fine": ("okay", "good"),
    "film": ("movie", "picture"),
    "plot": ("story", "dull", "bad"),
}


def value(text: Text) -> float:
    joined = text if isinstance(text, str) else " ".join(text)
    return sum(WEIGHTS.get(word, 0.0) for word in joined.replace(",", " ").lower().split())


@dataclass
class BagVictim:
    """Linear in the words: what each replacement does is known."""

    name: str = "bag"
    bias: float = -0.5
    asked: list[list[Text]] = field(default_factory=list)

    def logits(self, texts: Sequence[Text]) -> Floats:
        self.asked.append(list(texts))
        scores = np.array([value(text) + self.bias for text in texts])
        return np.stack([-scores / 2, scores / 2], axis=1)

    def word_weights(
        self, documents: Sequence[Document], *, compat: str = "none"
    ) -> list[list[float]]:
        del compat
        return [[abs(WEIGHTS.get(w, 0.0)) for w in document.words] for document in documents]


@dataclass
class Synonyms:
    """Replaces words by what a table says."""

    table: Mapping[str, Sequence[str]] = field(default_factory=lambda: SYNONYMS)
    rounds: int = field(default=0, init=False)

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        self.rounds += 1
        return [
            [
                job.current.replace(i, word)
                for i in job.indices
                for word in self.table.get(job.current.words[i], ())
            ]
            for job in jobs
        ]


class Letters:
    """Random replacements, from the sample's own numbers."""

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        return [
            [
                job.current.replace(i, job.random.choice(["bad", "dull", "okay"]))
                for i in job.indices
            ]
            for job in jobs
        ]


class Once:
    """No word twice."""

    def allowed(self, document: Document, *, columns: Sequence[str]) -> Iterable[int]:
        return (i for i in range(len(document)) if i not in document.modified)


@dataclass
class Forbid:
    """Not these words; remembers what it was asked."""

    words: frozenset[str]
    cost: float = 1.0
    seen: list[str] = field(default_factory=list)

    def keep(self, groups: Sequence[Group]) -> list[list[bool]]:
        self.seen += [one.word for group in groups for one in group.candidates]
        return [[one.word not in self.words for one in group.candidates] for group in groups]


def samples(*texts: Text, label: int = 1) -> list[Sample]:
    return [Sample(sample_id=i, text=text, label=label) for i, text in enumerate(texts)]


__all__ = ["Attack", "BagVictim", "Forbid", "Letters", "Once", "Synonyms", "samples"]
