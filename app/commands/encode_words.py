"""Cluster words so that a word and its substitutes mostly share one form.

For `certify --threat synonyms --encoding` (docs/certificates/baselines.md).
"""

import argparse
import json
import time
from collections import Counter
from pathlib import Path

from app.cli.run_options import add_option, check_output, command_parser
from certify.encoding import cluster_words
from certify.encoding.word_clusters import SynonymEncoding, stability
from certify.threats import Synonyms
from run_files import atomic
from text.bounded_files import read_text


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    check_output(args.output, args.lists, *args.texts)
    threat = Synonyms.read(args.lists)
    counts: Counter[str] = Counter()
    for path in args.texts:
        lines = read_text(path).splitlines()
        counts.update(word for line in lines for word in threat.split(line))
    if not counts:
        msg = "got texts without words, expected a text in each line"
        raise ValueError(msg)
    start = time.monotonic()
    encoding = cluster_words(threat, counts, args.fidelity)
    forms = encoding.representatives
    atomic.write_text(args.output, json.dumps(dict(forms), indent=0, sort_keys=True))
    same = sum(count for word, count in counts.items() if encoding.of_word(word) == word)
    # Mean number of different encodings of a word and its substitutes: 1 is best.
    before = stability(SynonymEncoding({}), threat, counts)
    after = stability(encoding, threat, counts)
    print("| | before | after |\n|---|---|---|")
    print(f"| encodings of a word and its substitutes, mean | {before:.2f} | {after:.2f} |")
    print(f"| unchanged words of the texts, % | 100.0 | {100 * same / counts.total():.1f} |")
    print(f"\n{args.output}: {len(forms):,} words, {time.monotonic() - start:.0f} s")
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = command_parser("resources encode-words", __doc__)
    add = parser.add_argument
    add_option(parser, "--lists", type=Path, required=True)
    text = "files with a text in each line; .gz"
    add("--texts", type=Path, nargs="+", required=True, help=text)
    text = "0: all words that are connected share a form; 1: none do"
    add("--fidelity", type=float, default=0.7, help=text)
    add_option(parser, "--output", type=Path, required=True, help="JSON file for the encoding")
    return parser
