"""Small random encoders in folders, each with a tokenizer of its own kind."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import AutoModel, PreTrainedTokenizerFast

from layers.architectures import configuration
from tests.unit.layers.small_encoders import EVERY_KIND, MORE

TEXTS = [
    "the soup was fresh and the staff was kind",
    "a rude waiter , and cold coffee in the rain",
    "naïve café owners: 20 % off, 東京",
]


class Form(NamedTuple):
    """A kind of tokenizer: its model, and its special tokens, in the order of their ids."""

    model: str
    special: tuple[str, str, str, str, str]
    template: str = "{first} $A {last}"


_BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
_LLAMA = ("<pad>", "<unk>", "<|begin_of_text|>", "<|end_of_text|>", "<|mask|>")
FORMS = {
    **dict.fromkeys(("bert", "electra", "distilbert", "nomic_bert"), Form("words", _BERT)),
    "mpnet": Form("words", _ROBERTA),
    "roberta": Form("bytes", _ROBERTA),
    **dict.fromkeys(("deberta", "modernbert"), Form("bytes", _BERT)),
    "eurobert": Form("bytes", _LLAMA, "{first} $A"),
    **dict.fromkeys(("xlm-roberta", "gte"), Form("unigrams", _ROBERTA)),
    **dict.fromkeys(("albert", "deberta-v2"), Form("unigrams", _BERT)),
    "xlnet": Form("unigrams", _BERT, "$A {last} {first}"),
}
"""By `model_type`."""


def tokenizer_of(kind: str) -> Any:
    """A tokenizer, trained on the texts."""
    form = FORMS[kind]
    special = list(form.special)
    if form.model == "words":
        backend = Tokenizer(models.WordPiece(unk_token=_role(form, "unk")))
        backend.normalizer = normalizers.BertNormalizer()
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer: Any = trainers.WordPieceTrainer
        settings: dict[str, Any] = {"vocab_size": 150}
    elif form.model == "bytes":
        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer
        settings = {"vocab_size": 320, "initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    else:
        backend = Tokenizer(models.Unigram())
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer
        settings = {"vocab_size": 80, "unk_token": _role(form, "unk")}
    backend.train_from_iterator(
        TEXTS * 4, trainer(special_tokens=special, show_progress=False, **settings)
    )
    first, last = _role(form, "cls"), _role(form, "sep")
    single = form.template.format(first=first, last=last)
    backend.post_processor = processors.TemplateProcessing(
        single=single,
        pair=single.replace("$A", f"$A {last} $B"),
        special_tokens=[(name, backend.token_to_id(name)) for name in (first, last)],
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call] # transformers has no types
        tokenizer_object=backend,
        model_max_length=64,
        **{f"{role}_token": _role(form, role) for role in ("pad", "unk", "cls", "sep", "mask")},
    )


def _role(form: Form, role: str) -> str:
    roles = {
        _BERT: ("pad", "unk", "cls", "sep", "mask"),
        _ROBERTA: ("cls", "pad", "sep", "unk", "mask"),
        _LLAMA: ("pad", "unk", "cls", "sep", "mask"),
    }[form.special]
    return form.special[roles.index(role)]


def write_encoder(kind: str, folder: Path) -> Path:
    """Write an encoder and its tokenizer into a folder."""
    tokenizer = tokenizer_of(kind)
    tokenizer.save_pretrained(folder)
    settings = {**EVERY_KIND, **MORE}[kind]
    if "max_position_embeddings" in settings:
        settings = {**settings, "max_position_embeddings": 80}
    settings = {**settings, "vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    torch.manual_seed(0)
    model: Any = AutoModel
    model.from_config(configuration(settings)).save_pretrained(folder)
    return folder
