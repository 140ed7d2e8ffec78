"""Certificates in words of models with attention: relaxation first, then a list where it is short.

A number of changes that the relaxation does not prove is decided by listing all texts, where there
are few. Where there are many, a search from the relaxation's worst text may still find a witness.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from certify.bound_propagation.replaced_words import ReplacedWords
from certify.threats import Kind, Synonyms, TextCertificate, Threat
from certify.threats.listing import count, reachable
from certify.threats.text_certificate import largest
from certify.ties import allowance, leads
from text import WordTokenizer

STEPS = 8
"""Words that the search for a witness changes after the relaxation's worst text, at most."""
AT_ONCE = 256
"""Texts that are classified together."""


class RelaxedModel(NamedTuple):
    """A classifier on embedded words.

    Attributes:
        bounds: of its network.
        embed: ids `[n, N]` to `[n, N, d]`; a token depends on its word and its place only.
        tokenizer: of its words.
    """

    bounds: ReplacedWords
    embed: Callable[[Tensor], Tensor]
    tokenizer: WordTokenizer


class _Asked(NamedTuple):
    """A text that is read.

    Attributes:
        places: for each place the ids that it can have, and a word with each; its own first.
        table: `[N, S + 1, d]` float64, what these are embedded to.
        label: the predicted class.
        allowed: lead that rounding may make up.
    """

    places: list[dict[int, str]]
    table: Tensor
    label: int
    allowed: float

    @property
    def choices(self) -> list[range]:
        """The numbers of the ids of each place."""
        return [range(len(place)) for place in self.places]


