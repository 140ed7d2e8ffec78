"""A model in parts on two processes (FSDP2) trains as whole copies do, and resumes."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pytorch_lightning.strategies import FSDPStrategy, ModelParallelStrategy, SingleDeviceStrategy

from layers.pretrained_encoders import load_encoder
from lit_modules import FineTuning
from lit_modules.shared.encoder_source import EncoderSettings
from lit_modules.shared.sharding import check_sharding, shard
from tests.integration.several import TWO, run
from tests.integration.test_decoders import fit
from tests.unit.layers.small_decoders import pretrained
from tests.unit.layers.small_encoders import ARCHITECTURES

PARTS = [
    "--trainer.devices=2",
    "--trainer.strategy=ModelParallelStrategy",
    "--trainer.strategy.data_parallel_size=2",
    "--trainer.strategy.tensor_parallel_size=1",
    "--trainer.strategy.save_distributed_checkpoint=false",
]
STEADY = ["--model.dropout=0", "--model.optimisation.decay=none", "--model.optimisation.warmup=0"]


def weights(where: Path, name: str) -> dict[str, Any]:
    path = where / "runs" / name / "checkpoints" / "last.ckpt"
    stored: dict[str, Any] = torch.load(path, weights_only=True)
    return stored["state_dict"]  # type: ignore[no-any-return] # of a checkpoint


@pytest.mark.slow
@pytest.mark.distributed
def test_parts_are_trained_as_copies(tmp_path: Path) -> None:
    name = pretrained("qwen3", tmp_path / "decoder")
    words = [*fit(name, "--model=FineTuning", *STEADY)]
    words = [word for word in words if "max_steps" not in word]
    steps = "--trainer.max_steps={}"
    run([[*words, *TWO, steps.format(4), "--run=copies"]], where=tmp_path)
    run([[*words, *PARTS, steps.format(4), "--run=parts"]], where=tmp_path)
    run([[*words, *PARTS, steps.format(2), "--run=halves"]], where=tmp_path)
    run([["fit", "--run=halves", steps.format(4)]], where=tmp_path)
    copies, parts, halves = (weights(tmp_path, each) for each in ("copies", "parts", "halves"))
    assert copies.keys() == parts.keys() == halves.keys()
    for key, value in copies.items():
        torch.testing.assert_close(parts[key], value)
        assert torch.equal(halves[key], parts[key])
    begun = load_encoder(name, decoders=True).state_dict()
    prefix = "network.backbone.encoder."
    assert any(not torch.equal(value, copies[prefix + key]) for key, value in begun.items())


def test_what_cannot_be_split() -> None:
    check_sharding(SingleDeviceStrategy(), "UniBERT", shards=False)
    whole = ModelParallelStrategy(save_distributed_checkpoint=False)
    check_sharding(whole, "FineTuning", shards=True)
    with pytest.raises(
        ValueError, match=r"parts of each weight .* for UniBERT, expected .* ddp, wh"
    ):
        check_sharding(whole, "UniBERT", shards=False)
    with pytest.raises(
        ValueError, match=r"got FSDPStrategy.*for FineTuning.*ModelParallelStrategy or"
    ):
        check_sharding(FSDPStrategy(), "FineTuning", shards=True)
    with pytest.raises(ValueError, match="expected false: a checkpoint is one file"):
        check_sharding(ModelParallelStrategy(), "FineTuning", shards=True)
    network: Any = None
    mesh = {"tensor_parallel": SimpleNamespace(size=lambda: 2)}
    with pytest.raises(ValueError, match="got tensor_parallel_size=2, expected 1"):
        shard(network, mesh)
    bert = EncoderSettings(architecture=ARCHITECTURES["bert"])
    assert FineTuning(backbone=bert).shards
