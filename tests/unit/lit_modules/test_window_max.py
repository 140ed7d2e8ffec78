"""WindowMax: its windows, its pooling, and that further lines never hide a detection."""

import random
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from certify.threats import Additions
from lit_modules import (
    ASA,
    OLSA,
    AdversarialTraining,
    FineTuning,
    MonotoneScores,
    TaskModule,
    TextClassifier,
    UniBERT,
    WindowMax,
    WordScores,
)
from lit_modules.adversaries import AMDA, MRAT, Adversary, FreeLB, InfoBERT, TemperatureScaling
from lit_modules.shared.detection import Detection, Detector
from lit_modules.shared.optimisation import OptimisationChanges
from lit_modules.shared.rebuilt import rebuild
from lit_modules.shared.word_robustness import WordRobustness
from lit_modules.window_max import WindowPooling, merge_equal, split_windows
from tests.unit.lit_modules.builders import make
from tests.unit.lit_modules.shared.unitary_models import ARCHITECTURE
from text import Batch, WordTokenizer, collate, tokenizer_from_state
from text.window_tokenizer import WindowTokenizer

TEXTS = ["Win a free prize now! Call us.", "A good day. See you\nlater", "free prize", "ok"] * 2
NASTY = (
    *" \t.!?a1\u0301\u200b\u202e\ufeff\ud800é가",
    "\r\n",
    "\n",
    "\u2028",
    "\x85",
    "good. day",
    "…",
)


def module(**settings: Any) -> WindowMax:
    torch.manual_seed(0)
    inner = WordScores(window=2, min_ngram_count=1)
    model = WindowMax(classifier=inner, **settings)
    model.attach(model.build_tokenizer(TEXTS), ["a", "b"])
    model.configure_model()
    with torch.no_grad():
        for parameter in model.classifier.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return model.eval()


@pytest.mark.parametrize("method", [MonotoneScores, WindowMax])
@pytest.mark.parametrize(
    ("own", "detected", "index"), [(None, "A", 0), (None, None, 1), ("b", "a", 1), (None, "z", 1)]
)
def test_evidence_is_for_the_detected_class(
    method: type[TaskModule], own: str | None, detected: str | None, index: int
) -> None:
    inner = {"classifier": WordScores()} if method is WindowMax else {}
    model = method(positive=own, **inner)
    model.attach(model.build_tokenizer(TEXTS), ["a", "b"])
    # A fit of `train --detect.positive`: only its trainer has this attribute.
    trainer: Any = SimpleNamespace(detection=Detection(positive=detected))
    model._trainer = trainer
    model.configure_model()
    assert model.evidence_class == index
    model._trainer = None
    assert rebuild(model).evidence_class == index


def windows(text: str, words: int = 3) -> list[str]:
    tokenizer = WindowTokenizer(WordTokenizer.build(TEXTS), words)
    return [text[start:end] for start, end in tokenizer.windows(text)]


def test_windows() -> None:
    assert windows("Hi there! Go. on 3.5 miles\nnow\n\n") == [
        "Hi there!",
        "Go.",
        "on 3.5 miles",
        "now",
    ]
    assert windows("a b c d e f g") == ["a b c", "d e f", "g"]
    assert windows(" \n ") == []
    # What the inner tokenizer would cut off becomes a window of its own.
    tokenizer = WindowTokenizer(WordTokenizer.build(TEXTS, max_length=4), 64)
    text = "a b c d e f g h i"
    parts = [text[start:end] for start, end in tokenizer.windows(text)]
    assert "".join(parts).replace(" ", "") == "abcdefghi"
    assert all(len(part.split()) <= 4 for part in parts)
    again = tokenizer_from_state(tokenizer.state())
    assert again.state() == tokenizer.state()
    assert [e.input_ids for e in again.encode([text])] == [
        e.input_ids for e in tokenizer.encode([text])
    ]
    (spans,) = tokenizer.spans([text])
    assert len(spans) == len(tokenizer.encode([text])[0].input_ids)


@pytest.mark.long
def test_windows_of_a_line_do_not_depend_on_other_lines() -> None:
    rng = random.Random(0)

    def noise() -> str:
        return "".join(rng.choices(NASTY, k=rng.randint(0, 15)))

    for _ in range(300):
        head, text, tail = noise(), noise(), noise()
        both = windows(f"{head}\n{text}\n{tail}")
        assert both == [*windows(head), *windows(text), *windows(tail)]


