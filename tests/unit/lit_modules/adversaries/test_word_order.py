"""The order of words is kept for some epochs, and saves the questions of the ranking."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attacks.engine import Engine
from attacks.outcome import AttackRecord
from lit_modules.adversaries import word_order as ranks
from lit_modules.adversaries.text_adversary import TextAdversary
from lit_modules.adversaries.word_order import Ranks
from tests.unit.lit_modules.adversaries.films import COUNT, World, made

WORDS = 3
"""That are ranked in each text of the corpus."""


def adversary(folder: Path, reuse: int, **settings: Any) -> TextAdversary:
    return made(TextAdversary, resources=str(folder), reuse_ranks=reuse, **settings)


def epoch(
    world: World, one: TextAdversary, number: int, *, size: int = COUNT
) -> dict[int, AttackRecord]:
    """All records of an epoch."""
    world.epoch = number
    one.start_epoch(world.module())
    records: dict[int, AttackRecord] = {}
    run = Engine.run

    def watched(self: Engine, samples: Any) -> Iterator[AttackRecord]:
        for record in run(self, samples):
            records[record.sample_id] = record
            yield record

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "run", watched)
        ids = list(world.samples)
        for start in range(0, COUNT, size):
            world.step(one, ids[start : start + size], logs=False)
    return {key: one for key, one in records.items() if one.outcome != "skipped"}


def verdicts(records: dict[int, AttackRecord]) -> dict[int, tuple[Any, ...]]:
    return {key: (record.outcome, record.adversarial) for key, record in records.items()}


@pytest.mark.parametrize("recipe", ["textfooler", "a2t"])
def test_weights_that_stay_give_the_same_texts_for_less(recipe: str, folder: Path) -> None:
    world = World()
    attacker = adversary(folder, 1, recipe=recipe)
    world.started(attacker)
    first, second, third = (epoch(world, attacker, number) for number in range(3))
    assert verdicts(first) == verdicts(second) == verdicts(third)
    saved = WORDS if recipe == "textfooler" else 0
    for key, record in first.items():
        assert second[key].queries == record.queries - saved
        assert third[key].queries == record.queries  # ranked again


def test_a_ranking_that_used_up_the_budget_pays_in_the_next_epoch(folder: Path) -> None:
    world = World()
    attacker = adversary(folder, 1, query_budget=1 + WORDS)
    world.started(attacker)
    assert {record.outcome for record in epoch(world, attacker, 0).values()} == {"failed"}
    assert "succeeded" in {record.outcome for record in epoch(world, attacker, 1).values()}


@pytest.mark.long
def test_it_does_not_matter_in_which_batch_a_text_is(folder: Path) -> None:
    results = []
    for size in (COUNT, 7, 1):
        world = World()
        world.samples[5] = world.samples[3]  # a text that is there twice
        attacker = adversary(folder, 2)
        world.started(attacker)
        results.append([verdicts(epoch(world, attacker, number, size=size)) for number in range(2)])
    assert results[0] == results[1] == results[2]


def test_a_second_fit_does_not_know_the_orders_of_the_first(folder: Path) -> None:
    world = World()
    attacker = adversary(folder, 1)
    world.started(attacker)
    epoch(world, attacker, 0)
    assert attacker.state()["ranks"]
    world.started(attacker)
    assert attacker.state() == {"ranks": []}


@pytest.mark.long
def test_a_resumed_run_has_the_same_orders(folder: Path) -> None:
    world = World()
    attacker = adversary(folder, 3)
    world.started(attacker)
    epoch(world, attacker, 0)
    again = adversary(folder, 3)
    again.restore(attacker.state())
    world.started(again)
    queries = [
        {k: r.queries for k, r in epoch(world, each, 1).items()} for each in (attacker, again)
    ]
    assert queries[0] == queries[1]
    assert again.state() == attacker.state()
    fresh = made(TextAdversary, resources=str(folder))
    fresh.restore(fresh.state())
    assert fresh.state() == {}


def test_processes_share_what_they_found(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Ranks(1), Ranks(1)
    first._fresh = {("a b",): ranks.Rank(0, [1, 0]), ("c d",): ranks.Rank(0, [1, 0])}
    second._fresh = {("a b",): ranks.Rank(0, [0, 1])}
    parts = [first._fresh, second._fresh]
    monkeypatch.setattr(ranks, "gather", lambda mine: parts)
    first.start_epoch(1)
    monkeypatch.setattr(ranks, "gather", lambda mine: parts[::-1])
    second.start_epoch(1)
    assert sorted(first.state()) == sorted(second.state())
    assert sorted(first.state()) == [[["a b"], 0, [0, 1]], [["c d"], 0, [1, 0]]]
    monkeypatch.setattr(ranks, "gather", lambda mine: [mine])
    first.start_epoch(2)
    assert first.state() == []


def test_a_recipe_without_ranking(folder: Path) -> None:
    with pytest.raises(ValueError, match="expected a recipe that ranks words"):
        World().started(adversary(folder, 1, recipe="random"))
    with pytest.raises(ValueError, match="reuse_ranks=-1"):
        adversary(folder, -1)
