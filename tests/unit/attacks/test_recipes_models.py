"""The recipes that need a language model or gradients, and thresholds for the encoder there is."""

import json
import math
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attacks.composition import Attack
from attacks.constraints import PartOfSpeech, WordSimilarity
from attacks.constraints.preconstraints import Columns, MaxModificationRate, StopWords
from attacks.constraints.sentence_similarity import SentenceSimilarity
from attacks.engine import Engine
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import bae, build, textfooler
from attacks.resources.catalogue import ResourceError, Resources
from attacks.resources.sentence_encoders import MINILM
from attacks.resources.thresholds import FACTOR, find_threshold
from attacks.search import Greedy
from attacks.transformations import EmbeddingSwap
from attacks.transformations.expected_words import MaskedLMSwap
from tests.unit.attacks.lexicon import Alike, vector_lines, write_tagger
from tests.unit.attacks.toys import BagVictim, samples
from tests.unit.attacks.transformations.test_expected_words import (
    preferring,
    random_model,
    wordpiece,
)
from text import Text

MODELS = ("bae", "a2t", "a2t-mlm")
NAME = MINILM.rpartition("/")[2]


class NamedAlike(Alike):
    name = NAME


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = tmp_path / "resources"
    write_tagger(made / "taggers")
    neighbours = {"good": ["great", "bad"], "film": ["movie"], "plot": ["bad"]}
    (made / "counterfitted_neighbors.json").write_text(json.dumps(neighbours))
    return made


