"""Exported models: folders with the weights as safetensors, and all else as JSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from attacks.digests import file_digest
from text.bounded_files import read_json
from text.torch_archive import CHECKPOINT_KEY

SETTINGS, WEIGHTS = "steadfast.json", "steadfast.safetensors"
"""Files of such a folder."""
_KEPT = ("hyper_parameters", "epoch", "global_step", CHECKPOINT_KEY)


def is_exported(path: Path) -> bool:
    """Return True for a folder that `write_exported` has written."""
    return (path / SETTINGS).is_file()


def checkpoint_digest(path: Path) -> str:
    """Return the SHA-256 of a checkpoint, or of the weights in a folder that was exported."""
    return file_digest(path / WEIGHTS if is_exported(path) else path)


def write_exported(checkpoint: Mapping[str, Any], folder: Path) -> None:
    """Write the part of a checkpoint that a prediction needs into an empty folder.

    The state of the training is left out.
    """
    # safetensors refuses tensors that share memory.
    tensors = {name: t.clone().contiguous() for name, t in checkpoint["state_dict"].items()}
    save_file(tensors, folder / WEIGHTS)
    content = {name: checkpoint[name] for name in _KEPT if name in checkpoint}
    # Names with an underscore are notes of the command line.
    settings = content["hyper_parameters"]
    content["hyper_parameters"] = {k: v for k, v in settings.items() if not k.startswith("_")}
    content["weights_sha256"] = file_digest(folder / WEIGHTS)
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1)
    (folder / SETTINGS).write_text(f"{text}\n", encoding="utf-8")


def read_exported(folder: Path) -> dict[str, Any]:
    """Return the checkpoint in a folder that `write_exported` has written.

    Raises:
        ValueError: a file is missing or damaged, or weights and settings are not of one model.
    """
    try:
        content = read_json(folder / SETTINGS, "the settings of an exported model")
        if not isinstance(content, dict):
            msg = f"{SETTINGS} holds no settings"
            raise ValueError(msg)
        if content.pop("weights_sha256", None) != file_digest(folder / WEIGHTS):
            msg = f"{WEIGHTS} is not the file that {SETTINGS} was written with"
            raise ValueError(msg)
        content["state_dict"] = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise ValueError(str(error)) from error
    # Lightning asks for it, to change checkpoints of earlier versions; this is none of its own.
    content.setdefault("pytorch-lightning_version", "2.6.6")
    return content
