"""The training with masked attention that fine-tuning and pre-training share."""

from collections.abc import Callable
from typing import Any, TypeVar

from torch import nn

from layers.attention.masking.biased import BiasedAttention
from layers.attention.masking.learnt_masks import Masks
from layers.noise import row_seeds, sample_seeds
from layers.pretrained_encoders import checkpoints_gradients
from layers.shared_dropout import share_dropout
from lit_modules.shared.attention_masking import AttentionMasking, MaskingSettings
from lit_modules.shared.settings import within
from lit_modules.shared.text_module import TextModule
from text import Batch, check_range
from text.run_seed import run_seed

T = TypeVar("T")


class MaskedAttention(TextModule):
    """Trains an encoder with masks of its attention and without.

    In the bases of a class, it comes before the method that trains the encoder.

    Attributes:
        masking: masks of the attention, and the adversary that makes them.
        attention: attention of the encoder, once there are layers.
    """

    attention: BiasedAttention

    def __init__(
        self,
        *,
        masking: MaskingSettings = MaskingSettings(),
        alpha: float = 1.0,
        symmetric: bool = False,
        adversary_lr_factor: float = 1.0,
        shared_dropout: bool = True,
        **base: Any,
    ) -> None:
        """Keep the settings.

        Args:
            masking: masks of attention while training.
            alpha: weight of the divergence between the passes with and without masks.
            symmetric: use KL(p || q) + KL(q || p) instead of KL(p || q), p without masks. No effect
                for a regression, whose squared difference is symmetric.
            adversary_lr_factor: learning rate of the adversary, in units of the encoder's.
            shared_dropout: use the same dropout in both passes, so that they differ by the masks
                only; false: independent dropout, as in the released code.
            base: settings of the method that trains the encoder.
        """
        super().__init__(**base)
        check_range({"alpha": alpha}, least=0)
        check_range({"adversary_lr_factor": adversary_lr_factor}, above=0)
        self.masking = AttentionMasking(masking)
        self.alpha, self.symmetric = alpha, symmetric
        self.adversary_lr_factor, self.shared_dropout = adversary_lr_factor, shared_dropout

    def unused(self) -> dict[str, str]:
        masking = self.masking.settings
        names = [] if masking.kind == "adversarial" else ["adversary_lr_factor"]
        if masking.kind == "none":
            names += ["alpha", "symmetric", "shared_dropout"]
        own = dict.fromkeys(names, f"masking.kind={masking.kind}")
        return super().unused() | own | within("masking", masking.unused)

    def lasting(self) -> dict[str, str]:
        return super().lasting() | within("masking", self.masking.settings.lasting)

    def bias(self, network: nn.Module, encoder: Any) -> None:
        """Let the attention of an encoder of `transformers` be masked, and make the adversary.

        `network`, the encoder and its head, shares dropout between the two passes.

        Raises:
            ValueError: its attention cannot be biased, or its layers are computed twice.
        """
        if checkpoints_gradients(encoder) and self.masking.kind != "none":
            msg = (
                "got backbone.gradient_checkpointing=true for an encoder whose attention is "
                "masked, expected false: its layers would be computed again without the masks"
            )
            raise ValueError(msg)
        self.attention = BiasedAttention(encoder)
        share_dropout(network, self.attention.tape)
        config = encoder.config
        self.masking.build(self.attention, config.hidden_size, config.num_attention_heads)

    def parameter_groups(self) -> list[nn.Parameter] | list[dict[str, Any]]:
        learnt = [p for p in self.masking.parameters() if p.requires_grad]
        if not learnt:
            return super().parameter_groups()
        adversary = {id(p) for p in learnt}
        own = [p for p in self.parameters() if p.requires_grad and id(p) not in adversary]
        groups: list[dict[str, Any]] = [{"params": own}, {"params": learnt}]
        # Both are removed by `configure_optimizers`.
        groups[1] |= {"lr_factor": self.adversary_lr_factor}
        groups[1] |= {"divisor": self.masking.settings.divisor}
        return groups

    def twice(self, once: Callable[[], T], masks: Masks) -> tuple[T, T]:
        """Return the results of two passes, each by `once`: without masks, and with them."""
        tape = self.attention.tape
        if not self.shared_dropout:
            clean = once()
            with self.attention.masked(masks):
                return clean, once()
        # The first pass records its dropout, the second one replays it.
        try:
            with tape.recording():
                clean = once()
            with tape.replaying(), self.attention.masked(masks):
                return clean, once()
        finally:
            tape.clear()

    def masks(self, batch: Batch, *, draw: bool = True) -> Masks | None:
        """Return the masks of a pass over a batch; None if this kind never masks.

        Without `draw`, the adversary has no noise.
        """
        seeds = sample_seeds(batch.sample_ids, seed=run_seed(), epoch=self.current_epoch)
        seeds = row_seeds(seeds, batch.choices)
        return self.masking.masks(batch.mask, seeds, progress=self.progress(), draw=draw)
