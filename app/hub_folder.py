"""Folders of trained models: for this program, for `transformers`, and on the hub."""

import copy
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub import HfApi

from app.export import FILE, model_card, sample_batch, write_onnx
from datamodules import CORPORA
from layers.architectures import architecture_of
from layers.backbones import BackboneClassifier
from layers.lora import merge_adapters
from layers.pretrained_encoders import save_model
from layers.sequence_classifiers import (
    LAST_TOKEN,
    PATHS,
    difference,
    find_head,
    sequence_classifier,
    take_weights,
)
from lit_modules import (
    AdversarialTraining,
    FineTuning,
    TaskModule,
    TextModule,
    load_module,
    read_checkpoint,
)
from lit_modules.checkpoints.exported import is_exported, write_exported
from lit_modules.shared.encoder_training import EncoderTraining
from measure.named_victims import pretrained_victim
from measure.verdict import judge_run
from run_files.atomic import replacing_folder
from run_files.run_directory import RunDirectory, class_name
from run_files.weights import Weights, warn_unfinished, weights_of
from text import PretrainedTokenizer, save_tokenizer
from text.error_reasons import describe_error

log = logging.getLogger(__name__)

_TOLERANCE = 1e-4
"""Largest relative difference of logits in float32 that counts as rounding."""
_NO_CLASSIFIER = "not for transformers: %s"


class Formats(NamedTuple):
    """Sentences about the formats of a folder, for its card."""

    sentences: list[str]
    # True if `transformers` loads the whole classifier.
    classifier: bool = False


def write_folder(run: RunDirectory | None, checkpoint: Path, folder: Path, *, onnx: bool) -> None:
    """Write a trained model, a file or an exported folder, as a folder with a card of its run.

    An earlier export is replaced; a folder with other content is refused, and with `onnx` a model
    that cannot be an ONNX file.
    """
    _check_folder(folder)
    warn_unfinished(checkpoint)
    module, weights = load_module(checkpoint), weights_of(checkpoint)
    content: Mapping[str, Any] = read_checkpoint(checkpoint)
    if isinstance(module, FineTuning) and module.lora.rank:
        module.merge_adapters()
        content = _content(module)
    _write(module, content, weights, folder, run=run, onnx=onnx)


def adopt_classifier(name: str, folder: Path, *, pairs: bool, onnx: bool) -> None:
    """Write a classifier of `transformers`, `hf:FOLDER_OR_ID`, as a folder of `FineTuning`.

    `pairs` is True if it classifies pairs of texts. A head of another form is a ValueError; for the
    rest see `write_folder`.
    """
    _check_folder(folder)
    source = name.removeprefix("hf:")
    if source == name:
        msg = f"got --victim {name}, expected hf:FOLDER_OR_ID"
        raise ValueError(msg)
    victim = pretrained_victim(source, "cpu")
    config = victim.model.config
    if find_head(config) is None:
        msg = f"got {name} of type {config.model_type}, whose head has another form than "
        msg += f"{', '.join(PATHS)} and most decoders: `attack`, `certify --list` and `check` "
        msg += "take it by --victim"
        raise ValueError(msg)
    # Ours cut the end: long texts would get other predictions.
    if (side := getattr(victim.tokenizer, "truncation_side", "right")) != "right":
        msg = f"got {name}, whose tokenizer cuts long texts at truncation_side {side}, expected "
        msg += "right: change it in tokenizer_config.json, or give the model as --victim"
        raise ValueError(msg)
    architecture = architecture_of(victim.model.base_model)
    tokenizer = PretrainedTokenizer.from_pretrained(source, max_length=victim.max_length)
    settings = {"backbone": {"architecture": architecture}, "pooling": "architecture"}
    module = FineTuning.from_settings({**settings, "max_length": victim.max_length})
    # As from a checkpoint: folders on the hub have settings that their type does not know.
    module.source.restored = architecture
    module.attach(tokenizer, victim.class_names, pairs=pairs)
    module.configure_model()
    take_weights(module.network, victim.model)
    _write(module.eval(), _content(module), None, folder, run=None, onnx=onnx)


def _content(module: TextModule) -> dict[str, Any]:
    """Return a checkpoint of a module without the state of its training."""
    content: dict[str, Any] = {"epoch": 0, "global_step": 0}
    content |= {"state_dict": module.state_dict(), "hyper_parameters": module.own_settings()}
    module.on_save_checkpoint(content)
    return content


def _check_folder(folder: Path) -> None:
    empty = folder.is_dir() and not any(folder.iterdir())
    if folder.exists() and not empty and not is_exported(folder):
        msg = (
            f"got --output {folder}, which exists and was not written by `export`, expected a new "
        )
        msg += "folder, an empty one, or an earlier export"
        raise ValueError(msg)


