"""Certificates of a smoothed classifier, by Clopper-Pearson bounds on its shares."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from torch import Tensor

from certify.smoothing.random_texts import NOISES, Noise, random_texts
from certify.threats import Kind, TextCertificate, Threat
from certify.threats.text_certificate import largest
from text import check_choice


@dataclass(frozen=True, kw_only=True)
class Smoothing:
    """The settings of a smoothed classifier.

    Attributes:
        noise: mask: RanMASK; delete: CERT-ED, AdaptDel; substitute: SAFER.
        rate: share of the words that are masked, or probability of a word to be deleted.
        keep: words that a text keeps on average, at most, of noise=delete (AdaptDel): longer texts
            have a larger rate; None for no limit.
        samples: random texts of each text that its certificate is estimated from.
        selection: other random texts, from which its class is chosen.
        alpha: probability that the certificate of a text is wrong.
        mask: word that replaces a masked one, unknown to a model of words. For BERT: [MASK].
        hops: steps of a neighbourhood in the lists, of noise=substitute.
        seed: of the random texts.
    """

    noise: Noise = "mask"
    rate: float = 0.7
    keep: float | None = None
    samples: int = 1000
    selection: int = 100
    alpha: float = 0.001
    mask: str = "xxmaskxx"
    hops: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("smoothing.noise", self.noise, NOISES)
        for name in ("rate", "alpha"):
            if not 0 < getattr(self, name) < 1:
                msg = f"got smoothing.{name}={getattr(self, name)}, expected between 0 and 1"
                raise ValueError(msg)
        if self.keep is not None and not (self.noise == "delete" and 0 < self.keep < math.inf):
            msg = (
                f"got smoothing.keep={self.keep}, expected a number above 0, and smoothing.noise="
                f"delete, which is {self.noise}"
            )
            raise ValueError(msg)
        for name in ("samples", "selection", "hops"):
            if getattr(self, name) < 1:
                msg = f"got smoothing.{name}={getattr(self, name)}, expected at least 1"
                raise ValueError(msg)


def least_share(hits: int, samples: int, alpha: float) -> float:
    """Return a one-sided lower bound on a probability (Clopper and Pearson, 1934).

    With the probability alpha the bound is too large.
    """
    from scipy.stats import beta

    return float(beta.ppf(alpha, hits, samples - hits + 1)) if hits else 0.0


class SmoothedCertifier:
    """Certifies texts for the smoothed classifier around any classifier.

    The certificate is about the smoothed classifier, and not the classifier itself. A text whose
    smoothed class is not certain even without a change has `holds` false for 0, too. `answer`
    returns the classes `[n]` of n texts; -1 for a tie, which votes for no class.

    Raises:
        ValueError: the noise has no certificate for the threat.
    """

    kind: Kind = "probabilistic"

    def __init__(
        self, answer: Callable[[list[str]], Tensor], threat: Threat, settings: Smoothing
    ) -> None:
        self.answer, self.threat, self.settings = answer, threat, settings
        self.noise = random_texts(
            settings.noise,
            threat,
            rate=settings.rate,
            keep=settings.keep,
            mask=settings.mask,
            hops=settings.hops,
        )

    def __call__(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """See `TextCertifier`; a k that the threat does not allow is refused with a ValueError."""
        for k in ks:
            self.threat.at(k)
        return [self._certified(text, ks) for text in texts]

    def _certified(self, text: str, ks: Sequence[int | None]) -> TextCertificate:
        settings, words = self.settings, self.threat.split(text)
        # The random texts of a text do not depend on what else is certified.
        random = Random(f"{settings.seed} {' '.join(words)}")
        # The class is chosen on other samples than the bound: else the bound would be too large.
        first = Counter(
            label for label in self._classes(words, settings.selection, random) if label >= 0
        )
        prediction = min(first, key=lambda label: (-first[label], label), default=0)
        hits = sum(label == prediction for label in self._classes(words, settings.samples, random))
        # A share above 1/2 after the loss by k changes means that the class wins.
        share = least_share(hits, settings.samples, settings.alpha)
        verdicts = [self.noise.share_after(words, k, share) > 0.5 for k in ks]
        return TextCertificate(
            text=text,
            prediction=prediction,
            holds=tuple(verdicts),
            certified=largest(verdicts, ks),
            kind=self.kind,
            confidence=1 - settings.alpha,
        )

    def _classes(self, words: Sequence[str], number: int, random: Random) -> list[int]:
        texts = [" ".join(self.noise.draw(words, random)) for _ in range(number)]
        # Short texts have few random texts: each is answered once.
        different = list(dict.fromkeys(texts))
        answers = dict(zip(different, self.answer(different).tolist(), strict=True))
        return [int(answers[text]) for text in texts]
