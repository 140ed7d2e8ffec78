"""Small encoders under fine-tuning methods, joined to small corpora of every task."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader

from lit_modules import FineTuning
from tests.unit.lit_modules.builders import make
from text import IGNORED, Batch, TaskName, Text, collate

SENTENCES = [
    "good",
    "not a good film , and it is long",
    "a bad one",
    "good not bad",
    "bad , bad and far too long : i would not see it again",
    "fine",
    "it is what it is",
]
CLASSES: dict[TaskName, list[str]] = {
    "classification": ["no", "perhaps", "yes"],
    "regression": [],
    "tagging": ["O", "B-x", "I-x"],
    "choice": ["A", "B"],
}
SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
}
BERT: dict[str, Any] = {"model_type": "bert", **SIZES}
DEBERTA: dict[str, Any] = {
    "model_type": "deberta-v2",
    **SIZES,
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "type_vocab_size": 2,
}


def made(
    method: type[FineTuning],
    task: TaskName = "classification",
    *,
    seed: int = 0,
    architecture: dict[str, Any] | None = None,
    rate: float = 0.1,
    **settings: Any,
) -> Any:
    """A module with vocabulary, classes and layers.

    Args:
        method: FineTuning or one of its kind.
        task: that it is for.
        seed: of the weights.
        architecture: of the encoder; BERT's if None.
        rate: of dropout, everywhere.
        settings: of the method.
    """
    torch.manual_seed(seed)
    described = dict(BERT if architecture is None else architecture)
    described |= {"hidden_dropout_prob": rate, "attention_probs_dropout_prob": rate}
    module = make(
        method, architecture=described, vocab_size=120, dropout=rate, max_length=64, **settings
    )
    tokenizer = module.build_tokenizer(SENTENCES)
    module.attach(tokenizer, CLASSES[task], pairs=task == "choice", task=task)
    module.configure_model()
    return module


def batch_of(module: FineTuning, rows: Sequence[int]) -> Batch:
    """A labelled batch of some of the sentences, for the module's task."""
    tokenizer, names = module.require_text()
    task = module.task.name
    texts: list[Text] = [SENTENCES[row] for row in rows]
    if task == "choice":
        texts = [
            pair
            for row in rows
            for pair in ((SENTENCES[row], "good"), (SENTENCES[row], "bad and long"))
        ]
    batch = collate(
        tokenizer.encode(texts),
        pad_id=tokenizer.pad_id,
        sample_ids=list(range(len(texts))),
        pairs=module.pairs,
    )
    batch.sample_ids = torch.tensor(rows)
    batch.choices = 2 if task == "choice" else 1
    numbers = torch.tensor(rows)
    if task == "regression":
        batch.labels = numbers / 2
    elif task == "tagging":
        tags = (batch.input_ids + numbers.unsqueeze(1)) % 3
        inner = batch.mask & batch.mask.roll(-1, dims=1)
        inner[:, 0] = False
        batch.labels = tags.masked_fill(~inner, IGNORED)
    else:
        batch.labels = numbers % len(names)
    return batch


def loader(module: FineTuning, size: int) -> DataLoader[Batch]:
    """All sentences in batches of `size`, the last one smaller."""

    def batch(rows: list[int]) -> Batch:
        return batch_of(module, rows)

    return DataLoader(range(len(SENTENCES)), batch_size=size, collate_fn=batch)  # type: ignore[arg-type] # a range is a dataset
