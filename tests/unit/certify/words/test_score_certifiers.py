"""Certificates of sums of scores against brute force."""

import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import pytest
import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor

from certify.threats import (
    Characters,
    DeletedStopWords,
    Substitutions,
    Synonyms,
    TextCertificate,
    Threat,
    WordEditDistance,
)
from certify.words import kept_separators, score_certifiers, spelling
from certify.words.kept_separators import EditedTexts
from certify.words.score_certifiers import (
    CharacterCertifier,
    ScoreModel,
    SynonymCertifier,
    WordCertifier,
)
from certify.words.spelling import LETTERS
from certify.words.worst_path import worst_path, worst_words
from layers.ngram_scores import GRID, NgramScores, ScoreSum
from tests.unit.certify.words.score_models import LISTS, WORDS, net_model, score_model
from text import WordSettings

ASCII = WordSettings(split="ascii")


def texts(count: int, words: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices((*WORDS, "zzz"), k=rng.randint(0, words))) for _ in range(count)]


def keeps(model: ScoreModel, text: str, prediction: int, threat: Threat) -> bool:
    """True if the class leads without a tie: by the plain sum of the scores."""
    logits = model.logits(threat.split(text))
    others = torch.cat([logits[:prediction], logits[prediction + 1 :]])
    return bool((logits[prediction] > others).all())


def check(
    model: ScoreModel,
    threat: Threat,
    found: TextCertificate,
    whole: Sequence[set[str]],
    ks: Sequence[int | None],
) -> None:
    """Compares a certificate with all texts of the sets; its witness is in the first that fails."""
    logits = model.logits(threat.split(found.text))
    assert found.prediction == int(logits.argmax())
    expected = tuple(
        all(keeps(model, text, found.prediction, threat) for text in texts) for texts in whole
    )
    assert found.holds == expected
    assert found.kind == "exact"
    if all(expected):
        assert found.witness is None
        return
    k = ks[expected.index(False)]
    assert found.witness is not None
    assert threat.at(k).contains(found.text, found.witness)
    assert not keeps(model, found.witness, found.prediction, threat)
    assert found.witness_prediction != found.prediction


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("classes", [2, 3])
def test_synonyms_equal_brute_force(width: int, classes: int) -> None:
    threat = Synonyms.of(LISTS, words=ASCII)
    ks = (0, 1, 2, None)
    for seed in range(3):
        model = score_model(width, classes=classes, seed=seed)
        asked = texts(12, 5, seed)
        for found in SynonymCertifier(model, threat)(asked, ks):
            inside = {" ".join(words) for words in product(*threat.candidates(found.text))}
            whole = [{t for t in inside if threat.at(k).contains(found.text, t)} for k in ks]
            check(model, threat, found, whole, ks)


def biased(model: ScoreModel, bias: Sequence[float], *, normalised: bool = True) -> ScoreModel:
    network = ScoreSum(normalised=normalised, bias=len(bias)).eval().requires_grad_(False)
    assert network.bias is not None
    network.bias.copy_(torch.tensor(bias))
    return model._replace(network=network)


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("normalised", [False, True])
def test_with_a_bias_synonyms_equal_brute_force(width: int, *, normalised: bool) -> None:
    """Also of texts that are cut: the bias is that of the words that are read."""
    threat = Synonyms.of(LISTS, words=ASCII)
    ks = (0, None)
    for seed in range(3):
        scores = score_model(width, classes=3, seed=seed, max_length=3)
        model = biased(scores, (0.5, -0.75, 0.25), normalised=normalised)
        for found in SynonymCertifier(model, threat)(texts(12, 5, seed), ks):
            inside = {" ".join(words) for words in product(*threat.candidates(found.text))}
            whole = [{t for t in inside if threat.at(k).contains(found.text, t)} for k in ks]
            check(model, threat, found, whole, ks)


STOPS = frozenset({"a", "the", "is"})


def without_stops(text: str, k: int) -> set[str]:
    """Texts without at most k words of a list."""
    words = text.split()
    stops = [at for at, word in enumerate(words) if word in STOPS]
    return {
        " ".join(word for at, word in enumerate(words) if at not in gone)
        for size in range(k + 1)
        for gone in combinations(stops, size)
    }


