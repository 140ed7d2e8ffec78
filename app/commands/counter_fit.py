"""Draw the vectors of synonyms together and push those of antonyms apart (counter-fitting)."""

import argparse
import gzip
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from app.cli.run_options import add_option, check_output, command_parser
from attacks.resources.archive import BrokenFile, lines_of
from attacks.resources.counter_fitting import (
    CounterFitting,
    Floats,
    Pairs,
    cosines,
    counter_fit,
    read_pairs,
    unit,
)
from attacks.resources.vector_files import read_vectors
from run_files import atomic
from text.bounded_files import reading

_SIMLEX = ("word1", "word2", "SimLex999")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    settings = CounterFitting(steps=args.steps, radius=args.radius)
    if args.words is not None and args.words < 2:
        msg = f"got --words {args.words}, expected at least 2"
        raise ValueError(msg)
    check_output(args.output, args.vectors, args.simlex, *args.synonyms, *args.antonyms)
    if args.output.suffix == ".zip":
        msg = f"got --output {args.output}, expected a name with .gz, or without packing"
        raise ValueError(msg)
    vectors = read_vectors(args.vectors)
    words = vectors.words[: args.words]
    index = {word: i for i, word in enumerate(words)}
    files = {"synonyms": args.synonyms, "antonyms": args.antonyms}
    pairs = {name: _read_pairs(name, paths, index) for name, paths in files.items()}
    simlex = None if args.simlex is None else _read_simlex(args.simlex, index)
    # [n, d], rows of length 1.
    before = unit(vectors.matrix[: args.words].astype(np.float64))
    start = time.monotonic()

    def report(step: int, cost: float) -> None:
        line = f"step {step} of {settings.steps}: cost {cost:,.1f}"
        end = "\n" if step == settings.steps else ""
        seconds = time.monotonic() - start
        print(f"\r{line}, {seconds:.0f} s ", end=end, file=sys.stderr, flush=True)

    after = counter_fit(before, pairs["synonyms"], pairs["antonyms"], settings, after=report)
    _write(args.output, words, after)
    print(f"{len(words):,} words of {after.shape[1]} numbers, {settings.steps} steps")
    print("| | pairs | before | after |\n|---|---|---|---|")
    for name, both in pairs.items():
        means = [cosines(matrix, both).mean() for matrix in (before, after)]
        print(f"| mean cosine of {name} | {len(both):,} | {means[0]:.3f} | {means[1]:.3f} |")
    if simlex is not None:
        # Only here: scipy.stats takes a second to load.
        from scipy.stats import spearmanr

        both, scores = simlex
        rhos = [spearmanr(cosines(matrix, both), scores).statistic for matrix in (before, after)]
        name = "Spearman's correlation with SimLex-999"
        print(f"| {name} | {len(both)} | {rhos[0]:.3f} | {rhos[1]:.3f} |")
    print(f"\n{args.output}")
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = command_parser("resources counter-fit", __doc__)
    add = parser.add_argument
    add("vectors", type=Path, help="a word and its numbers in a line; .gz, .zip")
    for name in ("synonyms", "antonyms"):
        text = "files, two words in a line"
        add(f"--{name}", type=Path, nargs="+", required=True, help=text)
    text = "file for the vectors; .gz packs it"
    add_option(parser, "--output", type=Path, required=True, help=text)
    add("--words", type=int, metavar="N", help="only the first N words of the file")
    add("--steps", type=int, default=20, help="20 if not given")
    add("--radius", type=float, default=0.2, help="of the neighbours that are kept")
    add("--simlex", type=Path, help="SimLex-999.txt, to measure the correlation with it")
    return parser


def _read_pairs(name: str, paths: Sequence[Path], index: Mapping[str, int]) -> Pairs:
    """Return the pairs of all files `[n, 2]`, without duplicates."""
    files = [read_pairs(path, index) for path in paths]
    pairs = np.unique(np.concatenate([part for part, _ in files]), axis=0)
    unknown = sum(count for _, count in files)
    line = f"{name}: {len(pairs):,} pairs, {unknown:,} lines with a word that has no vector"
    print(line, file=sys.stderr)
    if not len(pairs):
        msg = f"got no {name} of known words, expected pairs of words that have vectors"
        raise ValueError(msg)
    return pairs


def _read_simlex(path: Path, index: Mapping[str, int]) -> tuple[Pairs, Floats]:
    """Return pairs of words with vectors `[n, 2]`, and their similarity in the view of people."""
    with lines_of(path) as stream:
        header, *lines = [line.split("\t") for line in stream] or [[]]
    if not set(_SIMLEX) <= set(header):
        msg = f"{path}: got columns {header[:10]}, expected also {', '.join(_SIMLEX)}"
        raise BrokenFile(msg)
    first, second, score = (header.index(name) for name in _SIMLEX)
    with reading(path, "two words and a score in each line"):
        lines = [line for line in lines if line[first] in index and line[second] in index]
        pairs = [(index[line[first]], index[line[second]]) for line in lines]
        return np.array(pairs).reshape(-1, 2), np.array([float(line[score]) for line in lines])


def _write(path: Path, words: Sequence[str], vectors: Floats) -> None:
    with atomic.replacing(path) as stream:
        # mtime=0 and no name: the same vectors give the same bytes.
        packed = path.suffix == ".gz"
        out = gzip.GzipFile(fileobj=stream, mode="wb", mtime=0, filename="") if packed else stream
        for word, row in zip(words, vectors, strict=True):
            out.write(f"{word} {' '.join(f'{number:.6f}' for number in row)}\n".encode())
        if packed:
            out.close()
