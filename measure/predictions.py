"""Predict texts with a trained model, with their certificates."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from attacks.victims.kinds import check_logits
from certify import Certifier
from lit_modules import TaskModule
from lit_modules.shared.detection import detection_scores, find_positive
from measure.certificate_records import Record
from measure.certified_answers import ThreatCertifiers
from text import Text, cuts_unsaid

BATCH = 256
"""Texts per forward pass."""

WORDS = 5
"""Words that explain a detection."""

TextPrediction = dict[str, Any]
"""A prediction as JSON."""


class TextPredictor:
    """Predicts texts with one model.

    Args:
        model: a classifier or a regression of texts or pairs, in evaluation mode.
        words: certifiers in words of the same model; None: no certificates in words.

    Raises:
        ValueError: a model for tagging or multiple choice, which predicts only a corpus.
    """

    def __init__(self, model: TaskModule, words: ThreatCertifiers | None = None) -> None:
        self.model, self.words = model, words
        self.number = model.task.name == "regression"
        # Raises for a model of another task.
        model.predict_texts([])
        self._certifier = None
        if not self.number and model.no_certificate is None:
            self._certifier = Certifier(model)

    @property
    def no_certificate(self) -> str | None:
        """The reason why predictions have no certificate; None if they have one."""
        if self.number:
            return "a regression has no certificate"
        reason = self.model.no_certificate
        missing = () if self.words is None else self.words.missing
        return "; ".join(missing) if reason is not None and missing else reason

    def __call__(self, texts: Sequence[Text]) -> Iterator[TextPrediction]:
        """Predict texts, in their order.

        Args:
            texts: strings, or pairs of strings for a model of pairs.

        Yields:
            A record for each text: `text`, `text_pair`; of a classifier `prediction`,
            `probability`, `probabilities` by class, `margin` (the largest logit less the next) and
            `radius` (None without a certificate); of a detector also `score` (logit of the class
            that it detects less the largest other one, 0 at the threshold), `detected` and `why`
            (the words with the most evidence, if each word has some), and its probabilities are
            those before the threshold was chosen; of a regression `value`; `cut`, True if the text
            was longer than the input of the model; `unknown`, the words outside of the vocabulary;
            `reads`, what the model reads of the text, if it has a front end; `corrected`, the words
            that its corrector has changed, if any, with what they became; `certificates` in words,
            if there are certifiers (`ThreatCertifiers`).

        Raises:
            InvalidAnswers: logits that are not finite.
        """
        for start in range(0, len(texts), BATCH):
            yield from self._predict(list(texts[start : start + BATCH]))

    def _predict(self, texts: list[Text]) -> Iterator[TextPrediction]:
        tokenizer, names = self.model.require_text()
        # `cut` reports a cut text: no warning in the log.
        with cuts_unsaid():
            logits = self.model.predict_texts(texts).double().cpu()  # [B, C], or [B, 1]
            # NaN has its largest entry in the first class: a detector would let the text pass.
            check_logits(logits, texts, self.model.method, least=1)
            radii = [None] * len(texts)
            if self._certifier is not None:
                radii = self._certifier(texts).radius.tolist()
        certified: dict[str, list[Record]] = {}
        if self.words is not None:
            alone = list(dict.fromkeys(text for text in texts if isinstance(text, str)))
            certified = dict(zip(alone, self.words(alone), strict=True))
        rows = zip(
            texts, logits, radii, tokenizer.encode(texts), tokenizer.spans(texts), strict=True
        )
        for text, row, radius, encoding, spans in rows:
            first, second = (text, None) if isinstance(text, str) else text
            prediction: TextPrediction = {"text": first}
            if second is not None:
                prediction["text_pair"] = second
            if self.number:
                prediction["value"] = float(row[0])
            else:
                prediction |= _classify(row, names, radius) | self._detect(first, row)
            # A span names the text of a pair that it is in.
            parts = (first, second or "")
            words = (
                parts[span.text][span.start : span.end]
                for span, number in zip(spans, encoding.input_ids, strict=True)
                if number == tokenizer.unk_id
            )
            prediction["cut"] = encoding.truncated
            # Each word once, in the order of the text.
            prediction["unknown"] = [word for word in dict.fromkeys(words) if word]
            if (front_end := tokenizer.front_end) is not None:
                whole = f"{first} {second or ''}".strip()
                prediction["reads"] = front_end(whole)
                if corrected := front_end.corrections(whole):
                    prediction["corrected"] = corrected
            if self.words is not None:
                prediction["certificates"] = certified.get(first, []) if second is None else []
            yield prediction

    def _detect(self, text: str, logits: torch.Tensor) -> TextPrediction:
        """Return the fields of a detector, from logits `[C]`; none of other classifiers."""
        detector = self.model.detector
        if detector is None:
            return {}
        names = self.model.require_text()[1]
        index = find_positive(detector.positive, names)
        unshifted = logits.clone()
        unshifted[index] += detector.threshold
        probabilities = unshifted.softmax(dim=0).tolist()
        chosen = int(logits.argmax())
        evidence = self.model.word_evidence(text, index)
        return {
            "probability": probabilities[chosen],
            "probabilities": dict(zip(names, probabilities, strict=True)),
            "score": float(detection_scores(logits.unsqueeze(0), index)[0]),
            "detected": chosen == index,
            "why": sorted(
                ((word, value) for word, value in evidence if value > 0), key=lambda one: -one[1]
            )[:WORDS],
        }


def _classify(logits: torch.Tensor, names: Sequence[str], radius: float | None) -> TextPrediction:
    """Return the class of a text, its probability and its margin, from logits `[C]`."""
    probabilities = logits.softmax(dim=0).tolist()
    # The margin of the certificate: largest logit minus the next one.
    best, second = logits.topk(2).values.tolist()
    chosen = int(logits.argmax())
    return {
        "prediction": names[chosen],
        "probability": probabilities[chosen],
        "probabilities": dict(zip(names, probabilities, strict=True)),
        "margin": best - second,
        "radius": radius,
    }
