"""Whatever an attack depends on is described, and nothing else."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from attacks.composition import Attack
from attacks.constraints import PartOfSpeech, WordSimilarity
from attacks.constraints.preconstraints import StopWords
from attacks.fingerprint import describe, flat, weights_digest
from attacks.resources.language_model import MaskFiller
from attacks.resources.neighbours import ListedNeighbours, VectorNeighbours
from attacks.resources.tagger import Tagger
from attacks.resources.vectors import WordVectors
from attacks.resources.wordnet import WordNet
from attacks.search import Greedy
from attacks.transformations import Composite, EmbeddingSwap, Homoglyphs, WordNetSwap
from tests.unit.attacks import lexicon


def attack(folder: Path, **settings: Any) -> Attack:
    """One with a part of every kind that reads files."""
    vectors = settings.get("vectors", lexicon.small_vectors())
    neighbours = settings.get("neighbours", VectorNeighbours(vectors, limit=2))
    parts: list[Any] = [
        EmbeddingSwap(neighbours, settings.get("k", 2)),
        WordNetSwap(settings.get("wordnet") or WordNet(folder / "wordnet")),
        Homoglyphs(),
    ]
    return Attack(
        name="toy",
        transformation=Composite(parts[: settings.get("parts", 3)]),
        search=Greedy(ranking=settings.get("ranking", "delete")),
        pre_constraints=[StopWords(settings.get("words", ["a", "the"]))],
        constraints=[
            WordSimilarity(vectors, settings.get("minimum", 0.5)),
            PartOfSpeech(settings.get("tagger", lexicon.small_tagger())),
        ],
    )


def about(folder: Path, **settings: Any) -> dict[str, Any]:
    found = flat(describe(attack(folder, **settings)), "attack")
    assert json.loads(json.dumps(found)) == found
    return found


def test_every_setting_and_every_file(tmp_path: Path) -> None:
    lexicon.write_wordnet(tmp_path)
    before = about(tmp_path)
    assert before == about(tmp_path)
    matrix = lexicon.small_vectors().matrix
    others: dict[str, Any] = {
        "k": 1,
        "parts": 2,
        "ranking": "unk",
        "minimum": 0.6,
        "words": [f"word{i}" for i in range(200)],
        "vectors": WordVectors(list(lexicon.VECTORS), matrix, digest="other"),
        "neighbours": ListedNeighbours({"good": ["bad"]}, name="lists"),
        "tagger": Tagger({**lexicon.WEIGHTS, "bias": {"NN": 9.0}}, lexicon.KNOWN, lexicon.TAGS),
    }
    for name, value in others.items():
        assert about(tmp_path, **{name: value}) != before, name
    assert max(map(len, map(str, about(tmp_path, words=others["words"]).values()))) < 250
    (tmp_path / "wordnet" / "data.noun").write_text(
        (tmp_path / "wordnet" / "data.noun").read_text().replace("movie", "mouse")
    )
    assert about(tmp_path) != before


def test_the_same_words_in_another_list() -> None:
    first, second = (
        ListedNeighbours({"good": [word]}, name="lists").about() for word in ("fine", "bad")
    )
    assert first != second


def test_use_changes_nothing(tmp_path: Path) -> None:
    from attacks.engine import Engine
    from tests.unit.attacks.toys import BagVictim, samples

    lexicon.write_wordnet(tmp_path)
    composed = attack(tmp_path)
    before = describe(composed)
    assert list(Engine(composed, BagVictim()).run(samples("a good film", "the big movie")))
    assert describe(composed) == before


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_weights(dtype: torch.dtype) -> None:
    def model(first: float) -> nn.Module:
        module = nn.Module()
        module.register_buffer("a", torch.tensor([first, 2.0]).to(dtype))
        module.register_buffer("b", torch.tensor(3).to(dtype))
        return module

    assert weights_digest(model(1)) == weights_digest(model(1))
    assert weights_digest(model(1)) != weights_digest(model(5))
    renamed = nn.Module()
    renamed.register_buffer("c", torch.tensor([1.0, 2.0]).to(dtype))
    renamed.register_buffer("b", torch.tensor(3).to(dtype))
    assert weights_digest(renamed) != weights_digest(model(1))


class Part:
    def __init__(self, value: Any) -> None:
        self.value = value
        self._memory = [object()]


class Told(Part):
    def about(self) -> dict[str, Any]:
        return {"told": self.value}


def test_objects_of_ones_own() -> None:
    assert describe(Part(1)) == {"class": "Part", "value": 1}
    assert describe(Told(1)) == {"class": "Told", "told": 1}
    assert describe([{"b", "a"}, (1, None), len]) == [["a", "b"], [1, None], "len"]
    assert describe(np.arange(3)) != describe(np.arange(3.0)) != describe(np.arange(4.0))
    endless = Part(0)
    endless.value = endless
    assert json.dumps(describe(endless))
    assert flat({"class": "A", "x": {"class": "B", "y": [1, 2]}, "z": []}, "n") == {
        "n": "A",
        "n.x": "B",
        "n.x.y": [1, 2],
        "n.z": [],
    }


def test_models_are_told_apart() -> None:
    from transformers import BertConfig, BertForMaskedLM

    from tests.unit.attacks.transformations.test_expected_words import wordpiece

    tokenizer = wordpiece()
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
    )
    model = BertForMaskedLM(config)
    before = describe(MaskFiller(model, tokenizer, 3))
    asked = MaskFiller(model, tokenizer, 3)
    asked.fill([("a [MASK]", 2)])
    assert describe(asked) == before
    assert describe(MaskFiller(model, tokenizer, 4)) != before
    assert describe(MaskFiller(model, tokenizer, 3, whole_words=False)) != before
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    assert describe(MaskFiller(model, tokenizer, 3)) != before