def _write(
    module: TextModule,
    content: Mapping[str, Any],
    weights: Weights | None,
    folder: Path,
    *,
    run: RunDirectory | None,
    onnx: bool,
) -> None:
    """Write the folder of a module and its checkpoint; the weights of None are those written."""
    results = None if run is None else run.results()
    verdict = None if run is None or results is None else judge_run(run, results)
    with replacing_folder(folder) as fresh:
        formats = _write_transformers(module, fresh)
        write_exported(content, fresh)
        if onnx:
            formats.sentences.append(_write_onnx(module, fresh))
        card = model_card(
            module,
            weights or weights_of(fresh),
            results,
            formats.sentences,
            corpus=None if run is None else CORPORA.get(class_name(run.config(), "data") or ""),
            figures=() if verdict is None else verdict.figures,
            for_transformers=formats.classifier,
        )
        (fresh / "README.md").write_text(card, encoding="utf-8")


def check_repository(repository: str) -> None:
    """Raise ValueError unless a name is that of a repository, `OWNER/NAME`."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        msg = f"got --push {repository}, expected OWNER/NAME, as on the hub"
        raise ValueError(msg)


def push_folder(
    folder: Path, repository: str, *, private: bool = True, revision: str | None = None
) -> str:
    """Upload a folder as a model repository `OWNER/NAME` of the hub, and return its address.

    Repository and branch (`revision`; None is the main one) are made if they do not exist. Files
    that the folder lacks are kept; `private` changes no repository that exists.
    """
    hub = HfApi()
    try:
        hub.create_repo(repository, private=private, exist_ok=True)
        if revision is not None:
            hub.create_branch(repository, branch=revision, exist_ok=True)
        more: dict[str, Any] = {"revision": revision, "commit_message": "Upload by steadfast"}
        hub.upload_folder(repo_id=repository, folder_path=folder, **more)
    # Errors of the connection are of the HTTP client that the library has.
    except Exception as error:
        msg = (
            f"got --push {repository}, to which {folder} could not be uploaded "
            f"({describe_error(error):.300}), expected a hub that can be reached, and a token that "
            "may write: HF_TOKEN or `hf auth login`"
        )
        raise OSError(msg) from error
    return f"{hub.endpoint}/{repository}{'' if revision is None else f'/tree/{revision}'}"


def _alone(model: TextModule) -> TaskModule | None:
    """Return the classifier that predicts as the model does; None for votes and other modules."""
    votes = isinstance(model, AdversarialTraining) and model.adversary.votes
    return model.plain if isinstance(model, TaskModule) and not votes else None


def _write_onnx(model: TextModule, folder: Path) -> str:
    """Write the ONNX file; return a sentence about its inputs."""
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


def _write_transformers(model: TextModule, folder: Path) -> Formats:
    """Write the files that `transformers` loads; warn if it has no classifier like this one.

    An encoder alone is not written for a classifier: `transformers` would add a random head.
    """
    if isinstance(model, EncoderTraining):
        model.export(folder)
        return Formats(["`transformers.AutoModel.from_pretrained('FOLDER')` loads the encoder."])
    module = model.plain if isinstance(model, TaskModule) else model
    network = getattr(module, "network", None)
    if not isinstance(module, TaskModule) or not isinstance(network, BackboneClassifier):
        return Formats([])
    tokenizer, reason = module.require_tokenizer(), difference(network)
    if _alone(model) is None:
        reason = "its predictions are votes over changed texts"
    elif not isinstance(tokenizer, PretrainedTokenizer):
        reason = "its front end changes words before the tokenizer"
    elif network.head == LAST_TOKEN and tokenizer.template[1][-1:] == [tokenizer.pad_id]:
        # Ours reads the mask; theirs finds the last token by its id.
        reason = "its texts end with the padding token, which transformers takes for padding"
    if reason is None:
        assert isinstance(tokenizer, PretrainedTokenizer)  # for mypy: see above
        if isinstance(module, FineTuning) and module.lora.rank:
            network = copy.deepcopy(network)  # of a method around it, whose adapters stay
            merge_adapters(network)
        twin = sequence_classifier(network, module.require_text()[1], pad_id=tokenizer.pad_id)
        # Compared, because another version of transformers may apply the head in another way.
        if _has_same_logits(module, twin):
            save_model(twin, folder)
            save_tokenizer(tokenizer, folder)
            loader = "`transformers.AutoModelForSequenceClassification.from_pretrained('FOLDER')`"
            sentence = f"{loader} loads the same classifier: its logits are equal but for rounding."
            return Formats([sentence], classifier=True)
        reason = "the installed version of it computes other logits"
    log.warning(_NO_CLASSIFIER, reason)
    return Formats([f"The folder is {_NO_CLASSIFIER % reason}."])


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
    # Relative to large logits, absolute for small ones.
    return bool((model(batch) - logits).abs().max() <= _TOLERANCE * logits.abs().max().clamp_min(1))
