"""The gate: what its shares are of, when it holds, and what few texts and little time change."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attacks.composition import Attack
from attacks.goals import Floats
from attacks.outcome import Sample
from attacks.victims.kinds import InvalidAnswers, VictimError
from certify.threats import Characters, TextCertificate
from measure import gate as gate_module
from measure.gate import CLEAN_ONLY, Certification, Gate, GateSettings
from measure.gate_report import gate_table
from tests.unit.measure.gates import (
    CLASSES,
    HAM,
    SAMPLES,
    Keywords,
    by_name,
    criterion,
    gate,
    report_of,
)
from text import Text


def test_the_shares_of_clean_texts_are_those_of_their_classes() -> None:
    report = gate(min_accuracy=0.75, min_recall=0.75, max_false_alarms=0.2)
    criteria = by_name(report)
    assert {name: (c.hits, c.total) for name, c in criteria.items()} == {
        "accuracy": (6, 8),
        "recall": (3, 4),
        "false_alarms": (1, 4),
    }
    assert [report.status(c) for c in report.criteria] == ["holds", "holds", "fails"]
    assert not report.holds
    (missed,) = criteria["recall"].examples
    assert (missed.text, missed.label, missed.prediction) == ("meet me at noon", 1, 0)
    assert report.cautions == [CLEAN_ONLY]


def test_a_flip_rate_is_a_share_of_the_detected_texts() -> None:
    report = gate(max_flip_rate=0.5)
    flips = by_name(report)["flip_rate/deepwordbug"]
    # The text that is not detected and the texts of the other class are not attacked.
    assert set(flips.outcomes) == {0, 1, 2}
    assert all(flips.outcomes.values())
    assert report.status(flips) == "fails"
    for example in flips.examples:
        assert not {"cash", "pills"} & {*str(example.changed).split()}
        assert (example.label, example.prediction) == (1, 0)


def test_without_a_positive_class_all_right_predictions_are_attacked() -> None:
    report = gate(positive=None, max_flip_rate=1.0)
    assert set(by_name(report)) == {"accuracy", "flip_rate/deepwordbug"}
    assert by_name(report)["flip_rate/deepwordbug"].total == 6
    with pytest.raises(ValueError, match=r"--min_recall .*--positive CLASS: one of ham, spam"):
        gate(positive=None, min_recall=0.5)
    with pytest.raises(ValueError, match="--positive eggs, expected one of ham, spam"):
        gate(positive="eggs", min_recall=0.5)


def test_a_detector_brings_its_positive_class() -> None:
    victim: Any = Keywords()
    victim.module = SimpleNamespace(detector=SimpleNamespace(positive="spam"))
    assert gate(victim, positive=None, min_recall=0.5).settings.positive == "spam"


def test_a_threshold_decides_what_is_detected() -> None:
    # The two classes of a detected text differ by 1.1 to 1.2 logits: probabilities of 0.75 to 0.77.
    for threshold, detected in ((0.7, 3), (0.99, 0), (0.01, 4)):
        report = gate(min_recall=0.5, threshold=threshold)
        assert by_name(report)["recall"].hits == detected
    assert gate(min_recall=0, threshold=0.7).subject["threshold"] == 0.7
    with pytest.raises(ValueError, match=r"--threshold .*--positive CLASS"):
        gate(positive=None, threshold=0.7, min_accuracy=0.1)
    victim: Any = Keywords()
    victim.module = SimpleNamespace(detector=SimpleNamespace(positive="spam"))
    with pytest.raises(ValueError, match="whose own threshold counts"):
        gate(victim, min_recall=0.5, threshold=0.7)


def test_a_recipe_has_its_own_limit() -> None:
    report = gate(recipes="deepwordbug = 1, pruthi", max_flip_rate=0.1)
    limits = {c.name: c.limit for c in report.criteria if c.name.startswith("flip_rate")}
    assert limits == {"flip_rate/deepwordbug": 1.0, "flip_rate/pruthi": 0.1}


def test_the_attacked_texts_do_not_depend_on_the_model() -> None:
    other = by_name(gate(Keywords(["cash"]), max_flip_rate=1, num_samples=2))
    same = by_name(gate(max_flip_rate=1, num_samples=2))
    drawn, kept = (set(c["flip_rate/deepwordbug"].outcomes) for c in (same, other))
    assert kept == drawn - {2}


def test_the_same_seed_gives_the_same_outcome() -> None:
    first, second = (
        gate(max_flip_rate=0.5, recipes="deepwordbug,pruthi", seed=3) for _ in range(2)
    )
    assert first.criteria == second.criteria
    assert first.subject == second.subject


@pytest.mark.parametrize(
    ("hits", "checked", "total", "limit", "least", "status"),
    [
        (1, 20, 20, 0.05, False, "holds"),
        (2, 20, 20, 0.05, False, "fails"),
        (19, 20, 20, 0.95, True, "holds"),
        (18, 20, 20, 0.95, True, "fails"),
        # Whatever the texts that were not checked would give, this limit holds or fails.
        (0, 96, 100, 0.05, False, "holds"),
        (6, 10, 100, 0.05, False, "fails"),
        (0, 10, 100, 0.05, False, "not checked"),
        (95, 96, 100, 0.95, True, "holds"),
        (0, 10, 100, 0.95, True, "fails"),
        (0, 0, 0, 0.5, False, "not checked"),
    ],
)
def test_a_limit_holds_or_fails_whatever_was_not_checked(
    hits: int, checked: int, total: int, limit: float, least: bool, status: str
) -> None:
    report = report_of(criterion(hits, checked, total, limit, least=least))
    assert report.status(report.criteria[0]) == status
    assert report.holds == (status == "holds")


def test_texts_that_were_not_checked_may_be_allowed() -> None:
    part = criterion(0, 10, 100, 0.05, least=False)
    assert report_of(part, allow_unchecked=True).holds
    assert report_of(criterion(0, 0, 100, 0.05, least=False), allow_unchecked=True).holds
    assert not report_of(criterion(1, 10, 100, 0.05, least=False), allow_unchecked=True).holds


def test_the_interval_decides_if_that_is_asked_for() -> None:
    # 0 of 50: up to 0.071.
    few, many = criterion(0, 50, 50, 0.05, least=False), criterion(0, 100, 100, 0.05, least=False)
    assert report_of(few).holds
    assert report_of(few).criteria[0].close
    assert not report_of(few, decide="interval").holds
    assert report_of(many, decide="interval").holds


def test_a_model_that_detects_nothing_passes_no_flip_rate() -> None:
    report = gate(Keywords(["never"]), max_flip_rate=1)
    assert report.status(by_name(report)["flip_rate/deepwordbug"]) == "fails"
    assert not report.holds
    only_spam = gate(Keywords(["never"]), SAMPLES[:4], max_flip_rate=1)
    assert only_spam.status(by_name(only_spam)["flip_rate/deepwordbug"]) == "not checked"
    assert not only_spam.holds


def test_the_robustness_of_a_collapsed_model_means_nothing() -> None:
    class Always(Keywords):
        def logits(self, texts: Sequence[Text]) -> Floats:
            return super().logits(texts) * 0 + [0, 1]

    report = gate(Always(), max_flip_rate=1)
    assert by_name(report)["flip_rate/deepwordbug"].hits == 0
    assert not report.holds
    assert "predicts spam for nearly all texts" in report.cautions[0]


class FakeTime:
    """A clock that a query moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    process_time = monotonic


