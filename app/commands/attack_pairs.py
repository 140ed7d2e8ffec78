"""Measure a model on published adversarial texts and on their originals.

Both accuracies, their difference with a 95 % interval, and McNemar's test. The files: AdvGLUE's
JSON, TextAttack's CSV log, TextFooler's adversaries.txt, or the .jsonl of one of our attacks on
another model. Between two runs the figures are also in the run of the victim, for its report.

With --run A B C and no file: the adversarial texts of each run, read by each run. A cell is the
share of the texts that fool the reader, among those whose clean text both classify rightly. The
figures are also in results.json of each reader; those of the texts of A are its static attack.
Victims from elsewhere, such as hf:FOLDER, may be among the runs. --output FOLDER writes each matrix
as transfer-ATTACK.json and .csv.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from app.cli.run_options import add_option
from app.cli.victim_options import OneLineParser, add_victim, folder_of, split_names, victim_of
from attacks.digests import file_digest
from attacks.outcome import from_line
from attacks.paired_shares import PairedShares, paired_shares
from measure.attack_settings import AttackSettings
from measure.named_victims import KINDS, NamedVictim, detector_of
from measure.published_pairs import PublishedFile, PublishedPair, read_published, record_classes
from measure.table_samples import LabelledTable, as_classes
from measure.transfer_matrix import (
    AttackedRun,
    file_transfers,
    matrix_files,
    matrix_table,
    transfer_matrix,
)
from run_files import atomic
from run_files.ledger import attack_ledger, attack_ledgers
from run_files.run_directory import TRANSFER, RunDirectory, existing, of_checkpoint
from run_files.terminal import harmless
from text import Text
from text.estimates import IntervalEstimate, wilson
from text.plural import plural

FEW = 30
"""Methods with fewer pairs have no line of their own."""


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.run is not None:
        return _matrices(args)
    published = read_published(Path(args.file), args.task)
    out = folder_of(args)
    named = victim_of(args, out)
    labels = _labels(published, named, args)
    content = report(published, labels, named)
    path = out / f"pairs-{Path(args.file).stem}{f'-{args.task}' if args.task else ''}.json"
    run, weights, checkpoint = None, None, named.facts.get("checkpoint")
    # Behind a front end it is another model than that of the run.
    if checkpoint is not None and "front end" not in named.facts:
        run, weights = of_checkpoint(Path(checkpoint)), file_digest(checkpoint)
    about = {"victim": named.facts, "weights": weights, "source": published.source}
    text = json.dumps({**about, **content}, indent=2) + "\n"
    paths = [path]
    if run is not None and (source := published.source) is not None:
        # The report of the victim, and the site, show all transfers in one map.
        paths.append(run.path / TRANSFER / source["run"] / f"{source['attack']}.json")
    for file in paths:
        atomic.write_text(file, text)
    title = f"{named.facts['victim']} on {args.file} ({published.form}, {len(labels)} texts)"
    print(harmless("\n".join([title, *_lines(content)])))
    print(harmless("\n".join(["", *map(str, paths)])))
    return 0


def parser() -> ArgumentParser:
    """Return the parser of the command."""
    parser = _Parser(prog="steadfast attack pairs", description=__doc__)
    parser.add_argument("file", nargs="?", help="the file")
    parser.add_argument("--task", type=str, default=None, help="task of AdvGLUE, such as sst2")
    add_option(parser, "--batch_size", default=256)
    add_victim(parser, or_run=True)
    runs = next(action for action in parser._actions if action.dest == "run")
    runs.nargs, runs.help = "+", "runs or victims whose texts are read by each of them"
    text = "NAME,...: attacks of these runs (default: all that all of them have)"
    parser.add_argument("--attack", type=str, default=None, help=text)
    return parser


class _Parser(OneLineParser):
    """A parser of a file and a victim, or of several runs."""

    def parse_args(self, args: Any = None, *other: Any, **named: Any) -> Any:
        options = super().parse_args(args, *other, **named)
        inputs = [name for name in ("file", "victim", "run") if getattr(options, name) is not None]
        if inputs not in (["file", "victim"], ["run"]):
            text = ", ".join(inputs) or "neither"
            self.error(f"got {text}, expected FILE and --victim NAME, or --run A B ...")
        return options


def _matrices(args: argparse.Namespace) -> int:
    """Measure, file and print the matrix of each attack of some runs."""
    names = list(dict.fromkeys(args.run))
    output, args.output, runs_dir = args.output, None, Path(args.runs_dir)
    runs, models = [], {}
    for name in names:
        elsewhere = name.partition(":")[0] in KINDS and not name.startswith("run:")
        own = name.removeprefix("run:")
        args.victim = name if elsewhere else f"run:{own}"
        run = RunDirectory(folder_of(args)) if elsewhere else existing(runs_dir, own)
        models[run.name] = victim_of(args, run.path if elsewhere else None)
        runs.append(run)
    if len({frozenset(model.classes) for model in models.values()}) > 1:
        classes = "; ".join(f"{name}: {', '.join(m.classes)}" for name, m in models.items())
        msg = f"got runs with other classes ({classes}), expected the same: runs on one corpus"
        raise ValueError(msg)
    for attack in _attacks(runs, args.attack):
        readers = [_attacked(run, attack, models[run.name]) for run in runs]
        started = time.monotonic()
        matrix = transfer_matrix(readers)
        seconds = (time.monotonic() - started) / len(readers)
        subjects = {reader.name: reader.subject for reader in readers}
        paths = {run.name: attack_ledger(run, attack).records_path for run in runs}
        records = {name: file_digest(path) for name, path in paths.items()}
        for run in runs:
            file_transfers(run, attack, matrix, subjects, seconds, records=records)
        print(f"{attack}: share of the adversarial texts that fool the reader")
        print(harmless(matrix_table(matrix, "fooled")))
        print(f"\n{attack}: accuracy of the reader under this static attack")
        print(harmless(matrix_table(matrix, "accuracy")) + "\n")
        for reader in readers:
            own = matrix[reader.name][reader.name].fooled
            # A run has the digest of its weights; other victims have none.
            if own is not None and own.value < 1:
                lost = own.count - round(own.value * own.count)
                print(
                    f"{reader.name}: {lost} of {own.count} of its own adversarial texts do not "
                    "fool it any more: it is noisy, or another model than the attacked one"
                )
        if output is not None:
            for form, text in zip(("json", "csv"), matrix_files(attack, matrix), strict=True):
                atomic.write_text(Path(output) / f"transfer-{attack}.{form}", text)
    return 0


def _attacks(runs: Sequence[RunDirectory], names: str | None) -> list[str]:
    """Return the attacks to read."""
    common = [
        ledger.name
        for ledger in attack_ledgers(runs[0])
        if all(attack_ledger(run, ledger.name).records_path.is_file() for run in runs)
    ]
    selected = common if names is None else split_names(names) or []
    if not selected or (lacking := [name for name in selected if name not in common]):
        text = ", ".join(lacking) if selected else "no attack that all runs have"
        msg = (
            f"got {text} for {', '.join(run.name for run in runs)}, expected some of "
            f"{', '.join(common) or 'none'}: `attack` each run first"
        )
        raise ValueError(msg)
    return selected


def _attacked(run: RunDirectory, attack: str, model: NamedVictim) -> AttackedRun:
    """Return a run with the records of an attack."""
    ledger = attack_ledger(run, attack)
    subject, name = ledger.subject(), model.facts["victim"]
    if (attacked := subject.get("victim", name)) != name:
        msg = f"got {ledger.records_path} about {attacked}, expected {name}: attack it again"
        raise ValueError(msg)
    if "victim" not in subject and subject.get("checkpoint") != file_digest(run.chosen):
        msg = (
            f"got {ledger.records_path} about other weights than {run.chosen}, expected an attack "
            f"on these: `attack --run {run.name} --attack {attack}` again"
        )
        raise ValueError(msg)
    victim = model.victim
    if (threshold := subject.get("threshold")) is not None:
        settings = AttackSettings(
            goal=subject["goal"], positive=subject["positive"], threshold=threshold
        )
        victim, _ = detector_of(victim, model.classes, settings)
    names = record_classes(ledger.records_path) or ()
    records = [from_line(record) for record in ledger.records()]
    named = [replace(record, label_name=names[record.label]) for record in records]

    def classify(texts: Sequence[Text]) -> list[str]:
        return [model.classes[i] for i in victim.logits(list(texts)).argmax(axis=1)]

    ordered = sorted(named, key=lambda record: record.sample_id)
    return AttackedRun(name=run.name, subject=subject, records=ordered, classify=classify)


def _labels(
    published: PublishedFile, named: NamedVictim, args: argparse.Namespace
) -> dict[int, int]:
    """Return the class of the victim for the number of each pair."""
    class_names = split_names(args.label_names)
    if published.form == "records" and published.names is None and class_names is None:
        msg = (
            f"got {args.file}, whose records have indices of classes without names, expected to "
            "be told which classes of the victim these are, in the order of the model that was "
            "attacked: --label_names CLASS,CLASS"
        )
        raise ValueError(msg)
    rows: list[Any] = [(pair.number, pair.adversarial, pair.label) for pair in published.pairs]
    table = LabelledTable(name=args.file, columns=("text",), rows=rows, names=published.names)
    return {pair.sample_id: pair.label for pair in as_classes(table, named.classes, class_names)}


def report(published: PublishedFile, labels: dict[int, int], named: NamedVictim) -> dict[str, Any]:
    """Return the figures of a victim on published texts."""
    texts = [text for pair in published.pairs for text in (pair.adversarial, pair.original)]
    # Each text is queried once. An adversarial text may be empty; only None means "no original".
    distinct = [text for text in dict.fromkeys(texts) if text is not None]
    logits = named.victim.logits(distinct)
    answers = dict(zip(distinct, logits.argmax(axis=1).tolist(), strict=True))
    methods = sorted({pair.method for pair in published.pairs} - {""})
    content: dict[str, Any] = {"form": published.form, "classes": named.classes}
    content["skipped"] = published.skipped
    content["all"] = _figures(published.pairs, labels, answers)
    groups = {m: [pair for pair in published.pairs if pair.method == m] for m in methods}
    if len(groups) > 1:
        content["methods"] = {
            m: _figures(group, labels, answers) for m, group in groups.items() if len(group) >= FEW
        }
    return content


def _figures(
    pairs: Sequence[PublishedPair], labels: dict[int, int], answers: dict[Any, int]
) -> dict[str, Any]:
    correct = [answers[pair.adversarial] == labels[pair.number] for pair in pairs]
    figures: dict[str, Any] = {"adversarial": asdict(wilson(sum(correct), len(correct)))}
    with_original = [
        (pair, hit) for pair, hit in zip(pairs, correct, strict=True) if pair.original is not None
    ]
    if with_original:
        before = [answers[pair.original] == labels[pair.number] for pair, _ in with_original]
        figures["paired"] = asdict(paired_shares(before, [hit for _, hit in with_original]))
    return figures


def _lines(content: dict[str, Any]) -> list[str]:
    skipped = content["skipped"]
    lines = [f"left out: {plural(skipped, 'row')} without adversarial text"] if skipped else []
    for name, figures in {"all": content["all"], **content.get("methods", {})}.items():
        lines.append(f"{name}:")
        adversarial = IntervalEstimate(**figures["adversarial"])
        if "paired" not in figures:
            lines.append(f"  accuracy {adversarial} (the file has no originals)")
            continue
        parts: dict[str, Any] = {
            key: IntervalEstimate(**figure) if isinstance(figure, dict) else figure
            for key, figure in figures["paired"].items()
        }
        both = PairedShares(**parts)
        count = both.first.count
        if adversarial.count > count:
            lines.append(
                f"  accuracy on all {adversarial.count} adversarials  {adversarial}, "
                f"{adversarial.count - count} of them without original"
            )
        lines += [
            f"  accuracy on originals     {both.first}, {count} pairs",
            f"  accuracy on adversarials  {both.second}",
            f"  difference                {both.difference}, {both.lost} lost, "
            f"{both.gained} gained, McNemar p = {both.p:.2g}",
        ]
        if both.first.value:
            # The base are the originals with a correct prediction, not all pairs.
            hit = wilson(both.lost, round(both.first.value * count))
            lines.append(f"  of the originals that are right, lost  {hit}")
    return lines
