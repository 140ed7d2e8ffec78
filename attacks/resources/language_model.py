"""Predicts words for a mask by a masked language model."""

import json
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from string import punctuation
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer
from torch import Tensor

from attacks.digests import digest
from attacks.document import count_words, word_spans
from attacks.victims.batches import Batches, pad_rows
from layers.architectures import check_guesses_words
from layers.positions import shortest_limit
from layers.quiet_transformers import quiet

_MARKS = ("\u0120", "\u2581")
"""Signs for a space in byte-level and SentencePiece vocabularies."""
Query = tuple[str, int]
"""A text with the mask in it, and the position of the mask."""


def load_masked_lm(
    name_or_path: str | Path, *, device: torch.device | str | None = None
) -> tuple[Any, Any]:
    """Load a masked language model and its tokenizer, from a folder or the hub's local cache.

    Never downloads anything. The device is the GPU if there is one.

    Raises:
        FileNotFoundError: model not found.
        ValueError: a decoder; or its weights have no masked-language-model head, as those of
            sentence encoders; or its tokenizer has no mask.
    """
    from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer

    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    config = None
    try:
        with quiet():  # the error below names missing weights
            config = AutoConfig.from_pretrained(name_or_path, **local)
            tokenizer = AutoTokenizer.from_pretrained(name_or_path, **local)
            model, report = AutoModelForMaskedLM.from_pretrained(
                name_or_path, dtype=torch.float32, output_loading_info=True, **local
            )
    except (OSError, ValueError) as error:
        if config is not None:
            check_guesses_words(config)
        reason = str(error).strip().splitlines()[0]
        # The library takes the path of a missing folder for a name on the hub, a wrong one.
        if len(Path(name_or_path).parts) > 2 and not Path(name_or_path).exists():
            reason = "no such folder"
        msg = (
            f"got {str(name_or_path)!r}, from which no masked language model could be loaded "
            f"({reason}); expected a folder with config.json, weights "
            "and tokenizer, or a model in the hub's local cache"
        )
        raise FileNotFoundError(msg) from error
    missing = sorted(name for name in report["missing_keys"] if name.endswith("weight"))
    if missing:
        msg = (
            f"got {str(name_or_path)!r}, whose weights have no masked-language-model head "
            f"({missing[0]} is missing), expected a masked language model such as "
            "bert-base-uncased: a head of random numbers proposes random words"
        )
        raise ValueError(msg)
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(device), tokenizer


class _Masked(NamedTuple):
    """Token ids of a text, the position of its mask, and whether a space precedes the mask."""

    ids: list[int]
    position: int
    spaced: bool


