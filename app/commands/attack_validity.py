"""Count the adversarial texts that keep the meaning of their originals.

The checks: antonyms, negations, numbers, names, similarity, perplexity, grammar, entailment. The
command prints the success before and after. It needs no victim.
"""

import argparse
import logging
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from app.cli.run_options import add_option, command_parser
from attacks.resources.catalogue import Resources, resources_named
from attacks.validity.checks import LEAST, Checks, ValidityFigures, ValidityLimits
from attacks.validity.fluency import Entailment, ModelFluency
from measure.validity_files import file_validity, sentence_encoder
from measure.validity_pairs import MeaningPairs, damage, meaning_pairs, running_text, vocabulary_of
from run_files import run_directory
from run_files.devices import torch_device
from run_files.ledger import attack_ledgers
from run_files.terminal import harmless
from text import check_range

log = logging.getLogger(__name__)

LINES = 20_000
"""Lines of running text that are counted."""
_FITTED = ("similarity", "perplexity", "grammar", "entailment")
"""Checks with a limit that `--calibrate` chooses."""
_ALARMS = 0.05
"""Share of good texts that a limit of perplexity or grammar may reject."""


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    checks = make_checks(args)
    if args.calibrate is not None:
        check_range({"--num_samples": args.num_samples}, least=1)
        print(calibrate(checks, Path(args.calibrate), args.num_samples))
        return 0
    values = {field.name: getattr(args, field.name) for field in fields(ValidityLimits)}
    limits = ValidityLimits(**{name: v for name, v in values.items() if v is not None})
    for path in record_files(args, "attack validity"):
        print(harmless("\n".join(file_validity(path, checks, limits))))
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    options = ("--runs_dir", "--device", "--resources", "--sentence_encoder")
    parser = command_parser("attack validity", __doc__, *options)
    add_records(parser)
    add_option(parser, "--num_samples", default=300, help="pairs of a kind, for --calibrate")
    add = parser.add_argument
    add("--calibrate", metavar="DIR", help="choose limits by judged pairs of corpora in a folder")
    text = "text of the same kind, for grammar and perplexity (.txt, .txt.gz: a line, a text)"
    add("--running_text", nargs="+", default=[], metavar="FILE", help=text)
    add("--lines", type=int, default=LINES, metavar="N", help="lines of it")
    add("--language_model", metavar="NAME", help="folder or hub name, for perplexity")
    add("--entailment_model", metavar="NAME", help="folder or hub name of a classifier of pairs")
    for name, default in asdict(ValidityLimits()).items():
        text = f"{'least' if name in LEAST else 'largest'} {name} (default: {default})"
        add(f"--limit.{name}", dest=name, type=type(default), metavar="X", help=text)
    return parser


@resources_named("--resources")
def make_checks(args: argparse.Namespace) -> Checks:
    """Return the checks that the resources allow; warn about the missing ones."""
    device = torch_device(args.device)
    resources = Resources(args.resources, sentence_encoder=args.sentence_encoder, device=device)
    encoder, tagger = sentence_encoder(resources), None
    if args.running_text:
        tagger = resources.tagger()
    else:
        log.warning("grammar is not measured without --running_text FILE")
    fluency, entailment = None, None
    if args.language_model is not None:
        fluency = ModelFluency.load(args.language_model, device=device)
    if args.entailment_model is not None:
        from measure.named_victims import pretrained_classifier

        entailment = Entailment(*pretrained_classifier(args.entailment_model, device))
    return Checks(
        resources.wordnet(),
        encoder=encoder,
        tagger=tagger,
        sentences=running_text(args.running_text, args.lines) if args.running_text else (),
        fluency=fluency,
        entailment=entailment,
    )


def add_records(parser: argparse.ArgumentParser) -> None:
    """Add the options that `record_files` reads."""
    add_option(parser, "--run", help="the run; all its attacks")
    text = "RECIPE.jsonl of attacks, in place of a run"
    parser.add_argument("--records", nargs="+", metavar="FILE", help=text)


