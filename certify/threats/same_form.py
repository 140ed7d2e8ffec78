"""Strings with the same canonical form."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from certify.threats.substitutions import Substitutions, Words, WordSet
from certify.threats.text_certificate import Kind, TextCertificate
from certify.threats.threat import Threat
from text import Tokenizer, WordSettings, WordTokenizer, cuts_unsaid
from text.corrector import Reach

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SameForm(WordSet):
    """Every string with the canonical form of a word: other case, accents, look-alikes.

    To a model with a front end these strings are the word itself. So this set alone is free of
    charge, and in a union each other set has it already: a typo and a look-alike in one word.

    Attributes:
        words: the words of the model, with a front end.

    Raises:
        ValueError: words without a front end.
    """

    words: WordSettings
    covers_display: ClassVar[bool] = True  # type: ignore[misc] # the same for all
    name: ClassVar[str] = "canonical"  # type: ignore[misc] # the same for all
    statement: ClassVar[str] = (  # type: ignore[misc] # the same for all
        "by a string with the same canonical form (case, accents, look-alikes, invisible "
        "characters)"
    )

    def __post_init__(self) -> None:
        """Check the words."""
        if self.words.front_end == "none":
            msg = (
                "got canonical for words.front_end=none, expected a model with "
                "words.front_end=canonical or spelling"
            )
            raise ValueError(msg)

    @property
    def content(self) -> Any:
        """See `WordSet`."""
        return [self.name]

    def contains(self, word: str, changed: Words) -> bool:
        """See `WordSet`: words are compared in their canonical form, so none is another one."""
        return False

    def reach(self, words: Sequence[str], tokenizer: WordTokenizer) -> Reach:
        """See `WordSet`."""
        import torch

        ids = torch.tensor(tokenizer.ids(words), dtype=torch.int64)
        rows = torch.stack([ids, torch.full_like(ids, -1)], dim=1)
        return Reach(rows, torch.arange(len(words) + 1))

    def witness(self, word: str, ids: tuple[int, ...], tokenizer: WordTokenizer) -> str | None:
        """See `WordSet`."""
        return word if tuple(tokenizer.ids([word])) == ids else None


class SameFormCertifier:
    """Certifies any model behind a front end against nothing but `SameForm`.

    The model gets one and the same input for all texts of the set, so that each certificate holds
    for any number of changes. `answer` returns the logits `[n, C]` of n texts.

    Raises:
        ValueError: a threat about other words than those of the model.
    """

    kind: Kind = "exact"

    def __init__(
        self, answer: "Callable[[list[str]], Tensor]", tokenizer: Tokenizer, threat: Threat
    ) -> None:
        words = tokenizer.splitter.settings if isinstance(tokenizer, WordTokenizer) else None
        threat.check_words(words)
        self._answer, self._tokenizer = answer, tokenizer

    def __call__(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """See `TextCertifier`."""
        encodings = self._tokenizer.encode(texts)
        with cuts_unsaid():
            predictions = self._answer(list(texts)).argmax(dim=1)
        return [
            TextCertificate(
                text=text,
                prediction=int(prediction),
                holds=(True,) * len(ks),
                certified=None,
                kind=self.kind,
                cut=encoding.truncated,
                unknown=encoding.input_ids.count(self._tokenizer.unk_id),
            )
            for text, prediction, encoding in zip(texts, predictions, encodings, strict=True)
        ]


def is_same_form(threat: Threat) -> bool:
    """Return True for a threat of strings with the same canonical form, and no others."""
    return isinstance(threat, Substitutions) and all(
        isinstance(part, SameForm) for part in threat.sets
    )
