"""`python -m app attack pairs FILE`: a victim on published adversarial texts."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from app.cli.victim_options import OneLineParser, add_victim, folder_of, listed, victim_of
from attacks.paired_shares import PairedShares, paired_shares
from attacks.summary import IntervalEstimate, wilson
from measure.named_victims import NamedVictim
from measure.published_pairs import PublishedFile, PublishedPair, read_published
from measure.table_samples import LabelledTable, as_classes
from run_files import atomic
from run_files.terminal import harmless

FEW = 30
"""Pairs of a method below which it has no line of its own."""


def main(argv: Sequence[str]) -> int:
    """Runs `attack pairs`; see `Command.place`.

    Raises:
        ValueError: a file of another form, or labels that are no classes of the victim.
        VictimError: the victim failed.
        OSError: a file that cannot be read or written.
    """
    args = parser().parse_args(argv)
    published = read_published(Path(args.file), args.task)
    out = folder_of(args)
    named = victim_of(args, out)
    labels = _labels(published, named, args)
    content = report(published, labels, named)
    path = out / f"pairs-{Path(args.file).stem}{f'-{args.task}' if args.task else ''}.json"
    atomic.write_text(path, json.dumps({"victim": named.facts, **content}, indent=2) + "\n")
    title = f"{named.facts['victim']} on {args.file} ({published.form}, {len(labels)} texts)"
    print(harmless("\n".join([title, *_lines(content)])))
    print(harmless(f"\n{path}"))
    return 0


def parser() -> ArgumentParser:
    """Returns the parser of the command."""
    made = OneLineParser(
        prog="steadfast attack pairs",
        description="Asks a victim about adversarial texts that others have published, and about "
        "their originals: both accuracies, their difference with a 95 % interval, and McNemar's "
        "test. The files: AdvGLUE's JSON, TextAttack's CSV log, TextFooler's adversaries.txt, or "
        "the .jsonl of an attack of ours on another model.",
        allow_abbrev=False,
    )
    made.add_argument("file", help="the file")
    made.add_argument("--task", type=str, default=None, help="task of AdvGLUE, such as sst2")
    made.add_argument("--batch_size", type=int, default=256, help="texts per forward pass")
    add_victim(made)
    return made


def _labels(
    published: PublishedFile, named: NamedVictim, args: argparse.Namespace
) -> dict[int, int]:
    """Returns the classes of the victim by the numbers of the pairs.

    Raises:
        ValueError: labels that are no classes of the victim, or indices of classes without names.
    """
    told = listed(args.label_names)
    if published.form == "records" and published.names is None and told is None:
        msg = (
            f"got {args.file}, whose records have indices of classes without names, expected to "
            "be told which classes of the victim these are, in the order of the model that was "
            "attacked: --label_names CLASS,CLASS"
        )
        raise ValueError(msg)
    rows: list[Any] = [(one.number, one.adversarial, one.label) for one in published.pairs]
    table = LabelledTable(name=args.file, columns=("text",), rows=rows, names=published.names)
    return {one.sample_id: one.label for one in as_classes(table, named.classes, told)}


def report(published: PublishedFile, labels: dict[int, int], named: NamedVictim) -> dict[str, Any]:
    """Returns the figures of a victim on published texts.

    Args:
        published: the texts.
        labels: classes by the numbers of the pairs.
        named: the victim.
    """
    texts = [text for one in published.pairs for text in (one.adversarial, one.original)]
    distinct = [text for text in dict.fromkeys(texts) if text is not None]  # may be empty
    logits = named.victim.logits(distinct)
    answers = dict(zip(distinct, logits.argmax(axis=1).tolist(), strict=True))
    methods = sorted({one.method for one in published.pairs} - {""})
    content: dict[str, Any] = {"form": published.form, "classes": named.classes}
    content["skipped"] = published.skipped
    content["all"] = _figures(published.pairs, labels, answers)
    groups = {m: [one for one in published.pairs if one.method == m] for m in methods}
    if len(groups) > 1:
        content["methods"] = {
            m: _figures(some, labels, answers) for m, some in groups.items() if len(some) >= FEW
        }
    return content


def _figures(
    pairs: Sequence[PublishedPair], labels: dict[int, int], answers: dict[Any, int]
) -> dict[str, Any]:
    right = [answers[one.adversarial] == labels[one.number] for one in pairs]
    found: dict[str, Any] = {"adversarial": asdict(wilson(sum(right), len(right)))}
    whole = [(one, hit) for one, hit in zip(pairs, right, strict=True) if one.original is not None]
    if whole:
        before = [answers[one.original] == labels[one.number] for one, _ in whole]
        found["paired"] = asdict(paired_shares(before, [hit for _, hit in whole]))
    return found


def _lines(content: dict[str, Any]) -> list[str]:
    skipped = content["skipped"]
    lines = [f"{skipped} rows without adversarial text are left out"] if skipped else []
    for name, figures in {"all": content["all"], **content.get("methods", {})}.items():
        lines.append(f"{name}:")
        adversarial = IntervalEstimate(**figures["adversarial"])
        if "paired" not in figures:
            lines.append(f"  accuracy {_share(adversarial)} (the file has no originals)")
            continue
        both: Any = {
            key: IntervalEstimate(**one) if isinstance(one, dict) else one
            for key, one in figures["paired"].items()
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
            hit = wilson(both.lost, round(both.first.value * count))
            lines.append(f"  of the originals that are right, lost  {_share(hit)}")
    return lines


def _share(one: IntervalEstimate) -> str:
    return f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]"
