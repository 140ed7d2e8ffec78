"""Certificates against perturbation sets, by brute force on raw texts through the front end."""

import random
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, product
from typing import ClassVar

import pytest
import torch

from certify.threats import ListedWords, Substitutions, Typos
from certify.words.score_certifiers import ScoreModel, SynonymCertifier
from layers.ngram_scores import NgramScores
from layers.window_net import WindowNetSettings
from tests.unit.certify.words.score_models import score_model
from text import Vocabulary, WordSettings, WordTokenizer, collate

FRONT = WordSettings(split="joined", front_end="spelling")
VOCABULARY = ("good", "god", "go", "bad", "bat", "at", "a", "film", "dont", "well")
TEXTS = ("good bat", "a gud film", "don't go", "go-od at", "zz god", "wéll b\u0430d")
KS = (0, 1, 2, None)


class Listed(ListedWords):
    """Lists of a test."""

    name, statement = "listed", "by a listed word"
    lists: ClassVar = {"good": ["fine", "well done", "bad"], "don't": ["do"], "zz": ["film"]}

    @property
    def content(self) -> object:
        return self.lists

    def replacements(self, word: str) -> Sequence[str]:
        return [text for text in self.lists.get(word, ()) if " " not in text]


class Phrases(Listed):
    """The same with phrases."""

    splits = True

    def replacements(self, word: str) -> Sequence[str]:
        return self.lists.get(word, ())


def model(
    classes: int,
    seed: int,
    *,
    max_length: int = 32,
    window: int = 1,
    hidden: int = 0,
    lean: float = 0.0,
) -> ScoreModel:
    """Scores are multiples of 1/8, so that ties are met, too.

    Half of all n-grams have some; `lean` is added to those of words and class 0.
    """
    generator = torch.Generator().manual_seed(seed)
    counts = {word: len(VOCABULARY) - i for i, word in enumerate(VOCABULARY)}
    tokenizer = WordTokenizer(Vocabulary(counts), max_length=max_length, words=FRONT)
    ids = range(3, tokenizer.vocab_size)
    grams = [
        torch.tensor(
            [
                gram
                for gram in product(ids, repeat=order)
                if torch.rand(1, generator=generator) < 0.5
            ]
        )
        for order in range(2, 2 if hidden else window + 1)
    ]
    scores = NgramScores(
        tokenizer.vocab_size,
        classes,
        counts=[*map(len, grams)],
        window=window,
        net=WindowNetSettings(hidden=hidden, width=3) if hidden else None,
    )
    scores.set_ngrams(grams)
    with torch.no_grad():
        for parameter in scores.parameters():
            drawn = torch.randint(-8, 9, parameter.shape, generator=generator)
            parameter.copy_(drawn / 8)
        scores.words[:, 0] += lean
    return ScoreModel(scores.eval().requires_grad_(requires_grad=False), tokenizer)


def typos(word: str, *, splits: bool) -> set[str]:
    """Every string within one edit of a word, letter by letter."""
    letters = "abcdefghijklmnopqrstuvwxyzж" + " " * splits
    changed = {word}
    for i in range(len(word) + 1):
        changed |= {word[:i] + letter + word[i:] for letter in letters}
        if i < len(word):
            changed |= {word[:i] + letter + word[i + 1 :] for letter in letters}
            changed.add(word[:i] + word[i + 1 :])
        if i + 1 < len(word):
            changed.add(word[:i] + word[i + 1] + word[i] + word[i + 2 :])
    return {" ".join(new.split()) for new in changed if new.strip()}


def own_words(scorer: ScoreModel, text: str) -> list[str]:
    splitter = scorer.tokenizer.splitter
    return splitter.read(splitter.split(text))


def predict(scorer: ScoreModel, text: str) -> torch.Tensor:
    """The logits of a raw text, by the way of a prediction."""
    (encoding,) = scorer.tokenizer.encode([text])
    logits: torch.Tensor = scorer.scores(torch.tensor([encoding.input_ids]))[0].sum(dim=0)
    return logits


def predict_all(scorer: ScoreModel, texts: Sequence[str]) -> torch.Tensor:
    """The same for many texts."""
    batch = collate(scorer.tokenizer.encode(texts), pad_id=scorer.tokenizer.pad_id)
    scores: torch.Tensor = scorer.scores(batch.input_ids) * batch.mask.unsqueeze(2)
    return scores.sum(dim=1)


