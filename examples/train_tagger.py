"""Train a tagger: `python -m examples.train_tagger ENCODER wnut17/train.conll FOLDER EPOCHS`."""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer

from datamodules import WNUT17
from datamodules.sources.structured import read_conll


def main(encoder: str, data: str, folder: str, epochs: str) -> None:
    """Train on the tags of WNUT-17, in batches of 16 sentences of like length."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(encoder, add_prefix_space=True)
    names, ids = dict(enumerate(WNUT17.classes)), {y: i for i, y in enumerate(WNUT17.classes)}
    model = AutoModelForTokenClassification.from_pretrained(encoder, id2label=names, label2id=ids)
    rows = sorted((row.values for row in read_conll(Path(data))), key=lambda v: len(v["words"]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for start in [16 * i for _ in range(int(epochs)) for i in torch.randperm(-(-len(rows) // 16))]:
        batch = rows[start : start + 16]
        options = {"padding": True, "truncation": True, "return_tensors": "pt"}
        coded = tokenizer([row["words"] for row in batch], is_split_into_words=True, **options)
        labels = torch.full_like(coded["input_ids"], -100)
        for i, row in enumerate(batch):
            for word, tag in enumerate(row["tags"]):
                if (tokens := coded.word_to_tokens(i, word)) is not None:
                    labels[i, tokens.start] = ids[tag]  # the first token of a word has its tag
        model(**coded, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)


if len(sys.argv) != 5:
    sys.exit(__doc__)
main(*sys.argv[1:])
