"""Encoders of `transformers` from a folder or from the hub, and back into a folder."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from layers.architectures import check_guesses_words, check_reads_text
from layers.positions import longest_text
from layers.quiet_transformers import quiet
from text.error_reasons import describe_error

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Optional weights of an encoder; those of masked language models are missing.
_POOLER = re.compile(r"(^|\.)pooler\.")


def load_encoder(
    name_or_path: str, *, random_pooler: bool = True, decoders: bool = False
) -> "PreTrainedModel":
    """Return a pretrained encoder of a folder or of the hub, in float32.

    `random_pooler` keeps a pooler whose weights are missing; `decoders`: see `check_reads_text`.

    Raises:
        ValueError: it is not found, or its weights are incomplete.
    """
    from transformers import AutoModel

    model, lacking = _load(AutoModel, name_or_path, decoders=decoders)
    missing = [name for name in lacking if not _POOLER.search(name)]
    if missing != lacking and not random_pooler:
        drop_pooler(model)
    _check_complete(name_or_path, missing)
    return model


def load_masked_lm(name_or_path: str) -> tuple["PreTrainedModel", bool]:
    """Return a pretrained encoder under a head that proposes words, in float32.

    Also whether the weights of its head were found; otherwise they are random.

    Raises:
        ValueError: it is not found, guesses no masked words, or the encoder's weights are
            incomplete.
    """
    from transformers import AutoConfig, AutoModelForMaskedLM

    check_backbone(name_or_path)
    with _reading(name_or_path):
        config = AutoConfig.from_pretrained(name_or_path, trust_remote_code=False)
    check_guesses_words(config)
    model, lacking = _load(AutoModelForMaskedLM, name_or_path)
    missing = [name for name in lacking if not _POOLER.search(name)]
    encoder = [name for name in missing if name.startswith(f"{model.base_model_prefix}.")]
    _check_complete(name_or_path, encoder)
    return model, not missing


def _check_complete(name_or_path: str, missing: Sequence[str]) -> None:
    if missing:
        msg = (
            f"got backbone {name_or_path!r}, whose weights lack {len(missing)} of the encoder's "
            f"({missing[0]} and others), expected all of them: are config.json and the weights of "
            "one model?"
        )
        raise ValueError(msg)


def check_backbone(name_or_path: str) -> None:
    """Raise ValueError for a file, and for the path of a missing folder."""
    path = Path(name_or_path)
    if path.is_file():
        msg = (
            f"got backbone {name_or_path!r}, which is a file, expected a folder or hub name: "
            "pre-training writes a folder, runs/NAME/backbone"
        )
        raise ValueError(msg)
    # Names on the hub have at most one slash.
    only_folder = path.is_absolute() or len(path.parts) > 2 or ".." in path.parts
    if (only_folder or name_or_path.startswith(("./", "~"))) and not path.is_dir():
        home = " (~ is left as it is: write the whole path)" * name_or_path.startswith("~")
        msg = (
            f"got backbone {name_or_path!r}, which is no folder{home}, expected one with "
            "config.json and weights, or a hub name: pre-training (--model MaskedLM) writes a "
            "folder at its end, runs/NAME/backbone"
        )
        raise ValueError(msg)


def _load(
    kind: Any, name_or_path: str, *, decoders: bool = False
) -> tuple["PreTrainedModel", list[str]]:
    check_backbone(name_or_path)
    with _reading(name_or_path):
        # Explicit `trust_remote_code`: with its default, transformers asks at the terminal.
        model, report = kind.from_pretrained(
            name_or_path,
            dtype=torch.float32,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # reported below, in one line
        )
    check_reads_text(model, decoders=decoders)
    if report["mismatched_keys"]:
        name, stored, declared = min(report["mismatched_keys"], key=str)
        msg = (
            f"got backbone {name_or_path!r}, whose weights have other shapes than its config.json "
            f"says ({name}: {tuple(stored)} and {tuple(declared)}, among others), expected the two "
            "files of one model"
        )
        raise ValueError(msg)
    return model, sorted(report["missing_keys"])


@contextmanager
def _reading(name_or_path: str) -> Iterator[None]:
    """Turn what `transformers` raises for foreign files into a ValueError of one line."""
    try:
        with quiet():
            yield
    # Foreign files lead the library to exceptions of any kind.
    except Exception as error:
        where = "folder" if Path(name_or_path).is_dir() else "folder or hub name"
        reason = describe_error(error)
        advice = (
            f"expected a {where} with config.json and weights: download it once where the hub can "
            "be reached, or give its folder"
        )
        if "trust_remote_code" in reason:
            reason = "it brings Python code of its own, and no code of a model is run"
            advice = (
                "expected a model_type of transformers: many such models are on the hub in that "
                "form as well, as gte, nomic_bert and eurobert are"
            )
        msg = (
            f"got backbone {name_or_path!r}, from which no encoder could be loaded "
            f"({reason:.300}); {advice}"
        )
        raise ValueError(msg) from error


def pooler_of(encoder: "PreTrainedModel") -> nn.Linear | None:
    """Return the dense layer of an encoder's pooler if it is like BERT's: d x d, then tanh."""
    pooler = getattr(encoder, "pooler", None)
    dense = getattr(pooler, "dense", pooler)
    # ALBERT's pooler is the dense layer alone, and the encoder has the activation.
    owner = encoder if dense is pooler else pooler
    activation = getattr(owner, "pooler_activation", getattr(owner, "activation", None))
    if not isinstance(dense, nn.Linear) or not isinstance(activation, nn.Tanh):
        return None
    width: int = encoder.config.hidden_size
    return dense if dense.weight.shape == (width, width) and dense.bias is not None else None


def drop_pooler(encoder: "PreTrainedModel") -> None:
    """Drop the pooler of an encoder, so that it returns hidden states only."""
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None  # type: ignore[assignment] # torch allows it


def checkpoint_gradients(model: "PreTrainedModel") -> None:
    """Let the layers of a model keep no activations for their gradients, and be computed again.

    Raises:
        ValueError: its layers cannot.
    """
    if not model.supports_gradient_checkpointing:
        msg = (
            f"got backbone.gradient_checkpointing=true for a {model.config.model_type}, whose "
            "layers cannot be computed again, expected false"
        )
        raise ValueError(msg)
    enable: Any = getattr(model, "activation_checkpointing_enable", None)  # its newer name
    # The other kind gives no gradient to adapters above a frozen first layer.
    (enable or model.gradient_checkpointing_enable)({"use_reentrant": False})


def checkpoints_gradients(model: nn.Module) -> bool:
    """Return True if layers of a model are computed again for their gradients."""
    return any(getattr(part, "gradient_checkpointing", False) for part in model.modules())


def save_model(model: "PreTrainedModel", folder: Path) -> None:
    """Write config.json and model.safetensors into a folder, readable for all users."""
    with quiet():
        model.save_pretrained(folder)
    for path in folder.iterdir():
        path.chmod(0o644)


def check_fits(encoder: "PreTrainedModel", vocab_size: int, max_length: int) -> None:
    """Raise ValueError unless an encoder has an embedding for every token and position."""
    words: int = encoder.config.vocab_size
    limit = longest_text(encoder)
    longest = max_length if limit is None else limit
    if vocab_size > words or max_length > longest:
        msg = (
            f"got a tokenizer of {vocab_size} ids and max_length={max_length}, expected at "
            f"most {words} ids and {longest} tokens for this backbone: use the tokenizer it "
            "was trained with, and a smaller max_length"
        )
        raise ValueError(msg)
