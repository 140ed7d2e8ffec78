"""Texts of several scripts, very long texts, and victims that answer with classes only."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers
from tokenizers.processors import BertProcessing
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from attacks.composition import Attack
from attacks.constraints import WordsChanged
from attacks.document import Document
from attacks.engine import Engine, Limits
from attacks.interface import attack
from attacks.outcome import Sample
from attacks.recipe_settings import Language, RecipeSettings
from attacks.recipes import build
from attacks.resources.catalogue import Resources
from attacks.resources.segmenters import characters
from attacks.search import Beam, Greedy
from attacks.strategies import HardLabel
from attacks.transformations import Composite
from attacks.transformations.expected_words import MaskedLMSwap
from attacks.transformations.inserted_words import MaskedLMInsert
from tests.unit.attacks.toys import Synonyms
from text import Text
from text.stop_words import LISTS

PRAISE: dict[Language, tuple[str, ...]] = {
    "german": ("wundersch\u00f6n", "gro\u00dfartig"),
    "french": ("excellente", "magnifique"),
    "spanish": ("maravillosa", "estupenda"),
    "chinese": ("\u597d", "\u7231"),
}
REVIEWS: dict[Language, str] = {
    "german": "Die Bedienung war gro\u00dfartig, und es schmeckte wundersch\u00f6n!",
    "french": "La pi\u00e8ce \u00e9tait excellente\u00a0; l'actrice fut magnifique.",
    "spanish": "\u00a1Qu\u00e9 pel\u00edcula tan maravillosa! La m\u00fasica es estupenda.",
    "chinese": "\u8fd9\u90e8\u7535\u5f71\u5f88\u597d\uff0c\u6211\u4eec\u90fd\u7231\u770b\u3002",
}


class Praise:
    """Class 1 where there is enough praise."""

    def __init__(self, language: Language) -> None:
        self.words = PRAISE[language]

    def __call__(self, texts: list[Text]) -> list[list[float]]:
        counts = [sum(str(text).lower().count(word) for word in self.words) for text in texts]
        return [[1.5, float(count)] for count in counts]


@pytest.mark.parametrize("recipe", ["deepwordbug", "pruthi", "bad-characters"])
@pytest.mark.parametrize("language", REVIEWS)
def test_characters_of_each_script(recipe: str, language: Language) -> None:
    text = REVIEWS[language]
    outcome = attack(
        Praise(language), [(text, 1)], recipe=recipe, language=language, progress=False
    )
    (record,) = outcome.records
    if language == "chinese" and recipe != "bad-characters":
        # Misspellings of single characters are none.
        assert record.outcome == "failed"
        assert record.adversarial == text
        return
    if recipe == "bad-characters" and language == "chinese":
        assert record.outcome == "failed"
        return
    assert record.outcome == "succeeded"
    assert isinstance(record.adversarial, str)
    changed, original = Document.of(record.adversarial).words, Document.of(text).words
    stop = LISTS[language]
    kept = [word for word in original if word.lower() in stop]
    assert [word for word in changed if word in kept] == kept
    assert record.words_changed <= 12


def test_the_stop_words_of_a_language() -> None:
    for language, text in REVIEWS.items():
        found = {word.lower() for word in Document.of(text).words} & LISTS[language]
        assert found or language == "chinese"
    assert {"\u7684", "\u6211\u4eec"} <= LISTS["chinese"]


def of_characters(text: str) -> Any:
    """A masked language model over the characters of a text, and its tokenizer."""
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = marks + sorted({one for one in text if one.isalpha()})
    backend = Backend(
        models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]")
    )
    backend.normalizer = normalizers.BertNormalizer(handle_chinese_chars=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call] # theirs
        tokenizer_object=backend,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=64,
    )
    sizes: dict[str, Any] = {
        "vocab_size": len(pieces),
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": 64,
    }
    return BertForMaskedLM(BertConfig(**sizes)), tokenizer


def test_a_masked_language_model_of_chinese() -> None:
    text = REVIEWS["chinese"]
    model, tokenizer = of_characters(text)
    swap, insert = MaskedLMSwap(model, tokenizer, 6), MaskedLMInsert(model, tokenizer, 3)
    for transformation in (swap, Composite([swap, insert])):
        composed = Attack(
            name="chinese", transformation=transformation, search=Beam(width=1), cut=characters
        )
        (record,) = attack(Praise("chinese"), [(text, 1)], recipe=composed, progress=False).records
        assert record.outcome == "succeeded"
        assert record.words == len([one for one in text if one.isalpha()])
        assert record.words_changed == 1
        assert isinstance(record.adversarial, str)
        assert " " not in record.adversarial
        assert abs(len(record.adversarial) - len(text)) <= 1


def test_a_list_of_chinese_words(tmp_path: Any) -> None:
    (tmp_path / "words-chinese.txt").write_text("\u7535\u5f71\n\u6211\u4eec\n", encoding="utf-8")
    cut = Resources(tmp_path).cut("chinese")
    assert cut is not None
    words = Document.of(REVIEWS["chinese"], cut=cut).words
    assert "\u7535\u5f71" in words
    assert "\u6211\u4eec" in words
    found = build(RecipeSettings(recipe="deepwordbug", language="chinese"), Resources(tmp_path))
    assert found.cut is not None


class Classes:
    """Answers with classes only: is "good" among the words?"""

    name = "classes"

    def logits(self, texts: Sequence[Text]) -> NDArray[np.float64]:
        good = np.array([" good " in f" {text} " for text in texts])
        return np.stack([~good, good], axis=1).astype(np.float64)


@pytest.mark.long
def test_a_text_of_ten_thousand_words_and_a_victim_of_classes() -> None:
    words = ["film", "plot", "story", "end", "we", "saw"] * 1700
    words[5000] = "good"
    text = " ".join(words)
    assert len(Document.of(text)) == 10_200
    table = {"good": ("fine", "solid"), "end": ("close",)}
    hard = Attack(
        name="hard",
        transformation=Synonyms(table),
        search=HardLabel(tries=20, at_once=5, population=4, generations=2),
    )
    (record,) = Engine(hard, Classes()).run([Sample(sample_id=0, text=text, label=1)])
    assert record.outcome == "succeeded"
    assert record.words == 10_200
    assert record.adversarial_prediction == 0
    # Words that need not change are put back one by one, within the budget.
    bounded = Engine(hard, Classes(), limits=Limits(query_budget=60))
    (other,) = bounded.run([Sample(sample_id=0, text=text, label=1)])
    assert other.queries <= 60
    greedy = Attack(
        name="greedy",
        transformation=Synonyms(table),
        search=Greedy(ranking="random"),
        constraints=[WordsChanged(share=0.5)],
    )
    (slow,) = Engine(greedy, Classes(), limits=Limits(query_budget=200)).run(
        [Sample(sample_id=1, text=text, label=1)]
    )
    assert slow.queries <= 200
