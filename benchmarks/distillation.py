"""Similarity of a public encoder and its copy with unitary weights, before and after training.

    python -m benchmarks.distillation --backbone FOLDER --data_dir DIR [--files 'imdb/*.txt.gz']
        [--steps 100] [--ways qr polar gradual_qr gradual_polar]

For each way: the cosine between last hidden states of the original and of its copy on validation
text, over tokens (`cosine`) and between means over sequences (`of means`), once the weights are
projected (`at once`), and after training the copy to imitate the original
(`lit_modules/unitary_distillation.py`). The gradual ways close the distance over the first two
thirds of the steps. Beside it the cosines between originals of different sequences: what two texts
have in common anyway. Same batches, same steps; a few minutes each on a CPU.
"""

import tempfile
from argparse import Namespace
from functools import partial
from itertools import combinations
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from torch.nn import functional

from benchmarks.command import command, heading, save, settings, table
from benchmarks.program_runs import quiet_trainer
from benchmarks.timing import timed
from datamodules import RunningText
from layers import project_, unitary_weights
from lit_modules.shared.encoder_source import EncoderSettings
from lit_modules.shared.optimisation import Optimisation
from lit_modules.shared.unitary_projection import Unitary
from lit_modules.unitary_distillation import UnitaryDistillation
from text import Batch

WAYS = ("none", "qr", "polar", "gradual_qr", "gradual_polar")


def corpus_of(given: Namespace, cache: str) -> RunningText:
    """Returns the packed text."""
    return RunningText(
        data_dir=given.data_dir,
        files=given.files,
        length=given.length,
        batch_size=given.batch,
        eval_batch_size=32,
        validation_share=0.01,
        limit_tokens=given.tokens,
        cache_dir=cache,
    )


def model_of(given: Namespace, way: str, corpus: RunningText) -> UnitaryDistillation:
    """Returns the untrained copy."""
    method: Literal["qr", "polar", "none"] = (
        "none" if way == "none" else "qr" if way.endswith("qr") else "polar"
    )
    module = UnitaryDistillation(
        backbone=EncoderSettings(pretrained=given.backbone),
        unitary=Unitary(
            method=method,
            gradual_steps=2 * given.steps // 3 if way.startswith("gradual") else 0,
        ),
        max_length=given.length,
        optimisation=Optimisation(
            optimizer=lambda p: torch.optim.AdamW(p, lr=given.lr, weight_decay=0.0, fused=True),
            warmup=0.05,
            decay="linear",
        ),
    )
    module.attach_tokenizer(module.build_tokenizer(corpus.train_texts()))
    corpus.tokenizer = module.tokenizer
    module.configure_model()
    return module


def measure(given: Namespace, way: str, cache: str) -> dict[str, float]:
    """Projects a copy, and trains another one."""
    pl.seed_everything(0, verbose=False)
    corpus = corpus_of(given, cache)
    corpus.setup("fit")
    trainer = partial(quiet_trainer, limit_val_batches=given.val_batches)
    once = model_of(given, way, corpus)
    if once.projection is not None:
        weights = list(unitary_weights(once, once.projection.patterns).values())
        project_(weights, once.projection.method)
    before = trainer().validate(once, datamodule=corpus, verbose=False)[0]
    module = model_of(given, way, corpus)
    training = trainer(max_steps=given.steps, num_sanity_val_steps=0)
    seconds = timed(lambda: training.fit(module, datamodule=corpus)).wall
    after = training.validate(module, datamodule=corpus, verbose=False)[0]
    return {
        "cosine_at_once": before["val/cosine"],
        "means_at_once": before["val/cosine_of_means"],
        "cosine": after["val/cosine"],
        "means": after["val/cosine_of_means"],
        "loss": after["val/loss"],
        "seconds": seconds,
    }


@torch.no_grad()
def unrelated(given: Namespace, cache: str) -> float:
    """Returns the mean cosine between the originals' means of different sequences."""
    corpus = corpus_of(given, cache)
    corpus.setup("fit")
    module = model_of(given, "none", corpus)
    loader: Any = corpus.val_dataloader()
    batch: Batch = next(iter(loader))
    states = module.original()(
        input_ids=batch.input_ids, attention_mask=batch.mask.long()
    ).last_hidden_state
    means = (states * batch.mask.unsqueeze(-1)).sum(dim=1)
    cosines = [functional.cosine_similarity(a, b, dim=0) for a, b in combinations(means, 2)]
    return float(torch.stack(cosines).mean())


def main() -> None:
    """Measures and prints."""
    parser = command(__doc__, "threads", "out", batch=8, length=64)
    parser.add_argument("--backbone", required=True, help="folder or hub name of the encoder")
    parser.add_argument("--data_dir", required=True, help="data directory (docs/data.md)")
    parser.add_argument("--files", nargs="+", default=["imdb/unsup_12k.txt.gz"], help="patterns")
    parser.add_argument("--tokens", type=int, default=400_000, help="so many of them")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS[1:]))
    parser.add_argument("--steps", type=int, default=100, help="of training")
    parser.add_argument("--lr", type=float, default=5e-4, help="largest learning rate")
    parser.add_argument("--val_batches", type=int, default=2, help="of 32 sequences")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as cache:
        base = unrelated(given, cache)
        found = {way: measure(given, way, cache) for way in given.ways}
    about = settings(given, "steps", "batch", "length", "lr", "tokens", "threads")
    head = ["way", "cosine at once", "of means", "cosine, trained", "of means", "loss", "seconds"]
    rows = [[way, *list(one.values())[:-1], f"{one['seconds']:.0f}"] for way, one in found.items()]
    print(f"{heading(about)}\n\n{table(head, rows)}")
    print(f"\nMeans of different sequences have a cosine of {base:.3f}")
    save(given.out, {"settings": about, "unrelated": base, "ways": found})


if __name__ == "__main__":
    main()
