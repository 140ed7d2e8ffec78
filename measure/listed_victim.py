"""Certify a classifier of `transformers` by a list of its inputs."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from attacks.fingerprint import weights_digest
from attacks.victims.kinds import HuggingFaceVictim
from certify.encoding import ListedModel
from measure.named_victims import named_victim
from measure.victim_front_end import VictimFrontEnd, find_words
from run_files.weights import Weights
from text import EncodedWords, Encoding, FrontEnd, Span, Text, Tokenizer, WordSettings

TOKENS = 1 << 13
"""Tokens of a forward pass."""


class ListedVictim(NamedTuple):
    """A classifier of `transformers`, in float64, that reads the words of a text alone."""

    model: ListedModel
    classes: list[str]
    weights: Weights
    words: WordSettings

    @classmethod
    def load(cls, name: str, *, vocabulary: str | None, runs_dir: Path, device: Any) -> Self:
        """Load `hf:FOLDER_OR_ID`; put a corrector in front of it if there is a vocabulary.

        `vocabulary` is a run, or a file with the words of the corrector.

        Raises:
            ValueError: another kind of victim, or see `named_victim`.
            OSError: the vocabulary is not found.
        """
        named = named_victim(name, runs_dir=runs_dir, device=device, batch_size=64)
        victim = named.victim
        if not isinstance(victim, HuggingFaceVictim):
            msg = f"got --victim {name} for --list, expected hf:FOLDER_OR_ID (or --run NAME)"
            raise ValueError(msg)
        digest = weights_digest(victim.model)
        victim.model.double().eval()
        tokenizer: Tokenizer = VictimTokenizer(victim)
        if vocabulary is not None:
            settings = VictimFrontEnd(front_end="spelling", vocabulary=vocabulary)
            known = find_words(vocabulary, runs_dir)
            front_end = FrontEnd.of_words(known, settings, unknown=victim.tokenizer.unk_token)
            tokenizer = EncodedWords(tokenizer, {}, front_end)

        @torch.no_grad()
        def answer(encodings: list[Encoding]) -> Tensor:
            # Texts of equal length need no padding.
            rows: defaultdict[int, list[int]] = defaultdict(list)
            for row, encoding in enumerate(encodings):
                rows[len(encoding.input_ids)].append(row)
            logits = torch.zeros(len(encodings), len(named.classes), dtype=torch.float64)
            for length, alike in rows.items():
                for part in torch.split(torch.tensor(alike), max(1, TOKENS // length)):
                    ids = torch.tensor(
                        [encodings[i].input_ids for i in part.tolist()], device=device
                    )
                    mask = torch.ones_like(ids)
                    out = victim.model(input_ids=ids, attention_mask=mask)
                    logits[part] = out.logits.cpu()
            return logits

        encoded = EncodedWords.around(tokenizer)
        model = ListedModel.of(encoded, answer)._replace(complete=False)
        weights = Weights(digest, name, epoch=0, step=0, training_ended=None)
        return cls(model, named.classes, weights, encoded.splitter.settings)


class VictimTokenizer(Tokenizer):
    """The tokenizer of a classifier of `transformers`."""

    def __init__(self, victim: HuggingFaceVictim) -> None:
        self._tokenizer, self.max_length = victim.tokenizer, victim.max_length
        self.pad_id, self.unk_id = victim.tokenizer.pad_token_id, victim.tokenizer.unk_token_id
        self.vocab_size = len(victim.tokenizer)

    def encode(self, texts: Sequence[Text]) -> list[Encoding]:
        """See `Tokenizer`."""
        rows = self._tokenizer([*texts], verbose=False)["input_ids"]
        limit = self.max_length
        if any(len(ids) > limit for ids in rows):
            cut = self._tokenizer([*texts], truncation=True, max_length=limit)["input_ids"]
        else:
            cut = rows
        return [
            Encoding(list(ids) or [self.pad_id], [0] * len(ids), len(full) > limit)
            for ids, full in zip(cut, rows, strict=True)
        ]

    def spans(self, texts: Sequence[Text]) -> list[list[Span]]:
        """Refuse: lists need no positions."""
        raise NotImplementedError  # never asked: see above

    def state(self) -> dict[str, Any]:
        """Refuse: it is in no checkpoint."""
        raise NotImplementedError  # never asked: see above
