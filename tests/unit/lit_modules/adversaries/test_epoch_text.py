"""Adversarial texts once an epoch: which, beside what, how they count, and on several processes."""

import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from attacks.victims.kinds import ModuleVictim, VictimError
from lit_modules.adversaries import epoch_text as epochs
from lit_modules.adversaries.adversary import AdversarialLoss
from lit_modules.adversaries.epoch_text import EpochTextAdversary, Pool
from lit_modules.adversaries.gathering import gather, rank_and_world
from lit_modules.shared.settings import rebuilt
from tests.unit.lit_modules.adversaries.films import COUNT, World, made
from text import Text


def adversary(folder: Path, **settings: Any) -> EpochTextAdversary:
    given: dict[str, Any] = {"clean_epochs": 0, "adversarial_share": 0.25, **settings}
    return made(EpochTextAdversary, recipe="textfooler", resources=str(folder), **given)


def begun(world: World, one: EpochTextAdversary) -> EpochTextAdversary:
    world.started(one)
    one.start_epoch(world.module())
    return one


def pool(one: EpochTextAdversary) -> Pool:
    return one._pool


def pairs_of(one: EpochTextAdversary) -> list[tuple[int, Text]]:
    return [(row.source, row.text) for row in pool(one).rows.values()]


def loss_of(world: World, texts: Sequence[Text], ids: Sequence[int]) -> torch.Tensor:
    labels = torch.tensor([world.samples[i].label for i in ids])
    batch = world.classifier.encode_texts([*texts])
    return functional.cross_entropy(world.classifier(batch), labels)


def test_the_pool_is_what_succeeded(folder: Path) -> None:
    world = World()
    pairs = pairs_of(begun(world, adversary(folder)))
    assert len(pairs) == COUNT // 4
    assert len({source for source, _ in pairs}) == len(pairs)
    for source, text in pairs:
        sample = world.samples[source]
        prediction = world.classifier.predict_texts([sample.text, text]).argmax(dim=1)
        assert prediction[0] == sample.label != prediction[1]
    assert world.classifier.training
    assert world.logged["train/adversarial_texts"] == len(pairs)
    assert 0 < world.logged["train/adversarial_success"] <= 1
    assert world.logged["train/adversarial_seconds"] > 0


def test_all_samples_are_attacked_if_so_many_are_wanted(folder: Path) -> None:
    world = World()
    full = begun(world, adversary(folder, adversarial_share=1.0))
    count = len(pool(full).rows)
    assert COUNT // 4 < count < COUNT
    assert pool(full).share == count / COUNT
    # Of fewer, the first in the same order.
    few = begun(world, adversary(folder, adversarial_share=0.1))
    assert pairs_of(few) == pairs_of(full)[: len(pairs_of(few))]


@pytest.mark.long
def test_the_pool_does_not_depend_on_the_chunks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools = []
    for chunk in (1024, 3, 1):
        monkeypatch.setattr(epochs, "_CHUNK", chunk)
        pools.append(pool(begun(World(), adversary(folder))))
    assert pools[0] == pools[1] == pools[2]


def test_the_schedule(folder: Path) -> None:
    world = World()
    attacker = adversary(folder, clean_epochs=1, interval=2)
    world.started(attacker)
    sizes, texts = [], []
    for world.epoch in range(5):
        attacker.start_epoch(world.module())
        sizes.append(len(pool(attacker).rows))
        texts.append(pairs_of(attacker))
    assert [size > 0 for size in sizes] == [False, True, False, True, False]
    assert texts[1] != texts[3]


