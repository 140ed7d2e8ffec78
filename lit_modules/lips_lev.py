"""LipsLev: a classifier of characters that is Lipschitz in the edit distance."""

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor

from certify.edits import EditBound, LevenshteinCertifier
from certify.threats import TextCertifier, Threat, ThreatName
from layers.levenshtein_cnn import LevenshteinCNN
from layers.norms import NORMS, Norm
from lit_modules.shared.task_module import TaskModule, require_layers
from text import Batch, CharacterTokenizer, Text, Tokenizer, check_choice, check_range


class LipsLev(TaskModule, method=True):
    """Convolutions over characters with a bound for each edit (Abad Rocamora et al., 2025)."""

    threats: Sequence[ThreatName] = ("characters",)

    def __init__(
        self,
        *,
        width: int = 64,
        embedding: int | None = None,
        kernel: int = 5,
        depth: int = 1,
        norm: Norm = "inf",
        bias: bool = True,
        max_length: int = 512,
        **base: Any,
    ) -> None:
        """Keep the settings; layers are built once the characters are known.

        Args:
            width: width of layers.
            embedding: width of the embeddings of characters; null for `width`.
            kernel: characters of a window of one layer.
            depth: number of convolutions.
            norm: norm of vectors, used for every distance.
            bias: add a bias to each logit.
            max_length: longest text in characters, with its two ends; longer ones are cut, and
                counted.
            base: settings of `TaskModule`.
        """
        super().__init__(max_length=max_length, **base)
        sizes = {"width": width, "embedding": embedding, "kernel": kernel, "depth": depth}
        check_range(sizes, least=1)
        check_choice("norm", norm, NORMS)
        self.width, self.kernel, self.depth, self.norm = width, kernel, depth, norm
        self.embedding, self.bias = embedding, bias

    @property
    def no_certificate(self) -> str | None:
        return "its certificates are about characters: `certify --threat characters`"

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        return CharacterTokenizer.build(texts, max_length=self.max_length)

    def configure_model(self) -> None:
        if hasattr(self, "network"):
            return
        # The certified distance is between single texts.
        tokenizer, class_names = self.require_single_texts()
        self.network = LevenshteinCNN(
            tokenizer.vocab_size,
            self.width,
            len(class_names),
            embedding=self.embedding,
            kernel=self.kernel,
            depth=self.depth,
            norm=self.norm,
            bias=self.bias or self.detector is not None,
        )

    @property
    def trains_bias(self) -> bool:
        return self.bias

    @property
    def applies_output_layer(self) -> bool:
        return False  # its weights are divided by their size first

    def embed(self, batch: Batch) -> Tensor:
        """`[B, N, e]`: the vectors of the characters."""
        network: LevenshteinCNN = require_layers(getattr(self, "network", None))
        return network.embed(batch.input_ids)

    def text_certifier(self, threat: Threat, bound: EditBound = "sound") -> TextCertifier:
        if bound == "sound":
            return super().text_certifier(threat)
        copy = self.exact_copy()
        assert isinstance(copy, LipsLev)  # of the same class
        return copy.own_certifier(threat, bound)

    def own_certifier(self, threat: Threat, bound: EditBound = "sound") -> TextCertifier:
        assert isinstance(self.tokenizer, CharacterTokenizer)  # build_tokenizer made it
        assert isinstance(self.network, LevenshteinCNN)  # configure_model made it
        return LevenshteinCertifier(self.network, self.tokenizer, threat, bound)
