"""A threshold is chosen as stated, and is part of every prediction and certificate."""

import itertools
import math
import random
from collections.abc import Callable

import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

from certify.threats import Characters, Synonyms, TextCertificate, Threat, WordEditDistance
from layers.window_net import WindowNetSettings
from lit_modules import (
    ASA,
    AdversarialTraining,
    Detection,
    Detector,
    FineTuning,
    LipsLev,
    TaskModule,
    TextClassifier,
    TextCNN,
    UniBERT,
    WordScores,
)
from lit_modules.adversaries import FreeLB
from lit_modules.shared.detection import (
    DetectionCurve,
    choose_threshold,
    detection_figures,
    detection_scores,
    find_positive,
)
from lit_modules.shared.rebuilt import rebuild
from lit_modules.shared.scores import SplitScores
from lit_modules.shared.smoothing_noise import SmoothingNoise
from tests.unit.lit_modules.builders import attached, make, olsa, plain
from tests.unit.lit_modules.encoders import made
from text import Text, WordSettings

TEXTS: list[Text] = ["good", "a bad film , and it is long", "bad bad one", "it is fine", "unheard"]
ASCII = WordSettings(split="ascii")
LISTS = {"good": ["fine", "bad"], "bad": ["good", "long"], "film": ["one", "it"], "it": ["one"]}


def scores_of(
    window: int = 1, hidden: int = 0, *, normalised: bool = True, bias: bool = False
) -> TaskModule:
    net = WindowNetSettings(hidden=hidden, width=3)
    module = attached(
        lambda: WordScores(
            window=window, min_ngram_count=1, net=net, normalised=normalised, bias=bias, words=ASCII
        ),
        classes=3,
    )
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module.eval()


def adversarial() -> TaskModule:
    return attached(
        lambda: AdversarialTraining(classifier=plain()(), adversary=FreeLB(steps=1)), classes=3
    )


METHODS: dict[str, Callable[[], TaskModule]] = {
    "transformer": lambda: attached(plain()),
    "single logit": lambda: attached(plain(single_logit=True), classes=2),
    "lstm": lambda: attached(plain(encoder="lstm", hidden=6)),
    "mean": lambda: attached(plain(encoder="mean", loss="hinge")),
    "olsa": lambda: attached(olsa()),
    "olsa, head bias": lambda: attached(olsa(head_bias=True)),
    "lips lev": lambda: attached(lambda: LipsLev(width=8)),
    "lips lev, no bias": lambda: attached(lambda: LipsLev(width=8, bias=False)),
    "cnn": lambda: attached(lambda: TextCNN(width=8, vector_width=6)),
    "scores": scores_of,
    "scores, sum": lambda: scores_of(normalised=False),
    "scores, bias": lambda: scores_of(bias=True),
    "scores, n-grams": lambda: scores_of(2),
    "scores, net": lambda: scores_of(2, 5),
    "fine-tuning": lambda: made(FineTuning).eval(),
    "unibert": lambda: made(UniBERT).eval(),
    "asa": lambda: made(ASA).eval(),
    "adversarial": adversarial,
}


def record(module: TaskModule, threshold: float = 0.37, index: int = 1) -> Detector:
    name = module.require_text()[1][index]
    return Detector(name, threshold, false_alarms=0.01, recall=0.9, negatives=200, positives=50)


@pytest.mark.parametrize("name", METHODS)
def test_folded_model_has_shifted_logits_and_survives_a_checkpoint(name: str) -> None:
    module = METHODS[name]()
    before, keys = module.predict_texts(TEXTS), list(module.state_dict())
    detector = record(module)
    module.fold(detector)
    shifted = before.clone()
    shifted[:, 1] -= detector.threshold
    torch.testing.assert_close(module.predict_texts(TEXTS), shifted, atol=2e-6, rtol=1e-5)
    again = rebuild(module)
    assert again.detector == detector
    assert torch.equal(again.predict_texts(TEXTS), module.predict_texts(TEXTS))
    torch.testing.assert_close(
        module.exact_copy().predict_texts(TEXTS), module.predict_texts(TEXTS), atol=0, rtol=0
    )
    module.unfold()
    assert module.detector is None
    assert list(module.state_dict()) == keys
    torch.testing.assert_close(module.predict_texts(TEXTS), before, atol=2e-6, rtol=1e-5)


