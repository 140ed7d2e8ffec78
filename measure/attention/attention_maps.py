"""Computes the attention of a trained model to one text, with and without masking.

Source: Wu et al., "Adversarial Self-Attention for Language Understanding", 2023, Figures 1 and 6.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import lit_modules
from layers.attention.masking.biased import BIASABLE, BiasedAttention
from layers.attention.masking.learnt_masks import AdversarialMasks
from layers.attention.masking.masks import Masks, Probabilities
from layers.backbones import Backbone
from lit_modules.asa import ASA
from lit_modules.shared.task_module import TaskModule
from measure.attention.attention_text import EncodedSample, encode
from run_files import run_directory
from text import Sample


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One pass of a text through a model: weights `[H, N, N]` of each layer, whose rows sum to 1.

    `answers` has the name and probability of each class; for tagging each word and its tag. The
    prediction is a class, tags or a number.
    """

    maps: list[Tensor]
    answers: list[tuple[str, str]]
    prediction: str


@dataclass(frozen=True, kw_only=True)
class AttentionMaps:
    """The attention maps of a model for a text.

    Attributes:
        name: name of the run, or of the file.
        method: method that trained the model.
        checkpoint: checkpoint of the model.
        row: row of the batch; for multiple choice the number of the choice, else 0.
        tokens: N tokens as readable text.
        cut: True if the text is longer than the model reads.
        plain: the pass without an adversary.
        attacked: the pass with it; None if the model has none.
        masked: masked units, `[H or 1, N, N]` bool for each layer.
        chances: probability that a unit is masked in training, `[H or 1, N, N]` for each layer; 0
            or 1 where training does not draw masks.
        drawn: True if the masks here were drawn, too.
    """

    name: str
    method: str
    checkpoint: Path
    row: int
    tokens: list[str]
    cut: bool
    plain: Pass
    attacked: Pass | None
    masked: list[Tensor]
    chances: list[Tensor]
    drawn: bool = False

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self.plain.maps)

    @property
    def heads(self) -> int:
        """Heads of each layer."""
        return len(self.plain.maps[0])

    def map(self, layer: int, head: int | None, *, attacked: bool = False) -> Tensor | None:
        """Return `[N, N]` attention weights, None without such a pass; head None is the mean."""
        attention = self.attacked if attacked else self.plain
        if attention is None:
            return None
        maps = attention.maps[layer - 1]  # [H, N, N]
        return maps.mean(dim=0) if head is None else maps[head - 1]

    def mask(self, layer: int, head: int | None) -> Tensor | None:
        """Return `[N, N]` shares of the heads that mask each unit; of one head, 0 or 1."""
        return self._select(self.masked, layer, head)

    def chance(self, layer: int, head: int | None) -> Tensor | None:
        """Return `[N, N]` chances that each unit is masked in training, a mean over the heads."""
        return self._select(self.chances, layer, head)

    def _select(self, layers: list[Tensor], layer: int, head: int | None) -> Tensor | None:
        if not layers:
            return None
        units = layers[layer - 1].float()
        # In the paper all heads share one mask: [1, N, N].
        return units.mean(dim=0) if head is None or len(units) == 1 else units[head - 1]


