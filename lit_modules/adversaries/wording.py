"""The words that an attack may put into texts."""

from collections.abc import Iterable
from random import Random

from attacks.composition import Attack, Job, Transformation
from attacks.document import Document
from attacks.transformations import Composite, EmbeddingSwap, WordNetSwap
from text import Text


def replacements(attack: Attack, texts: Iterable[Text]) -> list[str]:
    """Return the replacement words for the texts of a corpus, each once, in alphabetical order."""
    words: set[str] = set()
    for text in texts:
        words.update(Document.of(text).words)
    jobs = [
        Job(document, document, [0], Random(0), 0)
        for document in map(Document.of, sorted(words))
        if len(document) == 1
    ]
    # Only from neighbours and WordNet: character edits have too many, and a masked language model
    # needs the full text. Constraints are not checked.
    return sorted(
        {
            candidate.word
            for part in _parts(attack.transformation)
            if isinstance(part, EmbeddingSwap | WordNetSwap)
            for candidates in part.propose(jobs)
            for candidate in candidates
        }
    )


def _parts(transformation: Transformation) -> list[Transformation]:
    if isinstance(transformation, Composite):
        return [leaf for part in transformation.transformations for leaf in _parts(part)]
    return [transformation]