MOVING: list[tuple[Any, Threat, Callable[[str, int], set[str]]]] = [
    (WordCertifier, WordEditDistance(k=1, words=ASCII), lambda t, k: {*all_words(t, k)}),
    (
        CharacterCertifier,
        Characters(k=1, words=ASCII),
        lambda t, k: near(t, "abdefgtz ") if k else {t},
    ),
    (
        SynonymCertifier,
        Substitutions(words=ASCII, sets=(DeletedStopWords("delete", STOPS),)),
        without_stops,
    ),
]


@pytest.mark.parametrize(("kind", "threat", "inside"), MOVING)
def test_a_bias_counts_by_the_length_that_edits_give(
    kind: Any, threat: Threat, inside: Callable[[str, int], set[str]]
) -> None:
    held = failed = 0
    for seed in range(4):
        model = biased(score_model(seed=seed), (0.0, [-4.0, -1.0, 1.0, 4.0][seed]))
        asked = [*texts(8, 3, seed), "a b", "a film", "the is a", "good the"]
        for found in kind(model, threat)(asked, (0, 1)):
            expected = [
                all(keeps(model, text, found.prediction, threat) for text in inside(found.text, k))
                for k in (0, 1)
            ]
            assert found.prediction == int(model.logits(threat.split(found.text)).argmax())
            assert all(a <= b for a, b in zip(found.holds, expected, strict=True)), found
            assert found.kind == "lower bound" or list(found.holds) == expected
            if found.witness is not None:
                assert threat.at(1).contains(found.text, found.witness)
                assert not keeps(model, found.witness, found.prediction, threat)
            held, failed = held + found.holds[1], failed + (not expected[1])
    assert held > 0
    assert failed > 0


@pytest.mark.parametrize(("kind", "threat"), [row[:2] for row in MOVING[:2]])
def test_a_bias_of_zero_changes_nothing(kind: Any, threat: Threat) -> None:
    """Its witnesses are checked, though: also those that are ties."""
    for seed in range(3):
        model, asked = score_model(seed=seed), texts(20, 3, seed)
        same = kind(biased(model, (0.0, 0.0)), threat)(asked, (0, 1))
        assert same == kind(model, threat)(asked, (0, 1))


@pytest.mark.parametrize(("kind", "threat"), [row[:2] for row in MOVING])
def test_a_bias_that_is_rounded_is_not_monotone_in_the_length(kind: Any, threat: Threat) -> None:
    """Two words are a tie, and one, three, four or five are none: by one unit of the grid."""
    model = biased(score_model(), (33.125 * GRID, 33.5625 * GRID))
    with torch.no_grad():
        model.scores.words.zero_()
    assert [int(model.logits(["a"] * length).argmax()) for length in range(1, 6)] == [1, 0, 1, 1, 1]
    (found,) = kind(model, threat)(["a a a"], (0, 1, 2))
    assert (found.prediction, found.holds) == (1, (True, False, False))
    assert found.certified == 0


@pytest.mark.long
@pytest.mark.parametrize("window", [2, 3, 4])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_net_over_windows_equals_brute_force(window: int, classes: int) -> None:
    threat = Synonyms.of(LISTS, words=ASCII)
    ks = (0, 1, 2, None)
    held = 0
    for seed in range(3):
        model = net_model(window, classes=classes, seed=seed)
        asked = texts(10, 5, seed)
        for found in SynonymCertifier(model, threat)(asked, ks):
            inside = {" ".join(words) for words in product(*threat.candidates(found.text))}
            whole = [{t for t in inside if threat.at(k).contains(found.text, t)} for k in ks]
            check(model, threat, found, whole, ks)
            held += found.holds[-1]
    assert 0 < held < 30