def test_the_batch_of_windows_has_all_of_them() -> None:
    tokenizer = WindowTokenizer(WordTokenizer.build(TEXTS), 2)
    texts = [TEXTS[0], "ok", TEXTS[1]]
    batch = collate(tokenizer.encode(texts), pad_id=tokenizer.pad_id)
    split, layout = split_windows(batch, tokenizer.border, tokenizer.pad_id)
    found = [row[real].tolist() for row, real in zip(split.input_ids, split.mask, strict=True)]
    parts = [(i, text[s:e]) for i, text in enumerate(texts) for s, e in tokenizer.windows(text)]
    assert layout.owner.tolist() == [i for i, _ in parts]
    assert found == [e.input_ids for e in tokenizer.inner.encode([part for _, part in parts])]


def test_a_sentence_that_is_cut_is_encoded_as_its_windows() -> None:
    tokenizer = WindowTokenizer(WordTokenizer.build(TEXTS, max_length=4), 64)
    texts = ["a free day now or later. ok", "ok", "", "a free day now or later."]
    for text, encoding in zip(texts, tokenizer.encode(texts), strict=True):
        cuts = list(tokenizer.windows(text)) or [(0, 0)]
        expected: list[int] = []
        for part in tokenizer.inner.encode([text[s:e] for s, e in cuts]):
            assert not part.truncated
            expected += [*([tokenizer.border] if expected else []), *part.input_ids]
        assert encoding.input_ids == expected


def test_a_prediction_reads_each_window_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = module(words=3)
    batch = model.encode_texts([*TEXTS, "free prize\nok"])
    read: list[int] = []
    inner = model.classifier.predict_logits

    def predict_logits(windows: Batch) -> Tensor:
        read.append(len(windows))
        return inner(windows)

    monkeypatch.setattr(model.classifier, "predict_logits", predict_logits)
    logits = model.predict_logits(batch)
    tokenizer = model.require_tokenizer()
    assert isinstance(tokenizer, WindowTokenizer)
    different = {text[s:e] for text in TEXTS for s, e in tokenizer.windows(text)}
    assert read == [len(different)]
    assert torch.allclose(logits, model(batch), atol=1e-5)


def test_equal_ids_of_other_masks_are_other_windows() -> None:
    # A padding id inside a text is a token.
    ids, mask = torch.tensor([[5, 0], [5, 0], [5, 0]]), torch.tensor([[1, 0], [1, 1], [1, 0]]) > 0
    different, rows = merge_equal(Batch(ids, mask, torch.arange(3)), 0)
    assert torch.equal(different.mask[rows], mask)
    assert torch.equal(different.input_ids[rows], ids)
    assert len(different) == 2


def test_a_pass_through_the_embedding_is_the_same() -> None:
    model = module(words=3)
    batch = model.encode_texts(TEXTS)
    assert torch.equal(model.classify(model.embed(batch), batch.mask), model(batch))
    assert torch.allclose(model(batch).double(), model.predict_texts(TEXTS).double(), atol=1e-4)


def test_pooling() -> None:
    leads, owner = torch.tensor([-1.0, 2.0, 0.5]).double(), torch.tensor([0, 0, 1])
    largest = WindowPooling(noisy_or=False)(leads, owner, 2, 1)
    assert largest.tolist() == [[0.0, 2.0], [0.0, 0.5]]
    some = WindowPooling(noisy_or=True)(leads, owner, 2, 0).double()
    none = (1 - leads.sigmoid())[:2].prod()
    assert torch.allclose(some[0, 0].sigmoid(), 1 - none)
    assert torch.allclose(some[1, 0], leads[2])
    none_at_all = WindowPooling(noisy_or=True)(torch.tensor([-900.0]), owner[:1], 1, 1)
    assert none_at_all.isfinite().all()


