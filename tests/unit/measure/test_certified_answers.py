"""Certificates in words next to the answer about a text."""

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from app.serve.explanations import complete_answer, describe_certificates
from certify.threats import ListedWords, Substitutions, TextCertifier, Threat, Typos
from certify.threats.parsing import parse_k
from lit_modules import WordScores
from measure.certified_answers import ThreatCertifiers
from measure.predictions import TextPredictor
from text import WordSettings, WordTokenizer
from text.canonical import canonical

TEXTS = ["a good film", "a great film", "a bad film", "a dull film", "good", "bad film"]
LISTS = {"good": ["great", "dull"], "film": ["movie"], "great": ["good"]}


@pytest.fixture(scope="module")
def model() -> WordScores:
    torch.manual_seed(3)
    made = WordScores(words=WordSettings(split="ascii"))
    made.attach(made.build_tokenizer(TEXTS), ["negative", "positive"])
    made.configure_model()
    assert made.scores is not None
    # Weights are zero before training.
    with torch.no_grad():
        for weight in made.scores.parameters():
            weight.normal_()
    return made.eval()


@pytest.fixture
def lists(tmp_path: Path) -> str:
    path = tmp_path / "lists.json"
    path.write_text(json.dumps(LISTS))
    return str(path)


@pytest.mark.long
def test_they_are_those_of_brute_force(model: WordScores, lists: str) -> None:
    certificates = ThreatCertifiers.of_model(model, lists)
    assert certificates.threats == ["synonyms", "characters", "words"]
    for text in TEXTS:
        words = [(word, *LISTS.get(word, ())) for word in text.split()]
        changed = [" ".join(choice) for choice in product(*words)]
        predictions = model.predict_texts(changed).argmax(dim=1)
        stays = bool((predictions == predictions[0]).all())
        record = next(line for line in certificates([text])[0] if line["threat"] == "synonyms")
        assert (record["certified"] == "all") is stays
        if not stays and record["certified"] == "0":
            own, other = model.predict_texts([text, record["witness"]]).argmax(dim=1)
            assert own != other


def test_without_lists_only_the_threats_that_need_none(model: WordScores) -> None:
    assert ThreatCertifiers.of_model(model).threats == ["characters", "words"]


def test_the_sentences_of_the_page(model: WordScores, lists: str) -> None:
    """A model with exact certificates is never shown as one of which nothing is proved."""
    answering = TextPredictor(model, ThreatCertifiers.of_model(model, lists))
    for answer in answering(TEXTS):
        sentences = describe_certificates(answer, answering.no_certificate)
        assert "Nothing is proved" not in sentences
        for record in answer["certificates"]:
            assert record["sentence"] in sentences
            assert record["sentence"].startswith("Not") == (record["certified"] == "0")
            if record["threat"] == "characters" and record["certified"] == "0":
                assert f"“{record['witness']}” is {record['witness_class']}." in sentences


class Listed(ListedWords):
    """Lists of a test."""

    name, statement = "listed", "by a listed word"
    lists: ClassVar = {"good": ["fine", "bad"], "dull": ["bad"], "film": ["movie"]}

    @property
    def content(self) -> object:
        return self.lists

    def replacements(self, word: str) -> Sequence[str]:
        return self.lists.get(word, ())


FRONT = WordSettings(split="joined", front_end="spelling")
UNION = Substitutions(words=FRONT, sets=(Typos(FRONT), Listed()))
FAR = "dull bat good movie dull movie a dull god bat bat good"
RAW = ["A gud film!", "Dull, bad\u200b", "wéll good", "zzz"]


@pytest.fixture(scope="module")
def robust() -> WordScores:
    torch.manual_seed(1)
    made = WordScores(words=FRONT)
    texts = ["good film well", "good film bad", "bad dull", "fine movie", "a go god bat", "good"]
    made.attach(made.build_tokenizer(texts), ["bad", "good", "none"])
    made.configure_model()
    assert made.scores is not None
    with torch.no_grad():
        for weight in made.scores.parameters():
            weight.normal_()
    return made.eval()


@pytest.fixture(scope="module")
def union(robust: WordScores) -> list[tuple[Threat, TextCertifier]]:
    return [(UNION, robust.text_certifier(UNION))]


def margin(model: WordScores, text: str, y: int) -> float:
    row = model.predict_texts([text])[0].tolist()
    return float(row[y] - max(row[:y] + row[y + 1 :]))


def typed(word: str) -> set[str]:
    """A word with each edit of one character, and its listed words."""
    letters, plain = "abcdefghijklmnopqrstuvwxyzж", word.lower()
    new = {plain[:i] + c + plain[i:] for i in range(len(word) + 1) for c in letters}
    for i in range(len(word)):
        new |= {plain[:i] + c + plain[i + 1 :] for c in (*letters, "")}
        new.add(plain[:i] + plain[i + 1 : i + 2] + plain[i] + plain[i + 2 :])
    return {one for one in new if one} | set(Listed.lists.get(plain, ()))


