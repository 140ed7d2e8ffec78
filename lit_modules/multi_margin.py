"""The multi-margin loss: every wrong logit has to stay a margin below the right one."""

from typing import Literal

from torch import Tensor
from torch.nn import functional

MarginForm = Literal["sum", "mean"]
FORMS: tuple[MarginForm, ...] = ("sum", "mean")


def multi_margin_loss(
    logits: Tensor, labels: Tensor, *, margin: float, form: MarginForm = "sum"
) -> Tensor:
    """Mean over samples of the hinges max(y_j + margin - y_c, 0) of the wrong classes j.

    Chang and Wang, "Unitary Multi-Margin BERT", equation 1. Read literally, its sum also runs over
    j = c, which adds the constant `margin` and changes no gradient; it is left out here.

    Args:
        logits: `[B, C]`.
        labels: `[B]` int64.
        margin: the paper's epsilon, in units of the logits.
        form: `sum` over the wrong classes, as the paper prints it, or that sum over C, as torch's
            `MultiMarginLoss` and the paper's released code have it.

    Returns:
        A scalar.
    """
    loss: Tensor = functional.multi_margin_loss(logits, labels, margin=margin)
    return loss * logits.shape[1] if form == "sum" else loss