def test_first_class_of_a_single_logit() -> None:
    module = METHODS["single logit"]()
    before = detection_scores(module.predict_texts(TEXTS), 0)
    module.fold(record(module, index=0))
    after = detection_scores(module.predict_texts(TEXTS), 0)
    torch.testing.assert_close(after, before - 0.37, atol=2e-6, rtol=1e-5)


def test_votes_of_a_smoothed_classifier_have_no_bias() -> None:
    noise = SmoothingNoise(noise="mask", rate=0.5)
    module = attached(lambda: make(TextClassifier, smoothing=noise))
    with pytest.raises(ValueError, match=r"without --model\.smoothing\.noise"):
        module.fold(record(module))


# Certificates


def answers(module: TaskModule, texts: list[str]) -> list[int]:
    classes: list[int] = module.predict_texts(texts).argmax(dim=1).tolist()
    return classes


def synonyms_of(text: str, k: int) -> list[str]:
    words = text.split()
    texts = itertools.product(*([word, *LISTS.get(word, ())] for word in words))
    near = (new for new in texts if sum(a != b for a, b in zip(new, words, strict=True)) <= k)
    return [" ".join(new) for new in near]


def edits_of(text: str, k: int, alphabet: str) -> list[str]:
    texts = {text}
    for _ in range(k):
        for one in list(texts):
            texts |= {one[:i] + one[i + 1 :] for i in range(len(one))}
            texts |= {one[:i] + c + one[i:] for i in range(len(one) + 1) for c in alphabet}
            texts |= {one[:i] + c + one[i + 1 :] for i in range(len(one)) for c in alphabet}
    return sorted(texts)


def check(
    module: TaskModule,
    threat: Threat,
    texts: list[str],
    near: Callable[..., list[str]],
    ks: list[int],
) -> list[TextCertificate]:
    """Compare certificates with all texts of the threat; return them."""
    certificates = module.text_certifier(threat)(texts, ks)
    for text, certificate in zip(texts, certificates, strict=True):
        assert certificate.prediction == answers(module, [text])[0]
        for k, holds in zip(ks, certificate.holds, strict=True):
            keeps = set(answers(module, near(text, k))) == {certificate.prediction}
            assert keeps or not holds
            if certificate.kind == "exact":
                assert keeps == holds
    return certificates


@pytest.mark.parametrize("threshold", [-1.5, 1.5])
@pytest.mark.parametrize("name", [*(name for name in METHODS if name.startswith("scores")), "cnn"])
def test_synonym_certificates_of_a_detector(name: str, threshold: float) -> None:
    module = METHODS[name]()
    texts = ["good film", "a bad film it is", "bad good it", "fine one"]
    module.fold(record(module, threshold))
    words = ASCII if name != "cnn" else WordSettings()
    certificates = check(module, Synonyms.of(LISTS, words=words), texts, synonyms_of, [1, 2])
    if name != "cnn":
        assert {certificate.kind for certificate in certificates} == {"exact"}


@pytest.mark.parametrize("threshold", [-1.5, 1.5])
@pytest.mark.parametrize("name", ["scores", "scores, sum", "scores, bias", "lips lev, no bias"])
def test_character_certificates_of_a_detector(name: str, threshold: float) -> None:
    module = METHODS[name]()
    module.fold(record(module, threshold))
    texts = ["it is", "bad", "a one"]
    threat = Characters(k=1) if name[0] == "l" else Characters(k=1, words=ASCII)
    check(module, threat, texts, lambda t, k: edits_of(t, k, " abdeinost"), [1])


@pytest.mark.parametrize("threshold", [-2.5, 0.8, 2.5])
@pytest.mark.parametrize("normalised", [True, False])
def test_word_certificates_of_a_detector(threshold: float, *, normalised: bool) -> None:
    module = scores_of(normalised=normalised)
    module.fold(record(module, threshold))
    words = module.require_tokenizer().vocabulary.get_itos()[3:]  # type: ignore[attr-defined] # of words

    def near(text: str, k: int) -> list[str]:
        texts = {tuple(text.split())}
        for _ in range(k):
            for one in list(texts):
                texts |= {one[:i] + one[i + 1 :] for i in range(len(one)) if len(one) > 1}
                texts |= {(*one, word) for word in words}
                texts |= {(*one[:i], w, *one[i + 1 :]) for i in range(len(one)) for w in words}
        return [" ".join(one) for one in texts]

    texts = ["good", "bad film it is", "it is what it is long fine"]
    check(module, WordEditDistance(k=1, words=ASCII), texts, near, [1])


