"""Networks that predict the next token: decoder blocks with causal attention, and an LSTM.

Sources: Vaswani et al., "Attention Is All You Need", 2017, section 3; Kim et al., "The Lipschitz
Constant of Self-Attention", 2021, section 5.3 and appendix I.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from layers.attention.headed import HeadedAttention
from layers.attention.l2 import ContractiveL2Attention, L2Attention, TiedL2Attention
from layers.embeddings import sinusoids

Kind = Literal["dot_product", "l2", "l2_tied", "l2_tied_wide", "l2_contractive", "lstm"]
KINDS: tuple[Kind, ...] = get_args(Kind)

Memory = list[tuple[Tensor, Tensor]]
"""The state after the previous tokens: for each layer of a decoder the keys and values
`[B, H, M, e]`, for an LSTM its hidden and cell states `[depth, B, d]`."""


class NextToken(nn.Module, ABC):
    """A network from token ids to the logits of the token that follows each."""

    @abstractmethod
    def extend(self, ids: Tensor, memory: Memory | None) -> tuple[Tensor, Memory]:
        """Read further tokens `[B, N]`: return `[B, N, V]` logits, and the memory of all tokens.

        The memory of the previous tokens is None at the beginning.
        """

    def forward(self, ids: Tensor) -> Tensor:
        """`[B, N]` int64 to `[B, N, V]` logits; each depends on the tokens up to its position."""
        return self.extend(ids, None)[0]


class CausalAttention(HeadedAttention):
    """Scaled dot-product attention to a token and those before it."""

    @override
    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """See `HeadedAttention`; the queries are of the last tokens, and all tokens are real."""
        del mask
        rows, columns = query.shape[2], key.shape[2]
        visible = None
        if 1 < rows < columns:
            ones = torch.ones(rows, columns, dtype=torch.bool, device=query.device)
            # `is_causal` aligns the first query with the first key; here the last ones are aligned.
            # A single query, the last token, sees all keys: it needs no mask.
            visible = ones.tril(columns - rows)
        return functional.scaled_dot_product_attention(
            query, key, value, attn_mask=visible, is_causal=rows == columns
        )


Causal = CausalAttention | L2Attention


def causal_attention(kind: Kind, width: int, heads: int, *, length: int) -> Causal:
    """Return an attention to a token and those before it; the length is for `l2_contractive`."""
    if kind == "l2":
        return L2Attention(width, heads, causal=True)
    if kind == "l2_tied":
        return TiedL2Attention(width, heads, causal=True)
    if kind == "l2_tied_wide":
        return TiedL2Attention(width, heads, wide=True, causal=True)
    if kind == "l2_contractive":
        return ContractiveL2Attention(width, heads, length=length, causal=True)
    return CausalAttention(width, heads)


class DecoderBlock(nn.Module):
    """Attention, then a network on each token; LayerNorm after each sum (Vaswani et al., 2017)."""

    def __init__(self, attention: Causal, *, width: int, hidden: int, dropout: float) -> None:
        """Build the layers around a causal attention; `hidden` is the width of the network.

        Dropout is of both residual branches, while training.
        """
        super().__init__()
        self.attention = attention
        self.attention_norm, self.feedforward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inner, self.outer = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, past: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Map tokens `[B, N, d]`, and append their keys and values to those of the previous tokens.

        Keys and values `[B, H, M, e]` become `[B, H, M + N, e]`; None at the beginning.
        """
        query, key, value = self.attention.project(x)
        if past is not None:
            key = torch.cat([past[0], key], dim=2)
            value = torch.cat([past[1], value], dim=2)
        mixed = self.attention.mix(query, key, value, None)
        mixed = self.attention.output(self.attention.joined(mixed))
        x = self.attention_norm(x + self.dropout(mixed))
        hidden = self.outer(functional.relu(self.inner(x)))
        out: Tensor = self.feedforward_norm(x + self.dropout(hidden))
        return out, (key, value)


class Decoder(NextToken):
    """Embeddings with sinusoidal positions, decoder blocks, and a linear map to logits."""

    def __init__(
        self,
        vocab_size: int,
        *,
        kind: Kind,
        width: int,
        heads: int,
        depth: int,
        hidden: int,
        dropout: float,
        length: int,
    ) -> None:
        """Build the layers; `hidden` is the width of the network on each token.

        Dropout is of embedded tokens and of residual branches, while training; the length is that
        of the longest text in tokens. Heads that do not divide the width are a ValueError.
        """
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            DecoderBlock(
                causal_attention(kind, width, heads, length=length),
                width=width,
                hidden=hidden,
                dropout=dropout,
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(width, vocab_size)
        self.length = length
        # Not in checkpoints: it follows from the settings.
        self.register_buffer("positions", sinusoids(length, width), persistent=False)

    @override
    def extend(self, ids: Tensor, memory: Memory | None) -> tuple[Tensor, Memory]:
        begin = memory[0][0].shape[2] if memory else 0
        end = begin + ids.shape[1]
        if end > self.length:
            msg = f"got {end} tokens, expected at most {self.length}"
            raise ValueError(msg)
        # Vaswani et al., section 3.4: else the positions would outweigh small embeddings.
        embedded = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        x = self.dropout(embedded + self.get_buffer("positions")[begin:end])
        extended: Memory = []
        for number, block in enumerate(self.blocks):
            x, states = block(x, memory[number] if memory else None)
            extended.append(states)
        return self.head(x), extended


class LSTMNetwork(NextToken):
    """Embeddings, an LSTM and a linear map to logits."""

    def __init__(self, vocab_size: int, *, width: int, depth: int, dropout: float) -> None:
        """Build the layers; the width is that of embeddings, hidden state and cell state.

        Dropout is of embedded tokens and of the output of each layer, while training.
        """
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, width)
        self.dropout = nn.Dropout(dropout)
        between = dropout if depth > 1 else 0.0
        self.lstm = nn.LSTM(width, width, depth, dropout=between, batch_first=True)
        self.head = nn.Linear(width, vocab_size)

    @override
    def extend(self, ids: Tensor, memory: Memory | None) -> tuple[Tensor, Memory]:
        out: Any = self.lstm(self.dropout(self.embedding(ids)), memory[0] if memory else None)
        x, states = out
        return self.head(self.dropout(x)), [states]


def initialise_(network: NextToken, *, scale: float) -> None:
    """Draw the weights in place as Kim et al. do, biases 0; the scale is for L2 attentions."""
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.xavier_uniform_(module.weight)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.LSTM):
            _initialise_lstm_(module)
    for module in network.modules():
        if isinstance(module, HeadedAttention):
            width = module.output.out_features
            for linear in (module.qkv, module.output):
                # Uniform in +- s / sqrt(d) for an L2 attention, Glorot-uniform elsewhere.
                if isinstance(module, L2Attention):
                    nn.init.uniform_(linear.weight, -scale / width**0.5, scale / width**0.5)
                    continue
                # Queries, keys and values are three matrices.
                for matrix in torch.split(linear.weight.data, width):
                    nn.init.xavier_uniform_(matrix)


def _initialise_lstm_(lstm: nn.LSTM) -> None:
    for name, parameter in lstm.named_parameters():
        gates = parameter.data.chunk(4)
        if parameter.dim() == 2:
            for gate in gates:
                nn.init.xavier_uniform_(gate)
        else:
            nn.init.zeros_(parameter)
            # Gates are in the order input, forget, cell, output. Torch adds two biases: one is 0.
            if name.startswith("bias_ih"):
                nn.init.ones_(gates[1])
