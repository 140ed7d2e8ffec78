"""Victims that name a class and give no scores."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attacks.composition import Attack
from attacks.goals import Floats
from attacks.victims.answers_by_template import AnswerError, class_index
from attacks.victims.kinds import CallableVictim, VictimError
from text import Text


class LabelVictim(CallableVictim):
    """A function from a list of texts to their classes.

    Args:
        function: called with at most `batch_size` texts; returns the name or number of a class for
            each.
        classes: names of the classes.
        batch_size: texts per call.
        name: name in results.
    """

    labels_only = True

    def __init__(
        self,
        function: Callable[[list[Text]], Sequence[Any]],
        *,
        classes: Sequence[str],
        batch_size: int = 256,
        name: str = "function",
    ) -> None:
        def rows(texts: list[Text]) -> Floats:
            answers = list(function(texts))
            if len(answers) != len(texts):
                msg = f"got {len(answers)} labels to {len(texts)} text(s), expected one for each"
                raise AnswerError(msg)
            # One-hot rows: a search by scores would see no gradient.
            logits = np.zeros((len(texts), len(classes)))
            for row, answer in zip(logits, answers, strict=True):
                label = answer.item() if isinstance(answer, np.generic) else answer
                row[class_index(label, classes)] = 1
            return logits

        super().__init__(rows, batch_size=batch_size, name=name)

    def _suspect(self, numbers: Floats) -> None:
        """Say nothing: rows that sum to 1 are meant."""


def check_search(attack: Attack, victim: Any) -> None:
    """Check that an attack can work with the answers of a victim.

    Raises:
        VictimError: the victim gives no scores, and the search follows them.
    """
    if not getattr(victim, "labels_only", False) or not attack.needs_scores:
        return
    msg = (
        f"got the attack {attack.name} on {victim.name}, which names classes and gives no scores: "
        "its search follows scores, and would find nothing; expected a search that needs none: "
        "--attack random, hard-label or limeattack, or your own with `needs_scores = False`"
    )
    raise VictimError(msg)
