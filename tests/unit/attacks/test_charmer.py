"""Charmer: all edits of a character, the published search, and the certificate against them."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from rapidfuzz.distance import Levenshtein

import attacks
from attacks import Attack
from attacks.composition import Job
from attacks.constraints import InsideThreat
from attacks.document import Document
from attacks.goals import Floats
from attacks.outcome import AttackRecord
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build
from attacks.strategies import RankedPositions
from attacks.transformations import SingleEdits
from attacks.transformations.single_edits import ASCII, positions_of
from certify.threats import Characters, Synonyms, WordEditDistance
from certify.words.spelling import LETTERS
from text import Text, WordSettings

Classify = Callable[[Sequence[Text]], Floats]


def trigrams(texts: Sequence[Text]) -> Floats:
    """Logits that depend on all characters and their order."""
    rows = []
    for text in texts:
        padded = f"^{text}$"
        codes = [zlib.crc32(padded[i : i + 3].encode()) for i in range(len(padded) - 2)]
        rows.append([sum(code % 1009 for code in codes), sum(code % 1013 for code in codes)])
    return np.array(rows) / 1000


def label_of(text: str) -> int:
    return int(trigrams([text]).argmax())


def one_edit(text: str, characters: str) -> set[str]:
    """The definition: insertions, replacements and deletions, and the text itself."""
    cuts = [(text[:i], text[i:]) for i in range(len(text) + 1)]
    inserted = {a + c + b for a, b in cuts for c in characters}
    replaced = {a + c + b[1:] for a, b in cuts if b for c in characters}
    return {text} | inserted | replaced | {a + b[1:] for a, b in cuts if b}


def attack(samples: Sequence[tuple[str, int]], **settings: Any) -> list[AttackRecord]:
    composed = attack_of(**settings)
    return attacks.attack(trigrams, samples, recipe=composed, progress=False).records


def attack_of(characters: str = "ab ", **settings: Any) -> Attack:
    return Attack(
        name="charmer",
        transformation=SingleEdits(pool=characters),
        search=RankedPositions(**settings),
    )


def published(
    text: str, classify: Classify, characters: str, edits: int, positions: int
) -> tuple[str, bool]:
    """Algorithm 1 of the paper as the released code has it, with our order of equal scores."""
    gold = int(classify([text]).argmax())

    def margin(one: str) -> float:
        logits = classify([one])[0]
        return float(logits[1 - gold] - logits[gold])

    for _ in range(edits):
        spread = [c for letter in text for c in ("", letter)] + [""]

        def put(z: int, new: str, spread: list[str] = spread) -> str:
            return "".join([*spread[:z], new, *spread[z + 1 :]])

        tests = [put(z, "" if letter == " " else " ") for z, letter in enumerate(spread)]
        order = sorted(range(len(spread)), key=lambda z: (-margin(tests[z]), z))
        pool = {put(z, new) for z in order[:positions] for new in ("", *characters)}
        # The text itself is in the pool: a step never loses.
        text = max(sorted({text, *pool}), key=margin)
        if int(classify([text]).argmax()) != gold:
            return text, True
    return text, False


@pytest.mark.parametrize("text", ["ab a", "", "a", " b! ", "aa"])
def test_all_edits_of_a_character(text: str) -> None:
    document = Document.of(text)
    job = Job(document, document, positions_of(document, 0), Random(0), 0, 1)
    (proposed,) = SingleEdits(pool="abé ").propose([job])
    texts = {candidate.columns[0] for candidate in proposed}
    assert texts == one_edit(text, "abé ")
    assert all(Levenshtein.distance(text, other) <= 1 for other in texts)
    assert all(c.index < max(len(document), 1) and c.width <= 1 for c in proposed)


def test_the_second_text_of_a_pair() -> None:
    document = Document.of(("a b", "c d"))
    job = Job(document, document, positions_of(document, 1), Random(0), 0, 1)
    (proposed,) = SingleEdits(pool="x").propose([job])
    assert {c.columns for c in proposed} == {("a b", other) for other in one_edit("c d", "x")}
    assert {document.words[c.index] for c in proposed} == {"c", "d"}


def test_characters_are_learned() -> None:
    edits = SingleEdits(size=3).learn(lambda: [("abba c", 0), (("ab", " ?"), 1)])
    assert edits.pool == " ab"
    assert SingleEdits(pool="x").learn(lambda: [("a", 0)]).pool == "x"
    assert SingleEdits().learn(tuple).pool == ASCII
    with pytest.raises(ValueError, match="got no characters"):
        SingleEdits().propose([])


def texts(count: int, longest: int = 9) -> list[str]:
    random = Random(5)
    return ["".join(random.choices("ab c", k=random.randint(0, longest))) for _ in range(count)]


def test_one_edit_at_all_positions_is_brute_force() -> None:
    drawn = texts(40)
    records = attack([(text, label_of(text)) for text in drawn], edits=1, positions=None)
    outcomes = set()
    for text, record in zip(drawn, records, strict=True):
        labels = {other: label_of(other) for other in one_edit(text, "ab ")}
        broken = any(label != record.label for label in labels.values())
        assert (record.outcome == "succeeded") == broken
        assert record.unique_queries == len(labels)
        outcomes.add(record.outcome)
    assert outcomes == {"succeeded", "failed"}


def marked(texts: Sequence[Text]) -> Floats:
    """Answer with class 0 for "?" in the first text, or "!" in the second."""
    return np.array([[float("!" in text[1] or "?" in text[0]), 0.5] for text in texts])


@pytest.mark.parametrize("blank", ["", " .", "\U0001f600"])
def test_a_text_of_a_pair_without_words_has_characters(blank: str) -> None:
    hypothesis, premise = ("good film", blank), (blank, "good film")
    charmer = build(RecipeSettings(recipe="charmer", edits=1, positions="all"))
    for columns, pair, mark, falls in (
        (("a", "b"), hypothesis, "!", True),
        (("premise", "hypothesis"), hypothesis, "!", True),
        (("a", "b"), premise, "?", True),
        # The premise is given.
        (("premise", "hypothesis"), premise, "?", False),
    ):
        composed = replace(charmer, transformation=SingleEdits(pool=mark))
        outcome = attacks.attack(
            marked, [(pair, 1)], recipe=composed, columns=columns, progress=False
        )
        assert (outcome.records[0].outcome == "succeeded") == falls


@pytest.mark.parametrize("positions", [1, 4, 100])
def test_the_published_search(positions: int) -> None:
    drawn = texts(25)
    records = attack([(text, label_of(text)) for text in drawn], edits=3, positions=positions)
    for text, record in zip(drawn, records, strict=True):
        changed, success = published(text, trigrams, "ab ", 3, positions)
        assert (record.adversarial, record.outcome == "succeeded") == (changed, success)
        assert Levenshtein.distance(text, changed) <= 3


def test_the_budget_is_kept() -> None:
    samples = [(text, label_of(text)) for text in texts(12)]
    for budget in (1, 5, 30):
        composed = attack_of(edits=3, positions=2)
        outcome = attacks.attack(
            trigrams, samples, recipe=composed, progress=False, query_budget=budget
        )
        assert all(record.queries <= budget for record in outcome.records)


def test_settings(tmp_path: Any) -> None:
    file = tmp_path / "characters.txt"
    file.write_text("ab\nbc\n")
    built = build(RecipeSettings(recipe="charmer", pool=str(file), edits=3, positions="all"))
    assert built.transformation == SingleEdits(pool="abc")
    assert built.search == RankedPositions(edits=3, positions=None)
    assert build(RecipeSettings(recipe="charmer")).search == RankedPositions(edits=10, positions=20)
    with pytest.raises(ValueError, match="positions"):
        RecipeSettings(positions=0)


def random_scores(words: WordSettings) -> Any:
    """A classifier with random scores of words, and texts."""
    from tests.unit.lit_modules.test_word_scores import TEXTS, made

    module = made(words=words)
    assert module.scores is not None
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.scores.parameters():
            parameter.normal_()
    originals = [*dict.fromkeys(TEXTS), "good good good, film film", "bad. bad bad bad not not"]
    return module.eval(), originals


@pytest.mark.parametrize("k", [1, 2])
def test_attack_and_certificate_meet(k: int) -> None:
    words = WordSettings(split="ascii")
    module, originals = random_scores(words)
    threat = Characters(k=k, words=words)
    certificates = module.text_certifier(threat)(originals, [k])
    samples = [(certificate.text, certificate.prediction) for certificate in certificates]
    composed = Attack(
        name="charmer",
        transformation=SingleEdits(pool=LETTERS + " "),
        search=RankedPositions(edits=k + 1, positions=None),
        constraints=[InsideThreat(threat)],
    )
    records = attacks.attack(module, samples, recipe=composed, progress=False).records
    exact = build(RecipeSettings(recipe="witness")).certified(module.text_certifier, threat)
    worst = attacks.attack(module, samples, recipe=exact, progress=False).records
    fell = [record.outcome == "succeeded" for record in records]
    held = [certificate.holds[0] for certificate in certificates]
    assert not any(f and h for f, h in zip(fell, held, strict=True))
    assert [record.outcome == "succeeded" for record in worst] == [not h for h in held]
    assert {record.queries for record in worst} <= {1, 2}
    assert {record.candidates for record in worst} == {None}
    if k == 1:  # an exhaustive search
        assert fell == [not h for h in held]
        assert len({*held}) == 2
    for record in (*records, *worst):
        assert record.adversarial is not None
        assert threat.contains(str(record.text), str(record.adversarial))


def test_a_witness_has_few_changes() -> None:
    words = WordSettings(split="ascii")
    module, originals = random_scores(words)
    for threat in (WordEditDistance(k=3, words=words), Synonyms.of({"good": ["bad"]}, words=words)):
        attack = build(RecipeSettings(recipe="witness")).certified(module.text_certifier, threat)
        ks = [1, 2, 3] if threat.k else [1, 2, 4, 8, 16, None]
        certificates = module.text_certifier(threat)(originals, ks)
        samples = [(certificate.text, certificate.prediction) for certificate in certificates]
        records = attacks.attack(module, samples, recipe=attack, progress=False).records
        for record, certificate in zip(records, certificates, strict=True):
            assert (record.outcome == "succeeded") == (not all(certificate.holds))
            if not all(certificate.holds):
                least = ks[certificate.holds.index(False)]
                assert threat.at(least).contains(certificate.text, str(record.adversarial))


def test_no_witness_without_a_certificate() -> None:
    with pytest.raises(ValueError, match="got no threat for witness"):
        attacks.attack(trigrams, [("a", 0)], recipe="witness", progress=False)
    with pytest.raises(ValueError, match="no certificate in words"):
        build(RecipeSettings(recipe="witness")).certified(None, Characters(k=1))
