"""A chat model as a classifier: a prompt, and a word for each class."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from attacks.victims.answers_by_template import (
    AnswerError,
    class_index,
    columns,
    excerpt,
    number,
    one_label,
)
from attacks.victims.http_settings import HttpSettings, content, put_in
from text import Text

_TOP = 20
"""Tokens whose log-probabilities are asked for: the most that the interface gives."""


class ChatExchange:
    """An OpenAI-style chat endpoint that names a class.

    Args:
        settings: with `chat`, `prompt`, `words`, `chat_scores` and `unclear`.
        classes: names of the classes.

    Raises:
        ValueError: a prompt without the text, words that do not fit the classes, or no model.
    """

    size = 1

    def __init__(self, settings: HttpSettings, classes: Sequence[str]) -> None:
        self.model, self.prompt = settings.chat, content(settings.prompt)
        self.words = list(settings.words or classes)
        if "{text}" not in self.prompt:
            msg = f"got --http.prompt {self.prompt!r:.80}, expected {{text}} in it"
            raise ValueError(msg)
        folded = {word.strip().casefold() for word in self.words} - {""}
        if len(self.words) != len(classes) or len(folded) < len(classes):
            msg = f"got --http.words {self.words}, expected a different word for each of {classes}"
            raise ValueError(msg)
        self.unclear = None
        if settings.unclear is not None:
            self.unclear = class_index(settings.unclear, classes)
        self.outputs: Literal["probabilities", "logits", "labels"] = (
            "probabilities" if settings.chat_scores else "labels"
        )

    def about(self) -> dict[str, Any]:
        """See `Exchange`."""
        return {
            "chat": self.model,
            "prompt": self.prompt,
            "words": self.words,
            "unclear": self.unclear,
            "outputs": self.outputs,
        }

    def body(self, texts: Sequence[Text]) -> Any:
        """See `Exchange`."""
        parts = columns(texts[0])
        if len(parts) > 1 and "{text_pair}" not in self.prompt:
            msg = "got pairs and an --http.prompt without {text_pair}, expected a place for both"
            raise ValueError(msg)
        values = dict(zip(("text", "text_pair"), parts, strict=False))
        prompt = put_in(self.prompt, {**values, "words": ", ".join(self.words)})
        request: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            # Enough for a class name: longer answers are explanations.
            "max_tokens": 16,
        }
        if self.outputs == "probabilities":
            request |= {"logprobs": True, "top_logprobs": _TOP}
        return request

    def rows(self, answer: Any, texts: Sequence[Text]) -> list[list[float] | AnswerError]:
        """See `Exchange`."""
        try:
            choice = answer["choices"][0]
            reply = choice["message"]["content"]
            if self.outputs == "probabilities":
                tokens = [
                    (str(entry["token"]), _logarithm(entry["logprob"]))
                    for entry in choice["logprobs"]["content"][0]["top_logprobs"]
                ]
                return [self._shares(tokens)]
        except AnswerError:
            raise
        except (IndexError, KeyError, TypeError, ValueError) as error:
            path = "choices[0].message.content"
            if self.outputs == "probabilities":
                path += " and choices[0].logprobs.content[0].top_logprobs"
            msg = f"got {excerpt(answer)}, expected {path}: is this a chat endpoint?"
            raise AnswerError(msg) from error
        # Null where the model refuses or calls a tool: not a class of the name "none".
        said = "" if reply is None else str(reply)
        return [one_label(self._named(said), len(self.words))]

    def _named(self, reply: str) -> int:
        """Return the class that an answer names."""
        classes = {
            i
            for i, word in enumerate(self.words)
            if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", reply, re.IGNORECASE)
        }
        # Of "not positive" and "positive" the longer word counts.
        classes -= {
            i
            for i in classes
            for j in classes
            if i != j and self.words[i].casefold() in self.words[j].casefold()
        }
        if len(classes) == 1:
            return classes.pop()
        # Refusals and evasions count as this class, if the user says so.
        if self.unclear is not None:
            return self.unclear
        msg = (
            f"got the answer {reply!r:.200}, which names {'several' if classes else 'no class'}, "
            f"expected one of {', '.join(self.words)}: change --http.prompt or --http.words, or "
            "say by --http.unclear which class such answers count as"
        )
        raise AnswerError(msg)

    def _shares(self, tokens: Sequence[tuple[str, float]]) -> list[float]:
        """Return the share of each class in the first token of the answer.

        A token belongs to the class whose word alone begins with it. A class without any has the
        least listed probability: the true one is not larger.
        """
        mass: Mapping[int, list[float]] = {i: [] for i in range(len(self.words))}
        for token, logarithm in tokens:
            start = token.strip().casefold()
            owners = [i for i, w in enumerate(self.words) if w.casefold().startswith(start)]
            if start and len(owners) == 1:
                mass[owners[0]].append(logarithm)
        if not any(mass.values()):
            msg = (
                f"got the tokens {[token for token, _ in tokens][:5]}, expected the beginning of "
                f"one of {', '.join(self.words)}: change --http.prompt or --http.words"
            )
            raise AnswerError(msg)
        least = min(logarithm for _, logarithm in tokens)
        most = max(logarithm for some in mass.values() for logarithm in some)
        # Relative to the likeliest: each alone may be too small for a number.
        shares = [
            math.fsum(math.exp(logarithm - most) for logarithm in mass[i] or [least])
            for i in range(len(self.words))
        ]
        return [share / math.fsum(shares) for share in shares]


def _logarithm(value: Any) -> float:
    """Return a log-probability; rounding may leave it a little above 0.

    Raises:
        AnswerError: it is none.
    """
    logarithm = number(value)
    if logarithm > 0.01:
        msg = f"got log-probability {logarithm:g}, expected 0 at most"
        raise AnswerError(msg)
    return logarithm
