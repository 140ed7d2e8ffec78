"""The vocabulary of a word-level tokenizer: the words that have an id, and their counts."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class Vocabulary:
    """A fixed, ordered list of tokens, with the interface of torchtext's `Vocab`.

    Specials come first in the order of the argument, then tokens by falling count. Ties are in
    alphabetical order, so that the order of the texts has no effect.

    Args:
        counts: occurrences of each token.
        specials: tokens that take the first ids, whether they occur or not.
        unk: the special whose id is used for every token that is not in the vocabulary.
        min_count: tokens with fewer occurrences are left out.
        max_size: largest number of tokens, specials included; None for no limit.

    Raises:
        ValueError: `unk` is not a special, a special is named twice, or a limit makes no sense.
    """

    def __init__(
        self,
        counts: Mapping[str, int],
        specials: Sequence[str] = ("<pad>", "<unk>", "<sep>"),
        *,
        unk: str = "<unk>",
        min_count: int = 1,
        max_size: int | None = None,
    ) -> None:
        if unk not in specials or len(set(specials)) != len(specials):
            msg = f"got specials {list(specials)}, expected distinct tokens with {unk!r} among them"
            raise ValueError(msg)
        if min_count < 1 or (max_size is not None and max_size < len(specials)):
            msg = (
                f"got min_count={min_count}, max_size={max_size}, expected min_count >= 1 and a "
                f"max_size of at least the {len(specials)} specials"
            )
            raise ValueError(msg)
        tokens = sorted(
            (token for token, n in counts.items() if n >= min_count and token not in specials),
            # Ties by the token: ids do not depend on the order of the texts.
            key=lambda token: (-counts[token], token),
        )
        room = None if max_size is None else max_size - len(specials)
        self.specials = list(specials)
        self.unk = unk
        self._tokens = [*specials, *tokens[:room]]
        self._counts = [counts.get(token, 0) for token in self._tokens]
        self._index = {token: index for index, token in enumerate(self._tokens)}
        self.default_index = self._index[unk]

    @classmethod
    def build(
        cls,
        texts: Iterable[Iterable[str]],
        specials: Sequence[str] = ("<pad>", "<unk>", "<sep>"),
        *,
        unk: str = "<unk>",
        min_count: int = 1,
        max_size: int | None = None,
    ) -> "Vocabulary":
        """Count the tokens of tokenised texts (see the class for the settings)."""
        counts: Counter[str] = Counter()
        for tokens in texts:
            counts.update(tokens)
        return cls(counts, specials, unk=unk, min_count=min_count, max_size=max_size)

    def __len__(self) -> int:
        return len(self._tokens)

    def __contains__(self, token: object) -> bool:
        return token in self._index

    def __getitem__(self, token: str) -> int:
        """Return the id of a token; that of `unk` for one without."""
        return self._index.get(token, self.default_index)

    def __call__(self, tokens: Iterable[str]) -> list[int]:
        """Return the ids of tokens."""
        # Local names: this loop runs over all words of a corpus.
        find, unknown = self._index.get, self.default_index
        return [find(token, unknown) for token in tokens]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.state() == other.state()

    def __hash__(self) -> int:
        return hash((tuple(self._tokens), self.unk))

    def lookup_token(self, index: int) -> str:
        """Return the token with this id.

        Raises:
            IndexError: no token has it.
        """
        if not 0 <= index < len(self._tokens):
            msg = f"got id {index}, expected 0 <= id < {len(self._tokens)}"
            raise IndexError(msg)
        return self._tokens[index]

    def count(self, token: str) -> int:
        """Return the count of a token when the vocabulary was built; 0 for an unknown one."""
        index = self._index.get(token)
        return 0 if index is None else self._counts[index]

    def get_itos(self) -> list[str]:
        """Return all tokens in the order of their ids (a copy)."""
        return list(self._tokens)

    def words(self) -> list[str]:
        """Return the tokens that are no specials, in the order of their ids."""
        return self._tokens[len(self.specials) :]

    def state(self) -> dict[str, Any]:
        """Return everything needed to rebuild it, as JSON scalars and lists."""
        return {
            "specials": list(self.specials),
            "unk": self.unk,
            "tokens": list(self._tokens),
            "counts": list(self._counts),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Vocabulary":
        """Rebuild a vocabulary, with the very same ids, from `state()`.

        Raises:
            ValueError: the state is not that of a vocabulary.
        """
        try:
            tokens, counts = list(state["tokens"]), list(state["counts"])
            vocabulary = cls({}, state["specials"], unk=state["unk"])
        except (KeyError, TypeError) as error:
            msg = f"got a state that cannot be read ({error!r}), expected one of Vocabulary.state()"
            raise ValueError(msg) from error
        specials = vocabulary.specials
        if tokens[: len(specials)] != specials or not len(set(tokens)) == len(tokens) == len(
            counts
        ):
            msg = "got repeated or misplaced tokens, expected a state of Vocabulary.state()"
            raise ValueError(msg)
        # Never sorted again: the rows of a checkpoint's embedding refer to these ids.
        vocabulary._tokens, vocabulary._counts = tokens, counts
        vocabulary._index = {token: index for index, token in enumerate(tokens)}
        return vocabulary
