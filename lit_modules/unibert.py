"""UniBERT: a BERT whose attention weights stay unitary, trained with the multi-margin loss.

Source: Chang and Wang, "Unitary Multi-Margin BERT for Robust Natural Language Processing".
docs/methods/unibert.md lists our deviations, and measures the method.
"""

from typing import Any

from torch import Tensor, nn

from layers.weight_names import unitary_weights as find_weights
from lit_modules.fine_tuning import FineTuning
from lit_modules.shared.multi_margin import MarginObjective, logit_gaps, multi_margin_losses
from lit_modules.shared.optimisation import Optimisation
from lit_modules.shared.settings import within
from lit_modules.shared.unitary import Unitary, UnitaryWeights
from text import check_range


class UniBERT(UnitaryWeights, FineTuning, method=True):
    """Fine-tunes an encoder of `transformers`; plain BERT with `unitary` none and cross-entropy."""

    tasks = ("classification",)

    def __init__(
        self,
        *,
        objective: MarginObjective = MarginObjective(),
        unitary: Unitary = Unitary(),
        pretrained_pooler: bool = False,
        head_lr_factor: float = 1.0,
        optimisation: Optimisation = Optimisation(warmup=0.1, decay="linear"),
        **base: Any,
    ) -> None:
        """Keep the settings; layers are built once the vocabulary is known.

        Args:
            objective: loss of the classes: cross-entropy, or a margin.
            unitary: weights that are kept unitary, and the method.
            pretrained_pooler: begin the dense layer of the head with the pooler of the backbone;
                the paper begins at random.
            head_lr_factor: learning rate of the head, in units of the encoder's. The head limits
                the growth of logits: with few steps, a large margin needs a fast head.
            optimisation: optimiser and learning rate.
            base: settings of `FineTuning`.
        """
        super().__init__(pretrained_pooler=pretrained_pooler, optimisation=optimisation, **base)
        check_range({"head_lr_factor": head_lr_factor}, above=0)
        if self.lora.rank and unitary.method != "none":
            msg = (
                f"got lora.rank={self.lora.rank} with unitary.method={unitary.method}, expected "
                "rank 0 or method none: adapters leave the weights of the encoder as they are"
            )
            raise ValueError(msg)
        self.head_lr_factor = head_lr_factor
        self.objective, self.unitary = objective, unitary

    def unused(self) -> dict[str, str]:
        own = within("objective", self.objective.unused) | within("unitary", self.unitary.unused)
        return super().unused() | own

    def configure_model(self) -> None:
        built = hasattr(self, "network")
        super().configure_model()
        if self.unitary.method != "none" and not built:
            # A wrong pattern is an error now, before the run stores its settings.
            find_weights(self, self.unitary.weights)

    def parameter_groups(self) -> list[nn.Parameter] | list[dict[str, Any]]:
        # Two groups, the encoder and the head, which may have different learning rates.
        encoder = {id(p) for p in self.network.backbone.parameters()}
        groups: list[dict[str, Any]] = [{"params": []}, {"params": []}]
        for parameter in (p for p in self.parameters() if p.requires_grad):
            groups[id(parameter) not in encoder]["params"].append(parameter)
        groups[1]["lr_factor"] = self.head_lr_factor
        return groups if self.head_lr_factor != 1 else super().parameter_groups()

    @property
    def own_objective(self) -> bool:
        return self.objective.loss != "cross_entropy"

    @property
    def extra_metrics(self) -> tuple[str, ...]:
        return ("logit_gap", "margin_met") if self.own_objective else ()

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        if not self.own_objective:
            return super().losses(logits, labels)
        return multi_margin_losses(
            logits, labels, margin=self.objective.margin, form=self.objective.form
        )

    def extra_values(self, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return the gap between logits, and 1 where it reaches the margin, else 0."""
        if not self.own_objective:
            return {}
        gap = logit_gaps(logits, labels)
        return {"logit_gap": gap, "margin_met": (gap >= self.objective.margin).float()}
