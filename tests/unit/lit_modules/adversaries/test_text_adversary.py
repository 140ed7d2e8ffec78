"""Training on attacked texts: the loss, what is left as it was, and what is said beforehand."""

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from attacks.engine import Engine
from attacks.outcome import AttackRecord
from attacks.victims.kinds import ModuleVictim, VictimError
from lit_modules.adversaries.text_adversary import TextAdversary
from lit_modules.shared.settings import rebuilt
from tests.unit.lit_modules.adversaries.films import World, made
from text import Text

IDS = [5, 0, 17, 2, 9, 14, 3, 8]


@pytest.fixture
def world() -> World:
    return World()


def seen(monkeypatch: pytest.MonkeyPatch) -> list[AttackRecord]:
    """All records that engines make from here on."""
    records: list[AttackRecord] = []
    run = Engine.run

    def watched(self: Engine, samples: Any) -> Any:
        for record in run(self, samples):
            records.append(record)
            yield record

    monkeypatch.setattr(Engine, "run", watched)
    return records


def verdict(record: AttackRecord) -> tuple[Any, ...]:
    return (record.sample_id, record.outcome, record.adversarial, record.queries)


def texts_of(records: Sequence[AttackRecord], ids: Sequence[int], world: World) -> list[Text]:
    adversarial = {one.sample_id: one.adversarial for one in records}
    return [adversarial.get(one) or world.samples[one].text for one in ids]


def loss_of(world: World, texts: Sequence[Text], ids: Sequence[int]) -> torch.Tensor:
    labels = torch.tensor([world.samples[one].label for one in ids])
    batch = world.classifier.encode_texts([*texts])
    return functional.cross_entropy(world.classifier(batch), labels)


