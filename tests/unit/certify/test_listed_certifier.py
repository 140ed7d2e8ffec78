"""Lists of inputs: certificates of black boxes against brute force over raw strings."""

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any

import pytest
import torch
from torch import Tensor

from certify.encoding import ListedCertifier, ListedModel
from certify.threats import (
    Characters,
    DeletedStopWords,
    InsertedStopWords,
    Replacements,
    Substitutions,
    Synonyms,
    Typos,
    WordSet,
)
from tests.unit.certify.words.test_substitutions import (
    FRONT,
    KS,
    TEXTS,
    VOCABULARY,
    Listed,
    Phrases,
    typos,
)
from text import EncodedWords, Encoding, FrontEnd, Span, Text, Tokenizer, Vocabulary, WordTokenizer

ENOUGH = 10**6
STOPS = ("a", "at", "zz")


def black_box(encodings: Sequence[Encoding], rare: int = 40) -> Tensor:
    """Logits without any structure: one input in about `rare` has another class, as many a tie."""
    rows = []
    for encoding in encodings:
        number = 7
        for index in encoding.input_ids:
            number = (number * 31 + index * 17 + 5) % 10007
        rows.append(
            [[1.0, 1.0, 0.0], [0.0, 2.0, 3.0]][number % 2] if number % rare < 2 else [2.0, 0.5, 1.0]
        )
    return torch.tensor(rows, dtype=torch.float64)


class Letters(Tokenizer):
    """Reads every character, as a model of subwords reads what is between the words."""

    pad_id, unk_id, vocab_size, max_length = 0, 1, 10**6, 10**6

    def encode(self, texts: Sequence[Text]) -> list[Encoding]:
        return [Encoding([ord(c) for c in str(text)], [0] * len(text)) for text in texts]

    def spans(self, texts: Sequence[Text]) -> list[list[Span]]:
        raise NotImplementedError  # a certificate does not ask for it

    def state(self) -> dict[str, Any]:
        raise NotImplementedError  # a certificate does not ask for it


def words_of_model(max_length: int = 32) -> WordTokenizer:
    counts = {word: len(VOCABULARY) - i for i, word in enumerate(VOCABULARY)}
    return WordTokenizer(Vocabulary(counts), max_length=max_length, words=FRONT)


def models() -> list[Tokenizer]:
    front_end = FrontEnd.of_words(VOCABULARY, FRONT, unknown="[unk]")
    clusters = {"bat": "bad", "god": "good", "go": "good"}
    return [
        words_of_model(),
        words_of_model(max_length=3),
        EncodedWords(Letters(), {}, front_end),
        EncodedWords(Letters(), clusters, front_end),
    ]


