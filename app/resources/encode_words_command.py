"""`python -m app resources encode-words`: an encoding by which synonyms mostly share a form."""

import argparse
import gzip
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from app.cli.run_options import command_parser
from app.runs import atomic
from certify.encoding import cluster_words
from certify.encoding.word_clusters import SynonymEncoding, stability
from certify.threats import Synonyms
from text.bounded_files import read_bytes


def main(argv: Sequence[str]) -> int:
    """Runs `resources encode-words`; see `Command.place`.

    Raises:
        ValueError: a file with wrong content, or a setting out of its range.
        OSError: a file that cannot be read or written.
    """
    args = parser().parse_args(argv)
    threat = Synonyms.read(args.lists)
    counts: Counter[str] = Counter()
    for path in args.texts:
        content = read_bytes(path)
        packed = content[:2] == b"\x1f\x8b"
        text = (gzip.decompress(content) if packed else content).decode()
        counts.update(word for line in text.splitlines() for word in threat.split(line))
    if not counts:
        msg = "got texts without words, expected a text in each line"
        raise ValueError(msg)
    began = time.monotonic()
    found = cluster_words(threat, counts, args.fidelity)
    atomic.write_text(args.to, json.dumps(dict(found.representatives), indent=0, sort_keys=True))
    total = sum(counts.values())
    kept = sum(count for word, count in counts.items() if found.of_word(word) == word)
    means = [stability(one, threat, counts) for one in (SynonymEncoding({}), found)]
    print("| | before | after |\n|---|---|---|")
    print(f"| encodings of a word and its substitutes, mean | {means[0]:.2f} | {means[1]:.2f} |")
    print(f"| words of the texts that stay as they are, % | 100.0 | {100 * kept / total:.1f} |")
    print(f"\n{args.to}: {len(found.representatives):,} words, {time.monotonic() - began:.0f} s")
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = command_parser(
        "resources encode-words",
        "Cluster words so that a word and its substitutes mostly share one form, for "
        "`certify --threat synonyms --encoding` (docs/certificates/baselines.md).",
        runs=False,
    )
    made.add_argument("--lists", type=Path, required=True, help="JSON with synonyms")
    made.add_argument(
        "--texts", type=Path, nargs="+", required=True, help="files with a text in each line; .gz"
    )
    made.add_argument(
        "--fidelity",
        type=float,
        default=0.7,
        help="0: all words that are connected share a form; 1: none do (default: 0.7)",
    )
    made.add_argument("--to", type=Path, required=True, help="JSON file for the encoding")
    return made
