from types import SimpleNamespace
from typing import Any

import pytest
import torch

from datamodules.batching.sampler import BucketBatchSampler, Order
from lit_modules.shared.process_means import batch_weight, global_means


def trainer(rank: int, world: int, *, stage: str = "training", sampler: Any = None) -> Any:
    loader = SimpleNamespace(sampler=sampler)
    return SimpleNamespace(
        world_size=world,
        training=stage == "training",
        testing=stage == "testing",
        train_dataloader=loader if stage == "training" else None,
        val_dataloaders=loader if stage == "validating" else None,
        test_dataloaders=loader if stage == "testing" else None,
        strategy=SimpleNamespace(reduce=lambda values, reduce_op: values / world),
    )


def test_one_process_weighs_one() -> None:
    sampler = BucketBatchSampler([1] * 3, 2)
    assert [batch_weight(trainer(0, 1, sampler=sampler), i) for i in (0, 1)] == [1.0, 1.0]


@pytest.mark.parametrize("stage", ["training", "validating", "testing"])
def test_the_sampler_of_the_stage_knows(stage: str) -> None:
    for rank, last in ((0, 4 / 3), (1, 2 / 3)):  # 2 + 1 samples at the end
        sampler = BucketBatchSampler([1] * 7, 2, Order(rank=rank, world=2))
        run = trainer(rank, 2, stage=stage, sampler=sampler)
        assert batch_weight(run, 0) == 1.0
        assert batch_weight(run, 1) == pytest.approx(last)


@pytest.mark.parametrize("sampler", [None, torch.utils.data.SequentialSampler([1, 2])])
def test_other_samplers_share_out_evenly(sampler: Any) -> None:
    assert batch_weight(trainer(1, 2, sampler=sampler), 0) == 1.0


def test_means_are_weighted_and_keep_their_names() -> None:
    means = {"a": torch.tensor(3.0), "b": torch.tensor(6.0, dtype=torch.float64)}
    assert global_means(trainer(0, 1), means, 1.0) == means
    shared = global_means(trainer(0, 2), means, 0.5)
    assert {name: float(value) for name, value in shared.items()} == {"a": 0.75, "b": 1.5}
