"""What training against masks of attention shares, whatever the encoder is trained for."""

from collections.abc import Callable
from typing import Any, TypeVar

from torch import nn

from layers.attention.masking.biased import BiasedAttention
from layers.attention.masking.learnt_masks import Masks
from layers.noise import row_seeds, sample_seeds
from layers.shared_dropout import share_dropout
from lit_modules.shared.attention_masking import AttentionMasking
from lit_modules.shared.text_module import TextModule
from text import Batch
from text.run_seed import run_seed

T = TypeVar("T")


class MaskedAttention(TextModule):
    """Comes before the method that trains the encoder among the bases of a class.

    Attributes:
        masking: what is masked; has the adversary, if there is one.
        attention: of the encoder, once there are layers.
        adversary_lr_factor: learning rate of the adversary, in that of the encoder.
        shared_dropout: whether both passes drop the same.
    """

    masking: AttentionMasking
    attention: BiasedAttention
    adversary_lr_factor: float
    shared_dropout: bool

    def unused(self) -> dict[str, str]:
        return super().unused() | self.masking.unused

    def bias(self, network: nn.Module, encoder: Any) -> None:
        """Let the attention of an encoder be masked, and make the adversary.

        Args:
            network: whose dropout drops the same in both passes: the encoder and its head.
            encoder: of `transformers`.

        Raises:
            ValueError: its attention cannot be biased.
        """
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
        groups[1]["lr_factor"] = self.adversary_lr_factor
        return groups

    def twice(self, once: Callable[[], T], masks: Masks) -> tuple[T, T]:
        """What a pass gives, without masks and with them.

        Args:
            once: makes a pass.
            masks: of the second one.
        """
        tape = self.attention.tape
        if not self.shared_dropout:
            clean = once()
            with self.attention.masked(masks):
                return clean, once()
        try:
            with tape.recording():
                clean = once()
            with tape.replaying(), self.attention.masked(masks):
                return clean, once()
        finally:
            tape.clear()

    @property
    def progress(self) -> float:
        """Share of the training that is over; 1 outside a fit."""
        total = self.total_steps() if self._trainer is not None else 0
        return min(1.0, self.trainer.global_step / total) if total else 1.0

    def masks(self, batch: Batch, *, draw: bool = True) -> Masks | None:
        """What is masked in a pass over a batch; None where nothing ever is.

        Args:
            batch: with or without labels.
            draw: False: without the adversary's noise.
        """
        seed = run_seed()
        seeds = sample_seeds(batch.sample_ids, seed=seed, epoch=self.current_epoch)
        seeds = row_seeds(seeds, batch.choices)
        return self.masking.masks(batch.mask, seeds, progress=self.progress, draw=draw)