def test_the_score_of_a_window_by_hand() -> None:
    model = net_model(3)
    scores = model.scores
    assert scores.net is not None
    words = "the zzz good film".split()
    ids = torch.tensor([model.tokenizer.ids(words)])
    vectors = scores.net.words * (torch.arange(scores.size) >= 3).unsqueeze(1)
    expected = scores.word_table()[ids[0]]
    for place in range(4):
        hidden = torch.zeros(5, dtype=torch.float64)
        for back in range(3):
            if place - back >= 0:
                index = ids[0, place - back]
                hidden += vectors[index] @ scores.net.first[2 - back]
                hidden += scores.net.bias * (back == 0 and int(index) >= 3)
        expected[place] += hidden.relu() @ scores.net.second.double()
    assert torch.equal(scores(ids)[0], expected)
    padded = torch.nn.functional.pad(ids, (0, 3))
    assert torch.equal(scores(padded)[0, :4], expected)
    assert not scores(padded)[0, 4:].any()


@pytest.mark.long
def test_sums_of_a_net_are_exact() -> None:
    """Largest weights, all bits used: no order of sums, batch or path rounds."""
    model = net_model(2, max_length=1024)
    net = model.scores.net
    assert net is not None
    torch.manual_seed(0)
    with torch.no_grad():
        net.second.uniform_(-1, 1)
        net.first.uniform_(-2, 2)
        net.words.uniform_(-1, 1)
    text = random.Random(0).choices(WORDS, k=1000)
    whole = model.logits(text)
    pairs = [
        torch.tensor([model.tokenizer.ids([a, b])])
        for a, b in zip(text[1:], text[:-1], strict=True)
    ]
    pairs = [one.flip(1) for one in pairs]
    parts = [model.logits(text[:1]), *[model.scores(one)[0, 1] for one in pairs]]
    order = torch.randperm(len(parts))
    assert torch.equal(torch.stack(parts)[order].sum(dim=0), whole)
    assert sum(Fraction(part[0].item()) for part in parts) == Fraction(whole[0].item())


def test_a_net_that_is_too_steep_or_reads_too_much_is_refused() -> None:
    threat = Synonyms.of(LISTS, words=ASCII)
    with pytest.raises(ValueError, match="expected at most 1024"):
        SynonymCertifier(net_model(max_length=1025), threat)
    for value, said in ((17.0, "entries up to 17"), (torch.nan, "entries up to nan")):
        model = net_model()
        assert model.scores.net is not None
        with torch.no_grad():
            model.scores.net.second[0, 0] = value
        with pytest.raises(ValueError, match=said):
            SynonymCertifier(model, threat)
    model = net_model(4)
    assert model.scores.net is not None
    with torch.no_grad():
        model.scores.net.second.fill_(15.0)
        model.scores.net.bias.fill_(12.0)
    with pytest.raises(ValueError, match="scores above 512"):
        SynonymCertifier(model, threat)


def test_intervals_are_below_the_worst_window() -> None:
    threat = Synonyms.of(LISTS, words=ASCII)
    for window in (2, 3):
        model = net_model(window, classes=3, seed=window)
        scores = model.scores
        assert scores.net is not None
        ids = [model.tokenizer.ids(threat.of_word(word)) for word in ("the", "good", "film", "zzz")]
        rows = torch.tensor([[[*one, *one[:1] * (4 - len(one))] for one in ids]])
        direction = torch.tensor([[[1.0, -1, 0], [1, 0, -1]]], dtype=torch.float64)
        bound = scores.net.least(scores.net_tables(), rows, direction)[0]
        every = torch.tensor(list(product(*ids)))
        words = scores.word_table()[every]
        reached = (scores(every) - words) @ direction[0].T
        assert (bound <= reached.amin(dim=0)).all()
        # A text that cannot change: the bound is its score.
        alone = rows[..., :1]
        exact = scores.net.least(scores.net_tables(), alone, direction)[0]
        own = scores(alone[..., 0])[0] - scores.word_table()[alone[0, :, 0]]
        assert torch.equal(exact, own @ direction[0].T)


def test_the_largest_number_of_synonyms() -> None:
    threat = Synonyms.of(LISTS, words=ASCII)
    ks = (*range(6), None)
    model = score_model(seed=1)
    for found in SynonymCertifier(model, threat)(texts(40, 5, 1), ks):
        count = sum(found.holds[:-1]) - 1
        if found.certified is None:
            assert all(found.holds)
        else:
            assert found.certified == max(count, 0)
            assert not found.holds[-1]


