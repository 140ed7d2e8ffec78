"""Pre-training of an encoder against an adversary which masks its attention.

Source: Wu et al., "Adversarial Self-Attention for Language Understanding", 2023, equation 10. There
is no code of the authors for it. What we take where the paper does not say is in
docs/methods/asa.md.
"""

from typing import Any, Literal, NamedTuple

import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from layers.attention.masking.masks import Masks
from layers.divergence import divergence, symmetric_divergence
from lit_modules.masked_lm import Hidden, MaskedLM, judged, only
from lit_modules.shared.attention_masking import AttentionMasking, Masking, Penalty, Reversal
from lit_modules.shared.masked_passes import MaskedAttention
from lit_modules.shared.process_means import batch_weight, global_means
from lit_modules.shared.schedule import Decay
from lit_modules.shared.unitary_projection import Unitary
from text import Batch, check_range


class Reading(NamedTuple):
    """What an encoder makes of a batch.

    Attributes:
        logits: `[M, V]` of the words in the chosen places.
        first: `[B, d]` the last hidden states of the first tokens.
    """

    logits: Tensor
    first: Tensor


class ASAPretraining(MaskedAttention, MaskedLM, method=True):
    """Guesses hidden tokens, with masks of its attention as without; the encoder is what is wanted.

    Trains on L_mlm + alpha * (L_t + L_s) + tau * L_c (equation 10, where alpha is 1). L_t is the
    divergence between the guesses without and with masks, a mean over the tokens to guess. L_s is
    that between the last hidden states of the first token, a mean over the samples. The paper does
    not say how vectors that are no distributions diverge; we take what it calls divergence
    everywhere else, KL(p || q), of their softmaxes. For near vectors that is half the variance of
    their difference, weighted by p: of a like size for any width, beside L_t neither lost nor
    alone. L_c is as in `ASA`.
    """

    def __init__(
        self,
        *,
        backbone: str | None = None,
        architecture: dict[str, Any] | None = None,
        vocab_size: int = 8192,
        tokenizer: str | None = None,
        mask_share: float = 0.15,
        token_masking: Literal["dynamic", "fixed"] = "dynamic",
        mask_seed: int = 0,
        masking: Masking = "adversarial",
        tau: float = 0.1,
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
        unitary: Unitary = "none",
        unitary_weights: list[str] | None = None,
        unitary_every: int = 1,
        unitary_gradual_steps: int = 0,
        max_length: int = 128,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        lr_scheduler: LRSchedulerCallable | None = None,
        warmup: float = 0.06,
        decay: Decay = "linear",
    ) -> None:
        """Keep the settings; layers are built once the vocabulary is known.

        Args:
            backbone: folder or hub name of a pretrained encoder to go on with; null: random
                weights.
            architecture: of an encoder with random weights, in place of backbone: model_type (bert,
                roberta, albert, distilbert, deberta, ...) and settings of its configuration.
            vocab_size: word pieces learnt from the training files, for random weights without a
                tokenizer.
            tokenizer: folder or hub name of a tokenizer to use with random weights.
            mask_share: share of the tokens to guess; of these 80 % are hidden behind the mask, 10 %
                behind a random token, and 10 % are shown.
            token_masking: dynamic: other tokens in each epoch; fixed: the same in all. MaskedLM
                calls it masking.
            mask_seed: of the choice of tokens.
            masking: of attention: adversarial: learnt, as the method does; or what it is compared
                with: bernoulli, scheduled (Bernoulli with a schedule), magnitude; or none: plain
                pre-training.
            tau: of the penalty for what the adversary masks; the lower, the more it masks.
            alpha: of both divergences between the passes with and without masks.
            symmetric: KL(p || q) + KL(q || p) in place of KL(p || q), p without masks.
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
            unitary: keep weights unitary by QR factors after every step, as UniBERT; by the nearest
                unitary matrices (polar); or none.
            unitary_weights: regular expressions of names of weights to keep unitary (those of the
                encoder begin with model); null: query, key, value and attention output of every
                layer.
            unitary_every: project after so many steps only.
            unitary_gradual_steps: close the distance to unitary weights over so many steps, in
                place of at once before the first (ours).
            max_length: longest sequence in tokens.
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
            tokenizer=tokenizer,
            mask_share=mask_share,
            masking=token_masking,
            mask_seed=mask_seed,
            unitary=unitary,
            unitary_weights=unitary_weights,
            unitary_every=unitary_every,
            unitary_gradual_steps=unitary_gradual_steps,
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
        if hasattr(self, "model"):
            return
        super().configure_model()
        self.bias(self.model, self.model.base_model)

    # Steps

    def read(self, x: Tensor, mask: Tensor, chosen: Tensor) -> Reading:
        """One pass.

        Args:
            x: `[B, N, e]` word embeddings.
            mask: `[B, N]` bool, True at real tokens.
            chosen: `[B, N]` bool, the tokens to guess.
        """
        with only(self.model, chosen):
            out = self.model(inputs_embeds=x, attention_mask=mask.long(), output_hidden_states=True)
        return Reading(out.logits, out.hidden_states[-1][:, 0])

    def passes(self, hidden: Hidden, masks: Masks) -> tuple[Reading, Reading]:
        """Both passes, without masks and with them; tokens are hidden and embedded once."""
        batch, chosen, _ = hidden
        x = self.model.get_input_embeddings()(batch.input_ids)
        return self.twice(lambda: self.read(x, batch.mask, chosen), masks)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        masks = self.masks(batch)
        if masks is None:
            return super().training_step(batch, batch_idx)
        hidden = self.hide(batch, epoch=self.choice)
        clean, biased = self.passes(hidden, masks)
        apart = symmetric_divergence if self.symmetric else divergence
        guessed = [*judged(clean.logits, hidden.words), apart(clean.logits, biased.logits)]
        first = apart(clean.first, biased.first).mean()
        parts, means = self.over_guesses(guessed, batch, batch_idx)
        weight = batch_weight(self.trainer, batch_idx)
        loss = parts[0] + self.alpha * (parts[2] + weight * first)
        if self.masking.kind == "adversarial":
            loss = loss + weight * self.masking.penalty(masks)
        self.log_passes(means, first.detach(), masks, weight)
        return loss

    def log_passes(self, means: Tensor, first: Tensor, masks: Masks, weight: float) -> None:
        """Log a step.

        Args:
            means: over all guesses: loss, accuracy, divergence.
            first: the divergence at the first tokens, of this process.
            masks: what was masked.
            weight: of this process, see `batch_weight`.
        """
        shown = {f"train/masked/layer_{i + 1}": share for i, share in enumerate(masks.masked())}
        # At every step, also with several processes: the curve is that of all of them.
        shown = global_means(self.trainer, {**shown, "train/divergence_first": first}, weight)
        first = shown.pop("train/divergence_first")
        shown["train/masked"] = torch.stack(list(shown.values())).mean()
        self.masking.note(shown["train/masked"], self.progress)
        task_loss, accuracy, tokens = means
        self.log_guesses(task_loss + self.alpha * (tokens + first), accuracy)
        shown |= {"train/divergence_tokens": tokens, "train/divergence_first": first}
        if self.logs_this_step():
            for name, value in {**shown, "train/task_loss": task_loss}.items():
                self.log(name, value)
