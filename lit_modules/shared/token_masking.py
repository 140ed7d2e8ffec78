"""Chooses the tokens that a masked language model has to guess, and hides them."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from text import check_choice, check_range
from text.splitmix import GOLDEN, mixed


@dataclass(frozen=True, kw_only=True)
class TokenMasking:
    """The tokens that a masked language model has to guess.

    Attributes:
        kind: time of the choice. dynamic: other tokens in each epoch; fixed: the same in all.
        share: share of the tokens to guess; of these 80 % are replaced by the mask, 10 % by a
            random token, and 10 % are not changed.
        seed: seed of the choice of tokens.
    """

    kind: Literal["dynamic", "fixed"] = "dynamic"
    share: float = 0.15
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the settings."""
        check_range({"token_masking.share": self.share}, above=0, below=1)
        check_choice("token_masking.kind", self.kind, ("dynamic", "fixed"))
        check_range({"token_masking.seed": self.seed}, least=0)


class MaskedTokens(NamedTuple):
    """A batch with masks `[B, N]`, the input of a model, and the tokens to guess, `[B, N]` bool."""

    input_ids: Tensor
    chosen: Tensor


def mask_tokens(
    input_ids: Tensor,
    candidates: Tensor,
    sample_ids: Tensor,
    *,
    mask_id: int,
    vocab_size: int,
    share: float = 0.15,
    seed: int = 0,
    epoch: int = 0,
) -> MaskedTokens:
    """Choose tokens to guess, and hide them (Devlin et al. 2019, section 3.1).

    Input ids are `[B, N]` int64, sample ids `[B]`; a share of the candidates, `[B, N]` bool, is
    chosen by seed and epoch. `mask_id` is the token that hides; random tokens are below
    `vocab_size`.
    """
    # A function of seed, epoch, sample and position: it needs no state in a checkpoint, and does
    # not depend on batches and processes.
    positions = torch.arange(input_ids.shape[1], device=input_ids.device)
    key = _mix(
        _mix(torch.full_like(sample_ids, seed), sample_ids), torch.full_like(sample_ids, epoch)
    )
    drawn = _mix(key.unsqueeze(1).expand(-1, len(positions)), positions.expand(len(key), -1))
    # Three independent numbers of 16, 16 and 31 bits from each draw.
    chosen = candidates & ((drawn & 0xFFFF) < round(share * 0x10000))
    action = (drawn >> 16) & 0xFFFF
    random_ids = ((drawn >> 32) & 0x7FFFFFFF) % vocab_size
    # 80 % become the mask, 10 % a random token, and 10 % are not changed.
    hidden = input_ids.masked_fill(action < round(0.8 * 0x10000), mask_id)
    hidden = torch.where(action >= round(0.9 * 0x10000), random_ids, hidden)
    return MaskedTokens(torch.where(chosen, hidden, input_ids), chosen)


def _mix(state: Tensor, word: Tensor) -> Tensor:
    """Return another state, by a bijection of each word."""
    return mixed(state + (word + 1) * GOLDEN)
