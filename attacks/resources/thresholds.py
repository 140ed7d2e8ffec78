"""Thresholds of sentence similarity for each encoder: docs/attacks/similarity.md."""

import logging
import math
from typing import Literal, NamedTuple

log = logging.getLogger(__name__)

Metric = Literal["angular", "cosine"]

FACTOR = {"all-MiniLM-L6-v2": 1.3}
"""Factor from an angle of the universal sentence encoder to that of another encoder.

Calibrated by the similarities that TextFooler's authors published; they leave it between 1.06 and
1.57 (`python -m benchmarks.parity thresholds --part published`)."""


class Published(NamedTuple):
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


PUBLISHED = {
    "textfooler": Published(0.840845057, "angular", "use"),
    "textbugger": Published(0.8, "angular", "use"),
    "bae": Published(0.936338023, "cosine", "use"),
    "bert-attack": Published(0.2, "cosine", "use"),
    "clare": Published(0.7, "cosine", "use"),
    "a2t": Published(0.9, "cosine", "sts"),
    "a2t-mlm": Published(0.9, "cosine", "sts"),
}
"""By recipe."""


def minimum(recipe: str, encoder: str) -> float:
    """Returns the threshold of a recipe for an encoder, as strict as the published one.

    Args:
        recipe: one of `PUBLISHED`.
        encoder: its name; an unknown one gets the published number.
    """
    published = PUBLISHED[recipe]
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
