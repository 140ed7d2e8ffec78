"""Classifiers as functions of embedded tokens, for attacks that mix the embeddings of tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import tokenizers
import torch
from torch import Tensor, nn

from attacks.victims.saliency import Differentiable, returning
from text import Encoding, Span, Text, collate
from text.pretrained_tokenizer import encoding_spans
from text.token_pieces import TokenPiece, read_pieces


@dataclass(frozen=True)
class TokenizedText:
    """A text as its victim reads it.

    Attributes:
        ids: of its N tokens.
        spans: the positions of the tokens in the text.
        logits: turns the embeddings of S texts of these N tokens, `[S, N, d]`, into `[S, C]`.
    """

    ids: Sequence[int]
    spans: Sequence[Span]
    logits: Callable[[Tensor], Tensor]


class TokenModel(Protocol):
    """A victim with a table of token embeddings.

    Attributes:
        module: all its parts, for their mode.
        table: `[V, d]`; the embedding of a token depends on nothing else.
        pieces: the text of each id; None for ids without one.
    """

    module: Any
    table: nn.Embedding
    pieces: Sequence[TokenPiece | None]

    def encode(self, text: Text) -> TokenizedText:
        """Return a text as tokens."""


class ModuleTokens:
    """A module of ours; see `TokenModel`.

    Raises:
        TypeError: not exactly one table of token embeddings.
        ValueError: other tokens than words and pieces of words.
    """

    def __init__(self, module: Differentiable) -> None:
        self.module: Any = module
        self._tokenizer, _ = module.require_text()
        self.pieces: Sequence[TokenPiece | None] = self._tokenizer.token_pieces()
        self.table = self._find_table()

    def encode(self, text: Text) -> TokenizedText:
        """See `TokenModel`."""
        (encoding,), (spans,) = self._tokenizer.encode([text]), self._tokenizer.spans([text])

        def logits(x: Tensor) -> Tensor:
            batch = self._batch([encoding] * len(x))
            with returning(self.table, x.to(self.table.weight.dtype)):
                embedded = self.module.embed(batch)
            answer: Tensor = self.module.classify(embedded, batch.mask)
            return answer.float()

        return TokenizedText(encoding.input_ids, spans, logits)

    def _batch(self, encodings: Sequence[Encoding]) -> Any:
        pad_id, pairs = self._tokenizer.pad_id, self.module.pairs
        return collate(encodings, pad_id=pad_id, pairs=pairs).to(self.module.device)

    def _find_table(self) -> nn.Embedding:
        """Return the layer that turns the ids of a batch into rows of its weights."""
        text: Text = ("a", "a") if self.module.pairs else "a"
        batch, tables = self._batch(self._tokenizer.encode([text])), list[nn.Embedding]()

        def note(table: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
            if torch.equal(inputs[0], batch.input_ids) and _reads(table, inputs[0], output):
                tables.append(table)

        layers = [layer for layer in self.module.modules() if isinstance(layer, nn.Embedding)]
        handles = [layer.register_forward_hook(note) for layer in layers]
        try:
            with torch.no_grad():
                self.module.embed(batch)
        finally:
            for handle in handles:
                handle.remove()
        if len(tables) != 1:
            raise TypeError(_no_table(self.module))
        return tables[0]


class TransformerTokens:
    """A classifier of `transformers` with its tokenizer; see `TokenModel`.

    It reads at most `max_length` tokens.

    Raises:
        TypeError: a slow tokenizer, or a table whose rows the model scales.
    """

    def __init__(self, model: Any, tokenizer: Any, *, max_length: int) -> None:
        self.module, self._tokenizer, self._max_length = model, tokenizer, max_length
        backend: tokenizers.Tokenizer | None = getattr(tokenizer, "backend_tokenizer", None)
        self.table = model.get_input_embeddings()
        ids = torch.tensor([[0, 1]], device=model.device)
        if backend is None or not _reads(self.table, ids, self.table(ids)):
            raise TypeError(_no_table(model))
        self.pieces: Sequence[TokenPiece | None] = read_pieces(backend)

    def encode(self, text: Text) -> TokenizedText:
        """See `TokenModel`."""
        columns = [[text]] if isinstance(text, str) else [[text[0]], [text[1]]]
        coded = self._tokenizer(*columns, truncation=True, max_length=self._max_length)
        row = {name: values[0] for name, values in coded.items()}

        def logits(x: Tensor) -> Tensor:
            batch = {
                name: torch.tensor([values] * len(x), device=self.module.device)
                for name, values in row.items()
            }
            with returning(self.table, x.to(self.table.weight.dtype)):
                answer: Tensor = self.module(**batch).logits
            return answer.float()

        return TokenizedText(row["input_ids"], encoding_spans(coded.encodings)[0], logits)


def _reads(table: Any, ids: Tensor, output: Tensor) -> bool:
    """Return True if a layer has returned the rows of its weights."""
    plain = isinstance(table, nn.Embedding)
    return plain and torch.equal(output, torch.nn.functional.embedding(ids, table.weight))


def _no_table(module: Any) -> str:
    return (
        f"got {type(module).__name__}, whose embedded tokens are not the rows of one table, "
        "expected a classifier with a table of token embeddings and a fast tokenizer"
    )
