"""Whether memory stays flat on a corpus of any size: peaks of packing and of one epoch.

    python -m benchmarks.corpus_memory [--gigabytes 1] [--length 128] [--batch 32] [--json FILE]

Text is generated (words of a made-up language, as frequent as Zipf's law has it), once a tenth of
the size and once all of it. A fresh process for each size and each mode packs it and goes through
all training batches once, while a thread looks at the kernel's account of the process. `own` is
memory that the process needs (anonymous pages). `mapped` are pages of files that it has looked at;
of these nearly all are the packed blocks, and the kernel takes them back whenever anything else
needs the room, so that a corpus may be larger than memory. Their sum is what tools show as RSS.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

MIB = 2**20
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
    share = np.cumsum(1 / np.arange(1, WORDS + 1))
    with path.open("w") as file:
        while file.tell() < size:
            drawn = np.searchsorted(share, random.random(LINE * 2000) * share[-1]).tolist()
            text = [words[i] for i in drawn]
            lines = (" ".join(text[i : i + LINE]) for i in range(0, len(text), LINE))
            file.write("\n".join(lines) + "\n")


@contextmanager
def watched() -> Iterator[dict[str, float]]:
    """MiB at most of this process, own and of mapped files, between beginning and end."""
    peak = {"own": 0.0, "mapped": 0.0, "rss": 0.0}
    over = threading.Event()

    def look() -> None:
        while True:
            last = over.is_set()
            status = Path("/proc/self/status").read_text().splitlines()
            now = {line.split(":")[0]: line.split()[1] for line in status if line.startswith("Rss")}
            own, mapped = (int(now[name]) / 1024 for name in ("RssAnon", "RssFile"))
            for name, value in (("own", own), ("mapped", mapped), ("rss", own + mapped)):
                peak[name] = max(peak[name], value)
            if last:
                return
            over.wait(0.02)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def measure(mode: str, text: Path, length: int, batch: int) -> dict[str, Any]:
    """Pack a file and go through it once, in this process."""
    from itertools import islice

    from datamodules import RunningText
    from text import train_word_piece

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
    stages: dict[str, dict[str, float]] = {}
    with watched() as before:
        pass
    begun = time.perf_counter()
    with watched() as packing:
        loader = corpus.train_dataloader()
    packed = time.perf_counter()
    tokens = 0
    with watched() as epoch:
        for some in loader:
            tokens += some.input_ids.numel()
    seconds = {"packing": packed - begun, "epoch": time.perf_counter() - packed}
    stages = {"before": before, "packing": packing, "epoch": epoch}
    return {"tokens": tokens, "seconds": seconds, "peak": stages}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0, help="of the larger text")
    parser.add_argument("--length", type=int, default=128, help="tokens of a sequence")
    parser.add_argument("--batch", type=int, default=32, help="sequences per batch")
    parser.add_argument("--json", type=Path, help="where the numbers are written")
    parser.add_argument("--of", nargs=2, metavar=("MODE", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.of is not None:
        mode, file = given.of
        print(json.dumps(measure(mode, Path(file), given.length, given.batch)))
        return
    found: dict[str, dict[str, Any]] = {mode: {} for mode in MODES}
    sizes = [given.gigabytes / 10, given.gigabytes]
    with tempfile.TemporaryDirectory() as where:
        for size in sizes:
            text = Path(where) / f"{size:g}.txt"
            generate(text, int(size * 1e9))
            for mode in MODES:
                command = [sys.executable, "-m", "benchmarks.corpus_memory"]
                options = ["--length", str(given.length), "--batch", str(given.batch)]
                child = [*command, *options, "--of", mode, str(text)]
                answer = subprocess.run(child, check=True, stdout=subprocess.PIPE, text=True)
                found[mode][f"{size:g}"] = json.loads(answer.stdout)
    print("| mode | text | tokens | stage | seconds | tokens/s | own MiB | mapped MiB |")
    print("|---|---|---|---|---|---|---|---|")
    for mode, by_size in found.items():
        for name, result in by_size.items():
            tokens = result["tokens"]
            for stage, peak in result["peak"].items():
                seconds = result["seconds"].get(stage, 0.0)
                speed = f"{seconds:.1f} | {tokens / seconds:,.0f}" if seconds > 0.1 else "- | -"
                memory = f"{peak['own']:.0f} | {peak['mapped']:.0f}"
                print(f"| {mode} | {name} GB | {tokens:,} | {stage} | {speed} | {memory} |")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
