"""Victims: a module of ours, a Hugging Face model, or any function of texts."""

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from attacks.compat import Compat
from attacks.document import Candidate, Document
from attacks.goals import Floats, logarithms
from attacks.task_goals import VictimTask
from attacks.victims.batches import Halving
from attacks.victims.saliency import (
    in_mode,
    module_gains,
    module_weights,
    padding_side,
    split_pairs,
    transformer_gains,
    transformer_weights,
)
from attacks.victims.token_models import ModuleTokens, TokenModel, TransformerTokens
from layers.positions import shortest_limit
from text import FrontEnd, Text, cuts_unsaid, length_batches

log = logging.getLogger(__name__)


class VictimError(ValueError):
    """The victim raised an error, or its answer is not logits."""


class InvalidAnswers(VictimError):
    """Answers to some of the texts are invalid; those to the others may be asked for again.

    `reasons` has the error of the answer to each of the former.
    """

    def __init__(self, msg: str, reasons: Mapping[Text, str]) -> None:
        super().__init__(msg)
        self.reasons = dict(reasons)


class Victim(Protocol):
    """Answers texts with logits.

    A victim that remembers its answers has `again(texts)`, which asks anew; it returns None if it
    may not.

    Attributes:
        name: name in results.
    """

    name: str

    def logits(self, texts: Sequence[Text]) -> Floats:
        """Return `[n, C]` float64 logits of n >= 1 texts, in their order."""


def about_victim(victim: Victim) -> dict[str, Any]:
    """Return the `about()` of a victim, see `attacks.fingerprint`; its name if it has none."""
    about = getattr(victim, "about", None)
    description: dict[str, Any] = about() if callable(about) else {"name": victim.name}
    return description


@runtime_checkable
class PredictsTexts(Protocol):
    """Predicts texts, as our modules do."""

    def predict_texts(self, texts: list[Text], *, batch_size: int) -> Tensor:
        """Return logits `[n, C]` in evaluation mode."""


