"""Certificates of any classifier, by a list of all inputs that it may get from the texts of a set.

Statement and proof: docs/certificates/listing.md.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Hashable, Sequence
from functools import cache
from itertools import combinations, product
from typing import NamedTuple, Self

import torch
from torch import Tensor

from certify.threats import Kind, ReadWords, Replacements, TextCertificate, Threat
from certify.threats.listing import count
from certify.threats.text_certificate import largest
from certify.ties import allowance, runners_up
from text import EncodedWords, Encoding, Tokenizer, WordTokenizer

TEXTS_AT_ONCE = 16
"""Texts whose inputs share the batches."""
CHUNK = 64
"""Inputs of a text that are classified before the next look for a counterexample."""

Ids = tuple[int, ...]
"""The ids that a model reads for a word: one, two or none."""
Change = tuple[int, Ids]
"""The position of a word, and the ids that replace its own."""
Changes = tuple[Change, ...]
Search = Generator[list[Encoding], Tensor, TextCertificate]
"""Yields inputs, gets their logits, and returns the certificate of a text."""
Steps = Generator[list[Encoding], Tensor, "Nearest | None"]
"""Yields inputs, gets their logits, and returns the first counterexample."""


class Nearest(NamedTuple):
    """A text that may have another prediction."""

    changes: Changes  # of forms
    k: int | None  # largest number of changes
    margin: float  # over the class `rival`
    rival: int


class ListedModel(NamedTuple):
    """A classifier whose prediction depends on the words of a text alone.

    Attributes:
        words: finds the ids of words; equal ids are equal words to the model.
        encode: returns what the classifier reads of texts with these ids.
        answer: returns logits `[n, C]` in float64, of inputs in any batches: padding changes none.
        form: of the ids that replace a word: the logits of `answer` depend on forms alone.
        scores: `[V, C]` float64, of words by their ids, whose sum is added to the logits; None for
            none.
        normalised: True if the sum is divided by the root of the number of words that are read.
        bound: largest difference of two logits of `answer`, of any input; None if not known.
        complete: False if the classifier drops what is between the words, which the model reads.
    """

    words: WordTokenizer
    encode: Callable[[Sequence[Sequence[int]]], list[Encoding]]
    answer: Callable[[list[Encoding]], Tensor]
    form: Callable[[Ids], Hashable] = staticmethod(lambda ids: ids)
    scores: Tensor | None = None
    normalised: bool = False
    bound: float | None = None
    complete: bool = True

    @classmethod
    def of(cls, tokenizer: Tokenizer, answer: Callable[[list[Encoding]], Tensor]) -> Self:
        """Return the classifier of the words that a tokenizer reads, or else of its words alone.

        Raises:
            ValueError: see `EncodedWords.word_tokenizer`.
        """
        if isinstance(tokenizer, WordTokenizer):
            limit, unknown = tokenizer.max_length, tokenizer.unk_id

            def encode(rows: Sequence[Sequence[int]]) -> list[Encoding]:
                read = [list(row[:limit]) or [unknown] for row in rows]
                return [
                    Encoding(ids, [0] * len(ids), len(row) > limit)
                    for ids, row in zip(read, rows, strict=True)
                ]

            return cls(tokenizer, encode, answer)
        encoded = EncodedWords.around(tokenizer)
        words = encoded.word_tokenizer()
        write = cache(lambda index: encoded.write(index, words))
        return cls(
            words,
            lambda rows: encoded.encode_written([[*map(write, row)] for row in rows]),
            answer,
            lambda ids: tuple(map(write, ids)),
            complete=encoded is tokenizer,
        )


class ListedCertifier:
    """Certifies any classifier of words: exact where the inputs of a set are few enough to list.

    For each number of changes all inputs are classified, each once, or none if there may be more
    than `limit`: then nothing is certified, and the certificate is called a lower bound. Scores
    whose lead the bound of the logits cannot make up need no list. The search begins with the
    changes that promise most, and ends at the first counterexample. A tie counts as another
    prediction, and so does a margin that rounding could cause.

    Args:
        model: the classifier.
        threat: words that are replaced.
        limit: inputs of a text that are listed at most.

    Raises:
        ValueError: another kind of threat, other words than the model's, a limit below 1, or scores
            and a threat that moves words.
    """

    kind: Kind = "lower bound"

    def __init__(self, model: ListedModel, threat: Threat, *, limit: int) -> None:
        if not isinstance(threat, Replacements):
            msg = (
                f"got the threat {threat.title} for a list, expected synonyms or perturbation sets"
            )
            raise ValueError(msg)
        if limit < 1:
            msg = f"got a list of {limit} inputs, expected at least 1"
            raise ValueError(msg)
        ordered = None if model.scores is None else "an encoder with scores of words"
        settings = model.words.splitter.settings
        self.threat = Replacements.of_model(threat, settings, ordered=ordered)
        self.model, self.limit = model, limit
        self._read = ReadWords(self.threat, model.words)

    def __call__(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """See `TextCertifier`."""
        occurrences = [self.threat.occurrences(text) for text in texts]
        self._read.look_up(word for words in occurrences for word in words)
        pairs = zip(texts, occurrences, strict=True)
        waiting = [(row, self._search(*pair, ks)) for row, pair in enumerate(pairs)][::-1]
        certificates: dict[int, TextCertificate] = {}
        active: list[tuple[int, Search, list[Encoding]]] = []
        while waiting or active:
            while waiting and len(active) < TEXTS_AT_ONCE:
                row, search = waiting.pop()
                active.append((row, search, next(search)))
            logits = self.model.answer([encoding for _, _, inputs in active for encoding in inputs])
            parts = torch.split(logits.cpu(), [len(inputs) for _, _, inputs in active])
            resumed, active = active, []
            for (row, search, _), part in zip(resumed, parts, strict=True):
                try:
                    active.append((row, search, search.send(part)))
                except StopIteration as end:
                    certificates[row] = end.value
        return [certificates[row] for row in range(len(texts))]

    def _search(self, text: str, words: Sequence[str], ks: Sequence[int | None]) -> Search:
        around = _Around(self.model, [self._read.results(word) for word in words])
        own = around.inputs([()])
        around.begin(own[0], (yield own)[0])
        near = around.nearest([()], 0)
        verdicts, exact, listed = list[bool](), True, 0
        for k in ks:
            most = len(words) if k is None else min(k, len(words))
            sure = near is None and around.sure(k)
            fits = near is None and not sure and count(around.choices, k) <= self.limit
            # With scores, more changes move the scores of texts that have been listed, too.
            for number in range(listed + 1 if self.model.scores is None else 0, most + 1):
                if fits and near is None:
                    near = yield from around.search(number, k)
                    listed = number
            verdicts.append((sure or fits) and near is None)
            exact = exact and (sure or fits or near is not None)
        witness, rival = None, None
        if near is not None and near.margin <= 0:
            changed = list(self.threat.split(text))
            changes, rival = around.worst(near)
            for at, ids in changes:
                changed[at] = self._read.witness(words[at], ids)
            witness = self.threat.write(text, changed).text
        return TextCertificate(
            text=text,
            prediction=around.prediction,
            holds=tuple(verdicts),
            certified=largest(verdicts, ks),
            # A margin within rounding proves nothing.
            kind="exact" if exact and (near is None or near.margin <= 0) else "lower bound",
            witness=witness,
            witness_prediction=rival,
            cut=own[0].truncated,
            unknown=sum(choice[0] == (self.model.words.unk_id,) for choice in around.choices),
            passes=len(around.logits),
        )


class _Around:
    """The inputs around one text, and their margins.

    `results` are for each word the ids that it may get, its own first.
    """

    def __init__(self, model: ListedModel, results: Sequence[Sequence[Ids]]) -> None:
        self.model, self.choices = model, list[list[Ids]]()
        self.members: list[dict[Ids, list[Ids]]] = []
        """For each word, by the ids that stand for a form in `choices`, all ids of this form."""
        for row in results:
            forms: defaultdict[Hashable, list[Ids]] = defaultdict(list)
            for ids in row:
                forms[model.form(ids)].append(ids)
            self.members.append({form[0]: form for form in forms.values()})
            self.choices.append([*self.members[-1]])
        self.logits: dict[Ids, Tensor] = {}
        self.promise: dict[Change, float] = {}
        """Return the loss of margin by each change, up to a constant; an estimate at first."""
        self.prediction = 0

    def begin(self, own: Encoding, logits: Tensor) -> None:
        """Add the logits `[C]` of the text itself."""
        self.logits[tuple(own.input_ids)] = logits
        read, table = len(own.input_ids), self.model.scores
        if table is None:
            self.prediction = int(logits.argmax())
            return
        self._root = root = max(read, 1) ** 0.5 if self.model.normalised else 1.0
        total = table[[choice[0][0] for choice in self.choices[:read]]].sum(dim=0)
        self.prediction = y = int((logits + total / root).argmax())
        # [V, C] and [C]: by how much the predicted class leads.
        self._leads = (table[:, y : y + 1] - table) / root
        self._total, self._own = total, (total[y] - total) / root
        # Losses [N, C] by ids of the own form, and [C] of other forms: words that are not read
        # lose nothing.
        self._lost = torch.zeros(len(self.choices), len(logits), dtype=torch.float64)
        # Losses [N, C] by ids of any form.
        self._most = torch.zeros_like(self._lost)
        self._moved: dict[Change, Tensor] = {}
        for at, members in enumerate(self.members):
            for first, form in members.items():
                least = self._leads[[ids[0] for ids in form]].amin(dim=0)
                moved = (self._leads[self.choices[at][0][0]] - least) * (at < read)
                self._moved[at, first] = moved
                self._most[at] = torch.maximum(self._most[at], moved)
            self._lost[at] = self._moved[at, self.choices[at][0]]

    def sure(self, k: int | None) -> bool:
        """Return True if scores keep the prediction for k changes (None: any), for any logits."""
        if self.model.scores is None or self.model.bound is None:
            return False
        most = len(self._most) if k is None else min(k, len(self._most))
        return self._outweighs(self._own - self._most.topk(most, dim=0).values.sum(dim=0))

    def _outweighs(self, least: Tensor) -> bool:
        """Return True if least leads `[C]` by scores are above what the logits can make up."""
        assert self.model.bound is not None  # callers ask
        others = least[torch.arange(len(least)) != self.prediction]
        slack = allowance(torch.cat([others, others.new_tensor([self.model.bound])]))
        return bool((others - self.model.bound > slack).all())

    def inputs(self, texts: Sequence[Changes]) -> list[Encoding]:
        """Return what the classifier reads of texts with some changes."""
        pad, rows = self.model.words.pad_id, []
        for changes in texts:
            ids = [choice[0] for choice in self.choices]
            for at, new in changes:
                ids[at] = new
            # A deleted word becomes padding.
            rows.append([number for part in ids for number in part if number != pad])
        return self.model.encode(rows)

    def search(self, number: int, k: int | None) -> Steps:
        """Classify all texts with this number of changed forms; stop at a counterexample.

        At most k words are changed; None: any number.
        """
        movable = [at for at, choice in enumerate(self.choices) if len(choice) > 1]
        if number == 1:
            # One change of each word tells which words matter.
            probes = [((at, self.choices[at][1]),) for at in movable]
            near = yield from self._classify(probes, k)
            if near is not None:
                return near
            for ((at, first),) in probes:
                alternatives = ((at, ids) for ids in self.choices[at][1:])
                self.promise |= dict.fromkeys(alternatives, self.promise[at, first])
        texts: list[Changes] = [
            tuple(zip(positions, ids, strict=True))
            for positions in combinations(movable, number)
            for ids in product(*(self.choices[at][1:] for at in positions))
        ]
        if self.model.scores is not None and self.model.bound is not None:
            texts = [text for text in texts if not self._outweighs(self._least(text, k))]
        texts.sort(key=lambda changes: -sum(self.promise[change] for change in changes))
        return (yield from self._classify(texts, k))

    def _classify(self, texts: Sequence[Changes], k: int | None) -> Steps:
        for start in range(0, len(texts), CHUNK):
            chunk = texts[start : start + CHUNK]
            inputs = {tuple(encoding.input_ids): encoding for encoding in self.inputs(chunk)}
            new = {ids: inputs[ids] for ids in inputs if ids not in self.logits}
            if new:
                self.logits |= zip(new, (yield [*new.values()]), strict=True)
            if (near := self.nearest(chunk, k)) is not None:
                return near
        return None

    def nearest(self, texts: Sequence[Changes], k: int | None) -> Nearest | None:
        """Return the text with the least margin, unless all margins are certain."""
        y = self.prediction
        keys = [tuple(encoding.input_ids) for encoding in self.inputs(texts)]
        logits = torch.stack([self.logits[ids] for ids in keys])
        least = torch.zeros_like(logits)
        if self.model.scores is not None:
            least = torch.stack([self._least(changes, k) for changes in texts])
        gaps = logits[:, y : y + 1] - logits + least
        gaps[:, y] = torch.inf
        margins, rivals = gaps.min(dim=1)
        for changes, margin in zip(texts, margins.tolist(), strict=True):
            if len(changes) == 1:
                self.promise[changes[0]] = -margin
        # Not `<=`: a NaN is no certificate, either.
        uncertain = (~(margins > allowance(torch.cat([logits, least], dim=1)))).nonzero()[:, 0]
        if not len(uncertain):
            return None
        row = int(uncertain[margins[uncertain].argmin()])
        return Nearest(texts[row], k, float(margins[row]), int(rivals[row]))

    def _least(self, changes: Changes, k: int | None) -> Tensor:
        """`[C]`: least lead by scores, of all texts with these forms and at most k changes."""
        lost = self._lost.clone()
        lost[[at for at, _ in changes]] = 0
        free = len(lost) if k is None else min(k - len(changes), len(lost))
        moved = sum((self._moved[change] for change in changes), torch.zeros_like(self._own))
        return self._own - moved - lost.topk(free, dim=0).values.sum(dim=0)

    def worst(self, near: Nearest) -> tuple[Changes, int]:
        """Return the changes of words of a counterexample, and the class that it gets."""
        (own,) = self.inputs([near.changes])
        logits, changes = self.logits[tuple(own.input_ids)], near.changes
        if (table := self.model.scores) is not None:
            lost = self._lost[:, near.rival].clone()
            lost[[at for at, _ in changes]] = 0
            free = len(lost) if near.k is None else min(near.k - len(changes), len(lost))
            more = [
                (at, self.choices[at][0]) for at in lost.topk(free).indices.tolist() if lost[at] > 0
            ]
            changes = tuple(
                (at, min(self.members[at][ids], key=lambda i: float(self._leads[i[0], near.rival])))
                for at, ids in sorted((*changes, *more))
            )
            read = len(own.input_ids)
            total = self._total.clone()
            for at, ids in changes:
                if at < read:
                    total += table[ids[0]] - table[self.choices[at][0][0]]
            logits = logits + total / self._root
        return changes, int(runners_up(logits.unsqueeze(0), torch.tensor([self.prediction])))
