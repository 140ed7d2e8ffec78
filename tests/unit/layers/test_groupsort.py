"""GroupSort sorts groups, keeps norms and is 1-Lipschitz."""

import pytest
import torch

from layers.groupsort import GroupSort, maxmin


def test_maxmin_is_groupsort_of_two() -> None:
    x = torch.tensor([[1.0, 2.0, 5.0, -1.0]])
    assert maxmin(x).tolist() == [[2.0, 1.0, 5.0, -1.0]]
    torch.manual_seed(0)
    y = torch.randn(7, 12)
    assert torch.equal(GroupSort(2)(y), maxmin(y))
    assert torch.equal(
        maxmin(y), y.reshape(7, 6, 2).sort(dim=-1, descending=True).values.flatten(1)
    )


@pytest.mark.parametrize("size", [2, 3, 4, 12])
def test_sorts_keeps_norm_and_is_one_lipschitz(size: int) -> None:
    torch.manual_seed(0)
    layer = GroupSort(size)
    x, y = torch.randn(50, 12), torch.randn(50, 12)
    out = layer(x)
    groups = out.reshape(50, -1, size)
    assert torch.all(groups[..., :-1] >= groups[..., 1:])
    torch.testing.assert_close(out.norm(dim=-1), x.norm(dim=-1))
    moved = (out - layer(y)).norm(dim=-1)
    assert torch.all(moved <= (x - y).norm(dim=-1) * (1 + 1e-6))


def test_wrong_sizes() -> None:
    with pytest.raises(ValueError, match="expected at least 2"):
        GroupSort(1)
    with pytest.raises(ValueError, match="expected a multiple of group_size=3"):
        GroupSort(3)(torch.zeros(1, 4))
