"""ASA's penalty beside the authors' released code, which is written out here."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from layers.attention.masking.learnt_masks import Masks
from layers.attention.masking.masked_attention import masked_attention
from layers.attention.masking.masks import Probabilities
from lit_modules import ASA
from lit_modules.asa import Passes
from tests.unit.lit_modules.encoders import made
from text import TaskName

LAYERS, ROWS, LENGTH, WIDTH, CLASSES = 2, 6, 5, 8, 3
TAU = 0.3
Gradients = list[Tensor]


class Given(Masks):
    """Masks that were drawn before, as the leaves of a graph."""

    def __init__(self, real: Tensor, leaves: list[Tensor]) -> None:
        super().__init__(real)
        self.leaves = leaves

    def choose(self, layer: int, hidden: Tensor, probabilities: Probabilities) -> Tensor:
        del hidden, probabilities
        return self.leaves[layer]


class Example:
    """A random batch under a random encoder of one head, whose masks keep most units."""

    def __init__(self, task: TaskName, *, padded: bool) -> None:
        draw = torch.Generator().manual_seed(4)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=draw, dtype=torch.float64)

        self.task = task
        self.x = normal(ROWS, LENGTH, WIDTH)
        self.maps = normal(LAYERS, 3, WIDTH, WIDTH) / math.sqrt(WIDTH)
        self.head = normal(WIDTH, 1 if task == "choice" else CLASSES)
        lengths = torch.full((ROWS,), LENGTH)
        if padded:
            lengths -= torch.arange(ROWS) % 3
        self.real = torch.arange(LENGTH) < lengths.unsqueeze(1)
        drawn = torch.rand(LAYERS, ROWS, 1, LENGTH, LENGTH, generator=draw) < 0.7
        drawn |= torch.eye(LENGTH, dtype=torch.bool)
        self.kept = drawn & self.real[:, None, None, :]

    def leaves(self) -> list[Tensor]:
        return [kept.double().requires_grad_() for kept in self.kept]

    def logits(self, attend: Any) -> Tensor:
        """Of the task; attend is given a layer, and its query, key and value."""
        x = self.x
        for layer in range(LAYERS):
            maps = [(x @ weight).unsqueeze(1) for weight in self.maps[layer]]
            x = x + attend(layer, *maps).squeeze(1)
        x = x * self.real.unsqueeze(-1)
        if self.task == "tagging":
            return x @ self.head
        answers = x.sum(dim=1) / self.real.sum(dim=1, keepdim=True) @ self.head
        return answers.view(-1, CLASSES) if self.task == "choice" else answers

    def divergence(self, logits: Tensor) -> Tensor:
        """From other logits, as `divergence` of modeling/utils.py."""
        other = torch.linspace(-1, 1, logits.numel(), dtype=torch.float64).view_as(logits)
        div_fct = nn.KLDivLoss(reduction="batchmean")
        divergence = div_fct(other.log_softmax(dim=-1), logits.softmax(dim=-1))
        both: Tensor = divergence + div_fct(logits.log_softmax(dim=-1), other.softmax(dim=-1))
        return both / 2

    def released(self) -> tuple[Gradients, Gradients]:
        """Of D and of the penalty, for the masks: as AsaBertForSequenceClassification has them."""
        masks = self.leaves()

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            mask = (1 - masks[layer]) * -10000.0
            scores = query @ key.transpose(-1, -2) / math.sqrt(WIDTH)
            scores = scores * torch.ge(mask, 0).double() + mask
            weighted: Tensor = scores.softmax(dim=-1) @ value
            return weighted

        vloss = self.divergence(self.logits(attend))
        rloss = sum((mask.sum() / mask.shape[0] for mask in masks), torch.zeros(()))
        return gradients(vloss, masks), gradients(rloss * TAU**2, masks)

    def ours(self, units: int) -> tuple[Gradients, Gradients]:
        """Of D, a mean over units, and of the penalty, for the masks."""
        masks = self.leaves()
        fixed = Given(self.real, masks)

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            keep = fixed(layer, self.x, lambda: torch.zeros(()))
            bias = self.real[:, None, None, :]
            scaling = 1 / math.sqrt(WIDTH)
            return masked_attention(query, key, value, bias=bias, scaling=scaling, keep=keep)

        moved = self.divergence(self.logits(attend)) / units
        module = made(ASA, self.task, tau=TAU)
        labels = torch.zeros(len(self.x), dtype=torch.int64)
        if self.task == "tagging":
            labels = torch.zeros(self.x.shape[:2], dtype=torch.int64)
        return gradients(moved, masks), gradients(module.penalty(fixed, labels), masks)


def gradients(scalar: Tensor, leaves: list[Tensor]) -> Gradients:
    return list(torch.autograd.grad(scalar, leaves, retain_graph=True))


@pytest.mark.parametrize(
    ("task", "padded"),
    [("classification", False), ("classification", True), ("choice", True), ("tagging", False)],
)
def test_the_adversary_weighs_the_penalty_as_the_released_code_does(
    task: TaskName, *, padded: bool
) -> None:
    """At each unit that is kept both gradients are the released ones, but for one common factor."""
    example = Example(task, padded=padded)
    units = LENGTH if task == "tagging" else 1
    real = example.real
    pairs = (real.unsqueeze(-1) & real.unsqueeze(-2)).unsqueeze(1)
    for theirs, ours in zip(example.released(), example.ours(units), strict=True):
        for kept, their, our in zip(example.kept, theirs, ours, strict=True):
            counted = kept & pairs
            assert bool((their[counted] != 0).any())
            torch.testing.assert_close(
                1e4 * units * our[counted], their[counted], rtol=1e-6, atol=1e-9
            )


def test_a_masked_unit_costs_what_a_kept_one_does_and_padding_nothing() -> None:
    example = Example("classification", padded=True)
    pairs = (example.real.unsqueeze(-1) & example.real.unsqueeze(-2)).unsqueeze(1)
    _, penalties = example.ours(1)
    for penalty in penalties:
        assert torch.allclose(
            penalty[pairs], torch.tensor(TAU**2 / 1e4 / ROWS, dtype=torch.float64)
        )
        assert not penalty[~pairs].any()


def test_numbers_diverge_as_in_the_released_code() -> None:
    """Its `divergence` of `[B, 1]` scores reads them as one row, and divides it by B."""
    module = made(ASA, "regression", batch_softmax=True)
    torch.manual_seed(0)
    clean, biased = torch.randn(2, 5, 1).requires_grad_()
    passes = Passes(clean, biased, Given(torch.ones(5, 1, dtype=torch.bool), []))
    ours = module.divergence(passes, torch.zeros(5))
    div_fct = nn.KLDivLoss(reduction="batchmean")
    first, second = clean.view(-1), biased.view(-1)
    theirs = div_fct(first.log_softmax(dim=-1), second.softmax(dim=-1)) / 2
    theirs = theirs + div_fct(second.log_softmax(dim=-1), first.softmax(dim=-1)) / 2
    torch.testing.assert_close(ours, theirs)
    for our, their in zip(
        torch.autograd.grad(ours, (clean, biased)),
        torch.autograd.grad(theirs, (clean, biased)),
        strict=True,
    ):
        torch.testing.assert_close(our, their)
    squared = made(ASA, "regression").divergence(passes, torch.zeros(5))
    torch.testing.assert_close(squared, (clean - biased).square().mean())


def test_only_numbers_share_a_softmax() -> None:
    with pytest.raises(ValueError, match="got batch_softmax=true for a classification, expected"):
        made(ASA, "classification", batch_softmax=True)
