"""Training for certificates in words: candidates of each word, and the loss of the worst text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor
from torch.nn import functional

from attacks.set_names import check_names
from certify.threats import Replacements, Substitutions, Synonyms
from certify.words.spelling import LETTERS
from certify.words.worst_path import worst_path, worst_results, worst_words
from layers.ngram_scores import NgramScores
from lit_modules.shared.settings import within
from lit_modules.shared.weight_schedule import WeightSchedule
from text import Vocabulary, WordSettings, WordTokenizer, check_choice, check_range

OWN = ("none", "synonyms", "characters")
"""Threats that are no perturbation sets."""
Search = Literal["paths", "intervals"]
_RISING = WeightSchedule(shape="linear", ramp=0.4)


@dataclass(frozen=True, kw_only=True)
class WordRobustness:
    """The threat against which a model is trained.

    Attributes:
        against: none; synonyms: words are replaced by those of `lists`; characters: by known words
            that differ in one character, and by an unknown word; else perturbation sets with commas
            between, whose union each word may use: recipes of attacks (pwws, textfooler,
            textbugger, deepwordbug ...), wordnet, typos and others, or JSON files of lists
            (docs/robust_words.md). They have to be the threat of the certificate.
        lists: JSON file with a list of words for each word, for synonyms.
        resources: folder with the WordNet and the word vectors of the sets.
        extend: words of the sets are known, though the training split lacks them; false: the model
            reads them as unknown words, or as the words that they are corrected to.
        k: number of words that are replaced in training; null for any number.
        kappa: share of the loss of the worst text in the total loss.
        schedule: course of kappa.
        margin: use the loss max(0, margin - m) / margin for the margin m of the worst text, which
            is 0 for a sufficient margin; null: cross-entropy.
        together: weight of the mean squared difference between the scores of a word and of its
            candidates, which draws them together (as EIBC does for embeddings).
        candidates: candidates of a word at most.
        splits: an edit of a character may split a word, join two neighbours, or insert a word of
            one letter, as in the certificate; false: it changes one word.
        search: search for the worst text of a net over windows. paths: by the shortest path, as in
            the certificate; intervals: by bounds on its hidden units, which are cheaper for long
            windows but looser.
    """

    against: str = "none"
    lists: str | None = None
    resources: str | None = None
    extend: bool = True
    k: int | None = None
    kappa: float = 0.5
    schedule: WeightSchedule = _RISING
    margin: float | None = None
    together: float = 0.0
    candidates: int = 32
    splits: bool = False
    search: Search = "paths"

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            ValueError: a setting out of its range, or lists that are missing or not needed.
        """
        if self.sets is not None:
            check_names(self.sets)
        check_choice("robustness.search", self.search, get_args(Search))
        check_range({"robustness.kappa": self.kappa}, least=0, most=1)
        check_range({"robustness.together": self.together}, least=0)
        counts = {"robustness.k": self.k, "robustness.candidates": self.candidates}
        check_range(counts, least=1)
        check_range({"robustness.margin": self.margin}, above=0)
        if (self.lists is not None) != (self.against == "synonyms"):
            msg = (
                f"got robustness.against={self.against} and lists={self.lists}, expected a file of "
                "lists for synonyms, and only for them"
            )
            raise ValueError(msg)
        if self.splits and self.against not in ("none", "characters"):
            msg = f"got robustness.splits against {self.against}, expected it against characters"
            raise ValueError(msg)

    @property
    def sets(self) -> str | None:
        """Names of the perturbation sets; None for another threat."""
        return None if self.against in OWN else self.against

    @property
    def threat_option(self) -> str:
        """The value of `certify --threat` for the threat that the model is trained against."""
        usual = self.against in ("none", "synonyms")
        return "synonyms --lists FILE" if usual else self.against

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings without effect, each with the setting that disables it."""
        alone = (
            {}
            if self.sets
            else dict.fromkeys(("resources", "extend"), f"robustness.against={self.against}")
        )
        if self.against != "none":
            fixed = self.lists or self.sets
            alone |= {"candidates": f"robustness.against={self.against}"} if fixed else {}
            return alone | within("schedule", self.schedule.unused)
        names = ("k", "kappa", "margin", "together", "candidates", "splits", "search")
        schedule = within("schedule", vars(self.schedule))
        return alone | dict.fromkeys((*names, *schedule), "robustness.against=none")

    @property
    def lasting(self) -> dict[str, str]:
        """Return the settings that need the length of the run, each with a value that does not."""
        rises = self.against != "none" and self.kappa > 0
        return within("schedule", self.schedule.lasting) if rises else {}

    def weight(self, progress: float) -> float:
        """Return kappa after a share of all steps."""
        return self.kappa * self.schedule.factor(progress)

    def substitutions(self, words: WordSettings) -> Substitutions:
        """Return the perturbation sets.

        Raises:
            ValueError: see `find_sets`.
            OSError: a resource is missing.
        """
        from attacks.resources.catalogue import Resources, resources_named
        from attacks.word_sets import find_sets

        assert self.sets is not None  # callers ask
        with resources_named("--model.robustness.resources"):
            return find_sets(self.sets, words, Resources(self.resources))

    def threat(self, tokenizer: WordTokenizer) -> Synonyms:
        """Return the lists of words.

        Raises:
            ValueError: a broken file, or lists for texts.
            OSError: the file cannot be read.
        """
        assert self.lists is not None  # checked for synonyms
        threat = Synonyms.read(Path(self.lists), words=tokenizer.splitter.settings)
        if threat.texts:
            msg = f"got {self.lists} with lists for texts, expected lists for words to train with"
            raise ValueError(msg)
        return threat

    def replacements(self, tokenizer: WordTokenizer, *, ordered: str | None) -> Replacements:
        """Return the synonyms or perturbation sets; see `Replacements.of_model`.

        Raises:
            ValueError: see `threat` and `substitutions`, or sets that move words.
            OSError: a file or resource cannot be read.
        """
        words = tokenizer.splitter.settings
        sets = self.threat(tokenizer) if self.sets is None else self.substitutions(words)
        return Replacements.of_model(sets, words, ordered=ordered)

    def add_words(self, tokenizer: WordTokenizer, *, ordered: str | None) -> WordTokenizer:
        """Return a tokenizer that knows the words that sets list for its words, with `extend`.

        Raises:
            ValueError: see `replacements`.
            OSError: a resource is missing.
        """
        if self.sets is None or not self.extend:
            return tokenizer
        sets = self.replacements(tokenizer, ordered=ordered)
        assert isinstance(sets, Substitutions)  # it has names of sets
        words = tokenizer.vocabulary.words()
        return extend_vocabulary(tokenizer, chain.from_iterable(map(sets.listed, words)))

    def table(self, tokenizer: WordTokenizer) -> Tensor:
        """`[V, S]` ids of the candidates of each word: itself first, and as padding."""
        words, first = tokenizer.vocabulary.words(), len(tokenizer.specials)
        if self.against == "synonyms":
            threat = self.threat(tokenizer)
            candidates = [tokenizer.ids(threat.of_word(word)) for word in words]
        else:
            candidates = self._near(words, first, tokenizer.unk_id)
        size = max((len(row) for row in candidates), default=1)
        table = [[index] * size for index in range(first)]
        table += [[*row, *row[:1] * (size - len(row))] for row in candidates]
        return torch.tensor(table)

    def _near(self, words: Sequence[str], first: int, unknown: int) -> list[list[int]]:
        """Return the ids of the candidates of each word against characters; its own first."""
        near = near_words(words)
        return [
            [first + i, unknown, *(first + j for j in sorted(near[i]))][: self.candidates]
            for i in range(len(near))
        ]

    def edits(self, tokenizer: WordTokenizer) -> "WordEdits":
        """Return the edits of each known word, for training with `splits`."""
        words, first = tokenizer.vocabulary.words(), len(tokenizer.specials)
        ids = {word: first + index for index, word in enumerate(words)}
        rows = [[(0, 0)] for _ in range(first)]
        for word, near in zip(words, self._near(words, first, 0), strict=True):
            # A space is inserted before a character, or replaces it.
            halves = [(word[:at], word[end:]) for at in range(len(word)) for end in (at, at + 1)]
            parts = ((ids.get(head, 0), ids.get(tail, 0)) for head, tail in halves)
            rows.append(list(dict.fromkeys([*((index, 0) for index in near), *parts])))
        size = max(map(len, rows))
        pairs = torch.tensor([[*row, *row[:1] * (size - len(row))] for row in rows])
        letters = [index for word, index in ids.items() if len(word) == 1]
        return WordEdits(pairs, torch.tensor([0, *letters]))

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """`[B]` losses of the worst texts, with labels `[B]`.

        Column j of the logits `[B, C]` is minus the least margin of the label over class j, 0 in
        that of the label.
        """
        if self.margin is None:
            return functional.cross_entropy(logits, labels, reduction="none")
        own = functional.one_hot(labels, logits.shape[1]).bool()
        least = -logits.masked_fill(own, -torch.inf).amax(dim=1)
        return (self.margin - least).clamp_min(0.0) / self.margin


def rivals(labels: Tensor, classes: int) -> Tensor:
    """`[B, C - 1]`: the classes other than the labels `[B]`, in their order."""
    # 0 ... C - 2, of which those from the label on move up by one: the label is left out.
    indices = torch.arange(classes - 1, device=labels.device).expand(len(labels), -1)
    return indices + (indices >= labels.unsqueeze(1))


def rival_leads(logits: Tensor, labels: Tensor) -> Tensor:
    """`[B, C]`: the lead of each rival over the label in a text of its own, 0 for the label.

    Logits are `[B, C - 1, C]` of the texts against the labels `[B]`, in the order of `rivals`.
    """
    rows, count, _ = logits.shape
    classes = rivals(labels, count + 1)
    own = logits.gather(2, labels.view(-1, 1, 1).expand(-1, count, 1)).squeeze(2)
    leads: Tensor = logits.gather(2, classes.unsqueeze(2)).squeeze(2) - own
    return leads.new_zeros(rows, count + 1).scatter(1, classes, leads)


def worst_texts(scores: NgramScores, candidates: Tensor, labels: Tensor, k: int | None) -> Tensor:
    """`[B, C - 1, N]` ids: for each rival of the label the text with the smallest margin.

    Candidates are `[B, N, S]`, see `certify.words.worst_path`, labels `[B]`; at most `k` words are
    replaced, any number if None.
    """
    classes = scores.classes
    with torch.no_grad():
        eye = torch.eye(classes, device=labels.device)
        # [B * (C - 1), C]
        direction = (eye[labels].unsqueeze(1) - eye[rivals(labels, classes)]).flatten(0, 1)
        rows = candidates.repeat_interleave(classes - 1, dim=0)
        find = worst_words if scores.width == 1 else worst_path
        chosen = find(scores, rows, direction, k).path[:, -1]
        texts = rows.gather(2, chosen.unsqueeze(2)).squeeze(2)
    return texts.view(len(labels), classes - 1, -1)


def extend_vocabulary(tokenizer: WordTokenizer, words: Iterable[str]) -> WordTokenizer:
    """Return a tokenizer with further words, after those that it has."""
    vocabulary = tokenizer.vocabulary
    # Word vectors have "words" of marks alone, of which a model reads nothing.
    new = list(words)
    new = [word for word, read in zip(new, tokenizer.splitter.read(new), strict=True) if read]
    tokens = list(dict.fromkeys((*vocabulary.get_itos(), *new)))
    counts = list(map(vocabulary.count, tokens))
    state = {**vocabulary.state(), "tokens": tokens, "counts": counts}
    splitter = tokenizer.splitter
    return WordTokenizer(
        Vocabulary.from_state(state),
        tokenizer.max_length,
        words=splitter.settings,
        lemmatizer=splitter.lemmatizer,
    )


class WordOptions(NamedTuple):
    """The possible replacements of each known word.

    Attributes:
        ids: `[R, 2]` results, the word itself first; the second is 0 where it is one word.
        starts: `[V + 1]`: the rows of each word.
    """

    ids: Tensor
    starts: Tensor

    @classmethod
    def of(cls, threat: Replacements, tokenizer: WordTokenizer) -> "WordOptions":
        """Collect the results of all known words; specials only become themselves."""
        first = len(tokenizer.specials)
        reach = threat.reach(tokenizer.vocabulary.words(), tokenizer)
        special = torch.arange(first)
        own = torch.stack([special, torch.zeros_like(special)], dim=1)
        return cls(
            torch.cat([own, reach.ids.clamp_min(0)]), torch.cat([special, reach.starts + first])
        )

    def to(self, device: torch.device) -> "WordOptions":
        """Return a copy on another device."""
        return WordOptions(self.ids.to(device), self.starts.to(device))

    def within(self, forms: Tensor) -> "WordOptions":
        """Return the results that are one word with the form, of `[V]`, of the word itself."""
        sizes = self.starts.diff()
        owner = torch.repeat_interleave(sizes)
        same = (forms[self.ids[:, 0]] == forms[owner]) & (self.ids[:, 1] == 0)
        counts = torch.bincount(owner[same], minlength=len(sizes))
        return WordOptions(self.ids[same], functional.pad(counts.cumsum(0), (1, 0)))

    def of_words(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return the results `[M, 2]` of some words `[U]`, and where each begins `[U + 1]`."""
        sizes = self.starts.diff()[words]
        starts = functional.pad(sizes.cumsum(0), (1, 0))
        # A word's results stay together: all of them move by the same number of rows.
        shift = (self.starts[words] - starts[:-1]).repeat_interleave(sizes)
        return self.ids[torch.arange(len(shift), device=words.device) + shift], starts

    def table(self) -> Tensor:
        """`[V, S]` results of one word, rows filled up with the word itself."""
        sizes = self.starts.diff()
        owner = torch.repeat_interleave(sizes)
        # The first result of a word is the word itself.
        table = self.ids[self.starts[:-1], :1].repeat(1, int(sizes.amax()))
        table[owner, torch.arange(len(owner), device=sizes.device) - self.starts[owner]] = self.ids[
            :, 0
        ]
        return table

    @torch.no_grad()
    def worst(self, scores: NgramScores, ids: Tensor, labels: Tensor, k: int | None) -> Tensor:
        """`[B, C - 1, 2 N]` ids, 0 for none: for each rival the text with the smallest margin.

        The scores are of words only, without n-grams; ids are `[B, N]`, padded with 0, labels
        `[B]`; at most `k` words are replaced, any number if None.
        """
        words, inverse = torch.unique(ids, return_inverse=True)
        results, starts = self.of_words(words)
        classes = scores.classes
        lost, place = worst_results(scores.word_table()[results].sum(dim=1), starts)
        # [B, N, C - 1]
        column = rivals(labels, classes).unsqueeze(1).expand(-1, ids.shape[1], -1)
        row = inverse.unsqueeze(2).expand_as(column)
        own = labels.view(-1, 1, 1).expand_as(column)
        texts = results[place[row, own, column]]  # [B, N, C - 1, 2]
        if k is not None:
            losses = lost[row, own, column]
            # The second sort turns an order of words into the rank of each word.
            rank = losses.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
            own_ids = results[starts[:-1]][inverse].unsqueeze(2)
            texts = torch.where((rank < k).unsqueeze(3), texts, own_ids)
        return texts.transpose(1, 2).flatten(2)


