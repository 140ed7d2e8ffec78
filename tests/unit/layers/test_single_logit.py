"""One output for two classes."""

import pytest
import torch
from torch.nn import functional

from layers.single_logit import SingleLogit, logit_head


def test_its_cross_entropy_is_the_binary_cross_entropy() -> None:
    torch.manual_seed(0)
    head, x = logit_head(4, 2, single=True).double(), torch.randn(9, 4, dtype=torch.float64)
    labels = torch.arange(9) % 2
    logits = head(x)
    assert isinstance(head, SingleLogit)
    number = head.linear(x)[:, 0]
    torch.testing.assert_close(
        functional.cross_entropy(logits, labels, reduction="none"),
        functional.binary_cross_entropy_with_logits(number, labels.double(), reduction="none"),
    )
    torch.testing.assert_close(logits.softmax(dim=1)[:, 1], number.sigmoid())
    assert torch.equal(logits.argmax(dim=1), (number > 0).long())


def test_three_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="got single_logit with 3 classes, expected 2"):
        logit_head(4, 3, single=True)
