"""Evasion of detectors: the goals, the recipes against brute force, and other victims."""

import base64
import codecs
import itertools
import urllib.parse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import attacks
from attacks.constraints import InsideThreat
from attacks.document import words_of
from attacks.goals import Evade, Floats, Force
from attacks.outcome import AttackRecord
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build, find_recipe, recipe_names
from attacks.recipes.encodings import base_64, hexadecimal, percent, rot13
from attacks.recipes.leetspeak import digits, signs
from attacks.recipes.spacing import dots, hyphens, joined, letters
from attacks.recipes.unicode import (
    bidirectional,
    full_width,
    homoglyphs,
    marks,
    smuggling,
    tags,
    underline,
    upside_down,
    zero_width,
)
from attacks.resources.catalogue import Resources
from attacks.victims.http_settings import HttpSettings
from attacks.victims.http_victim import HttpVictim
from attacks.victims.kinds import VictimError
from attacks.victims.labels_only import LabelVictim
from attacks.victims.threshold_victim import ThresholdVictim
from certify.threats import WordEditDistance
from lit_modules import WordScores
from measure.attack_settings import AttackSettings
from measure.text_attack import choose_samples
from tests.unit.attacks.lexicon import Alike, write_resources
from tests.unit.attacks.test_families import LISTS, small
from tests.unit.attacks.test_strategies import GradientVictim
from tests.unit.attacks.transformations.test_expected_words import preferring, wordpiece
from tests.unit.attacks.victims.service import Service, positive, serving
from text import Text, WordSettings
from text.canonical import canonical

WEIGHTS = {
    "free": 2.0,
    "win": 1.5,
    "cash": 1.25,
    "now": 0.5,
    "hi": -0.75,
    "love": -1.0,
    "see": -0.5,
}
SPAM = [
    "free cash now, win",
    "win cash",
    "free",
    "FREE win win cash free",
    "hi there",
    "free win love cash see you now",
]
HAM = ["hi love, see you", "love you", "see you there at 5", "win some"]
SAMPLES: list[tuple[Text, int]] = [*((text, 1) for text in SPAM), *((text, 0) for text in HAM)]
BIAS = -1.0
TESTED_ELSEWHERE = {"input-reduction", "paraphrase", "witness", "gbda"}


def score(text: str) -> float:
    """Log-odds of spam: a sum over words."""
    return BIAS + sum(WEIGHTS.get(word.lower(), 0.0) for word in words_of(text))


def detect(texts: Sequence[Any]) -> list[list[float]]:
    return [[0.0, score(text)] for text in texts]


def evade(recipe: str, samples: Sequence[tuple[Text, int]] = SAMPLES, **settings: Any) -> Any:
    return attacks.attack(detect, samples, recipe=recipe, goal=Evade(positive=1), **settings)


# Goals


def test_only_detections_count() -> None:
    outcome = evade("unicode")
    for record, (text, label) in zip(outcome.records, SAMPLES, strict=True):
        detected = score(str(text)) > 0
        assert (record.outcome == "skipped") == (not (label == 1 and detected))
    # Ham that is taken for spam ("win some") is no detection to evade.
    assert [record.prediction for record in outcome.records if record.label == 0] == [0, 0, 0, 1]
    assert outcome.summary.attacked == 5
    assert outcome.summary.flip_rate is not None
    assert (outcome.summary.flip_rate.value, outcome.summary.flip_rate.count) == (1.0, 5)
    metrics = outcome.summary.metrics()
    assert (metrics["flip_rate"], metrics["attacked"]) == (1.0, 5.0)
    assert 0 <= metrics["words_kept"] < 1
    assert "flip rate" in str(outcome)
    assert "success rate" not in str(outcome)


def test_false_alarms_are_forced() -> None:
    goal = Force(target=1)
    outcome = attacks.attack(detect, SAMPLES, recipe="append-benign", goal=goal, added_words=3)
    attacked = [record for record in outcome.records if record.outcome != "skipped"]
    assert {record.label for record in attacked} == {0}
    assert [record.text for record in attacked] == HAM[:3]
    for record in attacked:
        assert record.outcome == "succeeded"
        assert record.adversarial_prediction == 1
        # The pool has the words of spam.
        assert str(record.adversarial).startswith(str(record.text))
    assert outcome.summary.flip_rate is not None
    assert outcome.summary.flip_rate.count == 3


