"""Detectors that read a text window by window, and detect it if one window is detected.

Multiple instance learning: a text is a bag of windows; only the bag has a label (Dietterich,
Lathrop and Lozano-Pérez, 1997). docs/certificates/append.md has the theorem and its proof.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, Self, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from certify.threats import AdditionKind, TextCertifier, Threat, ThreatName
from certify.words.windows import WindowCertifier
from lit_modules.shared.classifier_wrapper import ClassifierWrapper
from lit_modules.shared.detection import check_two_classes, find_evidence_class
from lit_modules.shared.optimisation import OptimisationChanges
from lit_modules.shared.task_module import TaskModule
from lit_modules.shared.text_module import checkpoint_content
from text import Batch, TaskName, Text, Tokenizer, check_choice, check_range
from text.torch_archive import CHECKPOINT_KEY
from text.window_tokenizer import WindowTokenizer

Pool = Literal["max", "noisy-or"]
BORDER = 1e30
"""The embedded border between two windows."""


class WindowLayout(NamedTuple):
    """Where the tokens of texts are in a batch of their windows.

    Attributes:
        tokens: `[B, N]` bool, True at the tokens that are no borders.
        rows: `[T]`, the window of each token.
        columns: `[T]`, its position there.
        mask: `[W, n]` bool, True at the tokens of windows.
        owner: `[W]`, the text of each window.
    """

    tokens: Tensor
    rows: Tensor
    columns: Tensor
    mask: Tensor
    owner: Tensor

    @classmethod
    def of(cls, border: Tensor, mask: Tensor) -> Self:
        """Find the windows between borders `[B, N]` of texts with a mask `[B, N]`."""
        tokens, window = mask & ~border, border.cumsum(dim=1)
        counts = window.amax(dim=1) + 1
        owner = torch.arange(len(mask), device=mask.device).repeat_interleave(counts)
        # A sum without its last term is the number of windows, or tokens, that come before.
        rows = (window + (counts.cumsum(0) - counts).unsqueeze(1))[tokens]
        sizes = torch.bincount(rows, minlength=len(owner))
        columns = torch.arange(len(rows), device=rows.device) - (sizes.cumsum(0) - sizes)[rows]
        inside = torch.arange(int(sizes.amax()), device=rows.device) < sizes.unsqueeze(1)
        return cls(tokens, rows, columns, inside, owner)

    def apart(self, values: Tensor, fill: float = 0) -> Tensor:
        """`[B, N, ...]` values of tokens to `[W, n, ...]`."""
        windows = values.new_full((*self.mask.shape, *values.shape[2:]), fill)
        return windows.index_put((self.rows, self.columns), values[self.tokens])


def split_windows(batch: Batch, border: int, pad_id: int) -> tuple[Batch, WindowLayout]:
    """Return a batch of all windows of some texts, and the layout of their tokens."""
    layout = WindowLayout.of(batch.mask & (batch.input_ids == border), batch.mask)
    ids = layout.apart(batch.input_ids, pad_id)
    return Batch(ids, layout.mask, torch.arange(len(ids), device=ids.device)), layout


def merge_equal(windows: Batch, pad_id: int) -> tuple[Batch, Tensor]:
    """Return the different windows of a batch, and `[W]` the row of each window among them."""
    # The changed texts of an attack share all windows but one.
    ids = windows.input_ids.masked_fill(~windows.mask, -1)
    different, rows = torch.unique(ids, dim=0, return_inverse=True)
    mask = different >= 0
    ids = different.masked_fill(~mask, pad_id)
    return Batch(ids, mask, torch.arange(len(ids), device=ids.device)), rows


class WindowPooling(nn.Module):
    """Pools the scores of the windows of texts: by noisy-or, or by the maximum."""

    def __init__(self, *, noisy_or: bool) -> None:
        super().__init__()
        self.noisy_or = noisy_or
        self.bias = nn.Parameter(torch.zeros(2), requires_grad=False)

    def forward(self, leads: Tensor, owner: Tensor, count: int, positive: int) -> Tensor:
        """Return logits `[B, 2]` of B = `count` texts.

        `leads` are `[W]` log-odds of the windows for the class `positive`, `owner` is `[W]`, the
        number of the text of each window.
        """
        if self.noisy_or:
            # -log(1 - p) adds up; the log-odds of the sum s are log(exp(s) - 1).
            sums = leads.new_zeros(count).index_add_(0, owner, functional.softplus(leads))
            # Windows of a probability that underflows: a very small score, but a finite one.
            sums = sums.clamp_min(torch.finfo(sums.dtype).tiny)
            score = sums + torch.log(-torch.expm1(-sums))
        else:
            lowest = leads.new_full((count,), -torch.inf)
            score = lowest.scatter_reduce(0, owner, leads, "amax")
        both = [torch.zeros_like(score), score]
        return torch.stack(both if positive else both[::-1], dim=1) + self.bias


class WindowMax(ClassifierWrapper, method=True):
    """A detector around any classifier, which reads each sentence of a text alone."""

    threats: Sequence[ThreatName] = ("additions",)
    addition: AdditionKind | None = "append-lines"

    def __init__(
        self,
        *,
        classifier: TaskModule | None = None,
        positive: str | None = None,
        pool: Pool = "max",
        words: int = 64,
        optimisation: OptimisationChanges = OptimisationChanges(),
    ) -> None:
        """Keep the settings.

        Args:
            classifier: the method that reads a window, and its settings.
            positive: class that is detected; null: that of `--detect.positive`, else the second of
                the two classes.
            pool: the score of a text. max: of the window with the largest one; noisy-or: the
                log-odds that at least one window is positive, if windows are independent.
            words: words of a window at most; a longer sentence becomes several windows.
            optimisation: changes to the classifier's optimisation.
        """
        super().__init__(optimisation=optimisation)
        check_choice("pool", pool, get_args(Pool))
        check_range({"words": words}, least=1)
        if classifier is None or isinstance(classifier, WindowMax) or classifier.nested:
            kind = "no classifier" if classifier is None else type(classifier).__name__
            msg = f"got {kind} in WindowMax, expected a plain one: --model.classifier CLASS"
            raise ValueError(msg)
        self.adopt(classifier)
        self.positive_name, self.pool, self.words = positive, pool, words
        self.tasks = ("classification",)

    # Texts and classes

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        return WindowTokenizer(self.classifier.build_tokenizer(texts), self.words)

    def attach(
        self,
        tokenizer: Tokenizer,
        class_names: Sequence[str],
        *,
        pairs: bool = False,
        task: TaskName = "classification",
        synonyms: Sequence[Sequence[str]] = (),
    ) -> None:
        check_two_classes(self.method, class_names, pairs=pairs)
        assert isinstance(tokenizer, WindowTokenizer)  # see `build_tokenizer` and `restore_text`
        self.classifier.attach(tokenizer.inner, class_names, task=task, synonyms=synonyms)
        _, names = self.classifier.require_text()
        super().attach(tokenizer, names, task=task, synonyms=synonyms)
        find_evidence_class(self.positive_name, names)

    @property
    def evidence_class(self) -> int:
        """Index of the class that is detected."""
        _, names = self.require_text()
        return find_evidence_class(self.positive_name, names)

    def restore_text(self, checkpoint: dict[str, Any]) -> None:
        content = checkpoint_content(checkpoint)
        # The threshold is part of the bias of the text, not of that of a window.
        inner = {**content, "tokenizer": content["tokenizer"]["inner"], "detector": None}
        self.classifier.restore_text({**checkpoint, CHECKPOINT_KEY: inner})
        # One object: windows and classifier read with the same tokenizer.
        self.attach_tokenizer(
            WindowTokenizer(self.classifier.require_tokenizer(), content["tokenizer"]["words"])
        )
        super().restore_text(checkpoint)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        checkpoint[CHECKPOINT_KEY]["tokenizer"] = self.require_tokenizer().state()

    # Layers

    def setup(self, stage: str) -> None:
        if stage == "fit":
            self.check_training()
        super().setup(stage)

    def check_training(self) -> None:
        """Raise ValueError for settings of the classifier that its own training alone has."""
        groups = {"smoothing": "noise", "robustness": "against", "masking": "kind"}
        values = {
            f"{group}.{name}": getattr(getattr(self.classifier, group, None), name, "none")
            for group, name in groups.items()
        }
        values["unlabelled"] = getattr(self.classifier, "unlabelled", None) or "none"
        for name, value in values.items():
            if value != "none":
                nothing = "null" if name == "unlabelled" else "none"
                msg = (
                    f"got {name}={value} for a classifier in WindowMax, expected {nothing}: the "
                    "windows of a text are trained together, on the clean text alone"
                )
                raise ValueError(msg)

    def configure_model(self) -> None:
        self.classifier.configure_model()
        self.follow_detector()
        if not hasattr(self, "pooling"):
            self.pooling = WindowPooling(noisy_or=self.pool == "noisy-or")

    @property
    def applies_output_layer(self) -> bool:
        return False  # that of its classifier reads a vector of each window

    def output_bias(self) -> nn.Parameter:
        """Return `[2]`, what is added to the logits; training leaves it at 0."""
        return self.pooling.bias

    def embed(self, batch: Batch) -> Tensor:
        """`[B, N, d]`: as the classifier embeds; a border is `BORDER` everywhere."""
        windows, layout = self._split(batch)
        inside = self.classifier.embed(windows)[layout.rows, layout.columns]
        x = inside.new_zeros(*batch.mask.shape, inside.shape[-1])
        x = x.masked_fill((batch.mask & ~layout.tokens).unsqueeze(-1), BORDER)
        return x.masked_scatter(layout.tokens.unsqueeze(-1), inside)

    def classify(self, x: Tensor, mask: Tensor) -> Tensor:
        # No move of embedded tokens gets near to a border.
        layout = WindowLayout.of(mask & (x[..., 0] > BORDER / 2), mask)
        logits = self.classifier.classify(layout.apart(x), layout.mask)
        return self._pool(logits, layout, len(x))

    def _split(self, batch: Batch) -> tuple[Batch, WindowLayout]:
        tokenizer = self.require_tokenizer()
        assert isinstance(tokenizer, WindowTokenizer)  # see `attach`
        return split_windows(batch, tokenizer.border, tokenizer.pad_id)

    def _pool(self, logits: Tensor, layout: WindowLayout, count: int) -> Tensor:
        y = self.evidence_class
        pooled: Tensor = self.pooling(logits[:, y] - logits[:, 1 - y], layout.owner, count, y)
        return pooled

    def forward(self, batch: Batch) -> Tensor:
        windows, layout = self._split(batch)
        return self._pool(self.classifier(windows), layout, len(batch))

    def predict_logits(self, batch: Batch) -> Tensor:
        windows, layout = self._split(batch)
        different, rows = merge_equal(windows, self.require_tokenizer().pad_id)
        logits = self.classifier.predict_logits(different)
        return self._pool(logits[rows], layout, len(batch))

    @property
    def predicts_in_float64(self) -> bool:
        return self.classifier.predicts_in_float64

    @property
    def no_certificate(self) -> str | None:
        return "its certificates are about added lines: `certify --threat append-lines`"

    def own_certifier(self, threat: Threat) -> TextCertifier:
        return WindowCertifier(self.exact_answer(), self.evidence_class, threat)