@pytest.mark.parametrize("text", RAW)
def test_the_worst_text_is_in_the_set_and_has_its_margin(
    robust: WordScores, union: list[tuple[Threat, TextCertifier]], text: str
) -> None:
    """By raw strings, through the front end."""
    (records,) = ThreatCertifiers(robust, union, worst="levels")([text])
    assert [record["threat"] for record in records] == ["typos+listed", "typos", "listed"]
    for record, sets in zip(records, (UNION.sets, *((one,) for one in UNION.sets)), strict=True):
        threat = Substitutions(words=FRONT, sets=sets)
        y = record["prediction"]
        assert [worst["k"] for worst in record["worst"]] == ["1", "2", "3", "all"]
        for worst in record["worst"]:
            assert threat.at(parse_k(worst["k"])).contains(text, worst["text"])
            found = margin(robust, worst["text"], y)
            assert worst["margin"] == pytest.approx(found, abs=1e-12)
            assert record["holds"][worst["k"]] == (found > 0)
            read, whole = robust.require_tokenizer().encode([worst["reads"], worst["text"]])
            assert read.input_ids == whole.input_ids
            assert (worst["prediction"] == record["class"]) or found <= 0
            for old, new in worst["replaced"]:
                assert old in text
                assert new in worst["text"]
    # No text with one change comes nearer.
    tokenizer = robust.tokenizer
    assert isinstance(tokenizer, WordTokenizer)
    spans = tokenizer.splitter.spans(text)
    near = [text[:a] + new + text[b:] for a, b in spans for new in typed(canonical(text[a:b]))]
    logits = robust.predict_texts(near)
    y = records[0]["prediction"]
    own = logits[:, y].clone()
    logits[:, y] = -torch.inf
    least = float((own - logits.amax(dim=1)).min())
    assert records[0]["worst"][0]["margin"] == pytest.approx(min(least, margin(robust, text, y)))


def test_a_sentence_names_the_fewest_words_that_change_the_prediction(
    robust: WordScores, union: list[tuple[Threat, TextCertifier]]
) -> None:
    texts = [*RAW[:-1], "fine movie god fine", FAR]
    *failing, unknown = ThreatCertifiers(robust, union)([*texts, RAW[-1]])
    nearest = ThreatCertifiers(robust, union, worst="nearest")(texts)
    # All scores of an unknown word are 0.
    assert unknown[2]["sentence"].endswith("Without a change it has no margin over good.")
    seen = set()
    for text, records, others in zip(texts, failing, nearest, strict=True):
        for record, other in zip(records, others, strict=True):
            certified = record["certified"]
            seen.add(certified)
            assert record["headline"].endswith(" changes this prediction: certified.") or (
                record["headline"] == "" and certified == "0"
            )
            assert ("in up to" in record["headline"]) == (certified not in ("0", "all"))
            if certified == "all":
                assert record["worst"] == []
                assert record["sentence"].startswith("Certified against ")
                assert record["sentence"].endswith(" in every word.")
                (worst,) = other["worst"]
                assert worst["margin"] > 0
                continue
            assert record["worst"] == other["worst"]
            (worst,) = record["worst"]
            assert worst["k"] == str(int(certified) + 1)
            assert len(worst["replaced"]) == int(certified) + 1
            own, new = robust.predict_texts([text, worst["text"]]).argmax(dim=1)
            assert own != new
            for old, word in worst["replaced"]:
                assert f"“{old}” to “{word}”" in record["sentence"]
            assert f"changes the prediction to {worst['prediction']}." in record["sentence"]
    # For 3 changes, "all" of the request fails first: the sentence has 4.
    assert {"0", "1", "3", "all"} <= seen


def test_missing_resources_are_named(robust: WordScores, tmp_path: Path) -> None:
    robust.perturbation_sets = "wordnet"
    try:
        certifiers = ThreatCertifiers.of_model(robust, resources=str(tmp_path))
    finally:
        robust.perturbation_sets = None
    answering = TextPredictor(robust, certifiers)
    assert answering.no_certificate is not None
    assert answering.no_certificate.startswith("no certificates against wordnet: ")


def test_marks_of_the_page(robust: WordScores, union: list[tuple[Threat, TextCertifier]]) -> None:
    certifiers = ThreatCertifiers(robust, union, worst="nearest")
    (answer,) = TextPredictor(robust, certifiers)(["A gud FILM!"])
    assert answer["reads"] == "a god film!"
    marked = complete_answer(answer, None)
    joint = answer["certificates"][0]
    assert marked["headline"] == (joint["headline"] or joint["sentence"])
    assert [part["text"] for part in marked["read_pieces"] if part["changed"]] == ["god"]
    for record in marked["certificates"]:
        for worst in record["worst"]:
            assert "".join(part["text"] for part in worst["after"]) == worst["text"]
            changed = [part["text"] for part in worst["after"] if part["changed"]]
            assert changed == [new for _, new in worst["replaced"]]