def test_other_goals_have_no_flip_rate() -> None:
    outcome = attacks.attack(detect, SAMPLES, recipe="case")
    assert outcome.summary.flip_rate is None
    assert not {"flip_rate", "attacked", "words_kept"} & set(outcome.summary.metrics())
    assert "success rate" in str(outcome)


def test_evade_scores_the_distance_to_the_boundary() -> None:
    logits = np.array([[0.0, 2.0, -1.0], [3.0, 1.0, 2.0]])
    goal, labels = Evade(positive=1), np.array([1, 0])
    # Whatever the gold class is.
    assert goal.judge(logits, labels).tolist() == [-2.0, 2.0]
    assert goal.reached(logits, labels).tolist() == [False, True]
    shares = Evade(positive=1, score="probability").judge(logits, labels)
    assert shares == pytest.approx(1 - np.exp(logits)[:, 1] / np.exp(logits).sum(axis=1))


def test_samples_are_those_of_the_goal() -> None:
    samples = [attacks.Sample(sample_id=i, text="x", label=i % 3) for i in range(30)]
    evading = AttackSettings(goal="evade", num_samples=4)
    chosen = choose_samples(samples, evading, positive=2)
    assert [sample.label for sample in chosen] == [2] * 4
    more = choose_samples(samples, AttackSettings(goal="evade", num_samples=8), positive=2)
    assert more[:4] == chosen
    forcing = AttackSettings(goal="force", choice="first")
    assert len(choose_samples(samples, forcing, positive=2)) == 20
    assert len(choose_samples(samples, forcing)) == 30
    with pytest.raises(ValueError, match="got no sample of the positive class"):
        choose_samples(samples, evading, positive=3)


