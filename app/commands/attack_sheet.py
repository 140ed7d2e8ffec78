"""Write a blinded rating sheet of adversarial texts with originals mixed in (HTML and CSV).

With --read, compute the agreement of the raters and the corrected success of the attack.
"""

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from app.cli.run_options import add_option, command_parser
from app.commands.attack_validity import add_records, record_files
from attacks.outcome import AttackRecord
from attacks.validity.agreement import krippendorff
from measure.published_pairs import record_classes
from measure.rating_sheet import UNSURE, as_csv, as_html, draw, make_key, read_key, read_rated
from measure.validity_files import read_attack_records
from run_files import atomic
from run_files.terminal import harmless
from text import ClassLabels, check_range, label_text
from text.estimates import IntervalEstimate, mean, wilson
from text.plural import plural

Rated = Mapping[str, tuple[str | None, int | None]]


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    out = Path(args.output)
    if args.read:
        key = read_key(Path(args.key or out / "key.json"))
        content = result(key, [read_rated(Path(path), key) for path in args.read])
        atomic.write_text(out / "rated.json", json.dumps(content, indent=2) + "\n")
        print(harmless("\n".join(render_lines(content))))
        print(harmless(f"\n{out / 'rated.json'}"))
        return 0
    check_range({"--num_samples": args.num_samples}, least=1)
    check_range({"--originals": args.originals, "--seed": args.seed}, least=0)
    paths = record_files(args, "attack sheet")
    if len({path.stem for path in paths}) < len(paths):
        msg = (
            f"got {', '.join(map(str, paths))}, expected files of different names: the names tell "
            "the attacks apart"
        )
        raise ValueError(msg)
    classes = [name.strip() for name in args.classes.split(",")] if args.classes else []
    classes = classes or list(record_classes(paths[0]) or ())
    if not classes:
        msg = (
            f"got no --classes, and {paths[0]} names none, expected the names of the classes in "
            "their order: --classes A,B"
        )
        raise ValueError(msg)
    index = ClassLabels(classes)
    records = {
        path.stem: [_of_classes(record, index) for record in read_attack_records(path)]
        for path in paths
    }
    if (out / "key.json").exists():
        msg = (
            f"got {out}, where a sheet is already, expected another --output: its key would be lost"
        )
        raise ValueError(msg)
    items = draw(records, texts=args.num_samples, originals=args.originals, seed=args.seed)
    atomic.write_text(out / "sheet.csv", as_csv(items))
    atomic.write_text(out / "sheet.html", as_html(items, classes))
    # The key comes last: it marks a complete sheet.
    key = make_key(items, classes, records, args.seed)
    atomic.write_text(out / "key.json", json.dumps(key, indent=2) + "\n")
    count = sum(item.adversarial for item in items)
    print(harmless(f"{count} adversarial texts and {len(items) - count} originals:"))
    print(harmless(f"{out / 'sheet.html'}, {out / 'sheet.csv'}: for each rater; key.json for none"))
    return 0


def _of_classes(record: AttackRecord, classes: ClassLabels) -> AttackRecord:
    """Return a record with its label as an index of these classes."""
    # The model may have the classes in another order, so the name decides.
    name = record.label_name
    index = record.label if name is None else classes.find(label_text(name) or "")
    if not isinstance(index, int) or index >= len(classes.class_names):
        msg = (
            f"got --classes {','.join(classes.class_names)} and a label {name or record.label}, "
            "expected a name for each class"
        )
        raise ValueError(msg)
    return replace(record, label=index)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = command_parser("attack sheet", __doc__, "--runs_dir", "--seed")
    add_records(parser)
    add_option(parser, "--num_samples", default=50, help="adversarial texts of each attack")
    add_option(parser, "--output", default="sheet", help="folder of the sheet")
    add = parser.add_argument
    add("--classes", metavar="A,B", help="names of the classes (default: those of the records)")
    add("--originals", type=int, default=25, help="originals mixed in")
    add("--read", nargs="+", metavar="CSV", help="sheets that raters have filled in, one each")
    add("--key", metavar="FILE", help="key of the sheet (default: key.json in --output)")
    return parser


def result(key: Mapping[str, Any], raters: Sequence[Rated]) -> dict[str, Any]:
    """Return agreement and corrected success.

    A text is valid if more than half of its raters choose its gold class. The corrected success
    rate is the success rate times the share of valid texts among the rated ones. A rater gives the
    class and the naturalness of each text.
    """
    items, classes = key["items"], key["classes"]
    chosen = {name: [rater[name][0] for rater in raters if name in rater] for name in items}
    natural = {name: [rater[name][1] for rater in raters if name in rater] for name in items}
    content: dict[str, Any] = {
        "raters": len(raters),
        "alpha": {
            "class": krippendorff([*chosen.values()]),
            # A scale from 1 to 5: a distance of 2 is worse than one of 1.
            "natural": krippendorff([*natural.values()], "ordinal"),
        },
        "attacks": {},
    }
    groups: dict[str, list[str]] = {"originals": []}
    for name, item in items.items():
        groups.setdefault(item["attack"] if item["adversarial"] else "originals", []).append(name)
    for group, names in groups.items():
        rated = [name for name in names if any(chosen[name])]
        if not rated:
            continue
        hits = [_majority(chosen[name]) == classes[items[name]["label"]] for name in rated]
        marks = [float(mark) for name in rated for mark in natural[name] if mark is not None]
        valid = wilson(sum(hits), len(hits))
        figures: dict[str, Any] = {
            "rated": len(rated),
            "valid": asdict(valid),
            "unsure": sum(_majority(chosen[name]) == UNSURE for name in rated),
        }
        if (average := mean(marks, top=5.0)) is not None:
            figures["natural"] = average.value
        if group == "originals":
            content["originals"] = figures
            continue
        counts = key["attacks"][group]
        before = wilson(counts["succeeded"], counts["attacked"])
        figures["success_rate"] = asdict(before)
        # The interval is that of the share of valid texts, whose sample is the smaller one. It
        # ignores the uncertainty of the success rate.
        value, low, high = (before.value * part for part in (valid.value, valid.low, valid.high))
        figures["valid_success_rate"] = asdict(IntervalEstimate(value, low, high, valid.count))
        content["attacks"][group] = figures
    return content


def _majority(votes: Sequence[str | None]) -> str | None:
    """Return the class of more than half of the votes; None without a majority."""
    counts = Counter(vote for vote in votes if vote is not None)
    if not counts:
        return None
    name, count = counts.most_common(1)[0]
    return name if 2 * count > counts.total() else None


def render_lines(content: Mapping[str, Any]) -> list[str]:
    """Return the lines that are printed."""
    alpha = {
        key: "undefined" if value is None else f"{value:.3f}"
        for key, value in content["alpha"].items()
    }
    lines = [
        f"{plural(content['raters'], 'rater')}, Krippendorff's alpha: class {alpha['class']} "
        f"(nominal), natural {alpha['natural']} (ordinal)"
    ]
    named = {**content["attacks"]}
    if "originals" in content:
        named["originals"] = content["originals"]
    for name, figures in named.items():
        lines.append(f"{name}: {figures['rated']} rated")
        share = IntervalEstimate(**figures["valid"])
        lines.append(f"  gold class given by most          {share}, {figures['unsure']} unsure")
        if "natural" in figures:
            lines.append(f"  natural, 1 to 5                   {figures['natural']:.2f}")
        for key, title in (("", ""), ("valid_", ", valid texts only")):
            if estimate := figures.get(f"{key}success_rate"):
                lines.append(f"  {f'success rate{title}':<34}{IntervalEstimate(**estimate)}")
    return lines