@pytest.fixture
def resources(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Resources:
    monkeypatch.setattr(Resources, "sentence_encoder", lambda self: NamedAlike())
    model = preferring("plot", "bad", "dull", "film", "##ing")
    monkeypatch.setattr(Resources, "masked_lm", lambda self: (model, wordpiece()))
    return Resources(folder)


def parts(attack: Attack) -> dict[type, Any]:
    return {type(one): one for one in (*attack.pre_constraints, *attack.constraints)}


# What they are made of


def test_bae(resources: Resources) -> None:
    attack = build(RecipeSettings(recipe="bae"), resources)
    swap = attack.transformation
    assert isinstance(swap, MaskedLMSwap)
    assert swap.model.k == 50
    assert swap.model.minimum_confidence == 0
    assert attack.search == Greedy(ranking="delete")
    assert not attack.white_box
    speech, sentence = attack.constraints
    assert isinstance(speech, PartOfSpeech)
    assert speech.allow_verb_noun_swap
    assert isinstance(sentence, SentenceSimilarity)
    assert (sentence.window, sentence.metric, sentence.against) == (15, "cosine", "original")
    assert sentence.skip_short
    assert sentence.minimum == find_threshold(bae.SIMILARITY, NAME, recipe="bae")


@pytest.mark.parametrize("name", ["a2t", "a2t-mlm"])
def test_a2t(folder: Path, resources: Resources, tmp_path: Path, name: str) -> None:
    vectors = tmp_path / "v.txt"
    vectors.write_text(vector_lines())
    attack = build(RecipeSettings(recipe=name), Resources(folder, vectors=vectors))
    assert attack.white_box
    assert attack.search == Greedy(ranking="gradient")
    found = parts(attack)
    assert found[MaxModificationRate] == MaxModificationRate(0.1, 4)
    assert found[StopWords].ignore_case
    assert found[Columns].names is None
    assert not found[PartOfSpeech].allow_verb_noun_swap
    sentence = found[SentenceSimilarity]
    assert (sentence.window, sentence.metric, sentence.against) == (None, "cosine", "original")
    assert sentence.minimum == 0.9
    assert not sentence.skip_short
    if name == "a2t":
        assert isinstance(attack.transformation, EmbeddingSwap)
        assert attack.transformation.k == 20
        assert found[WordSimilarity].minimum == 0.8
        # The engine asks in the order of their cost.
        assert WordSimilarity.cost < PartOfSpeech.cost < SentenceSimilarity.cost
    else:
        assert isinstance(attack.transformation, MaskedLMSwap)
        assert attack.transformation.model.k == 20
        assert WordSimilarity not in found


@pytest.mark.parametrize("name", MODELS)
def test_settings_and_compat(resources: Resources, name: str) -> None:
    attack = build(
        RecipeSettings(recipe=name, candidates=7, similarity=0.5, compat="textattack"), resources
    )
    swap = attack.transformation
    assert (swap.k if isinstance(swap, EmbeddingSwap) else swap.model.k) == 7  # type: ignore[attr-defined] # one of the two
    assert parts(attack)[SentenceSimilarity].minimum == 0.5
    assert parts(attack)[SentenceSimilarity].joined
    assert not parts(attack)[StopWords].ignore_case
    # The reference keeps premises in A2T only.
    assert (Columns in parts(attack)) is (name != "bae")
    without = build(RecipeSettings(recipe=name, similarity=0), resources)
    assert SentenceSimilarity not in parts(without)
    if name != "a2t":
        with pytest.raises(ValueError, match=r"got word_similarity for"):
            build(RecipeSettings(recipe=name, word_similarity=0.5), resources)


# What they do

TEXTS: list[Text] = ["the film is good", "Good", "", "the plot, a good film plot", "film " * 30]


def attacked(attack: Attack, texts: Sequence[Text], **settings: Any) -> list[Any]:
    records = Engine(attack, BagVictim(bias=0.5), **settings).run(samples(*texts))
    found = sorted(records, key=lambda one: one.sample_id)
    return [(one.outcome, one.adversarial, one.queries, one.similarity) for one in found]


@pytest.mark.parametrize("name", MODELS)
def test_each_as_in_company(resources: Resources, name: str) -> None:
    attack = build(RecipeSettings(recipe=name), resources)
    together = attacked(attack, TEXTS)
    for text, record in zip(TEXTS, together, strict=True):
        assert attacked(attack, [text]) == [record]
    assert {record[0] for record in together} == {"succeeded", "failed"}
    assert together[1][:2] == ("failed", "Good")  # "bad" is a noun to this tagger


def test_a2t_changes_four_words_or_a_tenth(resources: Resources) -> None:
    (record,) = attacked(
        build(RecipeSettings(recipe="a2t"), resources), ["film " * 60 + "good " * 60]
    )
    assert record[0] == "failed"
    assert record[1].count("movie") + record[1].count("great") + record[1].count("bad") == 12


@pytest.mark.parametrize("name", MODELS)
def test_premises_are_kept(resources: Resources, name: str) -> None:
    pairs: list[Text] = [("good film", "the film is good"), ("", "good film"), ("good", "")]
    records = attacked(
        build(RecipeSettings(recipe=name), resources), pairs, columns=("premise", "hypothesis")
    )
    for pair, record in zip(pairs, records, strict=True):
        assert record[1][0] == pair[0]


def test_only_victims_with_gradients(resources: Resources) -> None:
    class Closed:
        name = "closed"

        def logits(self, texts: Sequence[Text]) -> NDArray[np.float64]:
            return np.zeros((len(texts), 2))

    with pytest.raises(TypeError, match="shows no gradients"):
        Engine(build(RecipeSettings(recipe="a2t"), resources), Closed())


def test_models_are_loaded_once_and_checked(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    random_model().save_pretrained(model)
    wordpiece().save_pretrained(model)
    resources = Resources(folder, masked_lm=model)
    assert resources.masked_lm() is resources.masked_lm()
    missing = Resources(folder, masked_lm=tmp_path / "nothing")
    with pytest.raises(ResourceError, match="python -m steadfast resources masked-lm` gets it"):
        missing.masked_lm()


# Thresholds


def test_thresholds_are_as_strict_as_the_published_ones() -> None:
    for recipe in ("textfooler", "textbugger", "bae", "bert_attack", "clare", "a2t"):
        published = import_module(f"attacks.recipes.{recipe}").SIMILARITY
        mapped = find_threshold(published, NAME, recipe=recipe)
        if published.encoder == "sts":
            assert mapped == published.minimum
            continue
        there, here = (
            math.acos(value) if published.metric == "cosine" else math.pi * (1 - value)
            for value in (published.minimum, mapped)
        )
        assert here == pytest.approx(FACTOR[NAME] * there)
    for threshold, mapped in ((textfooler.SIMILARITY, 0.7931), (bae.SIMILARITY, 0.8932)):
        assert find_threshold(threshold, NAME, recipe="") == pytest.approx(mapped, abs=1e-4)


def test_other_encoders_keep_the_published_numbers(caplog: pytest.LogCaptureFixture) -> None:
    other = "distiluse-base-multilingual-cased-v1"
    assert find_threshold(bae.SIMILARITY, other, recipe="bae") == bae.SIMILARITY.minimum
    assert "not calibrated: bae keeps the published threshold 0.9363" in caplog.text