def test_the_positive_class() -> None:
    names = ["ham", "spam"]
    assert AttackSettings().positive_class(names, "spam") is None
    assert AttackSettings(goal="evade").positive_class(names, "spam") == 1
    assert AttackSettings(goal="evade", positive="ham").positive_class(names, "spam") == 0
    assert AttackSettings(goal="force", positive=1).positive_class(names, None) == 1
    with pytest.raises(ValueError, match=r"no detector, expected its .*--attack.positive ham or s"):
        AttackSettings(goal="evade").positive_class(names, None)
    with pytest.raises(ValueError, match=r"got positive 'eggs', expected one of the classes: 0 \("):
        AttackSettings(goal="evade", positive="eggs").positive_class(names, None)
    evading = AttackSettings(goal="evade", score="probability")
    assert evading.aim(names, 1) == Evade(positive=1, score="probability")
    assert AttackSettings(goal="force").aim(names, 1) == Force(target=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"positive": "spam"}, "got goal untargeted with positive spam"),
        ({"goal": "spam", "threshold": 0.5}, "expected these only with --attack.goal evade or"),
        ({"goal": "evade", "threshold": 1.0}, "got threshold=1.0, expected .* less than 1"),
        ({"added_words": 0}, "added_words=0"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AttackSettings(**settings)


# Recipes against brute force

POOL = ["see", "hi", "love", "rose"]


@pytest.fixture
def pool(tmp_path: Path) -> str:
    path = tmp_path / "pool.txt"
    path.write_text("\n".join([*POOL, ""]))
    return str(path)


def least_score(text: str, count: int, *, distinct: bool = False) -> float:
    """The lowest score that so many words of the pool reach, of all choices."""
    choose = itertools.combinations if distinct else itertools.combinations_with_replacement
    return min(score(" ".join([text, *words])) for words in choose(POOL, count))


@pytest.mark.parametrize("side", ["front", "end", "both"])
@pytest.mark.parametrize("selection", ["greedy", "ranked"])
def test_appended_words_are_the_best_ones(pool: str, selection: str, side: str) -> None:
    distinct = selection == "ranked" and side != "both"
    settings: dict[str, Any] = {"pool": pool, "selection": selection, "side": side}
    for length in (1, 2, 3):
        for record in evade("append-benign", added_words=length, **settings).records:
            text = str(record.text)
            if record.outcome == "skipped":
                continue
            flips = [
                count
                for count in range(1, length + 1)
                if least_score(text, min(count, 3), distinct=distinct) <= 0
            ]
            assert record.outcome == ("succeeded" if flips else "failed")
            changed = str(record.adversarial)
            assert record.words_kept == record.words
            assert text in changed
            assert {"front": changed.endswith(text), "end": changed.startswith(text)}.get(
                side, True
            )
            if flips:
                assert record.words_changed == flips[0]
            elif selection == "greedy":
                assert score(changed) == pytest.approx(least_score(text, length))
            assert record.adversarial_score == pytest.approx(-score(changed))


def test_random_words_need_no_scores(pool: str) -> None:
    victim = LabelVictim(lambda texts: [int(score(str(t)) > 0) for t in texts], classes=["0", "1"])
    settings: dict[str, Any] = {"pool": pool, "goal": Evade(positive=1), "selection": "random"}
    outcome = attacks.attack(victim, SAMPLES, recipe="append-benign", **settings)
    again = attacks.attack(victim, SAMPLES, recipe="append-benign", in_flight=1, **settings)
    other = attacks.attack(victim, SAMPLES, recipe="append-benign", seed=1, **settings)
    changed = [[record.adversarial for record in made.records] for made in (outcome, again, other)]
    assert changed[0] == changed[1] != changed[2]
    for record in outcome.records:
        if record.outcome == "succeeded":
            # The last word is needed: the texts before it were tried.
            assert score(str(record.adversarial).rsplit(" ", 1)[0]) > 0
    with pytest.raises(VictimError, match="gives no scores"):
        attacks.attack(victim, SAMPLES, recipe="append-benign", goal=Evade(positive=1), pool=pool)


def test_the_pool_has_the_words_of_other_classes() -> None:
    records = evade("append-benign").records
    added = {str(record.adversarial).split()[-1] for record in records if record.adversarial}
    assert added == {"love"}
    with pytest.raises(ValueError, match=r"got texts of 1 class\(es\) to take harmless words from"):
        evade("append-benign", SAMPLES[:3])
    with pytest.raises(ValueError, match="got no pool of harmless words or texts, expected a file"):
        attacks.augment(["free cash"], "append-benign")


def test_words_of_other_files_are_refused(tmp_path: Path) -> None:
    empty, pairs = tmp_path / "empty.txt", tmp_path / "pairs.tsv"
    empty.write_text("\n \n")
    pairs.write_text("free cash\n")
    with pytest.raises(ValueError, match="got an empty file, expected a word or a text on each"):
        evade("append-benign", pool=str(empty))
    with pytest.raises(ValueError, match="got the line 'free cash', expected a text, a tab"):
        evade("translate", translations=str(pairs))
    with pytest.raises(ValueError, match=r"expected a file with .*--attack.translations FILE"):
        evade("translate")
    with pytest.raises(ValueError, match="got variants dotts for spacing, expected some of letter"):
        evade("spacing", variants=["dotts"])
    with pytest.raises(ValueError, match="got variants for append-benign, expected only what it"):
        evade("append-benign", variants=["dots"])


@pytest.mark.parametrize("recipe", ["unicode", "leetspeak", "spacing"])
def test_the_fewest_words_are_changed(recipe: str) -> None:
    # A changed word scores nothing: the least number of words to change is known.
    for record in evade(
        recipe, variants=[{"spacing": "dots", "unicode": "tags"}.get(recipe, "vowels")]
    ).records:
        if record.outcome == "skipped":
            continue
        values = [WEIGHTS.get(word.lower(), 0.0) for word in words_of(str(record.text))]
        least = min(
            len(gone)
            for size in range(1, len(values) + 1)
            for gone in itertools.combinations(range(len(values)), size)
            if BIAS + sum(value for i, value in enumerate(values) if i not in gone) <= 0
        )
        assert record.outcome == "succeeded"
        assert record.words_kept == record.words - least


def test_single_words_are_changed_where_whole_texts_do_not_succeed() -> None:
    def shouting(texts: Sequence[Any]) -> list[list[float]]:
        # Capitals hide "free", but a text of capitals alone is spam.
        return [[0.0, float("free" in t) + 2.0 * t.isupper() - 0.5] for t in texts]

    samples: list[tuple[Text, int]] = [("a free lunch", 1)]
    settings: dict[str, Any] = {"goal": Evade(positive=1), "variants": ["upper"]}
    (record,) = attacks.attack(shouting, samples, recipe="case", **settings).records
    assert record.adversarial == "a FREE lunch"
    # One query for the text, one for all in capitals, three for the ranking, one for the word.
    assert record.queries == 6


@pytest.mark.parametrize("recipe", ["unicode", "leetspeak", "case"])
def test_single_words_are_changed_where_no_whole_text_is_allowed(recipe: str) -> None:
    # Each whole text changes four words, and the threat allows one.
    threat = WordEditDistance(k=1, words=WordSettings())
    composed = build(RecipeSettings(recipe=recipe))
    inside = replace(composed, constraints=[InsideThreat(threat), *composed.constraints])

    def reads_free(texts: Sequence[Any]) -> list[list[float]]:
        return [[0.0, float("free" in text) - 0.5] for text in texts]

    text = "a very free lunch"
    samples: list[tuple[Text, int]] = [(text, 1)]
    (record,) = attacks.attack(reads_free, samples, recipe=inside).records
    assert record.outcome == "succeeded"
    assert threat.contains(text, str(record.adversarial))


def test_a_victim_that_sees_no_difference_costs_a_query_for_each_variant() -> None:
    def folded(texts: Sequence[Any]) -> list[list[float]]:
        return detect([text.lower() for text in texts])

    goal = Evade(positive=1)
    records = attacks.attack(folded, SAMPLES[:1], recipe="case", goal=goal).records
    # In lower case already, and the swapped text is the one in capitals.
    assert [(record.outcome, record.queries) for record in records] == [("failed", 4)]


def test_translations(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("win cash\tgana free\nwin cash\tgana dinero\n free \tgratis\nodd\teven\n")
    records = evade("translate", translations=str(path)).records
    changed = {record.text: (record.outcome, record.adversarial) for record in records}
    assert changed["win cash"] == ("succeeded", "gana dinero")
    assert changed["free"] == ("succeeded", "gratis")
    assert changed["free cash now, win"] == ("failed", "free cash now, win")


def test_a_text_inside_a_long_one_stays_whole() -> None:
    def first_words(texts: Sequence[Any]) -> list[list[float]]:
        return detect([" ".join(text.split()[:20]) for text in texts])

    goal = Evade(positive=1)
    settings: dict[str, Any] = {"goal": goal, "added_words": 160}
    records = attacks.attack(first_words, SAMPLES, recipe="split", **settings).records
    for record in records:
        if record.outcome == "skipped":
            continue
        assert record.outcome == "succeeded"
        assert record.words_kept == record.words
        assert record.words_changed in {10, 40, 160}
    # Only the texts in which a part of the payload lies behind the first 20 words differ.
    assert any(record.words_changed > 10 for record in records)


# What the variants do

ASCII = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)
HIDDEN = "\u200b\u0301\u0332\u202e\u202c"


@given(ASCII)
def test_variants_keep_the_text(text: str) -> None:
    for write in (zero_width, marks, underline, full_width):
        assert canonical(write(text)) == canonical(text), write
    assert bidirectional(text).strip(HIDDEN)[::-1] == text
    assert "".join(chr(ord(char) - 0xE0000) for char in tags(text)) == text
    hidden = (ord(char) for char in smuggling(text)[1:])
    values = [code - 0xFE00 if code < 0xE0100 else code - 0xE0100 + 16 for code in hidden]
    assert bytes(values).decode() == text
    assert letters(text).replace(" ", "") == text
    assert dots(text)[::2] == hyphens(text)[::2] == text
    assert joined(f"a {text}\tb") == f"a{text}b"
    assert len(digits(text)) == len(signs(text)) == len(upside_down(text)) == len(text)


@pytest.mark.long
@given(st.text())
def test_encodings_can_be_decoded(text: str) -> None:
    raw = text.encode("utf-8", "surrogatepass")
    assert base64.b64decode(base_64(text)) == raw
    assert bytes.fromhex(hexadecimal(text)) == raw
    assert urllib.parse.unquote_to_bytes(percent(text)) == raw
    assert codecs.decode(rot13(text), "rot13") == text


def test_letters_have_twins() -> None:
    assert canonical(homoglyphs("aceopxy")) == "aceopxy"
    letters_with_twins = set("abcdefghijklmnopqrstuvwxyzABCEHIJKMNOPSTXYZ")
    assert not letters_with_twins & set(map(homoglyphs, letters_with_twins))
    assert digits("free entry") == "fr33 3n7ry"
    assert signs("zig big los") == "2!9 8!9 10$"
    assert upside_down("ab!") == "¡qɐ"


# All recipes


@pytest.fixture
def resources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Resources:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Resources, "sentence_encoder", lambda self: Alike())
    model = preferring("bad", "plot", "dull", "film", "##ing")
    monkeypatch.setattr(Resources, "masked_lm", lambda self: (model, wordpiece()))
    return Resources(write_resources(tmp_path / "resources", LISTS))


