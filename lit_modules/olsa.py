"""OLSA: Transformers with 1-Lipschitz self-attention, from scratch or on a frozen encoder.

Source: "Certifiably Robust Transformers with 1-Lipschitz Self-Attention". Where we deviate, and
why, is in docs/methods/olsa.md.
"""

from collections.abc import Iterable
from typing import Any

import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from layers import NormalizedEmbedding, olsa_classifier
from layers.attention.additive import Activation
from layers.attention.bounds import Bound
from layers.frozen_backbone import FrozenBackbone
from layers.orthogonal import Method
from layers.pretrained_encoders import check_backbone
from lit_modules.shared.certified import CertifiedClassifier
from lit_modules.shared.radius_objective import Loss, Margin, RadiusObjective, Schedule
from lit_modules.shared.schedule import Decay
from lit_modules.shared.text_module import CHECKPOINT_KEY
from text import Batch, PretrainedTokenizer, Text, Tokenizer, check_range


class OLSA(CertifiedClassifier, method=True):
    """One-Lipschitz self-attention on word embeddings, or on a frozen pretrained encoder."""

    def __init__(
        self,
        *,
        depth: int = 1,
        heads: int = 8,
        width: int = 256,
        loss: Loss = "hinge",
        gamma: float = 2.0,
        gamma_schedule: Schedule = "linear",
        margin: Margin = "pairwise",
        margin_cap: float | None = 2.0,
        target_radius: float = 2.0,
        bound: Bound = "sound",
        initial_alpha_1: float = 16.0,
        value_clip: float | None = None,
        offset_heads: int = 0,
        feedforward: bool = False,
        orthogonal: Method = "cayley",
        embedding_norm: float = 2.0,
        head_bias: bool = False,
        activation: Activation = "maxmin",
        mean_norm: bool = False,
        dropout: float = 0.0,
        backbone: str | None = None,
        backbone_layer: int = -1,
        cache_backbone: bool = False,
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
            depth: number of OLSA layers; 0 is a bag of embeddings.
            heads: attention heads.
            width: token width from scratch; on a backbone the backbone's width is used.
            loss: hinge: on the certified radius, up to target_radius. cross_entropy: minus gamma
                times the margin reward, as the paper.
            gamma: final weight of the margin reward.
            gamma_schedule: linear: gamma rises from 0 to its final value over the run.
            margin: what is rewarded: paper: logit difference / sqrt(2). pairwise: the radius.
            margin_cap: largest reward of one sample, in units of the margin; null for no limit,
                with which a large gamma runs off to one class.
            target_radius: radius that the hinge trains for.
            bound: formula behind alpha_2. sound: our theorem. paper: as printed, not a theorem.
            initial_alpha_1: attention temperature at the start; trained.
            value_clip: project each head's values to value_clip * r / sqrt(heads); null for none.
            offset_heads: how many heads look at the neighbours 1, 1, 2, 2, ... tokens away, which
                costs nothing in the bound (ours).
            feedforward: add a 1-Lipschitz feed-forward map to every layer (ours).
            orthogonal: parametrisation of orthogonal weights.
            embedding_norm: norm of word and of position embeddings, or of the backbone's output.
            head_bias: a bias in the head, with which a margin reward can run off to one class.
            activation: of the attention scores; relu is the paper's ablation.
            mean_norm: LayerNorm without variance after each layer, the paper's ablation.
            dropout: after each layer while training, the paper's ablation.
            backbone: folder or hub name of a pretrained encoder to put OLSA on, kept frozen.
            backbone_layer: which of its hidden states; -1 is the last.
            cache_backbone: keep its outputs for the training split in memory after first use.
            max_length: longest text in tokens; longer ones are cut, and counted.
            min_count: words rarer than this in the training split become unknown.
            max_vocab_size: keep only so many of the most frequent words.
            optimizer: optimiser of all trainable parameters.
            lr_scheduler: scheduler stepped once an epoch, in place of warmup and decay.
            warmup: share of all steps over which the learning rate rises from zero, or, above 1,
                their number.
            decay: shape of its way back to zero after that.
        """
        objective = RadiusObjective(
            loss=loss,
            gamma=gamma,
            gamma_schedule=gamma_schedule,
            margin=margin,
            margin_cap=margin_cap,
            target_radius=target_radius,
        )
        super().__init__(
            objective,
            max_length=max_length,
            min_count=min_count,
            max_vocab_size=max_vocab_size,
            optimizer=optimizer,
            lr_scheduler=lr_scheduler,
            warmup=warmup,
            decay=decay,
        )
        check_range({"depth": depth, "offset_heads": offset_heads}, least=0)
        check_range({"heads": heads, "width": width}, least=1)
        lengths = {"embedding_norm": embedding_norm, "initial_alpha_1": initial_alpha_1}
        check_range({**lengths, "value_clip": value_clip}, above=0)
        check_range({"dropout": dropout}, least=0, below=1)
        self.save_hyperparameters(ignore=["optimizer", "lr_scheduler"])
        # Not read from hparams: a subclass built by the command line has its own arguments there.
        self.width, self.embedding_norm = width, embedding_norm
        self.backbone, self.backbone_layer = backbone, backbone_layer
        self.cache_backbone = cache_backbone
        self.layers: dict[str, Any] = {
            "depth": depth,
            "heads": heads,
            "initial_alpha_1": initial_alpha_1,
            "bound": bound,
            "value_clip": value_clip,
            "offset_heads": offset_heads,
            "feedforward": feedforward,
            "activation": activation,
            "orthogonal": orthogonal,
            "mean_norm": mean_norm,
            "dropout": dropout,
            "head_bias": head_bias,
        }
        self.backbone_config: dict[str, Any] | None = None
        self.embedding: NormalizedEmbedding | FrozenBackbone | None = None

    def unused(self) -> dict[str, str]:
        if self.backbone is None:
            return super().unused() | dict.fromkeys(
                ("backbone_layer", "cache_backbone"), "backbone=null"
            )
        words = ("width", "min_count", "max_vocab_size")
        return super().unused() | dict.fromkeys(words, "a backbone, which has its own")

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        if self.backbone is None:
            return super().build_tokenizer(texts)
        check_backbone(self.backbone)
        return PretrainedTokenizer.from_pretrained(self.backbone, max_length=self.max_length)

    def configure_model(self) -> None:
        if self.embedding is not None:
            return
        tokenizer, class_names = self.require_text()
        if self.backbone is None:
            self.embedding = NormalizedEmbedding(
                tokenizer.vocab_size,
                self.width,
                max_length=tokenizer.max_length,
                pairs=self.pairs,
                norm=self.embedding_norm,
            )
            width, radius = self.width, self.embedding.radius
        else:
            self.embedding = FrozenBackbone(
                self.backbone,
                config=self.backbone_config,
                layer=self.backbone_layer,
                norm=self.embedding_norm,
                cache=self.cache_backbone,
            )
            self.embedding.check_fits(tokenizer.vocab_size, tokenizer.max_length)
            width, radius = self.embedding.width, self.embedding_norm
        self.network = olsa_classifier(width, len(class_names), radius=radius, **self.layers)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        if isinstance(self.embedding, FrozenBackbone):
            checkpoint[CHECKPOINT_KEY]["backbone"] = self.embedding.config

    def restore_text(self, checkpoint: dict[str, Any]) -> None:
        super().restore_text(checkpoint)
        self.backbone_config = checkpoint[CHECKPOINT_KEY].get("backbone")
        if (self.backbone is None) != (self.backbone_config is None):
            # Else a checkpoint could have a folder read, or a model fetched, by its name alone.
            msg = (
                f"got a checkpoint {'without' if self.backbone_config is None else 'with'} the "
                f"architecture of a backbone for backbone={self.backbone!r}, expected both or none"
            )
            raise ValueError(msg)

    def embed(self, batch: Batch) -> Tensor:
        """`[B, N, d]`: word plus position embeddings, or the backbone's normalised output."""
        if isinstance(self.embedding, FrozenBackbone):
            vectors: Tensor = self.embedding(
                batch.input_ids,
                batch.mask,
                batch.segment_ids,
                sample_ids=batch.sample_ids if self.training else None,
            )
            return vectors
        if self.embedding is None:
            msg = "got a model without layers, expected configure_model() before its first use"
            raise RuntimeError(msg)
        tokens: Tensor = self.embedding(batch.input_ids, batch.segment_ids)
        return tokens