@pytest.mark.long
def test_certificates_do_not_depend_on_the_batch() -> None:
    threat = Synonyms.of(LISTS, words=ASCII)
    for model in (score_model(1), score_model(2), net_model(2)):
        certifier = SynonymCertifier(model, threat)
        asked = texts(30, 6, 3)
        together = certifier(asked, (1, None))
        assert together == [certifier([text], (1, None))[0] for text in asked]


def test_words_that_are_forgotten_are_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model, threat = score_model(), Synonyms.of(LISTS, words=ASCII)
    asked = texts(20, 6, 3)
    fresh = [SynonymCertifier(model, threat)([text], (1, None))[0] for text in asked]
    monkeypatch.setattr(score_certifiers, "WORDS", 4)
    certifier = SynonymCertifier(model, threat)
    assert [certifier([text], (1, None))[0] for text in asked] == fresh


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("net", [False, True])
def test_texts_cut_where_words_have_no_choice(
    monkeypatch: pytest.MonkeyPatch, width: int, net: bool
) -> None:
    # With as many changes as words nothing is cut, and the least score is the same.
    monkeypatch.setattr("certify.words.worst_path.GROUP", -1000)  # cuts are free
    for seed in range(8):
        model = net_model(width, seed=seed) if net else score_model(width, seed=seed)
        scores = model.scores
        random = torch.Generator().manual_seed(seed)
        candidates = torch.randint(1, scores.size, (5, 20, 4), generator=random)
        fixed = torch.rand(5, 20, generator=random) < 0.6
        candidates[fixed] = candidates[fixed][:, :1]
        candidates[:2, 15:] = 0
        candidates[0] = candidates[0, :, :1]  # a text without a choice
        sign = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0], dtype=torch.float64)
        direction = torch.stack([sign, -sign], dim=1)
        cut, whole = (
            worst_path(scores, candidates, direction),
            worst_path(scores, candidates, direction, 20),
        )
        assert torch.equal(cut.value[:, 0], whole.value[:, -1])
        ids = candidates.gather(2, cut.path[:, 0].unsqueeze(2)).squeeze(2)
        reached = (scores(ids) * direction.unsqueeze(1)).sum(dim=(1, 2))
        assert torch.equal(reached, cut.value[:, 0])


def test_what_finds_ngrams_follows_their_numbers() -> None:
    scores = score_model(2).scores
    first = scores.finder(2)
    assert scores.finder(2) is first
    other = score_model(2, seed=5).scores
    assert not torch.equal(first.keys, other.finder(2).keys)
    scores.keys(2).copy_(other.keys(2))
    assert torch.equal(scores.finder(2).keys, other.finder(2).keys)
    scores.to(torch.float64)
    assert torch.equal(scores.finder(2).keys, other.finder(2).keys)


@pytest.mark.parametrize("k", [None, 0, 1, 3, 9])
def test_two_ways_for_words_alone(k: int | None) -> None:
    model = score_model()
    random_ = torch.Generator().manual_seed(1)
    candidates = torch.randint(1, model.scores.size, (6, 7, 4), generator=random_)
    direction = torch.tensor([[1.0, -1.0]], dtype=torch.float64).expand(6, 2)
    one = worst_words(model.scores, candidates, direction, k)
    other = worst_path(model.scores, candidates, direction, k)
    assert torch.equal(one.value, other.value)
    for found in (one, other):
        ids = candidates.unsqueeze(1).expand(-1, found.path.shape[1], -1, -1)
        ids = ids.gather(3, found.path.unsqueeze(3)).squeeze(3)
        scores = (model.scores(ids.flatten(0, 1)) @ direction[0]).sum(dim=1)
        assert torch.equal(scores.view_as(found.value), found.value)


def near(text: str, alphabet: str) -> set[str]:
    """All strings within one edit."""
    found = {text}
    for at in range(len(text) + 1):
        found |= {text[:at] + letter + text[at:] for letter in alphabet}
        if at < len(text):
            found |= {text[:at] + letter + text[at + 1 :] for letter in alphabet}
            found.add(text[:at] + text[at + 1 :])
    return found


