"""Make one attack of its shards (--attack.shard I/N of `attack`), as if it was never divided.

It needs RUN/attacks/*.shard-* of all shards, and no model: the files of other machines are copied
there first.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from app.cli.run_options import RUN, add_option, command_parser, find_model
from measure import validity_files
from measure.archive import FolderArchive
from measure.attack_csv import write_csv
from measure.attack_html import write_page
from measure.attack_mean import MeanArchive
from measure.attack_names import file_names
from measure.attack_report import report
from measure.attack_shards import MergedAttack, check_weights, merge_attacks
from measure.measurement import Archive
from measure.text_attack import attack_figures, show_examples
from run_files import atomic
from run_files.run_directory import RunDirectory
from run_files.terminal import harmless
from run_files.weights import shelf, weights_of
from training.recorder import RunLogger


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.output is not None:
        return _merge_victim(args)
    run, checkpoint = find_model("attack merge", args)
    if run is None:
        msg = f"got --ckpt_path {checkpoint}, which lies in no run, expected --run NAME as well"
        raise ValueError(msg)
    weights = weights_of(checkpoint) if checkpoint.is_file() else None
    files = run if weights is None else shelf(run, weights)
    attacks = merge_attacks(files, _file_names(args))
    digest = run.source() if weights is None else weights.checkpoint
    for attack in attacks:
        check_weights(files, attack, digest)
    logger = RunLogger(run)
    facts = {"run": run.name}
    if weights is not None:
        facts["checkpoint"] = f"{checkpoint}, SHA-256 {weights.checkpoint}"
    archive = MeanArchive(FolderArchive(files, {**attacks[0].facts["identity"], "run": run.name}))
    subject = {} if weights is None else weights.about()
    for attack in attacks:
        logger.measure(files, f"attack/{attack.name}", 0 if weights is None else weights.step)
        metrics = _file(attack, archive, args, facts=facts, subject=subject, logger=logger)
        logger.log_metrics(metrics, 0)
    logger.finalize("success")
    first = attacks[0].facts
    title = f"{run.name}: {first['identity']['method']} on {first['facts']['corpus']}"
    _print(attacks, files, title, args.show, *filter(None, [archive.mean.line()]))
    return 0


def _merge_victim(args: argparse.Namespace) -> int:
    """Merge the shards of an attack on an external victim."""
    if args.run is not None or args.ckpt_path is not None:
        msg = (
            f"got --output {args.output} and a run, expected one of them: --output is of `--victim`"
        )
        raise ValueError(msg)
    folder = RunDirectory(Path(args.output))
    attacks = merge_attacks(folder, _file_names(args))
    first = attacks[0].facts
    archive = FolderArchive(folder, {**first["identity"], "run": folder.name})
    for attack in attacks:
        _file(attack, archive, args)
    title = f"{first['identity']['method']} on {first['identity']['corpus']}"
    _print(attacks, folder, title, args.show)
    return 0


def _print(
    attacks: Sequence[MergedAttack], folder: RunDirectory, title: str, show: int, *notes: str
) -> None:
    """Print the table of all attacks, and file the validity of each."""
    outcomes = {attack.name: attack.outcome() for attack in attacks}
    title += f" ({', '.join(f'{attack.name} {attack.seconds:.1f} s' for attack in attacks)})"
    remarks = list(notes)
    for attack in attacks:
        records = outcomes[attack.name].records
        remarks += validity_files.merge(attack.ledger.records_path, records, attack.parts)
    classes = attacks[0].facts["classes"]
    print(report(outcomes, classes, show=show, title=title, notes=remarks))
    print(harmless(f"\n{folder.path}"))


def _file(
    attack: MergedAttack,
    archive: Archive,
    args: argparse.Namespace,
    *,
    facts: Mapping[str, str] = MappingProxyType({}),
    subject: Mapping[str, Any] = MappingProxyType({}),
    logger: RunLogger | None = None,
) -> dict[str, float]:
    """Store the records and figures of an attack as `attack` does; return its metrics.

    The facts for the page override those of the shard; the subject identifies the weights.
    """
    ledger, outcome, classes = attack.ledger, attack.outcome(), attack.facts["classes"]
    # As before an attack: a kill in between leaves records that the same command accepts.
    ledger.begin(attack.subject)
    atomic.write_lines(ledger.records_path, attack.records)
    show_examples(outcome, classes, [] if logger is None else [logger])
    if args.html == "true":
        samples = f"{len(outcome.records)}, {attack.subject.get('choice')}"
        page = {**attack.facts["facts"], **facts, "samples": samples}
        write_page(ledger.path.with_suffix(".html"), outcome, classes, page)
    if args.csv == "true":
        columns = attack.subject.get("columns") or ["text"]
        write_csv(ledger.path.with_suffix(".csv"), outcome.records, columns)
    summary, count = outcome.summary.line(), len(outcome.records)
    ledger.finish(attack.subject, attack.seconds, summary, samples=count)
    stage = f"attack/{attack.name}"
    figures = attack_figures(outcome, attack.facts["target"])
    metrics = {f"{stage}/{name}": value for name, value in figures.items()}
    archive.file(stage, metrics, attack.seconds, {**attack.facts["evaluation"], **subject})
    return metrics


def _file_names(args: argparse.Namespace) -> list[str] | None:
    return file_names(",".join(args.recipe), args.tag) if args.recipe else None


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = command_parser("attack merge", __doc__, *RUN)
    text = "folder of an attack with --victim, in place of a run (attacked/VICTIM)"
    add_option(parser, "--output", help=text)
    add = parser.add_argument
    text = "only these, as for `attack` (default: all attacks that have shards)"
    names = ("--attack.recipe", "--attack")
    add(*names, nargs="+", default=[], metavar="NAME", dest="recipe", help=text)
    add("--attack.tag", metavar="TAG", dest="tag", help="of these attacks")
    add("--attack.show", type=int, default=0, metavar="N", dest="show", help="pairs to print")
    text = "write all pairs to RUN/attacks/RECIPE"
    choices = ("true", "false")
    add("--attack.html", choices=choices, default="true", dest="html", help=f"{text}.html")
    text = f"{text}.csv, as TextAttack does"
    add("--attack.csv", choices=choices, default="false", dest="csv", help=text)
    return parser
