"""The multi-margin loss: every wrong logit has to stay a margin below the right one."""

from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor
from torch.nn import functional

from attacks.embeddings.pgd import objective
from text import check_choice, check_range

MarginForm = Literal["sum", "mean"]


@dataclass(frozen=True, kw_only=True)
class MarginObjective:
    """The loss of UniBERT, or cross-entropy as its baseline.

    Attributes:
        loss: multi_margin, or cross_entropy.
        margin: the margin epsilon between right and wrong logits, in units of the logits.
        form: sum over the wrong classes, as the paper; mean over all, as its code.
    """

    loss: Literal["multi_margin", "cross_entropy"] = "multi_margin"
    margin: float = 100.0
    form: MarginForm = "sum"

    def __post_init__(self) -> None:
        """Checks the settings."""
        check_choice("objective.loss", self.loss, ("multi_margin", "cross_entropy"))
        check_choice("objective.form", self.form, get_args(MarginForm))
        check_range({"objective.margin": self.margin}, above=0)

    @property
    def unused(self) -> dict[str, str]:
        """Returns the settings without effect, each with the setting that disables it."""
        names = ("margin", "form") if self.loss == "cross_entropy" else ()
        return dict.fromkeys(names, "objective.loss=cross_entropy")


def multi_margin_losses(
    logits: Tensor, labels: Tensor, *, margin: float, form: MarginForm = "sum"
) -> Tensor:
    """Returns the sums of hinges max(y_j + margin - y_c, 0) over the wrong classes j.

    Chang and Wang, "Unitary Multi-Margin BERT", equation 1. Read literally, its sum also runs over
    j = c, which adds the constant `margin` and changes no gradient; it is left out here.

    Args:
        logits: `[B, C]`.
        labels: `[B]` int64.
        margin: the paper's epsilon, in units of the logits.
        form: `sum` over the wrong classes, as the paper prints it, or that sum over C, as torch's
            `MultiMarginLoss` and the paper's released code have it.

    Returns:
        `[B]`.
    """
    losses: Tensor = functional.multi_margin_loss(logits, labels, margin=margin, reduction="none")
    return losses * logits.shape[1] if form == "sum" else losses


def logit_gaps(logits: Tensor, labels: Tensor) -> Tensor:
    """`[B]`: right logit less the largest wrong one; the loss raises it to the margin."""
    return -objective(logits, labels, "margin")
