"""Vocabulary and classes: attached once, restored from checkpoints, never mixed up."""

from typing import Any

import pytest
import torch

from attacks.victims.kinds import ModuleVictim
from tests.unit.lit_modules.builders import PAIRS, SINGLE, attached, batch_of, olsa, plain
from text import WordTokenizer, cuts_unsaid


def saved() -> dict[str, Any]:
    content: dict[str, Any] = {}
    attached(plain()).on_save_checkpoint(content)
    return content


def test_at_least_two_classes() -> None:
    module = plain()()
    with pytest.raises(ValueError, match=r"got classes \['only'\], expected at least two"):
        module.attach(module.build_tokenizer(SINGLE), ["only"])


def test_other_classes_or_vocabulary() -> None:
    module = attached(plain())
    tokenizer, names = module.require_text()
    module.attach(tokenizer, names)
    module.attach(module.build_tokenizer(SINGLE), names)  # another object, the same content
    with pytest.raises(ValueError, match=r"got a corpus with classes \['a', 'b'\].*expected the m"):
        module.attach(tokenizer, ["a", "b"])
    with pytest.raises(ValueError, match=r"\(pairs: True\).*expected .* \(pairs: False\)"):
        module.attach(tokenizer, names, pairs=True)
    with pytest.raises(ValueError, match="got another vocabulary"):
        module.attach(module.build_tokenizer(["some other words"]), names)
    assert module.tokenizer is tokenizer


def test_other_names_of_the_same_classes() -> None:
    """A model keeps the names that it was trained with; other classes are still refused."""
    module = attached(plain())
    tokenizer, names = module.require_text()
    own, theirs = list(names), ["x", "y", "z"]
    module.attach(tokenizer, theirs, synonyms=[theirs, own])
    assert module.class_names == own
    with pytest.raises(ValueError, match="got a corpus with classes"):
        module.attach(tokenizer, theirs, synonyms=[theirs, own[::-1]])
    with pytest.raises(ValueError, match="got a corpus with classes"):
        module.attach(tokenizer, theirs, pairs=True, synonyms=[own])


def test_nothing_works_without_them() -> None:
    module = olsa()()
    for use in (
        module.require_text,
        module.configure_model,
        lambda: module.predict_texts(["good"]),
        lambda: module.on_save_checkpoint({}),
    ):
        with pytest.raises(RuntimeError, match="got a model without vocabulary and classes"):
            use()


@pytest.mark.parametrize("build", [olsa(), plain()])
def test_no_layers_before_configure_model(build: Any) -> None:
    module = build()
    module.attach(module.build_tokenizer(SINGLE), ["a", "b"])
    with pytest.raises(RuntimeError, match=r"expected configure_model\(\) before"):
        module(module.encode_texts(SINGLE))
    module.configure_model()
    embedding = module.embedding
    module.configure_model()  # Lightning calls it before every run
    assert module.embedding is embedding


def test_restored_once_or_alike() -> None:
    content = saved()
    module = plain()()
    module.restore_text(content)
    module.on_load_checkpoint(content)
    tokenizer, names = attached(plain()).require_text()
    assert module.require_text()[0].encode(SINGLE) == tokenizer.encode(SINGLE)
    other = plain()()
    other.attach(WordTokenizer.build(["other words"], max_length=9), names)
    with pytest.raises(ValueError, match="got another vocabulary"):
        other.on_load_checkpoint(content)
    with pytest.raises(ValueError, match="expected one of this project"):
        plain()().on_load_checkpoint({"state_dict": {}})


def test_batches_without_labels() -> None:
    module = attached(plain())
    with pytest.raises(ValueError, match="got a batch without labels, expected labelled data"):
        module.validation_step(module.encode_texts(SINGLE), 0)


def test_pairs_need_segments() -> None:
    module = attached(plain(), pairs=True)
    batch = batch_of(module, PAIRS)
    batch.segment_ids = None
    with pytest.raises(ValueError, match="got a batch without segment ids, expected pairs"):
        module(batch)


@pytest.mark.parametrize("pairs", [False, True])
def test_predictions_of_texts(pairs: bool) -> None:
    module = attached(olsa(depth=2, dropout=0.5), pairs=pairs).train()
    texts = [*PAIRS, *PAIRS[::-1]] if pairs else [*SINGLE, *SINGLE[::-1]]
    predictions = module.predict_texts(texts, batch_size=3)
    assert module.training
    assert not predictions.requires_grad
    module = module.eval()
    with torch.no_grad():
        for text, logits in zip(texts, predictions, strict=True):
            torch.testing.assert_close(logits.float(), module(module.encode_texts([text]))[0])
        whole = module.predict_texts(texts)
        assert not module.training
        torch.testing.assert_close(whole, predictions)
    assert torch.equal(module.predict_texts(texts), whole)
    assert module.predict_texts([]).shape == (0, 3)
    assert module.double().predict_texts(texts).dtype == torch.float64


def test_mode_comes_back_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    module = attached(plain()).train()
    monkeypatch.setattr(module.network, "forward", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        module.predict_texts(SINGLE)
    assert module.training


def test_one_text_or_a_list_of_texts() -> None:
    module = attached(plain()).eval()
    assert torch.equal(module.predict_texts("not good"), module.predict_texts(["not good"]))
    assert len(module.encode_texts("not good")) == 1
    of_pairs = attached(plain(), pairs=True).eval()
    assert of_pairs.predict_texts(("a good", "film")).shape == (1, 3)


WRONG: dict[str, tuple[bool, Any, str]] = {
    "none": (False, None, "got None, expected a string for each text: give one text, or a list"),
    "none in a list": (False, ["good", None], "got None at place 1 of a list, expected a string"),
    "bytes": (False, b"good", "got a bytes, expected a string"),
    "row": (False, [{"text": "good"}], "got a dict at place 0 of a list, expected a string"),
    "generator": (False, (text for text in SINGLE), "got a generator, expected a string"),
    "tuple": (False, ("good", "bad"), "got a tuple of 2, expected a string"),
    "pair": (False, [("good", "bad")], "got a tuple of 2 at place 0 of a list, expected a string"),
    "no pair": (True, "good", r"got a single string, expected a tuple of two strings \(first, sec"),
    "no pairs": (True, ["good", "bad"], "got a single string at place 0 of a list, expected a t"),
    "triple": (True, [("a", "b", "c")], "got a tuple of 3 at place 0 of a list, expected a tuple"),
}


@pytest.mark.parametrize("name", WRONG)
def test_everything_else_is_refused(name: str) -> None:
    pairs, given, message = WRONG[name]
    module = attached(plain(), pairs=pairs).eval()
    for ask in (module.predict_texts, module.encode_texts):
        with pytest.raises(ValueError, match=f"^{message}[^\n]*$"):
            ask(given)


def test_cut_texts_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    module = attached(plain(max_length=4)).eval()
    for ask in (module.predict_texts, module.encode_texts):
        ask(["good " * 9, "good", "bad " * 5])
        assert [record.getMessage() for record in caplog.records] == [
            "2 of 3 texts cut to 4 tokens"
        ]
        caplog.clear()
    module.predict_texts("good")
    with cuts_unsaid():
        module.predict_texts("good " * 9)
    ModuleVictim(module).logits(["good " * 9])
    assert caplog.records == []
