"""Distributions over the tokens of a text that the victim's gradient makes adversarial.

Source: Guo, Sablayrolles, Jegou, Kiela, "Gradient-based Adversarial Attacks against Text
Transformers", 2021 (GBDA), section 3. Texts are optimised one after the other: a batch of others
would change the rounding, and in 100 steps the text.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from attacks.document import Document
from attacks.victims.distribution_settings import DistributionSettings
from attacks.victims.kinds import InvalidAnswers
from attacks.victims.saliency import in_mode
from attacks.victims.token_models import TokenizedText, TokenModel
from text.token_pieces import TokenPiece


def draw_texts(
    model: TokenModel,
    document: Document,
    columns: Set[int],
    *,
    label: int,
    target: int | None,
    count: int,
    seed: int,
    settings: DistributionSettings,
) -> list[tuple[str, ...]]:
    """Optimise the distribution of a text, and draw texts from it.

    Args:
        model: the victim.
        document: the text.
        columns: numbers of the texts of a pair that may change.
        label: class to leave.
        target: class to reach; any other one if None.
        count: number of texts.
        seed: of the random numbers.
        settings: of the optimisation.

    Raises:
        InvalidAnswers: a NaN gradient.
    """
    encoded = model.encode(document.text)
    free = [i for i, span in enumerate(encoded.spans) if span.start < span.end]
    free = [i for i in free if encoded.spans[i].text in columns]
    if not free:
        return []
    # The engine may be called under inference mode, where nothing could be differentiated.
    with torch.inference_mode(False), torch.enable_grad(), in_mode(model.module, training=False):
        table = model.table.weight.detach().float().clone()
        ids = torch.tensor(encoded.ids, device=table.device)
        loss = DistributionLoss(
            encoded.logits, table, ids, free, label=label, target=target, settings=settings
        )
        generator = torch.Generator(device=table.device).manual_seed(seed)
        real = [i for i, piece in enumerate(model.pieces) if piece is not None]
        start = torch.full((len(free), len(table)), -torch.inf, device=table.device)
        # Special tokens are never drawn: they have no text.
        start[:, real] = 0.0
        start[torch.arange(len(free)), ids[free]] = settings.initial
        log_coefficients = optimise(loss, start, settings, generator)
        if torch.isnan(log_coefficients).any():
            reason = "got NaN gradients, expected numbers"
            msg = f"{reason}, for {document.text!r:.200}"
            raise InvalidAnswers(msg, {document.text: reason})
        drawn = [
            (log_coefficients + _gumbel((), log_coefficients, generator)).argmax(dim=-1).tolist()
            for _ in range(count)
        ]
    return [
        write_tokens(document, encoded, dict(zip(free, new, strict=True)), model.pieces)
        for new in drawn
    ]


class DistributionLoss:
    """The loss of a batch of mixed tokens: equation 4 of the paper.

    Args:
        logits: see `TokenizedText`.
        table: `[V, d]` embeddings of all tokens.
        ids: `[N]` tokens of the text.
        free: positions of the F tokens that may change.
        label: class to leave.
        target: class to reach, or None.
        settings: weights of its terms.
    """

    def __init__(
        self,
        logits: Any,
        table: Tensor,
        ids: Tensor,
        free: Sequence[int],
        *,
        label: int,
        target: int | None,
        settings: DistributionSettings,
    ) -> None:
        self._logits, self._table, self._settings = logits, table, settings
        self._label, self._target = label, target
        self._free = torch.tensor(list(free), device=ids.device)
        self._embedded = table[ids]
        lm = settings.language_model
        self._lm = None if lm is None else lm.model.to(table.device).eval()
        if self._lm is not None:
            # Both models have the same tokens, but either may pad its table with further rows.
            self._lm_table = self._lm.get_input_embeddings().weight.detach()[: len(table)]
            self._fixed = functional.one_hot(ids, len(self._lm_table)).to(table.dtype)
            with torch.no_grad():
                states = self._lm(
                    inputs_embeds=self._lm_table[ids][None], output_hidden_states=True
                )
            self._reference = states.hidden_states[-1][0, self._free]

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return the loss of S mixtures of tokens `[S, F, V]`."""
        settings, count = self._settings, len(tokens)
        mixed = tokens @ self._table
        x = self._embedded.expand(count, -1, -1).index_copy(1, self._free, mixed)
        loss = margin_loss(self._logits(x), self._label, self._target, settings.margin)
        if self._lm is None:
            # Without a language model: the embeddings themselves.
            return loss - settings.similarity * recall(self._embedded[self._free], mixed)
        tokens = tokens[..., : len(self._lm_table)]
        all_tokens = self._fixed.expand(count, -1, -1).index_copy(1, self._free, tokens)
        out = self._lm(inputs_embeds=all_tokens @ self._lm_table, output_hidden_states=True)
        similar = recall(self._reference, out.hidden_states[-1][:, self._free])
        surprise = log_perplexity(out.logits, all_tokens)
        return loss - settings.similarity * similar + settings.fluency * surprise


