"""A certificate in words is refused where anything reads or classifies a text otherwise."""

import copy
import functools
import json
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from certify.threats import Characters, Synonyms, Threat
from layers import TransformerLayers
from layers.window_net import WindowNetSettings
from lit_modules import (
    ASA,
    AdversarialTraining,
    FineTuning,
    LipsLev,
    TaskModule,
    TextCNN,
    UniBERT,
    WordScores,
)
from lit_modules.adversaries import FreeLB
from lit_modules.shared import task_module
from lit_modules.shared.task_module import TaskModule as Base
from tests.unit.lit_modules.builders import attached, olsa, plain
from tests.unit.lit_modules.encoders import made
from text import EncodedWords, Vocabulary, WordSettings, WordTokenizer, word_splitter
from text.character_tokenizer import CharacterTokenizer
from text.word_splitter import WordSplitter

LISTS = {"good": ["fine", "bad"], "bad": ["good"], "film": ["one", "it"]}
SYNONYMS = Synonyms.of(LISTS)
TEXT = "a good film"
OTHER = "bad bad"


def scores(window: int = 1, hidden: int = 0) -> TaskModule:
    net = WindowNetSettings(hidden=hidden, width=3)
    module = attached(
        lambda: WordScores(window=window, min_ngram_count=1, net=net, spelling=7), classes=2
    )
    assert isinstance(module, WordScores)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module.eval()


def fine_tuned() -> TaskModule:
    path = Path("encoding.json")
    path.write_text(json.dumps({"fine": "good", "one": "film"}))
    module: TaskModule = made(FineTuning, encoding=str(path))
    return module.eval()


def masked() -> TaskModule:
    """Its attention is masked by hooks of this program."""
    module: TaskModule = made(ASA)
    return module.eval()


def adversarial() -> TaskModule:
    classifier = plain(depth=1, layers=TransformerLayers(mean_norm=True))
    return attached(
        lambda: AdversarialTraining(classifier=classifier(), adversary=FreeLB()), classes=2
    ).eval()


MODELS: dict[str, tuple[Callable[[], TaskModule], Threat]] = {
    "words": (scores, SYNONYMS),
    "n-grams": (lambda: scores(2), SYNONYMS),
    "net": (lambda: scores(2, 3), SYNONYMS),
    "cnn": (lambda: attached(lambda: TextCNN(width=4), classes=2).eval(), SYNONYMS),
    "characters": (
        lambda: attached(lambda: LipsLev(width=4, kernel=3), classes=2).eval(),
        Characters(k=1),
    ),
    "olsa": (lambda: attached(olsa(depth=1), classes=2).eval(), SYNONYMS),
    "mean": (lambda: attached(plain(encoder="mean"), classes=2).eval(), SYNONYMS),
    "transformer": (
        lambda: attached(plain(depth=1, layers=TransformerLayers(mean_norm=True))).eval(),
        SYNONYMS,
    ),
    "encoded": (fine_tuned, SYNONYMS),
    "adversarial": (adversarial, SYNONYMS),
}


def foreign(*_: Any, **__: Any) -> Any:
    """Code of another program."""
    raise AssertionError


def inner(module: TaskModule) -> TaskModule:
    return module.plain


def on_instance(name: str) -> Callable[[TaskModule, pytest.MonkeyPatch], None]:
    return lambda module, _: setattr(module, name, foreign)


def subclassed(method: str) -> Callable[[TaskModule, pytest.MonkeyPatch], None]:
    def sabotage(module: TaskModule, _: pytest.MonkeyPatch) -> None:
        module.__class__ = type("Mine", (type(module),), {method: foreign} if method else {})

    return sabotage


def tokenizer_of(module: TaskModule) -> Any:
    return module.require_tokenizer()


def part_of_text(module: TaskModule, name: str) -> Any:
    """The splitter, or the vocabulary, or the tokenizer where it has none."""
    tokenizer = tokenizer_of(module)
    return getattr(tokenizer, name, tokenizer)


