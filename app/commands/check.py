"""Check a classifier against limits, for a person or for continuous integration.

It measures accuracy, recall and false alarms on labelled texts, the share of right predictions that
attacks change (flip rate), and the share that is certified. Nothing is stored, except the files
that are asked for; a former outcome is never used again.
"""

import argparse
import re
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from app.cli.run_options import add_option
from app.cli.victim_options import (
    RunOrVictimParser,
    add_columns,
    add_victim,
    split_names,
    victim_of,
)
from attacks.resources.catalogue import Resources
from attacks.victims.kinds import ModuleVictim
from attacks.word_sets import find_threat, is_endless
from certify.threats.parsing import parse_k
from lit_modules import TaskModule
from measure.corpus_split import words_read
from measure.gate import Certification, Gate, GateSettings
from measure.gate_report import (
    compare_baseline,
    gate_junit,
    gate_markdown,
    gate_table,
    read_baseline,
    write_baseline,
)
from measure.named_victims import NamedVictim
from measure.table_samples import as_classes, read_table
from run_files import atomic

EPILOG = """Exit status: 0 if all limits hold, 1 if one does not, was not checked, or for an error,
2 for a wrong command line."""


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    settings = _settings(args)
    baseline = None if args.baseline is None else read_baseline(Path(args.baseline))
    table = read_table(args.data, columns=split_names(args.columns), label=args.label)
    named = victim_of(args, None)
    gate = Gate(
        named.victim,
        named.classes,
        as_classes(table, named.classes, split_names(args.label_names)),
        settings,
        data=table.name,
        named=named.facts["victim"],
        columns=table.columns,
        certification=_certification(named, settings),
        always=baseline is not None or args.write_baseline is not None,
    )
    report = gate.run()
    if baseline is not None:
        report = compare_baseline(report, baseline, Path(args.baseline))
    for path, form in ((args.junit, gate_junit), (args.output, gate_markdown)):
        if path is not None:
            atomic.write_text(Path(path), form(report))
    if args.write_baseline is not None:
        write_baseline(report, Path(args.write_baseline))
    print(gate_table(report))
    return 0 if report.holds else 1


def _certification(named: NamedVictim, settings: GateSettings) -> Certification | None:
    """Return the certificate that the settings ask for; None if they ask for none."""
    if settings.threat is None:
        return None
    model = named.victim.module if isinstance(named.victim, ModuleVictim) else None
    if not isinstance(model, TaskModule):
        msg = (
            f"got --min_certified for {named.facts['victim']}, expected a run of ours without "
            "--words.front_end: no other model has certificates"
        )
        raise ValueError(msg)
    default = None if is_endless(settings.threat) else 1
    k = default if settings.k is None else parse_k(settings.k)
    resources, words = Resources(settings.resources), words_read(model)
    threat = find_threat(settings.threat, lists=None, k=k, words=words, resources=resources)
    return Certification(model.text_certifier(threat), threat, k)


def _settings(args: Any) -> GateSettings:
    return GateSettings(**{name: getattr(args, name) for name in GateSettings.__dataclass_fields__})


class _CheckParser(RunOrVictimParser):
    """Takes `--max-flip-rate` for `--max_flip_rate`, and refuses a gate that checks nothing."""

    def parse_args(self, args: Any = None, *other: Any, **named: Any) -> Any:
        """Parse arguments; see jsonargparse."""
        if args is not None:
            names = (re.match(r"--[\w-]+", word) for word in args)
            args = [
                word if name is None else "--" + name[0][2:].replace("-", "_") + word[name.end() :]
                for word, name in zip(args, names, strict=True)
            ]
        options = super().parse_args(args, *other, **named)
        try:
            settings = _settings(options)
        except ValueError as error:
            self.error(str(error))
        if not (settings.limited or options.baseline or options.write_baseline):
            self.error("expected a limit, such as --min_accuracy 0.9, or --baseline FILE")
        return options


def parser() -> ArgumentParser:
    """Return the parser of the command."""
    parser = _CheckParser(prog="steadfast check", description=__doc__, epilog=EPILOG)
    add = parser.add_argument
    text = "texts with labels: a table, or hf:ID:SPLIT"
    add("--data", type=str, required=True, metavar="FILE", help=text)
    add_columns(parser)
    parser.add_class_arguments(GateSettings, as_group=False)
    text = "former outcome: a criterion that is clearly worse fails"
    add("--baseline", type=str, metavar="FILE", help=text)
    text = "write the outcome of each text, to compare with later"
    add("--write_baseline", type=str, metavar="FILE", help=text)
    add("--junit", type=str, metavar="FILE", help="write JUnit XML")
    add_option(parser, "--batch_size", default=256)
    add_victim(parser, or_run=True, output="write Markdown for a pull request to this file")
    return parser
