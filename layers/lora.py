"""Low-rank adapters of linear layers, by the library `peft`.

Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2022, section 4.1.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from text import check_range
from text.extras import extras_named

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class Lora:
    """Adapters that are trained instead of the encoder's own weights.

    Attributes:
        rank: rank of the change of a weight; 0: no adapters, all weights are trained.
        alpha: the change is multiplied by alpha / rank.
        dropout: dropout before the adapters, while training.
        targets: names of the linear layers that get one, or ends of names, such as q_proj; null:
            all linear layers of the encoder.
    """

    rank: int = 0
    alpha: float = 16.0
    dropout: float = 0.0
    targets: list[str] | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        check_range({"lora.rank": self.rank}, least=0)
        check_range({"lora.alpha": self.alpha}, above=0)
        check_range({"lora.dropout": self.dropout}, least=0, below=1)

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings without effect, each with the setting that disables it."""
        names = ("alpha", "dropout", "targets") if self.rank == 0 else ()
        return dict.fromkeys(names, "lora.rank=0")


def add_adapters(encoder: "PreTrainedModel", settings: Lora) -> None:
    """Freeze an encoder, and add adapters to its linear layers, which change nothing at first.

    Raises:
        ValueError: a target that is no linear layer of the encoder.
        ModuleNotFoundError: `peft` is not installed; the message names the extra.
    """
    from transformers.pytorch_utils import Conv1D

    with extras_named():
        from peft import LoraConfig, inject_adapter_in_model

    linear = [name for name, m in encoder.named_modules() if isinstance(m, (nn.Linear, Conv1D))]
    chosen = linear
    if settings.targets is not None:
        targets = tuple(f".{target}" for target in settings.targets)
        chosen = [name for name in linear if f".{name}".endswith(targets)]
        lacking = [t for t in targets if not any(f".{name}".endswith(t) for name in linear)]
        if lacking or not targets:
            ends = ", ".join(sorted({name.rpartition(".")[2] for name in linear}))
            got = lacking[0].removeprefix(".") if lacking else "no name"
            msg = (
                f"got {got!r} among the targets of adapters for a {encoder.config.model_type}, "
                f"expected names of its linear layers: --model.lora.targets with some of {ends}"
            )
            raise ValueError(msg)
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,  # type: ignore[arg-type] # any number
        lora_dropout=settings.dropout,
        target_modules=chosen,
        # GPT-2 stores its weights transposed.
        fan_in_fan_out=isinstance(encoder.get_submodule(chosen[0]), Conv1D),
    )
    encoder.requires_grad_(requires_grad=False)
    inject_adapter_in_model(config, encoder)


def merge_adapters(module: nn.Module) -> None:
    """Add the adapters of a module to its weights, and remove them."""
    adapted: list[tuple[str, Any]] = [
        (name, part) for name, part in module.named_modules() if hasattr(part, "lora_A")
    ]
    for name, part in adapted:
        part.merge()
        module.set_submodule(name, part.get_base_layer())