@pytest.mark.long
@pytest.mark.parametrize("classes", [2, 3])
def test_one_character_equals_brute_force(classes: int) -> None:
    threat = Characters(k=1, words=ASCII)
    alphabet = LETTERS + "A ,\u0301\u0130\u212aé"
    for seed in range(3):
        model = score_model(classes=classes, seed=seed)
        asked = [*texts(4, 4, seed), "a,  GOOD", "goo d", "film,", " a"]
        for found in CharacterCertifier(model, threat)(asked, (0, 1)):
            check(model, threat, found, [{found.text}, near(found.text, alphabet)], (0, 1))


@pytest.mark.long
def test_two_characters_equal_brute_force() -> None:
    threat = Characters(k=2, words=ASCII)
    # Of the letters that no word has one is enough.
    alphabet = "".join(sorted(set("".join(WORDS)))) + "z "
    for seed in range(2):
        model = score_model(seed=seed)
        for found in CharacterCertifier(model, threat)(["a b", "abx", "b, a", ""], (0, 1, 2)):
            one = near(found.text, alphabet)
            two = set().union(*(near(text, alphabet) for text in one))
            check(model, threat, found, [{found.text}, one, two], (0, 1, 2))


@pytest.mark.long
def test_three_characters_against_samples() -> None:
    threat = Characters(k=3, words=ASCII)
    rng = random.Random(0)
    held = 0
    for seed in range(4):
        model = score_model(seed=seed)
        asked = [text for text in texts(6, 6, seed + 9) if text]
        for found in CharacterCertifier(model, threat)(asked, (1, 2, 3)):
            assert sorted(found.holds, reverse=True) == list(found.holds)
            held += sum(found.holds)
            for _ in range(200):
                changed, edits = found.text, rng.randint(1, 3)
                for _ in range(edits):
                    at = rng.randint(0, len(changed))
                    letter = rng.choice(["", *LETTERS[:8], " "])
                    changed = changed[:at] + letter + changed[at + rng.randint(0, 1) :]
                if Levenshtein.distance(found.text, changed) <= edits and found.holds[edits - 1]:
                    assert keeps(model, changed, found.prediction, threat)
    assert held


def all_words(text: str, k: int) -> Iterator[str]:
    """Texts within k edits of words; one unknown word stands for all."""
    yield text
    if not k:
        return
    words = text.split()
    for at in range(len(words) + 1):
        for new in (*WORDS, "zzz"):
            yield from all_words(" ".join([*words[:at], new, *words[at:]]), k - 1)
            if at < len(words):
                yield from all_words(" ".join([*words[:at], new, *words[at + 1 :]]), k - 1)
        if at < len(words):
            yield from all_words(" ".join([*words[:at], *words[at + 1 :]]), k - 1)


@pytest.mark.parametrize("classes", [2, 3])
def test_words_equal_brute_force(classes: int) -> None:
    threat = WordEditDistance(k=1, words=ASCII)
    for seed in range(3):
        model = score_model(classes=classes, seed=seed)
        for found in WordCertifier(model, threat)(texts(5, 3, seed), (0, 1)):
            whole = [set(all_words(found.text, k)) for k in (0, 1)]
            check(model, threat, found, whole, (0, 1))


def test_truncation_moved_by_an_insertion_is_not_certified() -> None:
    text = "good film film bad"
    model = score_model(max_length=4)
    with torch.no_grad():
        model.scores.words.zero_()
        model.scores.words[model.tokenizer.ids(["good", "bad"]), 0] = 1.0
    for threat, certifier in (
        (Characters(k=1, words=ASCII), CharacterCertifier),
        (WordEditDistance(k=1, words=ASCII), WordCertifier),
    ):
        (found,) = certifier(model, threat)([text], (0, 1))
        assert (found.holds, found.kind, found.cut) == ((True, False), "lower bound", False)
        (found,) = certifier(model, threat)([f"{text} bad"], (1,))
        assert (found.holds, found.cut) == ((False,), True)
    # Replacements move nothing.
    lists = Synonyms.of({"bad": ["film"]}, words=ASCII)
    (one,) = SynonymCertifier(model, lists)([f"{text} bad"], (None,))
    assert (one.holds, one.cut) == ((True,), True)


