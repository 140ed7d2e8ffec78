"""The answer of a trained model to a text, with its certificate."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from certify import Certifier
from lit_modules import TaskModule
from measure.certified_answers import WordCertificates
from text import Text, cuts_unsaid

BATCH = 256
"""Texts that are answered together."""

Answer = dict[str, Any]
"""A record that can be written as JSON."""


class Answering:
    """Answers texts with one model.

    Args:
        model: a classifier or a regression of texts or pairs, in evaluation mode.
        words: certificates in words of the same model, for its answers; None for answers without.

    Raises:
        ValueError: a model for tagging or multiple choice, which answers to a corpus only.
    """

    def __init__(self, model: TaskModule, words: WordCertificates | None = None) -> None:
        self.model, self.words = model, words
        self.number = model.task.name == "regression"
        # Also refuses a model for another task.
        model.predict_texts([])
        self._certifier = None
        if not self.number and model.no_certificate is None:
            self._certifier = Certifier(model)

    @property
    def no_certificate(self) -> str | None:
        """The reason why answers have no certificate; None if they have one."""
        if self.number:
            return "a regression has no certificate"
        return self.model.no_certificate

    def __call__(self, texts: Sequence[Text]) -> Iterator[Answer]:
        """Answers texts, in their order.

        Args:
            texts: strings, or pairs of strings for a model of pairs.

        Yields:
            A record for each text: `text`, `text_pair`; of a classifier `prediction`,
            `probability`, `probabilities` by class, `margin` (the largest logit less the next) and
            `radius` (None without a certificate); of a regression `value`; `cut`, True if the text
            was longer than the model reads; `unknown`, the words without a vector of their own;
            `certificates` in words, if they are asked for (`WordCertificates`).
        """
        for start in range(0, len(texts), BATCH):
            yield from self._answered(list(texts[start : start + BATCH]))

    def _answered(self, texts: list[Text]) -> Iterator[Answer]:
        tokenizer, names = self.model.require_text()
        with cuts_unsaid():
            logits = self.model.predict_texts(texts).double().cpu()
            radii = [None] * len(texts)
            if self._certifier is not None:
                radii = self._certifier(texts).radius.tolist()
        rows = zip(
            texts, logits, radii, tokenizer.encode(texts), tokenizer.spans(texts), strict=True
        )
        for text, row, radius, encoding, spans in rows:
            first, second = (text, None) if isinstance(text, str) else text
            answer: Answer = {"text": first}
            if second is not None:
                answer["text_pair"] = second
            answer |= _number(row) if self.number else _chosen(row, names, radius)
            parts = (first, second or "")
            words = (
                parts[span.text][span.start : span.end]
                for span, number in zip(spans, encoding.input_ids, strict=True)
                if number == tokenizer.unk_id
            )
            answer["cut"] = encoding.truncated
            answer["unknown"] = [word for word in dict.fromkeys(words) if word]
            if self.words is not None:
                answer["certificates"] = self.words(first) if second is None else []
            yield answer


def _chosen(logits: torch.Tensor, names: Sequence[str], radius: float | None) -> Answer:
    """The class of a text, and how far it is from another."""
    shares = logits.softmax(dim=0).tolist()
    best, second = logits.topk(2).values.tolist()
    chosen = int(logits.argmax())
    return {
        "prediction": names[chosen],
        "probability": shares[chosen],
        "probabilities": dict(zip(names, shares, strict=True)),
        "margin": _finite(best - second),
        "radius": radius,
    }


def _number(logits: torch.Tensor) -> Answer:
    return {"value": _finite(float(logits[0]))}


def _finite(value: float) -> float | None:
    # JSON has no infinity.
    return value if math.isfinite(value) else None
