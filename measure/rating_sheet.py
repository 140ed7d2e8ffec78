"""A blinded sheet for raters: adversarial texts and originals in random order."""

import csv
import hashlib
import io
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from attacks.digests import content_digest
from attacks.outcome import AttackRecord
from run_files.terminal import harmless
from text.bounded_files import read_csv, read_json
from text.json_shapes import check_shape

COLUMNS = ("item", "text", "class", "natural")
"""Columns of the CSV; the rater fills in the last two."""
NATURAL = ("1", "2", "3", "4", "5")
"""From a text that no person would write to a text that a person may have written."""
UNSURE = "unsure"
"""The rating of a text without a clear class."""


@dataclass(frozen=True, kw_only=True)
class SheetItem:
    """A text to rate.

    Attributes:
        item: its name, a digest.
        text: the text.
        adversarial: False for an original.
        sample_id: id of its record.
        label: gold class.
        attack: name of the attack.
    """

    item: str
    text: str
    adversarial: bool
    sample_id: int
    label: int
    attack: str


def draw(
    records: Mapping[str, Sequence[AttackRecord]], *, texts: int, originals: int, seed: int
) -> list[SheetItem]:
    """Draw at most `texts` adversarial texts of each attack, and `originals` of all together.

    Raises:
        ValueError: the attacks have no adversarial text.
    """
    # One generator, in sorted order of attacks: the same seed draws the same sheet.
    source = random.Random(seed)
    items_by_sample: dict[int, SheetItem] = {}
    for attack in sorted(records):
        successes = [record for record in records[attack] if record.outcome == "succeeded"]
        source.shuffle(successes)
        # Each sample once: raters would compare an adversarial text with its original.
        free = [record for record in successes if record.sample_id not in items_by_sample][:texts]
        for record in free:
            items_by_sample[record.sample_id] = _item(record, attack, seed, adversarial=True)
    if not items_by_sample:
        msg = "got attacks without a success, expected adversarial texts to rate"
        raise ValueError(msg)
    # No original of a text that is in the sheet, and none that the attacks skipped.
    rest = {
        record.sample_id: (record, attack)
        for attack in sorted(records)
        for record in records[attack]
        if record.sample_id not in items_by_sample and record.attacked
    }
    names = sorted(rest)
    source.shuffle(names)
    clean = [_item(*rest[name], seed, adversarial=False) for name in names[:originals]]
    # Sorted by digest before the shuffle: the order does not depend on the attack.
    items = sorted([*items_by_sample.values(), *clean], key=lambda item: item.item)
    source.shuffle(items)
    return items


def _item(record: AttackRecord, attack: str, seed: int, *, adversarial: bool) -> SheetItem:
    text = record.adversarial if adversarial and record.adversarial is not None else record.text
    numbered = (f"({i}) {part}" for i, part in enumerate(text, 1))  # a pair
    # Only a digest of it is in the sheet: raters must not see the origin of an item.
    identity = f"{seed} {attack} {record.sample_id} {adversarial}"
    return SheetItem(
        item=hashlib.sha256(identity.encode()).hexdigest()[:8],
        text=text if isinstance(text, str) else "\n".join(numbered),
        adversarial=adversarial,
        sample_id=record.sample_id,
        label=record.label,
        attack=attack,
    )


def make_key(
    items: Sequence[SheetItem],
    classes: Sequence[str],
    records: Mapping[str, Sequence[AttackRecord]],
    seed: int,
) -> dict[str, Any]:
    """Return the key of a sheet: the origin of each item, and the success of the attacks."""
    return {
        "seed": seed,
        "classes": list(classes),
        "attacks": {
            name: {
                "attacked": sum(record.attacked for record in attack_records),
                "succeeded": sum(record.outcome == "succeeded" for record in attack_records),
            }
            for name, attack_records in records.items()
        },
        "items": {
            item.item: {
                "adversarial": item.adversarial,
                "attack": item.attack,
                "sample_id": item.sample_id,
                "label": item.label,
                "text": content_digest(item.text),
            }
            for item in items
        },
    }


def as_csv(items: Sequence[SheetItem]) -> str:
    """Return the sheet as CSV with two empty columns."""
    stream = io.StringIO()
    # Quotes everywhere: Python up to 3.12 writes a carriage return in a text without.
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(COLUMNS)
    for item in items:
        # An apostrophe: spreadsheets must not run a text as a formula.
        quote = "'" if item.text[:1] in ("=", "+", "-", "@", "\t") else ""
        writer.writerow((item.item, f"{quote}{item.text}", "", ""))
    return stream.getvalue()


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline';
 script-src 'sha256-{digest}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Rating sheet</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 17px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 46rem;
 padding: 0 1rem; }}
