"""Dropout as a contraction (Kim et al., 2021, appendix H): at evaluation, and not in training."""

import pytest
import torch
from torch import nn


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_is_a_contraction_but_for_the_factor_of_training(rate: float) -> None:
    torch.manual_seed(0)
    layer, x = nn.Dropout(rate).double(), torch.randn(200, dtype=torch.float64)

    def derivative() -> torch.Tensor:
        torch.manual_seed(1)
        jacobian: torch.Tensor = torch.func.jacrev(layer)(x)
        return jacobian

    # The paper's matrix of zeros and ones has the norm 1. Torch divides it by the share of entries
    # that are kept, so that its constant while training is above 1.
    kept = derivative() * (1 - rate)
    assert set(kept.diagonal().round(decimals=12).tolist()) == {0.0, 1.0}
    for order in (2, torch.inf):
        assert torch.linalg.matrix_norm(kept, order) == pytest.approx(1)
        assert torch.linalg.matrix_norm(derivative(), order) == pytest.approx(1 / (1 - rate))
    layer.eval()
    assert torch.equal(derivative(), torch.eye(200, dtype=torch.float64))