def first_layer(module: TaskModule) -> nn.Module:
    """A layer between text and logits, with parameters of its own."""
    layers: list[nn.Module] = [
        part
        for name in inner(module)._layers()
        for part in getattr(inner(module), name).modules()
        if part._parameters
    ]
    return layers[0]


def change_ids(module: TaskModule, _: pytest.MonkeyPatch) -> None:
    tokenizer = tokenizer_of(module)
    if isinstance(tokenizer, EncodedWords):
        tokenizer.pad_id += 1
        return
    index = tokenizer.vocabulary._index
    first, last = list(index)[3], list(index)[-1]
    index[first], index[last] = index[last], index[first]


def swap_class(module: TaskModule, _: pytest.MonkeyPatch) -> None:
    tokenizer = copy.copy(tokenizer_of(module))
    tokenizer.__class__ = type("Swapped", (type(tokenizer),), {"encode": foreign})
    module.tokenizer = tokenizer


def swap_tokenizer(module: TaskModule, _: pytest.MonkeyPatch) -> None:
    class Quack:
        pad_id, unk_id, max_length, vocab_size = 0, 1, 99, 9

        def encode(self, texts: Sequence[str]) -> Any:
            raise AssertionError

        def state(self) -> dict[str, Any]:
            return {"kind": "word"}

    module.tokenizer = Quack()  # type: ignore[assignment] # what is refused


def keep_a_table(module: TaskModule, _: pytest.MonkeyPatch) -> None:
    """A table that is not that of the weights, as an optimisation may leave it behind."""
    own = inner(module)
    if isinstance(own, WordScores):
        assert own.scores is not None
        own.scores._kept = {1: own.scores.word_table().neg()}
        return
    for part in own.network.modules():
        if hasattr(part, "_fixed"):
            vars(part)["_fixed"] = -part.get_parameter("raw")
            return
    vars(first_layer(module))["kept"] = -1


class LoudStr(str):
    """Equal to a str, and not one."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


def strange_word(module: TaskModule, _: pytest.MonkeyPatch) -> None:
    tokenizer = tokenizer_of(module)
    if isinstance(tokenizer, EncodedWords):
        tokenizer.representatives = {LoudStr("fine"): "good", "one": "film"}
        return
    vocabulary = tokenizer.vocabulary
    index = {LoudStr(word): at for word, at in vocabulary._index.items()}
    vocabulary._index = index


def own_method_of_tensor(module: TaskModule, _: pytest.MonkeyPatch) -> None:
    vars(next(first_layer(module).parameters()))["to"] = foreign


def compiled(module: TaskModule, _: pytest.MonkeyPatch) -> None:
    module._compiled_call_impl = foreign


def shadow(module: TaskModule, _: pytest.MonkeyPatch) -> None:
    """A module that hides the one of the same name."""
    own = inner(module)
    name = own._layers()[0]
    vars(own)[name] = type("Shadow", (nn.Module,), {"forward": foreign})()


def patch(owner: Any, name: str) -> Callable[[TaskModule, pytest.MonkeyPatch], None]:
    return lambda _, monkeypatch: monkeypatch.setattr(owner, name, foreign)


def wrapped(module: TaskModule, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decorator that looks like the method itself."""
    plain_method = Base.predict_texts
    monkeypatch.setattr(
        Base, "predict_texts", functools.wraps(plain_method)(lambda *given: foreign())
    )


def method_of_class(name: str) -> Callable[[TaskModule, pytest.MonkeyPatch], None]:
    return lambda module, monkeypatch: monkeypatch.setattr(type(inner(module)), name, foreign)