class MaskFiller:
    """Fill masked texts with words; compute each text once.

    Args:
        model: model of `transformers` with a masked-language-model head; used in evaluation mode.
        tokenizer: fast tokenizer of the model.
        k: words of an answer.
        minimum_confidence: probability below which a word is not proposed.
        whole_words: answer with whole words only, not with pieces such as "##ing".
        middle: show the part of a long text around the mask; else its beginning, and a mask behind
            that gets no words.
        max_length: tokens that the model is shown; all it takes if None.
        batch_size: texts per forward pass at first; halved when memory runs out. If not given 256,
            on a CPU 32.
        remembered: texts whose answers are kept, the latest used ones.

    Attributes:
        mask: the mask token.
        computed: texts that went through the model so far.

    Raises:
        ValueError: settings that allow no answer, or a tokenizer without mask.
        TypeError: a slow tokenizer.
    """

    described_as = "MaskedLM"

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        k: int,
        *,
        minimum_confidence: float = 0.0,
        whole_words: bool = True,
        middle: bool = True,
        max_length: int | None = None,
        batch_size: int | None = None,
        remembered: int = 1 << 14,
    ) -> None:
        if k < 1 or not 0 <= minimum_confidence < 1:
            msg = f"got {k=}, {minimum_confidence=}, expected k >= 1 and a probability below 1"
            raise ValueError(msg)
        kind = type(tokenizer).__name__
        if not getattr(tokenizer, "is_fast", False):
            msg = f"got {kind}, expected a fast tokenizer"
            raise TypeError(msg)
        if tokenizer.mask_token is None:
            msg = f"got a {kind} without mask token, expected that of a masked language model"
            raise ValueError(msg)
        self.model, self.mask, self.k, self.middle = model.eval(), tokenizer.mask_token, k, middle
        self.minimum_confidence, self._remembered, self.computed = minimum_confidence, remembered, 0
        self._mask_id, self._pad_id = tokenizer.mask_token_id, tokenizer.pad_token_id or 0
        # A copy: padding and truncation are settings that others of its users change.
        self._backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self._backend.no_padding()
        self._backend.no_truncation()
        self.max_length = shortest_limit(model, tokenizer, max_length, 512)
        if self.max_length < 8:
            msg = f"got max_length={self.max_length}, expected at least 8 tokens"
            raise ValueError(msg)
        self._words, spaced, glued = _vocabulary(tokenizer, model.config, whole_words=whole_words)
        self._usable = torch.stack([glued, spaced]).to(model.device)
        # RoBERTa and ModernBERT spell the first word of a text without the mark of a space.
        first = self._backend.encode("a", add_special_tokens=False).tokens
        self._spaced_start = not first or first[0].startswith(_MARKS) or torch.equal(glued, spaced)
        device = model.device.type
        if batch_size is None:
            batch_size = 32 if device == "cpu" else 256
        self._batches = Batches(batch_size, device)
        self._known: OrderedDict[Query, list[str]] = OrderedDict()

    def about(self) -> dict[str, Any]:
        """See `attacks.fingerprint`."""
        return {
            "k": self.k,
            "minimum_confidence": self.minimum_confidence,
            "words": digest([*self._words, str(self._usable.tolist())]),
            "middle": self.middle,
            **({} if self._spaced_start else {"spaced_start": False}),
            "max_length": self.max_length,
            "model": self.model,
        }

    def fill(self, masked: Sequence[Query]) -> dict[Query, list[str]]:
        """Return the likeliest words of each masked text, the likeliest first."""
        answers = {}
        for query in dict.fromkeys(masked):
            if query in self._known:
                self._known.move_to_end(query)
                answers[query] = self._known[query]
        new = [query for query in dict.fromkeys(masked) if query not in answers]
        if new:
            encodings = self._backend.encode_batch([text for text, _ in new])
            coded = [
                self._around(encoding, *query)
                for encoding, query in zip(encodings, new, strict=True)
            ]
            usable = [code for code in coded if code is not None]
            rows: list[list[int]] = []
            if usable:
                rows = self._batches.run(self._forward, usable, lambda code: len(code.ids)).tolist()
                self.computed += len(usable)
            results = iter(rows)
            for query, code in zip(new, coded, strict=True):
                ids = [] if code is None else next(results)
                answers[query] = self._known[query] = [self._words[i] for i in ids if i >= 0]
            while len(self._known) > self._remembered:
                self._known.popitem(last=False)
        return answers

    def _around(self, coded: Any, text: str, start: int) -> _Masked | None:
        """Return the token ids around the mask; None where it is cut off."""
        end = start + len(self.mask)
        # The template's tokens ([CLS], [SEP]) belong to no text; RoBERTa's mask to the space, too.
        own = [i for i, number in enumerate(coded.sequence_ids) if number is not None]
        position = next(
            i
            for i, (token, (first, last)) in enumerate(zip(coded.ids, coded.offsets, strict=True))
            if token == self._mask_id and first < end and last > start
        )
        head, tail = own[0], len(coded.ids) - own[-1] - 1
        room = self.max_length - head - tail
        begin = 0
        if len(own) > room and self.middle:
            # The mask in the middle, as far as the ends of the text allow.
            begin = max(min(position - head - room // 2, len(own) - room), 0)
        inner = coded.ids[head + begin : min(head + begin + room, head + len(own))]
        position -= begin
        if position >= head + len(inner):
            return None
        ids = [*coded.ids[:head], *inner, *coded.ids[len(coded.ids) - tail :]]
        spaced = text[start - 1].isspace() if start else self._spaced_start
        return _Masked(ids, position, spaced)

    @torch.no_grad()
    def _forward(self, chunk: Sequence[_Masked]) -> Tensor:
        """Return `[B, k]` ids of the likeliest words; -1 where there are fewer."""
        ids, mask = pad_rows([code.ids for code in chunk], self._pad_id, self.model.device)
        positions = torch.tensor([code.position for code in chunk], device=ids.device)
        row = torch.arange(len(chunk), device=ids.device)
        logits = logits_at(self.model, ids, mask, row, positions)
        # Row 1 for masks after a space, row 0 for others: `_vocabulary`.
        usable = self._usable[torch.tensor([int(code.spaced) for code in chunk], device=ids.device)]
        # [B, k]
        best = logits.masked_fill(~usable, -torch.inf).topk(min(self.k, logits.shape[1]), dim=1)
        # Log-probability: a softmax over the whole vocabulary.
        confidence = best.values - logits.logsumexp(dim=1, keepdim=True)
        enough = best.values.isfinite() & (confidence.exp() >= self.minimum_confidence)
        return torch.where(enough, best.indices, -1)


def logits_at(model: Any, ids: Tensor, mask: Tensor, rows: Tensor, positions: Tensor) -> Tensor:
    """Return `[M, V]` logits of single tokens by a model with a head of V words.

    The last layer sees these tokens alone: it is as wide as the vocabulary.

    Args:
        model: of `transformers`.
        ids: `[B, N]` token ids.
        mask: `[B, N]`, True for tokens.
        rows: `[M]` text of each token.
        positions: `[M]` its position.
    """
    picked = False

    def pick(_module: Any, inputs: tuple[Tensor, ...]) -> Any:
        nonlocal picked
        if inputs[0].ndim != 3:
            return None
        picked = True
        return (inputs[0][rows, positions].unsqueeze(1),)

    head = model.get_output_embeddings()
    handle = head.register_forward_pre_hook(pick) if head is not None else None
    try:
        logits = model(input_ids=ids, attention_mask=mask.long()).logits
    finally:
        if handle is not None:
            handle.remove()
    selected: Tensor = logits[:, 0] if picked else logits[rows, positions]
    return selected.float()


def _vocabulary(
    tokenizer: Any, config: Any, *, whole_words: bool
) -> tuple[list[str], Tensor, Tensor]:
    """Return the word of each token id, and the words that may be proposed.

    Returns:
        The `size` words, and `[size]` bool twice: after white space, and without it, where
        byte-level vocabularies have tokens of their own.
    """
    size: int = config.vocab_size
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    layers = json.dumps([state["normalizer"], state["pre_tokenizer"], state["decoder"]])
    tokens: list[str] = tokenizer.convert_ids_to_tokens(range(min(len(tokenizer), size)))
    special = set(tokenizer.all_special_ids)
    if state["model"]["type"] == "WordPiece":
        prefix = state["model"]["continuing_subword_prefix"]
        begins = [not token.startswith(prefix) for token in tokens]
        words = [token.removeprefix(prefix) for token in tokens]
        marked = False
    elif "ByteLevel" in layers:
        begins = [token.startswith(_MARKS) for token in tokens]
        words = [tokenizer.convert_tokens_to_string([token]).strip() for token in tokens]
        marked = True
    # The tokenizer of Gemma and mmBERT replaces spaces by SentencePiece's mark in its normaliser.
    elif "Metaspace" in layers or json.dumps("\u2581")[1:-1] in layers:
        begins = [token.startswith(_MARKS) for token in tokens]
        words = [token.replace("\u2581", " ").strip() for token in tokens]
        marked = True
    else:
        begins, words, marked = [True] * len(tokens), tokens, False
    fit = [
        # "`" is a word to the splitter, and a mark to the reference.
        i not in special
        and (_whole(word) if whole_words else count_words(word) == 1 and not _marks(word))
        for i, word in enumerate(words)
    ]
    beginnings = {word for word, begin in zip(words, begins, strict=True) if begin}
    spaced = [ok and (begin or not whole_words) for ok, begin in zip(fit, begins, strict=True)]
    glued = spaced
    if whole_words and marked:
        # Tokens without the mark of a space are words if they exist with it; the rest are pieces.
        glued = [
            ok and not begin and word in beginnings
            for ok, begin, word in zip(fit, begins, words, strict=True)
        ]
    short = [False] * (size - len(tokens))
    return (
        [*words, *[""] * len(short)],
        torch.tensor([*spaced, *short]),
        torch.tensor([*glued, *short]),
    )


def _marks(word: str) -> bool:
    """Return True for a token of marks alone."""
    return set(word) <= set(punctuation)


def _whole(word: str) -> bool:
    """Return True for a token that is one word with a letter in it."""
    return word_spans(word) == [(0, len(word))] and any(map(str.isalpha, word))
