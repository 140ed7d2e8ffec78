"""`python -m app export`: a trained model as a folder for others."""

import argparse
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch

from app.cli.run_options import run_parser
from app.cli.terminal import harmless
from app.export.model_card import model_card
from app.export.onnx_file import FILE, write_onnx
from app.runs.atomic import replace_folder
from app.runs.resume import evaluated
from app.runs.weights import unfinished, weights_of
from layers.backbones import BackboneClassifier
from layers.pretrained_encoders import save_model
from layers.sequence_classifiers import sequence_classifier
from lit_modules import TaskModule, TextModule, load_module, read_checkpoint
from lit_modules.checkpoints.exported import is_exported, write_exported
from lit_modules.shared.encoder_training import EncoderTraining
from text import PretrainedTokenizer, collate, save_tokenizer

log = logging.getLogger(__name__)

TRANSFORMERS = "transformers"
"""Folder, inside an exported one, that the library of this name loads."""
_SAME = 1e-4
"""Largest difference of logits in float32 that counts as none."""


def main(argv: Sequence[str]) -> int:
    """Runs `export`; see `Command.place`.

    Raises:
        ValueError: a folder that holds something else.
        OSError: no such run, or a folder that cannot be written.
    """
    args = parser().parse_args(argv)
    run, checkpoint = evaluated("export", Path(args.runs_dir), args.run, args.ckpt_path)
    folder = Path(args.to)
    if (
        folder.exists()
        and not is_exported(folder)
        and (not folder.is_dir() or any(folder.iterdir()))
    ):
        msg = (
            f"got --to {folder}, which is there and was not written by `export`, expected a new "
            "folder, an empty one, or an earlier export"
        )
        raise ValueError(msg)
    if (said := unfinished(checkpoint)) is not None:
        log.warning("%s", said)
    model = load_module(checkpoint)
    fresh = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        write_exported(read_checkpoint(checkpoint), fresh)
        loads = _write_transformers(model, fresh / TRANSFORMERS)
        if args.onnx == "true":
            loads += _write_onnx(model, fresh)
        results = None if run is None else run.results()
        card = model_card(model, weights_of(checkpoint), results, loads)
        (fresh / "README.md").write_text(card, encoding="utf-8")
        replace_folder(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        print(harmless(f"{path.stat().st_size:>12,}  {path}"))
    return 0


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = run_parser(
        "export",
        "Write a trained model as a folder for others: weights as safetensors, settings, "
        "vocabulary and classes as JSON, a model card with figures; an encoder of transformers "
        "also as a folder that transformers loads.",
        device=False,
    )
    made.add_argument("--to", required=True, metavar="FOLDER", help="the folder")
    made.add_argument(
        "--onnx",
        choices=("true", "false"),
        default="false",
        help=f"also write {FILE}, whose logits are compared with the model's (default: false)",
    )
    return made


def _write_onnx(model: TextModule, folder: Path) -> list[str]:
    """Writes the ONNX file, and says in words what it takes.

    Raises:
        ValueError: there can be none; the message says why.
    """
    plain = model.plain if isinstance(model, TaskModule) else None
    reason: str | None = "it classifies no texts"
    if plain is not None and plain.task.name in ("classification", "regression"):
        reason = write_onnx(plain, folder / FILE)
    if reason is not None:
        msg = f"got --onnx true for {type(model).__name__}, expected a model that can be ONNX: "
        msg += f"{reason}; leave --onnx out"
        raise ValueError(msg)
    return [
        f"`{FILE}` gives the same logits by onnxruntime, but for rounding: inputs `input_ids` "
        "`[B, N]` (int64) and `mask` `[B, N]` (bool, true at real tokens); `segment_ids` of pairs. "
        "It has no tokenizer: `model.encode_texts` makes the ids."
    ]


def _write_transformers(model: TextModule, folder: Path) -> list[str]:
    """Writes what `transformers` can load, and says in words what that is."""
    if isinstance(model, EncoderTraining):
        folder.mkdir()
        model.export(folder)
        return [f"`transformers.AutoModel.from_pretrained('{TRANSFORMERS}')` loads the encoder."]
    plain = model.plain if isinstance(model, TaskModule) else None
    tokenizer = model.require_tokenizer()
    network = getattr(plain, "network", None)
    if not isinstance(network, BackboneClassifier) or not isinstance(
        tokenizer, PretrainedTokenizer
    ):
        return []
    assert plain is not None  # it has a network
    folder.mkdir()
    save_tokenizer(tokenizer, folder)
    found = sequence_classifier(network, plain.require_text()[1], pad_id=tokenizer.pad_id)
    if found is not None and _same(plain, found):
        save_model(found, folder)
        return [
            f"`transformers.AutoModelForSequenceClassification.from_pretrained('{TRANSFORMERS}')` "
            "loads the same classifier: its logits are equal but for rounding."
        ]
    save_model(network.backbone.encoder, folder)
    return [
        f"`transformers.AutoModel.from_pretrained('{TRANSFORMERS}')` loads the encoder alone: "
        "`transformers` has no head as this one."
    ]


@torch.no_grad()
def _same(model: TaskModule, other: torch.nn.Module) -> bool:
    """True if two classifiers give the same logits for some texts of the model's vocabulary."""
    tokenizer = model.require_tokenizer()
    words = ["a", "good", "bad", "film", "the", "not", "very", "."]
    texts = [" ".join(words[:n]) for n in (2, 5, 8)]
    given = [(text, text[::-1]) if model.pairs else text for text in texts]
    encodings = tokenizer.encode(given)
    batch = collate(encodings, pad_id=tokenizer.pad_id, pairs=model.pairs)
    segments = {} if batch.segment_ids is None else {"token_type_ids": batch.segment_ids}
    kind = getattr(other, "config", None)
    if getattr(kind, "type_vocab_size", 0) < 2:
        segments = {}
    theirs = other(input_ids=batch.input_ids, attention_mask=batch.mask.long(), **segments).logits
    return bool((model(batch) - theirs).abs().max() <= _SAME * theirs.abs().max().clamp_min(1))
