"""`python -m app attack sheet`: writes a rating sheet, and reads what raters have filled in."""

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from app.cli.run_options import command_parser
from app.commands.attack_validity import record_files
from attacks.outcome import AttackRecord
from attacks.summary import IntervalEstimate, mean, wilson
from attacks.validity.agreement import krippendorff
from measure.published_pairs import record_classes
from measure.rating_sheet import UNSURE, as_csv, as_html, draw, make_key, read_key, read_rated
from measure.validity_files import read_attack_records
from run_files import atomic
from run_files.terminal import harmless
from text import ClassLabels, check_range, label_text

Rated = Mapping[str, tuple[str | None, int | None]]


def main(argv: Sequence[str]) -> int:
    """Runs `attack sheet`; see `Command.place`.

    Raises:
        ValueError: no adversarial texts, or files that are no sheets.
        OSError: a file that cannot be read or written.
    """
    args = parser().parse_args(argv)
    out = Path(args.out)
    if args.read:
        key = read_key(Path(args.key or out / "key.json"))
        content = result(key, [read_rated(Path(path), key) for path in args.read])
        atomic.write_text(out / "rated.json", json.dumps(content, indent=2) + "\n")
        print(harmless("\n".join(told(content))))
        print(harmless(f"\n{out / 'rated.json'}"))
        return 0
    check_range({"--texts": args.texts}, least=1)
    check_range({"--originals": args.originals, "--seed": args.seed}, least=0)
    paths = record_files(args, "attack sheet")
    if args.classes:
        classes = [name.strip() for name in args.classes.split(",")]
    else:
        classes = list(record_classes(paths[0]) or ())
    if not classes:
        msg = (
            f"got no --classes, and {paths[0]} names none, expected the names of the classes in "
            "their order: --classes A,B"
        )
        raise ValueError(msg)
    index = ClassLabels(classes)
    records = {
        path.stem: [_of_classes(one, index) for one in read_attack_records(path)] for path in paths
    }
    if (out / "key.json").exists():
        msg = f"got {out}, where a sheet is already, expected another --out: its key would be lost"
        raise ValueError(msg)
    items = draw(records, texts=args.texts, originals=args.originals, seed=args.seed)
    atomic.write_text(out / "sheet.csv", as_csv(items))
    atomic.write_text(out / "sheet.html", as_html(items, classes))
    # Last: with the key, the sheet is whole.
    key = make_key(items, classes, records, args.seed)
    atomic.write_text(out / "key.json", json.dumps(key, indent=2) + "\n")
    count = sum(one.adversarial for one in items)
    print(harmless(f"{count} adversarial texts and {len(items) - count} originals:"))
    print(harmless(f"{out / 'sheet.html'}, {out / 'sheet.csv'}: for each rater; key.json for none"))
    return 0


