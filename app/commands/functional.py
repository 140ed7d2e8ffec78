"""Measure a classifier by functional tests: the pass rate of each functionality, worst first.

FILE has texts, labels and functionalities, as HateCheck has (Roettger et al., 2021): each row is a
test, which passes if the prediction is the label. With --pair COLUMN, all texts of a functionality
with the same value there must get the same prediction, as in the invariance tests of CheckList
(Ribeiro et al., 2020); such a file needs no labels.
"""

import argparse
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from app.cli.run_options import add_option
from app.cli.victim_options import RunOrVictimParser, add_victim, folder_of, split_names, victim_of
from attacks.victims.front_end_victim import FrontEndVictim
from attacks.victims.kinds import ModuleVictim
from datamodules import CORPORA
from lit_modules import TaskModule
from measure.archive import FolderArchive
from measure.functional_tests import (
    FunctionalTests,
    functional_table,
    invariance_tests,
    labelled_tests,
)
from measure.named_victims import NamedVictim
from measure.runner import run as measure
from measure.table_samples import read_table
from run_files.run_directory import RunDirectory
from run_files.terminal import harmless
from run_files.weights import weights_of

_SPLITS = ("train", "training", "validation", "valid", "dev", "test")


def run(args: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        ValueError: columns that are missing, or labels that do not name classes of the model.
        VictimError: the model failed; the same command resumes.
        OSError: a file or the model is not found, or a file cannot be written.
    """
    table = read_table(
        args.file,
        columns=split_names(args.columns),
        label=args.pair or args.label,
        group=args.functionality,
    )
    files = RunDirectory(folder_of(args) if args.run is None else Path(args.runs_dir) / args.run)
    named = victim_of(args, files.path)
    tests = (
        labelled_tests(table, named.classes, split_names(args.label_names))
        if args.pair is None
        else invariance_tests(table)
    )
    victim = named.facts["victim"]
    if args.run is None:
        front_end = named.victim.digest if isinstance(named.victim, FrontEndVictim) else None
        model = {"victim": victim, "front_end": front_end}
        identity = {"run": files.name, "method": victim, "corpus": table.name, "seed": 0}
    else:
        model, identity = _identify_run(named, files)
        # A training would replace the weights during the measurement.
        files.lock()
    measurement = FunctionalTests(
        named.victim,
        tests,
        name=args.tag or name_of(args.file),
        classes=named.classes,
        identity={**model, "dataset": table.name},
    )
    try:
        outcome = measure(measurement, FolderArchive(files, identity))
    finally:
        files.unlock()
    print(harmless(f"{victim} on {table.name}\n"))
    print(harmless(functional_table(outcome.records)))
    print(harmless(f"\n{files.path / measurement.file}"))
    return 0


def _identify_run(named: NamedVictim, run: RunDirectory) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the weights of a run, and the entries of its `results.json` that identify it."""
    module = named.victim.module if isinstance(named.victim, ModuleVictim) else None
    if not isinstance(module, TaskModule):
        msg = (
            f"got --words.front_end and --run {run.name}, expected one of the two: the figures of "
            f"a run are its own; --victim run:{run.name} has a folder for others"
        )
        raise ValueError(msg)
    if (results := run.results()) is not None:
        keys = ("run", "method", "corpus", "seed", "no_certificate")
        identity = {key: results.get(key) for key in keys if key in results}
    else:
        config = run.config()
        data = str(config["data"]["class_path"]).rpartition(".")[2]
        corpus = CORPORA[data].corpus if data in CORPORA else data
        seed = int(config.get("seed_everything", 0))
        identity = {"run": run.name, "method": module.method, "corpus": corpus, "seed": seed}
        if module.no_certificate is not None:
            identity["no_certificate"] = module.no_certificate
    return weights_of(Path(named.facts["checkpoint"])).about(), identity


def name_of(file: str) -> str:
    """Return the name of a file of tests: its stem, or its folder if that is a split."""
    path = Path(file)
    stem = path.name.partition(".")[0]
    folder = path.resolve().parent.name
    return folder if stem in _SPLITS and folder else stem


def parser() -> ArgumentParser:
    """Return the parser of the command."""
    parser = RunOrVictimParser(prog="steadfast functional", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("file", type=str, metavar="FILE", help="the tests: a table, or hf:ID:SPLIT")
    add("--columns", type=str, help="TEXT or TEXT,TEXT (default: usual names)")
    add("--label", type=str, help="column of the label (default: usual names)")
    text = "column of the functionality"
    add("--functionality", type=str, default="functionality", metavar="COLUMN", help=text)
    text = "column of pairs: rows with one value must get the same prediction"
    add("--pair", type=str, metavar="COLUMN", help=text)
    add_option(parser, "--tag", help="name of the outcome (default: that of FILE)")
    add_option(parser, "--batch_size", default=256)
    add_victim(parser, or_run=True)
    return parser