def record_files(args: argparse.Namespace, command: str) -> list[Path]:
    """Return the files of records that the options of a command name, at least one."""
    if args.records:
        return [Path(name) for name in args.records]
    run = run_directory.existing(Path(args.runs_dir), run_directory.named(command, args.run))
    ledgers = attack_ledgers(run)
    paths = sorted(entry.records_path for entry in ledgers if entry.records_path.is_file())
    if not paths:
        folder = run.path / "attacks"
        msg = f"got {folder} without attacks, expected RECIPE.jsonl: attack the run first"
        raise ValueError(msg)
    return paths


def calibrate(checks: Checks, folder: Path, count: int) -> str:
    """Choose limits on the validation splits; return a table of their effect on the test splits.

    `count` is the largest number of pairs of each kind.
    """
    names = checks.made()
    chosen = _chosen(_measured(checks, folder, "validation", count), names)
    limits = replace(ValidityLimits(), **chosen)
    heads = ["pairs (test part)", "number", *names, "any"]
    rows = [heads, ["---"] * len(heads)]
    for kind, measured in _measured(checks, folder, "test", count):
        failed = [figures.failures(limits) for figures in measured]
        shares = [sum(name in some for some in failed) / len(measured) for name in names]
        total = sum(map(bool, failed)) / len(measured)
        rows.append([kind.name, f"{len(measured):,}", *(f"{x:.3f}" for x in [*shares, total])])
    shown = ", ".join(f"{name} {getattr(limits, name):g}" for name in names)
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"limits, chosen on the validation parts: {shown}\n\nshare turned down:\n\n{table}"


def _measured(
    checks: Checks, folder: Path, part: Any, count: int
) -> list[tuple[MeaningPairs, list[ValidityFigures]]]:
    kinds = meaning_pairs(folder, part)
    edits = [str(a) for kind in kinds if kind.edit for a, _ in kind.pairs]
    if edits:
        distinct = list(dict.fromkeys(edits))
        # Pairs with different meaning: a random word of the text is replaced.
        broken = damage(distinct, vocabulary_of(distinct))
        kinds.append(MeaningPairs("SNLI, a word replaced by any other", False, False, broken))
    measured = []
    for kind in kinds:
        # At equal distances, because files are often sorted.
        step = max(1.0, len(kind.pairs) / count)
        pairs = [kind.pairs[int(i * step)] for i in range(min(count, len(kind.pairs)))]
        measured.append((kind, checks.measure(pairs)))
    return measured


def _chosen(
    measured: Sequence[tuple[MeaningPairs, list[ValidityFigures]]], names: Sequence[str]
) -> dict[str, Any]:
    """Return the limits that separate the pairs best.

    Similarity and entailment: the limit with the largest sum of two shares, that of accepted pairs
    with equal meaning and that of rejected other pairs. Perplexity and grammar: the limit that
    accepts 95 % of the texts edited by humans, with any meaning, because these are proper texts.
    """
    limits: dict[str, Any] = {}
    for name in set(names) & set(_FITTED):
        if name in LEAST:
            rest = [(kind.same, some) for kind, some in measured if kind.same or not kind.edit]
            same, other = (
                [getattr(m, name) for equal, some in rest if equal == meaning for m in some]
                for meaning in (True, False)
            )
            if same and other:
                limits[name] = round(best_cut(same, other), 3)
        else:
            written = sorted(getattr(m, name) for kind, some in measured if kind.edit for m in some)
            if written:
                rank = min(len(written) - 1, int((1 - _ALARMS) * len(written)))
                limits[name] = round(written[rank], 3)
    return limits


def best_cut(high: Sequence[float], low: Sequence[float]) -> float:
    """Return the limit with the largest share of `high` at or above plus of `low` below it."""
    import numpy as np

    # Youden's J over all candidate limits, by binary search in the sorted values.
    cuts = np.unique([*high, *low])
    above = 1 - np.searchsorted(np.sort(high), cuts, side="left") / len(high)
    below = np.searchsorted(np.sort(low), cuts, side="left") / len(low)
    return float(cuts[int((above + below).argmax())])