def brute_force(
    tokenizer: Tokenizer,
    threat: Replacements,
    text: str,
    changes: Callable[[str, str], set[str]],
    answer: Callable[[Sequence[Encoding]], Tensor],
) -> list[bool]:
    """Return the verdict for each of `KS`, from raw strings."""
    read = words_of_model().splitter
    surfaces = threat.split(text)
    own = int(answer(tokenizer.encode([text])).argmax())
    choices = []
    for surface, word in zip(surfaces, read.read(surfaces), strict=True):
        new = sorted(f"{changed} zzzz" for changed in changes(surface, word))
        encoded = tokenizer.encode(new) if new else []
        distinct = {tuple(e.input_ids): t[:-5] for e, t in zip(encoded, new, strict=True)}
        choices.append([surface, *distinct.values()])
    verdicts = []
    for k in KS:
        size = len(choices) if k is None else min(k, len(choices))
        reached = {
            " ".join(words)
            for places in combinations(range(len(choices)), size)
            for words in product(*(c if i in places else c[:1] for i, c in enumerate(choices)))
        }
        logits = answer(tokenizer.encode(sorted(reached)))
        rest = logits.scatter(1, torch.full((len(logits), 1), own), -torch.inf).amax(dim=1)
        verdicts.append(bool((logits[:, own] > rest).all()))
    return verdicts


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("kind", ["typos", "listed", "both", "splits", "insert", "delete"])
def test_certificates_equal_brute_force(which: int, kind: str) -> None:
    tokenizer, splits = models()[which], kind == "splits"
    lists = Phrases() if splits else Listed()
    sets: dict[str, tuple[WordSet, ...]] = {
        "typos": (Typos(FRONT),),
        "listed": (lists,),
        "both": (Typos(FRONT), lists),
        "insert": (InsertedStopWords("insert", STOPS),),
        "delete": (DeletedStopWords("delete", frozenset(STOPS)),),
    }
    threat = Substitutions(words=FRONT, sets=sets.get(kind, (Typos(FRONT, splits=True), lists)))

    def changes(surface: str, word: str) -> set[str]:
        if kind == "insert":
            return {" ".join(pair) for s in STOPS for pair in ((surface, s), (s, surface))}
        if kind == "delete":
            return {""} if word in STOPS else set()
        new = set() if kind == "listed" else typos(word, splits=splits) - {word}
        return new if kind == "typos" else {*new, *lists.replacements(surface)}

    held = failed = 0
    for rare in (8, 60):

        def answer(encodings: Sequence[Encoding], rare: int = rare) -> Tensor:
            return black_box(encodings, rare)

        certifier = ListedCertifier(ListedModel.of(tokenizer, answer), threat, limit=ENOUGH)
        texts = [text for text in TEXTS if len(text.split()) < 4]
        for text, found in zip(texts, certifier(texts, KS), strict=True):
            verdicts = brute_force(tokenizer, threat, text, changes, answer)
            assert list(found.holds) == verdicts, (text, kind)
            assert found.kind == "exact"
            assert not found.cut
            held, failed = held + sum(verdicts[1:]), failed + (False in verdicts)
            assert (found.witness is None) == all(verdicts)
            if found.witness is not None:
                assert threat.at(KS[verdicts.index(False)]).contains(text, found.witness)
                (logits,) = answer(tokenizer.encode([found.witness]))
                assert logits.argmax() != found.prediction or logits.sort().values[-2:].diff() == 0
                assert found.witness_prediction != found.prediction
    assert held > 0
    assert failed > 0


def test_beyond_the_limit_nothing_is_certified() -> None:
    calls: list[int] = []

    def sure(encodings: Sequence[Encoding]) -> Tensor:
        calls.append(len(encodings))
        return torch.tensor([[1.0, 0.0]] * len(encodings), dtype=torch.float64)

    model = ListedModel.of(EncodedWords.around(Letters()), sure)
    threat = Synonyms.of({"good": ["fine", "great"], "bad": ["poor"]})
    # 1 + 2 + 1 texts with one change, 6 with any number.
    for limit, holds in (
        (6, (True, True, True)),
        (5, (True, True, False)),
        (3, (True, False, False)),
    ):
        (found,) = ListedCertifier(model, threat, limit=limit)(["good bad film"], [0, 1, None])
        assert found.holds == holds
        assert found.kind == ("exact" if all(holds) else "lower bound")
        assert found.witness is None
        assert found.passes is not None
        assert found.passes <= limit
    assert max(calls) <= 3