@pytest.mark.parametrize("recipe", ["textfooler", "a2t", "random", "deepwordbug"])
def test_the_loss_is_that_of_the_attacked_texts(
    recipe: str, world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adversary = world.started(made(TextAdversary, recipe=recipe, resources=str(folder)))
    records = seen(monkeypatch)
    torch.manual_seed(1)
    result = world.step(adversary, IDS)
    outcomes = {record.outcome for record in records}
    assert "succeeded" in outcomes
    torch.manual_seed(1)
    expected = loss_of(world, texts_of(records, IDS, world), IDS)
    torch.testing.assert_close(result.loss, expected)
    torch.testing.assert_close(result.values["adversarial_loss"], expected.detach())
    torch.autograd.backward(result.loss)
    assert all(p.grad is not None for p in world.classifier.parameters())
    attacked = [record for record in records if record.outcome != "skipped"]
    hits = [record for record in attacked if record.outcome == "succeeded"]
    rates = {name: float(part / whole) for name, (part, whole) in result.ratios.items()}
    assert rates["attack_success"] == pytest.approx(len(hits) / len(attacked))
    for name in ("words_changed", "queries", "unique_queries"):
        mean = sum(getattr(record, name) for record in attacked) / len(attacked)
        assert rates[name] == pytest.approx(mean)


def test_a_mix_with_the_clean_loss(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.classifier.eval()  # no dropout
    settings: dict[str, Any] = {"clean_weight": 0.3, "resources": str(folder)}
    adversary = world.started(made(TextAdversary, **settings))
    records = seen(monkeypatch)
    result = world.step(adversary, IDS)
    clean = loss_of(world, [world.samples[i].text for i in IDS], IDS)
    adversarial = loss_of(world, texts_of(records, IDS, world), IDS)
    assert adversarial > clean
    torch.testing.assert_close(result.loss, 0.3 * clean + 0.7 * adversarial)
    torch.testing.assert_close(result.values["clean_loss"], clean.detach())


def test_only_successes(world: World, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world.classifier.eval()
    settings: dict[str, Any] = {"keep_failed": False, "query_budget": 8, "resources": str(folder)}
    adversary = world.started(made(TextAdversary, **settings))
    records = seen(monkeypatch)
    result = world.step(adversary, list(world.samples))
    moved = [r for r in records if r.outcome == "failed" and r.adversarial != r.text]
    hits = [record for record in records if record.outcome == "succeeded"]
    assert moved
    assert hits
    ids = list(world.samples)
    torch.testing.assert_close(result.loss, loss_of(world, texts_of(hits, ids, world), ids))


@pytest.mark.long
def test_verdicts_do_not_depend_on_batches(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = seen(monkeypatch)
    results = []
    for sizes in (24, 5, 1):
        settings: dict[str, Any] = {"recipe": "random", "share": 0.7, "resources": str(folder)}
        adversary = world.started(made(TextAdversary, **settings))
        ids = list(world.samples)[:: -1 if sizes == 5 else 1]
        for start in range(0, len(ids), sizes):
            world.step(adversary, ids[start : start + sizes], logs=False)
        results.append(sorted(verdict(record) for record in records))
        records.clear()
    assert results[0] == results[1] == results[2]


@pytest.mark.long
def test_the_share_is_another_one_in_each_epoch(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = seen(monkeypatch)
    adversary = world.started(made(TextAdversary, share=0.5, resources=str(folder)))
    chosen = []
    for world.epoch in range(20):
        world.step(adversary, list(world.samples), logs=False)
        chosen.append({record.sample_id for record in records})
        records.clear()
    assert chosen[0] != chosen[1]
    assert 0.4 < sum(map(len, chosen)) / (20 * len(world.samples)) < 0.6
    assert set.union(*chosen) == set(world.samples)


def test_another_epoch_has_another_seed(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = seen(monkeypatch)
    adversary = world.started(made(TextAdversary, recipe="random", resources=str(folder)))
    results = []
    for world.epoch in (0, 1, 0):
        world.step(adversary, IDS)
        results.append(sorted(verdict(record) for record in records))
        records.clear()
    assert results[0] == results[2] != results[1]


def test_pairs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(pairs=True, columns=("text", "text_pair"))
    settings: dict[str, Any] = {"columns": ["text"], "resources": str(folder)}
    adversary = world.started(made(TextAdversary, **settings))
    records = seen(monkeypatch)
    world.step(adversary, IDS)
    changed = [r.adversarial for r in records if r.adversarial and r.adversarial != r.text]
    assert changed
    assert {text[1] for text in changed} == {"someone saw a film"}


# What is left as it was


def state_of(world: World) -> tuple[Any, ...]:
    module = world.classifier
    return (
        [child.training for child in module.modules()],
        [parameter.requires_grad for parameter in module.parameters()],
        [parameter.grad for parameter in module.parameters()],
        torch.get_rng_state().tolist(),
    )


@pytest.mark.parametrize("error", [VictimError("no"), KeyboardInterrupt(), RuntimeError("no")])
def test_an_exception_in_the_attack_leaves_all_as_it_was(
    error: BaseException, world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adversary = world.started(made(TextAdversary, resources=str(folder)))
    next(iter(world.classifier.children())).eval()  # a frozen part stays in its mode
    next(iter(world.classifier.parameters())).requires_grad_(False)
    before = state_of(world)
    answer, calls = ModuleVictim.logits, 0

    def failing(self: ModuleVictim, texts: Sequence[Text]) -> Any:
        nonlocal calls
        calls += 1
        torch.rand(3)
        if calls == 3:
            self.module.eval()  # type: ignore[attr-defined] # a module
            raise error
        return answer(self, texts)

    monkeypatch.setattr(ModuleVictim, "logits", failing)
    problem = world.problem(IDS)
    with pytest.raises(type(error)):
        adversary.step(problem)
    assert calls == 3
    assert state_of(world) == before
    assert problem.attacking > 0


def test_neither_the_attack_nor_logging_moves_random_numbers(world: World, folder: Path) -> None:
    adversary = world.started(made(TextAdversary, resources=str(folder)))
    ends = []
    for logs in (True, False):
        torch.manual_seed(5)
        result = world.step(adversary, IDS, logs=logs)
        ends.append((result.loss.item(), torch.rand(1).item()))
        assert bool(result.values) == bool(result.ratios) == logs
        assert world.classifier.training
    assert ends[0] == ends[1]


@pytest.mark.parametrize("recipe", ["textfooler", "a2t"])
def test_weights_that_were_cast_in_the_attack_are_not_used_in_training(
    recipe: str, world: World, folder: Path
) -> None:
    settings: dict[str, Any] = {"clean_weight": 0.5, "resources": str(folder)}
    adversary = world.started(made(TextAdversary, recipe=recipe, **settings))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = world.step(adversary, IDS).loss
    torch.autograd.backward(loss)
    assert all(parameter.grad is not None for parameter in world.classifier.parameters())


def test_a_batch_without_anything_to_attack(world: World, folder: Path) -> None:
    adversary = world.started(made(TextAdversary, share=1e-9, resources=str(folder)))
    result = world.step(adversary, IDS)
    assert len(result.ratios) == 4
    assert all(part == total == 0 for part, total in result.ratios.values())
    assert result.loss.isfinite()


# What is said beforehand


def test_an_unknown_recipe_is_named_with_all_known_ones() -> None:
    with pytest.raises(ValueError, match=r"got recipe 'textfoler', expected one of a2t, .*"):
        made(TextAdversary, recipe="textfoler")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"share": 0.0}, "got share=0.0"),
        ({"share": 1.1}, "got share=1.1"),
        ({"clean_weight": 1.0}, "got clean_weight=1.0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"query_budget": 0}, "query_budget=0"),
        ({"recipe": "pwws", "candidates": 3}, "got candidates for pwws, .* ranking"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(TextAdversary, **settings)


def test_settings_are_those_of_the_arguments() -> None:
    adversary = made(TextAdversary, recipe="a2t", share=0.5, columns=["hypothesis"])
    settings = adversary.settings()
    assert settings["attack"]["columns"] == ["hypothesis"]
    assert TextAdversary(**rebuilt(TextAdversary, settings)).settings() == settings


def test_missing_resources_are_said_before_the_first_step(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ValueError, match="python -m steadfast resources neighbours") as caught:
        world.started(made(TextAdversary, resources=str(tmp_path)))
    assert "--model.adversary.attack.resources" in str(caught.value)
    with pytest.raises(ValueError, match="which is not there"):
        world.started(made(TextAdversary, resources=str(tmp_path / "nowhere")))


def test_an_unknown_column_is_said_before_the_first_step(world: World, folder: Path) -> None:
    with pytest.raises(ValueError, match=r"got columns .*hypothesis.* to rewrite"):
        world.started(made(TextAdversary, columns=["hypothesis"], resources=str(folder)))


def test_a_step_before_the_start(world: World) -> None:
    with pytest.raises(RuntimeError, match=re.escape("expected start()")):
        world.step(TextAdversary(), IDS)


@pytest.mark.parametrize(
    ("recipe", "budget", "short"),
    # Three words to rank, the others are stop words; and one question about the clean text.
    [("textfooler", 100, 0), ("textfooler", 4, 24), ("textfooler", 5, 0), ("a2t", 2, 0)],
)
def test_a_budget_that_is_used_up_by_the_ranking(
    recipe: str,
    budget: int,
    short: int,
    world: World,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings: dict[str, Any] = {"query_budget": budget, "resources": str(folder)}
    with caplog.at_level(logging.WARNING):
        adversary = world.started(made(TextAdversary, recipe=recipe, **settings))
    name = "lit_modules.adversaries.attacking"
    warnings = [one.getMessage() for one in caplog.records if one.name == name]
    assert len(warnings) == (short > 0)
    if short:
        assert f"query_budget={budget}" in warnings[0]
        assert f"in {short} of 24 training texts" in warnings[0]
        assert "has 3 words to rank" in warnings[0]
    records = seen(monkeypatch)
    world.step(adversary, list(world.samples))
    attacked = [record for record in records if record.outcome != "skipped"]
    assert all(record.text == record.adversarial for record in attacked) == (short > 0)


def test_a_batch_without_texts(world: World, folder: Path) -> None:
    adversary = made(TextAdversary, resources=str(folder))
    world.started(adversary)
    problem = world.problem(IDS)
    problem.samples = None
    with pytest.raises(ValueError, match="expected a corpus"):
        adversary.step(problem)
