"""A victim that reads texts after a front end."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from attacks.digests import digest
from attacks.goals import Floats
from attacks.victims.kinds import InvalidAnswers, Victim, about_victim
from text import FrontEnd, Text

_GRADIENTS = ("word_weights", "flip_gains", "token_model")
_ASKED = ("again", "probabilities")


class FrontEndVictim:
    """Passes texts through a front end, and then to a victim; equal ones only once.

    It has no gradients: they belong to the text after the front end.

    Args:
        victim: the victim; its other attributes are passed on.
        front_end: see `text.front_end`.
    """

    def __init__(self, victim: Victim, front_end: FrontEnd) -> None:
        self._victim, self.front_end = victim, front_end
        self.name = victim.name

    def logits(self, texts: Sequence[Text]) -> Floats:
        """See `Victim`."""
        answer = self._ask(self._victim.logits, texts)
        assert answer is not None  # `logits` always answers
        return answer

    def about(self) -> dict[str, Any]:
        """See `attacks.fingerprint`."""
        return {**about_victim(self._victim), "front_end": self.digest}

    @property
    def digest(self) -> str:
        """The digest of the front end."""
        content = json.dumps([self.front_end.state(), self.front_end.unknown], sort_keys=True)
        return digest([content])

    def __getattr__(self, name: str) -> Any:
        if name in _GRADIENTS:
            raise AttributeError(name)
        value = getattr(self._victim, name)
        return (lambda texts: self._ask(value, texts)) if name in _ASKED else value

    def _ask(
        self, ask: Callable[[Sequence[Text]], Floats | None], texts: Sequence[Text]
    ) -> Floats | None:
        read = [self.front_end.read(text) for text in texts]
        rows = {text: row for row, text in enumerate(dict.fromkeys(read))}
        try:
            answer = ask(list(rows))
        except InvalidAnswers as error:
            reasons = {
                text: error.reasons[own]
                for text, own in zip(texts, read, strict=True)
                if own in error.reasons
            }
            raise InvalidAnswers(str(error), reasons) from error
        return None if answer is None else answer[[rows[text] for text in read]]
