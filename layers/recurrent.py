"""The bidirectional LSTM classifier on embedded tokens (Hochreiter and Schmidhuber, 1997)."""

from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from layers.single_logit import logit_head


class LSTMClassifier(nn.Module):
    """Layers of bidirectional LSTM, the last state of both directions, linear head.

    The head reads `[forward state at the last real token, backward state at the first token]` of
    the last layer: both have seen the whole text. At the last token, the backward direction would
    have read one token only. The LSTM reads real tokens only (packed), so padding has no effect at
    any position.
    """

    def __init__(
        self,
        width: int,
        num_classes: int,
        *,
        depth: int,
        hidden: int,
        dropout: float = 0.0,
        single_logit: bool = False,
    ) -> None:
        """Build the layers.

        Args:
            width: of a token.
            num_classes: number of logits.
            depth: number of layers, at least 1.
            hidden: size of the state of one direction.
            dropout: between the layers and before the head, while training.
            single_logit: see `logit_head`.

        Raises:
            ValueError: no layer.
        """
        super().__init__()
        if depth < 1:
            msg = f"got depth={depth} for an LSTM, expected at least 1"
            raise ValueError(msg)
        # One module for each layer: a single `nn.LSTM` would hide the outputs of lower layers.
        self.layers = nn.ModuleList(
            nn.LSTM(2 * hidden if layer else width, hidden, batch_first=True, bidirectional=True)
            for layer in range(depth)
        )
        self.dropout = nn.Dropout(dropout)
        self.head = logit_head(2 * hidden, num_classes, single=single_logit)

    def hidden_states(self, x: Tensor, mask: Tensor) -> list[Tensor]:
        """Return the `[B, N, d]` tokens, and the `[B, N, 2 * hidden]` output of each layer.

        Outputs are zero at padding.
        """
        order = _real_first(mask)
        back = order.argsort(dim=1).unsqueeze(-1)
        states = [x]
        for out, _ in self._run(x, mask, order):
            padded, _ = pad_packed_sequence(out, batch_first=True, total_length=mask.shape[1])
            states.append(padded.gather(1, back.expand_as(padded)))
        return states

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """`[B, N, d]` tokens with mask `[B, N]` to `[B, C]` logits."""
        _, ends = self._run(x, mask, _real_first(mask))[-1]
        logits: Tensor = self.head(self.dropout(ends))
        return logits

    def _run(self, x: Tensor, mask: Tensor, order: Tensor) -> list[tuple[PackedSequence, Tensor]]:
        """Return the packed outputs of each layer, and its `[B, 2 * hidden]` last states."""
        x = x.gather(1, order.unsqueeze(-1).expand_as(x))
        on_cpu = x.device.type == "cpu"
        if on_cpu:
            x = x.to(next(self.layers.parameters()).dtype)
        lengths = mask.sum(dim=1).cpu()
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        outputs = []
        # On some processors, oneDNN has no bfloat16 LSTM for autocast.
        full = torch.autocast("cpu", enabled=False) if on_cpu else nullcontext()
        # In evaluation mode, cuDNN has no gradient, which attacks need.
        without = x.is_cuda and not self.training and torch.is_grad_enabled()
        with full, torch.backends.cudnn.flags(enabled=False) if without else nullcontext():
            for number, layer in enumerate(self.layers):
                if number:
                    packed = packed._replace(data=self.dropout(packed.data))
                packed, (state, _) = layer(packed)
                outputs.append((packed, state.transpose(0, 1).flatten(1)))
        return outputs


def _real_first(mask: Tensor) -> Tensor:
    """`[B, N]`: the positions of the real tokens in their order, then those of padding."""
    # False comes before True, and a stable sort keeps the order within both.
    return (~mask).long().argsort(dim=1, stable=True)
