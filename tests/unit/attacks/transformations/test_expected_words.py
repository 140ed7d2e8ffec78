"""Words of a masked language model: its likeliest ones, as words, whatever else is in the round."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend
from tokenizers.processors import BertProcessing, RobertaProcessing
from torch import Tensor
from transformers import (
    BertConfig,
    BertForMaskedLM,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
)

from attacks.composition import Attack, Job
from attacks.document import Document
from attacks.engine import Engine
from attacks.resources.language_model import MaskFiller, _vocabulary, load_masked_lm
from attacks.search import Greedy
from attacks.transformations.expected_words import MaskedLMSwap
from tests.unit.attacks.toys import BagVictim, samples
from tests.unit.lit_modules.builders import save_backbone
from text import Text

PIECES = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the film is good dull bad plot , . ##ing ##ful 20 10 "
    "[unused1] don ' t re - x a b c d e"
).split()


MARKED = ("[UNK]", "`", "film", "##`", "##ing", ",", "20")


def wordpiece() -> PreTrainedTokenizerFast:
    backend = Backend(models.WordPiece({t: i for i, t in enumerate(PIECES)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call] # theirs
        tokenizer_object=backend,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=512,
    )


def random_model(**settings: Any) -> Any:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": len(PIECES),
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": 64,
        "initializer_range": 1.0,
    }
    return BertForMaskedLM(BertConfig(**{**sizes, **settings}))


def preferring(*tokens: str) -> Any:
    """A model that finds these the likeliest, whatever the text, by a factor of e each."""
    model = random_model(initializer_range=0.0)
    bias = torch.full((len(PIECES),), -100.0)
    for rank, token in enumerate(tokens):
        bias[PIECES.index(token)] = -float(rank)
    with torch.no_grad():
        model.cls.predictions.bias.copy_(bias)
        model.cls.predictions.decoder.bias.copy_(bias)
    return model


def job(text: Text, *indices: int) -> Job:
    document = Document.of(text)
    chosen = indices or range(len(document))
    return Job(document, document, list(chosen), Random(0), 0)


def words(swap: MaskedLMSwap, text: Text, *indices: int) -> list[str]:
    return [one.word for one in swap.propose([job(text, *indices)])[0]]


def test_the_likeliest_whole_words() -> None:
    order = ["[SEP]", "##ing", ",", "dull", "20", "[unused1]", "film", "good", "bad"]
    swap = MaskedLMSwap(preferring(*order), wordpiece(), 3)
    (candidates,) = swap.propose([job("the film is good.", 3)])
    # Neither marks, pieces, numbers nor the word itself; they take no places among the k.
    assert [one.word for one in candidates] == ["dull", "film"]
    assert [one.text for one in candidates] == ["the film is dull.", "the film is film."]
    assert words(swap, "the film is a", 3) == ["dull", "film", "good"]
    assert words(MaskedLMSwap(preferring(*order), wordpiece(), 1), "a", 0) == ["dull"]


def test_a_mark_takes_no_place_among_the_words_of_the_reference() -> None:
    # "`" is a word to the splitter of TextAttack, and a mark to its language models.
    backend = Backend(models.WordPiece({t: i for i, t in enumerate(MARKED)}, unk_token="[UNK]"))
    words, spaced, _ = _vocabulary(
        PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]"),  # type: ignore[no-untyped-call] # theirs
        BertConfig(vocab_size=len(MARKED)),
        whole_words=False,
    )
    fitting = [word for word, fits in zip(words, spaced.tolist(), strict=True) if fits]
    assert fitting == ["film", "ing", "20"]


@pytest.mark.parametrize(("old", "new"), [("good", "dull"), ("Good", "Dull"), ("GOOD", "DULL")])
def test_case_of_the_word_is_kept(old: str, new: str) -> None:
    model = preferring("good", "dull")
    assert words(MaskedLMSwap(model, wordpiece(), 2), f"the {old} film", 1) == [new]
    kept = MaskedLMSwap(model, wordpiece(), 2, restore_case=False)
    expected = ["dull"] if old == "good" else ["good", "dull"]
    assert words(kept, f"the {old} film", 1) == expected


def test_the_references_way() -> None:
    """Pieces without their marks, case as it comes, and numbers that take places."""
    order = [",", "##ing", "20", "dull", "don", "10", "[unused1]", "bad"]
    swap = MaskedLMSwap(preferring(*order), wordpiece(), 4, compat="textattack")
    assert words(swap, "Good film", 0) == ["ing", "dull", "don"]
    assert words(swap, "Good dull", 1) == ["ing", "don"]


def test_confidence() -> None:
    model = preferring("dull", "bad", "film")  # probabilities 0.665, 0.245, 0.090
    for minimum, expected in ((0.0, ["dull", "bad", "film"]), (0.2, ["dull", "bad"]), (0.7, [])):
        swap = MaskedLMSwap(model, wordpiece(), 3, minimum_confidence=minimum)
        assert words(swap, "good", 0) == expected


TEXTS: list[Text] = [
    "the film is good",
    "a dull, dull plot",
    "the film is [MASK] and (good)",
    "don't",
    "the plot " * 12,
]


def by_hand(model: Any, text: str, mask_at: int) -> list[str]:
    """All words by falling probability, from one text alone, without any shortcut."""
    tokenizer = wordpiece()
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    place = [i for i, token in enumerate(ids[0].tolist()) if token == 4][mask_at]
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0, place]
    usable = [t for t in PIECES if t.isalpha()]
    return sorted(usable, key=lambda token: -float(logits[PIECES.index(token)]))


def test_all_of_a_round_as_each_alone() -> None:
    model = random_model()
    jobs = [job(text) for text in TEXTS]
    swap = MaskedLMSwap(model, wordpiece(), 5, batch_size=3)
    together = swap.propose(jobs)
    # The words of the last text stand before and behind the same words, but each has its place.
    assert swap.model.computed == sum(len(one.indices) for one in jobs)
    for text, one, proposed in zip(TEXTS, jobs, together, strict=True):
        alone = MaskedLMSwap(model, wordpiece(), 5).propose([one])[0]
        assert [(c.index, c.word) for c in proposed] == [(c.index, c.word) for c in alone]
        assert len(proposed) > 3 * len(one.indices)
        assert {c.index for c in proposed} == set(range(len(Document.of(text))))


def test_the_model_is_asked_about_the_text_around_the_word() -> None:
    model = random_model()
    swap = MaskedLMSwap(model, wordpiece(), 3)
    expected = by_hand(model, "the [MASK] is good", 0)[:3]
    assert words(swap, "the film is good", 1) == [one for one in expected if one != "film"]
    # A mask that is part of the text is not the one that is asked about.
    expected = by_hand(model, "[MASK] the [MASK] is good", 1)[:3]
    assert words(swap, "[MASK] the film is good", 2) == [one for one in expected if one != "film"]


def test_each_masked_text_is_computed_once() -> None:
    swap = MaskedLMSwap(random_model(), wordpiece(), 3)
    first = swap.propose([job("the film is good", 1), job("the plot is good", 1)])
    assert swap.model.computed == 1
    again = swap.propose([job("the film is good", 1)])
    assert swap.model.computed == 1
    assert [one.word for one in again[0]] == [one.word for one in first[0]]
    assert swap.propose([]) == []
    assert swap.propose([job("", *())]) == [[]]


def test_memory_is_bounded() -> None:
    model = MaskFiller(random_model(), wordpiece(), 3, remembered=2)
    queries = [(f"the {word} [MASK]", len(word) + 5) for word in ("film", "plot", "bad")]
    answers = model.fill(queries)
    assert len(answers) == 3
    assert len(model._known) == 2
    assert model.fill(queries[1:]) == {one: answers[one] for one in queries[1:]}
    assert model.computed == 3


class Shown:
    """What a model was shown, as texts."""

    def __init__(self, model: Any) -> None:
        self.texts: list[str] = []
        model.register_forward_pre_hook(self.look, with_kwargs=True)

    def look(self, module: Any, inputs: Any, named: dict[str, Tensor]) -> None:
        for ids, mask in zip(
            named["input_ids"].tolist(), named["attention_mask"].tolist(), strict=True
        ):
            self.texts.append(
                " ".join(PIECES[i] for i, real in zip(ids, mask, strict=True) if real)
            )


def test_of_a_long_text_what_is_around_the_word() -> None:
    model = random_model()
    shown = Shown(model)
    letters = "a b c d e".split()
    text = " ".join(letters * 5)
    swap = MaskedLMSwap(model, wordpiece(), 3, max_length=9)
    for index, expected in (
        (0, "[MASK] b c d e a b"),
        (12, "e a b [MASK] d e a"),
        (24, "d e a b c d [MASK]"),
    ):
        assert words(swap, text, index)
        assert shown.texts[-1] == f"[CLS] {expected} [SEP]"
    reference = MaskedLMSwap(model, wordpiece(), 3, max_length=9, compat="textattack")
    assert words(reference, text, 6)
    assert shown.texts[-1] == "[CLS] a b c d e a [MASK] [SEP]"
    assert words(reference, text, 7) == []
    # All that a model takes: 64 positions.
    assert words(MaskedLMSwap(model, wordpiece(), 3), "the plot " * 400, 600)
    assert len(shown.texts[-1].split()) == 64


def test_of_a_pair_the_text_with_the_word() -> None:
    model = random_model()
    shown = Shown(model)
    pair = ("the film", "is bad, good")
    assert words(MaskedLMSwap(model, wordpiece(), 3), pair, 3)
    assert shown.texts == ["[CLS] is [MASK] , good [SEP]"]
    assert words(MaskedLMSwap(model, wordpiece(), 3, compat="textattack"), pair, 3)
    assert shown.texts[1] == "[CLS] the film is [MASK] , good [SEP]"


def byte_level() -> PreTrainedTokenizerFast:
    tokens = [
        "<s>",
        "<pad>",
        "</s>",
        "<unk>",
        "<mask>",
        "\u0120good",
        "good",
        "ing",
        "\u0120a",
        "a",
        "(",
        ")",
        "\u0120(",
        "\u0120bad",
        "\u0120",
    ]
    letters = [one for one in "godbin" if one not in tokens]
    vocabulary = {token: i for i, token in enumerate([*tokens, *letters])}
    backend = Backend(models.BPE(vocabulary, [], unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0))
    backend.decoder = decoders.ByteLevel()
    # As RoBERTa's: the mask takes the space in front of it.
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call] # theirs
        tokenizer_object=backend,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token=AddedToken("<mask>", lstrip=True, special=True),
        model_max_length=64,
    )


def test_vocabularies_that_mark_the_space_in_front() -> None:
    tokenizer = byte_level()
    torch.manual_seed(0)
    model = RobertaForMaskedLM(
        RobertaConfig(
            vocab_size=len(tokenizer) + 3,  # rounded up, as some models have it
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=24,
            max_position_embeddings=66,
        )
    )
    swap = MaskedLMSwap(model, tokenizer, 50)
    assert set(words(swap, "a good (bad)", 1)) == {"a", "bad"}
    # Glued to what is in front of it: words without the mark, and no pieces such as "ing".
    assert set(words(swap, "a good (bad)", 2)) == {"good", "a"}
    reference = MaskedLMSwap(model, tokenizer, 50, compat="textattack")
    assert {"ing", "good", "a", "bad"} <= set(words(reference, "b good", 0))


def test_saved_and_loaded(tmp_path: Path) -> None:
    model = random_model()
    model.save_pretrained(tmp_path)
    wordpiece().save_pretrained(tmp_path)
    swap = MaskedLMSwap(*load_masked_lm(tmp_path, device="cpu"), 5)
    expected = words(MaskedLMSwap(model, wordpiece(), 5), "the film is good")
    assert words(swap, "the film is good") == expected


def test_encoders_have_no_head(tmp_path: Path) -> None:
    folder = save_backbone(tmp_path, "bert")
    with pytest.raises(ValueError, match=r"no masked-language-model head \(cls\.predictions\."):
        load_masked_lm(folder)


@pytest.mark.parametrize(
    ("name", "reason"), [("nowhere/at-all", ""), ("/no/such/folder", "no such folder")]
)
def test_nowhere(name: str, reason: str) -> None:
    message = rf"no masked language model could be loaded \({reason}"
    with pytest.raises(FileNotFoundError, match=message):
        load_masked_lm(name)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": 0}, "expected k >= 1"),
        ({"minimum_confidence": 1.0}, "a probability below 1"),
        ({"max_length": 4}, "expected at least 8 tokens"),
        ({"batch_size": 0}, "batch_size=0"),
    ],
)
def test_settings_that_propose_nothing(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MaskedLMSwap(random_model(), wordpiece(), **settings)


def test_tokenizers_that_cannot_mask() -> None:
    without = wordpiece()
    without.mask_token = None
    with pytest.raises(ValueError, match="without mask token"):
        MaskedLMSwap(random_model(), without)
    with pytest.raises(TypeError, match="got object, expected a fast tokenizer"):
        MaskedLMSwap(random_model(), object())


def test_an_attack() -> None:
    """From one end to the other, in lock step as alone."""
    model = preferring("plot", "bad", "dull", "film")

    def run(texts: Sequence[Text]) -> list[Any]:
        attack = Attack(
            name="bae",
            transformation=MaskedLMSwap(model, wordpiece(), 4),
            search=Greedy(ranking="delete"),
        )
        records = list(Engine(attack, BagVictim()).run(samples(*texts)))
        return sorted((one.sample_id, one.outcome, one.adversarial) for one in records)

    assert run(["the film is good", "Good"]) == [
        (0, "succeeded", "the film is bad"),
        (1, "succeeded", "Bad"),
    ]
