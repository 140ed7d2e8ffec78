"""Measure a classifier by functional tests: the pass rate of each functionality, worst first.

FILE has texts, labels and functionalities, as HateCheck has (Roettger et al., 2021): each row is a
test, which passes if the prediction is the label. With --pair COLUMN, all texts of a functionality
with the same value there must get the same prediction, as in the invariance tests of CheckList
(Ribeiro et al., 2020); such a file needs no labels.
"""

import argparse
from pathlib import Path

from jsonargparse import ArgumentParser

from app.cli.run_options import add_option
from app.cli.victim_options import (
    RunOrVictimParser,
    add_columns,
    add_victim,
    measured_model,
    split_names,
)
from measure.functional_tests import (
    FunctionalTests,
    functional_table,
    invariance_tests,
    labelled_tests,
)
from measure.table_samples import read_table
from run_files.terminal import harmless

_SPLITS = ("train", "training", "validation", "valid", "dev", "test")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    columns, label = split_names(args.columns), args.pair or args.label
    table = read_table(args.file, columns=columns, label=label, group=args.functionality)
    model = measured_model(args)
    named, names = model.named, split_names(args.label_names)
    labelled = args.pair is None
    tests = labelled_tests(table, named.classes, names) if labelled else invariance_tests(table)
    measurement = FunctionalTests(
        named.victim,
        tests,
        name=args.tag or name_of(args.file),
        classes=named.classes,
        identity={**model.about, "dataset": table.name},
    )
    outcome = model.measure(measurement, table.name)
    print(harmless(f"{named.facts['victim']} on {table.name}\n"))
    print(harmless(functional_table(outcome.records)))
    print(harmless(f"\n{model.files.path / measurement.file}"))
    return 0


def name_of(file: str) -> str:
    """Return the name of a file of tests: its stem, or its folder if that is a split."""
    path = Path(file)
    stem = path.name.partition(".")[0]
    folder = path.resolve().parent.name
    return folder if stem in _SPLITS and folder else stem


def parser() -> ArgumentParser:
    """Return the parser of the command."""
    parser = RunOrVictimParser(prog="steadfast functional", description=__doc__)
    add = parser.add_argument
    add("file", type=str, metavar="FILE", help="the tests: a table, or hf:ID:SPLIT")
    add_columns(parser)
    text = "column of the functionality"
    add("--functionality", type=str, default="functionality", metavar="COLUMN", help=text)
    text = "column of pairs: rows with one value must get the same prediction"
    add("--pair", type=str, metavar="COLUMN", help=text)
    add_option(parser, "--tag", help="name of the outcome (default: that of FILE)")
    add_option(parser, "--batch_size", default=256)
    add_victim(parser, or_run=True)
    return parser
