"""Similarity of a public encoder and its copy with unitary weights, before and after training.

    python -m benchmarks.distillation --backbone FOLDER --data_dir DIR [--files 'imdb/*.txt.gz']
        [--steps 100] [--ways qr polar gradual_qr gradual_polar]

For each way: the cosine between last hidden states of the original and of its copy on validation
text, over tokens (`cosine`) and between means over sequences (`of means`), once the weights are
projected (`at once`), and after training the copy to imitate the original
(`lit_modules/unitary_distillation.py`). The gradual ways close the distance over the first two
thirds of the steps. For comparison the cosines between originals of different
sequences, which any two texts have. Same batches, same steps; a few minutes each on a CPU.
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
from benchmarks.timing import time_work
from datamodules import RunningText
from layers import project_, unitary_weights
from lit_modules.shared.encoder_source import EncoderSettings
from lit_modules.shared.optimisation import Optimisation
from lit_modules.shared.unitary import Unitary
from lit_modules.unitary_distillation import UnitaryDistillation
from text import Batch

WAYS = ("none", "qr", "polar", "gradual_qr", "gradual_polar")


def corpus_of(options: Namespace, cache: str) -> RunningText:
    """Return the packed text."""
    return RunningText(
        data_dir=options.data_dir,
        files=options.files,
        length=options.length,
        batch_size=options.batch,
        eval_batch_size=32,
        validation_share=0.01,
        limit_tokens=options.tokens,
        cache_dir=cache,
    )


def model_of(options: Namespace, way: str, corpus: RunningText) -> UnitaryDistillation:
    """Return the untrained copy."""
    method: Literal["qr", "polar", "none"] = (
        "none" if way == "none" else "qr" if way.endswith("qr") else "polar"
    )
    module = UnitaryDistillation(
        backbone=EncoderSettings(pretrained=options.backbone),
        unitary=Unitary(
            method=method, gradual_steps=2 * options.steps // 3 if way.startswith("gradual") else 0
        ),
        max_length=options.length,
        optimisation=Optimisation(
            optimizer=lambda p: torch.optim.AdamW(p, lr=options.lr, weight_decay=0.0, fused=True),
            warmup=0.05,
            decay="linear",
        ),
    )
    module.attach_tokenizer(module.build_tokenizer(corpus.train_texts()))
    corpus.tokenizer = module.tokenizer
    module.configure_model()
    return module


def measure(options: Namespace, way: str, cache: str) -> dict[str, float]:
    """Project a copy, and train another one."""
    pl.seed_everything(0, verbose=False)
    corpus = corpus_of(options, cache)
    corpus.setup("fit")
    trainer = partial(quiet_trainer, limit_val_batches=options.val_batches)
    once = model_of(options, way, corpus)
    if once.projection is not None:
        weights = list(unitary_weights(once, once.projection.patterns).values())
        # A copy of its own: the trained one starts from the original weights.
        project_(weights, once.projection.method)
    # Validated at once: the loss by the projection alone.
    before = trainer().validate(once, datamodule=corpus, verbose=False)[0]
    module = model_of(options, way, corpus)
    training = trainer(max_steps=options.steps, num_sanity_val_steps=0)
    seconds = time_work(lambda: training.fit(module, datamodule=corpus)).wall
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
def unrelated(options: Namespace, cache: str) -> float:
    """Return the mean cosine between the originals' means of different sequences."""
    corpus = corpus_of(options, cache)
    corpus.setup("fit")
    module = model_of(options, "none", corpus)
    loader: Any = corpus.val_dataloader()
    batch: Batch = next(iter(loader))
    states = module.original()(
        input_ids=batch.input_ids, attention_mask=batch.mask.long()
    ).last_hidden_state
    means = (states * batch.mask.unsqueeze(-1)).sum(dim=1)
    # Without this base, a cosine of 0.9 may mean nothing.
    cosines = [functional.cosine_similarity(a, b, dim=0) for a, b in combinations(means, 2)]
    return float(torch.stack(cosines).mean())


def main() -> None:
    """Measure and print."""
    parser = command(__doc__, "threads", "out", batch=8, length=64)
    parser.add_argument("--backbone", required=True, help="folder or hub name of the encoder")
    parser.add_argument("--data_dir", required=True, help="data directory (docs/data.md)")
    parser.add_argument("--files", nargs="+", default=["imdb/unsup_12k.txt.gz"], help="patterns")
    parser.add_argument("--tokens", type=int, default=400_000, help="so many of them")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS[1:]))
    parser.add_argument("--steps", type=int, default=100, help="of training")
    parser.add_argument("--lr", type=float, default=5e-4, help="largest learning rate")
    parser.add_argument("--val_batches", type=int, default=2, help="of 32 sequences")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as cache:
        base = unrelated(options, cache)
        measurements = {way: measure(options, way, cache) for way in options.ways}
    setup = settings(options, "steps", "batch", "length", "lr", "tokens", "threads")
    head = ["way", "cosine at once", "of means", "cosine, trained", "of means", "loss", "seconds"]
    rows = [
        [way, *list(figures.values())[:-1], f"{figures['seconds']:.0f}"]
        for way, figures in measurements.items()
    ]
    print(f"{heading(setup)}\n\n{table(head, rows)}")
    print(f"\nMeans of different sequences have a cosine of {base:.3f}")
    save(options.out, {"settings": setup, "unrelated": base, "ways": measurements})


if __name__ == "__main__":
    main()
