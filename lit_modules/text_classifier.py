"""The baselines: an ordinary Transformer without certificate, and a bag of embeddings with one."""

from typing import Literal

import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor, nn

from layers import NormalizedEmbedding, TransformerClassifier, olsa_classifier
from lit_modules.shared.certified import CertifiedClassifier
from lit_modules.shared.radius_objective import Loss, Margin, RadiusObjective, Schedule
from lit_modules.shared.schedule import Decay
from text import Batch, check_choice, check_range


class TextClassifier(CertifiedClassifier, method=True):
    """A plain classifier on word and position embeddings of fixed norm."""

    def __init__(
        self,
        *,
        encoder: Literal["transformer", "mean"] = "transformer",
        depth: int = 2,
        heads: int = 8,
        width: int = 256,
        dropout: float = 0.1,
        loss: Loss = "cross_entropy",
        gamma: float = 0.0,
        gamma_schedule: Schedule = "linear",
        margin: Margin = "pairwise",
        margin_cap: float | None = 2.0,
        target_radius: float = 2.0,
        embedding_norm: float = 2.0,
        max_length: int = 128,
        min_count: int = 1,
        max_vocab_size: int | None = None,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        lr_scheduler: LRSchedulerCallable | None = None,
        warmup: float = 0.1,
        decay: Decay = "linear",
    ) -> None:
        """Keep the settings; layers are built once the vocabulary is known.

        Args:
            encoder: transformer: scaled dot-product attention, no certificate. mean: no attention
                at all, the sum of embeddings over sqrt(n), which has one.
            depth: Transformer layers; not used by mean.
            heads: attention heads; not used by mean.
            width: token width.
            dropout: while training; not used by mean.
            loss: of mean: see OLSA. transformer takes cross_entropy with gamma 0 only.
            gamma: weight of the margin reward (mean only).
            gamma_schedule: linear: gamma rises from 0 to its final value over the run.
            margin: what is rewarded: paper: logit difference / sqrt(2). pairwise: the radius.
            margin_cap: largest reward of one sample, in units of the margin; null for no limit,
                with which a large gamma runs off to one class.
            target_radius: radius that the hinge trains for.
            embedding_norm: norm of word and of position embeddings.
            max_length: longest text in tokens; longer ones are cut, and counted.
            min_count: words rarer than this in the training split become unknown.
            max_vocab_size: keep only so many of the most frequent words.
            optimizer: optimiser of all parameters.
            lr_scheduler: scheduler stepped once an epoch, in place of warmup and decay.
            warmup: share of all steps over which the learning rate rises from zero, or, above 1,
                their number.
            decay: shape of its way back to zero after that.
        """
        check_range({"gamma": gamma}, least=0)
        if encoder == "transformer" and (loss != "cross_entropy" or gamma != 0):
            msg = (
                f"got encoder=transformer with loss={loss} and gamma={gamma}, expected "
                "cross_entropy and 0: it has no certificate to train for; use OLSA or mean"
            )
            raise ValueError(msg)
        super().__init__(
            RadiusObjective(
                loss=loss,
                gamma=gamma,
                gamma_schedule=gamma_schedule,
                margin=margin,
                margin_cap=margin_cap,
                target_radius=target_radius,
            ),
            certified=encoder == "mean",
            max_length=max_length,
            min_count=min_count,
            max_vocab_size=max_vocab_size,
            optimizer=optimizer,
            lr_scheduler=lr_scheduler,
            warmup=warmup,
            decay=decay,
        )
        check_choice("encoder", encoder, ("transformer", "mean"))
        check_range({"depth": depth}, least=0)
        check_range({"heads": heads, "width": width}, least=1)
        check_range({"embedding_norm": embedding_norm}, above=0)
        check_range({"dropout": dropout}, least=0, below=1)
        self.save_hyperparameters(ignore=["optimizer", "lr_scheduler"])
        # Not read from hparams: a subclass built by the command line has its own arguments there.
        self.encoder, self.depth, self.heads = encoder, depth, heads
        self.width, self.dropout, self.embedding_norm = width, dropout, embedding_norm
        self.embedding: NormalizedEmbedding | None = None

    def unused(self) -> dict[str, str]:
        none = ("depth", "heads", "dropout") if self.encoder == "mean" else ()
        return super().unused() | dict.fromkeys(none, "encoder=mean")

    def configure_model(self) -> None:
        if self.embedding is not None:
            return
        tokenizer, class_names = self.require_text()
        self.embedding = NormalizedEmbedding(
            tokenizer.vocab_size,
            self.width,
            max_length=tokenizer.max_length,
            pairs=self.pairs,
            norm=self.embedding_norm,
        )
        network: nn.Module
        if self.encoder == "mean":
            network = olsa_classifier(
                self.width,
                len(class_names),
                depth=0,
                heads=1,
                radius=self.embedding.radius,
                initial_alpha_1=1.0,
            )
        else:
            network = TransformerClassifier(
                self.width,
                len(class_names),
                depth=self.depth,
                heads=self.heads,
                dropout=self.dropout,
            )
        self.network = network

    def embed(self, batch: Batch) -> Tensor:
        """`[B, N, d]`: word plus position embeddings."""
        if self.embedding is None:
            msg = "got a model without layers, expected configure_model() before its first use"
            raise RuntimeError(msg)
        tokens: Tensor = self.embedding(batch.input_ids, batch.segment_ids)
        return tokens

    def activations(self, batch: Batch) -> list[Tensor]:
        if not isinstance(self.network, TransformerClassifier) or self.depth == 0:
            return super().activations(batch)
        return self.network.hidden_states(self.embed(batch), batch.mask)[1:]
