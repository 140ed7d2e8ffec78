"""Pre-training of an encoder against an adversary which masks its attention.

Source: Wu et al., "Adversarial Self-Attention for Language Understanding", 2023, equation 10. There
is no code of the authors for it. What we take where the paper does not say is in
docs/methods/asa.md.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from layers.attention.masking.masks import Masks
from layers.divergence import divergence, symmetric_divergence
from lit_modules.masked_lm import Hidden, MaskedLM, judged, only
from lit_modules.shared.attention_masking import Masking
from lit_modules.shared.masked_passes import MaskedAttention
from lit_modules.shared.optimisation import Optimisation
from lit_modules.shared.process_means import batch_weight, global_means
from text import Batch


class Reading(NamedTuple):
    """The outputs of an encoder for a batch.

    Attributes:
        logits: `[M, V]` of the words in the chosen places.
        first: `[B, d]` the last hidden states of the first tokens.
    """

    logits: Tensor
    first: Tensor


class ASAPretraining(MaskedAttention, MaskedLM, method=True):
    """Pre-trains an encoder on hidden tokens, with and without masks of its attention.

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
        masking: Masking = Masking(tau=0.1),
        optimisation: Optimisation = Optimisation(warmup=0.06, decay="linear"),
        **base: Any,
    ) -> None:
        """Keeps the settings; layers are built once the vocabulary is known.

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
            masks: of the second pass.
            weight: of this process, see `batch_weight`.
        """
        shown = {f"train/masked/layer_{i + 1}": share for i, share in enumerate(masks.masked())}
        # At every step, also with several processes: the curve is that of all of them.
        shown = global_means(self.trainer, {**shown, "train/divergence_first": first}, weight)
        first = shown.pop("train/divergence_first")
        shown["train/masked"] = torch.stack(list(shown.values())).mean()
        self.masking.note(shown["train/masked"], self.progress())
        task_loss, accuracy, tokens = means
        self.log_guesses(task_loss + self.alpha * (tokens + first), accuracy)
        shown |= {"train/divergence_tokens": tokens, "train/divergence_first": first}
        if self.logs_this_step():
            for name, value in {**shown, "train/task_loss": task_loss}.items():
                self.log(name, value)
