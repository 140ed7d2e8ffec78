"""The result of a certifier of texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

Kind = Literal["exact", "lower bound", "probabilistic", "unproven"]


class WorstText(NamedTuple):
    """The text of a set that comes nearest to another prediction, or has it.

    Changes are each changed word as it was, and what it became, in the order of the text.
    """

    text: str
    changes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TextCertificate:
    """The certificate of one text.

    Attributes:
        text: the text that is certified, `Threat.subject` of the original.
        prediction: predicted class.
        holds: for each number of changes in the request, True if no text of the set changes
            the prediction. A tie counts as a change.
        certified: largest number of changes that is certified, at least 0; None if any number is.
            Of a certifier that cannot know it, the largest in the request.
        kind: exact: where it does not hold, there is a text with another prediction or with a tie;
            lower bound: it may hold for more; probabilistic: it holds with some confidence;
            unproven: a printed formula without a proof.
        witness: a text of the set at the first number for which it does not hold, whose
            prediction is another one or tied; None if there is none or none is known.
        witness_prediction: the class that the witness gets.
        confidence: of a probabilistic certificate, for each text.
        cut: True if the model does not read the whole text.
        unknown: number of words that the model does not know.
        worst: for each number of changes in the request the text of the set for which the sum of
            scores has the smallest margin; empty unless requested, or if none is known.
        passes: inputs that were classified; None where none are listed.
    """

    text: str
    prediction: int
    holds: tuple[bool, ...]
    certified: int | None
    kind: Kind
    witness: str | None = None
    witness_prediction: int | None = None
    confidence: float | None = None
    cut: bool = False
    unknown: int = 0
    worst: tuple[WorstText, ...] = ()
    passes: int | None = None


class TextCertifier(Protocol):
    """Certifies texts against a threat, with one model; kind: of the weakest certificate."""

    kind: Kind

    def __call__(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """Certify texts, as `Threat.subject` returns them, for each of some numbers of changes.

        They rise, replace the threat's own k, and end with None for any number, if at all.
        """


def largest(verdicts: Sequence[bool], ks: Sequence[int | None]) -> int | None:
    """Return the largest number up to which all verdicts are True; 0 if the first is not."""
    certified: int | None = 0
    for verdict, k in zip(verdicts, ks, strict=True):
        if not verdict:
            break
        certified = k
    return certified