# `witness` needs the certificate of a run, `gbda` the tokens of a network.
@pytest.mark.parametrize("name", sorted({*recipe_names()} - {"witness", "gbda"}))
def test_all_recipes_evade(name: str, resources: Resources) -> None:
    texts = ["a good film", "good film with a plot", "bad plot", "fine", "The plot was GOOD"]
    samples: list[tuple[Text, int]] = [(text, 1) for text in texts]
    samples += [("a bad film", 0), ("a good good plot", 0)]
    if name == "input-reduction":
        with pytest.raises(ValueError, match="got goal evade for input-reduction, which keeps"):
            small(name, resources).aiming(Evade(positive=1))
        return
    victim = GradientVictim(bias=-0.4)
    attack = small(name, resources).aiming(Evade(positive=1))
    settings: dict[str, Any] = {"recipe": attack, "query_budget": 300, "progress": False}
    outcome = attacks.attack(victim, samples, **settings)
    assert [record.outcome == "skipped" for record in outcome.records] == [
        *(False, False, True, False, False),
        *(True, True),
    ]
    for record in outcome.records:
        if record.outcome == "succeeded":
            assert record.adversarial_prediction == 0
            assert victim.logits([record.adversarial or ""]).argmax() == 0
    assert outcome.summary.flip_rate is not None
    assert outcome.summary.flip_rate.count == 4
    again = attacks.attack(victim, samples, in_flight=1, **settings)

    def timeless(records: Sequence[AttackRecord]) -> list[dict[str, Any]]:
        return [{**record.line(), "seconds": 0} for record in records]

    assert timeless(again.records) == timeless(outcome.records)


