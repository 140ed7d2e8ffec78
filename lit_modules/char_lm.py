"""A language model over characters, with dot-product or L2 self-attention, or an LSTM.

Source: Kim et al., "The Lipschitz Constant of Self-Attention", 2021, section 5.3, appendices I and
N. docs/methods/char_lm.md lists the differences.
"""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from layers.decoder import KINDS, Decoder, Kind, LSTMNetwork, NextToken, initialise_
from lit_modules.shared.generation import Generation, write
from lit_modules.shared.optimisation import Optimisation
from lit_modules.shared.process_means import batch_weight, process_sums
from lit_modules.shared.text_module import TextModule
from text import Batch, CharacterTokenizer, Text, Tokenizer, check_choice, check_range

if TYPE_CHECKING:
    from lit_modules.shared.means import SampleMeans

SIZES = ("width", "heads", "depth", "hidden")


class CharacterLM(TextModule, method=True):
    """Predicts the next character of sentences, and their end."""

    headline = "loss"
    lower_is_better = True
    metric_names = ("loss",)
    generation = Generation()
    """Settings of the texts of a predict run; not a setting of the model."""

    def __init__(
        self,
        *,
        attention: Kind = "dot_product",
        width: int = 512,
        heads: int = 8,
        depth: int = 3,
        hidden: int = 2048,
        dropout: float = 0.1,
        initial_scale: float = 1 / 24,
        base_rate: float | None = 0.4,
        max_length: int = 290,
        optimisation: Optimisation = Optimisation(warmup=4000, decay="inverse_sqrt"),
        **base: Any,
    ) -> None:
        """Keep the settings; layers are built once the characters are known.

        Args:
            attention: l2_tied: W^K = W^Q; l2_tied_wide: the same with twice the columns, so that it
                has as many weights as l2; l2_contractive: divided by its bound; lstm: an LSTM.
            width: width D of a token, and of the states of an LSTM.
            heads: number of heads of each attention.
            depth: number of blocks, or of layers of an LSTM.
            hidden: width of the network on each token.
            dropout: dropout of embedded tokens and of the output of each layer, while training.
            initial_scale: the s of L2 attentions, whose weights begin uniform in +- s / sqrt(D).
            base_rate: gamma of the learning rate gamma / sqrt(D) min(t^-0.5, t w^-1.5) at step t
                after w steps of warm-up; null: the rate is the optimiser's.
            max_length: longest sentence in tokens: its characters and two for its ends.
            optimisation: optimiser and learning rate.
            base: settings of `TextModule`.
        """
        super().__init__(max_length=max_length, optimisation=optimisation, **base)
        self.attention, self.width, self.heads, self.depth = attention, width, heads, depth
        self.initial_scale, self.base_rate = initial_scale, base_rate
        self.hidden, self.dropout = hidden, dropout
        self._check_settings()

    def _check_settings(self) -> None:
        check_choice("attention", self.attention, KINDS)
        check_range({name: getattr(self, name) for name in SIZES}, least=1)
        check_range({"max_length": self.max_length}, least=3)
        check_range({"dropout": self.dropout}, least=0, below=1)
        scales = {"initial_scale": self.initial_scale, "base_rate": self.base_rate}
        check_range(scales, above=0)
        decay, warmup = self.optimisation.decay, self.optimisation.warmup
        if self.base_rate is not None and (decay != "inverse_sqrt" or warmup <= 1):
            msg = (
                f"got base_rate={self.base_rate} with optimisation.decay={decay} and "
                f"optimisation.warmup={warmup}, expected inverse_sqrt and a number of steps above "
                "1; for another schedule, or none, pass base_rate null and a learning rate of the "
                "optimiser"
            )
            raise ValueError(msg)
        if self.attention != "lstm" and self.width % self.heads:
            msg = (
                f"got width={self.width} and heads={self.heads}, expected a width divisible by the "
                "heads"
            )
            raise ValueError(msg)

    def unused(self) -> dict[str, str]:
        names = [] if self.attention.startswith("l2") else ["initial_scale"]
        names += ["heads", "hidden"] if self.attention == "lstm" else []
        return super().unused() | dict.fromkeys(names, f"attention={self.attention}")

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        return CharacterTokenizer.build(texts, max_length=self.max_length)

    @property
    def characters(self) -> CharacterTokenizer:
        """The tokenizer.

        Raises:
            RuntimeError: before it is attached.
            ValueError: another kind of tokenizer.
        """
        tokenizer = self.require_tokenizer()
        if not isinstance(tokenizer, CharacterTokenizer):
            msg = f"got a {type(tokenizer).__name__}, expected a CharacterTokenizer"
            raise ValueError(msg)
        return tokenizer

    def configure_model(self) -> None:
        if hasattr(self, "network"):
            return
        # The last token predicts nothing: inputs are one shorter.
        size, length = self.characters.vocab_size, self.characters.max_length - 1
        self.network: NextToken
        if self.attention == "lstm":
            self.network = LSTMNetwork(
                size, width=self.width, depth=self.depth, dropout=self.dropout
            )
        else:
            self.network = Decoder(
                size,
                kind=self.attention,
                width=self.width,
                heads=self.heads,
                depth=self.depth,
                hidden=self.hidden,
                dropout=self.dropout,
                length=length,
            )
        initialise_(self.network, scale=self.initial_scale)

    def parameter_groups(self) -> list[nn.Parameter] | list[dict[str, Any]]:
        trained = [p for p in self.parameters() if p.requires_grad]
        if self.base_rate is None:
            return trained
        # The schedule's factor is 1 at step w: the rate there is gamma / sqrt(D w).
        peak = self.base_rate / math.sqrt(self.width * self.optimisation.warmup)
        return [{"params": trained, "lr": peak}]

    # Steps

    def forward(self, batch: Batch) -> Tensor:
        """`[B, N, V]` logits of the token after each token of the batch."""
        logits: Tensor = self.network(batch.input_ids)
        return logits

    def losses(self, batch: Batch) -> Tensor:
        """`[M]`: -log p in nats of each character, and of each end of a sentence."""
        # No mask for the layers: padding comes after a sentence, where no causal layer sees it.
        ids, real = batch.input_ids, batch.mask[:, 1:]
        logits: Tensor = self.network(ids[:, :-1])
        return functional.cross_entropy(logits[real].float(), ids[:, 1:][real], reduction="none")

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        losses = self.losses(batch)
        # A process without samples repeats one of another process, with weight 0.
        counts = float(batch_weight(self.trainer, batch_idx) > 0)
        sums = counts * torch.stack([losses.sum(), losses.new_tensor(float(len(losses)))])
        total, number = process_sums(self.trainer, sums.detach()).unbind()
        loss = total / number
        self.log("train/loss", loss, prog_bar=True, batch_size=len(batch))
        if self.logs_this_step():
            self.log("train/bits_per_character", loss / math.log(2), batch_size=len(batch))
        # DDP averages over processes: world_size times this process's part of the mean.
        return self.trainer.world_size * sums[0] / number

    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": self.losses(batch)}

    def log_evaluation(self, stage: str, means: "SampleMeans") -> None:
        [loss] = means.take(self.metric_names).values()
        self.log(f"{stage}/loss", loss, prog_bar=True)
        self.log(f"{stage}/bits_per_character", loss / math.log(2))

    def predict_step(self, batch: list[int], batch_idx: int) -> list[dict[str, Any]]:
        """Write the texts of these numbers, see `write_records`."""
        return self.write_records(batch, self.generation)

    # Texts

    def generate(self, settings: Generation = Generation()) -> list[str]:
        """Write texts.

        Raises:
            ValueError: a prompt of unknown characters, or too long a text.
        """
        records = self.write_records(list(range(settings.number)), settings)
        return [str(record["text"]) for record in records]

    def write_records(self, numbers: list[int], settings: Generation) -> list[dict[str, Any]]:
        """Write some of the texts 0, 1, ... of the settings; return a JSON record for each."""
        training = self.training
        self.eval()
        try:
            texts = write(self.network, self.characters, numbers, settings)
        finally:
            self.train(training)
        return [
            {"sample_id": number, "prompt": settings.prompt, "text": text.text, "ended": text.ended}
            for number, text in zip(numbers, texts, strict=True)
        ]