class WordEdits(NamedTuple):
    """The possible results of an edit of a character for each known word.

    Attributes:
        pairs: `[V, S, 2]` ids: a word becomes one or two others; 0 is an unknown word, or none. The
            word itself is first, and is the padding.
        letters: `[L]` ids of words of one letter, and 0.
    """

    pairs: Tensor
    letters: Tensor

    def to(self, device: torch.device) -> "WordEdits":
        """Return a copy on another device."""
        return WordEdits(self.pairs.to(device), self.letters.to(device))

    @torch.no_grad()
    def worst(self, scores: NgramScores, ids: Tensor, labels: Tensor, k: int | None) -> Tensor:
        """`[B, C - 1, M]` ids, 0 for none: for each rival the words of a text with a small margin.

        The scores are of words only, without n-grams; ids are `[B, N]`, padded with 0, labels
        `[B]`; there are `k` edits, one in each word if None.
        """
        table, count = scores.word_table(), scores.classes - 1
        eye = torch.eye(scores.classes, device=labels.device, dtype=table.dtype)
        direction = eye[labels].unsqueeze(1) - eye[rivals(labels, scores.classes)]
        pairs = self.pairs[ids]
        # Margins [B, N, S, J] of a word's results; [B, J, N]: the loss by the worst edit of a word.
        margins = table[pairs].sum(dim=3) @ direction.transpose(1, 2).unsqueeze(1)
        least, chosen = margins.min(dim=2)
        own = margins[:, :, 0].transpose(1, 2)
        lost, chosen = own - least.transpose(1, 2), chosen.transpose(1, 2)
        length = ids.shape[1]
        rows = pairs.unsqueeze(1).expand(-1, count, -1, -1, -1)
        edited = rows.gather(3, chosen[..., None, None].expand(-1, -1, -1, 1, 2)).squeeze(3)
        if k is None:
            return edited.flatten(2)
        added, letter = (direction @ table[self.letters].T).min(dim=2)
        inserted = ids.new_zeros(*added.shape, k)
        unedited = ids[:, None, :, None].expand(-1, count, -1, 1)
        words = torch.cat([unedited, torch.zeros_like(unedited)], dim=3)
        free = torch.ones_like(lost, dtype=torch.bool)
        position = torch.arange(length, device=ids.device)
        # Greedy: each edit lowers the margin most, among words without an earlier edit. For one
        # edit the text is the worst, if all neighbours can be joined and joined words are unknown;
        # for more edits it may not be.
        for step in range(k):
            # Candidates, in this order: edit word 0 ... N-1, join words i and i+1, insert a letter.
            alone = lost * free
            # A joined word is counted as unknown, with a score of 0: both words lose theirs.
            both = free[..., :-1] & free[..., 1:]
            joined = (own[..., :-1] + own[..., 1:]) * both
            gains = torch.cat([alone, joined, -added.unsqueeze(2)], dim=2)
            most, which = gains.max(dim=2, keepdim=True)
            which = which.masked_fill(most <= 0, 2 * length)  # no edit lowers the margin
            single = position == which
            pair = (position + length == which) | (
                (position + length - 1 == which) & (which >= length)
            )
            pair &= which < 2 * length - 1
            words = torch.where(single.unsqueeze(3), edited, words)
            words = words.masked_fill(pair.unsqueeze(3), 0)
            free = free & ~single & ~pair
            inserted[..., step] = self.letters[letter] * (which == 2 * length - 1).squeeze(2)
        return torch.cat([words.flatten(2), inserted], dim=2)