def test_a_text_of_unknown_words_is_a_tie() -> None:
    model = score_model()
    certifiers: list[tuple[Threat, Any]] = [
        (Synonyms.of(LISTS, words=ASCII), SynonymCertifier),
        (Characters(k=1, words=ASCII), CharacterCertifier),
        (WordEditDistance(k=1, words=ASCII), WordCertifier),
    ]
    for threat, certifier in certifiers:
        for found in certifier(model, threat)(["zzz yyy", ""], (0,)):
            assert found.holds == (False,)
            assert found.witness == found.text
            assert found.unknown == len(found.text.split())


def test_larger_lists_certify_less() -> None:
    larger = {**LISTS, "a": ["poor", "bad"], "great": ["bad"]}
    counts = []
    for lists in ({"good": ["fine"]}, LISTS, larger):
        threat = Synonyms.of(lists, words=ASCII)
        found = SynonymCertifier(score_model(seed=2), threat)(texts(60, 6, 5), (1, None))
        counts.append([sum(one.holds[at] for one in found) for at in (0, 1)])
    assert counts[0] >= counts[1] >= counts[2]
    assert counts[0] != counts[2]
    assert all(one >= whole for one, whole in counts)


def test_wrong_inputs() -> None:
    model = score_model()
    with pytest.raises(ValueError, match="expected the words of the model"):
        SynonymCertifier(model, Synonyms.of(LISTS))
    with pytest.raises(ValueError, match="got k=all"):
        CharacterCertifier(model, Characters(k=1, words=ASCII))(["a"], (None,))
    with torch.no_grad():
        model.scores.words[5] = torch.inf
    with pytest.raises(ValueError, match="not finite"):
        WordCertifier(model, WordEditDistance(k=1, words=ASCII))


@pytest.mark.parametrize(
    ("kind", "threat", "settings", "said"),
    [
        (CharacterCertifier, Characters(k=1, words=ASCII), {"width": 2}, "window=2"),
        (WordCertifier, WordEditDistance(k=1, words=ASCII), {"width": 2}, "window=2"),
        (CharacterCertifier, Characters(k=1), {"split": "clitics"}, "words.split=clitics"),
    ],
)
def test_models_without_a_theorem_are_refused(
    kind: Any, threat: Threat, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=f"got .*{said}.*, expected"):
        kind(score_model(**settings), threat)


def one_bad_word() -> ScoreModel:
    """Each "the" is for the first class; "bad" is for the other one, and outweighs many of them."""
    model = score_model()
    with torch.no_grad():
        model.scores.words.zero_()
        model.scores.words[model.tokenizer.ids(["the"]), 0] = 1.0
        model.scores.words[model.tokenizer.ids(["bad"]), 1] = 8.0
    return model


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("b ad", False),  # two words become one
        ("b,ad", False),
        ("b.d", False),
        ("thebadfine", True),
        ("badfine", False),  # one word becomes two
        ("badxx", False),
        ("BAX", False),
        ("ba\u0301d", False),
        ("ba\u0301", False),
        ("b..d", True),
        ("bXXXad", True),
        ("xxbadxx", True),
    ],
)
def test_edits_that_reach_a_bad_word(text: str, holds: bool) -> None:
    threat = Characters(k=1, words=ASCII)
    (found,) = CharacterCertifier(one_bad_word(), threat)([f"the, the, the, {text}"], (1,))
    assert found.holds == (holds,)


def test_words_that_never_merge_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    read = EditedTexts._of_spans

    def without(self: EditedTexts, asked: Sequence[str], direction: Tensor, k: int) -> Tensor:
        values = read(self, asked, direction, k)
        values[:, :, 1:] = torch.inf
        return values

    test_edits_that_reach_a_bad_word("b.d", holds=False)
    monkeypatch.setattr(EditedTexts, "_of_spans", without)
    test_edits_that_reach_a_bad_word("badfine", holds=False)
    with pytest.raises(AssertionError):
        test_edits_that_reach_a_bad_word("b.d", holds=False)


