"""The tokenizer of a pretrained backbone: Hugging Face's fast tokenizer with our interface."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tokenizers

from text.batch import Encoding, Span, Text, WordEncoding, Words
from text.error_reasons import describe_error
from text.hub_access import hub_reachable
from text.token_pieces import TokenPiece, read_pieces
from text.tokenizer import Tokenizer


class PretrainedTokenizer(Tokenizer):
    """A fast tokenizer with its own template ([CLS] ... [SEP], <s> ... </s>, ...).

    Segment ids are the tokenizer's own token types: some backbones (RoBERTa) have type 0 only, for
    both texts of a pair.

    Args:
        definition: the text of a `tokenizer.json`.
        max_length: tokens kept, those of the template included; of a pair the longer text loses
            its end.
        pad_id: the padding id.
        unk_id: the single token of a text without any, where the template adds none.

    Raises:
        ValueError: the definition cannot be read, or the template alone fills `max_length`.
    """

    def __init__(self, definition: str, max_length: int, *, pad_id: int, unk_id: int) -> None:
        try:
            with _catch_panics():
                self._backend = tokenizers.Tokenizer.from_str(definition)
        except Exception as error:  # the library raises bare Exception
            msg = f"got a definition that cannot be read ({error}), expected a tokenizer.json"
            raise ValueError(msg) from error
        self._backend.no_padding()
        # Room for the template of a pair and one token of each text.
        template = self._backend.num_special_tokens_to_add(is_pair=True)
        if max_length < template + 2:
            msg = (
                f"got max_length={max_length}, expected at least {template + 2} for this tokenizer"
            )
            raise ValueError(msg)
        self._backend.enable_truncation(max_length, strategy="longest_first")
        self._definition = definition
        self.max_length = max_length
        self.pad_id = pad_id
        self.unk_id = unk_id
        # Ids may have gaps: the greatest one decides.
        ids = self._backend.get_vocab(with_added_tokens=True).values()
        self.vocab_size = 1 + max(max(ids, default=0), pad_id, unk_id)
        self.encode(["a", ("a", "b")])  # a contradictory definition fails only when it is used
        # Further backends, made when they are first needed.
        self._unlimited: tokenizers.Tokenizer | None = None
        self._words: tokenizers.Tokenizer | None = None

    @classmethod
    def from_pretrained(cls, name_or_path: str, *, max_length: int = 128) -> "PretrainedTokenizer":
        """Load a backbone's tokenizer from a folder, or from the hub by its name.

        Args:
            name_or_path: a folder with `tokenizer.json` or the files of its model, or a hub id.
            max_length: see the class; at most the longest input of the backbone.

        Raises:
            ValueError: neither a folder nor reachable on the hub, no fast tokenizer, one without
                words, or a `max_length` above the backbone's.
        """
        from transformers import AutoTokenizer, PreTrainedTokenizerFast

        local = Path(name_or_path).is_dir() or not hub_reachable()
        try:
            # Explicit `trust_remote_code`: with its default, transformers asks at the terminal.
            wrapped = AutoTokenizer.from_pretrained(
                name_or_path, local_files_only=local, trust_remote_code=False
            )
        # Foreign files lead the library to exceptions of any kind.
        except Exception as error:
            kind = "folder" if Path(name_or_path).is_dir() else "hub id or folder"
            msg = (
                f"got {kind} {name_or_path!r} from which no tokenizer could be loaded "
                f"({describe_error(error):.300}), expected a folder with tokenizer.json or "
                "a reachable hub id: give the path of a downloaded backbone, or connect to the hub "
                "once so that it is kept in the local cache"
            )
            raise ValueError(msg) from error
        if not isinstance(wrapped, PreTrainedTokenizerFast):
            kind = type(wrapped).__name__
            msg = f"got {name_or_path!r} with tokenizer {kind}, expected a fast tokenizer"
            raise ValueError(msg)
        # If the files are missing, transformers invents a tokenizer that maps all texts to one.
        if wrapped.get_vocab().keys() <= set(wrapped.all_special_tokens):
            where = "folder" if Path(name_or_path).is_dir() else "hub id"
            msg = (
                f"got {where} {name_or_path!r}, whose tokenizer has special tokens alone and knows "
                "no text, expected the tokenizer's files beside config.json: tokenizer.json, or "
                "what it can be made from, such as vocab.txt (BERT), vocab.json and merges.txt "
                "(RoBERTa) or a SentencePiece model (ALBERT): copy those of the backbone"
            )
            raise ValueError(msg)
        if max_length > wrapped.model_max_length:
            msg = (
                f"got max_length={max_length}, expected at most {wrapped.model_max_length}, "
                f"the longest input of {name_or_path!r}: pass --model.max_length "
                f"{wrapped.model_max_length}"
            )
            raise ValueError(msg)
        # Decoders have no padding token. Any id will do: the mask hides it.
        candidates = (wrapped.pad_token_id, wrapped.unk_token_id, wrapped.eos_token_id, 0)
        fallback = next(token for token in candidates if token is not None)
        return cls(
            wrapped.backend_tokenizer.to_str(),
            max_length,
            pad_id=fallback if wrapped.pad_token_id is None else wrapped.pad_token_id,
            unk_id=fallback if wrapped.unk_token_id is None else wrapped.unk_token_id,
        )

    def encode(self, texts: Sequence[Text]) -> list[Encoding]:
        """Encode texts, pairs or both."""
        with _catch_panics():
            batch = self._backend.encode_batch(list(texts))
        return [
            Encoding(coded.ids, coded.type_ids, bool(coded.overflowing))
            if coded.ids
            else Encoding([self.unk_id], [0])
            for coded in batch
        ]

    def encode_words(self, sentences: Sequence[Words]) -> list[WordEncoding]:
        """See `Tokenizer.encode_words`; the name of a special token is text like any other word."""
        # Words are encoded separately and joined here: the ids of a full sentence would not show
        # whether a word without a token has vanished or was cut off.
        with _catch_panics():
            if self._words is None:
                self._words = _unlimited(_separate_words(self._definition))
            coded = self._backend.encode("a")
            words = list({word: None for sentence in sentences for word in sentence.words})
            batch = self._words.encode_batch(
                [[word] for word in words], is_pretokenized=True, add_special_tokens=False
            )
        pieces = {
            word: encoded.ids or [self.unk_id] for word, encoded in zip(words, batch, strict=True)
        }
        # The template is around the token of "a": [CLS] a [SEP].
        own = [i for i, special in enumerate(coded.special_tokens_mask) if not special]
        first, last = own[0], own[-1] + 1
        room = self.max_length - len(coded.ids) + last - first
        encodings = []
        for sentence in sentences:
            ids, starts = coded.ids[:first], []
            for word in sentence.words:
                starts.append(len(ids))
                ids.extend(pieces[word])
            length = min(len(ids), first + room)
            types = [coded.type_ids[first]] * (length - first)
            encoding = Encoding(
                ids[:length] + coded.ids[last:],
                coded.type_ids[:first] + types + coded.type_ids[last:],
                len(ids) > length,
            )
            encodings.append(WordEncoding(encoding, tuple(i for i in starts if i < length)))
        return encodings

    @property
    def unk_token(self) -> str | None:
        """The text that is read as the unknown token; None if there is none."""
        token = self._backend.id_to_token(self.unk_id)
        return token if self.unk_id in self._backend.get_added_tokens_decoder() else None

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that represent no text: padding, unknown, those of the template, the mask."""
        added = self._backend.get_added_tokens_decoder()
        special = {index for index, token in added.items() if token.special}
        return frozenset(special | {self.pad_id, self.unk_id})

    @property
    def mask_id(self) -> int | None:
        """The id of [MASK], <mask> or <|mask|>; None for a tokenizer without one."""
        names = ("[MASK]", "<mask>", "<|mask|>")
        candidates = (self._backend.token_to_id(name) for name in names)
        return next((token for token in candidates if token in self.special_ids), None)

    @property
    def template(self) -> tuple[list[int], list[int]]:
        """The ids before and after those of a single text; empty lists without a template."""
        with _catch_panics():
            coded = self._backend.encode("a")
        own = [i for i, special in enumerate(coded.special_tokens_mask) if not special]
        return coded.ids[: own[0]], coded.ids[own[-1] + 1 :]

    @property
    def splits_at_spaces(self) -> bool:
        """True if the ids of a word never depend on its neighbours."""
        # BERT's normaliser and pre-tokeniser look at nothing beyond a space.
        parts = json.loads(self._definition)
        kinds = [(parts.get(name) or {}).get("type") for name in ("normalizer", "pre_tokenizer")]
        plain = all(token["special"] for token in parts.get("added_tokens", ()))
        return plain and kinds == ["BertNormalizer", "BertPreTokenizer"]

    def whole_words(self) -> dict[str, int]:
        """Return the words that are one token within a text, with its id."""
        names = self._backend.get_vocab(with_added_tokens=False)
        # RoBERTa and SentencePiece mark where a word begins, BERT where it continues.
        marks = [mark for mark in ("\u0120", "\u2581") if any(n.startswith(mark) for n in names)]
        mark = marks[0] if marks else ""
        words = ((name.removeprefix(mark), i) for name, i in names.items() if name.startswith(mark))
        return {word: index for word, index in words if word.isalpha()}

    def continuations(self) -> frozenset[int]:
        """Return the ids of tokens of letters that continue a word of which another has begun."""
        begin = set(self.whole_words().values()) | self.special_ids
        names = self._backend.get_vocab(with_added_tokens=False)
        return frozenset(
            index
            for name, index in names.items()
            if index not in begin and name.lstrip("#\u0120\u2581").isalpha()
        )

    def pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts, without template and uncut, for texts that are concatenated.

        The name of a special token within a text, as in a page about BERT, is text like any other.
        """
        with _catch_panics():
            if self._unlimited is None:
                self._unlimited = _unlimited(self._definition)
            batch = self._unlimited.encode_batch_fast(list(texts), add_special_tokens=False)
        return [coded.ids for coded in batch]

    def spans(self, texts: Sequence[Text]) -> list[list[Span]]:
        """See `Tokenizer.spans`."""
        batch = self._backend.encode_batch(list(texts))
        return [spans or [Span(0, 0, 0)] for spans in encoding_spans(batch)]

    def token_pieces(self) -> list[TokenPiece | None]:
        """See `Tokenizer.token_pieces`."""
        return read_pieces(self._backend)

    def state(self) -> dict[str, Any]:
        """See `Tokenizer.state`."""
        return {
            "kind": "pretrained",
            "max_length": self.max_length,
            "pad_id": self.pad_id,
            "unk_id": self.unk_id,
            "definition": self._definition,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "PretrainedTokenizer":
        """Rebuild from `state()`."""
        return cls(
            state["definition"], state["max_length"], pad_id=state["pad_id"], unk_id=state["unk_id"]
        )


def encoding_spans(encodings: Sequence[tokenizers.Encoding]) -> list[list[Span]]:
    """Return the position of each token of texts that a fast tokenizer has encoded."""
    return [
        [
            Span(0, 0, 0) if text is None else Span(text, *offsets)
            for text, offsets in zip(coded.sequence_ids, coded.offsets, strict=True)
        ]
        for coded in encodings
    ]


def _unlimited(definition: str) -> tokenizers.Tokenizer:
    """Return a backend that cuts nothing and reads the name of a special token as text."""
    backend = tokenizers.Tokenizer.from_str(definition)
    backend.no_padding()
    backend.no_truncation()
    backend.encode_special_tokens = True
    return backend


def _separate_words(definition: str) -> str:
    """Return a definition that encodes a separate word as if a space came before it."""
    # Byte-level and SentencePiece vocabularies spell a word within a sentence with that space.
    parts = json.loads(definition)
    before = parts.get("pre_tokenizer") or {}
    for step in before.get("pretokenizers", [before]):
        if step.get("type") == "ByteLevel":
            step["add_prefix_space"] = True
        elif step.get("type") == "Metaspace":
            step["prepend_scheme"] = "always"
    return json.dumps(parts)


@contextmanager
def _catch_panics() -> Iterator[None]:
    """Turn a panic of the library, a bare `BaseException`, into a ValueError.

    Raises:
        ValueError: the tokenizer's definition contradicts itself.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        msg = f"got a tokenizer that contradicts itself ({error}), expected a sound tokenizer.json"
        raise ValueError(msg) from error
