"""Training at a temperature, and calibration after it (Raina et al., 2024; Guo et al., 2017)."""

import torch
from torch import Tensor, nn

from lit_modules.adversaries.adversary import AdversarialLoss, Adversary, InnerProblem, TrainingLoop
from lit_modules.shared.task_module import TaskModule
from text import check_range

LIMIT = 100.0
"""Largest temperature of a calibration; the smallest is its inverse."""


class TemperatureScaling(Adversary):
    """Trains on logits divided by a temperature, and rewards uncertain predictions.

    Raina et al., "Extreme Miscalibration and the Illusion of Adversarial Robustness", 2024: the
    loss of softmax(z / T) in training, and z calibrated afterwards, so that no attack is misled by
    saturated scores. The entropy term is our reading of TTSO++ (Wang and Lin, "Tougher Text,
    Smarter Models", 2025): loss - entropy * H(softmax(z / T)).
    """

    tasks = ("classification", "choice")

    def __init__(
        self, *, temperature: float = 5.0, entropy: float = 0.0, calibrate: bool = True
    ) -> None:
        """Keep the settings.

        Args:
            temperature: T in training; 1 is plain training.
            entropy: weight of the entropy of the predictions, in nats.
            calibrate: divide the output layer by the temperature with the smallest loss on the
                validation split, after the training (Guo et al., "On Calibration of Modern Neural
                Networks", 2017, section 4.2). Predicted classes stay the same.
        """
        check_range({"temperature": temperature}, above=0)
        check_range({"entropy": entropy}, least=0)
        self.temperature, self.entropy, self.calibrate = temperature, entropy, calibrate

    def start(self, loop: TrainingLoop) -> None:
        """See `Adversary`.

        Raises:
            ValueError: a calibration of a classifier whose output layer cannot be divided.
        """
        if self.calibrate:
            output_weights(loop.classifier)

    def step(self, problem: InnerProblem) -> AdversarialLoss:
        """See `Adversary`; one pass forward and back."""
        clean = problem.classify(problem.embed())
        scaled = clean / self.temperature
        p = scaled.float().log_softmax(dim=1)
        entropy = -(p.exp() * p).sum(dim=1).mean()
        loss = problem.loss(scaled) - self.entropy * entropy
        return problem.result(loss, clean=clean, adversarial=clean, values={"entropy": entropy})


def output_weights(classifier: TaskModule) -> list[nn.Parameter]:
    """Return weight and bias of the output layer, to which logits are proportional.

    Raises:
        ValueError: there is no such layer, or the classifier has certificates.
    """
    layer = classifier.output_layer
    proportional = classifier.applies_output_layer and classifier.no_certificate is not None
    if type(layer) is not nn.Linear or not proportional:
        msg = (
            f"got calibrate=true for {classifier.method}, expected a method without certificates "
            "and with a linear output layer: --model.adversary.calibrate false"
        )
        raise ValueError(msg)
    return list(layer.parameters())


def best_temperature(logits: Tensor, labels: Tensor) -> float:
    """Return the temperature with the smallest cross-entropy, within `LIMIT` and its inverse.

    Logits are `[n, C]`, labels `[n]` classes.
    """
    z = logits.to(torch.float64)
    right = z.gather(1, labels.unsqueeze(1)).squeeze(1)
    low, high = -torch.tensor(LIMIT).log().item(), torch.tensor(LIMIT).log().item()
    # The loss is convex in 1 / T, with the derivative E[z] - z_y: bisection on the logarithm.
    for _ in range(60):
        middle = (low + high) / 2
        slope = (((z * torch.tensor(middle).exp()).softmax(dim=1) * z).sum(dim=1) - right).mean()
        low, high = (low, middle) if slope > 0 else (middle, high)
    return float(torch.tensor(-(low + high) / 2).exp())
