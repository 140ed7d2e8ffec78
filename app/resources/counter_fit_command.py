"""`python -m app resources counter-fit`: makes counter-fitted vectors of any word vectors."""

import argparse
import gzip
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from app.cli.run_options import command_parser
from app.runs import atomic
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
from text.bounded_files import reading

_SIMLEX = ("word1", "word2", "SimLex999")


def main(argv: Sequence[str]) -> int:
    """Runs `resources counter-fit`; see `Command.place`.

    Raises:
        ValueError: a file with wrong content, or a setting out of its range.
        OSError: the vectors cannot be written.
    """
    _run(parser().parse_args(argv))
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = command_parser(
        "resources counter-fit",
        "Draw the vectors of synonyms together and push those of antonyms apart.",
        runs=False,
    )
    made.add_argument("vectors", type=Path, help="a word and its numbers in a line; .gz, .zip")
    for name in ("synonyms", "antonyms"):
        made.add_argument(
            f"--{name}", type=Path, nargs="+", required=True, help="files, two words in a line"
        )
    made.add_argument("--to", type=Path, required=True, help="file for the vectors; .gz packs it")
    made.add_argument("--words", type=int, metavar="N", help="only the first N words of the file")
    made.add_argument("--steps", type=int, default=20, help="20 if not given")
    made.add_argument("--radius", type=float, default=0.2, help="of the neighbours that are kept")
    made.add_argument(
        "--simlex", type=Path, help="SimLex-999.txt, to measure the correlation with it"
    )
    return made


def _run(args: argparse.Namespace) -> None:
    settings = CounterFitting(steps=args.steps, radius=args.radius)
    if args.words is not None and args.words < 2:
        msg = f"got --words {args.words}, expected at least 2"
        raise ValueError(msg)
    read = read_vectors(args.vectors)
    words = read.words[: args.words]
    index = {word: i for i, word in enumerate(words)}
    synonyms = _pairs("synonyms", args.synonyms, index)
    antonyms = _pairs("antonyms", args.antonyms, index)
    likeness = None if args.simlex is None else _simlex(args.simlex, index)
    before = unit(read.matrix[: args.words].astype(np.float64))
    began = time.monotonic()

    def after(step: int, total: float) -> None:
        seconds = time.monotonic() - began
        end = "\n" if step == settings.steps else ""
        print(
            f"\rstep {step} of {settings.steps}: cost {total:,.1f}, {seconds:.0f} s ",
            end=end,
            file=sys.stderr,
            flush=True,
        )

    found = counter_fit(before, synonyms, antonyms, settings, after=after)
    _write(args.to, words, found)
    print(f"{len(words):,} words of {found.shape[1]} numbers, {settings.steps} steps")
    print("| | pairs | before | after |\n|---|---|---|---|")
    for name, pairs in (("synonyms", synonyms), ("antonyms", antonyms)):
        means = (f"{cosines(one, pairs).mean():.3f}" for one in (before, found))
        print(f"| mean cosine of {name} | {len(pairs):,} | {' | '.join(means)} |")
    if likeness is not None:
        pairs, scores = likeness
        both = (f"{_correlation(cosines(one, pairs), scores):.3f}" for one in (before, found))
        print(f"| Spearman's correlation with SimLex-999 | {len(pairs)} | {' | '.join(both)} |")
    print(f"\n{args.to}")


def _pairs(name: str, paths: Sequence[Path], index: Mapping[str, int]) -> Pairs:
    """The pairs of all files, each once."""
    read = [read_pairs(path, index) for path in paths]
    pairs = np.unique(np.concatenate([found for found, _ in read]), axis=0)
    unknown = sum(number for _, number in read)
    said = f"{name}: {len(pairs):,} pairs, {unknown:,} lines with a word that has no vector"
    print(said, file=sys.stderr)
    if not len(pairs):
        msg = f"got no {name} of known words, expected pairs of words that have vectors"
        raise ValueError(msg)
    return pairs


def _simlex(path: Path, index: Mapping[str, int]) -> tuple[Pairs, Floats]:
    """Pairs of known words, and how alike people find them."""
    with lines_of(path) as stream:
        header, *lines = [line.split("\t") for line in stream] or [[]]
    if not set(_SIMLEX) <= set(header):
        msg = f"{path}: got columns {header[:10]}, expected {', '.join(_SIMLEX)} among them"
        raise BrokenFile(msg)
    first, second, score = (header.index(name) for name in _SIMLEX)
    with reading(path, "two words and a score in each line"):
        known = [line for line in lines if line[first] in index and line[second] in index]
        pairs = [(index[line[first]], index[line[second]]) for line in known]
        return np.array(pairs).reshape(-1, 2), np.array([float(line[score]) for line in known])


def _correlation(cosine: Floats, scores: Floats) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(cosine, scores).statistic)


def _write(path: Path, words: Sequence[str], vectors: Floats) -> None:
    with atomic.replacing(path) as stream:
        packed = path.suffix == ".gz"
        out = gzip.GzipFile(fileobj=stream, mode="wb", mtime=0, filename="") if packed else stream
        for word, row in zip(words, vectors, strict=True):
            out.write(f"{word} {' '.join(f'{number:.6f}' for number in row)}\n".encode())
        if packed:
            out.close()
