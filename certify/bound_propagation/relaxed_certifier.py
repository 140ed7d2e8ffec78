"""Certificates in words of models with attention: relaxation first, then a list where it is short.

A number of changes that the relaxation does not prove is decided by listing all texts, where there
are few. Where there are many, a search from the relaxation's worst text may still find a witness.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from certify.bound_propagation.replaced_words import ReplacedWords
from certify.threats import Kind, ReadWords, Replacements, TextCertificate, Threat
from certify.threats.listing import count, reachable
from certify.threats.text_certificate import largest
from certify.ties import allowance, leads, runners_up
from text import WordTokenizer

STEPS = 8
"""Words that the search for a witness changes after the relaxation's worst text, at most."""
AT_ONCE = 256
"""Texts that are classified together."""


class RelaxedModel(NamedTuple):
    """A classifier on embedded words.

    `embed` maps ids `[n, N]` to `[n, N, d]`; a token depends on its word and its position only.
    """

    bounds: ReplacedWords
    embed: Callable[[Tensor], Tensor]
    tokenizer: WordTokenizer


class _EmbeddedText(NamedTuple):
    """The words of a text that the model reads.

    Attributes:
        candidates: for each position the ids that it can have, its own first.
        table: `[N, S + 1, d]` float64, what these are embedded to.
        label: the predicted class.
        allowed: margin that rounding may cause.
    """

    candidates: list[list[int]]
    table: Tensor
    label: int
    allowed: float

    @property
    def choices(self) -> list[range]:
        """Numbers of the ids of each position."""
        return [range(len(ids)) for ids in self.candidates]


