"""Checks of adversarial texts, with parts whose answers are known."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from attacks.validity.checks import Checks, ValidityFigures, ValidityLimits
from attacks.validity.fluency import Entailment, ModelFluency
from attacks.validity.ngrams import END, NGrams, word_model
from attacks.validity.word_changes import word_changes, words


class Pairs:
    """Antonyms of a table; words are their own base forms."""

    def __init__(self) -> None:
        self.table = {"good": {"bad"}, "bad": {"good"}, "hot": {"cold"}}

    def antonyms(self, word: str) -> frozenset[str]:
        return frozenset(self.table.get(word.lower(), ()))

    def lemmas(self, word: str) -> frozenset[str]:
        return frozenset((word.lower(),))

    def knows(self, word: str) -> bool:
        return word in {"ever", "fir", "men", "films", "someone"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a good film", "a good movie", (0, 0, 0, 0, 1)),
        ("a good film", "a bad film", (1, 0, 0, 0, 1)),
        ("it is good", "it is not good", (0, 1, 0, 0, 1)),
        ("it isn't good", "it is good", (0, 1, 0, 0, 1)),
        ("it isn’t good", "it is not good", (0, 0, 0, 0, 2)),
        ("no one did nothing", "none did nothing", (0, 0, 0, 0, 2)),
        ("no one liked it", "someone liked it", (0, 1, 0, 0, 2)),
        ("no one liked it", "nobody liked it", (0, 0, 0, 0, 2)),
        ("this one is good", "this film is good", (0, 0, 0, 0, 1)),
        ("one of them", "two of them", (0, 0, 1, 0, 1)),
        # The same number, written otherwise.
        ("it cost 3,000 in all", "it cost 3000 in all", (0, 0, 0, 0, 1)),
        ("it cost 3,000.50 in all", "it cost 3000.5 in all", (0, 0, 0, 0, 1)),
        ("it cost 3,000", "it cost 3,001", (0, 0, 1, 0, 1)),
        ("it cost 3,000", "it cost 3", (0, 0, 1, 0, 1)),
        ("in 2010, 300 came", "in 2010, 300 left", (0, 0, 0, 0, 1)),
        ("twelve of them, twenty-one in all", "12 of them, 21 in all", (0, 0, 0, 0, 2)),
        ("the first film", "the 1st film", (0, 0, 0, 0, 1)),
        ("the 2nd film", "the 3rd film", (0, 0, 1, 0, 1)),
        ("it has 3.5 stars", "it has 3.6 stars", (0, 0, 1, 0, 1)),
        ("films of the 90s", "films of the 80s", (0, 0, 1, 0, 1)),
        ("in 2015", "in 2105", (0, 0, 1, 0, 1)),
        # Misspelt words are read as what they were, digits among letters included.
        ("a good film", "a good fi1m", (0, 0, 0, 0, 1)),
        ("a real one", "a rea1 0ne", (0, 0, 0, 0, 2)),
        ("the first of three", "the fisrt of thre", (0, 0, 0, 0, 2)),
        ("the first film", "the fir st film", (0, 0, 0, 0, 2)),
        ("it is not good", "it is nto good", (0, 0, 0, 0, 1)),
        ("it is without doubt", "it is wihtout doubt", (0, 0, 0, 0, 1)),
        ("it is not hot", "it is n0t hot", (0, 0, 0, 0, 1)),
        ("it is never hot", "it is ever hot", (0, 1, 0, 0, 1)),
        ("it is not hot", "it is now hot", (0, 1, 0, 0, 1)),
        ("it is now hot", "it is not hot", (0, 1, 0, 0, 1)),
        ("four films", "for films", (0, 0, 1, 0, 1)),
        ("ten films", "men films", (0, 0, 1, 0, 1)),
        ("12 of 30 liked it", "12 of 31 liked it", (0, 0, 1, 0, 1)),
        ("We saw three of them", "We saw four of them", (0, 0, 1, 0, 1)),
        ("We met Anna in Rome.", "We met Anne in Rome.", (0, 0, 0, 1, 1)),
        ("We met Anna in Rome.", "We met in Rome.", (0, 0, 0, 1, 1)),
        # The first word of a sentence is no name; neither is a text in capitals.
        ("Films are good. Books are hot.", "Movies are good. Texts are hot.", (0, 0, 0, 0, 2)),
        ("SO GOOD IT HURTS", "SO GOOD IT WOUNDS", (0, 0, 0, 0, 1)),
        ("I think I'm fine", "I think I am fine", (0, 0, 0, 0, 2)),
        (("the premise", "it is hot"), ("the premise", "it is cold"), (1, 0, 0, 0, 1)),
        ("", "", (0, 0, 0, 0, 0)),
    ],
)
def test_changes_of_words(before: Any, after: Any, expected: tuple[int, ...]) -> None:
    assert tuple(word_changes(before, after, Pairs())) == expected


def test_names_begin_no_sentence() -> None:
    text = "Kate said: Hello to Bob! Then the U2 of Mr. Hill left."
    assert [one.text for one in words(text) if one.name] == ["Bob", "U2", "Mr"]


SENTENCES = [line.split() for line in ("the cat sat", "the dog sat", "a cat ran", "the cat ran")]


def test_probabilities_sum_to_one() -> None:
    model = NGrams(3, SENTENCES)
    alphabet = {word for one in SENTENCES for word in one}
    for before in ([], ["the"], ["the", "cat"], ["never", "seen"], ["\x02", "\x02"]):
        total = math.fsum(model.probability(word, before) for word in (*alphabet, END, "other"))
        assert total == pytest.approx(1)


def test_bigram_of_witten_and_bell_by_hand() -> None:
    model = NGrams(2, [["a", "b"], ["a", "a"]])
    # Alphabet a, b, END and others: 1/4 each. Unigrams: a 3, b 1, END 2 of 6 with 3 kinds.
    one = (3 + 3 / 4) / 9
    # After a: b 1, a 1, END 1 of 3 with 3 kinds.
    assert model.probability("a", ["a"]) == pytest.approx((1 + 3 * one) / 6)
    assert model.probability("x", ["a"]) == pytest.approx(3 * (3 / 4 / 9) / 6)
    assert model.surprises(["a"]) == pytest.approx(
        [-math.log((2 + one) / 3), -math.log((1 + 3 * (2 + 3 / 4) / 9) / 6)]
    )


def test_a_likely_text_surprises_less() -> None:
    model = word_model(SENTENCES)
    known, mixed, unknown, spelt = (
        math.fsum(model.surprises(text.split()))
        for text in ("the cat sat", "sat the cat", "the zebra sat", "the cag sat")
    )
    assert known < mixed
    assert known < spelt < unknown


class Encoder:
    def cosines(self, first: Sequence[str], second: Sequence[str]) -> Any:
        import numpy as np

        return np.array(
            [
                0.9 if a.split()[0] == b.split()[0] else 0.1
                for a, b in zip(first, second, strict=True)
            ]
        )


class Tags:
    """Tags words by their last letter."""

    def tag(self, words: Sequence[str]) -> list[str]:
        return ["VERB" if word.endswith("s") else "NOUN" for word in words]


def test_measures_and_their_failures() -> None:
    text = ["men eat", "men sleep", "birds sing", "men sing"] * 5
    encoder: Any = Encoder()
    tagger: Any = Tags()
    checks = Checks(Pairs(), encoder=encoder, tagger=tagger, sentences=text)
    assert checks.made() == [
        *("antonyms", "negations", "numbers", "names", "similarity", "perplexity", "grammar")
    ]
    same, other, worse = checks.measure(
        [("men eat", "men eat"), ("men eat", "men xqz"), ("men eat", "eats not")]
    )
    assert (same.perplexity, same.grammar, same.similarity) == (1, 0, 0.9)
    assert same.failures(ValidityLimits()) == []
    assert other.perplexity is not None
    assert other.perplexity > 2
    assert other.failures(ValidityLimits()) == ["perplexity"]
    assert {"negations", "similarity", "perplexity"} <= set(worse.failures(ValidityLimits()))
    assert worse.entailment is None


def test_limits_are_inclusive() -> None:
    limits = ValidityLimits(similarity=0.5, perplexity=2.0, numbers=1)
    assert ValidityFigures(0, 0, 1, 0, 0.5, 2.0).failures(limits) == []
    assert ValidityFigures(0, 0, 2, 0, 0.49, 2.1).failures(limits) == [
        *("numbers", "similarity", "perplexity")
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        BertForSequenceClassification,
        BertTokenizer,
        GPT2Config,
        GPT2LMHeadModel,
    )

    place = tmp_path_factory.mktemp("models")
    known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "##s", "dog"]
    (place / "vocab.txt").write_text("\n".join(known))
    tokenizer = BertTokenizer(str(place / "vocab.txt"), model_max_length=16)
    torch.manual_seed(5)
    small: dict[str, Any] = {
        "vocab_size": len(known),
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
        "max_position_embeddings": 16,
    }
    BertForMaskedLM(BertConfig(**small)).save_pretrained(place / "masked")
    names = {0: "NEUTRAL", 1: "entailment"}
    BertForSequenceClassification(BertConfig(**small, id2label=names)).save_pretrained(
        place / "pairs"
    )
    gpt = GPT2Config(
        vocab_size=len(known),
        n_embd=8,
        n_layer=1,
        n_head=2,
        n_positions=16,
        bos_token_id=2,
        eos_token_id=3,
    )
    GPT2LMHeadModel(gpt).save_pretrained(place / "causal")
    for name in ("masked", "pairs", "causal"):
        tokenizer.save_pretrained(place / name)
    return place


TEXTS = ["the cat sat", "cats", "the dog sat the cats"]


def test_pseudo_likelihood_is_that_of_one_mask_at_a_time(folder: Path) -> None:
    fluency = ModelFluency.load(folder / "masked", device="cpu")
    assert fluency.masked
    found = fluency.per_word(TEXTS)
    for text, value in zip(TEXTS, found, strict=True):
        ids = fluency.tokenizer(text)["input_ids"]
        total = 0.0
        for place in range(1, len(ids) - 1):
            row = torch.tensor([[*ids[:place], 4, *ids[place + 1 :]]])
            logits = fluency.model(input_ids=row).logits[0, place]
            total -= float(logits.log_softmax(0)[ids[place]].detach())
        assert value == pytest.approx(total / len(text.split()), rel=1e-4)


def test_an_unknown_word_is_no_perfect_word(folder: Path) -> None:
    fluency = ModelFluency.load(folder / "masked", device="cpu")
    text = "the \u0441at sat"  # a Cyrillic letter: one token, [UNK]
    ids = fluency.tokenizer(text)["input_ids"]
    assert ids[2] == fluency.tokenizer.unk_token_id
    total = 0.0
    for place in (1, 2, 3):
        row = torch.tensor([[*ids[:place], 4, *ids[place + 1 :]]])
        logits = fluency.model(input_ids=row).logits[0, place]
        total -= float(logits.log_softmax(0)[ids[place]].detach())
    assert fluency.per_word([text]) == [pytest.approx(total / 3, rel=1e-4)]


def test_likelihood_of_a_causal_model(folder: Path) -> None:
    from transformers import AutoTokenizer, GPT2LMHeadModel

    tokenizer = AutoTokenizer.from_pretrained(folder / "causal")
    model = GPT2LMHeadModel.from_pretrained(folder / "causal")
    fluency = ModelFluency(model, tokenizer)
    assert not fluency.masked
    found = fluency.per_word(TEXTS)
    for text, value in zip(TEXTS, found, strict=True):
        ids = torch.tensor([tokenizer(text)["input_ids"]])  # begins with [CLS]
        logits = model(input_ids=ids).logits.log_softmax(-1)
        total = -sum(float(logits[0, i, ids[0, i + 1]].detach()) for i in range(ids.shape[1] - 1))
        assert value == pytest.approx(total / len(text.split()), rel=1e-4)


def test_language_models_that_are_none(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="which cannot be loaded"):
        ModelFluency.load(tmp_path)
    with pytest.raises(ValueError, match="expected a trained head"):
        ModelFluency.load(folder / "pairs")


def test_entailment_is_that_of_the_worse_direction(folder: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder / "pairs")
    tokenizer = AutoTokenizer.from_pretrained(folder / "pairs")
    both = Entailment(model, tokenizer)
    forth, back = both.both_ways(["the cat", "dog"], ["dog", "the cat"])
    assert forth == pytest.approx(back)
    model.config.id2label = {0: "no", 1: "yes"}
    with pytest.raises(ValueError, match="expected entailment"):
        Entailment(model, tokenizer)
