"""Fine-tune an encoder as a tagger, a victim for `attack --victim hf:FOLDER`.

python -m examples.train_tagger ENCODER wnut17/train.conll FOLDER EPOCHS
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer

from datamodules import WNUT17
from datamodules.sources.structured import read_conll


def main(encoder: str, data: str, folder: str, epochs: int) -> None:
    """Train on the tags of WNUT-17, in batches of 16 sentences of like length."""
    torch.manual_seed(0)
    ids = {name: i for i, name in enumerate(WNUT17.classes)}
    tokenizer = AutoTokenizer.from_pretrained(encoder, add_prefix_space=True)
    names = {"label2id": ids, "id2label": {i: name for name, i in ids.items()}}
    model = AutoModelForTokenClassification.from_pretrained(encoder, **names)
    rows = sorted((row.values for row in read_conll(Path(data))), key=lambda v: len(v["words"]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for start in [16 * i for _ in range(epochs) for i in torch.randperm(-(-len(rows) // 16))]:
        batch = rows[start : start + 16]
        words = [row["words"] for row in batch]
        options = {"is_split_into_words": True, "padding": True, "truncation": True}
        coded = tokenizer(words, **options, return_tensors="pt")
        labels = torch.full_like(coded["input_ids"], -100)
        for i, row in enumerate(batch):
            for word, tag in enumerate(row["tags"]):
                if (tokens := coded.word_to_tokens(i, word)) is not None:
                    labels[i, tokens.start] = ids[tag]  # the first token of a word has its tag
        optimizer.zero_grad()
        model(**coded, labels=labels).loss.backward()
        optimizer.step()
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
