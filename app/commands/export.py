"""Write a trained model as a folder to share.

Weights as safetensors, settings, vocabulary and classes as JSON, a model card with figures; an
encoder of transformers also as a folder that transformers loads.
"""

import argparse
import logging
from pathlib import Path

import torch

from app.cli.run_options import RUN, add_option, command_parser
from app.export import FILE, model_card, sample_batch, write_onnx
from layers.backbones import BackboneClassifier
from layers.pretrained_encoders import save_model
from layers.sequence_classifiers import sequence_classifier
from lit_modules import AdversarialTraining, TaskModule, TextModule, load_module, read_checkpoint
from lit_modules.checkpoints.exported import is_exported, write_exported
from lit_modules.shared.encoder_training import EncoderTraining
from run_files.atomic import replacing_folder
from run_files.checkpoint_lookup import find_checkpoint
from run_files.terminal import harmless
from run_files.weights import unfinished, weights_of
from text import PretrainedTokenizer, save_tokenizer

log = logging.getLogger(__name__)

TRANSFORMERS = "transformers"
"""Folder, inside an exported one, that the library of this name loads."""
_TOLERANCE = 1e-4
"""Largest relative difference of logits in float32 that counts as rounding."""


def run(args: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        ValueError: a folder with other content.
        OSError: run not found, or a folder cannot be written.
    """
    run, checkpoint = find_checkpoint("export", Path(args.runs_dir), args.run, args.ckpt_path)
    folder = Path(args.output)
    empty = folder.is_dir() and not any(folder.iterdir())
    if folder.exists() and not empty and not is_exported(folder):
        msg = (
            f"got --output {folder}, which exists and was not written by `export`, expected a new "
            "folder, an empty one, or an earlier export"
        )
        raise ValueError(msg)
    if (warning := unfinished(checkpoint)) is not None:
        log.warning("%s", warning)
    model = load_module(checkpoint)
    with replacing_folder(folder) as fresh:
        write_exported(read_checkpoint(checkpoint), fresh)
        formats = _write_transformers(model, fresh / TRANSFORMERS)
        if args.onnx == "true":
            formats.append(_write_onnx(model, fresh))
        results = None if run is None else run.results()
        card = model_card(model, weights_of(checkpoint), results, formats)
        (fresh / "README.md").write_text(card, encoding="utf-8")
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        print(harmless(f"{path.stat().st_size:>12,}  {path}"))
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = command_parser("export", __doc__, *RUN)
    add_option(parser, "--output", required=True, help="folder to write")
    text = f"also write {FILE}, whose logits are compared with the model's"
    parser.add_argument("--onnx", choices=("true", "false"), default="false", help=text)
    return parser


def _alone(model: TextModule) -> TaskModule | None:
    """Return the classifier that predicts as the model does; None for votes and other modules."""
    votes = isinstance(model, AdversarialTraining) and model.adversary.votes
    return model.plain if isinstance(model, TaskModule) and not votes else None


def _write_onnx(model: TextModule, folder: Path) -> str:
    """Write the ONNX file; return a sentence about its inputs.

    Raises:
        ValueError: the model cannot be exported; the message says why.
    """
    plain = _alone(model)
    reason: str | None = "it does not classify texts, or by votes only"
    if plain is not None and plain.task.name in ("classification", "regression"):
        reason = write_onnx(plain, folder / FILE)
    if reason is not None:
        msg = f"got --onnx true for {type(model).__name__}, expected a model that can be ONNX: "
        msg += f"{reason}; leave --onnx out"
        raise ValueError(msg)
    return (
        f"`{FILE}` gives the same logits by onnxruntime, but for rounding: inputs `input_ids` "
        "`[B, N]` (int64) and `mask` `[B, N]` (bool, true at real tokens); `segment_ids` of pairs. "
        "It has no tokenizer: `model.encode_texts` makes the ids."
    )


def _write_transformers(model: TextModule, folder: Path) -> list[str]:
    """Write the parts that `transformers` can load; return sentences about them."""
    if isinstance(model, EncoderTraining):
        folder.mkdir()
        model.export(folder)
        return [f"`transformers.AutoModel.from_pretrained('{TRANSFORMERS}')` loads the encoder."]
    plain = _alone(model)
    tokenizer = model.require_tokenizer()
    network = getattr(plain, "network", None)
    if not isinstance(network, BackboneClassifier) or not isinstance(
        tokenizer, PretrainedTokenizer
    ):
        return []
    assert plain is not None  # for mypy: it has a network
    folder.mkdir()
    save_tokenizer(tokenizer, folder)
    twin = sequence_classifier(network, plain.require_text()[1], pad_id=tokenizer.pad_id)
    # Compared, because transformers may apply a head of this architecture in another way.
    if twin is not None and _has_same_logits(plain, twin):
        save_model(twin, folder)
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
def _has_same_logits(model: TaskModule, twin: torch.nn.Module) -> bool:
    """Return True if both classifiers give the same logits for some texts."""
    batch = sample_batch(model, (2, 5, 8))
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.mask.long()}
    # DistilBERT and RoBERTa have one kind of segment or none: they do not take the ids of two.
    segments = getattr(getattr(twin, "config", None), "type_vocab_size", 0)
    if batch.segment_ids is not None and segments >= 2:
        inputs["token_type_ids"] = batch.segment_ids
    logits = twin(**inputs).logits  # [B, C]
    return bool((model(batch) - logits).abs().max() <= _TOLERANCE * logits.abs().max().clamp_min(1))
