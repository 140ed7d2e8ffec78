"""R-Drop: equal predictions under two draws of dropout (Liang et al., 2021)."""

from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from lit_modules.adversaries.adversary import AdversarialLoss, Adversary, InnerProblem, TrainingLoop
from text import check_range


class RDrop(Adversary):
    """Adds the divergence of two passes that differ by their dropout only.

    Liang et al., "R-Drop: Regularized Dropout for Neural Networks", 2021, equations 1 to 3, with
    P and Q the predictions of the passes: -log P(y) - log Q(y) + alpha * (KL(P || Q) + KL(Q || P))
    / 2. The loss is half of that: with alpha 0 its scale is that of plain training.
    """

    def __init__(self, *, alpha: float = 1.0) -> None:
        """Keep the settings.

        Args:
            alpha: weight of the divergence, as in the paper: 0.1, 0.5 or 1 on GLUE. The released
                code for GLUE sums the divergence over the batch: its 0.5 with 32 texts is 16 here.
        """
        check_range({"alpha": alpha}, least=0)
        self.alpha = alpha

    def start(self, loop: TrainingLoop) -> None:
        """See `Adversary`.

        Raises:
            ValueError: the classifier has no dropout, so that both passes are equal.
        """
        for module in loop.classifier.modules():
            rate = module.p if isinstance(module, _DropoutNd) else 0.0
            if rate or (isinstance(module, nn.RNNBase) and module.dropout):
                return
        msg = (
            "got RDrop for a classifier without dropout, whose two passes are equal, expected "
            "dropout above 0: --model.classifier.dropout 0.1"
        )
        raise ValueError(msg)

    def step(self, problem: InnerProblem) -> AdversarialLoss:
        """See `Adversary`; two passes forward and back."""
        first = problem.classify(problem.embed())
        second = problem.classify_anew()
        moved = problem.divergence(first, second, symmetric=True) / 2
        loss = (problem.loss(first) + problem.loss(second) + self.alpha * moved) / 2
        return problem.result(loss, clean=first, adversarial=second, values={"divergence": moved})
