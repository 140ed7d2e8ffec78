"""Certificates of any classifier, by a list of all inputs that it may get from the texts of a set.

Statement and proof: docs/certificates/listing.md.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from functools import cache
from itertools import combinations, product
from typing import NamedTuple, Self

import torch
from torch import Tensor

from certify.threats import Kind, ReadWords, Replacements, TextCertificate, Threat
from certify.threats.listing import count
from certify.threats.text_certificate import largest
from certify.ties import allowance, leads
from text import EncodedWords, Encoding, Tokenizer, WordTokenizer

CHUNK = 64
"""Inputs of a text that are classified before the next look for a counterexample."""

Change = tuple[int, tuple[int, ...]]
"""The position of a word, and the ids that replace its own."""
Changes = tuple[Change, ...]
Search = Generator[list[Encoding], Tensor, TextCertificate]
"""Yields inputs, gets their logits, and returns the certificate of a text."""


class ListedModel(NamedTuple):
    """A classifier whose prediction depends on the words of a text alone.

    Attributes:
        words: finds the ids of words; equal ids are equal words to the classifier.
        encode: returns what the classifier reads of texts with these ids.
        answer: returns logits `[n, C]` in float64, of inputs in any batches: padding changes none.
        form: of the ids that replace a word: equal ones are the same to the classifier.
        complete: False if the classifier drops what is between the words, which the model reads.
    """

    words: WordTokenizer
    encode: Callable[[Sequence[Sequence[int]]], list[Encoding]]
    answer: Callable[[list[Encoding]], Tensor]
    form: Callable[[tuple[int, ...]], Hashable] = staticmethod(lambda ids: ids)
    complete: bool = True

    @classmethod
    def of(cls, tokenizer: Tokenizer, answer: Callable[[list[Encoding]], Tensor]) -> Self:
        """Return the classifier of the words that a tokenizer reads, or else of its words alone.

        Args:
            tokenizer: of the model.
            answer: see the class.

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
    than `limit`: then nothing is certified, and the certificate is called a lower bound. The
    search begins with the changes that promise most, and ends at the first counterexample. A tie
    counts as another prediction, and so does a margin that rounding could cause.

    Args:
        model: the classifier.
        threat: words that are replaced.
        limit: inputs of a text that are listed at most.
        at_once: texts whose inputs share the batches.

    Raises:
        ValueError: another kind of threat, other words than the model's, or a limit below 1.
    """

    kind: Kind = "lower bound"

    def __init__(
        self, model: ListedModel, threat: Threat, *, limit: int, at_once: int = 16
    ) -> None:
        if not isinstance(threat, Replacements):
            msg = (
                f"got the threat {threat.title} for a list, expected synonyms or perturbation sets"
            )
            raise ValueError(msg)
        if limit < 1:
            msg = f"got a list of {limit} inputs, expected at least 1"
            raise ValueError(msg)
        self.threat = Replacements.of_model(threat, model.words.splitter.settings)
        self.model, self.limit, self.at_once = model, limit, at_once
        self._read = ReadWords(self.threat, model.words)

    def __call__(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """See `TextCertifier`."""
        occurrences = [self.threat.occurrences(text) for text in texts]
        self._read.look_up(word for words in occurrences for word in words)
        waiting = [
            (row, self._search(texts[row], occurrences[row], ks)) for row in range(len(texts))
        ]
        waiting.reverse()
        certificates: dict[int, TextCertificate] = {}
        active: list[tuple[int, Search, list[Encoding]]] = []
        while waiting or active:
            while waiting and len(active) < self.at_once:
                row, search = waiting.pop()
                active.append((row, search, next(search)))
            logits = self.model.answer([one for _, _, inputs in active for one in inputs])
            parts = logits.cpu().split([len(inputs) for _, _, inputs in active])
            resumed, active = active, []
            for (row, search, _), part in zip(resumed, parts, strict=True):
                try:
                    active.append((row, search, search.send(part)))
                except StopIteration as end:
                    certificates[row] = end.value
        return [certificates[row] for row in range(len(texts))]

    def _search(self, text: str, words: Sequence[str], ks: Sequence[int | None]) -> Search:
        choices = [self._choices(word) for word in words]
        own = self._inputs(choices, [()])[0]
        (logits,) = yield [own]
        answers = _Answers(own, logits)
        # Not `<= 0`: a NaN is no certificate, either.
        near: Changes | None = None if answers.of(own) > 0 else ()
        verdicts, exact, listed = list[bool](), True, 0
        for k in ks:
            most = len(choices) if k is None else min(k, len(choices))
            fits = near is None and count(choices, k) <= self.limit
            while fits and near is None and listed < most:
                listed += 1
                near = yield from self._list(choices, listed, answers)
            verdicts.append(fits and near is None)
            exact = exact and (fits or near is not None)
        witness, rival = None, None
        if near is not None:
            lead, rival = answers.margin(self._inputs(choices, [near])[0])
            if lead <= 0:
                replaced = {at: self._read.witness(words[at], ids) for at, ids in near}
                split = self.threat.split(text)
                changed = [replaced.get(at, word) for at, word in enumerate(split)]
                witness = self.threat.write(text, changed).text
            else:
                exact, rival = False, None  # a margin within rounding proves nothing
        return TextCertificate(
            text=text,
            prediction=answers.prediction,
            holds=tuple(verdicts),
            certified=largest(verdicts, ks),
            kind="exact" if exact else "lower bound",
            witness=witness,
            witness_prediction=rival,
            cut=own.truncated,
            unknown=sum(choice[0] == (self.model.words.unk_id,) for choice in choices),
            passes=len(answers),
        )

    def _choices(self, word: str) -> list[tuple[int, ...]]:
        forms: dict[Hashable, tuple[int, ...]] = {}
        for ids in self._read.results(word):
            forms.setdefault(self.model.form(ids), ids)
        return list(forms.values())

    def _list(
        self, choices: Sequence[Sequence[tuple[int, ...]]], number: int, answers: "_Answers"
    ) -> Generator[list[Encoding], Tensor, Changes | None]:
        """Classify all texts with this number of changes; return changes that do not hold."""
        movable = [at for at, choice in enumerate(choices) if len(choice) > 1]
        if number == 1:
            # One change of each word tells which words matter.
            probes: list[Changes] = [((at, choices[at][1]),) for at in movable]
            near = yield from self._classify(choices, probes, answers)
            if near is not None:
                return near
            for ((at, _),) in probes:
                answers.lost |= {
                    (at, ids): answers.lost[at, choices[at][1]] for ids in choices[at][1:]
                }
        texts: list[Changes] = [
            tuple(zip(places, ids, strict=True))
            for places in combinations(movable, number)
            for ids in product(*(choices[at][1:] for at in places))
        ]
        texts.sort(key=lambda changes: -sum(answers.lost[change] for change in changes))
        return (yield from self._classify(choices, texts, answers))

    def _classify(
        self,
        choices: Sequence[Sequence[tuple[int, ...]]],
        texts: Sequence[Changes],
        answers: "_Answers",
    ) -> Generator[list[Encoding], Tensor, Changes | None]:
        for start in range(0, len(texts), CHUNK):
            chunk = texts[start : start + CHUNK]
            inputs = self._inputs(choices, chunk)
            if new := answers.unknown(inputs):
                logits = yield new
                answers.add(new, logits)
            found = [answers.of(one) for one in inputs]
            least = min(range(len(chunk)), key=lambda i: answers.margin(inputs[i])[0])
            uncertain = [i for i, lead in enumerate(found) if not lead > 0]
            if uncertain:
                return chunk[least if least in uncertain else uncertain[0]]
            for changes, one in zip(chunk, inputs, strict=True):
                if len(changes) == 1:
                    answers.lost[changes[0]] = -answers.margin(one)[0]
        return None

    def _inputs(
        self, choices: Sequence[Sequence[tuple[int, ...]]], texts: Iterable[Changes]
    ) -> list[Encoding]:
        pad, rows = self.model.words.pad_id, []
        for changes in texts:
            ids = [choice[0] for choice in choices]
            for at, new in changes:
                ids[at] = new
            # A deleted word becomes padding.
            rows.append([number for part in ids for number in part if number != pad])
        return self.model.encode(rows)


class _Answers:
    """Margins of the inputs around one text."""

    def __init__(self, own: Encoding, logits: Tensor) -> None:
        self.prediction = int(logits.argmax())
        self.lost: dict[Change, float] = {}
        """How much each change lowers the margin, up to a constant; an estimate at first."""
        self._margins: dict[tuple[int, ...], tuple[float, float, int]] = {}
        self.add([own], logits.unsqueeze(0))

    def __len__(self) -> int:
        return len(self._margins)

    def unknown(self, inputs: Sequence[Encoding]) -> list[Encoding]:
        """Return the inputs without answer, equal ones once."""
        new = {tuple(one.input_ids): one for one in inputs}
        return [one for ids, one in new.items() if ids not in self._margins]

    def add(self, inputs: Sequence[Encoding], logits: Tensor) -> None:
        """Add the logits `[n, C]` of inputs."""
        labels = torch.full((len(logits),), self.prediction)
        margins = leads(logits, labels)
        certain = margins - allowance(logits)
        rivals = logits.scatter(1, labels.unsqueeze(1), -torch.inf).argmax(dim=1)
        rows = zip(certain.tolist(), margins.tolist(), rivals.tolist(), strict=True)
        self._margins |= zip((tuple(one.input_ids) for one in inputs), rows, strict=True)

    def of(self, one: Encoding) -> float:
        """Return the margin of an input less what rounding may make up."""
        return self._margins[tuple(one.input_ids)][0]

    def margin(self, one: Encoding) -> tuple[float, int]:
        """Return the margin of an input, and the class that is nearest."""
        _, margin, rival = self._margins[tuple(one.input_ids)]
        return margin, rival