class RelaxedCertifier:
    """Certifies texts against replaced words by linear relaxation.

    Words after the model's `max_length` are not read, and replacements move no word. Where the
    relaxation does not prove a text, at most `limit` texts are listed; 0 for none.

    Raises:
        ValueError: another threat, other words than those of the model, sets that move words, or a
            limit below 0.
    """

    kind: Kind = "lower bound"

    def __init__(self, model: RelaxedModel, threat: Threat, *, limit: int = 1024) -> None:
        if limit < 0:
            msg = f"got limit={limit}, expected at least 0"
            raise ValueError(msg)
        words = model.tokenizer.splitter.settings
        self.threat = Replacements.of_model(threat, words, ordered="a model with attention")
        self.model, self.limit = model, limit
        self._reader = ReadWords(self.threat, model.tokenizer)

    @torch.no_grad()
    def __call__(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """See `TextCertifier`."""
        # All words at once: that costs least.
        self._reader(texts)
        return [self._certified(text, ks) for text in texts]

    def table(self, text: str) -> Tensor:
        """Return `[N, S + 1, d]` float64: each word that is read, and its candidates, embedded."""
        return self._read(text).table

    def _certified(self, text: str, ks: Sequence[int | None]) -> TextCertificate:
        tokenizer = self.model.tokenizer
        embedded = self._read(text)
        held, worst = self._relaxed(embedded, ks)
        witness: list[int] | None = None
        exact = True
        for number, k in enumerate(ks):
            if held[number]:
                continue
            held[number], witness = self._decided(embedded, k, worst[number])
            if not held[number]:
                # A certificate for more changes would hold for these: none can follow.
                exact = witness is not None
                break
        words = self.threat.split(text)
        changed, rival = None, None
        if witness is not None:
            rival = int(runners_up(*self._answered(embedded, [witness])))
            changed = " ".join(self._witness(text, embedded, witness))
        return TextCertificate(
            text=text,
            prediction=embedded.label,
            holds=tuple(held),
            certified=largest(held, ks),
            kind="exact" if exact else "lower bound",
            witness=changed,
            witness_prediction=rival,
            cut=len(words) > tokenizer.max_length,
            unknown=tokenizer.ids(words).count(tokenizer.unk_id),
        )

    def _witness(self, text: str, embedded: _EmbeddedText, choices: Sequence[int]) -> list[str]:
        """Return the words of a text with some choices; those that are not read stay."""
        words = list(self.threat.split(text))
        listed = self.threat.occurrences(text)
        # Choices end where the model stops reading; the words after that stay.
        for at, (word, choice) in enumerate(zip(listed, choices, strict=False)):
            if choice:
                words[at] = self._reader.witness(word, (embedded.candidates[at][choice],))
        return words

    def _read(self, text: str) -> _EmbeddedText:
        """Embed the words that are read, and classify the text."""
        choices = self._reader([text])
        ids = choices.table()[choices.rows[0]]
        # A text without words is one unknown word.
        ids = ids if len(ids) else torch.tensor([[self.model.tokenizer.unk_id]])
        sizes = choices.starts.diff()[choices.rows[0]].tolist() or [1]
        candidates = [row[:size] for row, size in zip(ids.tolist(), sizes, strict=True)]
        # The candidates of a column are a text for `embed`, as a token depends on its word and
        # position only: [N, S + 1] ids are S + 1 texts of N words.
        table = self.model.embed(ids.T).to(torch.float64).transpose(0, 1)
        logits = self.model.bounds.logits(table[:, 0].unsqueeze(0))
        return _EmbeddedText(candidates, table, int(logits.argmax()), float(allowance(logits)))

    def _relaxed(
        self, embedded: _EmbeddedText, ks: Sequence[int | None]
    ) -> tuple[list[bool], list[list[list[int]]]]:
        """Return for each number of changes whether it is proven, and its worst texts."""
        own = [0] * len(embedded.candidates)
        movable = [position for position, choice in enumerate(embedded.choices) if len(choice) > 1]
        numbers = [len(movable) if k is None else min(k, len(movable)) for k in ks]
        proven = {0: self._leads(embedded, [own]) > embedded.allowed}
        worst = {0: [own]}
        if several := sorted({number for number in numbers if number}):
            bounds = self.model.bounds(embedded.table, movable, several, embedded.label)
            proven |= dict(zip(several, (bounds.margin > 0).tolist(), strict=True))
            # Rounding may choose a filled-up entry, which is the word itself.
            sizes = torch.tensor([len(choice) for choice in embedded.choices]).to(bounds.choices)
            chosen = bounds.choices.masked_fill(bounds.choices >= sizes, 0)
            worst |= dict(zip(several, chosen.tolist(), strict=True))
        # Proofs for more changes hold for fewer; relaxations alone need not be monotone.
        held = [any(proven[more] for more in proven if more >= number) for number in numbers]
        return held, [worst[number] for number in numbers]

    def _decided(
        self, embedded: _EmbeddedText, k: int | None, worst: list[list[int]]
    ) -> tuple[bool, list[int] | None]:
        """Return whether a list proves k changes, and a witness if it does not and one is known."""
        if count(embedded.choices, k) <= self.limit:
            texts = list(reachable(embedded.choices, k))
            margins = self._leads(embedded, texts)
            lowest = int(margins.argmin())
            if margins[lowest] <= 0:
                return False, texts[lowest]
            return bool((margins > embedded.allowed).all()), None
        return False, self._searched(embedded, k, worst)

    def _searched(
        self, embedded: _EmbeddedText, k: int | None, texts: list[list[int]]
    ) -> list[int] | None:
        """Change one word after the other, from the worst texts of the relaxation."""
        lead = torch.inf
        for _ in range(STEPS + 1):
            margins = self._leads(embedded, texts)
            lowest = int(margins.argmin())
            if margins[lowest] <= 0:
                return texts[lowest]
            if margins[lowest] >= lead:
                return None
            # Greedy: keep the text with the least margin, and change one more word.
            lead, best = float(margins[lowest]), texts[lowest]
            near = (
                [*best[:position], number, *best[position + 1 :]]
                for position, choice in enumerate(embedded.choices)
                for number in choice
                if number != best[position]
            )
            texts = [text for text in near if k is None or sum(map(bool, text)) <= k]
            if not texts:
                return None
        return None

    def _leads(self, embedded: _EmbeddedText, texts: list[list[int]]) -> Tensor:
        """Return the margins `[n]` of the predicted class, for choices of words."""
        return leads(*self._answered(embedded, texts))

    def _answered(self, embedded: _EmbeddedText, texts: list[list[int]]) -> tuple[Tensor, Tensor]:
        """Return logits `[n, C]` of choices of words, and `[n]` times the predicted class."""
        positions = torch.arange(len(embedded.candidates), device=embedded.table.device)
        chosen = torch.tensor(texts, device=embedded.table.device)
        logits = torch.cat(
            [
                self.model.bounds.logits(embedded.table[positions, part])
                for part in torch.split(chosen, AT_ONCE)
            ]
        )
        return logits, torch.full_like(chosen[:, 0], embedded.label)