# The threshold


def brute_force(scores: list[float], positive: list[bool], settings: Detection) -> float:
    """The cost, or the recall negated, of the best of all cuts."""
    cuts = [float("-inf"), *scores, float("inf")]
    values = []
    for cut in cuts:
        alarms = sum(s >= cut and not p for s, p in zip(scores, positive, strict=True))
        missed = sum(s < cut and p for s, p in zip(scores, positive, strict=True))
        if settings.cost is not None:
            values.append(alarms + settings.cost * missed)
        elif alarms <= settings.false_alarms * (len(positive) - sum(positive)):
            values.append(float(missed))
    return min(values)


@pytest.mark.parametrize("seed", range(40))
def test_threshold_is_the_best_one(seed: int) -> None:
    draw = random.Random(seed)
    size = draw.randint(2, 30)
    scores = [draw.choice([0.0, 1.0, 2.5, draw.gauss(0, 2)]) for _ in range(size)]
    positive = [True, False, *(draw.random() < 0.4 for _ in range(size - 2))]
    cost = draw.choice([None, 0.5, 1.0, 3.0])
    settings = Detection("spam", false_alarms=draw.choice([0, 0.01, 0.1, 0.5]), cost=cost)
    threshold = choose_threshold(torch.tensor(scores), torch.tensor(positive), settings)
    alarms = sum(s >= threshold and not p for s, p in zip(scores, positive, strict=True))
    missed = sum(s < threshold and p for s, p in zip(scores, positive, strict=True))
    if cost is None:
        assert alarms <= settings.false_alarms * positive.count(False)
        assert missed == brute_force(scores, positive, settings)
    else:
        assert alarms + cost * missed == brute_force(scores, positive, settings)
    # In the middle between neighbours: rounding moves no text across it.
    assert min(abs(score - threshold) for score in scores) > 1e-6


def test_equal_scores_are_not_parted() -> None:
    scores = torch.tensor([1.0, 1.0 + 1e-7, 2.0, 2.0])
    positive = torch.tensor([False, True, False, True])
    threshold = choose_threshold(scores, positive, Detection("spam", false_alarms=0.4))
    assert threshold == 3.0  # above the largest negative score, as no lower one is allowed
    threshold = choose_threshold(scores, positive, Detection("spam", false_alarms=0.5))
    assert threshold == pytest.approx(1.5)


def test_equal_costs_choose_the_lower_threshold() -> None:
    scores, positive = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([True, False, True])
    # Cuts below 0, below 2 and so on cost 1 each.
    assert choose_threshold(scores, positive, Detection("spam", cost=1.0)) == -1.0


def test_a_share_that_rounding_moves_is_allowed() -> None:
    # 0.29 * 100 is less than 29 in floating point.
    scores, positive = torch.arange(101.0), torch.tensor([False] * 100 + [True])
    threshold = choose_threshold(scores, positive, Detection("spam", false_alarms=0.29))
    assert int((scores[:100] >= threshold).sum()) == 29
    assert DetectionCurve(torch.tensor([0, 29]), torch.tensor([0, 1]), 1, 100).recall_at(0.29) == 1


def test_threshold_needs_texts_of_both() -> None:
    with pytest.raises(ValueError, match="0 validation texts of the class spam and 2 others"):
        choose_threshold(torch.zeros(2), torch.tensor([False, False]), Detection("spam"))


def test_unknown_class_names_the_classes() -> None:
    assert find_positive("Spam", ["ham", "spam"]) == 1
    with pytest.raises(ValueError, match="expected one of ham, spam; did you mean spam"):
        find_positive("spm", ["ham", "spam"])


@pytest.mark.parametrize("content", [{}, [], {"positive": "spam"}, "spam"])
def test_damaged_record_is_one_error(content: object) -> None:
    with pytest.raises(ValueError, match="damaged checkpoint"):
        Detector.from_checkpoint(content)