@pytest.mark.parametrize("max_length", [3, 32])
@pytest.mark.parametrize("bound", [None, 0.375])
@pytest.mark.parametrize("normalised", [False, True])
def test_scores_and_a_list_equal_brute_force(
    max_length: int, bound: float | None, *, normalised: bool
) -> None:
    """A black box that reads forms, and scores of words: also of texts that are cut."""
    tokenizer = words_of_model(max_length)
    pairs = {"bat": "bad", "god": "good", "go": "good", "fine": "good"}
    forms = list(range(tokenizer.vocab_size))
    for word, other in pairs.items():
        forms[tokenizer.ids([word])[0]] = tokenizer.ids([other])[0]
    threat = Substitutions(words=FRONT, sets=(Typos(FRONT), lists := Listed()))
    held = failed = unlisted = 0
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        scores = torch.randint(-16, 17, (tokenizer.vocab_size, 3), generator=generator).double() / 8
        scores[: len(tokenizer.specials)] = 0

        def encode_forms(encodings: Sequence[Encoding]) -> Tensor:
            ids = [[forms[index] for index in encoding.input_ids] for encoding in encodings]
            return black_box([Encoding(row, [0] * len(row)) for row in ids], 8) / 8

        def answer(encodings: Sequence[Encoding], scores: Tensor = scores) -> Tensor:
            sums = [scores[encoding.input_ids].sum(dim=0) for encoding in encodings]
            roots = [len(e.input_ids) ** 0.5 if normalised else 1.0 for e in encodings]
            parts = [total / root for total, root in zip(sums, roots, strict=True)]
            return encode_forms(encodings) + torch.stack(parts)

        model = ListedModel.of(tokenizer, encode_forms)._replace(
            form=lambda ids: tuple(forms[index] for index in ids),
            scores=scores,
            normalised=normalised,
            bound=bound,
        )
        texts = ["good bat", "a gud film", "film zz well bat"]
        (whole, short) = (
            ListedCertifier(model, threat, limit=limit)(texts, KS) for limit in (ENOUGH, 1)
        )
        for text, found, least in zip(texts, whole, short, strict=True):
            verdicts = brute_force(
                tokenizer,
                threat,
                text,
                lambda surface, word: {
                    *(typos(word, splits=False) - {word}),
                    *lists.replacements(surface),
                },
                answer,
            )
            assert list(found.holds) == verdicts, text
            assert found.kind == "exact"
            assert found.cut == (len(text.split()) > max_length)
            assert all(a <= b for a, b in zip(least.holds, verdicts, strict=True))
            held, failed = held + sum(verdicts[1:]), failed + (False in verdicts)
            unlisted += sum(least.holds[1:])
            if found.witness is not None:
                assert threat.at(KS[verdicts.index(False)]).contains(text, found.witness)
                (logits,) = answer(tokenizer.encode([found.witness]))
                rest = logits.scatter(0, torch.tensor(found.prediction), -torch.inf)
                assert logits[found.prediction] <= rest.amax()
                assert found.witness_prediction == int(rest.argmax())
    assert held > 0
    assert failed > 0
    assert (unlisted > 0) == (bound is not None)


def test_no_text_of_a_long_list_is_left_out() -> None:
    words = [f"v{number}x" for number in range(130)]
    threat = Synonyms.of({"good": words})
    for word in words:

        def answer(encodings: Sequence[Encoding], word: str = word) -> Tensor:
            texts = ["".join(map(chr, encoding.input_ids)) for encoding in encodings]
            return torch.tensor([[0.0, float(word in text)] for text in texts]) + torch.tensor(
                [0.5, 0.0], dtype=torch.float64
            )

        model = ListedModel.of(EncodedWords.around(Letters()), answer)
        (found,) = ListedCertifier(model, threat, limit=131)(["a good film"], [0, 1])
        assert found.holds == (True, False)
        assert found.witness == f"a {word} film"


@pytest.mark.parametrize(
    ("score", "holds", "kind"),
    [
        (2.0, False, "exact"),
        (2.0 + 1e-12, False, "lower bound"),
        (2.0 + 1e-6, True, "exact"),
        (3.0, True, "exact"),
    ],
)
@pytest.mark.parametrize("limit", [1, 9])
def test_scores_that_lead_by_just_the_bound_prove_nothing(
    score: float, limit: int, *, holds: bool, kind: str
) -> None:
    """The logits of any other word are at the bound, against the class of the scores."""
    tokenizer = WordTokenizer(Vocabulary({"good": 2, "fine": 1}))
    own, other = tokenizer.ids(["good", "fine"])
    scores = torch.zeros(tokenizer.vocab_size, 2, dtype=torch.float64)
    scores[own, 0], scores[other, 0] = 5.0, score

    def answer(encodings: Sequence[Encoding]) -> Tensor:
        rows = [
            [0.0, 2.0] if encoding.input_ids == [other] else [0.0, 0.0] for encoding in encodings
        ]
        return torch.tensor(rows, dtype=torch.float64)

    model = ListedModel.of(tokenizer, answer)._replace(scores=scores, bound=2.0)
    (found,) = ListedCertifier(model, Synonyms.of({"good": ["fine"]}), limit=limit)(
        ["good"], [0, 1]
    )
    assert found.holds == (True, holds)
    assert found.kind == (kind if limit > 1 or holds else "lower bound")


