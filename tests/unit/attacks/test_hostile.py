"""Victims that fail in every way, and texts that break tokenizers."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attacks
from attacks.composition import Constraint, PreConstraint, Search, Transformation
from attacks.constraints import EditDistance
from attacks.constraints.preconstraints import RepeatModification
from attacks.engine import Engine, Limits
from attacks.outcome import AttackRecord, Sample, from_line
from attacks.search import Beam, Greedy, RandomSearch
from attacks.transformations import (
    Composite,
    DeleteCharacter,
    Homoglyphs,
    InsertCharacter,
    InsertSpace,
    SubstituteCharacter,
    SwapCharacters,
)
from attacks.victims.kinds import as_victim
from lit_modules import TaskModule
from tests.unit.attacks.outcomes import read_journal
from tests.unit.attacks.toys import BagVictim, value
from tests.unit.lit_modules.builders import METHODS, attached
from text import Text


def attack(search: Search | None = None, *, white_box: bool = False) -> attacks.Attack:
    """Misspellings, which need no resources."""
    every: list[Transformation] = [
        SwapCharacters(),
        SubstituteCharacter(),
        DeleteCharacter(),
        InsertCharacter(),
        InsertSpace(),
        Homoglyphs(),
    ]
    before: list[PreConstraint] = [RepeatModification()]
    after: list[Constraint] = [EditDistance(8)]
    return attacks.Attack(
        name="letters",
        transformation=Composite(every),
        search=search or Greedy(),
        pre_constraints=before,
        constraints=after,
        white_box=white_box,
    )


SAMPLES = [(f"a good film, number {i}", 1) for i in range(12)]


def good(texts: Sequence[Text]) -> Any:
    scores = np.array([value(text) - 0.5 for text in texts])
    return np.stack([-scores, scores], axis=1)


def from_the_third_call(answer: Callable[[Sequence[Text]], Any]) -> Callable[[list[Text]], Any]:
    """Well-behaved at first."""
    calls = 0

    def function(texts: list[Text]) -> Any:
        nonlocal calls
        calls += 1
        return good(texts) if calls < 3 else answer(texts)

    return function


def refuse(texts: Sequence[Text]) -> Any:
    msg = f"no more than {len(texts) - 1} texts today"
    raise ConnectionError(msg)


HOSTILE: dict[str, tuple[Callable[[Sequence[Text]], Any], str]] = {
    "NaN": (lambda t: good(t) * np.nan, "got NaN"),
    "one NaN": (lambda t: np.where(np.arange(len(t))[:, None] == 0, np.nan, good(t)), "got NaN"),
    "infinity": (lambda t: good(t) * np.inf, "got infinity"),
    "float16 overflow": (
        lambda t: torch.full((len(t), 2), 6e4, dtype=torch.float16) * 2,
        "got infinity",
    ),
    "one row too few": (lambda t: good(t)[1:], "got an answer of shape .* to .* text"),
    "one row too many": (lambda t: np.concatenate([good(t), good(t[:1])]), "of shape .* to"),
    "one class": (lambda t: good(t)[:, :1], "at least two classes"),
    "flat": (lambda t: good(t)[:, 0], "of shape"),
    "three dimensions": (lambda t: good(t)[None], "of shape"),
    "nothing": (lambda t: None, "of shape|NoneType"),
    "words": (lambda t: ["positive"] * len(t), "got list, expected numbers"),
    "ragged": (lambda t: [[0.0] * (2 + i % 2) for i in range(len(t))], "list, expected numbers"),
    "a dictionary": (lambda t: {"logits": good(t)}, "got dict, expected numbers"),
    "raises": (refuse, "raised ConnectionError: no more than"),
}


INVALID = ("NaN", "one NaN", "infinity", "float16 overflow")
"""Answers that cost the samples that they are about."""


@pytest.mark.parametrize("kind", INVALID)
def test_a_victim_without_a_valid_answer_is_an_error(kind: str) -> None:
    answer, message = HOSTILE[kind]
    with pytest.raises(ValueError, match=f"to any of 12 samples, the first: .*{message}"):
        attacks.attack(
            from_the_third_call(answer), SAMPLES, recipe=attack(), in_flight=4, progress=False
        )


@pytest.mark.parametrize("kind", [kind for kind in HOSTILE if kind not in INVALID])
def test_a_victim_that_breaks_down_is_named_and_costs_nothing_that_was_done(
    kind: str, tmp_path: Path
) -> None:
    answer, message = HOSTILE[kind]
    path = tmp_path / "a.jsonl"
    hostile = from_the_third_call(answer)

    def run(model: Any) -> attacks.Outcome:
        return attacks.attack(
            model, SAMPLES, recipe=attack(), in_flight=4, path=path, progress=False
        )

    with pytest.raises(attacks.VictimError, match=message) as caught:
        run(hostile)
    assert "\n" not in str(caught.value)
    assert "function" in str(caught.value)
    kept = read_journal(path)[1]
    outcome = run(good)
    assert len(outcome.records) == len(SAMPLES)
    assert [one for one in outcome.records if one in kept] == kept


def test_a_victim_that_breaks_down_late_has_left_records(tmp_path: Path) -> None:
    calls, path = 0, tmp_path / "a.jsonl"

    def function(texts: list[Text]) -> Any:
        nonlocal calls
        calls += 1
        return good(texts) if calls < 15 else refuse(texts)

    with pytest.raises(attacks.VictimError):
        attacks.attack(function, SAMPLES, recipe=attack(), in_flight=2, path=path, progress=False)
    assert 0 < len(read_journal(path)[1]) < len(SAMPLES)


def test_another_number_of_classes_than_labels() -> None:
    with pytest.raises(attacks.VictimError, match="got labels"):
        attacks.attack(good, [("good", 2)], recipe=attack(), progress=False)


def test_an_answer_on_another_scale_every_time() -> None:
    # Non-deterministic: the verdict is about one answer to each text, whatever it says next time.
    numbers = random.Random(0)

    def function(texts: list[Text]) -> Any:
        return [[numbers.gauss(0, 1), numbers.gauss(0, 1)] for _ in texts]

    outcome = attacks.attack(function, SAMPLES * 5, recipe=attack(), progress=False)
    assert len(outcome.records) == 60
    for one in outcome.records:
        assert (one.outcome == "skipped") == (one.prediction != 1)
        if one.outcome == "succeeded":
            assert one.adversarial_prediction == 0
            assert one.adversarial_score is not None
            assert one.adversarial_score > 0


def test_an_answer_that_never_moves() -> None:
    outcome = attacks.attack(
        lambda texts: [[0.0, 1.0]] * len(texts), SAMPLES, recipe=attack(), progress=False
    )
    assert {one.outcome for one in outcome.records} == {"failed"}
    assert {one.adversarial for one in outcome.records} == {text for text, _ in SAMPLES}


def test_a_victim_that_changes_its_list_of_texts() -> None:
    def greedy(texts: list[Text]) -> Any:
        answer = good(texts)
        texts.clear()
        return answer

    found = [
        attacks.attack(model, SAMPLES, recipe=attack(), progress=False).records
        for model in (greedy, good)
    ]
    assert [one.adversarial for one in found[0]] == [one.adversarial for one in found[1]]


def test_probabilities_that_are_none() -> None:
    victim = attacks.CallableVictim(
        lambda texts: [[0.5, 0.6]] * len(texts), outputs="probabilities"
    )
    with pytest.raises(attacks.VictimError, match="do not sum to 1"):
        attacks.attack(victim, SAMPLES, recipe=attack(), progress=False)


# Texts

NAMED = {
    "empty": "",
    "space": "   ",
    "one emoji": "\N{GRINNING FACE}",
    "family": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "flags": "\U0001f1ec\U0001f1e7\U0001f1eb\U0001f1f7",
    "right to left": "הסרט היה טוב מאוד, לא רע",
    "mixed directions": "the film \u202eevil\u202c was جيد good",
    "combining": "g\u0300o\u0301o\u0302d\u0303 fi\u0308lm" + "\u0301" * 50,
    "punctuation": "?!... --- '' ** @@ ,;:",
    "nul": "a good\x00 film \x00",
    "control": "a\x1b[31m good\x07 film\r\n\tplot\x85\u2028",
    "chinese": "这部电影很好看",
    "thai": "หนังเรื่องนี้ดีมาก",
    "wide": "ｇｏｏｄ\u3000ｆｉｌｍ",
    "ligature": "ﬁne ﬀﬁ ĳ ŉ İ ß",
    "one long word": "good" * 400,
    "many words": "good film " * 400,
    "no spaces": "good,film;plot/story|bad\\dull",
    "quotes": "'good' \"film\" -plot- _bad_ *dull* @user",
    "digits": "3,000 films at $5.00, 1e9 ١٢٣ ½ ²",
    "not unicode's": "\ufffe\uffff\ue000\U000f0000",
}


def engine(victim: Any, search: Search, budget: int, *, white_box: bool = False) -> Engine:
    limits = Limits(query_budget=budget, in_flight=3)
    return Engine(attack(search, white_box=white_box), as_victim(victim), limits=limits)


def survives(records: Sequence[AttackRecord], texts: Sequence[Text], budget: int) -> None:
    """All are there, each consistent, and each comes back from its line of JSON."""
    assert sorted(one.sample_id for one in records) == list(range(len(texts)))
    for one in records:
        assert one.text == texts[one.sample_id]
        assert 1 <= one.unique_queries <= one.queries <= budget
        assert one.words_changed >= 0
        if one.outcome == "failed":
            assert one.adversarial is not None
        if one.outcome == "succeeded":
            assert one.adversarial != one.text
            assert one.adversarial_prediction != one.label
        assert from_line(json.loads(json.dumps(one.line()))) == one


def attacked(
    victim: Any, texts: Sequence[Text], *, search: Search, budget: int, white_box: bool = False
) -> None:
    logits = as_victim(victim).logits(list(texts))
    samples = [
        Sample(sample_id=i, text=text, label=int(label))
        for i, (text, label) in enumerate(zip(texts, logits.argmax(axis=1), strict=True))
    ]
    records = list(engine(victim, search, budget, white_box=white_box).run(samples))
    survives(records, texts, budget)


SEARCHES: dict[str, Search] = {
    "delete": Greedy(ranking="delete"),
    "unk": Greedy(ranking="unk"),
    "saliency": Greedy(ranking="weighted-saliency"),
    "gradient": Greedy(ranking="gradient"),
    "beam": Beam(width=2, depth=2),
    "random": RandomSearch(tries=2),
}


@pytest.fixture(scope="module")
def module() -> TaskModule:
    return attached(METHODS["transformer"], classes=2)


@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES)
def test_named_texts(search: str, module: TaskModule) -> None:
    white_box = search == "gradient"
    budget = 40
    for victim in (BagVictim(), module):
        attacked(
            victim,
            [*NAMED.values(), "a good film"],
            search=SEARCHES[search],
            budget=budget,
            white_box=white_box,
        )


def long_text(words: int) -> str:
    return " ".join(["word"] * (words - 2)) + " good film"


def count(texts: Sequence[Text]) -> Any:
    """Whether there is something good in it, however long it is."""
    scores = np.array([1.0 if "good" in str(text) else -1.0 for text in texts])
    return np.stack([-scores, scores], axis=1)


@pytest.mark.slow
def test_ten_thousand_words() -> None:
    outcome = attacks.attack(
        count, [(long_text(10_000), 1), ("", 0)], recipe=attack(), progress=False
    )
    one, other = outcome.records
    assert one.outcome == "succeeded"
    assert one.words == 10_000
    assert one.words_changed <= 2
    # The clean text, one without each word, and the candidates of a word.
    assert 10_001 < one.queries < 10_020
    assert other.outcome == "failed"


@pytest.mark.slow
def test_a_word_of_many_letters() -> None:
    outcome = attacks.attack(
        count, [("good" * 2500, 1)], recipe=attack(), query_budget=9, progress=False
    )
    assert outcome.records[0].outcome == "failed"


def test_long_texts_are_not_all_in_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    most: list[int] = []

    class Admitting(Engine):
        def _ask(self, runs: Any) -> None:
            most.append(len(runs))
            super()._ask(runs)

    texts = ["good film", long_text(100), long_text(100), long_text(100), "good plot"]
    samples = [Sample(sample_id=i, text=text, label=1) for i, text in enumerate(texts)]
    found = []
    for load in (1 << 28, 60_000):
        most.clear()
        monkeypatch.setattr("attacks.engine._LOAD", load)
        records = list(Admitting(attack(), as_victim(count)).run(samples))
        found.append(sorted((one.sample_id, one.adversarial, one.queries) for one in records))
        assert max(most) == (5 if load > 60_000 else 3)
    assert found[0] == found[1]


EVERYTHING = st.text(max_size=40) | st.text(
    alphabet=st.sampled_from("ab '-_*@.,!\u0301\u202e\x00\N{GRINNING FACE}é好ا\n"), max_size=30
)


@pytest.mark.long
@settings(max_examples=60)
@given(st.lists(EVERYTHING, min_size=1, max_size=5), st.sampled_from(sorted(SEARCHES)))
def test_any_text_with_a_cheap_victim(texts: list[Text], search: str) -> None:
    attacked(BagVictim(), texts, search=SEARCHES[search], budget=60, white_box=search == "gradient")


@pytest.mark.long
@settings(max_examples=60)
@given(
    st.lists(st.tuples(EVERYTHING, EVERYTHING), min_size=1, max_size=4),
    st.sampled_from(sorted(SEARCHES)),
)
def test_any_pair_with_a_cheap_victim(texts: list[Text], search: str) -> None:
    attacked(BagVictim(), texts, search=SEARCHES[search], budget=60, white_box=search == "gradient")


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(EVERYTHING, min_size=1, max_size=4), st.sampled_from(sorted(SEARCHES)))
def test_any_text_with_a_transformer(texts: list[Text], search: str) -> None:
    model = attached(METHODS["transformer"], classes=2)
    attacked(model, texts, search=SEARCHES[search], budget=40, white_box=search == "gradient")
