"""What is left of a public encoder whose attention weights are made unitary, and what comes back.

    python -m benchmarks.distillation --backbone FOLDER --data_dir DIR [--files 'imdb/*.txt.gz']
        [--steps 100] [--ways qr polar gradual_qr gradual_polar]

For each way: the cosine between last hidden states of the original and of its copy on validation
text, over tokens (`cosine`) and between means over sequences (`of means`), once the weights are
projected (`at once`), and after training the copy to imitate the original
(`lit_modules/unitary_distillation.py`). The gradual ways close the distance over the first two
thirds of the steps. Beside it the cosines between originals of different sequences: what two texts
have in common anyway. Same batches, same steps; a few minutes each on a CPU.
"""

import argparse
import json
import tempfile
import time
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytorch_lightning as pl
import torch
from torch.nn import functional

from datamodules import RunningText
from layers import project_, unitary_weights
from lit_modules.unitary_distillation import UnitaryDistillation
from text import Batch

WAYS = ("none", "qr", "polar", "gradual_qr", "gradual_polar")


class Row(NamedTuple):
    """What was measured of one way."""

    way: str
    cosine_at_once: float
    means_at_once: float
    cosine: float
    means: float
    loss: float
    seconds: float


def corpus_of(given: argparse.Namespace, cache: str) -> RunningText:
    """The text, packed."""
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


def model_of(given: argparse.Namespace, way: str, corpus: RunningText) -> UnitaryDistillation:
    """The copy, as it is."""
    method: Literal["qr", "polar", "none"] = (
        "none" if way == "none" else "qr" if way.endswith("qr") else "polar"
    )
    module = UnitaryDistillation(
        backbone=given.backbone,
        unitary=method,
        unitary_gradual_steps=2 * given.steps // 3 if way.startswith("gradual") else 0,
        max_length=given.length,
        optimizer=lambda p: torch.optim.AdamW(p, lr=given.lr, weight_decay=0.0, fused=True),
    )
    module.attach_tokenizer(module.build_tokenizer(corpus.train_texts()))
    corpus.tokenizer = module.tokenizer
    module.configure_model()
    return module


def measure(given: argparse.Namespace, way: str, cache: str) -> Row:
    """Project, and train."""
    pl.seed_everything(0, verbose=False)
    corpus = corpus_of(given, cache)
    corpus.setup("fit")
    settings: dict[str, Any] = {
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "use_distributed_sampler": False,
        "limit_val_batches": given.val_batches,
    }
    once = model_of(given, way, corpus)
    if once.projection is not None:
        weights = list(unitary_weights(once, once.projection.patterns).values())
        project_(weights, once.projection.method)
    before = pl.Trainer(**settings).validate(once, datamodule=corpus, verbose=False)[0]
    module = model_of(given, way, corpus)
    start = time.perf_counter()
    trainer = pl.Trainer(**settings, max_steps=given.steps, num_sanity_val_steps=0)
    trainer.fit(module, datamodule=corpus)
    seconds = time.perf_counter() - start
    after = trainer.validate(module, datamodule=corpus, verbose=False)[0]
    return Row(
        way,
        before["val/cosine"],
        before["val/cosine_of_means"],
        after["val/cosine"],
        after["val/cosine_of_means"],
        after["val/loss"],
        seconds,
    )


@torch.no_grad()
def unrelated(given: argparse.Namespace, cache: str) -> float:
    """Mean cosine between the originals' means of different sequences."""
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


def table(rows: list[Row]) -> str:
    """Markdown."""
    lines = [
        "| way | cosine at once | of means | cosine, trained | of means | loss | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.way} | {r.cosine_at_once:.3f} | {r.means_at_once:.3f} | {r.cosine:.3f} "
        f"| {r.means:.3f} | {r.loss:.3f} | {r.seconds:.0f} |"
        for r in rows
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backbone", required=True, help="folder or hub name of the encoder")
    parser.add_argument("--data_dir", required=True, help="where the files are")
    parser.add_argument("--files", nargs="+", default=["imdb/unsup_12k.txt.gz"], help="patterns")
    parser.add_argument("--tokens", type=int, default=400_000, help="so many of them")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS[1:]))
    parser.add_argument("--steps", type=int, default=100, help="of training")
    parser.add_argument("--batch", type=int, default=8, help="sequences")
    parser.add_argument("--length", type=int, default=64, help="tokens of each")
    parser.add_argument("--lr", type=float, default=5e-4, help="largest learning rate")
    parser.add_argument("--val_batches", type=int, default=2, help="of 32 sequences")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--json", type=Path, help="where the numbers are written")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as cache:
        base = unrelated(given, cache)
        rows = [measure(given, way, cache) for way in given.ways]
    head = f"{given.steps} steps of {given.batch} x {given.length} tokens, lr {given.lr}"
    print(f"{head}, {given.threads} thread(s), torch {torch.__version__}\n\n{table(rows)}")
    print(f"\nMeans of different sequences have a cosine of {base:.3f}")
    if given.json is not None:
        settings = {k: v for k, v in vars(given).items() if k != "json"}
        content = {"settings": settings, "unrelated": base, "rows": [r._asdict() for r in rows]}
        given.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