def count_held(
    scorer: ScoreModel,
    threat: Substitutions,
    texts: Sequence[str],
    changes: Callable[[str, str], Iterable[str]],
) -> int:
    """Compare certificates with all texts of a set, one by one; return how many hold.

    Args:
        scorer: the model.
        threat: the set.
        texts: any texts.
        changes: from a word as it is in the text and as the model reads it to all that it may
            become, in raw strings.
    """
    held = 0
    for found in SynonymCertifier(scorer, threat)(texts, KS):
        prediction = int(predict(scorer, found.text).argmax())
        assert found.prediction == prediction
        assert found.kind == "exact"
        surfaces = threat.split(found.text)
        choices = []
        for surface, word in zip(surfaces, own_words(scorer, found.text), strict=True):
            # One text for each list of ids: the rest would only repeat it. Padded, for "" alone is
            # one unknown word, and with others it is nothing.
            new = {f"{text} zzzz" for text in changes(surface, word)}
            encoded = scorer.tokenizer.encode(sorted(new))
            distinct = {
                tuple(encoding.input_ids): text[:-5]
                for encoding, text in zip(encoded, sorted(new), strict=True)
            }
            choices.append([surface, *distinct.values()])
        verdicts = []
        for k in KS:
            size = len(choices) if k is None else min(k, len(choices))
            reached = []
            for places in combinations(range(len(choices)), size):
                options = [c if i in places else c[:1] for i, c in enumerate(choices)]
                reached += [" ".join(words) for words in product(*options)]
            leads = predict_all(scorer, reached)
            own = leads[:, prediction].clone()
            leads[:, prediction] = -torch.inf
            verdicts.append(bool((own > leads.amax(dim=1)).all()))
        assert found.holds == tuple(verdicts), found.text
        held += sum(verdicts[1:])
        if found.witness is not None:
            k = KS[verdicts.index(False)]
            assert threat.at(k).contains(found.text, found.witness)
            logits = predict(scorer, found.witness)
            assert (
                logits[prediction]
                <= logits.scatter(0, torch.tensor([prediction]), -torch.inf).max()
            )
        assert all(verdicts) == (found.witness is None)
    return held


@pytest.mark.parametrize("splits", [False, True])
@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_certificates_equal_brute_force(classes: int, *, listed: bool, splits: bool) -> None:
    lists = Phrases() if splits else Listed()
    threat = Substitutions(words=FRONT, sets=(Typos(FRONT, splits=splits), *([lists] * listed)))

    def changes(surface: str, word: str) -> set[str]:
        new = typos(word, splits=splits) - {word}
        return {*new, *lists.replacements(surface)} if listed else new

    assert sum(count_held(model(classes, seed), threat, TEXTS, changes) for seed in range(2)) > 0


def test_contains_says_what_the_certificate_covers() -> None:
    threat = Substitutions(words=FRONT, sets=(Typos(FRONT, splits=True), Listed()), k=1)
    assert threat.contains("good bat", "GOOD  bat!")
    assert threat.contains("good bat", "g\u00f3\u200bod bat")  # the same canonical form
    assert threat.contains("good bat", "go od bat")
    assert threat.contains("good bat", "go.d bat")
    assert threat.contains("good bat", "god bat")
    assert threat.contains("good bat", "godo bat")
    assert threat.contains("good bat", "fine bat")
    assert threat.contains("don't go", "do'nt go")
    assert not threat.contains("good bat", "god at")
    assert threat.at(2).contains("good bat", "god at")
    assert not threat.contains("good bat", "gd bat")
    assert not threat.contains("good bat", "goodbat")
    assert not threat.contains("good bat", "good")
    assert not threat.at(None).contains("good bat", "good bat bat")
    alone = Substitutions(words=FRONT, sets=(Typos(FRONT),))
    assert not alone.contains("good bat", "go od bat")


def test_a_split_near_the_end_of_what_the_model_reads_certifies_nothing() -> None:
    scorer = model(2, 0, max_length=4)
    threat = Substitutions(words=FRONT, sets=(Typos(FRONT, splits=True),))
    for found in SynonymCertifier(scorer, threat)(["film film film"], (0, 1, 2, None)):
        assert found.kind == "lower bound"
        assert found.holds[2:] == (False, False)
        assert found.certified is not None
        assert found.certified <= 1


def test_the_digest_names_sets_and_front_end() -> None:
    typed = Substitutions(words=FRONT, sets=(Typos(FRONT),))
    digests = {
        typed.digest,
        Substitutions(words=FRONT, sets=(Typos(FRONT, splits=True),)).digest,
        Substitutions(words=FRONT, sets=(Typos(FRONT), Listed())).digest,
        Substitutions(words=WordSettings(), sets=(Listed(),)).digest,
        Substitutions(
            words=WordSettings(split="alphanumeric", front_end="canonical"), sets=(Listed(),)
        ).digest,
    }
    assert len(digests) == 5
    assert typed.at(3).digest == typed.digest
    assert typed.title == "typos"


def test_sets_that_no_model_can_have_are_refused() -> None:
    with pytest.raises(ValueError, match=r"words\.front_end=none, expected a model with"):
        Typos(WordSettings())
    ascii_words = WordSettings(split="ascii")
    SynonymCertifier(score_model(2), Substitutions(words=ascii_words, sets=(Listed(),)))
    with pytest.raises(ValueError, match="listed, where a word may become two or none, for WordSc"):
        SynonymCertifier(score_model(2), Substitutions(words=ascii_words, sets=(Phrases(),)))


def test_the_union_of_sets_has_each_result_once() -> None:
    rng = random.Random(0)
    scorer = model(2, 1)
    parts = (Typos(FRONT, splits=True), Phrases(), Listed())
    words = [*VOCABULARY, "zz", "don't", *("".join(rng.choices("godba", k=4)) for _ in range(20))]
    reach = Substitutions(words=FRONT, sets=parts).reach(words, scorer.tokenizer)
    for row, word in enumerate(words):
        rows = [tuple(ids) for ids in reach.ids[reach.starts[row] : reach.starts[row + 1]].tolist()]
        assert rows[0] == (scorer.tokenizer.ids([word])[0], -1)
        assert len(set(rows)) == len(rows)
        single = set[tuple[int, int]]()
        for part in parts:
            ids, starts = part.reach([word], scorer.tokenizer)
            single |= {tuple(pair) for pair in ids[starts[0] : starts[1]].tolist()}
        assert set(rows) == single
