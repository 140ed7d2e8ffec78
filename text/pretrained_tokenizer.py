"""The tokenizer of a pretrained backbone: Hugging Face's fast tokenizer behind our interface."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tokenizers

from text.batch import Encoding, Span, Text, WordEncoding, Words
from text.hub_access import hub_reachable
from text.tokenizer import Tokenizer


class PretrainedTokenizer(Tokenizer):
    """A fast tokenizer with its own template ([CLS] ... [SEP], <s> ... </s>, ...).

    Segment ids are the tokenizer's own token types: some backbones (RoBERTa) give both texts of a
    pair type 0, and have no embedding for any other.

    Args:
        definition: the text of a `tokenizer.json`.
        max_length: tokens kept, those of the template included; of a pair the longer text loses
            its end.
        pad_id: the padding id.
        unk_id: stands for a text without a single token, where the template adds none.

    Raises:
        ValueError: the definition cannot be read, or the template alone fills `max_length`.
    """

    def __init__(self, definition: str, max_length: int, *, pad_id: int, unk_id: int) -> None:
        try:
            with _panics_told():
                self._backend = tokenizers.Tokenizer.from_str(definition)
        except Exception as error:  # the library raises bare Exception
            msg = f"got a definition that cannot be read ({error}), expected a tokenizer.json"
            raise ValueError(msg) from error
        self._backend.no_padding()
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
        ids = self._backend.get_vocab(with_added_tokens=True).values()
        self.vocab_size = 1 + max(max(ids, default=0), pad_id, unk_id)
        self.encode(["a", ("a", "b")])  # what contradicts itself shows only when it is used
        self._whole: tokenizers.Tokenizer | None = None
        self._words: tokenizers.Tokenizer | None = None

    @classmethod
    def from_pretrained(cls, name_or_path: str, *, max_length: int = 128) -> "PretrainedTokenizer":
        """Take a backbone's tokenizer from a folder, or from the hub by its name.

        Args:
            name_or_path: a folder with `tokenizer.json` (or what it can be made from), or a hub id.
            max_length: see the class; not above what the backbone was made for.

        Raises:
            ValueError: neither a folder nor reachable on the hub, no fast tokenizer, one without a
                word, or `max_length` above the backbone's.
        """
        from transformers import AutoTokenizer, PreTrainedTokenizerFast

        local = Path(name_or_path).is_dir() or not hub_reachable()
        try:
            # Said, not left open: where it is open, transformers asks at the terminal.
            wrapped = AutoTokenizer.from_pretrained(
                name_or_path, local_files_only=local, trust_remote_code=False
            )
        # Files that anyone may have written lead it to exceptions of any kind.
        except Exception as error:
            kind = "folder" if Path(name_or_path).is_dir() else "hub id or folder"
            reason = " ".join(str(error).split()) or type(error).__name__
            msg = (
                f"got {kind} {name_or_path!r} from which no tokenizer could be loaded "
                f"({reason:.300}), expected a folder with tokenizer.json or "
                "a reachable hub id: give the path of a downloaded backbone, or connect to the hub "
                "once so that it is kept in the local cache"
            )
            raise ValueError(msg) from error
        if not isinstance(wrapped, PreTrainedTokenizerFast):
            kind = type(wrapped).__name__
            msg = f"got {name_or_path!r} with tokenizer {kind}, expected a fast tokenizer"
            raise ValueError(msg)
        # Without files of a tokenizer, transformers makes one up that maps all texts to one.
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
        # Decoders come without a padding token; the mask hides whatever stands there.
        known = (wrapped.pad_token_id, wrapped.unk_token_id, wrapped.eos_token_id, 0)
        fallback = next(token for token in known if token is not None)
        return cls(
            wrapped.backend_tokenizer.to_str(),
            max_length,
            pad_id=fallback if wrapped.pad_token_id is None else wrapped.pad_token_id,
            unk_id=fallback if wrapped.unk_token_id is None else wrapped.unk_token_id,
        )

    def encode(self, texts: Sequence[Text]) -> list[Encoding]:
        """Encode texts, pairs or both."""
        with _panics_told():
            batch = self._backend.encode_batch(list(texts))
        return [
            Encoding(coded.ids, coded.type_ids, bool(coded.overflowing))
            if coded.ids
            else Encoding([self.unk_id], [0])
            for coded in batch
        ]

    def encode_words(self, sentences: Sequence[Words]) -> list[WordEncoding]:
        """See `Tokenizer.encode_words`; a word that names a special token is text like any other.

        Words are encoded apart and put together here: from the ids of a whole sentence it could
        not be told whether a word without token has vanished or was cut off.
        """
        with _panics_told():
            if self._words is None:
                self._words = _whole(_words_apart(self._definition))
            coded = self._backend.encode("a")
            different = list({word: None for sentence in sentences for word in sentence.words})
            found = self._words.encode_batch(
                [[word] for word in different], is_pretokenized=True, add_special_tokens=False
            )
        pieces = {
            word: one.ids or [self.unk_id] for word, one in zip(different, found, strict=True)
        }
        own = [i for i, special in enumerate(coded.special_tokens_mask) if not special]
        first, last = own[0], own[-1] + 1
        room = self.max_length - len(coded.ids) + last - first
        worded = []
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
            kept = tuple(start for start in starts if start < length)
            worded.append(WordEncoding(encoding, kept))
        return worded

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that stand for no text: padding, unknown, the template's, the mask."""
        added = self._backend.get_added_tokens_decoder()
        named = {token for token, about in added.items() if about.special}
        return frozenset(named | {self.pad_id, self.unk_id})

    @property
    def mask_id(self) -> int | None:
        """The id of [MASK] or <mask>; None for a tokenizer without one."""
        found = (self._backend.token_to_id(name) for name in ("[MASK]", "<mask>"))
        return next((token for token in found if token in self.special_ids), None)

    @property
    def template(self) -> tuple[list[int], list[int]]:
        """The ids that stand before and behind a single text; empty for one without template."""
        with _panics_told():
            coded = self._backend.encode("a")
        own = [i for i, special in enumerate(coded.special_tokens_mask) if not special]
        return coded.ids[: own[0]], coded.ids[own[-1] + 1 :]

    @property
    def splits_at_spaces(self) -> bool:
        """True if the ids of a text are those of its words, whatever their neighbours.

        So it is with BERT's normaliser and pre-tokeniser, which look at nothing beyond a space.
        """
        parts = json.loads(self._definition)
        kinds = [(parts.get(name) or {}).get("type") for name in ("normalizer", "pre_tokenizer")]
        plain = all(token["special"] for token in parts.get("added_tokens", ()))
        return plain and kinds == ["BertNormalizer", "BertPreTokenizer"]

    def pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts without template and however long, for texts that are put together.

        The name of a special token within a text, as in a page about BERT, is text like any other.
        """
        with _panics_told():
            if self._whole is None:
                self._whole = _whole(self._definition)
            coded = self._whole.encode_batch_fast(list(texts), add_special_tokens=False)
        return [one.ids for one in coded]

    def spans(self, texts: Sequence[Text]) -> list[list[Span]]:
        """See `Tokenizer.spans`."""
        return [
            [
                Span(0, 0, 0) if text is None else Span(text, *offsets)
                for text, offsets in zip(coded.sequence_ids, coded.offsets, strict=True)
            ]
            or [Span(0, 0, 0)]
            for coded in self._backend.encode_batch(list(texts))
        ]

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
            state["definition"],
            state["max_length"],
            pad_id=state["pad_id"],
            unk_id=state["unk_id"],
        )


def _whole(definition: str) -> tokenizers.Tokenizer:
    """A tokenizer that cuts nothing, and to which the name of a special token is text."""
    backend = tokenizers.Tokenizer.from_str(definition)
    backend.no_padding()
    backend.no_truncation()
    backend.encode_special_tokens = True
    return backend


def _words_apart(definition: str) -> str:
    """A definition to which each given word is one behind a space.

    Byte-level and SentencePiece vocabularies know a word by the space before it; within a sentence
    only its first word would have none.
    """
    parts = json.loads(definition)
    before = parts.get("pre_tokenizer") or {}
    for step in before.get("pretokenizers", [before]):
        if step.get("type") == "ByteLevel":
            step["add_prefix_space"] = True
        elif step.get("type") == "Metaspace":
            step["prepend_scheme"] = "always"
    return json.dumps(parts)


@contextmanager
def _panics_told() -> Iterator[None]:
    """Turn a panic of the library, which is no `Exception`, into a ValueError.

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
