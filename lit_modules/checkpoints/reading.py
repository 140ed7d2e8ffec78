"""Reads checkpoints of any method safely, with one clear error for each fault."""

import logging
import warnings
from pathlib import Path
from typing import Any

import torch

from attacks.resources.catalogue import ResourceError
from layers.attention.own_attention import NotImportedError
from lit_modules.checkpoints.exported import SETTINGS, is_exported, read_exported
from lit_modules.checkpoints.plausible import check_content, without_weights
from lit_modules.checkpoints.sealed import intact
from lit_modules.shared.settings import parameters
from lit_modules.shared.task_module import TaskModule
from lit_modules.shared.text_module import METHODS, TextModule
from text.bounded_files import DataError
from text.former_settings import renewed
from text.torch_archive import CHECKPOINT_FORMAT, CHECKPOINT_KEY, check_archive

log = logging.getLogger(__name__)

CONTENT = ("method", "tokenizer", "class_names", "pairs")
"""Keys of this project's part of a checkpoint, in addition to its format."""


class CheckpointError(ValueError):
    """A file that is not a checkpoint of this project, is damaged, or does not fit the model."""


def verify(path: str | Path) -> None:
    """Compare a checkpoint with its checksum; a missing checksum is only logged.

    Raises:
        CheckpointError: no such file, another folder than one of `export`, or a damaged file.
    """
    path = Path(path)
    if is_exported(path):
        return  # `read_exported` compares its checksum
    if path.is_dir():
        best = [*path.glob("checkpoints/best.ckpt"), *path.glob("best.ckpt")]
        others = f"--run NAME, or for a model of transformers `attack --victim hf:{path}`"
        msg = f"got checkpoint {path}, a folder without {SETTINGS}, expected one of `export`, or a "
        msg += f"file: use {best[0] if best else others}"
        raise CheckpointError(msg)
    if not path.is_file():
        msg = f"got checkpoint {path}, not found; expected one written by `fit` or `train`"
        raise CheckpointError(msg)
    try:
        valid = intact(path)
    except (DataError, OSError) as error:
        msg = f"got checkpoint {path}, which cannot be read ({error}); use another"
        raise CheckpointError(msg) from error
    if valid is False:
        msg = (
            f"got checkpoint {path}, which cannot be read (its checksum does not match): it is "
            "damaged; use another, for example last.ckpt or previous.ckpt beside it"
        )
        raise CheckpointError(msg)
    if valid is None:
        log.info("%s carries no checksum: not verified", path)


