"""Pre-training of an encoder against an adversary which masks its attention.

Source: Wu et al., "Adversarial Self-Attention for Language Understanding", 2023, equation 10. The
authors have published no code for it. docs/methods/asa.md has our choices where the paper is
silent.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from layers.attention.masking.masks import Masks
from layers.divergence import divergence, symmetric_divergence
from lit_modules.masked_lm import Hidden, MaskedLM, restrict_head, score_guesses
from lit_modules.shared.attention_masking import MaskingSettings
from lit_modules.shared.masked_passes import MaskedAttention
from lit_modules.shared.optimisation import Optimisation
from lit_modules.shared.process_means import batch_weight, global_means
from text import Batch


class EncoderOutputs(NamedTuple):
    """Logits `[M, V]` at the chosen positions, and `[B, d]` last hidden states of first tokens."""

    logits: Tensor
    first: Tensor


class ASAPretraining(MaskedAttention, MaskedLM, method=True):
    """Pre-trains an encoder on hidden tokens, with and without masks of its attention.

    Trains on L_mlm + alpha * (L_t + L_s) + tau * L_c (equation 10, where alpha is 1). L_t is the
    divergence between the guesses without and with masks, a mean over the tokens to guess. L_s is
    that between the last hidden states of the first token, a mean over the samples. The paper does
    not define a divergence of hidden states; we use its KL(p || q), of their softmaxes. For similar
    vectors this is half the variance of their difference, weighted by p: similar for any width, and
    comparable to L_t. L_c is the penalty of `ASA`.
    """

    def __init__(
        self,
        *,
        masking: MaskingSettings = MaskingSettings(tau=0.1),
        optimisation: Optimisation = Optimisation(warmup=0.06, decay="linear"),
        **base: Any,
    ) -> None:
        """Keep the settings; layers are built once the vocabulary is known.

        Args:
            masking: masks of attention while training.
            optimisation: optimiser and learning rate.
            base: settings of `MaskedAttention` and `MaskedLM`.
        """
        super().__init__(masking=masking, optimisation=optimisation, **base)

    def configure_model(self) -> None:
        if hasattr(self, "model"):
            return
        super().configure_model()
        self.bias(self.model, self.model.base_model)

    # Steps

    def read(self, x: Tensor, mask: Tensor, chosen: Tensor) -> EncoderOutputs:
        """Return one pass over word embeddings `[B, N, e]`.

        `mask` and `chosen` are `[B, N]` bool, True at real tokens and at those to guess.
        """
        with restrict_head(self.model, chosen):
            out = self.model(inputs_embeds=x, attention_mask=mask.long(), output_hidden_states=True)
        return EncoderOutputs(out.logits, out.hidden_states[-1][:, 0])

    def passes(self, hidden: Hidden, masks: Masks) -> tuple[EncoderOutputs, EncoderOutputs]:
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
        scored = score_guesses(clean.logits, hidden.words)
        guessed = [*scored, apart(clean.logits, biased.logits)]
        first = apart(clean.first, biased.first).mean()
        parts, means = self.over_guesses(guessed, batch, batch_idx)
        weight = batch_weight(self.trainer, batch_idx)
        loss = parts[0] + self.alpha * (parts[2] + weight * first)
        # Other kinds of masks have no adversary, and no penalty.
        if self.masking.kind == "adversarial":
            loss = loss + weight * self.masking.penalty(masks)
        self.log_passes(means, first.detach(), masks, weight)
        return loss

    def log_passes(self, means: Tensor, first: Tensor, masks: Masks, weight: float) -> None:
        """Log a step.

        `means` are loss, accuracy and divergence over all guesses, `first` is the divergence at the
        first tokens of this process, `weight` its `batch_weight`; the masks are those of the second
        pass.
        """
        metrics = {f"train/masked/layer_{i + 1}": share for i, share in enumerate(masks.masked())}
        # At every step, also with several processes: the curve is a mean over all of them.
        metrics = global_means(self.trainer, {**metrics, "train/divergence_first": first}, weight)
        first = metrics.pop("train/divergence_first")
        metrics["train/masked"] = torch.stack(list(metrics.values())).mean()
        self.masking.note(metrics["train/masked"], self.progress())
        task_loss, accuracy, tokens = means
        self.log_guesses(task_loss + self.alpha * (tokens + first), accuracy)
        metrics |= {"train/divergence_tokens": tokens, "train/divergence_first": first}
        if self.logs_this_step():
            for name, value in {**metrics, "train/task_loss": task_loss}.items():
                self.log(name, value)