def optimise(
    loss: Callable[[Tensor], Tensor],
    start: Tensor,
    settings: DistributionSettings,
    generator: torch.Generator,
) -> Tensor:
    """Return the log-coefficients `[F, V]` that Adam finds from others."""
    log_coefficients = start.clone().requires_grad_()
    optimiser = torch.optim.Adam([log_coefficients], lr=settings.rate)
    for _ in range(settings.iterations):
        noise = _gumbel((settings.draws,), log_coefficients, generator)
        value = loss((log_coefficients + noise).softmax(dim=-1))
        # No gradient reaches the parameters of the victim.
        (log_coefficients.grad,) = torch.autograd.grad(value, log_coefficients)
        optimiser.step()
    return log_coefficients.detach()


def margin_loss(logits: Tensor, label: int, target: int | None, margin: float) -> Tensor:
    """Return the mean over the batch of how much the lead of the goal falls short of a margin."""
    own = label if target is None else target
    rivals = torch.cat([logits[:, :own], logits[:, own + 1 :]], dim=1).amax(dim=1)
    lead = logits[:, own] - rivals
    return ((lead if target is None else -lead) + margin).clamp_min(0).mean()


def recall(reference: Tensor, states: Tensor) -> Tensor:
    """Return the mean over reference states `[F, e]` of the largest cosine with `[S, F, e]`.

    It is BERTScore's recall with equal weights (Zhang et al., 2020, equation 1).
    """
    cosines = functional.normalize(reference, dim=-1) @ functional.normalize(states, dim=-1).mT
    return cosines.amax(dim=-1).mean()


def log_perplexity(logits: Tensor, tokens: Tensor) -> Tensor:
    """Return the mean cross-entropy of mixed tokens `[S, N, V]` after the tokens before them."""
    if tokens.shape[1] < 2:
        return tokens.new_zeros(())
    predicted = logits[:, :-1, : tokens.shape[2]].log_softmax(dim=-1)
    return -(tokens[:, 1:] * predicted).sum(dim=-1).mean()


def _gumbel(size: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    # -log(-log(u)); drawing exponential numbers instead takes three times as long.
    uniform = torch.rand((*size, *like.shape), generator=generator, device=like.device)
    return uniform.log_().neg_().log_().neg_()


def write_tokens(
    document: Document,
    encoded: TokenizedText,
    new: Mapping[int, int],
    pieces: Sequence[TokenPiece | None],
) -> tuple[str, ...]:
    """Return the texts with the drawn tokens; tokens that stay keep how they were written."""
    columns = []
    for column, text in enumerate(document.columns):
        written, at, changed_before = "", 0, False
        for i, index in new.items():
            span = encoded.spans[i]
            if span.text != column:
                continue
            gap, old = text[at : span.start], text[max(at, span.start) : span.end]
            piece = pieces[index] if index != encoded.ids[i] else None
            before = pieces[encoded.ids[i]]
            shown = old if piece is None else piece.text
            begins = (before is None or before.begins) if piece is None else piece.begins
            if piece is not None or changed_before:
                joins = written[-1:].isalnum() and shown[:1].isalnum()
                if not begins and at > 0:
                    gap = ""
                elif not gap and joins:
                    gap = " "
            written += gap + shown
            at, changed_before = max(at, span.end), piece is not None
        columns.append(written + text[at:])
    return tuple(columns)