@pytest.mark.parametrize("pool", ["max", "noisy-or"])
def test_no_further_line_hides_a_detection(pool: Any) -> None:
    model, rng = module(pool=pool, words=4), random.Random(0)
    threat = Additions(words=model.classifier.words, kind="append-lines")  # type: ignore[arg-type] # of a word-level method
    certificates = model.text_certifier(threat)([*TEXTS[:4], "good free now"], [None])
    assert {c.holds[0] for c in certificates} == {True, False}
    for certificate in certificates:
        if not certificate.holds[0]:
            continue
        changed = []
        for _ in range(40):
            head, tail = ("".join(rng.choices(NASTY, k=rng.randint(0, 9))) for _ in range(2))
            changed.append(f"{head}\n{certificate.text}\n{tail} {rng.choice(TEXTS)}")
        assert all(threat.contains(certificate.text, text) for text in changed)
        assert (model.predict_texts(changed).diff(dim=1) > 0).all()
    with pytest.raises(ValueError, match="append-lines"):
        model.text_certifier(Additions(words=threat.words, kind="append"))


@pytest.mark.parametrize("pool", ["max", "noisy-or"])
def test_a_blank_text_has_no_certificate(pool: Any) -> None:
    """It is read as an unknown word, which no longer text has."""
    torch.manual_seed(0)
    model = WindowMax(classifier=make(TextClassifier, width=16, heads=4, depth=0), pool=pool)
    model.attach(model.build_tokenizer(TEXTS), ["a", "b"])
    model.configure_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    labels = torch.tensor([1, 0, 0])
    for _ in range(60):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(model.encode_texts(["", "free prize", "ok"])), labels)
        loss.backward()  # type: ignore[no-untyped-call] # of torch
        optimizer.step()
    model.eval()
    words = model.classifier.require_tokenizer().splitter.settings  # type: ignore[attr-defined] # of words
    threat = Additions(words=words, kind="append-lines")
    # All white space of Python, line breaks included.
    blanks = ["", "  \n", "".join(c for c in map(chr, range(0x3001)) if c.isspace())]
    for found in model.text_certifier(threat)(blanks, [None]):
        changed = f"{found.text}\nfree prize"
        assert threat.contains(found.text, changed)
        assert model.predict_texts([found.text, changed]).argmax(dim=1).tolist() == [1, 0]
        assert (found.prediction, found.holds, found.kind) == (1, (False,), "lower bound")


def test_text_in_the_same_line_may_hide_a_detection() -> None:
    """The trap: it is in the window of the text, so the theorem speaks of lines."""
    model = module(words=8)
    assert isinstance(model.classifier, WordScores)
    scores = model.classifier.scores
    assert scores is not None
    tokenizer = model.classifier.require_tokenizer()
    assert isinstance(tokenizer, WordTokenizer)
    free, day = tokenizer.ids(["free", "day"])
    with torch.no_grad():
        for parameter in scores.parameters():
            parameter.zero_()
        scores.words[free, 1], scores.words[day, 1] = 1.0, -5.0
    alone, line, glued = model.predict_texts(["free", "free\nday", "free day"]).argmax(dim=1)
    assert (alone, line, glued) == (1, 1, 0)


def test_a_copy_predicts_the_same_and_a_checkpoint_has_all() -> None:
    model = module(words=4)
    again = rebuild(model)
    assert torch.equal(again.predict_texts(TEXTS), model.predict_texts(TEXTS))
    with torch.no_grad():
        model.output_bias()[1] -= 1000.0
    assert model.predict_texts(TEXTS).argmax(dim=1).sum() == 0
    with pytest.raises(ValueError, match="expected a plain one"):
        WindowMax(classifier=model)


@pytest.mark.parametrize(
    "inner", [WordScores, partial(TextClassifier, encoder="mean"), OLSA, TextClassifier]
)
def test_a_detector_is_restored_with_its_threshold(inner: Any) -> None:
    """Also around classifiers that have no bias of their own: the threshold is that of the text."""
    sizes = {} if inner is WordScores else {"width": 8, "heads": 2, "depth": 1}
    model = WindowMax(classifier=inner(**sizes))
    model.attach(model.build_tokenizer(TEXTS), ["a", "b"])
    model.configure_model()
    plain = model.eval().predict_texts(TEXTS)
    record = {"false_alarms": 0.0, "recall": 1.0, "negatives": 4, "positives": 4}
    model.fold(Detector(positive="b", threshold=0.5, **record))  # type: ignore[arg-type] # all are numbers
    again = rebuild(model)
    assert again.detector == model.detector
    assert again.classifier.detector is None
    assert torch.equal(again.predict_texts(TEXTS), model.predict_texts(TEXTS))
    again.unfold()
    assert torch.equal(again.predict_texts(TEXTS), plain)
    assert rebuild(again).detector is None