@pytest.mark.parametrize("size", [1, 5, 24])
@pytest.mark.parametrize("weight", [1.0, 0.4])
def test_each_text_counts_once(
    size: int, weight: float, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    one = begun(world, adversary(folder, weight=weight))
    world.classifier.eval()  # no dropout
    encoded: Counter[Text] = Counter()
    encode = type(world.classifier).encode_texts
    total = torch.zeros(())
    ids = list(world.samples)
    for start in range(0, COUNT, size):
        batch = ids[start : start + size]
        problem = world.problem(batch)
        with monkeypatch.context() as patch:

            def counted(self: Any, texts: list[Text]) -> Any:
                encoded.update(texts)
                return encode(self, texts)

            patch.setattr(type(world.classifier), "encode_texts", counted)
            result = one.step(problem)
        total = total + result.loss * len(batch)
    rows = pairs_of(one)
    assert encoded == Counter(text for _, text in rows)
    clean = COUNT * loss_of(world, [world.samples[one].text for one in ids], ids)
    adversarial = len(rows) * loss_of(
        world, [text for _, text in rows], [source for source, _ in rows]
    )
    # The mean of all rows of the epoch, as if there were one batch with all of them.
    torch.testing.assert_close(
        total / COUNT, (clean + weight * adversarial) / (COUNT + len(rows)), rtol=1e-5, atol=1e-6
    )


def test_a_batch_by_hand(folder: Path) -> None:
    world = World()
    attacker = begun(world, adversary(folder, weight=0.5))
    world.classifier.eval()
    hosts = list(pool(attacker).rows)[:2]
    unattacked = [i for i in world.samples if i not in pool(attacker).rows][:3]
    ids = [*unattacked, *hosts]
    rows = [pool(attacker).rows[i] for i in hosts]
    clean = loss_of(world, [world.samples[i].text for i in ids], ids)
    adversarial = loss_of(world, [row.text for row in rows], [row.source for row in rows])
    result = world.step(attacker, ids)
    torch.testing.assert_close(result.loss, (clean + 0.5 * 2 / 5 * adversarial) / 1.25)
    part, count = result.ratios["adversarial_loss"]
    torch.testing.assert_close(part / count, adversarial.detach())
    result = world.step(attacker, unattacked)
    torch.testing.assert_close(
        result.loss, loss_of(world, [world.samples[i].text for i in unattacked], unattacked) / 1.25
    )
    assert result.ratios["adversarial_loss"][1] == 0


def test_a_clean_epoch_is_plain_training(folder: Path) -> None:
    world = World()
    attacker = begun(world, adversary(folder, clean_epochs=1))
    ids = list(world.samples)
    torch.manual_seed(0)
    result = world.step(attacker, ids)
    torch.manual_seed(0)
    torch.testing.assert_close(
        result.loss, loss_of(world, [world.samples[i].text for i in ids], ids)
    )
    assert result.ratios == {}


def test_texts_of_another_epoch_are_not_used(folder: Path) -> None:
    world = World()
    attacker = begun(world, adversary(folder))
    world.epoch = 1
    assert world.step(attacker, list(world.samples)).ratios == {}


# Going on


@pytest.mark.parametrize("pairs", [False, True])
def test_a_resumed_epoch_has_the_same_texts(
    pairs: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(pairs=pairs, columns=("text", "text_pair") if pairs else ("text",))
    first = begun(world, adversary(folder))
    assert pool(first).rows
    again = adversary(folder)
    again.restore(first.state())
    assert (
        EpochTextAdversary(**rebuilt(EpochTextAdversary, again.settings())).settings()
        == first.settings()
    )
    with monkeypatch.context() as patch:
        patch.setattr(epochs, "gather", None)  # nothing is attacked again
        begun(world, again)
    assert pool(again) == pool(first)
    assert again.state() == first.state()
    world.epoch = 1  # the next epoch has texts of its own
    again.start_epoch(world.module())
    assert pool(again) != pool(first)


def test_a_new_fit_begins_anew(folder: Path) -> None:
    world = World()
    attacker = begun(world, adversary(folder))
    world.started(attacker)
    assert not pool(attacker).rows
    attacker.restore({})
    assert not pool(attacker).rows


def test_an_exception_leaves_all_as_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    attacker = adversary(folder)
    world.started(attacker)

    def failing(self: ModuleVictim, texts: Sequence[Text]) -> Any:
        del texts
        self.module.eval()  # type: ignore[attr-defined] # a module
        torch.rand(2)
        msg = "no"
        raise VictimError(msg)

    monkeypatch.setattr(ModuleVictim, "logits", failing)
    before = torch.get_rng_state()
    with pytest.raises(VictimError, match="no"):
        attacker.start_epoch(world.module())
    assert all(child.training for child in world.classifier.modules())
    assert all(parameter.requires_grad for parameter in world.classifier.parameters())
    assert torch.equal(before, torch.get_rng_state())


# Several processes


class Ranks:
    """Processes that are threads, each with a model of its own."""

    def __init__(self, world: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.mine = threading.local()
        self.board: list[Any] = [None] * world
        self.barrier = threading.Barrier(world, timeout=60)
        monkeypatch.setattr(epochs, "rank_and_world", lambda: (self.mine.rank, world))
        monkeypatch.setattr(epochs, "gather", self.gather)

    def gather(self, mine: Any) -> list[Any]:
        self.board[self.mine.rank] = mine
        self.barrier.wait()
        found = list(self.board)
        self.barrier.wait()
        return found

    def run(self, folder: Path) -> tuple[list[EpochTextAdversary], list[World]]:
        worlds = [World() for _ in range(self.world)]
        made = [adversary(folder) for _ in range(self.world)]

        def generate(rank: int) -> None:
            self.mine.rank = rank
            begun(worlds[rank], made[rank])

        threads = [threading.Thread(target=generate, args=(rank,)) for rank in range(self.world)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return made, worlds


@pytest.mark.long
@pytest.mark.parametrize("count", [2, 3])
def test_processes_have_together_what_one_has(
    count: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, world = adversary(folder), World()
    begun(world, alone)
    attackers, worlds = Ranks(count, monkeypatch).run(folder)
    assert all(pool(attacker) == pool(alone) for attacker in attackers)
    # 7 samples on 2 processes are 4 + 3; the mean is weighted as in `batch_weight`.
    ids = [*pool(alone).rows, *(i for i in world.samples if i not in pool(alone).rows)][:7]
    world.classifier.eval()
    full = world.step(alone, ids)
    found: list[tuple[AdversarialLoss, float]] = []
    for rank, (attacker, its) in enumerate(zip(attackers, worlds, strict=True)):
        its.classifier.eval()
        mine = ids[rank::count]
        found.append((its.step(attacker, mine), len(mine) / len(ids)))
    loss = torch.stack([part.loss * weight for part, weight in found]).sum()
    torch.testing.assert_close(loss, full.loss)


def test_one_process_gathers_nothing() -> None:
    assert rank_and_world() == (0, 1)
    assert gather("mine") == ["mine"]


@pytest.mark.parametrize(
    "settings", [{"clean_epochs": -1}, {"interval": 0}, {"adversarial_share": 0.0}, {"weight": 0.0}]
)
def test_settings_out_of_range(settings: dict[str, Any], folder: Path) -> None:
    (name,) = settings
    with pytest.raises(ValueError, match=f"{name}={settings[name]}"):
        adversary(folder, **settings)
