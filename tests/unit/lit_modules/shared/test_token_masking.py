"""Which tokens are hidden: a pure function of sample, place, seed and epoch."""

import math

import pytest
import torch
from torch import Tensor

from lit_modules.shared.token_masking import MaskedTokens, mask_tokens

ROWS, LENGTH, VOCAB, MASK_ID = 400, 100, 1000, 4
SPECIAL = 5


def texts() -> tuple[Tensor, Tensor, Tensor]:
    """Ids, which of them may be chosen, and the samples' own ids: no two the same distance off."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(SPECIAL, VOCAB, (ROWS, LENGTH), generator=generator)
    ids[:, 0] = 2
    lengths = torch.randint(10, LENGTH, (ROWS,), generator=generator)
    ids[torch.arange(LENGTH) >= lengths[:, None]] = 0
    return ids, ids >= SPECIAL, torch.arange(ROWS) * 7 + 3


def masked(
    rows: Tensor | None = None, *, seed: int = 0, epoch: int = 1, length: int = 0
) -> MaskedTokens:
    ids, candidates, samples = texts()
    if rows is not None:
        ids, candidates, samples = ids[rows], candidates[rows], samples[rows]
    if length:
        ids, candidates = ids[:, :length], candidates[:, :length]
    return mask_tokens(
        ids, candidates, samples, mask_id=MASK_ID, vocab_size=VOCAB, seed=seed, epoch=epoch
    )


def within(count: int, trials: int, share: float) -> bool:
    """Five standard deviations: right but once in two million."""
    return abs(count - trials * share) < 5 * math.sqrt(trials * share * (1 - share))


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_shares(epoch: int) -> None:
    ids, candidates, _ = texts()
    masked_ids, chosen = masked(epoch=epoch)
    count = int(chosen.sum())
    assert within(count, int(candidates.sum()), 0.15)
    before, after = ids[chosen], masked_ids[chosen]
    hidden, unchanged = after == MASK_ID, after == before
    assert within(int(hidden.sum()), count, 0.8)
    # A random token is the right one, or the mask, once in a thousand.
    assert within(int(unchanged.sum()), count, 0.1)
    assert within(int((~hidden & ~unchanged).sum()), count, 0.1)
    assert int(after.min()) >= 0
    assert int(after.max()) < VOCAB
    random = after[~hidden & ~unchanged].double()
    assert abs(float(random.mean()) - VOCAB / 2) < 5 * VOCAB / math.sqrt(12 * len(random))


@pytest.mark.parametrize("share", [0.05, 0.4])
def test_other_shares(share: float) -> None:
    ids, candidates, samples = texts()
    result = mask_tokens(
        ids, candidates, samples, mask_id=MASK_ID, vocab_size=VOCAB, share=share
    ).chosen
    assert within(int(result.sum()), int(candidates.sum()), share)


def test_special_tokens_and_padding_stay() -> None:
    ids, candidates, _ = texts()
    for epoch in range(5):
        seen, chosen = masked(epoch=epoch)
        assert not (chosen & ~candidates).any()
        assert torch.equal(seen[~chosen], ids[~chosen])


def test_places_and_samples_are_independent() -> None:
    """No row and no column is preferred, and neighbours know nothing of each other."""
    ids = torch.full((2000, 50), 9)
    every = torch.ones_like(ids).bool()
    chosen = mask_tokens(
        ids, every, torch.arange(2000), mask_id=MASK_ID, vocab_size=VOCAB, epoch=3
    ).chosen
    for axis, trials in ((0, 2000), (1, 50)):
        counts = chosen.sum(dim=axis).double()
        spread = float(counts.var()) / (trials * 0.15 * 0.85)
        # Of so many binomial counts; five standard deviations of a variance.
        assert abs(spread - 1) < 5 * math.sqrt(2 / len(counts))
    assert within(int((chosen[:, 1:] & chosen[:, :-1]).sum()), 2000 * 49, 0.15**2)
    assert within(int((chosen[1:] & chosen[:-1]).sum()), 1999 * 50, 0.15**2)


def test_a_sample_is_masked_alike_in_any_batch() -> None:
    full = masked()
    shuffled = torch.randperm(ROWS, generator=torch.Generator().manual_seed(2))
    order = masked(shuffled)
    assert torch.equal(order.input_ids, full.input_ids[shuffled])
    assert torch.equal(order.chosen, full.chosen[shuffled])
    for world in (2, 3):  # as processes share a batch out
        for rank in range(world):
            rows = torch.arange(rank, ROWS, world)
            assert torch.equal(masked(rows).input_ids, full.input_ids[rows])
    short = masked(torch.tensor([5]), length=20)  # with other padding
    assert torch.equal(short.input_ids, full.input_ids[5:6, :20])


def test_epochs_and_seeds_are_other_choices() -> None:
    first = masked(epoch=1).chosen
    _, candidates, _ = texts()
    assert torch.equal(masked(epoch=1).chosen, first)
    for other in (masked(epoch=2), masked(seed=1), masked(seed=1, epoch=0)):
        assert within(int((first & other.chosen).sum()), int(candidates.sum()), 0.15**2)
    for epoch in range(20):  # none is the choice of another seed
        assert not torch.equal(masked(seed=1, epoch=0).chosen, masked(seed=0, epoch=epoch).chosen)


def test_frozen() -> None:
    """Integers only: the same on every machine, and in every version from now on."""
    ids = torch.arange(10, 34).reshape(2, 12)
    masked_ids, chosen = mask_tokens(
        ids,
        torch.ones_like(ids).bool(),
        torch.tensor([0, 123456789]),
        mask_id=4,
        vocab_size=1000,
        share=0.5,
        seed=7,
        epoch=3,
    )
    assert masked_ids.dtype == torch.int64
    assert masked_ids.tolist() == FROZEN
    assert chosen.tolist() == [[bool(int(digit)) for digit in row] for row in CHOSEN]


def test_frozen_draw_is_that_of_plain_integers() -> None:
    """SplitMix64 in Python's unbounded integers."""
    size = 1 << 64

    def mix(state: int, word: int) -> int:
        state = (state + (word + 1) * 0x9E3779B97F4A7C15) % size
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % size
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB % size
        return state ^ (state >> 31)

    ids, candidates, samples = texts()
    masked_ids, chosen = masked(seed=5, epoch=2)
    for row in (0, 17):
        key = mix(mix(5, int(samples[row])), 2)
        for place in range(LENGTH):
            drawn = mix(key, place)
            pick = bool(candidates[row, place]) and drawn % 2**16 < round(0.15 * 2**16)
            action, token = (drawn >> 16) % 2**16, (drawn >> 32) % 2**31 % VOCAB
            hidden = int(ids[row, place])
            if pick and action < round(0.8 * 2**16):
                hidden = MASK_ID
            elif pick and action >= round(0.9 * 2**16):
                hidden = token
            assert bool(chosen[row, place]) == pick
            assert int(masked_ids[row, place]) == hidden


FROZEN = [[4, 11, 4, 13, 4, 4, 4, 172, 18, 19, 20, 21], [22, 4, 24, 4, 4, 27, 28, 29, 30, 31, 4, 4]]
CHOSEN = ["101011110000", "010110010011"]
