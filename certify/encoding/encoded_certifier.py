"""Certificates of a classifier behind an encoding, by all encodings that a text can reach."""

from collections.abc import Callable, Sequence

from torch import Tensor

from certify.encoding.word_clusters import Encoding
from certify.threats import Kind, Synonyms, TextCertificate, Threat
from certify.threats.listing import count, reachable
from certify.threats.text_certificate import largest

Choices = list[dict[str, str]]
"""For each position, the encodings that it can have, and a word that has each; its own first."""


class EncodedCertifier:
    """Certifies a classifier that reads encoded words, exactly where it can list all encodings.

    Args:
        answer: logits `[n, C]` of n texts.
        encoding: in front of the classifier.
        threat: the sets of texts.
        limit: number of encodings of a text that are listed at most.

    Raises:
        ValueError: another threat than synonyms, or a limit below 1.
    """

    kind: Kind = "lower bound"

    def __init__(
        self,
        answer: Callable[[list[str]], Tensor],
        encoding: Encoding,
        threat: Threat,
        *,
        limit: int = 4096,
    ) -> None:
        if not isinstance(threat, Synonyms):
            msg = f"got the threat {threat.name} for an encoding of words, expected synonyms"
            raise ValueError(msg)
        if limit < 1:
            msg = f"got limit={limit}, expected at least 1"
            raise ValueError(msg)
        self.answer, self.encoding, self.threat, self.limit = answer, encoding, threat, limit

    def __call__(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """See `TextCertifier`."""
        return [self._certified(text, ks) for text in texts]

    def _certified(self, text: str, ks: Sequence[int | None]) -> TextCertificate:
        choices: Choices = []
        for candidates in self.threat.candidates(text):
            choices.append({})
            for word in candidates:
                choices[-1].setdefault(self.encoding.of_word(word), word)
        encodings = [list(choice) for choice in choices]
        own = [encoding[0] for encoding in encodings]
        prediction = int(self._predictions([own])[0])
        holds: list[bool] = []
        witness: str | None = None
        seen: int | None = None
        listed = True
        flipped = False
        for k in ks:
            if flipped or count(encodings, k) > self.limit:
                listed = listed and flipped
                holds.append(False)
                continue
            texts = list(reachable(encodings, k))
            answers = self._predictions(texts)
            other = [row for row, found in enumerate(answers) if found != prediction]
            flipped = bool(other)
            if flipped:
                found = texts[other[0]]
                words = (choice[one] for choice, one in zip(choices, found, strict=True))
                witness = " ".join(words)
                seen = answers[other[0]]
            holds.append(not flipped)
        return TextCertificate(
            text=text,
            prediction=prediction,
            holds=tuple(holds),
            certified=largest(holds, ks),
            kind="exact" if listed else "lower bound",
            witness=witness,
            witness_prediction=seen,
        )

    def _predictions(self, encoded: Sequence[Sequence[str]]) -> list[int]:
        logits = self.answer([" ".join(words) for words in encoded])
        found: list[int] = logits.argmax(dim=1).tolist()
        return found
