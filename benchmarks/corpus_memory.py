"""Peak memory of packing a corpus and of one epoch, by the size of the corpus.

    python -m benchmarks.corpus_memory [--gigabytes 1] [--length 128] [--batch 32] [--out FILE]

Text is generated (words of a made-up language, as frequent as Zipf's law has it), once a tenth of
the size and once all of it. A fresh process for each size and each mode packs it and goes through
all training batches once, while a thread looks at the kernel's account of the process. `own` is
memory that the process needs (anonymous pages). `mapped` are pages of files that it has looked at;
of these nearly all are the packed blocks, and the kernel takes them back whenever anything else
needs the room, so that a corpus may be larger than memory. Their sum is what tools show as RSS.
"""

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import command, save, table
from benchmarks.timing import in_fresh_process, in_memory
from datamodules import RunningText
from text import train_word_piece

MODES = ("mapped", "streaming")
WORDS = 50_000
VOCABULARY = 4000
LINE = 100
"""Words of a line."""


def generate(path: Path, size: int, seed: int = 0) -> None:
    """Write a text file of about this many bytes."""
    random = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(random.choice(letters, n)) for n in random.integers(2, 10, WORDS)]
    # Zipf: the word of rank r has a probability in proportion to 1 / r.
    share = np.cumsum(1 / np.arange(1, WORDS + 1))
    with path.open("w") as file:
        while file.tell() < size:
            drawn = np.searchsorted(share, random.random(LINE * 2000) * share[-1]).tolist()
            text = [words[i] for i in drawn]
            lines = (" ".join(text[i : i + LINE]) for i in range(0, len(text), LINE))
            file.write("\n".join(lines) + "\n")


@contextmanager
def watch_memory() -> Iterator[dict[str, float]]:
    """Measure the MiB of this process at most, own and of mapped files."""
    peak = {"own": 0.0, "mapped": 0.0, "rss": 0.0}
    over = threading.Event()

    def look() -> None:
        while True:
            # Read before the status, so that one more look follows the end.
            last = over.is_set()
            own, mapped = (in_memory(name) for name in ("RssAnon", "RssFile"))
            for name, value in (("own", own), ("mapped", mapped), ("rss", own + mapped)):
                peak[name] = max(peak[name], value)
            if last:
                return
            # Peaks shorter than this may be missed.
            over.wait(0.02)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def measure(mode: str, text: Path, length: int, batch: int) -> dict[str, Any]:
    """Pack a file and read it once, in this process."""
    corpus = RunningText(
        files=[str(text)],
        length=length,
        batch_size=batch,
        streaming=mode == "streaming",
        cache_dir=str(text.parent / "packed"),
        seed=0,
    )
    corpus.setup("fit")
    few = islice(corpus.train_texts(), 10_000)
    corpus.tokenizer = train_word_piece(few, VOCABULARY, max_length=length)
    with watch_memory() as before:
        pass
    begun = time.perf_counter()
    with watch_memory() as packing:
        loader = corpus.train_dataloader()
    packed = time.perf_counter()
    tokens = 0
    with watch_memory() as epoch:
        for some in loader:
            tokens += some.input_ids.numel()
    seconds = {"packing": packed - begun, "epoch": time.perf_counter() - packed}
    stages = {"before": before, "packing": packing, "epoch": epoch}
    return {"tokens": tokens, "seconds": seconds, "peak": stages}


def main() -> None:
    """Measure and print."""
    parser = command(__doc__, "length", "out", batch=32)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="of the larger text")
    options = parser.parse_args()
    measurements: dict[str, dict[str, Any]] = {mode: {} for mode in MODES}
    with tempfile.TemporaryDirectory() as where:
        for size in (options.gigabytes / 10, options.gigabytes):
            text = Path(where) / f"{size:g}.txt"
            generate(text, int(size * 1e9))
            for mode in MODES:
                result = in_fresh_process(measure, mode, text, options.length, options.batch)
                measurements[mode][f"{size:g}"] = result
    rows = []
    for mode, by_size in measurements.items():
        for name, result in by_size.items():
            tokens = result["tokens"]
            for stage, peak in result["peak"].items():
                seconds = result["seconds"].get(stage, 0.0)
                speed = [f"{seconds:.1f}", f"{tokens / seconds:,.0f}"] if seconds > 0.1 else "--"
                memory = (f"{peak[kind]:.0f}" for kind in ("own", "mapped"))
                rows.append([mode, f"{name} GB", f"{tokens:,}", stage, *speed, *memory])
    head = ["mode", "text", "tokens", "stage", "seconds", "tokens/s", "own MiB", "mapped MiB"]
    print(table(head, rows))
    save(options.out, measurements)


if __name__ == "__main__":
    main()