def _of_classes(record: AttackRecord, classes: ClassLabels) -> AttackRecord:
    """Returns a record whose label counts these classes; its model may have them in another order.

    Raises:
        ValueError: its class is none of them.
    """
    name = record.label_name
    index = record.label if name is None else classes.find(label_text(name) or "")
    if index is None or index >= len(classes.class_names):
        msg = (
            f"got --classes {','.join(classes.class_names)} and a label {name or record.label}, "
            "expected a name for each class"
        )
        raise ValueError(msg)
    return replace(record, label=index)


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command."""
    made = command_parser(
        "attack sheet",
        "Writes a blinded rating sheet of adversarial texts with originals mixed in "
        "(HTML and CSV), and with --read computes the agreement of the raters and the success of "
        "the attack that is left.",
    )
    add = made.add_argument
    add("--run", metavar="NAME", help="a run; all its attacks")
    add("--records", nargs="+", metavar="FILE", help="RECIPE.jsonl of attacks, in place of a run")
    add("--classes", metavar="A,B", help="names of the classes (default: those of the records)")
    add("--texts", type=int, default=50, help="adversarial texts of each attack (default: 50)")
    add("--originals", type=int, default=25, help="originals mixed in (default: 25)")
    add("--seed", type=int, default=0, help="of choice and order (default: 0)")
    add("--out", default="sheet", metavar="DIR", help="folder of the sheet (default: sheet)")
    add("--read", nargs="+", metavar="CSV", help="sheets that raters have filled in, one each")
    add("--key", metavar="FILE", help="key of the sheet (default: key.json in --out)")
    return made


def result(key: Mapping[str, Any], raters: Sequence[Rated]) -> dict[str, Any]:
    """Returns agreement and corrected success.

    A text is valid if more than half of those who rated it give it its gold class. The corrected
    success rate is the success rate times the share of valid ones among the rated texts.

    Args:
        key: of the sheet.
        raters: what each has filled in.
    """
    items, classes = key["items"], key["classes"]
    chosen = {name: [one[name][0] for one in raters if name in one] for name in items}
    natural = {name: [one[name][1] for one in raters if name in one] for name in items}
    content: dict[str, Any] = {
        "raters": len(raters),
        "alpha": {
            "class": krippendorff([*chosen.values()]),
            "natural": krippendorff([*natural.values()], "ordinal"),
        },
        "attacks": {},
    }
    groups: dict[str, list[str]] = {"originals": []}
    for name, one in items.items():
        groups.setdefault(one["attack"] if one["adversarial"] else "originals", []).append(name)
    for group, names in groups.items():
        rated = [name for name in names if any(chosen[name])]
        if not rated:
            continue
        hits = [_majority(chosen[name]) == classes[items[name]["label"]] for name in rated]
        marks = [float(one) for name in rated for one in natural[name] if one is not None]
        found: dict[str, Any] = {
            "rated": len(rated),
            "valid": asdict(wilson(sum(hits), len(hits))),
            "unsure": sum(_majority(chosen[name]) == UNSURE for name in rated),
        }
        if (average := mean(marks, top=5.0)) is not None:
            found["natural"] = average.value
        if group == "originals":
            content["originals"] = found
            continue
        counts = key["attacks"][group]
        before = wilson(counts["succeeded"], counts["attacked"])
        valid = wilson(sum(hits), len(hits))
        found["success_rate"] = asdict(before)
        # The rated texts are the smaller sample, so that their share gives the interval.
        found["valid_success_rate"] = asdict(
            IntervalEstimate(
                before.value * valid.value,
                before.value * valid.low,
                before.value * valid.high,
                valid.count,
            )
        )
        content["attacks"][group] = found
    return content


def _majority(given: Sequence[str | None]) -> str | None:
    """Returns the class that more than half have given; None if there is none."""
    votes = Counter(one for one in given if one is not None)
    if not votes:
        return None
    name, count = votes.most_common(1)[0]
    return name if 2 * count > votes.total() else None


def told(content: Mapping[str, Any]) -> list[str]:
    """Returns the lines that are printed."""
    alpha = content["alpha"]
    lines = [
        f"{content['raters']} raters, Krippendorff's alpha: class {_number(alpha['class'])} "
        f"(nominal), natural {_number(alpha['natural'])} (ordinal)"
    ]
    named = {**content["attacks"]}
    if "originals" in content:
        named["originals"] = content["originals"]
    for name, one in named.items():
        lines.append(f"{name}: {one['rated']} rated")
        share = _share(one["valid"])
        lines.append(f"  gold class given by most          {share}, {one['unsure']} unsure")
        if "natural" in one:
            lines.append(f"  natural, 1 to 5                   {one['natural']:.2f}")
        if "success_rate" in one:
            lines.append(f"  success rate                      {_share(one['success_rate'])}")
            lines.append(f"  success rate, valid texts only    {_share(one['valid_success_rate'])}")
    return lines


def _share(one: Mapping[str, float]) -> str:
    return f"{one['value']:.3f} [{one['low']:.3f}, {one['high']:.3f}]"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
