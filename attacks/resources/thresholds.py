"""Thresholds of sentence similarity for each encoder: docs/attacks/similarity.md."""

import logging
import math
from typing import Literal, NamedTuple

log = logging.getLogger(__name__)

Metric = Literal["angular", "cosine"]

FACTOR = {"all-MiniLM-L6-v2": 1.3}
"""Factor from an angle of the universal sentence encoder to that of another encoder.

Calibrated by the similarities that TextFooler's authors published; they leave it between 1.06 and
1.57 (docs/attacks/similarity.md)."""


class PublishedThreshold(NamedTuple):
    """A threshold of the reference.

    Attributes:
        minimum: least similarity.
        metric: kind of similarity.
        encoder: `use`: universal sentence encoder; `sts`: a DistilBERT trained to give human
            similarity as its cosine.
    """

    minimum: float
    metric: Metric
    encoder: Literal["use", "sts"]


def find_threshold(published: PublishedThreshold, encoder: str, *, recipe: str) -> float:
    """Return the threshold for an encoder that is as strict as the published one.

    An unknown encoder gets the published number, with a warning that names the recipe.
    """
    if encoder not in FACTOR:
        log.warning(
            "sentence encoder %s is not calibrated: %s keeps the published threshold %.4g, which "
            "may mean more or less here (docs/attacks/similarity.md)",
            encoder,
            recipe,
            published.minimum,
        )
        return published.minimum
    if published.encoder == "sts":
        # For both encoders a cosine of 0.9 is a human similarity of 0.9.
        return published.minimum
    if published.metric == "cosine":
        return math.cos(FACTOR[encoder] * math.acos(published.minimum))
    return 1 - FACTOR[encoder] * (1 - published.minimum)
