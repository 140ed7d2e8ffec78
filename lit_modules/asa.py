"""ASA: an encoder that is trained against an adversary which masks its attention.

Source: Wu et al., "Adversarial Self-Attention for Language Understanding", 2023, equations 5 to 9
and Table 3. Where the released code differs from the paper, and where we differ from both, is in
docs/methods/asa.md.
"""

from typing import Any, NamedTuple

import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from layers.attention.masking.learnt_masks import Masks
from layers.backbones import Pooling
from lit_modules.fine_tuning import FineTuning
from lit_modules.shared.attention_masking import AttentionMasking, Masking, Penalty, Reversal
from lit_modules.shared.masked_passes import MaskedAttention
from lit_modules.shared.process_means import batch_weight, global_means
from lit_modules.shared.schedule import Decay
from lit_modules.shared.task_module import labels_of
from text import Batch, check_range


class Passes(NamedTuple):
    """What a training step has computed.

    Attributes:
        clean: logits without masks.
        biased: logits with them.
        masks: what was masked.
    """

    clean: Tensor
    biased: Tensor
    masks: Masks


class ASA(MaskedAttention, FineTuning, method=True):
    """Fine-tunes an encoder against masks of its attention; answers as the plain encoder does.

    Trains on loss + alpha * D + tau * L_c (equation 9): D is how far the prediction under the masks
    is from the one without, L_c what is kept of the attention. The adversary, behind a
    gradient reversal, maximises the last two: it changes the prediction, and masks little.
    """

    def __init__(
        self,
        *,
        backbone: str | None = None,
        architecture: dict[str, Any] | None = None,
        vocab_size: int = 8192,
        masking: Masking = "adversarial",
        tau: float = 0.3,
        alpha: float = 1.0,
        symmetric: bool = False,
        penalty: Penalty = "released",
        temperature: float = 1.0,
        noise: bool = True,
        per_head: bool = False,
        initial_keep: float = 0.8,
        reversal: float = 1.0,
        reversal_schedule: Reversal = "constant",
        adversary_lr_factor: float = 1.0,
        shared_dropout: bool = True,
        share: float = 0.1,
        schedule: list[float] | None = None,
        pooling: Pooling = "first",
        pretrained_pooler: bool = True,
        dropout: float = 0.1,
        backbone_dropout: float | None = None,
        max_length: int = 128,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        lr_scheduler: LRSchedulerCallable | None = None,
        warmup: float = 0.06,
        decay: Decay = "linear",
    ) -> None:
        """Keep the settings; layers are built once the vocabulary is known.

        Args:
            backbone: folder or hub name of a pretrained encoder, such as runs/NAME/backbone, which
                pre-training writes; null begins with random weights.
            architecture: of an encoder with random weights, in place of backbone: model_type (bert,
                roberta, albert, distilbert, deberta, ...) and settings of its configuration.
            vocab_size: word pieces learnt from the training split, for an encoder with random
                weights.
            masking: adversarial: learnt, as the method does; or what it is compared with (Table 3):
                bernoulli, scheduled (Bernoulli with a schedule), magnitude; or none: plain
                fine-tuning.
            tau: of the penalty for what the adversary masks; the lower, the more it masks.
            alpha: of the divergence between the predictions with and without masks.
            symmetric: KL(p || q) + KL(q || p) in place of KL(p || q), p without masks. The squared
                difference of a regression is either.
            penalty: released: tau^2 times the number of units that are kept, in all layers, as
                strong beside the divergence as in the released code: the paper's tau are for this
                form; mean: tau times the share that is kept; sum: tau times the number.
            temperature: of the sigmoid whose derivative stands in for that of the masks.
            noise: draw the masks (logistic noise); else mask what has a negative score.
            per_head: a mask for each attention head, not one for all.
            initial_keep: share of the units that are kept before anything is learnt.
            reversal: coefficient of the gradient reversal.
            reversal_schedule: constant, or rising from 0 (Ganin and Lempitsky, 2015).
            adversary_lr_factor: learning rate of the adversary, in that of the encoder.
            shared_dropout: both passes drop the same, so that the divergence is what the masks do;
                false: each pass draws anew, as in the released code.
            share: of the units that bernoulli and magnitude mask.
            schedule: for scheduled: shares at equal distances from the beginning to the end of
                training, such as those that ASA has masked (see docs/methods/asa.md).
            pooling: what of the last layer is judged: the first token, or the mean; tagging judges
                each token.
            pretrained_pooler: with pooling first, begin the dense layer of the head with the pooler
                that came with the backbone, as BERT is fine-tuned; at random where none came.
            dropout: in the head, while training.
            backbone_dropout: in the encoder, while training; null: as its configuration says.
            max_length: longest text in tokens; longer ones are cut, and counted.
            optimizer: optimiser of all trainable parameters.
            lr_scheduler: scheduler stepped once an epoch, in place of warmup and decay.
            warmup: share of all steps over which the learning rate rises from zero, or, above 1,
                their number.
            decay: shape of its way back to zero after that.
        """
        super().__init__(
            backbone=backbone,
            architecture=architecture,
            vocab_size=vocab_size,
            pooling=pooling,
            pretrained_pooler=pretrained_pooler,
            dropout=dropout,
            backbone_dropout=backbone_dropout,
            max_length=max_length,
            optimizer=optimizer,
            lr_scheduler=lr_scheduler,
            warmup=warmup,
            decay=decay,
        )
        check_range({"alpha": alpha}, least=0)
        check_range({"adversary_lr_factor": adversary_lr_factor}, above=0)
        self.masking = AttentionMasking(
            masking,
            tau=tau,
            penalty=penalty,
            temperature=temperature,
            noise=noise,
            per_head=per_head,
            initial_keep=initial_keep,
            reversal=reversal,
            reversal_schedule=reversal_schedule,
            share=share,
            schedule=schedule,
        )
        self.alpha, self.symmetric = alpha, symmetric
        self.adversary_lr_factor = adversary_lr_factor
        self.shared_dropout = shared_dropout

    def configure_model(self) -> None:
        if hasattr(self, "network"):
            return
        super().configure_model()
        self.bias(self.network, self.network.backbone.encoder)

    # Steps

    def passes(self, batch: Batch, masks: Masks) -> Passes:
        """Both passes over a batch, whose tokens are embedded once."""
        x = self.embed(batch)
        clean, biased = self.twice(lambda: self.classify(x, batch.mask), masks)
        return Passes(clean, biased, masks)

    def penalty(self, masks: Masks, labels: Tensor) -> Tensor:
        """Tau * L_c of a batch.

        Args:
            masks: of its pass.
            labels: as the task has them.
        """
        # As the divergence: a mean over units, which of a tagging are the words.
        units = self.task.units(labels).sum().clamp_min(1) / len(labels)
        return self.masking.penalty(masks, units)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        masks = self.masks(batch)
        if masks is None:
            return super().training_step(batch, batch_idx)
        labels = labels_of(batch)
        found = self.passes(batch, masks)
        task_loss = self.loss(found.clean, labels)
        moved = self.task.divergence(found.clean, found.biased, labels, symmetric=self.symmetric)
        weight = self.step_weight(batch, batch_idx)
        loss = weight * (task_loss + self.alpha * moved)
        samples = batch_weight(self.trainer, batch_idx)
        if self.masking.kind == "adversarial":
            # Released, it is a mean over units; the other forms are means over samples.
            by_unit = self.masking.penalty_form == "released"
            loss = loss + (weight if by_unit else samples) * self.penalty(masks, labels)
        shown = {"train/loss": (task_loss + self.alpha * moved).detach()}
        if self.logs_this_step():
            shown |= {"train/task_loss": task_loss.detach(), "train/divergence": moved.detach()}
            shown |= self.answers(found.clean, labels)
        self.log_step(shown, weight, size=len(batch))
        named = {f"train/masked/layer_{i + 1}": share for i, share in enumerate(masks.masked())}
        # At every step, also with several processes: the curve is that of all of them.
        named = global_means(self.trainer, named, samples)
        named["train/masked"] = torch.stack(list(named.values())).mean()
        self.masking.note(named["train/masked"], self.progress)
        if self.logs_this_step():
            for name, share in named.items():
                self.log(name, share, batch_size=len(batch))
        return loss
