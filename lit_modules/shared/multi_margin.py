"""The multi-margin loss: every wrong logit must be a margin below the right one."""

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
        form: sum over the wrong classes, as in the paper; mean over all, as in its code.
    """

    loss: Literal["multi_margin", "cross_entropy"] = "multi_margin"
    margin: float = 100.0
    form: MarginForm = "sum"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_choice("objective.loss", self.loss, ("multi_margin", "cross_entropy"))
        check_choice("objective.form", self.form, get_args(MarginForm))
        check_range({"objective.margin": self.margin}, above=0)

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings without effect, each with the setting that disables it."""
        names = ("margin", "form") if self.loss == "cross_entropy" else ()
        return dict.fromkeys(names, "objective.loss=cross_entropy")


def multi_margin_losses(
    logits: Tensor, labels: Tensor, *, margin: float, form: MarginForm = "sum"
) -> Tensor:
    """`[B]`: sums of hinges max(y_j + margin - y_c, 0) over the wrong classes j.

    Chang and Wang, "Unitary Multi-Margin BERT", equation 1. Logits are `[B, C]`, labels `[B]`
    int64; the margin is the paper's epsilon, in units of the logits. The form is `sum` over the
    wrong classes, as printed in the paper, or that sum divided by C, as in torch's
    `MultiMarginLoss` and the paper's released code.
    """
    # The paper's sum includes j = c, which only adds the constant `margin`; torch leaves it out.
    losses: Tensor = functional.multi_margin_loss(logits, labels, margin=margin, reduction="none")
    return losses * logits.shape[1] if form == "sum" else losses


def logit_gaps(logits: Tensor, labels: Tensor) -> Tensor:
    """`[B]`: right logit less the largest wrong one; the loss raises it to the margin."""
    return -objective(logits, labels, "margin")