@pytest.fixture
def detector() -> WordScores:
    """A detector whose scores are chosen: spam is the second class."""
    module = WordScores(window=1, min_ngram_count=1)
    module.attach(module.build_tokenizer([*SPAM, *HAM]), ["ham", "spam"])
    module.configure_model()
    assert module.scores is not None
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        tokenizer: Any = module.require_text()[0]
        for word, weight in WEIGHTS.items():
            module.scores.words[tokenizer.vocabulary[word], 1] = weight
    return module.eval()


def test_recipes_evade_a_sum_of_word_scores(detector: WordScores, tmp_path: Path) -> None:
    texts = [text for text, _ in SAMPLES]
    predictions = detector.predict_texts(texts, batch_size=8).argmax(dim=1).tolist()
    detected = [
        label == prediction == 1
        for (_, label), prediction in zip(SAMPLES, predictions, strict=True)
    ]
    assert 0 < sum(detected) < len(SPAM)
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("free\tgratis\n")
    for name in recipe_names():
        if find_recipe(name).needs or name in TESTED_ELSEWHERE:
            continue
        more = {"translations": str(pairs)} if name == "translate" else {}
        settings: dict[str, Any] = {"recipe": name, "goal": Evade(positive=1), **more}
        outcome = attacks.attack(detector, SAMPLES, **settings)
        assert [record.outcome != "skipped" for record in outcome.records] == detected, name
        flips = [record for record in outcome.records if record.outcome == "succeeded"]
        if flips:
            changed = [str(record.adversarial) for record in flips]
            assert set(detector.predict_texts(changed, batch_size=8).argmax(dim=1).tolist()) == {0}
        assert outcome.summary.flip_rate is not None
        assert outcome.summary.flip_rate.value == len(flips) / sum(detected)
        # Case and punctuation are nothing to a victim of words in lower case.
        assert bool(flips) == (name not in {"case", "checklist"}), name


# Other victims


class Fixed:
    """Answers logits of a table."""

    name = "fixed"

    def __init__(self, rows: Floats) -> None:
        self.rows = rows

    def logits(self, texts: Sequence[Text]) -> Floats:
        return self.rows[[int(str(text)) for text in texts]]

    def probabilities(self, texts: Sequence[Text]) -> Floats:
        raise AssertionError(texts)  # they know nothing of the threshold


