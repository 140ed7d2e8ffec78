"""ASA: an encoder that is trained against an adversary which masks its attention.

Source: Wu et al., "Adversarial Self-Attention for Language Understanding", 2023, equations 5 to 9
and Table 3. docs/methods/asa.md lists the differences between the paper, its code and this module.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from layers.attention.masking.masks import Masks
from layers.attention.masking.rules import RuleMasks
from layers.divergence import symmetric_divergence
from layers.noise import row_seeds, sample_seeds
from lit_modules.fine_tuning import FineTuning
from lit_modules.shared.masked_passes import MaskedAttention
from lit_modules.shared.process_means import batch_weight, global_means
from lit_modules.shared.task_module import labels_of
from text import Batch
from text.run_seed import run_seed

MASK_FIGURES = ("masked", "divergence", "divergence_chance", "masked_loss", "chance_loss")
"""Figures of a test of an adversary, see `ASA.mask_figures`."""


class Passes(NamedTuple):
    """Logits of the two passes of a training step, without masks and with these masks."""

    clean: Tensor
    biased: Tensor
    masks: Masks


class ASA(MaskedAttention, FineTuning, method=True):
    """Fine-tunes an encoder against masks of its attention; predictions use no masks.

    Trains on loss + alpha * D + tau * L_c (equation 9): D is the divergence of the prediction with
    masks from the one without, L_c the share of attention that is kept. With a gradient reversal,
    the adversary maximises the last two: it changes the prediction, and masks little.
    """

    def __init__(self, *, batch_softmax: bool = False, **base: Any) -> None:
        """Keep the settings.

        Args:
            batch_softmax: train a regression with D of the released code: half of the symmetric KL
                divergence between the softmaxes over the numbers of a batch, for each text of it.
                It depends on the batch, and with several processes on their number. false: the
                squared difference of a text's numbers.
            base: settings of `MaskedAttention` and `FineTuning`.
        """
        super().__init__(**base)
        self.batch_softmax = batch_softmax

    def unused(self) -> dict[str, str]:
        kind = self.masking.settings.kind
        own = {"batch_softmax": f"masking.kind={kind}"} if kind == "none" else {}
        return super().unused() | own

    def configure_model(self) -> None:
        if hasattr(self, "network"):
            return
        if self.batch_softmax and self.task.name != "regression":
            msg = (
                f"got batch_softmax=true for a {self.task.name}, expected false: only numbers have "
                "no softmax of their own"
            )
            raise ValueError(msg)
        super().configure_model()
        self.bias(self.network, self.network.backbone.encoder)

    # Steps

    def divergence(self, passes: Passes, labels: Tensor) -> Tensor:
        """D of the two passes, a mean over units."""
        clean, biased = passes.clean, passes.biased
        if self.batch_softmax and self.task.name == "regression":
            # `batchmean` of the released code divides by the one batch as if it had B rows.
            return symmetric_divergence(clean.squeeze(-1), biased.squeeze(-1)) / 2 / len(labels)
        return self.task.divergence(clean, biased, labels, symmetric=self.symmetric)

    def passes(self, batch: Batch, masks: Masks) -> Passes:
        """Both passes over a batch, whose tokens are embedded once."""
        x = self.embed(batch)
        clean, biased = self.twice(lambda: self.classify(x, batch.mask), masks)
        return Passes(clean, biased, masks)

    def penalty(self, masks: Masks, labels: Tensor) -> Tensor:
        """Tau * L_c of a batch, from the masks of its pass and labels in the form of the task."""
        # As the divergence: a mean over units, which of a tagging are the words.
        units = self.task.units(labels).sum().clamp_min(1) / len(labels)
        return self.masking.penalty(masks, units)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        masks = self.masks(batch)
        if masks is None:
            return super().training_step(batch, batch_idx)
        labels = labels_of(batch)
        passes = self.passes(batch, masks)
        task_loss = self.loss(passes.clean, labels)
        moved = self.divergence(passes, labels)
        weight = self.step_weight(batch, batch_idx)
        loss = weight * (task_loss + self.alpha * moved)
        samples = batch_weight(self.trainer, batch_idx)
        if self.masking.kind == "adversarial":
            # The released form is a mean over units; the others are means over samples.
            by_unit = self.masking.settings.penalty == "released"
            loss = loss + (weight if by_unit else samples) * self.penalty(masks, labels)
        metrics = {"train/loss": (task_loss + self.alpha * moved).detach()}
        if self.logs_this_step():
            metrics |= {"train/task_loss": task_loss.detach(), "train/divergence": moved.detach()}
            metrics |= self.answers(passes.clean, labels)
        self.log_step(metrics, weight, size=len(batch))
        shares = {f"train/masked/layer_{i + 1}": share for i, share in enumerate(masks.masked())}
        # At every step, also with several processes: the curve is a mean over all of them.
        shares = global_means(self.trainer, shares, samples)
        shares["train/masked"] = torch.stack(list(shares.values())).mean()
        self.masking.note(shares["train/masked"], self.progress())
        if self.logs_this_step():
            for name, share in shares.items():
                self.log(name, share, batch_size=len(batch))
        return loss

    # The adversary, tested

    @property
    def mean_names(self) -> Sequence[str]:
        return (*super().mean_names, *MASK_FIGURES)

    def test_step(self, batch: Batch, batch_idx: int) -> dict[str, Tensor]:
        outcome = super().test_step(batch, batch_idx)
        if self.masking.kind == "adversarial":
            self.accumulate(self.test_means, self.mask_figures(batch), batch_idx)
        return outcome

    def on_test_epoch_end(self) -> None:
        super().on_test_epoch_end()
        if self.masking.kind == "adversarial":
            self.log_means("test", self.test_means.take(MASK_FIGURES))

    def mask_figures(self, batch: Batch) -> dict[str, Tensor]:
        """Return figures of the adversary's masks, and of as many units masked by chance.

        They are `[B]` each, without dropout: `masked`, the share of the units (`[R]`, a mean over
        layers); `divergence` of the prediction with these masks from the one without, and
        `masked_loss`, the loss with them; `divergence_chance` and `chance_loss`, the same with
        Bernoulli masks of the same share in each layer of each text. Of a tagging, means over the
        words of a text.
        """
        labels = labels_of(batch)
        # Not the epoch of the trainer: a test at the end of a fit and a later one draw the same.
        seeds, others = (
            row_seeds(sample_seeds(batch.sample_ids, seed=run_seed(), epoch=draw), batch.choices)
            for draw in range(2)
        )
        masks = self.masking.masks(batch.mask, seeds)
        assert masks is not None  # the kind is adversarial
        clean, masked = self(batch), self.masked_logits(batch, masks)
        shares = 1 - torch.stack(masks.kept)
        chance = self.masked_logits(
            batch, RuleMasks("bernoulli", shares, real=batch.mask, seeds=others)
        )
        units = self.task.units(labels).clamp_min(1)
        figures = {
            "divergence": self.task.divergences(clean, masked, labels),
            "divergence_chance": self.task.divergences(clean, chance, labels),
            "masked_loss": self.task.losses(masked, labels),
            "chance_loss": self.task.losses(chance, labels),
        }
        means = {name: figure / units for name, figure in figures.items()}
        return {"masked": shares.mean(dim=0), **means}

    def masked_logits(self, batch: Batch, masks: Masks) -> Tensor:
        """Return logits of a batch with masked attention."""
        with self.attention.masked(masks):
            logits: Tensor = self(batch)
        return logits
