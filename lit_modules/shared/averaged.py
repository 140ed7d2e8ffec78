"""A moving average of a classifier's weights, and its logits."""

import torch
from torch import Tensor, nn
from torch.func import functional_call

from lit_modules.shared.task_module import TaskModule
from text import Batch


class AveragedWeights(nn.Module):
    """An exponential moving average of the trained weights; saved with the module it is part of.

    Args:
        classifier: classifier with its weights; the average begins with them.
    """

    def __init__(self, classifier: TaskModule) -> None:
        super().__init__()
        self.names = [name for name, p in classifier.named_parameters() if p.requires_grad]
        weights = dict(classifier.named_parameters())
        # Parameters, though never trained: DDP would synchronise buffers in every step.
        self.weights = nn.ParameterList(
            nn.Parameter(weights[name].detach().clone(), requires_grad=False) for name in self.names
        )

    @torch.no_grad()
    def update(self, classifier: TaskModule, decay: float) -> None:
        """Replace the average by decay * average + (1 - decay) * weights."""
        weights = dict(classifier.named_parameters())
        old: list[Tensor] = list(self.weights)
        new: list[Tensor] = [weights[name] for name in self.names]
        # All weights in one call: a loop would start a kernel for each of them in every step.
        torch._foreach_lerp_(old, new, 1 - decay)

    @torch.no_grad()
    def logits(self, classifier: TaskModule, batch: Batch) -> Tensor:
        """Return logits `[B, C]` of the classifier with the averaged weights."""
        weights = dict(zip(self.names, self.weights, strict=True))
        answer: Tensor = functional_call(classifier, weights, (batch,))
        return answer
