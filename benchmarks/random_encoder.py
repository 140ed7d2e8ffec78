"""An encoder of real size with random weights, and its tokenizer, in a folder.

    python -m benchmarks.random_encoder FOLDER --model bert-base|modernbert-base

It replaces a pretrained encoder where only time and memory matter, or where no hub can be
reached. The vocabulary has the published number of entries: the words of the corpus Reviews, the
characters, and entries that no text has.
"""

import string
from pathlib import Path
from typing import Any

import torch

from benchmarks.command import command
from datamodules.sources.reviews_grammar import generate

MODELS: dict[str, dict[str, Any]] = {
    "bert-base": {"model_type": "bert"},
    "modernbert-base": {"model_type": "modernbert"},
    "tiny": {
        "model_type": "bert",
        "vocab_size": 1024,
        "num_hidden_layers": 2,
        "hidden_size": 16,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    },
}
MODELS["tiny-modernbert"] = MODELS["tiny"] | {"model_type": "modernbert"}
"""Settings of the configurations; those of `bert` and `modernbert` are the published base sizes."""
NAMES = ("pad", "unk", "cls", "sep", "mask")
"""Special tokens, in the order of their numbers."""


def save_encoder(folder: Path, model: str) -> Path:
    """Write an encoder and its tokenizer unless the folder has them; returns the folder."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import AutoConfig, AutoModelForMaskedLM, PreTrainedTokenizerFast

    if (folder / "tokenizer.json").is_file():
        return folder
    ids = {f"{name}_token_id": number for number, name in enumerate(NAMES)}
    ids |= {"bos_token_id": ids["cls_token_id"], "eos_token_id": ids["sep_token_id"]}
    settings = MODELS[model] | ids
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    words = sorted({word for text, _ in generate(0, 2000) for word in text.lower().split()})
    vocabulary = [
        *(f"[{name.upper()}]" for name in NAMES),
        *string.printable.split(),
        *string.ascii_lowercase,
        *string.digits,
    ]
    vocabulary += [f"##{letter}" for letter in string.ascii_lowercase + string.digits] + words
    vocabulary = list(dict.fromkeys(vocabulary))[: config.vocab_size]
    # The published size: the embedding is a large part of small encoders.
    vocabulary += [f"[unused{i}]" for i in range(config.vocab_size - len(vocabulary))]
    numbers = {token: i for i, token in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(
        ("[SEP]", numbers["[SEP]"]), ("[CLS]", numbers["[CLS]"])
    )
    torch.manual_seed(0)
    model_class: Any = AutoModelForMaskedLM
    model_class.from_config(config).save_pretrained(folder)
    names = {f"{name}_token": f"[{name.upper()}]" for name in NAMES}
    # Written last: it says that the folder is complete.
    fast: Any = PreTrainedTokenizerFast
    fast(
        tokenizer_object=tokenizer, model_max_length=config.max_position_embeddings, **names
    ).save_pretrained(folder)
    return folder


def main() -> None:
    """Write the folder."""
    parser = command(__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where it is written")
    parser.add_argument("--model", choices=list(MODELS), default="bert-base", help="its size")
    options = parser.parse_args()
    print(save_encoder(options.folder, options.model))


if __name__ == "__main__":
    main()
