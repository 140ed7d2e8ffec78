"""The benchmark that puts certificates in words between proofs and attacks."""

from argparse import Namespace
from dataclasses import replace
from typing import Any

import pytest
import torch

from benchmarks import word_sandwich
from benchmarks.word_sandwich import layers, report, rivals
from certify.threats import Characters, Synonyms, Threat
from lit_modules import WordScores
from text import WordSettings

TEXTS = ["a good film", "not a good film", "a bad film", "not a bad film", "Good film", "bad"]
LISTS = {"good": ["bad", "not"], "bad": ["good"], "film": ["a", "good"], "a": ["not"]}
ASKED = Namespace(attacks=["greedy-delete", "beam", "deepwordbug-free"], resources=None, budget=500)


def model() -> WordScores:
    torch.manual_seed(1)
    made = WordScores(words=WordSettings(split="ascii"))
    made.attach(made.build_tokenizer(TEXTS), ["negative", "positive"])
    made.configure_model()
    assert made.scores is not None
    with torch.no_grad():
        made.scores.words.normal_()
    return made.eval()


def samples(made: WordScores) -> list[tuple[str, int]]:
    answers = made.predict_texts(TEXTS).argmax(dim=1).tolist()
    # One of them is answered wrongly.
    return [(text, y ^ (i == 5)) for i, (text, y) in enumerate(zip(TEXTS, answers, strict=True))]


def threats() -> list[Threat]:
    ascii_words = WordSettings(split="ascii")
    return [Synonyms.of(LISTS, words=ascii_words), Characters(k=1, words=ascii_words)]


@pytest.mark.long
@pytest.mark.parametrize("threat", threats(), ids=("synonyms", "characters"))
def test_certified_is_below_attacked(threat: Threat, capsys: pytest.CaptureFixture[str]) -> None:
    made = model()
    for k, one in layers(made, samples(made), threat, [1], ASKED).items():
        assert k == "1"
        assert one.right == set(range(5))
        assert not one.broken
        # Exact: a text is certified, or its witness shows another answer.
        assert one.certified | one.witnessed == one.right
        assert not one.certified & one.witnessed
        assert set().union(*one.fallen.values()) <= one.witnessed
        assert one.witnessed
        shown = report({k: one}, 6)
        assert f"| 1 | {100 * len(one.certified) / 6:.3f} |" in shown
    assert "greedy-delete, beam" in capsys.readouterr().out


def test_a_wrong_certificate_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    made, (threat, _) = model(), threats()
    certifier = made.text_certifier(threat)

    def generous(texts: Any, ks: Any) -> Any:
        return [replace(one, holds=(True,), witness=None) for one in certifier(texts, ks)]

    monkeypatch.setattr(WordScores, "text_certifier", lambda *_: generous)
    (one,) = layers(made, samples(made), threat, [None], ASKED).values()
    assert one.broken
    assert one.broken == set().union(*one.fallen.values())


def test_texts_outside_of_the_set_do_not_count() -> None:
    made, (threat, _) = model(), threats()
    only = Namespace(**{**vars(ASKED), "attacks": ["deepwordbug-free"]})
    (one,) = layers(made, samples(made), threat, [1], only).values()
    assert one.outside["deepwordbug-free"] > 0
    assert one.fallen == {"deepwordbug-free": set()}


def test_recipes_without_resources_are_left_out(tmp_path: Any) -> None:
    from attacks.recipes import find_recipe, recipe_names

    nothing = Namespace(attacks=None, resources=str(tmp_path), budget=10)
    found, missing = rivals(threats()[0], nothing)
    names = [one.name for one in found]
    assert {"beam", "swarm", "deepwordbug", "deepwordbug-free"} <= set(names)
    assert "input-reduction" not in names
    assert len(names) == len(set(names))
    assert set(missing) <= {name for name in recipe_names() if find_recipe(name).needs}
    assert word_sandwich.FREE[0] in {*names, *missing}