fieldset {{ border: 1px solid #8886; border-radius: .5rem; margin: 1rem 0; padding: .75rem 1rem; }}
fieldset p {{ white-space: pre-wrap; overflow-wrap: anywhere; margin: 0 0 .75rem; }}
label {{ display: inline-block; margin-right: 1.25rem; padding: .25rem 0; }}
div {{ margin-bottom: .25rem; }} .dim {{ color: #777; font-size: .875rem; }}
button {{ font: inherit; padding: .5rem 1rem; }}
</style></head><body>
<h1>{count} texts</h1>
<p>For each text: <b>which class</b> does it belong to? Choose “{unsure}” if you cannot say. And
<b>how natural</b> is it, from 1 (no person would write it) to 5 (a person may well have written
it)? Some texts may have odd words. Read them as you would read any message. Rate alone.</p>
<p class="dim">Nothing is sent anywhere. The button at the end makes a file of your answers.</p>
<form>
{items}
</form>
<p><button type="button" id="save">Save my answers</button> <span id="left"></span></p>
<script>{script}</script>
</body></html>
"""
_SCRIPT = """
"use strict";
document.getElementById("save").addEventListener("click", () => {
  const rows = [["item", "text", "class", "natural"]];
  let left = 0;
  for (const one of document.querySelectorAll("fieldset")) {
    const of = (name) => {
      const found = one.querySelector(`input[name="${one.id}-${name}"]:checked`);
      if (!found) left += 1;
      return found ? found.value : "";
    };
    rows.push([one.id, one.querySelector("p").textContent, of("class"), of("natural")]);
  }
  const cell = (text) => '"' + text.replaceAll('"', '""') + '"';
  const csv = rows.map((row) => row.map(cell).join(",")).join("\\n") + "\\n";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([csv], {type: "text/csv"}));
  link.download = "rated.csv";
  link.click();
  document.getElementById("left").textContent =
    left ? left + " answers are missing." : "All answered.";
});
"""


def as_html(items: Sequence[SheetItem], classes: Sequence[str]) -> str:
    """Return the sheet as a page without external resources."""
    import base64

    # The page's security policy allows this script and no other.
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    return _PAGE.format(
        digest=digest,
        script=_SCRIPT,
        count=len(items),
        unsure=UNSURE,
        items="\n".join(_fieldset(item, [*classes, UNSURE]) for item in items),
    )


def _fieldset(item: SheetItem, classes: Sequence[str]) -> str:
    def choices(name: str, values: Sequence[str]) -> str:
        return "".join(
            f'<label><input type="radio" name="{item.item}-{name}" value="{escape(value)}"> '
            f"{escape(value)}</label>"
            for value in values
        )

    return (
        f'<fieldset id="{item.item}"><p dir="auto">{escape(harmless(item.text))}</p>'
        f"<div>{choices('class', classes)}</div>"
        f'<div><span class="dim">natural:</span> {choices("natural", NATURAL)}</div></fieldset>'
    )


def read_rated(path: Path, key: Mapping[str, Any]) -> dict[str, tuple[str | None, int | None]]:
    """Return the class and the naturalness of each item of a rated sheet, by its `key`.

    The file has the columns item, class and natural.

    Raises:
        ValueError: another sheet, an item twice, or an invalid rating, with its line; or no
            rating.
        OSError: the file cannot be read.
    """
    items, classes = key["items"], [*key["classes"], UNSURE]
    ratings: dict[str, tuple[str | None, int | None]] = {}
    rows = read_csv(path, "a sheet of `attack sheet`")
    _, columns = next(rows, (0, []))
    if not {"item", "class", "natural"} <= set(columns):
        msg = f"got {path} with the columns {columns}, expected {', '.join(COLUMNS)}"
        raise ValueError(msg)
    for line, fields in rows:
        if not fields:
            continue
        # Spreadsheets drop empty cells at the end of a row.
        row = dict(zip(columns, fields, strict=False))
        item, chosen, natural = (row.get(name, "").strip() for name in ("item", "class", "natural"))
        where = f"{path}, line {line}"
        if item not in items or item in ratings:
            problem = "twice" if item in ratings else "which is not in the key"
            msg = f"{where}: got item {item!r} {problem}, expected each item of the sheet once"
            raise ValueError(msg)
        named = {class_name.casefold(): class_name for class_name in classes}
        # Classes may differ in case alone.
        name = chosen if chosen in classes else named.get(chosen.casefold())
        if chosen and name is None:
            msg = f"{where}: got class {chosen!r}, expected one of {', '.join(classes)}"
            raise ValueError(msg)
        if natural and natural not in NATURAL:
            msg = f"{where}: got natural {natural!r}, expected 1 to 5"
            raise ValueError(msg)
        ratings[item] = (name, int(natural) if natural else None)
    if not any(name or natural for name, natural in ratings.values()):
        msg = f"got {path} with no rating, expected a class or 1 to 5 in the rows of its rater"
        raise ValueError(msg)
    return ratings


def read_key(path: Path) -> dict[str, Any]:
    """Return the key of a sheet.

    Raises:
        ValueError: the file is not a key.
        OSError: it cannot be read.
    """
    if not path.exists():
        msg = f"got no key at {path}, expected key.json of `attack sheet`: --key FILE"
        raise FileNotFoundError(msg)
    key = read_json(path, "key.json of `attack sheet` (--key)")
    if not isinstance(key, dict) or not {"items", "classes", "attacks"} <= set(key):
        msg = f"got {path} with other content, expected key.json of `attack sheet` (--key)"
        raise ValueError(msg)
    check_shape(key["classes"], list[str], path, "classes")
    check_shape(key["items"], dict[str, dict[str, Any]], path, "items")
    return key
