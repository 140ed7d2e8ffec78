"""Reads the attention of a trained model to one text, with and without masking.

Source: Wu et al., "Adversarial Self-Attention for Language Understanding", 2023, Figures 1 and 6.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import lit_modules
from app.attention.attention_text import Reading, read
from app.runs import run_directory
from layers.attention.masking.biased import BIASABLE, BiasedAttention
from layers.attention.masking.learnt_masks import AdversarialMasks
from layers.attention.masking.masks import Masks, Probabilities
from layers.backbones import Backbone
from lit_modules.asa import ASA
from lit_modules.shared.task_module import TaskModule
from text import Sample


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One pass of a text through a model.

    Attributes:
        maps: attention weights `[H, N, N]` of each layer; each row sums to 1.
        answers: answer of the model about the text: a line for each class or word, its name and
            what is said of it.
        prediction: the answer.
    """

    maps: list[Tensor]
    answers: list[tuple[str, str]]
    prediction: str


@dataclass(frozen=True, kw_only=True)
class Attention:
    """The attention of a model to a text.

    Attributes:
        name: name of the run, or of the file.
        method: method that trained the model.
        checkpoint: checkpoint of the model.
        row: number of the row of the sample; of a multiple choice, that of the choice.
        tokens: N tokens as people read them.
        cut: True if the text is longer than the model reads.
        plain: the pass without an adversary.
        attacked: the pass with it; None where the model has none.
        masked: units that the adversary masks, `[H or 1, N, N]` bool for each layer.
        chances: probability that each unit is masked while training, `[H or 1, N, N]` for each
            layer, where masks are drawn; 0 or 1 where they are not.
        drawn: True if they were drawn here, too.
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
        """`[N, N]` attention weights, None where there is no such pass.

        Args:
            layer: counted from 1.
            head: counted from 1; None for the mean of all.
            attacked: with the adversary.
        """
        found = self.attacked if attacked else self.plain
        if found is None:
            return None
        maps = found.maps[layer - 1]
        return maps.mean(dim=0) if head is None else maps[head - 1]

    def mask(self, layer: int, head: int | None) -> Tensor | None:
        """`[N, N]`: the share of the heads for which each unit is masked; of one head, 0 or 1."""
        return self._of(self.masked, layer, head)

    def chance(self, layer: int, head: int | None) -> Tensor | None:
        """`[N, N]`: how often each unit is masked while training, a mean over the heads."""
        return self._of(self.chances, layer, head)

    def _of(self, layers: list[Tensor], layer: int, head: int | None) -> Tensor | None:
        if not layers:
            return None
        found = layers[layer - 1].float()
        # One for all heads, as the paper has it.
        return found.mean(dim=0) if head is None or len(found) == 1 else found[head - 1]


class Model:
    """Runs the classifier of a checkpoint and returns its attention weights.

    Args:
        checkpoint: the file.
        device: device on which it computes.

    Raises:
        ValueError: no checkpoint, or a model without such attention.
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
        """That of the run, with that of the file unless it is `best.ckpt`; else the file's."""
        home = run_directory.of_checkpoint(self.checkpoint)
        if home is None:
            return self.checkpoint.name
        return (
            home.name
            if self.checkpoint.name == home.best.name
            else f"{home.name} {self.checkpoint.name}"
        )

    @torch.no_grad()
    def attend(
        self, sample: Sample, row: int | None = None, *, seed: int | None = None
    ) -> Attention:
        """Both passes of a sample.

        Args:
            sample: see `app.attention.attention_text.sample_of`.
            row: of a multiple choice, the choice to look at; the predicted one by default.
            seed: draw the masks with it, as while training; None masks without noise what is
                likelier masked than not.
        """
        reading = read(self.classifier, sample)
        with self.attention.watched() as maps:
            logits = self.classifier(reading.batch)
        if row is None:
            row = int(logits[0].argmax()) if reading.batch.choices > 1 else 0
        plain = self._pass(maps, logits, reading, row)
        masks = None
        if isinstance(self.classifier, ASA):
            if seed is not None:
                # What the noise of a sample is made from.
                reading.batch.sample_ids.fill_(seed)
            masks = self.classifier.masks(reading.batch, draw=seed is not None)
        attacked: Pass | None = None
        masked: list[Tensor] = []
        chances: list[Tensor] = []
        if masks is not None:
            noted, length = Noted(masks), len(reading.tokens[row])
            with self.attention.masked(noted), self.attention.watched() as maps:
                logits = self.classifier(reading.batch)
            attacked = self._pass(maps, logits, reading, row)
            masked = [(keep[row, :, :length, :length] == 0).cpu() for keep in noted.chosen]
            chances = [chance[row, :, :length, :length].cpu() for chance in noted.chances]
        return Attention(
            name=self.name,
            method=type(self.loaded).__name__,
            checkpoint=self.checkpoint,
            row=row,
            tokens=reading.tokens[row],
            cut=reading.cut,
            plain=plain,
            attacked=attacked,
            masked=masked,
            chances=chances,
            drawn=seed is not None,
        )

    def _pass(self, maps: Sequence[Tensor], logits: Tensor, reading: Reading, row: int) -> Pass:
        length = len(reading.tokens[row])
        answers, prediction = self._answers(logits[0].float(), reading)
        return Pass(
            maps=[weights[row, :, :length, :length].float().cpu() for weights in maps],
            answers=answers,
            prediction=prediction,
        )

    def _answers(self, logits: Tensor, reading: Reading) -> tuple[list[tuple[str, str]], str]:
        """A line for each class or word, and the whole answer."""
        task, names = self.classifier.task.name, self.classifier.class_names or []
        if task == "regression":
            return [], f"{float(logits):.3f}"
        if task == "tagging":
            tags = [names[int(logits[start].argmax())] for start in reading.starts]
            return list(zip(reading.words, tags, strict=True)), " ".join(tags)
        probabilities = [f"{value:.4f}" for value in logits.softmax(dim=-1).tolist()]
        return list(zip(names, probabilities, strict=True)), names[int(logits.argmax())]


class Noted(Masks):
    """Remembers the masks of each layer.

    Args:
        masks: the ones to remember.
    """

    def __init__(self, masks: Masks) -> None:
        super().__init__(masks.real)
        self.masks = masks
        self.chosen: list[Tensor] = []
        """By layer: `[B, 1 or H, N, N]`, 1 for what is kept."""
        self.chances: list[Tensor] = []
        """By layer: the same, and how often it is masked where masks are drawn."""

    def choose(self, layer: int, hidden: Tensor, probabilities: Probabilities) -> Tensor:
        """Return the masks of a layer, and remember them."""
        keep = self.masks(layer, hidden, probabilities)
        self.chosen.append(keep.detach())
        chance = 1 - keep.detach()
        if isinstance(self.masks, AdversarialMasks) and self.masks.adversary.noise:
            # With logistic noise a unit of score s is kept with the probability sigmoid(s).
            chance = torch.sigmoid(-self.masks.adversary.scores(layer, hidden))
        self.chances.append(chance.float())
        return keep
