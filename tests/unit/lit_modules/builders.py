"""Small modules of every method and option, on a small corpus of its own."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, RobertaConfig, RobertaModel

from layers import WordEmbedding
from lit_modules import OLSA, AdversarialTraining, TaskModule, TextClassifier
from lit_modules.adversaries import SMART, Adversary, FreeLB
from lit_modules.shared.settings import parameters
from text import Batch, Text, WordTokenizer, collate

SINGLE: list[Text] = [
    "good",
    "not a good film, and it is long",
    "a bad one",
    "good not bad",
    "bad, bad and far too long: i would not see it again",
    "fine",
    "it is what it is",
]
PAIRS: list[Text] = [
    ("a man eats", "someone is eating"),
    ("good", "bad"),
    ("the film is long and not good at all", "it is short"),
    ("is it?", "no"),
    ("it is", "it is not what it seems to be"),
]

Build = Callable[[], TaskModule]
Made = TypeVar("Made")


def make(method: Callable[..., Made], **settings: Any) -> Made:
    """An object from settings without their groups: `loss="hinge"` for `objective.loss`.

    A setting in several groups is named with its group (`masking.share`); a value in the place of a
    whole group is that of its first setting.
    """
    assert isinstance(method, type)
    defaults = {name: parameter.default for name, parameter in parameters(method).items()}
    groups: dict[str, Any] = {
        name: default for name, default in defaults.items() if is_dataclass(default)
    }
    given: dict[str, Any] = {}
    changed: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        group, _, inner = name.partition(".")
        if name in groups and not is_dataclass(value):
            group, inner = name, fields(groups[name])[0].name
        elif name not in defaults and not inner:
            homes = [
                group for group in groups if any(f.name == name for f in fields(groups[group]))
            ]
            group, inner = (homes[0], name) if len(homes) == 1 else (name, "")
        if inner:
            outer, _, innermost = inner.partition(".")
            new = (
                replace(getattr(groups[group], outer), **{innermost: value}) if innermost else value
            )
            changed.setdefault(group, {})[outer] = new
        else:
            given[name] = value
    whole = {group: replace(groups[group], **inner) for group, inner in changed.items()}
    made: Made = method(**{**given, **whole})
    return made


def olsa(**settings: Any) -> Build:
    return lambda: make(
        OLSA, **{"width": 16, "heads": 4, "depth": 1, "initial_alpha_1": 2.0, **settings}
    )


def plain(**settings: Any) -> Build:
    return lambda: make(TextClassifier, **{"width": 16, "heads": 4, "depth": 2, **settings})


def adversarial(classifier: Build, adversary: Adversary) -> Build:
    return lambda: AdversarialTraining(
        classifier=classifier(), adversary=type(adversary)(**adversary.settings())
    )


METHODS: dict[str, Build] = {
    "olsa, no layer": olsa(depth=0),
    "olsa": olsa(),
    "olsa, value clip": olsa(value_clip=1.0),
    "olsa, 2 layers, offset heads": olsa(depth=2, offset_heads=3),
    "olsa, feed-forward": olsa(feedforward=True),
    "olsa, 2 layers, mean norm": olsa(depth=2, mean_norm=True),
    "olsa, relu": olsa(activation="relu"),
    "olsa, paper": olsa(bound="paper", loss="cross_entropy", margin="paper", gamma=2.0),
    "olsa, dropout, head bias": olsa(dropout=0.2, head_bias=True),
    "olsa, newton_schulz": olsa(orthogonal="newton_schulz"),
    "olsa, householder": olsa(orthogonal="householder"),
    "olsa, qr": olsa(orthogonal="qr"),
    "olsa, all options, 3 layers": olsa(
        depth=3, value_clip=0.7, offset_heads=2, feedforward=True, mean_norm=True, head_bias=True
    ),
    "transformer": plain(),
    "transformer, no layer": plain(depth=0),
    "mean": plain(encoder="mean", loss="hinge"),
    "lstm": plain(encoder="lstm", hidden=6),
    "transformer of the thesis": plain(
        feedforward=24,
        norm="post",
        activation="relu",
        embedding=WordEmbedding(kind="plain", positions="sinusoidal"),
    ),
    "olsa, freelb": adversarial(olsa(), FreeLB(steps=2)),
    "transformer, smart": adversarial(plain(), SMART(epsilon=0.1, step_size=0.1)),
}
"""Every method, with every option at least once."""
FEW = [METHODS[name] for name in ("olsa, all options, 3 layers", "transformer", "mean")]
"""For what takes several fits."""

# The quick ones are of each encoder, and one has an adversary.
_QUICK = ("olsa", "olsa, all options, 3 layers", "transformer", "mean", "transformer, smart")
EVERY_METHOD = pytest.mark.parametrize(
    "build",
    [
        pytest.param(build, id=name, marks=() if name in _QUICK else pytest.mark.long)
        for name, build in METHODS.items()
    ],
)


def attached(build: Build, *, pairs: bool = False, classes: int = 3, seed: int = 0) -> TaskModule:
    """A module with vocabulary, classes and layers, its parameters moved away from their start."""
    torch.manual_seed(seed)
    module = build()
    texts = PAIRS if pairs else SINGLE
    module.attach(
        module.build_tokenizer(texts), [f"class {i}" for i in range(classes)], pairs=pairs
    )
    module.configure_model()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.add_(0.05 * torch.randn_like(parameter))
    return module.eval()


def batch_of(module: TaskModule, texts: list[Text], *, classes: int = 3) -> Batch:
    batch = module.encode_texts(texts)
    batch.labels = torch.arange(len(texts)) % classes
    return batch


def loader(
    module: TaskModule, texts: list[Text], size: int, *, classes: int = 3
) -> DataLoader[Batch]:
    """Batches of `size`, the last one smaller; sample ids count through."""
    tokenizer, _ = module.require_text()
    encodings = tokenizer.encode(texts)

    def batch(rows: list[int]) -> Batch:
        return collate(
            [encodings[row] for row in rows],
            pad_id=tokenizer.pad_id,
            sample_ids=rows,
            labels=[row % classes for row in rows],
            pairs=module.pairs,
        )

    return DataLoader(range(len(texts)), batch_size=size, collate_fn=batch)  # type: ignore[arg-type] # a range is a dataset


def trainer(**settings: Any) -> pl.Trainer:
    return pl.Trainer(
        **{
            "accelerator": "cpu",
            "max_epochs": 1,
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "inference_mode": False,
            **settings,
        }
    )


def save_backbone(folder: Path, kind: str) -> str:
    """A tiny random encoder of a kind, and a tokenizer for it, as their library saves them."""
    import tokenizers
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import BertProcessing, RobertaProcessing

    first, last = ("[CLS]", "[SEP]") if kind == "bert" else ("<s>", "</s>")
    # RoBERTa counts positions from its padding id, which is 1.
    special = ["[PAD]", "[UNK]", first, last] if kind == "bert" else [first, "<pad>", last, "<unk>"]
    words = WordTokenizer.build([*SINGLE, *PAIRS], max_length=64).vocabulary.get_itos()[3:]
    vocabulary = {token: i for i, token in enumerate([*special, *words])}
    pad, unknown = ("[PAD]", "[UNK]") if kind == "bert" else ("<pad>", "<unk>")
    backend = tokenizers.Tokenizer(WordLevel(vocabulary, unk_token=unknown))
    backend.pre_tokenizer = BertPreTokenizer()
    ends = (last, vocabulary[last]), (first, vocabulary[first])
    backend.post_processor = BertProcessing(*ends) if kind == "bert" else RobertaProcessing(*ends)
    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call] # theirs
        tokenizer_object=backend,
        pad_token=pad,
        unk_token=unknown,
        cls_token=first,
        sep_token=last,
        model_max_length=40,
    ).save_pretrained(folder)
    sizes: dict[str, Any] = {
        "vocab_size": len(vocabulary),
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "pad_token_id": vocabulary[pad],
    }
    torch.manual_seed(7)
    if kind == "bert":
        BertModel(BertConfig(**sizes, max_position_embeddings=40)).save_pretrained(folder)
    else:
        config = RobertaConfig(**sizes, max_position_embeddings=42, type_vocab_size=1)
        RobertaModel(config).save_pretrained(folder)
    return str(folder)