def test_record_of_another_number_is_one_error() -> None:
    content = {**vars(Detector("spam", 1.0, 0.0, 1.0, 5, 5)), "threshold": float("nan")}
    with pytest.raises(ValueError, match="damaged checkpoint"):
        Detector.from_checkpoint(content)


# Figures


@pytest.mark.parametrize("seed", range(10))
def test_figures_of_the_ranking_are_those_of_sklearn(seed: int) -> None:
    draw = random.Random(seed)
    # Rounded, so that scores are equal.
    scores = torch.tensor([round(draw.gauss(0, 1), 1) for _ in range(60)], dtype=torch.float64)
    positive = torch.tensor([True, False, *(draw.random() < 0.3 for _ in range(58))])
    curve = DetectionCurve.of(scores, positive)
    assert curve.auc() == pytest.approx(roc_auc_score(positive, scores))
    assert curve.average_precision() == pytest.approx(average_precision_score(positive, scores))
    for rate in (0.0, 0.01, 0.1, 0.5):
        best = max(
            (float((scores[positive] >= cut).double().mean()))
            for cut in [*scores.tolist(), float("inf")]
            if float((scores[~positive] >= cut).double().mean()) <= rate
        )
        assert curve.recall_at(rate) == pytest.approx(best)
    points = curve.points(20)
    assert points[0] == (0.0, 0.0, 0.0)
    assert list(points[-1]) == pytest.approx([1.0, 1.0, float(positive.double().mean())])
    assert len(points) <= 20


def test_figures_at_the_threshold_and_of_thirds() -> None:
    scores = torch.tensor([1.0, -1.0, 2.0, -2.0, 3.0, 0.5])
    positive = torch.tensor([True, True, True, False, False, False])
    lengths = torch.tensor([1, 2, 10, 11, 30, 31])
    figures = detection_figures(scores, positive, lengths)
    assert [figures["recall"], figures["false_alarms"]] == pytest.approx([2 / 3, 2 / 3])
    assert (figures["positives"], figures["negatives"]) == (3, 3)
    assert (figures["short/recall"], figures["short/negatives"]) == (0.5, 0)
    assert math.isnan(figures["short/false_alarms"])
    assert (figures["middle/recall"], figures["middle/false_alarms"]) == (1.0, 0.0)
    assert (figures["long/positives"], figures["long/false_alarms"]) == (0, 1.0)


def test_a_split_of_one_class_has_no_ranking() -> None:
    curve = DetectionCurve.of(torch.tensor([1.0, 2.0]), torch.tensor([False, False]))
    assert math.isnan(curve.auc())
    assert math.isnan(curve.recall_at(0.01))
    assert math.isnan(curve.average_precision())


def test_scores_of_a_split_are_relative_to_the_threshold_and_probabilities_are_not() -> None:
    detector = Detector("spam", 2.0, 0.0, 1.0, negatives=2, positives=2)
    logits = torch.tensor([[0.0, 3.0], [0.0, 1.0], [0.0, 2.5], [0.0, -1.0]])
    shifted = logits - torch.tensor([0.0, 2.0])
    labels, lengths = torch.tensor([1, 0, 1, 0]), torch.tensor([3, 4, 5, 6])
    plain_scores = SplitScores("classification", ("ham", "spam"), counts=True)
    plain_scores.update(logits.argmax(1), labels, logits, lengths)
    scores = SplitScores("classification", ("ham", "spam"), counts=True, detector=detector)
    for part in (slice(0, 3), slice(3, 4)):
        scores.update(shifted[part].argmax(1), labels[part], shifted[part], lengths[part])
    figures, before = scores.take(), plain_scores.take()
    shares = [float(figures[name]) for name in ("recall", "false_alarms", "auc")]
    assert shares == [1.0, 0.0, 1.0]
    for name in ("ece", "brier"):
        assert figures[name] == pytest.approx(before[name])
    # Of the predictions, which the threshold decides.
    assert [float(of["largest_class"]) for of in (figures, before)] == [0.5, 0.75]
    curve = scores.curve()
    assert curve is not None
    assert curve[-1] == (1.0, 1.0, 0.5)
    assert plain_scores.curve() is None
