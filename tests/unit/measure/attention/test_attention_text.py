from pathlib import Path

import pytest

from lit_modules import FineTuning, TaskModule
from measure.attention.attention_text import encode, same_tokenizer, sample_of
from tests.unit.lit_modules.builders import make, save_backbone
from tests.unit.measure.attention.attention_models import SETTINGS, saved
from text import Choices, TaskName, Words


@pytest.fixture
def tags(tmp_path: Path) -> TaskModule:
    return saved(tmp_path / "a.ckpt", lambda: make(FineTuning, **SETTINGS), task="tagging")


def model(tmp_path: Path, task: TaskName, *, pairs: bool = False) -> TaskModule:
    return saved(tmp_path / "a.ckpt", lambda: make(FineTuning, **SETTINGS), task=task, pairs=pairs)


def test_samples_of_every_task(tmp_path: Path, tags: TaskModule) -> None:
    single, pair = model(tmp_path, "classification"), model(tmp_path, "regression", pairs=True)
    assert sample_of(single, "a film", []) == "a film"
    assert sample_of(pair, "a film", ["a play"]) == ("a film", "a play")
    assert sample_of(tags, " a  film\n", []) == Words(("a", "film"))
    choice = model(tmp_path, "choice", pairs=True)
    assert sample_of(choice, "a film", ["x", "y", "z"]) == Choices("a film", ("x", "y", "z"))
    reading = encode(choice, sample_of(choice, "it is", ["good", "a bad one", "long"]))
    assert reading.batch.choices == len(reading.tokens) == 3
    assert len(reading.batch) == 1
    assert reading.tokens[1][:3] == ["[CLS]", "it", "is"]


@pytest.mark.parametrize(
    ("task", "pairs", "given", "message"),
    [
        ("classification", False, ["x"], "got 1 text as --text_pair for a model of single texts"),
        ("classification", True, [], "got 0 texts as .* pairs of texts, expected --text and the"),
        ("regression", True, ["x", "y"], "got 2 texts as --text_pair for a model of pairs"),
        ("choice", True, ["x"], "of multiple choice, expected --text and 3 choices after"),
        ("tagging", False, ["x"], "got 1 text "),
    ],
)
def test_another_number_of_texts(
    tmp_path: Path, task: TaskName, pairs: bool, given: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        sample_of(model(tmp_path, task, pairs=pairs), "a film", given)


@pytest.mark.parametrize(("text", "pairs"), [("", []), (" \n", []), ("a film", [""])])
def test_nothing_to_read(tmp_path: Path, text: str, pairs: list[str]) -> None:
    with pytest.raises(ValueError, match="got a text without a single word"):
        sample_of(model(tmp_path, "classification", pairs=bool(pairs)), text, pairs)


def test_tokens_are_shown_as_they_stand_in_the_text(tmp_path: Path) -> None:
    module = model(tmp_path, "classification")
    (shown,) = encode(module, "It is NOT fit, 3.5 \u2028").tokens
    # What goes on within a word is marked; signs behind a word are no part of it.
    assert shown[:4] == ["[CLS]", "It", "is", "NOT"]
    assert "".join(shown[4:-1]).replace("##", "") == "fit,3.5\u2028".strip()
    assert shown[-1] == "[SEP]"
    assert shown[4] == "fi"
    assert shown[5] == "##t"
    assert not any(one.startswith(("##,", "##.")) for one in shown)
    (long,) = encode(module, "\u6f22" + "x" * 20 + " good").tokens
    assert max(map(len, long)) <= 18
    assert not encode(module, "good").cut
    assert encode(module, "good " * 50).cut
    assert len(encode(module, "good " * 50).tokens[0]) == 30


@pytest.mark.parametrize(
    ("kind", "ends"), [("bert", ["[CLS]", "[SEP]"]), ("roberta", ["<s>", "</s>"])]
)
def test_special_tokens_have_their_names(tmp_path: Path, kind: str, ends: list[str]) -> None:
    save_backbone(tmp_path / kind, kind)
    module = make(FineTuning, backbone=str(tmp_path / kind), max_length=30)
    tokenizer = module.build_tokenizer([])
    module.attach(tokenizer, ["no", "yes"])
    (shown,) = encode(module, "good elephant film").tokens
    # A word that the model does not know is shown as it was written.
    assert shown == [ends[0], "good", "elephant", "film", ends[1]]


def test_words_and_their_pieces(tags: TaskModule) -> None:
    sentence = sample_of(tags, "it is unfilm! [SEP] good", [])
    reading = encode(tags, sentence)
    (shown,) = reading.tokens
    assert shown[0] == "[CLS]"
    assert shown[-1] == "[SEP]"
    assert len(shown) == reading.batch.input_ids.shape[1]
    assert [shown[start] for start in reading.starts[:2]] == ["it", "is"]
    assert shown[reading.starts[-1]] == "good"
    assert shown[reading.starts[2] + 1].startswith("##")
    # Cut off in the middle of a word, or before it.
    long = encode(tags, sample_of(tags, "good " * 27 + "zzzz zz", []))
    assert long.cut
    assert len(long.tokens[0]) == 30
    assert len(long.starts) <= 28


def test_same_tokenizer() -> None:
    module = make(FineTuning, **SETTINGS)
    texts = ["good", "a bad one"]
    one, again = module.build_tokenizer(texts), module.build_tokenizer(texts)
    assert same_tokenizer(one, again)
    again.max_length = 12
    assert same_tokenizer(one, again)
    assert not same_tokenizer(one, module.build_tokenizer(["other words"]))
