"""Certificates of a classifier with an encoding, by all encodings that a text can reach."""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from certify.threats import Kind, Synonyms, TextCertificate, Threat
from certify.threats.listing import count, reachable
from certify.threats.text_certificate import largest
from certify.ties import allowance, leads, runners_up


class EncodedCertifier:
    """Certifies a classifier that reads encoded words, exactly where it can list all encodings.

    Each encoded text is classified alone, so that no other text of a batch plays a part. A tie
    counts as another prediction, and so does a margin that rounding could cause.

    Args:
        answer: logits `[n, C]` of n texts, in float64, of their own words: it encodes them. It is
            asked about one text at a time.
        form: of a word, as the classifier reads it: words of one form are the same to it.
        threat: the sets of texts.
        limit: number of encodings of a text that are listed at most.

    Raises:
        ValueError: another threat than synonyms, or a limit below 1.
    """

    kind: Kind = "lower bound"

    def __init__(
        self,
        answer: Callable[[list[str]], Tensor],
        form: Callable[[str], str],
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
        self.answer, self.form, self.threat, self.limit = answer, form, threat, limit

    def __call__(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """See `TextCertifier`."""
        return [self._certified(text, ks) for text in texts]

    def _certified(self, text: str, ks: Sequence[int | None]) -> TextCertificate:
        choices: list[list[str]] = []
        for candidates in self.threat.candidates(text):
            words: dict[str, str] = {}
            for word in candidates:
                # One word of each form: a form may be no word of a text, as "[UNK]".
                words.setdefault(self.form(word), word)
            choices.append([*words.values()])
        answers = _Answers(self.answer, [choice[0] for choice in choices])
        verdicts: list[bool] = []
        worst: list[str] | None = None
        exact = True
        for k in ks:
            if worst is None and count(choices, k) <= self.limit:
                near = answers.nearest(reachable(choices, k))
                verdicts.append(near is None)
                # A lead within rounding proves nothing, neither way.
                exact = exact and (near is None or answers.lead(near) <= 0)
                worst = near
            else:
                exact = exact and worst is not None
                verdicts.append(False)
        witness, rival = None, None
        if worst is not None and answers.lead(worst) <= 0:
            witness, rival = " ".join(worst), answers.rival(worst)
        return TextCertificate(
            text=text,
            prediction=answers.prediction,
            holds=tuple(verdicts),
            certified=largest(verdicts, ks),
            kind="exact" if exact else "lower bound",
            witness=witness,
            witness_prediction=rival,
        )


class _Answers:
    """Answers to the texts around one text, each asked once and alone."""

    def __init__(self, answer: Callable[[list[str]], Tensor], own: Sequence[str]) -> None:
        self._answer = answer
        self._logits: dict[str, Tensor] = {}
        self.prediction = int(self._of(own).argmax())

    def _of(self, words: Sequence[str]) -> Tensor:
        text = " ".join(words)
        if text not in self._logits:
            (logits,) = self._answer([text])
            self._logits[text] = logits.to("cpu", torch.float64)
        return self._logits[text]

    def lead(self, words: Sequence[str]) -> float:
        """Return how far the prediction of the text itself is above every other class."""
        return float(leads(self._of(words).unsqueeze(0), torch.tensor([self.prediction])))

    def rival(self, words: Sequence[str]) -> int:
        """Return the largest class but the predicted one."""
        return int(runners_up(self._of(words).unsqueeze(0), torch.tensor([self.prediction])))

    def nearest(self, texts: Iterable[list[str]]) -> list[str] | None:
        """Return the first of some texts whose lead is not certain; None for none."""
        for words in texts:
            # Not `<=`: a NaN is not certain, either.
            if not self.lead(words) > float(allowance(self._of(words))):
                return words
        return None