class AttentionModel:
    """Runs the classifier of a checkpoint and returns its attention weights.

    Raises:
        ValueError: not a checkpoint, or a model without such attention.
    """

    def __init__(self, checkpoint: Path, *, device: torch.device) -> None:
        self.checkpoint = checkpoint
        self.loaded = lit_modules.load(checkpoint).to(device)
        self.classifier: TaskModule = self.loaded.plain
        if isinstance(self.classifier, ASA):
            self.attention = self.classifier.attention
        else:
            self.attention = BiasedAttention(self._backbone().encoder)

    def _backbone(self) -> Backbone:
        for module in self.classifier.network.modules():
            if isinstance(module, Backbone):
                return module
        msg = (
            f"got {self.checkpoint} of {type(self.classifier).__name__}, which has no attention of "
            "an encoder to look at, expected a method that trains an encoder of transformers "
            f"({', '.join(BIASABLE)}), as UniBERT or ASA"
        )
        raise ValueError(msg)

    @property
    def name(self) -> str:
        """Name of the run; with that of the file unless it is `best.ckpt`."""
        file = self.checkpoint.name
        home = run_directory.of_checkpoint(self.checkpoint)
        if home is None:
            return file
        return home.name if file == home.best.name else f"{home.name} {file}"

    @torch.no_grad()
    def attend(
        self, sample: Sample, row: int | None = None, *, seed: int | None = None
    ) -> AttentionMaps:
        """Return the maps of both passes of a sample, see `attention_text.sample_of`.

        `row` is the number of the choice of a multiple choice, by default the predicted one. `seed`
        draws the masks, as in training; without it, units with a chance above one half are masked.
        """
        encoded = encode(self.classifier, sample)
        with self.attention.watched() as maps:
            logits = self.classifier(encoded.batch)
        if row is None:
            # Multiple choice: one row of the batch per choice, [1, choices] logits.
            row = int(logits[0].argmax()) if encoded.batch.choices > 1 else 0
        plain = self._pass(maps, logits, encoded, row)
        masks = None  # only ASA has an adversary that masks attention
        if isinstance(self.classifier, ASA):
            if seed is not None:
                # The noise of a sample depends on its id.
                encoded.batch.sample_ids.fill_(seed)
            masks = self.classifier.masks(encoded.batch, draw=seed is not None)
        attacked: Pass | None = None
        masked: list[Tensor] = []
        chances: list[Tensor] = []
        if masks is not None:
            recorder, length = MaskRecorder(masks), len(encoded.tokens[row])
            with self.attention.masked(recorder), self.attention.watched() as maps:
                logits = self.classifier(encoded.batch)
            attacked = self._pass(maps, logits, encoded, row)
            masked = [(keep[row, :, :length, :length] == 0).cpu() for keep in recorder.chosen]
            chances = [chance[row, :, :length, :length].cpu() for chance in recorder.chances]
        return AttentionMaps(
            name=self.name,
            method=type(self.loaded).__name__,
            checkpoint=self.checkpoint,
            row=row,
            tokens=encoded.tokens[row],
            cut=encoded.cut,
            plain=plain,
            attacked=attacked,
            masked=masked,
            chances=chances,
            drawn=seed is not None,
        )

    def _pass(
        self, maps: Sequence[Tensor], logits: Tensor, encoded: EncodedSample, row: int
    ) -> Pass:
        length = len(encoded.tokens[row])  # padding is cut off
        answers, prediction = self._answers(logits[0].float(), encoded)
        maps = [weights[row, :, :length, :length].float().cpu() for weights in maps]
        return Pass(maps=maps, answers=answers, prediction=prediction)

    def _answers(self, logits: Tensor, encoded: EncodedSample) -> tuple[list[tuple[str, str]], str]:
        """Return a pair of texts for each class or word, and the prediction."""
        task, names = self.classifier.task.name, self.classifier.class_names or []
        if task == "regression":
            return [], f"{float(logits):.3f}"
        if task == "tagging":
            # `[N, C]` logits; the first token of a word decides.
            tags = [names[int(logits[start].argmax())] for start in encoded.starts]
            return list(zip(encoded.words, tags, strict=True)), " ".join(tags)
        probabilities = [f"{value:.4f}" for value in logits.softmax(dim=-1).tolist()]
        return list(zip(names, probabilities, strict=True)), names[int(logits.argmax())]


class MaskRecorder(Masks):
    """Records the masks of each layer."""

    def __init__(self, masks: Masks) -> None:
        super().__init__(masks.real)
        self.masks = masks
        self.chosen: list[Tensor] = []
        """By layer: `[B, 1 or H, N, N]`, 0 for masked units and 1 for all others."""
        self.chances: list[Tensor] = []
        """By layer: chances of being masked, of the same shape."""

    def choose(self, layer: int, hidden: Tensor, probabilities: Probabilities) -> Tensor:
        """Return the masks of a layer, and record them."""
        keep = self.masks(layer, hidden, probabilities, self.keys)
        self.chosen.append(keep.detach())
        chance = 1 - keep.detach()
        if isinstance(self.masks, AdversarialMasks) and self.masks.adversary.noise:
            # With logistic noise a unit of score s is kept with the probability sigmoid(s).
            chance = torch.sigmoid(-self.masks.adversary.scores(layer, hidden))
        self.chances.append(chance.float())
        return keep
