"""The attacks that the live page offers: some learn harmless words from its examples."""

import pytest

from app.commands.serve import _build_attacks, _examples, parser
from app.serve.run_facts import RunFacts
from tests.unit.app.serve.serving import worker
from tests.unit.lit_modules.builders import plain

TEXTS = [
    {"text": "a good film", "label": "class 0"},
    {"text": "a bad film", "label": "class 1"},
    {"text": "of a class that the model has not", "label": "none"},
]


def test_harmless_words_are_those_of_the_examples() -> None:
    one, pairs = worker(), worker("pairs", plain(), pairs=True)
    try:
        facts = {"olsa": RunFacts(texts=TEXTS)}
        expected = [("a good film", 0), ("a bad film", 1)]
        assert _examples({"olsa": one}, facts) == expected
        couple = {"text": "a", "text_pair": "b", "label": pairs.classes[0]}
        assert _examples({"pairs": pairs}, {"pairs": RunFacts(texts=[couple])}) == [(("a", "b"), 0)]
        attacks = _build_attacks(parser().parse_args(["--recipes=append-benign,case"]), expected)
        assert list(attacks) == ["append-benign", "case"]
        transformation = attacks["append-benign"].transformation
        pool = getattr(transformation, "pool", None)
        assert pool == {0: ["bad"], 1: ["good"]}
    finally:
        one.close()
        pairs.close()


def test_without_examples_of_two_classes_they_are_refused() -> None:
    for examples in ([], [("good", 0), ("fine", 0)]):
        with pytest.raises(ValueError, match="got --recipes split without examples of two classes"):
            _build_attacks(parser().parse_args(["--recipes=case,split"]), examples)
        assert list(_build_attacks(parser().parse_args(["--recipes=case"]), examples)) == ["case"]


def test_attacks_that_hold_the_model_for_seconds_are_refused() -> None:
    with pytest.raises(ValueError, match="got --recipes gbda, for which other requests"):
        _build_attacks(parser().parse_args(["--recipes=case,gbda"]), [])
