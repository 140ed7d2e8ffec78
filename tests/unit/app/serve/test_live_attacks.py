"""Attacks that are watched: their events, their end, their places."""

import queue
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import attacks
from app.serve.live_attacks import AttackPool, LiveAttack, _WatchedSearch
from app.serve.model_worker import BATCH, BusyError, ModelWorker
from app.serve.serve_limits import ServeLimits
from attacks.composition import Attack
from attacks.constraints import WordsChanged
from attacks.engine import Engine
from attacks.goals import Untargeted
from attacks.outcome import Sample
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build
from attacks.strategies import FlipBeam, HardLabel
from attacks.transformations import SwapCharacters
from attacks.victims.kinds import CallableVictim, ModuleVictim
from tests.unit.app.serve.serving import TEXT, worker
from tests.unit.attacks.toys import Synonyms
from tests.unit.lit_modules.builders import plain


@pytest.fixture
def model() -> Iterator[ModelWorker]:
    made = worker("plain", plain())
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def pool() -> Iterator[AttackPool]:
    limits = ServeLimits(attacks=1, waiting_attacks=1)
    made = AttackPool({"deepwordbug": build(RecipeSettings(recipe="deepwordbug"))}, limits)
    try:
        yield made
    finally:
        made.close()


class Watching:
    """An attack and its events."""

    def __init__(
        self,
        model: ModelWorker,
        recipe: str = "deepwordbug",
        *,
        queries: int = 500,
        seconds: float = 600,
    ) -> None:
        self.events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.live = LiveAttack(
            model, TEXT, recipe, queries=queries, seconds=seconds, send=self.events.put
        )

    def all(self) -> list[dict[str, Any]]:
        found = []
        while (event := self.events.get(timeout=60)) is not None:
            found.append(event)
        return found


