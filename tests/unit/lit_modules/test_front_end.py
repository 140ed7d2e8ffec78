"""The front end of pretrained encoders: in every method, from the fit to a prediction."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from attacks.resources.catalogue import Resources
from attacks.victims.kinds import ModuleVictim
from attacks.word_sets import find_sets
from certify.threats import Substitutions, Synonyms, Typos, WordEditDistance
from lit_modules import ASA, OLSA, FineTuning, TaskModule, UniBERT, WordRobustness, WordScores, load
from lit_modules.shared.unused import unused_settings
from measure.corpus_split import words_read
from measure.predictions import TextPredictor
from tests.unit.certify.words.test_substitutions import typos
from tests.unit.lit_modules.builders import attached, loader, olsa
from tests.unit.lit_modules.encoders import SENTENCES, made
from text import CanonicalForm, FrontEndSettings, FrontEndTokenizer, Span, Text, WordSettings
from text.tokenizer_state import tokenizer_from_state

SPELLING = FrontEndSettings(front_end="spelling")
CANONICAL = FrontEndSettings(front_end="canonical")
JOINED = WordSettings(split="joined", front_end="spelling")
# One text to the front end: case, a homoglyph, an invisible character, full width.
ALIKE: list[Text] = [
    "not a good film , and it is long",
    "NOT A Good film , and it IS long",
    "not a gооd film , and it is long",
    "not a go\u200bod film , and it is long",
    "not a ｇｏｏｄ film , and it is long",
]
TYPO = "not a goood fillm , and it is long"


def saved(module: TaskModule, path: Path) -> TaskModule:
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    trainer.strategy.connect(module)
    trainer.save_checkpoint(path)
    return load(path)


@pytest.mark.long
@pytest.mark.parametrize("method", [FineTuning, UniBERT, ASA])
@pytest.mark.parametrize("words", [SPELLING, CANONICAL])
def test_texts_that_look_the_same_have_one_prediction(
    method: type[FineTuning], words: FrontEndSettings, tmp_path: Path
) -> None:
    module = made(method, words=words).eval()
    logits = module.predict_texts(ALIKE, batch_size=1)
    assert all(torch.equal(row, logits[0]) for row in logits)
    typo = module.predict_texts([TYPO])
    assert torch.equal(typo[0], logits[0]) == (words == SPELLING)
    # Without the front end all of these are different texts.
    plain = made(method).eval().predict_texts(ALIKE, batch_size=1)
    assert not torch.equal(plain[2], plain[0])
    again = saved(module, tmp_path / "a.ckpt")
    assert again.hparams["words"]["front_end"] == words.front_end
    assert again.require_tokenizer().state() == module.require_tokenizer().state()
    assert torch.equal(again.predict_texts([*ALIKE, TYPO]), module.predict_texts([*ALIKE, TYPO]))


def test_padded_is_alone() -> None:
    module = made(FineTuning, words=SPELLING).eval()
    texts: list[Text] = ["goood", TYPO, "it is what it iss", "zzzz"]
    together = module.predict_texts(texts)
    for text, row in zip(texts, together, strict=True):
        torch.testing.assert_close(module.predict_texts([text])[0], row, rtol=1e-5, atol=1e-6)


def test_a_fit_reads_corrected_texts(bert: str, tmp_path: Path) -> None:
    """OLSA on a frozen encoder has the same setting; its own word splitting stays unused."""
    module = attached(olsa(backbone=bert, max_length=30, words=JOINED, min_count=1))
    assert isinstance(module, OLSA)
    assert isinstance(module.tokenizer, FrontEndTokenizer)
    assert module.front_end is module.tokenizer.front_end
    assert ModuleVictim(module).front_end is module.front_end
    (batch, *_) = loader(module, [*ALIKE, TYPO], 6)
    assert all(torch.equal(row, batch.input_ids[0]) for row in batch.input_ids)
    again = saved(module, tmp_path / "a.ckpt")
    assert torch.equal(again.predict_texts([TYPO]), module.eval().predict_texts([ALIKE[0]]))


def test_predictions_show_corrected_and_unknown_words() -> None:
    module = made(FineTuning, words=SPELLING).eval()
    (prediction,) = TextPredictor(module)(["A goood fillm, zzzzz"])
    assert prediction["corrected"] == {"goood": "good", "fillm": "film"}
    assert "zzzzz" in prediction["unknown"]
    (plain,) = TextPredictor(made(FineTuning).eval())(["A goood fillm"])
    assert "corrected" not in plain


def test_threats_read_the_words_of_the_front_end() -> None:
    assert words_read(made(FineTuning)) == WordSettings()
    assert words_read(made(FineTuning, words=SPELLING)) == JOINED
    form = CanonicalForm(repeats=True)
    options = FrontEndSettings(front_end="canonical", canonical=form)
    read = words_read(made(FineTuning, words=options))
    assert (read.front_end, read.canonical, read.split) == ("canonical", form, "clitics")


def test_an_exact_copy_has_the_front_end() -> None:
    """Certificates are about a copy: the front end is a part of it, what it remembers is not."""
    module = made(FineTuning, words=SPELLING).eval()
    before = module.predict_texts([TYPO])
    copied = module.exact_copy()
    assert torch.equal(copied.predict_texts([TYPO]), before)
    assert module.front_end is not None
    module.front_end._texts[TYPO] = "bad"
    module.exact_copy()
    assert torch.equal(module.predict_texts([TYPO]), before)
    module.front_end.spellings["good"] = "bad"
    with pytest.raises(ValueError, match=r"in tokenizer\.front_end"):
        module.exact_copy()


def test_settings_without_effect() -> None:
    form = CanonicalForm(leetspeak=True)
    off = made(FineTuning, words=FrontEndSettings(canonical=form), min_count=3)
    assert {text.split("=")[0] for text in unused_settings(off)} >= {"words.canonical", "min_count"}
    on = FrontEndSettings(front_end="spelling", canonical=form)
    names = {
        text.split("=")[0] for text in unused_settings(made(FineTuning, words=on, min_count=1))
    }
    assert not names & {"words.canonical", "min_count"}


def test_an_encoding_behind_a_front_end_reads_corrected_words_alone(tmp_path: Path) -> None:
    path = tmp_path / "encoding.json"
    path.write_text('{"fine": "good"}')
    module = made(FineTuning, encoding=str(path), words=SPELLING).eval()
    tokenizer = module.require_tokenizer()
    first, other, known = tokenizer.encode(["Fime; FILM...", "good,film", "bad film"])
    assert first == other != known
    assert tokenizer.encode(["zzzzz film"]) == tokenizer.encode(["qqqq film"])
    assert tokenizer.unk_id in tokenizer.encode(["zzzzz film"])[0].input_ids
    assert tokenizer.spans(["Fime; FILM..."])[0][1] == Span(0, 0, 4)
    again = tokenizer_from_state(tokenizer.state())
    assert again.encode(["Fime; FILM...", "zzzzz"]) == tokenizer.encode(["Fime; FILM...", "zzzzz"])
    copied = module.exact_copy()
    assert torch.equal(copied.predict_texts([TYPO]), module.predict_texts([TYPO]))


def test_an_encoding_behind_a_corrector_certifies_what_raw_strings_get(tmp_path: Path) -> None:
    """A listed word that the vocabulary lacks is corrected, or unknown, before the encoding."""
    path = tmp_path / "encoding.json"
    path.write_text('{"fine": "good", "benevolent": "good", "lengthy": "film"}')
    lists = {"good": ["benevolent", "fine"], "bad": ["fime", "lengthy"], "film": ["lengthy"]}
    verdicts = []
    for seed in range(4):
        module = made(FineTuning, encoding=str(path), words=SPELLING, seed=seed).eval()
        texts = ["a good film", "not bad, long", "good bad film"]
        with torch.no_grad():
            for parameter in module.network.parameters():
                if parameter.ndim > 1:
                    parameter.mul_(3)
            module.output_bias().sub_(module.predict_texts(texts).mean(dim=0))
        synonyms = Synonyms.of(lists, words=words_read(module))
        for found in module.text_certifier(synonyms)(texts, [1, None]):
            for k, holds in zip((1, None), found.holds, strict=True):
                threat = synonyms.at(k)
                every = [" ".join(words) for words in product(*threat.candidates(found.text))]
                inside = [text for text in every if threat.contains(found.text, text)]
                classes = module.predict_texts(inside).argmax(dim=1)
                verdicts.append(bool((classes == found.prediction).all()))
                assert holds == verdicts[-1]
            assert found.kind == "exact"
            if found.witness is not None:
                assert synonyms.contains(found.text, found.witness)
                assert int(module.predict_texts([found.witness]).argmax()) != found.prediction
    assert {*verdicts} == {True, False}


@pytest.mark.parametrize("encoding", [None, '{"fine": "good", "long": "far"}'])
def test_a_list_of_inputs_certifies_what_raw_strings_get(
    encoding: str | None, tmp_path: Path
) -> None:
    """The words alone: what is between them would make any number of inputs."""
    path = tmp_path / "encoding.json"
    path.write_text(encoding or "")
    module = made(FineTuning, encoding=str(path) if encoding else None, words=SPELLING).eval()
    with torch.no_grad():
        for parameter in module.network.parameters():
            if parameter.ndim > 1:
                parameter.mul_(4)
    words = words_read(module)
    threat = Substitutions(words=words, sets=(Typos(words),))
    certifier = module.listed_certifier(threat, 10**4)
    assert certifier.model.complete == (encoding is not None)
    texts = ["a good fime", "not bad, long", "it is"]
    verdicts = []
    for text, found in zip(texts, certifier(texts, [1]), strict=True):
        split = threat.split(text)
        reached = {
            " ".join([*split[:at], typo, *split[at + 1 :]])
            for at, word in enumerate(split)
            for typo in typos(word, splits=False)
        }
        predictions = module.predict_texts(sorted(reached)).argmax(dim=1)
        verdicts.append(bool((predictions == found.prediction).all()))
        assert found.holds == (verdicts[-1],)
        assert found.kind == "exact"
        if found.witness is not None:
            assert threat.at(1).contains(text, found.witness)
            joined = " ".join(threat.split(found.witness))
            assert int(module.predict_texts([joined]).argmax()) == found.witness_prediction
    assert {True, False} >= set(verdicts)


@pytest.mark.parametrize("option", ["repeats", "leetspeak", "spaced"])
def test_options_read_other_texts_and_have_no_lists(option: str) -> None:
    """An option joins or changes more than one word: no list of replacements has that."""
    form = CanonicalForm(**{option: True})
    words = WordSettings(split="joined", front_end="spelling", canonical=form)
    module = WordScores(words=words)
    module.attach(module.build_tokenizer(SENTENCES), ["no", "yes"])
    module.configure_model()
    text = {"repeats": "goooood", "leetspeak": "g00d", "spaced": "g o o d"}[option]
    tokenizer = module.require_tokenizer()
    assert tokenizer.encode([text]) == tokenizer.encode(["good"])
    assert tokenizer.encode([text]) != _plain().encode([text])
    state = tokenizer.state()
    assert state["words"]["canonical"][option]
    assert "canonical" not in _plain().state()["words"]  # as former versions wrote it
    with pytest.raises(ValueError, match=rf"got words\.canonical=.*{option}=True.*substitut"):
        find_sets("typos", words, Resources(None))
    with pytest.raises(ValueError, match="for synonyms, expected none of its options"):
        Synonyms.of({"good": ["bad"]}, words=words)
    assert WordEditDistance(k=1, words=words).digest != WordEditDistance(k=1, words=JOINED).digest
    settings = WordRobustness(against="typos")
    with pytest.raises(ValueError, match="for substitutions"):
        WordScores(words=words, robustness=settings).build_tokenizer(SENTENCES)


def _plain() -> Any:
    return WordScores(words=JOINED).build_tokenizer(SENTENCES)


def test_a_model_that_has_corrected_a_word_still_has_certificates() -> None:
    module = WordScores(words=JOINED)
    module.attach(module.build_tokenizer(SENTENCES), ["no", "yes"])
    module.configure_model()
    threat = find_sets("typos", JOINED, Resources(None))
    (before,) = module.text_certifier(threat)(["good film"], [1])
    module.predict_texts(["goood fillm", "zzzz"])
    (after,) = module.text_certifier(threat)(["good film"], [1])
    assert after == before
    # But not one whose corrector was changed: the index of its words, or what it remembers.
    front_end = module.front_end
    assert front_end is not None
    front_end._ids["zzzz"] = 4
    module.text_certifier(threat)
    assert "zzzz" not in front_end._ids
    corrector = front_end.corrector
    assert corrector is not None
    corrector._near["zzzz"] = 4
    with pytest.raises(ValueError, match="kept values"):
        module.text_certifier(threat)