class RelaxedCertifier:
    """Certifies texts against replaced words by linear relaxation.

    Words behind the model's `max_length` are not read, and replacements move no word.

    Args:
        model: the classifier.
        threat: the sets of texts.
        limit: number of texts that are listed at most, where the relaxation does not prove a text;
            0 for none.

    Raises:
        ValueError: another threat, other words than those of the model, or a limit below 0.
    """

    kind: Kind = "lower bound"

    def __init__(self, model: RelaxedModel, threat: Threat, *, limit: int = 1024) -> None:
        if limit < 0:
            msg = f"got limit={limit}, expected at least 0"
            raise ValueError(msg)
        self.threat = Synonyms.of_model(threat, model.tokenizer.splitter.settings)
        self.model, self.limit = model, limit

    @torch.no_grad()
    def __call__(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """See `TextCertifier`."""
        return [self._certified(text, ks) for text in texts]

    def table(self, text: str) -> Tensor:
        """`[N, S + 1, d]` float64: each word that is read, and its candidates, embedded."""
        return self._read(self._places(text)).table

    def _places(self, text: str) -> list[dict[int, str]]:
        """The ids that each place can have, and a word with each; its own first."""
        vocabulary = self.model.tokenizer.vocabulary
        places: list[dict[int, str]] = []
        for candidates in self.threat.candidates(text):
            # Unknown words share an id: one in the place of another changes nothing.
            places.append({})
            for one, word in zip(vocabulary([*candidates]), candidates, strict=True):
                places[-1].setdefault(one, word)
        return places

    def _certified(self, text: str, ks: Sequence[int | None]) -> TextCertificate:
        tokenizer = self.model.tokenizer
        places = self._places(text)
        asked = self._read(places)
        held, worst = self._relaxed(asked, ks)
        witness: list[int] | None = None
        exact = True
        for number, k in enumerate(ks):
            if held[number]:
                continue
            held[number], witness = self._decided(asked, k, worst[number])
            if not held[number]:
                # What holds for more changes holds for these: nothing behind holds, either.
                exact = witness is not None
                break
        shown = None
        if witness is not None:
            changed = [
                list(place.values())[i] for place, i in zip(asked.places, witness, strict=True)
            ]
            rest = [next(iter(place.values())) for place in places[len(changed) :]]
            shown = " ".join([*changed, *rest])
        return TextCertificate(
            text=text,
            prediction=asked.label,
            holds=tuple(held),
            certified=largest(held, ks),
            kind="exact" if exact else "lower bound",
            witness=shown,
            witness_prediction=(
                None if witness is None else int(self._logits(asked, [witness]).argmax())
            ),
            cut=len(places) > tokenizer.max_length,
            unknown=sum(next(iter(place)) == tokenizer.unk_id for place in places),
        )

    def _read(self, places: list[dict[int, str]]) -> _Asked:
        """Embeds the words that are read, and classifies the text."""
        tokenizer = self.model.tokenizer
        places = places[: tokenizer.max_length] or [{tokenizer.unk_id: ""}]
        size = max(len(place) for place in places)
        # A word fills up its own place.
        ids = [[*place, *list(place)[:1] * (size - len(place))] for place in places]
        table = self.model.embed(torch.tensor(ids).T).to(torch.float64).transpose(0, 1)
        logits = self.model.bounds.logits(table[:, 0].unsqueeze(0))
        return _Asked(places, table, int(logits.argmax()), float(allowance(logits)))

    def _relaxed(
        self, asked: _Asked, ks: Sequence[int | None]
    ) -> tuple[list[bool], list[list[list[int]]]]:
        """Proves numbers of changes; returns these answers, and the worst text of each."""
        own = [0] * len(asked.places)
        movable = [place for place, choice in enumerate(asked.choices) if len(choice) > 1]
        numbers = [len(movable) if k is None else min(k, len(movable)) for k in ks]
        proven = {0: self._leads(asked, [own]) > asked.allowed}
        worst = {0: [own]}
        if several := sorted({number for number in numbers if number}):
            found = self.model.bounds(asked.table, movable, several, asked.label)
            proven |= dict(zip(several, (found.margin > 0).tolist(), strict=True))
            # Where a word fills up its own place, rounding may take it for another one.
            sizes = torch.tensor([len(choice) for choice in asked.choices]).to(found.choices)
            chosen = found.choices.masked_fill(found.choices >= sizes, 0)
            worst |= dict(zip(several, chosen.tolist(), strict=True))
        held = [any(proven[more] for more in proven if more >= number) for number in numbers]
        return held, [worst[number] for number in numbers]

    def _decided(
        self, asked: _Asked, k: int | None, worst: list[list[int]]
    ) -> tuple[bool, list[int] | None]:
        """Returns True if a list proves k changes; else a witness, if one is found."""
        if count(asked.choices, k) <= self.limit:
            texts = list(reachable(asked.choices, k))
            margins = self._leads(asked, texts)
            lowest = int(margins.argmin())
            if margins[lowest] <= 0:
                return False, texts[lowest]
            return bool((margins > asked.allowed).all()), None
        return False, self._searched(asked, k, worst)

    def _searched(self, asked: _Asked, k: int | None, texts: list[list[int]]) -> list[int] | None:
        """Changes one word after the other, from the worst texts of the relaxation."""
        lead = torch.inf
        for _ in range(STEPS + 1):
            margins = self._leads(asked, texts)
            lowest = int(margins.argmin())
            if margins[lowest] <= 0:
                return texts[lowest]
            if margins[lowest] >= lead:
                return None
            lead, best = float(margins[lowest]), texts[lowest]
            near = (
                [*best[:place], one, *best[place + 1 :]]
                for place, choice in enumerate(asked.choices)
                for one in choice
                if one != best[place]
            )
            texts = [text for text in near if k is None or sum(map(bool, text)) <= k]
            if not texts:
                return None
        return None

    def _leads(self, asked: _Asked, texts: list[list[int]]) -> Tensor:
        """`[n]`: how far the predicted class is above every other one, for choices of words."""
        logits = self._logits(asked, texts)
        return leads(logits, logits.new_full((len(texts),), asked.label, dtype=torch.int64))

    def _logits(self, asked: _Asked, texts: list[list[int]]) -> Tensor:
        places = torch.arange(len(asked.places), device=asked.table.device)
        chosen = torch.tensor(texts, device=asked.table.device)
        return torch.cat(
            [
                self.model.bounds.logits(asked.table[places, part])
                for part in torch.split(chosen, AT_ONCE)
            ]
        )