@pytest.mark.long
@given(
    st.lists(st.lists(st.floats(-8, 8), min_size=3, max_size=3), min_size=1, max_size=5),
    st.floats(0.01, 0.99),
    st.integers(0, 2),
)
def test_a_threshold_shifts_logits(rows: list[list[float]], threshold: float, index: int) -> None:
    logits = np.array(rows)
    victim = ThresholdVictim(Fixed(logits), index, threshold)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    shifted = victim.logits([str(i) for i in range(len(rows))])
    clear = abs(shares[:, index] - threshold) > 1e-6
    detected = shifted.argmax(axis=1) == index
    assert (detected == (shares[:, index] >= threshold))[clear].all()
    # The margin is the distance of log-odds.
    others = np.delete(shifted, index, axis=1).max(axis=1)
    log_odds = np.log(shares[:, index]) - np.log1p(-shares[:, index])
    expected = log_odds - np.log(threshold / (1 - threshold))
    assert shifted[:, index] - others == pytest.approx(expected, abs=1e-6)
    assert not hasattr(victim, "probabilities")


def test_a_probability_at_the_threshold_is_detected() -> None:
    for share in (0.5, 0.7, 0.9, 0.99):
        rows = np.log(np.array([[1 - share, share], [1 - share, share - 1e-6]]))
        for index in (0, 1):
            logits = ThresholdVictim(Fixed(rows[:, :: 1 if index else -1]), index, share).logits(
                ["0", "1"]
            )
            assert logits.argmax(axis=1).tolist() == [index, 1 - index]


def test_victims_without_scores_have_no_threshold() -> None:
    victim = LabelVictim(lambda texts: [0 for _ in texts], classes=["a", "b"])
    with pytest.raises(VictimError, match=r"gives no scores, expected none: leave --attack.thresh"):
        ThresholdVictim(victim, 1, 0.5)


@pytest.mark.parametrize("recipe", ["append-benign", "leetspeak", "spacing", "encodings"])
def test_a_service_at_a_threshold(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    texts = ["good deal", "a good good good offer", "bad", "plain bad day", "good"]
    samples: list[tuple[Text, int]] = [(text, int("good" in text)) for text in texts]
    with serving(Service()) as service:
        victim = HttpVictim(service.url, ["neg", "pos"], HttpSettings(wait=0.01))
        detected = ThresholdVictim(victim, 1, 0.73)
        outcome = attacks.attack(detected, samples, recipe=recipe, goal=Evade(positive=1))
    for record in outcome.records:
        caught = positive(str(record.text)) >= 0.73
        assert (record.outcome == "skipped") == (not caught)
        if record.outcome == "succeeded":
            assert positive(str(record.adversarial)) < 0.73
            assert record.adversarial_prediction == 0
    # The probability of the second class decides, not the larger one: 0.7 is no detection here.
    attacked = [record.outcome != "skipped" for record in outcome.records]
    assert attacked == [positive(text) >= 0.73 for text in texts]
    assert 0 < sum(attacked) < len(texts)


@pytest.mark.parametrize("recipe", ["leetspeak", "spacing", "unicode"])
def test_a_chat_names_classes_alone(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    texts = ["good deal", "a good good good offer", "bad", "plain bad day", "good"]
    samples: list[tuple[Text, int]] = [(text, int("good" in text)) for text in texts]
    service = Service()

    def name(text: str) -> str:
        return "pos" if positive(text) >= 0.73 else "neg"

    def chat(body: Any) -> Any:
        said = name(body["messages"][0]["content"].partition("Text: ")[2])
        return {"choices": [{"message": {"role": "assistant", "content": f"It is {said}."}}]}

    service.answers = chat
    with serving(service):
        victim = HttpVictim(service.url, ["neg", "pos"], HttpSettings(wait=0.01, chat="model"))
        outcome = attacks.attack(victim, samples, recipe=recipe, goal=Evade(positive=1))
    assert [record.outcome != "skipped" for record in outcome.records] == [
        name(text) == "pos" for text in texts
    ]
    attacked = [record for record in outcome.records if record.outcome != "skipped"]
    assert {record.outcome for record in attacked} == {"succeeded"}
    for record in attacked:
        assert record.text != record.adversarial
        assert name(str(record.adversarial)) == "neg"
    assert outcome.summary.flip_rate is not None
    assert outcome.summary.flip_rate.value == 1