def read_checkpoint(path: str | Path, *, lazily: bool = False) -> dict[str, Any]:
    """Return the content of a checkpoint, on the CPU. Nothing in the file is executed.

    `path` is the file, or the folder of `export`; `lazily` maps the tensors into memory, to read
    the rest without them.

    Raises:
        CheckpointError: no such file, a damaged one, or one that this project did not write.
    """
    path = Path(path)
    verify(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of odd pickles before it fails on them
            if is_exported(path):
                checkpoint: Any = read_exported(path)
            else:
                # torch reads the file only if its pickle has plain values and stored tensors.
                check_archive(path)
                checkpoint = torch.load(path, "cpu", weights_only=True, mmap=lazily)
    # Damaged bytes lead torch's reader to exceptions of any kind.
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        msg = (
            f"got checkpoint {path}, which cannot be read ({reason}): it is damaged or no "
            "checkpoint; use another, for example last.ckpt beside it"
        )
        raise CheckpointError(msg) from error
    if not isinstance(checkpoint, dict) or CHECKPOINT_KEY not in checkpoint:
        msg = f"got checkpoint {path}, which was not written by this project"
        raise CheckpointError(msg)
    content = checkpoint[CHECKPOINT_KEY]
    version = content.get("format") if isinstance(content, dict) else None
    if version != CHECKPOINT_FORMAT:
        version = version if isinstance(version, int) else None
        msg = (
            f"got checkpoint {path} of format {version}, expected {CHECKPOINT_FORMAT}: an older or "
            "newer version of this project wrote it; use that version, or train again"
        )
        raise CheckpointError(msg)
    lost = [name for name in ("state_dict", "hyper_parameters") if name not in checkpoint]
    lost += [name for name in CONTENT if name not in content]
    if lost:
        msg = f"got checkpoint {path} without {', '.join(lost)}: it is damaged; use another"
        raise CheckpointError(msg)
    try:
        check_content(checkpoint)
    except ValueError as error:
        msg = f"got checkpoint {path}, which has {error}: it is damaged or made to harm"
        raise CheckpointError(msg) from error
    return checkpoint


def check_fits(
    checkpoint: dict[str, Any],
    model: TextModule,
    path: str | Path,
    *,
    advice: str = "evaluate it with the settings it was trained with",
) -> None:
    """Raise CheckpointError unless the checkpoint is of this model's method and shapes.

    Needs `model.restore_text(checkpoint)` and `model.configure_model()` before. The model has its
    weights, or is on the meta device; `advice` says what to do if they do not fit.
    """
    check_method(checkpoint, model, path)
    expected = {name: tuple(t.shape) for name, t in model.state_dict().items()}
    actual = {name: tuple(t.shape) for name, t in checkpoint["state_dict"].items()}
    if expected != actual:
        names = sorted(
            name
            for name in expected.keys() | actual.keys()
            if expected.get(name) != actual.get(name)
        )
        differences = ", ".join(
            f"{name}: {actual.get(name, 'absent')} in the file, {expected.get(name, 'absent')} in "
            "the model"
            for name in names[:3]
        )
        msg = (
            f"got checkpoint {path}, whose weights do not fit the model ({len(names)} differ; "
            f"{differences}): {advice}"
        )
        raise CheckpointError(msg)


def check_would_fit(checkpoint: dict[str, Any], model: TextModule, path: str | Path) -> None:
    """Raise CheckpointError unless a model will fit, before there is memory for its weights.

    Needs `model.restore_text(checkpoint)` before.
    """
    try:
        planned = without_weights(checkpoint, model)
    except ValueError as error:
        msg = f"got checkpoint {path}, from which no model can be built ({error}): other settings?"
        raise CheckpointError(msg) from error
    check_fits(checkpoint, planned, path)


def check_method(checkpoint: dict[str, Any], model: TextModule, path: str | Path) -> None:
    """Raise CheckpointError unless the checkpoint was written by this model's method."""
    method = checkpoint[CHECKPOINT_KEY]["method"]
    if method != type(model).__name__:
        msg = (
            f"got checkpoint {path} of method {method}, expected {type(model).__name__}: "
            f"give --model {method}, or another checkpoint"
        )
        raise CheckpointError(msg)


def load(path: str | Path) -> TaskModule:
    """Return the classifier of any checkpoint, of any method, on the CPU and in evaluation mode.

    `fit` and `train` write checkpoints, `export` folders; nothing else is needed.

    Raises:
        CheckpointError: see `load_module`, or a checkpoint of something else than a classifier.
    """
    module = load_module(path)
    if not isinstance(module, TaskModule):
        msg = (
            f"got checkpoint {path} of {type(module).__name__}, which classifies nothing, expected "
            "one of a classifier: train one on the folder `backbone` beside its checkpoints"
        )
        raise CheckpointError(msg)
    return module


def load_module(path: str | Path) -> TextModule:
    """Return the module of any checkpoint, on the CPU and in evaluation mode.

    `fit` and `train` write checkpoints, `export` folders; nothing else is needed.

    Raises:
        CheckpointError: see `read_checkpoint`, or a method or setting unknown to this version.
        ResourceError: its words are lemmatised, and WordNet or the tagger is not there.
    """
    checkpoint = read_checkpoint(path)
    method = checkpoint[CHECKPOINT_KEY]["method"]
    if method not in METHODS:
        msg = f"got checkpoint {path} of method {method}, expected one of {', '.join(METHODS)}"
        raise CheckpointError(msg)
    accepted = parameters(METHODS[method])
    # Names with an underscore are notes of LightningCLI.
    stored = renewed(checkpoint["hyper_parameters"])
    settings = {name: value for name, value in stored.items() if not name.startswith("_")}
    if unknown := sorted(settings.keys() - accepted.keys()):
        msg = f"got checkpoint {path} with settings unknown to this version: {', '.join(unknown)}"
        raise CheckpointError(msg)
    try:
        model = METHODS[method].from_settings(settings)
        model.restore_text(checkpoint)
        check_would_fit(checkpoint, model, path)
        model.configure_model()
    except (CheckpointError, ResourceError):
        raise
    except NotImportedError as error:
        msg = f"got checkpoint {path}, of which no model can be built: {error}"
        raise CheckpointError(msg) from error
    # Invalid settings lead constructors to exceptions of any kind.
    except Exception as error:
        msg = f"got checkpoint {path}, from which no model can be built ({error}): it is damaged"
        raise CheckpointError(msg) from error
    model.load_state_dict(checkpoint["state_dict"])
    return model.eval()