def least_leads(scores: NgramScores, candidates: Tensor, labels: Tensor) -> Tensor:
    """`[B, N, C - 1]`: lower bounds on the margins of the labels `[B]` at each position.

    The scores have a net over windows; candidates are `[B, N, S]`, see `certify.words.worst_path`.
    """
    assert scores.net is not None  # the settings are checked
    eye = torch.eye(scores.classes, device=labels.device)
    direction = eye[labels].unsqueeze(1) - eye[rivals(labels, scores.classes)]
    words = functional.embedding(candidates, scores.word_table())
    words = words @ direction.transpose(1, 2).unsqueeze(1)  # [B, N, S, C - 1]
    return words.amin(dim=2) + scores.net.least(scores.net_tables(), candidates, direction)


def near_words(words: Sequence[str]) -> list[set[int]]:
    """Find, for each word, the words at an edit distance of one character."""
    indices = {word: index for index, word in enumerate(words)}
    near: list[set[int]] = [set() for _ in words]
    # Words that are equal after deleting the same position differ in that character only.
    holes: dict[tuple[str, int], list[int]] = {}
    for index, word in enumerate(words):
        if not set(word) <= set(LETTERS):
            continue
        for at in range(len(word)):
            rest = word[:at] + word[at + 1 :]
            holes.setdefault((rest, at), []).append(index)
            if (other := indices.get(rest)) is not None:
                near[index].add(other)
                near[other].add(index)
    for same in holes.values():
        for index in same:
            near[index].update(other for other in same if other != index)
    return near