class _Batched(Halving):
    """A victim that answers in batches, `batch_size` texts per forward pass at first."""

    @property
    def task(self) -> VictimTask:
        """The task, see `attacks.task_goals`."""
        return "classification"

    def __init__(self, name: str, batch_size: int) -> None:
        super().__init__(batch_size)
        self.name = name

    @property
    def _backwards(self) -> int:
        """Texts per backward pass, which keeps the activations of all layers."""
        # A quarter of the forward batch fits where the forward pass does.
        return max(1, self.batch_size // 4)

    def logits(self, texts: Sequence[Text]) -> Floats:
        """See `Victim`."""
        least = 1 if self.task in ("regression", "multi-label") else 2
        return self.fitting(
            lambda: check_logits(self._answer(texts), texts, self.name, least=least)
        )

    def _finite(
        self, weights: list[list[float]], documents: Sequence[Document]
    ) -> list[list[float]]:
        reasons = {
            document.text: "got NaN gradients, expected numbers"
            for row, document in zip(weights, documents, strict=True)
            if any(math.isnan(weight) for weight in row)
        }
        if reasons:
            msg = f"victim {self.name}: {next(iter(reasons.values()))}"
            raise InvalidAnswers(msg, reasons)
        return weights

    def _answer(self, texts: Sequence[Text]) -> Any:
        msg = f"got {type(self).__name__} without _answer(), expected every victim to define it"
        raise TypeError(msg)


def check_logits(answer: Any, texts: Sequence[Text], name: str, *, least: int = 2) -> Floats:
    """Return an answer as float64 logits, at least `least` for each text.

    Raises:
        VictimError: wrong shape.
        InvalidAnswers: numbers that are not finite.
    """
    if isinstance(answer, Tensor):
        answer = answer.detach().cpu().to(torch.float64).numpy()
    try:
        logits: Floats = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        msg = f"victim {name}: got {type(answer).__name__}, expected numbers [texts, classes]"
        raise VictimError(msg) from error
    if logits.ndim != 2 or logits.shape[0] != len(texts) or logits.shape[1] < least:
        msg = (
            f"victim {name}: got an answer of shape {list(logits.shape)} to {len(texts)} text(s), "
            f"expected [{len(texts)}, classes] with at least two classes: a regression has none; "
            "for one logit z answer [0, z], for one probability p [1 - p, p]"
        )
        raise VictimError(msg)
    strange = {
        texts[row]: _strange(logits[row])
        for row in np.flatnonzero(~np.isfinite(logits).all(axis=1)).tolist()
    }
    if strange:
        text, reason = next(iter(strange.items()))
        expected = "expected finite numbers (a class that cannot be has -1e4)"
        msg = (
            f"victim {name}: got {reason} for {len(strange)} of {len(texts)} text(s), {expected}; "
            f"the first is {text!r:.200}"
        )
        raise InvalidAnswers(
            msg, {text: f"got {reason}, {expected}" for text, reason in strange.items()}
        )
    return logits


def _strange(row: Floats) -> str:
    if np.isnan(row).any():
        return "NaN"
    return "infinity" if (row == np.inf).any() else "-infinity"


class ModuleVictim(_Batched):
    """A module of ours: anything with `predict_texts`.

    Args:
        module: module in any mode; it predicts in evaluation mode.
        batch_size: texts per forward pass; texts of like length go together.
        name: name in results; its class if not given.
    """

    def __init__(
        self, module: PredictsTexts, *, batch_size: int = 256, name: str | None = None
    ) -> None:
        super().__init__(name or type(module).__name__, batch_size)
        self.module = module

    @property
    def task(self) -> VictimTask:
        """See `_Batched`."""
        task: VictimTask = getattr(getattr(self.module, "task", None), "name", "classification")
        return task

    @property
    def class_names(self) -> list[str]:
        """Names of the classes; none where the module has none."""
        return list(getattr(self.module, "class_names", None) or ())

    @property
    def front_end(self) -> FrontEnd | None:
        """The front end of the module, if it has one."""
        return getattr(self.module, "front_end", None)

    @property
    def differentiable(self) -> bool:
        """True if the module embeds and classifies, so that it has gradients at its words."""
        return all(hasattr(self.module, name) for name in ("embed", "classify", "require_text"))

    def _answer(self, texts: Sequence[Text]) -> Tensor:
        # Attacks ask thousands of times: a warning about each cut text would drown the rest.
        with cuts_unsaid():
            return self.module.predict_texts(list(texts), batch_size=self.batch_size)

    def about(self) -> dict[str, Any]:
        """See `attacks.fingerprint`."""
        module = self.module if isinstance(self.module, torch.nn.Module) else None
        return {"name": self.name, "module": module}

    def word_weights(
        self, documents: Sequence[Document], *, compat: str = "none"
    ) -> list[list[float]]:
        """See `attacks.engine.WhiteBox`; by the gradient at the output of `embed`.

        Raises:
            TypeError: the module does not embed and classify.
            VictimError: a NaN gradient.
        """
        module = self._require_embedding("gradients")
        training = Compat(compat).gradients_with_dropout
        weights = self.fitting(
            lambda: module_weights(module, documents, batch_size=self._backwards, training=training)
        )
        return self._finite(weights, documents)

    def flip_gains(
        self,
        documents: Sequence[Document],
        candidates: Sequence[Sequence[Candidate]],
        *,
        target: int | None = None,
    ) -> list[list[float]]:
        """See `attacks.engine.WhiteBox`; by the gradient at the output of `embed`."""
        module: Any = self.module
        gains = self.fitting(
            lambda: module_gains(
                module, documents, candidates, batch_size=self.batch_size, target=target
            )
        )
        return self._finite(gains, documents)

    @cached_property
    def token_model(self) -> TokenModel:
        """The module as a function of embedded tokens."""
        return ModuleTokens(self._require_embedding("token embeddings"))

    def _require_embedding(self, purpose: str) -> Any:
        """Return the module; raise TypeError if it does not embed and classify."""
        if not self.differentiable:
            msg = (
                f"got victim {self.name}, expected a module with embed(batch), classify(x, mask) "
                f"and require_text(): its {purpose} are asked for"
            )
            raise TypeError(msg)
        return self.module


_ROUNDINGS = 256
"""Units in the last place of 1 by which logits differ between batches without any reason."""


class HuggingFaceVictim(_Batched):
    """A sequence classifier of `transformers` with its tokenizer.

    Args:
        model: model in any mode; it predicts in evaluation mode.
        tokenizer: the one it was trained with.
        batch_size: texts per forward pass; texts of like length go together, padded to the longest
            where that changes no answer, and else only texts of the same length.
        max_length: longest text in tokens; that of tokenizer and model if not given.
        name: name in results; its class if not given.

    Raises:
        ValueError: the model does not give one class to a text, or model and tokenizer do not pad
            with the same token.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        batch_size: int = 256,
        max_length: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name or type(model).__name__, batch_size)
        self.model, self.tokenizer = model, tokenizer
        self._check_task()
        # GPT-2 and others classify by the last token that is not this one.
        pads = tokenizer.pad_token_id, getattr(model.config, "pad_token_id", None)
        if pads[0] is None or pads[0] != pads[1]:
            msg = (
                f"got a tokenizer with pad_token_id={pads[0]} and a model with {pads[1]}, expected "
                "one token: set tokenizer.pad_token (to tokenizer.eos_token, if it has none) and "
                "model.config.pad_token_id = tokenizer.pad_token_id"
            )
            raise ValueError(msg)
        self.max_length = shortest_limit(model, tokenizer, max_length)
        self._pads: bool | None = None

    @property
    def differentiable(self) -> bool:
        """True if the tokenizer knows the positions of its tokens, which gradients need."""
        return bool(getattr(self.tokenizer, "is_fast", False))

    @property
    def class_names(self) -> list[str]:
        """Names of the classes, as the configuration of the model has them."""
        config = self.model.config
        return [str(config.id2label[index]) for index in range(config.num_labels)]

    def _check_task(self) -> None:
        require_one_class(self.model.config, self.name)

    @torch.no_grad()
    def _answer(self, texts: Sequence[Text]) -> Tensor:
        return self._classify(self._encode(texts))

    def _encode(self, texts: Sequence[Text]) -> Any:
        """Return the tokens of each text, truncated."""
        return self.tokenizer(*split_pairs(texts), truncation=True, max_length=self.max_length)

    def find_cut(self, texts: Sequence[Text]) -> list[bool]:
        """Return True for each text of which the model does not read the end."""
        # Not `verbose`: the library would warn of the long ones.
        whole = self.tokenizer(*split_pairs(texts), truncation=False, verbose=False)["input_ids"]
        return [len(ids) > self.max_length for ids in whole]

    def _classify(self, coded: Any) -> Tensor:
        """Return the logits of each text."""
        for row, ids in enumerate(coded["input_ids"]):
            if not ids:  # an empty text, and a tokenizer that adds no tokens of its own
                for name in coded:
                    coded[name][row] = [int(name == "attention_mask")]
                coded["input_ids"][row] = [self.tokenizer.pad_token_id]
        lengths = [len(ids) for ids in coded["input_ids"]]
        with in_mode(self.model, training=False):
            if self._pads is None and min(lengths) < max(lengths):
                # Tested once, by the shortest and the longest text of the first mixed batch.
                ends = lengths.index(min(lengths)), lengths.index(max(lengths))
                self._pads = self._ignores_padding(coded, *ends)
            # Texts of equal length need no padding.
            if self._pads is False:
                alike = [
                    [i for i, n in enumerate(lengths) if n == length] for length in set(lengths)
                ]
                size = self.batch_size
                batches = [rows[i : i + size] for rows in alike for i in range(0, len(rows), size)]
            else:
                batches = length_batches(lengths, self.batch_size, device=self.model.device.type)
            logits = torch.cat([self._forward(coded, rows) for rows in batches])
        # Batches hold texts of like length: back to the order of the texts.
        order = torch.tensor([i for rows in batches for i in rows], device=logits.device)
        return logits[order.argsort()]

    def _forward(self, coded: Any, rows: Sequence[int]) -> Tensor:
        """Return the logits of some rows, padded to the longest of them."""
        batch = self.tokenizer.pad(
            {name: [values[i] for i in rows] for name, values in coded.items()},
            padding_side=padding_side(self.model),
            return_tensors="pt",
        ).to(self.model.device)
        answer = self._run(batch)
        if getattr(answer, "logits", None) is None:
            msg = f"got {self.name}, which answers without logits, expected a classifier"
            raise VictimError(msg)
        # Half precision would make more candidates equal.
        logits: Tensor = answer.logits.float()
        return logits

    def _run(self, batch: Any) -> Any:
        return self.model(**batch)

    def _ignores_padding(self, coded: Any, short: int, long: int) -> bool:
        """Return True if a padded text gets the logits that it has alone, but for rounding."""
        alone, padded = self._forward(coded, [short])[0], self._forward(coded, [short, long])[0]
        noise = _ROUNDINGS * torch.finfo(self.model.dtype).eps * alone.abs().max().clamp_min(1.0)
        ignores = bool((alone - padded).abs().max() <= noise)
        if not ignores:
            log.warning(
                "victim %s: padding changes its answers; only texts of the same length share a "
                "forward pass, which takes longer",
                self.name,
            )
        return ignores

    def about(self) -> dict[str, Any]:
        """See `attacks.fingerprint`."""
        return {"name": self.name, "model": self.model, "max_length": self.max_length}

    def word_weights(
        self, documents: Sequence[Document], *, compat: str = "none"
    ) -> list[list[float]]:
        """See `attacks.engine.WhiteBox`; by the gradient at the input embeddings.

        Raises:
            TypeError: the tokenizer is a slow one, or the model has no input embeddings.
            VictimError: a NaN gradient.
        """
        weights = self.fitting(
            lambda: transformer_weights(
                self.model,
                self.tokenizer,
                documents,
                batch_size=1 if self._pads is False else self._backwards,
                max_length=self.max_length,
                training=Compat(compat).gradients_with_dropout,
            )
        )
        return self._finite(weights, documents)

    def flip_gains(
        self,
        documents: Sequence[Document],
        candidates: Sequence[Sequence[Candidate]],
        *,
        target: int | None = None,
    ) -> list[list[float]]:
        """See `attacks.engine.WhiteBox`; by the gradient at the input embeddings."""
        gains = self.fitting(
            lambda: transformer_gains(
                self.model,
                self.tokenizer,
                documents,
                candidates,
                batch_size=self.batch_size,
                max_length=self.max_length,
                target=target,
            )
        )
        return self._finite(gains, documents)

    @cached_property
    def token_model(self) -> TokenModel:
        """The model as a function of embedded tokens."""
        return TransformerTokens(self.model, self.tokenizer, max_length=self.max_length)


def require_one_class(config: Any, name: str) -> None:
    """Check that a `transformers` model gives one class to a text.

    Raises:
        ValueError: it gives several classes, or a number.
    """
    kind = getattr(config, "problem_type", None)
    if kind == "regression" or getattr(config, "num_labels", 2) == 1:
        msg = (
            f"got {name}, which predicts a number (regression), expected a classifier with at "
            "least two classes: a regression has none"
        )
        raise ValueError(msg)
    if kind == "multi_label_classification":
        msg = (
            f"got {name}, which gives several classes to a text (problem_type "
            "multi_label_classification), expected a classifier that gives one: the class with "
            "the largest score is not its answer"
        )
        raise ValueError(msg)


class CallableVictim(_Batched):
    """Any function from a list of texts to numbers `[texts, classes]`.

    Args:
        function: called with at most `batch_size` strings (or pairs of strings). An `nn.Module`,
            or a method of one, answers in evaluation mode and without gradients.
        outputs: kind of its numbers. Logits of probabilities are their logarithms.
        batch_size: texts per call.
        name: name in results; records on disk belong to one name.
    """

    def __init__(
        self,
        function: Callable[[list[Text]], Any],
        *,
        outputs: Literal["logits", "probabilities"] = "logits",
        batch_size: int = 256,
        name: str = "function",
    ) -> None:
        super().__init__(name, batch_size)
        self.function, self.outputs = function, outputs
        self._warned = False

    def about(self) -> dict[str, Any]:
        """See `attacks.fingerprint`; the function itself may change."""
        return {"name": self.name, "outputs": self.outputs, "module": self._owner()}

    def probabilities(self, texts: Sequence[Text]) -> Floats | None:
        """Return `[n, C]`, the exact answer of the function; None if that is logits."""
        if self.outputs == "logits":
            return None
        return self.fitting(lambda: self._distributions(self._call(texts), texts))

    def _answer(self, texts: Sequence[Text]) -> Floats:
        numbers = self._call(texts)
        if self.outputs == "logits":
            self._suspect(numbers)
            return numbers
        return logarithms(self._distributions(numbers, texts))

    def _call(self, texts: Sequence[Text]) -> Floats:
        parts = []
        for start in range(0, len(texts), self.batch_size):
            batch = list(texts[start : start + self.batch_size])
            try:
                with self._evaluating():
                    answer = self.function(batch.copy())  # it may change its list
            except torch.cuda.OutOfMemoryError:
                raise
            except Exception as error:
                msg = (
                    f"victim {self.name} raised {type(error).__name__}: {error}, on {len(batch)} "
                    f"text(s) beginning with {batch[0]!r:.200}"
                )
                raise VictimError(msg) from error
            parts.append(check_logits(answer, batch, self.name))
        return np.concatenate(parts)

    def _owner(self) -> torch.nn.Module | None:
        """Return the module that answers, if it is known."""
        # A bound method of a module knows its module.
        owner = getattr(self.function, "__self__", self.function)
        return owner if isinstance(owner, torch.nn.Module) else None

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        owner = self._owner()
        if owner is None:
            yield
            return
        with in_mode(owner, training=False), torch.no_grad():
            yield

    def _distributions(self, numbers: Floats, texts: Sequence[Text]) -> Floats:
        """Return the numbers, if they are probabilities.

        Raises:
            InvalidAnswers: they are not.
        """
        # Half precision rounds sums by up to 1e-3.
        off = np.abs(numbers.sum(axis=1) - 1)
        bad = (off > 1e-3) | (numbers < 0).any(axis=1)
        if bad.any():
            msg = (
                f"victim {self.name}: got rows that do not sum to 1 (the worst to "
                f"{numbers.sum(axis=1)[off.argmax()]:.4g}), expected probabilities; "
                'or say outputs="logits"'
            )
            rows = np.flatnonzero(bad).tolist()
            improper = {
                texts[row]: f"got {numbers[row].tolist()!r:.200}, expected probabilities"
                for row in rows
            }
            raise InvalidAnswers(msg, improper)
        return numbers

    def _suspect(self, numbers: Floats) -> None:
        """Warn once when logits look like probabilities."""
        # Logits of real models hardly ever sum to 1 in every row.
        alike = bool((numbers >= 0).all()) and bool((np.abs(numbers.sum(axis=1) - 1) < 1e-6).all())
        if alike and len(numbers) > 1 and not self._warned:
            self._warned = True
            log.warning(
                "victim %s: every row sums to 1; if these are probabilities, say "
                'outputs="probabilities"',
                self.name,
            )


CPU_BATCH = 64
"""Texts per forward pass on a CPU: more are slower, as more of them is padding."""


def fastest_batch(model: Any, batch_size: int) -> int:
    """Return the texts per forward pass, `batch_size` at most; on a CPU `CPU_BATCH` at most."""
    weights = next(model.parameters(), None) if isinstance(model, torch.nn.Module) else None
    slow = weights is not None and weights.device.type == "cpu"
    return min(batch_size, CPU_BATCH) if slow else batch_size


def as_victim(model: Any, *, tokenizer: Any = None, batch_size: int = 256) -> Victim:
    """Make a victim of a model or function.

    Args:
        model: a victim, a module of ours, a `transformers` model (with `tokenizer`) or pipeline, or
            a function (or `nn.Module`) of a list of texts that returns logits.
        tokenizer: of a `transformers` model.
        batch_size: texts per forward pass at most, see `fastest_batch`.

    Raises:
        TypeError: it is none of these.
    """
    # A pipeline of `transformers`.
    if all(hasattr(model, name) for name in ("task", "model", "tokenizer", "preprocess")):
        if model.task != "text-classification":
            msg = f"got a pipeline for {model.task}, expected one for text-classification"
            raise TypeError(msg)
        model, tokenizer = model.model, tokenizer or model.tokenizer
    if hasattr(model, "logits") and hasattr(model, "name"):
        victim: Victim = model
        return victim
    if isinstance(model, PredictsTexts):
        return ModuleVictim(model, batch_size=fastest_batch(model, batch_size))
    if hasattr(model, "config") and isinstance(model, torch.nn.Module):
        if tokenizer is None:
            msg = f"got {type(model).__name__} without tokenizer, expected the one of the model"
            raise TypeError(msg)
        size = fastest_batch(model, batch_size)
        return HuggingFaceVictim(model, tokenizer, batch_size=size)
    if callable(model):
        return CallableVictim(model, batch_size=batch_size)
    msg = (
        f"got a {type(model).__name__} to attack, expected a module with predict_texts, a "
        "transformers model with its tokenizer, or a function from a list of texts to logits"
    )
    raise TypeError(msg)