@pytest.fixture
def gate(model: ModelWorker, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Questions of attacks wait for it."""
    opened, ask = threading.Event(), model._victim.logits

    def held(texts: Any) -> Any:
        assert opened.wait(60)
        return ask(texts)

    monkeypatch.setattr(model._victim, "logits", held)
    yield opened
    opened.set()


@pytest.mark.parametrize("queries", [500, 12])
def test_events_end_with_the_record_of_the_engine(
    model: ModelWorker, pool: AttackPool, queries: int
) -> None:
    watching = Watching(model, queries=queries)
    assert pool.start(watching.live) == 0
    found = watching.all()
    start, *steps, end = found
    label = model.classes.index(start["prediction"])
    (record,) = attacks.attack(
        model.model, [(TEXT, label)], recipe="deepwordbug", query_budget=queries, progress=False
    ).records
    assert start["event"] == "start"
    assert {step["event"] for step in steps} == {"step"}
    assert end["event"] == "end"
    for name in ("outcome", "words_changed", "queries", "unique_queries", "exhausted"):
        assert end[name] == getattr(record, name)
    assert end["texts"] == [record.adversarial]
    assert end["lead"] == pytest.approx(-(record.adversarial_score or 0), abs=1e-5)
    # Nothing is said to be changed that is not, and the pieces are the text.
    assert "".join(piece["text"] for piece in end["after"][0]) == record.adversarial
    assert "".join(piece["text"] for piece in end["before"][0]) == TEXT
    asked = [event["queries"] for event in found]
    assert asked == sorted(asked)
    assert asked[-1] <= queries
    # The lead falls with each change that is kept.
    leads = [step["lead"] for step in steps]
    assert leads == sorted(leads, reverse=True)


def test_the_lead_of_a_class_that_is_kept(model: ModelWorker) -> None:
    recipe = "input-reduction"
    pool = AttackPool({recipe: build(RecipeSettings(recipe=recipe))}, ServeLimits(attacks=1))
    try:
        watching = Watching(model, recipe)
        pool.start(watching.live)
        start, *steps, end = watching.all()
    finally:
        pool.close()
    assert end["outcome"] == "succeeded"
    assert end["prediction"] == start["prediction"]
    assert steps[0]["lead"] == pytest.approx(start["lead"], abs=1e-5)
    (answer,) = model.answer(end["texts"]).result()
    assert end["lead"] == pytest.approx(answer["margin"], abs=1e-5)
    assert all(step["lead"] > 0 for step in steps)


def test_an_attack_that_is_stopped_frees_its_place(
    model: ModelWorker, pool: AttackPool, gate: threading.Event
) -> None:
    runs, waits = Watching(model), Watching(model)
    assert pool.start(runs.live) == 0
    assert runs.events.get(timeout=60) is not None  # it has begun
    assert pool.start(waits.live) == 1
    with pytest.raises(BusyError, match="2 attacks run or wait already"):
        pool.start(Watching(model).live)
    pool.stop(waits.live)
    assert pool.busy == 1
    pool.stop(runs.live)
    gate.set()
    *_, last = runs.all()
    assert last["event"] == "stopped"
    other = Watching(model)
    pool.start(other.live)
    assert other.all()[-1]["event"] == "end"


def test_the_time_of_an_attack(model: ModelWorker, pool: AttackPool) -> None:
    watching = Watching(model, seconds=1e-9)
    pool.start(watching.live)
    (event,) = watching.all()
    assert (event["event"], event["reason"]) == ("stopped", "time")


def test_an_error_ends_the_attack_and_not_the_thread(
    model: ModelWorker, pool: AttackPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(model._victim, "logits", lambda _texts: 1 / 0)
        watching = Watching(model)
        pool.start(watching.live)
        *_, last = watching.all()
        assert last["event"] == "error"
        assert "division" not in last["error"]
    again = Watching(model)
    pool.start(again.live)
    assert again.all()[-1]["event"] == "end"


def test_the_end_of_the_server_ends_all(
    model: ModelWorker, pool: AttackPool, gate: threading.Event
) -> None:
    watching = Watching(model)
    pool.start(watching.live)
    assert watching.events.get(timeout=60) is not None
    pool.stop_all()
    gate.set()
    assert watching.all()[-1]["event"] == "stopped"
    with pytest.raises(BusyError):
        pool.start(Watching(model).live)


def test_an_answer_that_changes_inside_its_certificate_is_said(pool: AttackPool) -> None:
    """No true model can show it: the radius is forged."""
    model = worker("olsa")
    try:
        (answer,) = model.answer([TEXT]).result()
        label = model.classes.index(answer["prediction"])
        (record,) = attacks.attack(
            model.model, [(TEXT, label)], recipe="deepwordbug", progress=False
        ).records
        other = TEXT.replace("good", "bad")
        record = replace(record, outcome="succeeded", adversarial=other)
        for radius, changed, expected in (
            (1e9, 1 - label, True),
            (1e9, label, False),
            (answer["radius"], 1 - label, False),
        ):
            watching = Watching(model)
            forged = replace(record, adversarial_prediction=changed)
            watching.live._end(forged, {**answer, "radius": radius}, Untargeted())
            event = watching.events.get()
            assert event is not None
            assert event["inside_certificate"] is expected
    finally:
        model.close()


def test_shared_parts_and_watched_searches_hide_nothing(model: ModelWorker) -> None:
    attack = Attack(
        name="three words",
        transformation=SwapCharacters(),
        search=HardLabel(tries=60),
        constraints=[WordsChanged(maximum=2)],
    )
    pool = AttackPool({attack.name: attack}, ServeLimits(attacks=1))
    try:
        shared = pool.attacks[attack.name]
    finally:
        pool.close()
    watched = replace(shared, search=_WatchedSearch(attack.search, Watching(model).live))
    words = TEXT.split()

    def classify(texts: list[Any]) -> list[list[float]]:
        """Another class from three changed words on."""
        changed = [sum(map(str.__ne__, words, text.split())) for text in texts]
        return [[2.0, 0.0] if count < 3 else [0.0, 2.0] for count in changed]

    for one in (attack, watched):
        engine = Engine(one, CallableVictim(classify))
        (record,) = engine.run([Sample(sample_id=0, text=TEXT, label=0)])
        assert record.outcome == "failed"
    assert getattr(watched.search, "refines", False)
    assert not hasattr(shared.transformation, "certified")


def test_flips_by_the_gradient(model: ModelWorker) -> None:
    words = ["bad", "fine", "see", "far", "would", "too"]
    table = dict.fromkeys(TEXT.replace(",", "").split(), words)
    assert len(table) * len(words) > BATCH
    attack = Attack(name="flips", transformation=Synonyms(table), search=FlipBeam(), white_box=True)
    pool = AttackPool({attack.name: attack}, ServeLimits(attacks=1))
    try:
        watching = Watching(model, attack.name)
        pool.start(watching.live)
        start, *_, end = watching.all()
    finally:
        pool.close()
    label = model.classes.index(start["prediction"])
    engine = Engine(attack, ModuleVictim(model.model, batch_size=BATCH))
    (record,) = engine.run([Sample(sample_id=0, text=TEXT, label=label)])
    assert end["event"] == "end"
    for name in ("outcome", "unique_queries"):
        assert end[name] == getattr(record, name)
    assert end["texts"] == [record.adversarial]
