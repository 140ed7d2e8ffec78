"""Tokenizers as folders that `transformers` reads."""

import json
from pathlib import Path

from text.pretrained_tokenizer import PretrainedTokenizer

# Names of the special tokens of encoders.
_ROLES = {
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
    "bos_token": ("<s>",),
    "eos_token": ("</s>",),
}


def save_tokenizer(tokenizer: PretrainedTokenizer, folder: Path) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json` into an existing folder."""
    definition = json.loads(tokenizer.state()["definition"])
    # Other programs choose their own truncation and padding.
    definition |= {"truncation": None, "padding": None}
    added = definition.get("added_tokens", ())
    special = {token["id"]: token["content"] for token in added if token.get("special")}
    names = set(special.values())
    config: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": tokenizer.max_length,
        "clean_up_tokenization_spaces": False,
    }
    for role, candidates in _ROLES.items():
        name = next((name for name in candidates if name in names), None)
        if name is not None:
            config[role] = name
    if tokenizer.pad_id in special:  # decoders pad with the end of a text
        config["pad_token"] = special[tokenizer.pad_id]
    text = json.dumps(definition, ensure_ascii=False)
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
