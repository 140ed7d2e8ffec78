"""Surprise per word by a language model of `transformers`, and entailment by a classifier."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attacks.document import count_words
from attacks.goals import Floats, probabilities
from attacks.resources.language_model import logits_at
from attacks.victims.batches import Batches, pad_rows
from attacks.victims.kinds import HuggingFaceVictim
from layers.positions import shortest_limit
from layers.quiet_transformers import quiet
from text import Text
from text.error_reasons import describe_error


class ModelFluency:
    """Minus the log-probability of a text per word, by a causal or a masked language model.

    A masked model gives the pseudo-log-likelihood (Salazar et al., "Masked Language Model Scoring",
    2020): each token is masked once.

    Args:
        model: with a causal or a masked head; used in evaluation mode.
        tokenizer: its own.
        batch_size: texts (masked: tokens) per forward pass at first.
    """

    def __init__(self, model: Any, tokenizer: Any, *, batch_size: int = 32) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self.masked = type(model).__name__.endswith("ForMaskedLM")
        self.max_length = shortest_limit(model, tokenizer, 512)
        self._batches = Batches(batch_size, model.device.type)

    @classmethod
    def load(cls, name_or_path: str | Path, *, device: Any = None) -> "ModelFluency":
        """Load a model from a folder or the hub's local cache; never downloads.

        Raises:
            ValueError: there is none, or its weights lack a head.
        """
        from transformers import (
            AutoConfig,
            AutoModelForCausalLM,
            AutoModelForMaskedLM,
            AutoTokenizer,
        )

        # Explicit `trust_remote_code`: with its default, transformers asks at the terminal.
        local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        try:
            with quiet():
                config = AutoConfig.from_pretrained(name_or_path, **local)
                named = " ".join(config.architectures or ())
                kind: Any = AutoModelForMaskedLM if "MaskedLM" in named else AutoModelForCausalLM
                tokenizer = AutoTokenizer.from_pretrained(name_or_path, **local)
                model, report = kind.from_pretrained(
                    name_or_path, output_loading_info=True, **local
                )
        except (OSError, ValueError) as error:
            msg = (
                f"got language model {name_or_path}, which cannot be loaded "
                f"({describe_error(error):.200}), expected a folder, or a model in the hub's local "
                "cache, with a causal or masked head"
            )
            raise ValueError(msg) from error
        if missing := sorted(name for name in report["missing_keys"] if name.endswith("weight")):
            msg = f"got language model {name_or_path} without {missing[0]}, expected a trained head"
            raise ValueError(msg)
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        return cls(model.to(device), tokenizer)

    def per_word(self, texts: Sequence[str]) -> list[float]:
        """Return nats per word of each text; 0 for a text without words."""
        coded = [
            self.tokenizer(text, truncation=True, max_length=self.max_length)["input_ids"]
            for text in texts
        ]
        totals = self._pseudo(coded) if self.masked else self._causal(coded)
        counts = [max(1, count_words(text)) for text in texts]
        return [total / count for total, count in zip(totals, counts, strict=True)]

    @torch.no_grad()
    def _causal(self, coded: Sequence[list[int]]) -> list[float]:
        start = self.tokenizer.bos_token_id
        start = self.tokenizer.eos_token_id if start is None else start
        # The first token gets a probability as well: it follows the start token.
        rows = [ids if ids[:1] == [start] or start is None else [start, *ids] for ids in coded]

        def forward(chunk: list[list[int]]) -> Tensor:
            ids, mask = self._padded(chunk)
            logits = self.model(input_ids=ids, attention_mask=mask.long()).logits.float()
            losses = torch.nn.functional.cross_entropy(
                # [B, V, N - 1] logits predict the tokens 1 ... N - 1.
                logits[:, :-1].transpose(1, 2),
                ids[:, 1:],
                reduction="none",
            )
            return (losses * mask[:, 1:]).sum(dim=1, keepdim=True)

        losses: list[float] = self._batches.run(forward, rows, len)[:, 0].tolist()
        return losses

    @torch.no_grad()
    def _pseudo(self, coded: Sequence[list[int]]) -> list[float]:
        # A word that the tokenizer does not know is a word: left out, it would cost nothing.
        special = set(self.tokenizer.all_special_ids) - {self.tokenizer.unk_token_id}
        jobs = [
            (row, ids, position)
            for row, ids in enumerate(coded)
            for position, token in enumerate(ids)
            if token not in special
        ]
        mask_id = self.tokenizer.mask_token_id

        def forward(chunk: list[tuple[int, list[int], int]]) -> Tensor:
            ids, mask = self._padded(
                [
                    [*tokens[:position], mask_id, *tokens[position + 1 :]]
                    for _, tokens, position in chunk
                ]
            )
            rows = torch.arange(len(chunk), device=ids.device)
            positions = torch.tensor([position for *_, position in chunk], device=ids.device)
            targets = torch.tensor(
                [tokens[position] for _, tokens, position in chunk], device=ids.device
            )
            logits = logits_at(self.model, ids, mask, rows, positions)
            losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
            return losses.unsqueeze(1)

        totals = [0.0] * len(coded)
        if jobs:
            losses = self._batches.run(forward, jobs, lambda job: len(job[1]))
            for (row, *_), loss in zip(jobs, losses[:, 0].tolist(), strict=True):
                totals[row] += loss
        return totals

    def _padded(self, rows: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
        return pad_rows(rows, self.tokenizer.pad_token_id or 0, self.model.device)


class Entailment:
    """The probability that two texts say the same: the smaller one of both directions.

    Raises:
        ValueError: the model is no classifier with one class whose name begins with "entail".
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        names = [str(model.config.id2label[i]).casefold() for i in range(model.config.num_labels)]
        # "entailment", "ENTAILMENT", "entail"; but "not_entailment" does not begin so.
        indices = [i for i, name in enumerate(names) if name.startswith("entail")]
        if len(indices) != 1:
            msg = f"got an entailment model with classes {', '.join(names)}, expected entailment"
            raise ValueError(msg)
        self._index = indices[0]
        self._victim = HuggingFaceVictim(model, tokenizer, batch_size=32)

    def both_ways(self, first: Sequence[str], second: Sequence[str]) -> Floats:
        """Return `[n]` probabilities of n texts with n others."""
        pairs: list[Text] = list(zip(first, second, strict=True))
        back: list[Text] = list(zip(second, first, strict=True))
        if not pairs:
            return np.zeros(0)
        shares = probabilities(self._victim.logits([*pairs, *back]))[:, self._index]
        # Both directions: a text that only follows from the other is not its paraphrase.
        smaller: Floats = np.minimum(shares[: len(pairs)], shares[len(pairs) :])
        return smaller
