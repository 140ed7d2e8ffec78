"""Pretrained encoders as frozen sources of token vectors."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from layers.architectures import architecture_of, build_encoder
from layers.pretrained_encoders import check_fits, load_encoder

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class FrozenEncoder:
    """A pretrained encoder that is not trained.

    Attributes:
        pretrained: folder or hub name of the encoder; null: none, words are embedded from scratch.
        layer: index of the hidden state that is used; -1 is the last.
        cache: keep its outputs for the training split in memory after first use, 4 N d bytes a
            sample.
    """

    pretrained: str | None = None
    layer: int = -1
    cache: bool = False


class FrozenBackbone(nn.Module):
    """A pretrained encoder that is never trained; its token vectors are scaled to a fixed norm.

    It is always in evaluation mode, even inside a module that trains.
    """

    def __init__(
        self, settings: FrozenEncoder, *, config: dict[str, Any] | None = None, norm: float = 2.0
    ) -> None:
        """Load the encoder.

        Args:
            settings: of the encoder.
            config: with a configuration (as `config` returns it) only the architecture is built
                and no file is read: for weights that come from a checkpoint.
            norm: norm of every output vector.

        Raises:
            ValueError: no encoder is named, it cannot be loaded, or has no such layer.
        """
        super().__init__()
        if settings.pretrained is None:
            msg = f"got {settings}, expected the folder or hub name of an encoder"
            raise ValueError(msg)
        self.encoder: PreTrainedModel = (
            build_encoder(config) if config is not None else load_encoder(settings.pretrained)
        )
        self.encoder.requires_grad_(requires_grad=False)
        self.encoder.train(mode=False)
        self.layer, self.norm = settings.layer, norm
        self.width: int = self.encoder.config.hidden_size
        states: int = self.encoder.config.num_hidden_layers + 1
        if not -states <= settings.layer < states:
            msg = f"got backbone.layer={settings.layer}, expected {-states} ... {states - 1}"
            raise ValueError(msg)
        # By sample: the text, and its vectors.
        self._cache: dict[int, tuple[list[int], Tensor]] | None = {} if settings.cache else None

    def check_fits(self, vocab_size: int, max_length: int) -> None:
        """See `layers.pretrained_encoders.check_fits`."""
        check_fits(self.encoder, vocab_size, max_length)

    @property
    def config(self) -> dict[str, Any]:
        """The architecture, as JSON scalars, lists and dicts."""
        return architecture_of(self.encoder)

    def train(self, mode: bool = True) -> "FrozenBackbone":
        """Keep the encoder in evaluation mode: its dropout would only add noise."""
        super().train(mode)
        self.encoder.train(mode=False)
        return self

    def forward(
        self,
        input_ids: Tensor,
        mask: Tensor,
        segment_ids: Tensor | None = None,
        *,
        sample_ids: Tensor | None = None,
    ) -> Tensor:
        """Return token vectors `[B, N, d]` of the chosen layer, of norm `norm` at real tokens.

        Sample ids `[B]` are the keys of the cache, which has one text for each: a changed text of
        the same sample is encoded anew.
        """
        if self._cache is None or sample_ids is None:
            return self._encode(input_ids, mask, segment_ids)
        # Only real tokens are cached: padding differs from batch to batch.
        parts = input_ids if segment_ids is None else torch.cat([input_ids, segment_ids], dim=1)
        real = mask if segment_ids is None else mask.repeat(1, 2)
        texts = [part[row].tolist() for part, row in zip(parts, real, strict=True)]
        keys = sample_ids.tolist()
        known = [self._cache.get(key) for key in keys]
        found = [
            entry[1] for entry, text in zip(known, texts, strict=True) if entry and entry[0] == text
        ]
        if len(found) < len(keys):
            vectors = self._encode(input_ids, mask, segment_ids)
            for row, (key, text) in enumerate(zip(keys, texts, strict=True)):
                if key not in self._cache:
                    # A view would keep the vectors of the whole batch in memory.
                    self._cache[key] = text, vectors[row, mask[row]].clone()
            return vectors
        cached = torch.cat(found)
        out = cached.new_zeros(*mask.shape, cached.shape[-1])
        out[mask] = cached
        return out

    def __getstate__(self) -> dict[str, Any]:
        """Leave the content of the cache out of copies and pickles: it may be gigabytes."""
        return {**self.__dict__, "_cache": None if self._cache is None else {}}

    @torch.no_grad()
    def _encode(self, input_ids: Tensor, mask: Tensor, segment_ids: Tensor | None) -> Tensor:
        inputs = {"input_ids": input_ids, "attention_mask": mask.long()}
        if segment_ids is not None and getattr(self.encoder.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = segment_ids
        last = self.layer in (-1, self.encoder.config.num_hidden_layers)
        out = self.encoder(**inputs, output_hidden_states=not last)
        hidden: Tensor = out.last_hidden_state if last else out.hidden_states[self.layer]
        return self.norm * functional.normalize(hidden, dim=-1)
