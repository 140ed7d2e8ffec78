"""The base class of certified classifiers: the radius in the loss and in the metrics."""

from typing import Any

import torch
from torch import Tensor

from certify import in_float64, signed_margins
from layers import LipschitzClassifier
from lit_modules.shared.optimisation import Optimisation
from lit_modules.shared.radius_objective import RadiusObjective
from lit_modules.shared.settings import within
from lit_modules.shared.task_module import TaskModule
from lit_modules.shared.word_level import WordLevel
from text import Batch

FULL_PRECISION = ("32-true", "64-true")


class CertifiedClassifier(WordLevel):
    """A classifier whose network may be Lipschitz by construction, trained for a large radius.

    Its metrics `radius` and `radius_correct` (0 where the prediction is wrong) use the formula and
    the precision of the training; certificates are computed by `certify`. Networks other than
    `LipschitzClassifier` have neither.
    """

    def __init__(
        self,
        *,
        objective: RadiusObjective = RadiusObjective(),
        optimisation: Optimisation = Optimisation(warmup=0.1, decay="linear"),
        **base: Any,
    ) -> None:
        """Keep the settings.

        Args:
            objective: the loss, and the reward of a large certified radius.
            optimisation: optimiser and learning rate.
            base: settings of `WordLevel`.
        """
        super().__init__(optimisation=optimisation, **base)
        self.objective = objective

    @property
    def certified(self) -> bool:
        """True if `configure_model` builds a `LipschitzClassifier`."""
        return True

    def unused(self) -> dict[str, str]:
        names = self.objective.unused
        if not self.certified:
            schedule = within("schedule", vars(self.objective.schedule))
            certified = ("margin", "margin_cap", "target_radius", *schedule)
            names = dict.fromkeys(certified, "a network without certificate")
        return super().unused() | within("objective", names)

    def lasting(self) -> dict[str, str]:
        settings = self.objective.lasting if self.certified else {}
        return super().lasting() | within("objective", settings)

    def setup(self, stage: str) -> None:
        super().setup(stage)
        precision = str(self.trainer.precision)
        # Mixed precision keeps float32 weights; only "true" precisions store them in fewer bits.
        if self.certified and precision.endswith("true") and precision not in FULL_PRECISION:
            msg = (
                f"got precision {precision}, expected 32-true, 64-true, bf16-mixed or 16-mixed: "
                "weights of reduced precision cannot be orthogonal enough for a certificate"
            )
            raise ValueError(msg)

    def head_weight(self) -> Tensor | None:
        """`[C, d]` weight of the head; None for a network without certificate."""
        return self.network.head.weight if isinstance(self.network, LipschitzClassifier) else None

    @property
    def no_certificate(self) -> str | None:
        if not self.certified:
            return super().no_certificate
        # A subclass with its own pass has logits that the theorem does not cover.
        own = type(self)
        if own.classify is not TaskModule.classify or own.forward is not TaskModule.forward:
            return f"{own.__name__} has a classify() or forward() that no theorem is about"
        return None

    @property
    def predicts_in_float64(self) -> bool:
        return self.no_certificate is None and isinstance(self.network, LipschitzClassifier)

    def predict_logits(self, batch: Batch) -> Tensor:
        """Return logits of the float64 pass, for which certificates are valid."""
        network = self.network
        if not self.predicts_in_float64 or not isinstance(network, LipschitzClassifier):
            return super().predict_logits(batch)
        # Embeddings have the precision of the model; the network is computed in float64.
        x = self.embed(batch).to(torch.float64)
        logits: Tensor = in_float64(network)(x, batch.mask)
        return logits

    @property
    def own_objective(self) -> bool:
        return self.certified and not self.objective.plain

    @property
    def extra_metrics(self) -> tuple[str, ...]:
        return ("radius", "radius_correct") if self.certified else ()

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        head = self.head_weight()
        if head is None:
            return super().losses(logits, labels)
        return self.objective(logits, labels, head, progress=self.progress())

    def activations(self, batch: Batch) -> list[Tensor]:
        if not isinstance(self.network, LipschitzClassifier) or not self.network.encoder.blocks:
            return super().activations(batch)
        return self.network.encoder.hidden_states(self.embed(batch), batch.mask)[1:]

    def training_values(self, batch: Batch) -> dict[str, Tensor]:
        if not isinstance(self.network, LipschitzClassifier):
            return {}
        metrics = {
            f"train/{name}": torch.tensor(value, device=self.device)
            for name, value in self.objective.current(self.progress()).items()
        }
        scales = self.network.encoder.temperatures(batch.lengths)
        for layer, (alpha_1, alpha_2) in enumerate(scales, start=1):
            metrics[f"alpha_1/layer_{layer}"] = alpha_1
            metrics[f"alpha_2/layer_{layer}"] = alpha_2
        return metrics

    def extra_values(self, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
        head = self.head_weight()
        if head is None:
            return {}
        prediction = logits.argmax(dim=1)
        radius = signed_margins(logits, prediction, head)
        return {"radius": radius, "radius_correct": radius * (prediction == labels)}