@pytest.mark.parametrize("k", [1, *(pytest.param(k, marks=pytest.mark.long) for k in (2, 3))])
def test_the_least_scores_do_not_depend_on_what_else_is_asked(
    k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    edits = CharacterCertifier(score_model(classes=3), Characters(k=k, words=ASCII)).edits
    asked = [*texts(6, 4, k), "", ".,", "a. ,b", "good,the  bad"]
    direction = torch.tensor([[[1.0, -1, 0], [1, 0, -1]], [[-1, 1, 0], [0, 1, -1]]])
    ways = direction.double()[torch.arange(len(asked)) % 2]
    together = edits.least(asked, ways, k)
    for row, text in enumerate(asked):
        assert torch.equal(edits.least([text], ways[row : row + 1], k)[0], together[row])
    monkeypatch.setattr(kept_separators, "AT_ONCE", 16)
    assert torch.equal(edits.least(asked, ways, k), together)
    # More edits reach no more than what fewer do, and more.
    assert torch.equal(edits.least(asked, ways, k + 1)[..., :-1], together)


def drop_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Synonyms._with
    monkeypatch.setattr(Synonyms, "_with", lambda *given: read(*given)[:2])


def middle_of_a_window_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    read = NgramScores.of_windows

    def without(self: NgramScores, windows: Tensor) -> Tensor:
        windows = windows.clone()
        windows[..., -2] = 0
        return read(self, windows)

    monkeypatch.setattr(NgramScores, "of_windows", without)


def start_of_a_text_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    read = NgramScores.of_windows

    def without(self: NgramScores, windows: Tensor) -> Tensor:
        return read(self, windows) * (windows[..., :1] != 0)

    monkeypatch.setattr(NgramScores, "of_windows", without)


def windows_without_relu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "relu_", lambda self: self)


@pytest.mark.parametrize(
    "fault", [middle_of_a_window_left_out, start_of_a_text_left_out, windows_without_relu]
)
def test_faults_of_windows_are_found(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        test_a_net_over_windows_equals_brute_force(3, 2)


def never_split(monkeypatch: pytest.MonkeyPatch) -> None:
    read = spelling.Edits._any

    def without(self: spelling.Edits, front: Any, direction: Tensor, rows: Tensor) -> Any:
        found = read(self, front, direction, rows)
        kept = found.code != spelling.BETWEEN
        return type(found)(*(part[kept] for part in found))

    monkeypatch.setattr(spelling.Edits, "_any", without)


def score_of_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    build = spelling.Edits.__init__

    def raised(self: spelling.Edits, trie: spelling.Trie, scores: Tensor) -> None:
        build(self, trie, scores)
        unknown = trie.word == 0
        unknown[spelling.START] = False
        self.scores[unknown, 0] = 2.0

    monkeypatch.setattr(spelling.Edits, "__init__", raised)


def capitals_are_no_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = {letter: code for code, letter in enumerate(LETTERS)}
    monkeypatch.setattr(spelling, "_CODE", codes)


@pytest.mark.parametrize(
    "fault", [drop_candidates, never_split, score_of_unknown, capitals_are_no_letters]
)
def test_faults_are_found(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparisons above notice a certifier that leaves something out."""
    lists = Synonyms.of({"good": ["fine", "bad"]}, words=ASCII)
    letters = Characters(k=1, words=ASCII)
    model = one_bad_word()
    fault(monkeypatch)
    found = SynonymCertifier(model, lists)(["the good"], (1,))
    edited = CharacterCertifier(model, letters)(["the, the, xxbad", "THE, THE, BAx", "the"], (1,))
    monkeypatch.undo()
    wrong = 0
    for one in (*found, *edited):
        inside = near(one.text, LETTERS + " ") if one in edited else {"the good", "the bad"}
        try:
            check(model, letters if one in edited else lists, one, [inside], (1,))
        except AssertionError:
            wrong += 1
    assert wrong == 1