def test_words_of_one_form_are_one_input() -> None:
    seen: list[tuple[int, ...]] = []

    def answer(encodings: Sequence[Encoding]) -> Tensor:
        seen.extend(tuple(encoding.input_ids) for encoding in encodings)
        return black_box(encodings, 10**5)

    encoded = EncodedWords(Letters(), {"fine": "good", "great": "good"})
    threat = Synonyms.of({"good": ["fine", "great"]})
    certifier = ListedCertifier(ListedModel.of(encoded, answer), threat, limit=1)
    (found,) = certifier(["a good good film"], [1, None])
    assert found.holds == (True, True)
    assert found.passes == 1
    assert len(seen) == len(set(seen)) == 1


def test_a_text_ends_at_its_first_counterexample() -> None:
    """The word that matters most is changed first, and texts share their batches."""
    lists = {f"w{i}": [f"v{i}{j}" for j in range(30)] for i in range(20)}
    sizes: list[int] = []

    def answer(encodings: Sequence[Encoding]) -> Tensor:
        sizes.append(len(encodings))
        texts = ["".join(map(chr, encoding.input_ids)) for encoding in encodings]
        # Changes of w13 lower the margin, and only the last of its words changes the prediction.
        leads = [-1.0 if "v1329" in text else 1.0 if "v13" in text else 3.0 for text in texts]
        return torch.tensor([[lead, 0.0] for lead in leads], dtype=torch.float64)

    model = ListedModel.of(EncodedWords.around(Letters()), answer)
    certifier = ListedCertifier(model, Synonyms.of(lists), limit=1000)
    text = " ".join(lists)
    for found in certifier([text, text, text], [1, 2]):
        assert found.holds == (False, False)
        assert found.kind == "exact"
        assert found.witness == text.replace("w13", "v1329")
        assert found.passes is not None
        assert found.passes <= 1 + 20 + 64
    assert sizes[0] == 3
    assert len(sizes) == 3


@pytest.mark.parametrize("lead", [0.0, 1e-12, float("nan")])
def test_a_tie_is_no_certificate(lead: float) -> None:
    def tied(encodings: Sequence[Encoding]) -> Tensor:
        texts = ["".join(map(chr, encoding.input_ids)) for encoding in encodings]
        rows = [[lead, 0.0] if "fine" in text else [1.0, 0.0] for text in texts]
        return torch.tensor(rows, dtype=torch.float64)

    model = ListedModel.of(EncodedWords.around(Letters()), tied)
    certifier = ListedCertifier(model, Synonyms.of({"good": ["fine"]}), limit=9)
    (found,) = certifier(["good film"], [0, 1])
    assert found.holds == (True, False)
    expected = ("exact", "fine film", 1) if lead == 0 else ("lower bound", None, None)
    assert (found.kind, found.witness, found.witness_prediction) == expected
    assert certifier(["fine film"], [0, 1])[0].holds == (False, False)


def test_models_and_threats_without_a_list_are_refused() -> None:
    model = ListedModel.of(words_of_model(), black_box)
    with pytest.raises(ValueError, match="got the threat characters for a list"):
        ListedCertifier(model, Characters(k=1), limit=9)
    with pytest.raises(ValueError, match="got a list of 0 inputs"):
        ListedCertifier(model, Synonyms.of({"a": ["b"]}, words=FRONT), limit=0)
    with pytest.raises(ValueError, match="of the words of the model"):
        ListedCertifier(model, Synonyms.of({"a": ["b"]}), limit=9)
    bare = EncodedWords(Letters(), {}, FrontEnd.of_words(VOCABULARY, FRONT))
    with pytest.raises(ValueError, match="without unknown token"):
        ListedModel.of(bare, black_box)