@pytest.mark.parametrize("pool", ["max", "noisy-or"])
def test_adversarial_training_shifts_the_score_of_the_text(pool: Any) -> None:
    inner = WindowMax(pool=pool, words=2, classifier=make(TextClassifier, width=8, heads=2))
    model = AdversarialTraining(classifier=inner, adversary=FreeLB())
    model.attach(model.build_tokenizer(TEXTS), ["a", "b"])
    model.configure_model()
    before = model.eval().predict_texts(TEXTS)
    model.fold(Detector("b", threshold=0.5, false_alarms=0, recall=1, negatives=4, positives=4))
    after = rebuild(model).predict_texts(TEXTS)
    torch.testing.assert_close(after[:, 1] - after[:, 0], before[:, 1] - before[:, 0] - 0.5)


@pytest.mark.parametrize(
    "inner",
    [
        make(TextClassifier, width=8, heads=2),
        make(FineTuning, architecture=ARCHITECTURE, vocab_size=80, max_length=30),
    ],
    ids=["TextClassifier", "FineTuning"],
)
@pytest.mark.parametrize("adversary", [MRAT(), InfoBERT(), TemperatureScaling(), AMDA()])
def test_adversaries_that_read_one_vector_of_a_text_are_refused(
    inner: TaskModule, adversary: Adversary
) -> None:
    """The head of its classifier reads one of each window; AMDA would mix words and borders."""
    model = AdversarialTraining(classifier=WindowMax(classifier=inner), adversary=adversary)
    model.attach(model.build_tokenizer(TEXTS), ["a", "b"])

    def start() -> None:
        model.configure_model()
        adversary.start(model)

    with pytest.raises(ValueError, match=r"got (calibrate=true for )?WindowMax, .*expected"):
        start()


@pytest.mark.parametrize(
    "inner",
    [
        make(OLSA, width=8, heads=2, depth=1, target_radius=3.0),
        make(UniBERT, architecture=ARCHITECTURE, vocab_size=80, max_length=30, margin=7.0),
    ],
    ids=["OLSA", "UniBERT"],
)
def test_it_is_trained_on_the_objective_of_its_classifier(inner: TaskModule) -> None:
    model = WindowMax(classifier=inner)
    model.attach(model.build_tokenizer(TEXTS), ["a", "b"])
    model.configure_model()
    logits, labels = torch.tensor([[0.0, 1.5], [0.0, -0.25]]), torch.tensor([1, 1])
    if isinstance(inner, OLSA):
        head = inner.head_weight()
        assert head is not None
        expected = 3.0 - logits[:, 1] / (head[1] - head[0]).norm()
    else:
        expected = 7.0 - logits[:, 1]
    torch.testing.assert_close(model.losses(logits, labels), expected)
    assert "objective" in model.metric_names


@pytest.mark.parametrize(
    ("inner", "setting"),
    [
        (WordScores(robustness=WordRobustness(against="typos")), "robustness.against=typos"),
        (WordScores(unlabelled="a.jsonl"), "unlabelled=a.jsonl"),
        (make(TextClassifier, noise="delete"), "smoothing.noise=delete"),
        (make(ASA, architecture=ARCHITECTURE), "masking.kind=adversarial"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_training_that_it_does_not_do_is_refused(inner: TaskModule, setting: str) -> None:
    # At the start of a fit: a model that is trained already can be used.
    with pytest.raises(ValueError, match=f"got {setting} for a classifier in WindowMax, expected"):
        WindowMax(classifier=inner).setup("fit")


@pytest.mark.parametrize("inner", [WordScores(), make(ASA, architecture=ARCHITECTURE, kind="none")])
def test_a_plain_training_is_not_refused(inner: TaskModule) -> None:
    WindowMax(classifier=inner).check_training()


def test_settings_that_need_an_end_are_named_as_its_own() -> None:
    # Changes of the wrapper replace settings of the classifier: only they always help.
    assert WindowMax(classifier=WordScores()).lasting() == {"optimisation.decay": "none"}
    ended = WindowMax(classifier=WordScores(), optimisation=OptimisationChanges(decay="none"))
    assert ended.lasting() == {}
