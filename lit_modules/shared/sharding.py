"""A model in parts on several devices (FSDP2): each holds a share of every weight.

Source: Zhao et al., "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel", 2023; here
by `torch.distributed.fsdp.fully_shard`, as Lightning's `ModelParallelStrategy` asks for it.
"""

from typing import TYPE_CHECKING, Any

from torch import nn

from layers.backbones import BackboneClassifier

if TYPE_CHECKING:
    from pytorch_lightning.strategies import Strategy


def check_sharding(strategy: "Strategy", method: str, *, shards: bool) -> None:
    """Check that a strategy does not split weights which a method needs whole.

    `method` is a name for the error, `shards` is True if the method can be split by `shard`.

    Raises:
        ValueError: it cannot, or not by this strategy; or checkpoints would be folders.
    """
    # A process that only predicts loads this module without Lightning.
    from pytorch_lightning.strategies import DeepSpeedStrategy, FSDPStrategy, ModelParallelStrategy

    if not isinstance(strategy, FSDPStrategy | DeepSpeedStrategy | ModelParallelStrategy):
        return
    if shards and isinstance(strategy, ModelParallelStrategy):
        # It has no public name for this argument of its own.
        if strategy._save_distributed_checkpoint:
            msg = (
                "got ModelParallelStrategy with save_distributed_checkpoint=true, expected false: "
                "a checkpoint is one file (--trainer.strategy.save_distributed_checkpoint false)"
            )
            raise ValueError(msg)
        return
    advice = "ModelParallelStrategy or ddp" if shards else "ddp, which keeps whole weights"
    msg = (
        f"got {type(strategy).__name__}, which keeps parts of each weight on several devices, for "
        f"{method}, expected --trainer.strategy {advice}"
    )
    raise ValueError(msg)


def shard(network: BackboneClassifier, mesh: Any) -> None:
    """Split the weights of a classifier among the data-parallel devices of a mesh, in place.

    Each layer of the encoder is gathered for its own pass alone; all that is left, as the word
    embeddings and the head, stays gathered from the embedding of a text to its gradients.

    Raises:
        ValueError: the mesh also splits layers (tensor parallelism).
    """
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    if (size := mesh["tensor_parallel"].size()) > 1:
        msg = (
            f"got tensor_parallel_size={size}, expected 1, and all devices in data_parallel_size "
            "(--trainer.strategy.tensor_parallel_size 1 --trainer.strategy.data_parallel_size N)"
        )
        raise ValueError(msg)
    encoder, devices = network.backbone.encoder, mesh["data_parallel"]
    layers = [m for m in encoder.modules() if isinstance(m, nn.ModuleList)]
    for layer in max(layers, key=len, default=[]):
        fully_shard(layer, mesh=devices)
    fully_shard(network, mesh=devices)
    # Texts are embedded by a method of their own.
    register_fsdp_forward_method(network, "embed")
