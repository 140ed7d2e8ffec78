"""A blinded sheet for raters: adversarial texts and originals, in an order that says nothing."""

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
from text import Text
from text.bounded_files import DataError, read_csv, read_json
from text.json_shapes import check_shape

COLUMNS = ("item", "text", "class", "natural")
"""Columns of the CSV: the last two are filled in."""
NATURAL = ("1", "2", "3", "4", "5")
"""From not at all like a person's text to entirely."""
UNSURE = "unsure"
"""The class of a text that could have any."""


@dataclass(frozen=True, kw_only=True)
class SheetItem:
    """A text to rate.

    Attributes:
        item: its name, which says nothing.
        text: the text.
        adversarial: False for an original.
        sample_id: of its record.
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
    """Draws the texts of a sheet.

    No text of a sheet is another one's original: raters would compare them.

    Args:
        records: of attacks, by name.
        texts: adversarial texts of each attack at most.
        originals: originals that are mixed in, of all attacks together.
        seed: of the choice and the order.

    Raises:
        ValueError: no adversarial text.
    """
    source = random.Random(seed)
    taken: dict[int, SheetItem] = {}
    for attack in sorted(records):
        found = [one for one in records[attack] if one.outcome == "succeeded"]
        source.shuffle(found)
        free = [one for one in found if one.sample_id not in taken][:texts]
        for one in free:
            taken[one.sample_id] = _item(one, attack, seed, adversarial=True)
    if not taken:
        msg = "got attacks without a success, expected adversarial texts to rate"
        raise ValueError(msg)
    rest = {
        one.sample_id: (one, attack)
        for attack in sorted(records)
        for one in records[attack]
        if one.sample_id not in taken and one.attacked
    }
    names = sorted(rest)
    source.shuffle(names)
    clean = [_item(*rest[name], seed, adversarial=False) for name in names[:originals]]
    items = sorted([*taken.values(), *clean], key=lambda one: one.item)
    source.shuffle(items)
    return items


def _item(record: AttackRecord, attack: str, seed: int, *, adversarial: bool) -> SheetItem:
    text = record.adversarial if adversarial else record.text
    given = f"{seed} {attack} {record.sample_id} {adversarial}"
    return SheetItem(
        item=hashlib.sha256(given.encode()).hexdigest()[:8],
        text=_shown(record.text if text is None else text),
        adversarial=adversarial,
        sample_id=record.sample_id,
        label=record.label,
        attack=attack,
    )


def _shown(text: Text) -> str:
    return text if isinstance(text, str) else "\n".join(f"({i}) {t}" for i, t in enumerate(text, 1))


def key_of(
    items: Sequence[SheetItem],
    classes: Sequence[str],
    records: Mapping[str, Sequence[AttackRecord]],
    seed: int,
) -> dict[str, Any]:
    """Returns what raters must not see: what each item is, and the success of the attacks."""
    return {
        "seed": seed,
        "classes": list(classes),
        "attacks": {
            name: {
                "attacked": sum(one.attacked for one in some),
                "succeeded": sum(one.outcome == "succeeded" for one in some),
            }
            for name, some in records.items()
        },
        "items": {
            one.item: {
                "adversarial": one.adversarial,
                "attack": one.attack,
                "sample_id": one.sample_id,
                "label": one.label,
                "text": content_digest(one.text),
            }
            for one in items
        },
    }


def as_csv(items: Sequence[SheetItem]) -> str:
    """Returns the sheet as CSV with two empty columns."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((one.item, _plain(one.text), "", "") for one in items)
    return stream.getvalue()


def _plain(text: str) -> str:
    """Keeps spreadsheets from taking a text for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t") else text


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
    """Returns the sheet as a page that needs nothing from elsewhere."""
    import base64

    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    return _PAGE.format(
        digest=digest,
        script=_SCRIPT,
        count=len(items),
        unsure=UNSURE,
        items="\n".join(_fieldset(one, [*classes, UNSURE]) for one in items),
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
    """Returns class and naturalness by item, of a sheet that was filled in.

    Args:
        path: CSV with the columns item, class and natural.
        key: of the sheet.

    Raises:
        ValueError: another sheet, an item twice, or an answer that is none; with its line.
        OSError: it cannot be read.
    """
    known, classes = key["items"], [*key["classes"], UNSURE]
    found: dict[str, tuple[str | None, int | None]] = {}
    rows = read_csv(path, "a sheet of `attack sheet`")
    _, columns = next(rows, (0, []))
    if not {"item", "class", "natural"} <= set(columns):
        msg = f"got {path} with the columns {columns}, expected {', '.join(COLUMNS)}"
        raise ValueError(msg)
    for line, fields in rows:
        if not fields:
            continue
        row = dict(zip(columns, fields, strict=False))
        item, chosen, natural = (row.get(name, "").strip() for name in ("item", "class", "natural"))
        where = f"{path}, line {line}"
        if item not in known or item in found:
            what = "twice" if item in found else "which is not in the key"
            msg = f"{where}: got item {item!r} {what}, expected each item of the sheet once"
            raise ValueError(msg)
        name = {one.casefold(): one for one in classes}.get(chosen.casefold())
        if chosen and name is None:
            msg = f"{where}: got class {chosen!r}, expected one of {', '.join(classes)}"
            raise ValueError(msg)
        if natural and natural not in NATURAL:
            msg = f"{where}: got natural {natural!r}, expected 1 to 5"
            raise ValueError(msg)
        found[item] = (name, int(natural) if natural else None)
    return found


def read_key(path: Path) -> dict[str, Any]:
    """Returns the key of a sheet.

    Raises:
        ValueError: the file is none.
        OSError: it cannot be read.
    """
    try:
        key = read_json(path, "key.json of `attack sheet`")
    except DataError as error:
        key, reason = None, str(error)
    else:
        reason = "other content"
    if not isinstance(key, dict) or not {"items", "classes", "attacks"} <= set(key):
        msg = f"got {path} as a key ({reason}), expected key.json of `attack sheet`"
        raise ValueError(msg)
    check_shape(key["classes"], list[str], path, "classes")
    check_shape(key["items"], dict[str, dict[str, Any]], path, "items")
    return key