@pytest.mark.parametrize("seconds", [0.5, 1.5, 4.5])
def test_what_is_not_reached_in_time_is_not_checked(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    clock = FakeTime()
    monkeypatch.setattr(gate_module, "time", clock)
    monkeypatch.setattr(gate_module, "_BATCH", 4)

    class Slow(Keywords):
        def logits(self, texts: Sequence[Text]) -> Floats:
            clock.now += 1
            return super().logits(texts)

    report = gate(Slow(), max_flip_rate=1, min_recall=0.1, seconds=seconds)
    recall, flips = (by_name(report)[name] for name in ("recall", "flip_rate/deepwordbug"))
    # Two batches of clean texts, the positive ones first.
    assert len(recall.outcomes) == 4
    assert by_name(report)["accuracy"].unchecked == (4 if seconds < 1 else 0)
    assert report.status(recall) == "holds"
    assert (flips.unchecked, flips.reason) == (3, "the time was up")
    assert report.status(flips) == "not checked"
    assert not report.holds
    assert report.victim_seconds >= 1
    # All time passes in the model.
    assert report.own_seconds == 0


def test_the_remaining_time_is_shared_among_the_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeTime()
    monkeypatch.setattr(gate_module, "time", clock)
    watch = gate_module.Clock(9)
    clock.now = 1
    with watch.part(2):
        clock.now = 4.9
        watch.check()
        clock.now = 5
        with pytest.raises(gate_module.OutOfTime):
            watch.check()
    with watch.part(1):
        watch.check()


def test_a_text_without_valid_answer_is_not_checked() -> None:
    class Picky(Keywords):
        def logits(self, texts: Sequence[Text]) -> Floats:
            if bad := [text for text in texts if "prize" in text]:
                raise InvalidAnswers("refused", dict.fromkeys(bad, "refused"))
            return super().logits(texts)

    report = gate(Picky(), min_recall=0.75)
    recall = by_name(report)["recall"]
    assert (recall.unchecked, recall.reason) == (1, "refused")
    assert report.status(recall) == "not checked"
    with pytest.raises(InvalidAnswers):
        gate(Picky(), [Sample(sample_id=0, text="prize", label=1)], min_recall=0.5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_accuracy": 1.5}, "min_accuracy=1.5"),
        ({"recipes": "nothing"}, "got attack 'nothing'"),
        ({"recipes": "deepwordbug=many"}, "expected NAME or NAME=LIMIT"),
        ({"recipes": "deepwordbug=7"}, "recipes deepwordbug=7"),
        ({"recipes": "deepwordbug=0.1,deepwordbug=0.9"}, "deepwordbug twice, expected each once"),
        ({"min_certified": 0.5}, "--threat None, expected both"),
        ({"seconds": 0}, "seconds=0"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GateSettings(**settings)


def test_a_model_without_scores_gets_the_default_recipes_that_need_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    victim: Any = Keywords()
    victim.labels_only = True
    monkeypatch.setattr(gate_module, "CHEAP", ("deepwordbug",))
    with pytest.raises(VictimError, match="deepwordbug on keywords"):
        gate(victim, recipes=None, max_flip_rate=1)

    def refuse(attack: Attack, victim: Any) -> None:
        del victim
        if attack.name == "deepwordbug":
            raise VictimError("no scores")

    monkeypatch.setattr(gate_module, "check_search", refuse)
    monkeypatch.setattr(gate_module, "CHEAP", ("pruthi", "deepwordbug"))
    report = gate(victim, recipes=None, max_flip_rate=1)
    assert "flip_rate/pruthi" in by_name(report)
    assert report.cautions == ["deepwordbug: left out, as the model gives labels without scores"]
    with pytest.raises(VictimError, match="no scores"):
        gate(victim, recipes="pruthi,deepwordbug", max_flip_rate=1)


def test_the_certified_share_is_of_the_positive_texts_that_are_right() -> None:
    def certify(texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        assert list(ks) == [2]
        return [
            TextCertificate(
                text=text,
                prediction=int("noon" not in text),
                holds=("cash" in text,),
                certified=2,
                kind="exact",
                witness="w" if "pills" in text else None,
                witness_prediction=0 if "pills" in text else None,
            )
            for text in texts
        ]

    certifier: Any = certify
    threat = Characters(k=2)
    settings = GateSettings(positive="spam", min_certified=0.5, threat="characters", k="2")
    made = Gate(
        Keywords(), CLASSES, SAMPLES, settings, certification=Certification(certifier, threat, 2)
    ).run()
    certified = by_name(made)["certified/characters"]
    assert list(certified.outcomes.values()) == [True, True, False, False]
    assert made.status(certified) == "holds"
    # A counterexample of the certifier, and a text that is wrong without any change.
    assert [(e.changed, e.prediction) for e in certified.examples] == [("w", 0), (None, 0)]


def test_texts_that_no_certificate_is_about_count_against_the_limit() -> None:
    class Listed(Characters):
        def subject(self, text: str) -> str | None:
            return text if "prize" in text else None

    def certify(texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        del ks
        fields: dict[str, Any] = {"certified": 2, "kind": "exact", "witness": None}
        return [
            TextCertificate(
                text=text, prediction=1, holds=(True,), witness_prediction=None, **fields
            )
            for text in texts
        ]

    certifier: Any = certify
    threat = Listed(k=2)
    settings = GateSettings(positive="spam", min_certified=0.9, threat="characters", k="2")
    certification = Certification(certifier, threat, 2)
    made = Gate(Keywords(), CLASSES, SAMPLES, settings, certification=certification).run()
    certified = by_name(made)["certified/characters"]
    assert (certified.hits, certified.unchecked) == (1, 3)
    assert made.status(certified) == "not checked"
    assert "3 not checked: the certificate is not about these texts" in gate_table(made)


def test_texts_of_which_an_attack_saw_nothing_are_not_checked() -> None:
    """A score that no word moves leads a search nowhere: it shows no robustness."""

    class Flat(Keywords):
        def logits(self, texts: Sequence[Text]) -> Floats:
            return np.sign(super().logits(texts))

    samples = [
        Sample(sample_id=i, text=text, label=int(i < 2))
        for i, text in enumerate(["cash cash pills now", "pills pills cash now", *HAM[:2]])
    ]
    report = gate(Flat(), samples, max_flip_rate=0.5)
    flips = by_name(report)["flip_rate/deepwordbug"]
    assert (flips.unchecked, report.status(flips)) == (2, "not checked")
    assert "no word moved their score" in flips.reason
    # A score that moves is evidence.
    report = gate(samples=samples, max_flip_rate=0.5)
    assert by_name(report)["flip_rate/deepwordbug"].unchecked == 0


def test_only_an_explicit_recipe_or_limit_attacks() -> None:
    victim = Keywords()
    Gate(victim, CLASSES, SAMPLES, GateSettings(min_accuracy=0.1)).run()
    assert len(victim.queries) == len(SAMPLES)
    Gate(victim, CLASSES, SAMPLES, GateSettings(min_accuracy=0.1), always=True).run()
    assert len(victim.queries) > 4 * len(SAMPLES)
