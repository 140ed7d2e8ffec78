"""Encoders of `transformers`: from a folder, from the hub, or random from an architecture."""

import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

_LEADS_ELSEWHERE = re.compile(
    r"auto_map|trust_remote_code|attn_implementation|name_or_path|_config$"
)
"""Settings of an architecture by which transformers fetches more from the hub, or code."""

_NOT_NEEDED = re.compile(r"(^|\.)pooler\.")
"""Weights of an encoder that nobody here looks at; masked language models come without."""


def load_encoder(name_or_path: str) -> "PreTrainedModel":
    """A pretrained encoder, in float32.

    Args:
        name_or_path: folder or hub name.

    Raises:
        ValueError: there is none, or its weights are incomplete.
    """
    from transformers import AutoModel

    model, missing = _load(AutoModel, name_or_path)
    if missing:
        msg = (
            f"got backbone {name_or_path!r}, whose weights lack {len(missing)} of the encoder's "
            f"({missing[0]} and others), expected all of them: are config.json and the weights of "
            "one model?"
        )
        raise ValueError(msg)
    return model


def load_masked_lm(name_or_path: str) -> tuple["PreTrainedModel", bool]:
    """A pretrained encoder under a head that proposes words, in float32.

    Args:
        name_or_path: folder or hub name.

    Returns:
        The model, and whether its head came with it; else that has random weights.

    Raises:
        ValueError: there is none, or the encoder's weights are incomplete.
    """
    from transformers import AutoModelForMaskedLM

    model, missing = _load(AutoModelForMaskedLM, name_or_path)
    encoder = [name for name in missing if name.startswith(f"{model.base_model_prefix}.")]
    if encoder:
        msg = (
            f"got backbone {name_or_path!r}, whose weights lack {len(encoder)} of the encoder's "
            f"({encoder[0]} and others), expected all of them: are config.json and the weights of "
            "one model?"
        )
        raise ValueError(msg)
    return model, not missing


def build_encoder(architecture: dict[str, Any]) -> "PreTrainedModel":
    """An encoder with random weights, in float32.

    Args:
        architecture: see `configuration`.

    Raises:
        ValueError: see `configuration`.
    """
    from transformers import AutoModel

    return _build(AutoModel, architecture)


def build_masked_lm(architecture: dict[str, Any]) -> "PreTrainedModel":
    """An encoder under a head that proposes words, with random weights, in float32.

    Args:
        architecture: see `configuration`.

    Raises:
        ValueError: see `configuration`.
    """
    from transformers import AutoModelForMaskedLM

    return _build(AutoModelForMaskedLM, architecture)


def _load(kind: Any, name_or_path: str) -> tuple["PreTrainedModel", list[str]]:
    if Path(name_or_path).is_file():
        msg = (
            f"got backbone {name_or_path!r}, which is a file, expected a folder or hub name: "
            "pre-training writes a folder, runs/NAME/backbone"
        )
        raise ValueError(msg)
    try:
        with _quiet():
            # Said, not left open: where it is open, transformers asks at the terminal.
            model, report = kind.from_pretrained(
                name_or_path,
                dtype=torch.float32,
                trust_remote_code=False,
                output_loading_info=True,
            )
    except (OSError, ValueError, RuntimeError, pickle.UnpicklingError) as error:
        where = "folder" if Path(name_or_path).is_dir() else "folder or hub name"
        msg = (
            f"got backbone {name_or_path!r}, from which no encoder could be loaded "
            f"({str(error).strip().splitlines()[0]}); expected a {where} with config.json and "
            "weights: download it once where the hub can be reached, or give its folder"
        )
        raise ValueError(msg) from error
    missing = sorted(name for name in report["missing_keys"] if not _NOT_NEEDED.search(name))
    return model, missing


def _build(kind: Any, architecture: dict[str, Any]) -> "PreTrainedModel":
    model: PreTrainedModel = kind.from_config(
        configuration(architecture), dtype=torch.float32, trust_remote_code=False
    )
    return model


def configuration(architecture: dict[str, Any]) -> "PretrainedConfig":
    """An architecture as `transformers` takes it.

    Args:
        architecture: `model_type` (bert, roberta, ...) and the settings of its configuration that
            differ from the defaults.

    Raises:
        ValueError: no or an unknown `model_type`, a setting by which more would be loaded, or one
            that the type does not have.
    """
    from transformers import AutoConfig

    wrong = sorted(name for name in architecture if _LEADS_ELSEWHERE.search(name))
    kind = architecture.get("model_type")
    if wrong or not isinstance(kind, str):
        msg = (
            f"got a backbone's configuration with {', '.join(wrong) or 'no model_type'}, expected "
            "an architecture alone: take the checkpoint from who trained it, or train anew"
        )
        raise ValueError(msg)
    settings = {key: value for key, value in architecture.items() if key != "model_type"}
    try:
        config: PretrainedConfig = AutoConfig.for_model(kind, **settings)
    except (KeyError, TypeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        msg = f"got a backbone's architecture of {kind} that cannot be ({reason})"
        raise ValueError(msg) from error
    return config


def save_model(model: "PreTrainedModel", folder: Path) -> None:
    """Write config.json and model.safetensors into a folder, readable like any other file."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call] # theirs
    try:
        model.save_pretrained(folder)
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call] # theirs
    for path in folder.iterdir():
        path.chmod(0o644)


def architecture_of(model: "PreTrainedModel") -> dict[str, Any]:
    """The architecture of a model, as JSON scalars, lists and dicts."""
    config: dict[str, Any] = model.config.to_diff_dict()
    return {"model_type": model.config.model_type, **config}


def check_fits(encoder: "PreTrainedModel", vocab_size: int, max_length: int) -> None:
    """Raise ValueError unless an encoder has an embedding for every token and position.

    Args:
        encoder: the encoder.
        vocab_size: of the tokenizer.
        max_length: longest text in tokens.
    """
    words: int = encoder.config.vocab_size
    longest = max_length
    table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    if isinstance(table, nn.Embedding):
        # RoBERTa and its kin count positions from behind the padding id.
        taken = 0 if table.padding_idx is None else table.padding_idx + 1
        longest = table.num_embeddings - taken
    if vocab_size > words or max_length > longest:
        msg = (
            f"got a tokenizer of {vocab_size} ids and max_length={max_length}, expected at "
            f"most {words} ids and {longest} tokens for this backbone: use the tokenizer it "
            "was trained with, and a smaller max_length"
        )
        raise ValueError(msg)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the library from reporting on weights of heads: what is missing is said by us."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call] # theirs
    try:
        yield
    finally:
        logging.set_verbosity(before)