def swapped_methods(module: TaskModule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of this program in the wrong place."""
    monkeypatch.setattr(type(tokenizer_of(module)), "encode", Vocabulary.state)


def forward_of_layer(module: TaskModule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(first_layer(module)), "forward", foreign)


def parametrised(module: TaskModule, _: pytest.MonkeyPatch) -> None:
    layer = first_layer(module)
    name = next(iter(layer._parameters))
    nn.utils.parametrize.register_parametrization(layer, name, nn.Identity())


def bound(module: TaskModule, _: pytest.MonkeyPatch) -> None:
    setattr(module, "classify", types.MethodType(lambda self, *given: None, module))  # noqa: B010 (a plain assignment is no type)


def hook(module: TaskModule, _: pytest.MonkeyPatch) -> None:
    first_layer(module).register_forward_hook(lambda *_: None)


def hook_on_holder(module: TaskModule, _: pytest.MonkeyPatch) -> None:
    module.register_forward_pre_hook(lambda *_: None)


def state_hook(module: TaskModule, _: pytest.MonkeyPatch) -> None:
    """Weights that a copy would have, and the model has not."""

    def other(_: Any, state: dict[str, Any], prefix: str, *__: Any) -> None:
        state.update({n: t + 1 for n, t in state.items() if t.is_floating_point()})

    inner(module)._register_state_dict_hook(other)  # type: ignore[no-untyped-call] # torch's


def setting_of_layer(module: TaskModule, _: pytest.MonkeyPatch) -> None:
    vars(first_layer(module))["another_setting"] = 1.0


def own_on(name: str, method: str) -> Callable[[TaskModule, pytest.MonkeyPatch], None]:
    return lambda module, _: setattr(part_of_text(module, name), method, foreign)


def replaced(name: str) -> Callable[[TaskModule, pytest.MonkeyPatch], None]:
    return lambda module, _: setattr(tokenizer_of(module), name, foreign)


def max_length(module: TaskModule, _: pytest.MonkeyPatch) -> None:
    tokenizer = tokenizer_of(module)
    getattr(tokenizer, "inner", tokenizer).max_length = True


def hparams(module: TaskModule, _: pytest.MonkeyPatch) -> None:
    """Settings that are not those of the layers."""
    own = inner(module)
    own.hparams.update({"width": 2, "window": 3, "norm": "2", "dropout": 0.9})


SABOTAGES: dict[str, Callable[[TaskModule, pytest.MonkeyPatch], Any]] = {
    **{
        f"own {name}()": on_instance(name)
        for name in (
            "embed",
            "classify",
            "forward",
            "encode_texts",
            "predict_texts",
            "predict_logits",
            "_encode",
            "require_text",
            "state_dict",
            "on_save_checkpoint",
            "eval",
            "_call_impl",
            "__deepcopy__",
        )
    },
    **{
        f"subclass with {name}()": subclassed(name)
        for name in ("embed", "predict_texts", "encode_texts", "forward", "")
    },
    **{f"{name}() of the class": method_of_class(name) for name in ("embed", "configure_model")},
    "compiled": compiled,
    "bound classify()": bound,
    "ids swapped": change_ids,
    "class of the tokenizer": swap_class,
    "another tokenizer": swap_tokenizer,
    "own split()": own_on("splitter", "split"),
    "own tokens()": own_on("tokenizer", "encode"),
    "splitter replaced": replaced("splitter"),
    "vocabulary replaced": replaced("vocabulary"),
    "length that is no number": max_length,
    "kept table": keep_a_table,
    "strange words": strange_word,
    "method of a tensor": own_method_of_tensor,
    "hidden layer": shadow,
    "wrapped predict_texts()": wrapped,
    "swapped methods": swapped_methods,
    "forward() of a layer's class": forward_of_layer,
    "parametrised": parametrised,
    "hook": hook,
    "hook on the model": hook_on_holder,
    "hook on the weights": state_hook,
    "setting of a layer": setting_of_layer,
    "settings": hparams,
    "split() of the class": patch(WordSplitter, "split"),
    "characters of the class": patch(CharacterTokenizer, "encode"),
    "words of the class": patch(WordTokenizer, "tokens"),
    "ids of the class": patch(Vocabulary, "__call__"),
    "function of the splitter": patch(word_splitter, "_plain"),
    "function of the model": patch(task_module, "collate"),
}
NOT_ON_THE_WAY = {
    # A model of characters has no splitter, and the others do not read characters.
    ("characters", "split() of the class"),
    ("characters", "words of the class"),
    *((name, "characters of the class") for name in MODELS if name != "characters"),
    ("encoded", "words of the class"),
    ("encoded", "ids of the class"),
    ("adversarial", "configure_model"),
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refusal(module: TaskModule, threat: Threat) -> str | None:
    try:
        module.text_certifier(threat)
    except ValueError as error:
        return str(error)
    return None


# `make quick` sabotages a model of words, and one with layers.
@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        name if name in ("words", "mean") else pytest.param(name, marks=pytest.mark.slow)
        for name in MODELS
    ],
)
def test_sabotages_are_refused(name: str) -> None:
    build, threat = MODELS[name]
    whole = build()
    expected = whole.text_certifier(threat)([TEXT], [1])
    assert expected == whole.text_certifier(threat)([TEXT], [1])
    accepted = []
    for what, sabotage in SABOTAGES.items():
        module = build()
        with pytest.MonkeyPatch.context() as monkeypatch:
            sabotage(module, monkeypatch)
            message = refusal(module, threat)
        if message is None:
            accepted.append(what)
        else:
            assert "\n" not in message
    assert accepted == [what for what in SABOTAGES if (name, what) in NOT_ON_THE_WAY]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_was_used_is_accepted(name: str) -> None:
    """Caches that are filled, backward hooks and the trainer's methods change no prediction."""
    build, threat = MODELS[name]
    module = build()
    before = module.text_certifier(threat)([TEXT, OTHER], [1])
    module.train()
    module(module.encode_texts([TEXT])).sum().backward()
    module.eval()
    module.predict_texts([TEXT, OTHER])
    module.register_full_backward_hook(lambda *_: None)
    module.forward = module.forward  # type: ignore[method-assign] # as Lightning does
    generator = torch.get_rng_state()
    assert module.text_certifier(threat)([TEXT, OTHER], [1]) == before
    assert torch.equal(torch.get_rng_state(), generator)


def test_the_splitter_of_another_program_is_named() -> None:
    module = scores()
    tokenizer_of(module).splitter.split = lambda text: text.split()
    with pytest.raises(ValueError, match=r"a function as tokenizer\.splitter\.split"):
        module.text_certifier(SYNONYMS)
    module = scores()
    tokenizer_of(module).splitter.settings = WordSettings(split="ascii")
    with pytest.raises(ValueError, match=r"tokenizer\.splitter\._pattern"):
        module.text_certifier(SYNONYMS)


@pytest.mark.parametrize(
    "build", [masked, lambda: attached(plain(encoder="lstm", depth=1)), lambda: made(UniBERT)]
)
def test_models_without_a_certificate_of_their_own_have_copies(
    build: Callable[[], TaskModule],
) -> None:
    """What is smoothed, or put behind an encoding, is checked in the same way."""
    module = build().eval()
    answer = module.exact_answer()([TEXT])
    torch.testing.assert_close(answer, module.predict_texts([TEXT]).double(), rtol=1e-4, atol=1e-4)
    hook(module, pytest.MonkeyPatch())
    with pytest.raises(ValueError, match="a forward hook on"):
        module.exact_answer()


@pytest.mark.parametrize("name", MODELS)
def test_answers_of_a_copy_do_not_depend_on_other_texts(name: str) -> None:
    build, _ = MODELS[name]
    module = build()
    answer = module.exact_answer()
    texts = [TEXT, OTHER, "not a good film and far too long for anyone"]
    together = answer(texts)
    assert together.dtype == torch.float64
    assert torch.equal(together, torch.cat([answer([text]) for text in texts]))
    torch.testing.assert_close(together, module.predict_texts(texts).double(), rtol=1e-4, atol=1e-4)
    sabotaged = build()
    SABOTAGES["subclass with embed()"](sabotaged, pytest.MonkeyPatch())
    with pytest.raises(ValueError, match="expected"):
        sabotaged.exact_answer()
