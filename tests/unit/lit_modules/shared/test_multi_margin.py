"""The multi-margin loss against its definition, sample by sample and class by class."""

import pytest
import torch
from torch import Tensor

from lit_modules.shared.multi_margin import MarginForm, logit_gaps, multi_margin_losses

FORMS: tuple[MarginForm, ...] = ("sum", "mean")
forms = pytest.mark.parametrize("form", FORMS)


def by_hand(logits: Tensor, labels: Tensor, margin: float, form: MarginForm) -> float:
    total = 0.0
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        hinges = [max(y + margin - row[label], 0.0) for j, y in enumerate(row) if j != label]
        total += sum(hinges) / (1 if form == "sum" else len(row))
    return total / len(logits)


@forms
@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("margin", [0.5, 1.0, 10.0, 100.0])
def test_against_the_definition(form: MarginForm, classes: int, margin: float) -> None:
    generator = torch.Generator().manual_seed(classes)
    logits = 5 * torch.randn(20, classes, generator=generator)
    labels = torch.randint(classes, (20,), generator=generator)
    loss = float(multi_margin_losses(logits, labels, margin=margin, form=form).mean())
    assert loss == pytest.approx(by_hand(logits, labels, margin, form), rel=1e-5)


def test_the_sum_is_the_default() -> None:
    logits, labels = torch.tensor([[0.0, 1.0, -1.0]]), torch.tensor([0])
    assert float(multi_margin_losses(logits, labels, margin=2.0)) == pytest.approx(4.0)
    assert float(multi_margin_losses(logits, labels, margin=2.0, form="mean")) == pytest.approx(
        4 / 3
    )


def test_gaps() -> None:
    logits = torch.tensor([[3.0, 1.0, -2.0], [3.0, 1.0, -2.0], [0.0, 0.0, -9.0]])
    assert logit_gaps(logits, torch.tensor([0, 1, 0])).tolist() == [2.0, -2.0, 0.0]


def test_nothing_to_gain_beyond_the_margin() -> None:
    logits = torch.tensor([[101.0, 0.0, 1.0]], requires_grad=True)
    loss = multi_margin_losses(logits, torch.tensor([0]), margin=100.0)
    torch.autograd.backward(loss)
    assert float(loss.detach()) == 0
    assert logits.grad is not None
    assert not logits.grad.any()


@forms
def test_gradient(form: MarginForm) -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(6, 4, dtype=torch.float64, generator=generator).requires_grad_()
    labels = torch.tensor([0, 1, 2, 3, 0, 1])
    for margin in (0.7, 50.0):
        assert torch.autograd.gradcheck(
            lambda y, m=margin: multi_margin_losses(y, labels, margin=m, form=form), (logits,)
        )
