"""Measure a model on published adversarial texts and on their originals.

Both accuracies, their difference with a 95 % interval, and McNemar's test. The files: AdvGLUE's
JSON, TextAttack's CSV log, TextFooler's adversaries.txt, or the .jsonl of one of our attacks on
another model. Between two runs the figures are also in the run of the victim, for its report.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from app.cli.run_options import add_option
from app.cli.victim_options import OneLineParser, add_victim, folder_of, split_names, victim_of
from attacks.digests import file_digest
from attacks.paired_shares import PairedShares, paired_shares
from measure.named_victims import NamedVictim
from measure.published_pairs import PublishedFile, PublishedPair, read_published
from measure.table_samples import LabelledTable, as_classes
from run_files import atomic
from run_files.run_directory import TRANSFER, RunDirectory, of_checkpoint
from run_files.terminal import harmless
from text.estimates import IntervalEstimate, wilson
from text.plural import plural

FEW = 30
"""Methods with fewer pairs have no line of their own."""


def run(args: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        ValueError: a file of unknown form, or labels that do not name classes of the victim.
        VictimError: the victim failed.
        OSError: a file cannot be read or written.
    """
    published = read_published(Path(args.file), args.task)
    out = folder_of(args)
    named = victim_of(args, out)
    labels = _labels(published, named, args)
    content = report(published, labels, named)
    path = out / f"pairs-{Path(args.file).stem}{f'-{args.task}' if args.task else ''}.json"
    run, weights = _victim_run(named)
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
    parser = OneLineParser(prog="steadfast attack pairs", description=__doc__, allow_abbrev=False)
    parser.add_argument("file", help="the file")
    parser.add_argument("--task", type=str, default=None, help="task of AdvGLUE, such as sst2")
    add_option(parser, "--batch_size", default=256)
    add_victim(parser)
    return parser


def _labels(
    published: PublishedFile, named: NamedVictim, args: argparse.Namespace
) -> dict[int, int]:
    """Return the class of the victim for the number of each pair.

    Raises:
        ValueError: labels do not name classes of the victim, or are indices without names.
    """
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


def _victim_run(named: NamedVictim) -> tuple[RunDirectory | None, str | None]:
    """Return the run of a victim, and the SHA-256 of its weights; None for another victim."""
    checkpoint = named.facts.get("checkpoint")
    # Behind a front end it is another model than that of the run.
    if checkpoint is None or "front end" in named.facts:
        return None, None
    return of_checkpoint(Path(checkpoint)), file_digest(checkpoint)


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
            lines.append(f"  accuracy {_share(adversarial)} (the file has no originals)")
            continue
        both: Any = {
            key: IntervalEstimate(**figure) if isinstance(figure, dict) else figure
            for key, figure in figures["paired"].items()
        }
        both = PairedShares(**both)
        count = both.first.count
        if adversarial.count > count:
            lines.append(
                f"  accuracy on all {adversarial.count} adversarials  {_share(adversarial)}, "
                f"{adversarial.count - count} of them without original"
            )
        lines += [
            f"  accuracy on originals     {_share(both.first)}, {count} pairs",
            f"  accuracy on adversarials  {_share(both.second)}",
            f"  difference                {_share(both.difference)}, {both.lost} lost, "
            f"{both.gained} gained, McNemar p = {both.p:.2g}",
        ]
        if both.first.value:
            # The base are the originals with a correct prediction, not all pairs.
            hit = wilson(both.lost, round(both.first.value * count))
            lines.append(f"  of the originals that are right, lost  {_share(hit)}")
    return lines


def _share(estimate: IntervalEstimate) -> str:
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
