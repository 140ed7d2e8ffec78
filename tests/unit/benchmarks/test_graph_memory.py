"""Memory of graphs, in cases that can be counted by hand."""

import torch
from torch import Tensor

from benchmarks.graph_memory import GraphMemory


def held(*parameters: Tensor) -> GraphMemory:
    return GraphMemory(parameters)


def test_what_a_product_keeps() -> None:
    weight = torch.randn(8, 8, requires_grad=True)
    x = torch.randn(4, 8)
    memory = held(weight)

    def work() -> None:
        hidden = x @ weight  # keeps x, and the weight, which is not counted
        hidden = hidden.sigmoid()  # keeps what it gives
        out = hidden @ weight  # keeps it once more: the same storage
        torch.autograd.backward(out.sum())

    assert memory.of(work) == 2 * 4 * 8 * 4
    assert memory.held == 0


def test_graphs_that_are_freed_count_once() -> None:
    weight = torch.randn(8, requires_grad=True)
    memory = held(weight)

    def once() -> None:
        torch.autograd.backward((weight.exp() * 2).sum())

    def twice() -> None:
        once()
        once()

    def together() -> None:
        first, second = weight.exp(), weight.exp()
        torch.autograd.backward(first.sum() + second.sum())

    assert memory.of(once) == memory.of(twice) == 8 * 4
    assert memory.of(together) == 2 * 8 * 4


def test_views_are_of_one_storage_and_others_may_hold_it() -> None:
    x = torch.randn(6, 4)
    memory = held()
    first, second = memory.holding(x), memory.holding(x[:2].T)
    assert memory.held == memory.peak == 6 * 4 * 4
    del first
    assert memory.held == 6 * 4 * 4
    del second
    assert memory.held == 0


def test_nothing_is_kept_without_gradients() -> None:
    weight = torch.randn(8, requires_grad=True)
    with torch.no_grad():
        assert held(weight).of(lambda: weight.exp().sum()) == 0
