"""Makes `text/canonical.json`, the canonical form of every character, from two files of Unicode.

Usage: `python -m requirements.canonical_forms DIR`, in the root of the checkout. DIR has
`UnicodeData.txt` and `confusables.txt` of one version of Unicode, for example those in
`source/data/unidata` of ICU's source archive; Debian's source package `icu` has it, signed.

The rules, in the order in which they are tried (`Rules.form`):

1. ASCII: letters in lower case, white space as a blank, other control characters dropped.
2. `OWN`, `NAMED`: look-alikes that Unicode does not list.
3. Dropped: format and control characters, `Default_Ignorable_Code_Point`, and combining marks that
   go with letters of Latin, Greek and Cyrillic or with symbols (`MARKS`). Marks of other scripts
   are parts of words and stay.
4. White space is a blank, dashes are "-", quotation marks "'" and '"'.
5. A digit of any script is the ASCII digit of its value, even where it looks like another.
6. Everything else: the compatibility decomposition without those marks, and each character of it as
   the ASCII character that it looks like by UTS 39, in lower case. Where there is none, what looks
   like its other case, then the base letter of a Latin letter with a stroke or a hook, then its
   lower case.

A letter of another script becomes a letter or a digit, never punctuation, which would cut words.
Chinese, Japanese and Korean characters have no look-alikes. What no rule changes stays.
"""

import argparse
import json
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

OUTPUT = Path(__file__).resolve().parent.parent / "text" / "canonical.json"

OWN = {
    "ß": "ss",  # its capitals are "SS"
    "ẞ": "ss",
    "\u2800": " ",  # Braille without dots: looks like a blank
    "\U0001d159": "",  # a musical sign without a picture
    "‚": "'",  # low quotation marks; UTS 39 has a comma, and two of them
    "„": '"',
    "«": '"',
    "»": '"',
    "‹": "'",
    "›": "'",
    "〇": "0",
}
"""Characters that Unicode's tables leave open, or decide for another purpose."""

NAMED = re.compile(
    r"(?:NEGATIVE CIRCLED|(?:CROSSED )?NEGATIVE SQUARED) LATIN CAPITAL LETTER (?P<a>[A-Z])"
    r"|REGIONAL INDICATOR SYMBOL LETTER (?P<b>[A-Z])"
)
"""Letters in filled shapes, and those of flags: letters to the eye, without a decomposition."""

LATIN = re.compile(
    r"LATIN (?:SMALL LETTER|CAPITAL LETTER|LETTER SMALL CAPITAL) (?P<a>[A-Z])(?: WITH .*)?"
)
"""Strokes, hooks and the like, which have no decomposition; small capitals."""

MARKS = (
    *((0x0300, 0x036F), (0x0483, 0x0489), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF)),
    *((0x20D0, 0x20FF), (0x2DE0, 0x2DFF), (0xA66F, 0xA67D), (0xA69E, 0xA69F), (0xFE20, 0xFE2F)),
)
"""Blocks of combining marks; the Cyrillic ones within are not all marks."""

IGNORABLE = (
    *((0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5)),
    *((0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164)),
    *((0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3)),
    *((0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
)
"""`Default_Ignorable_Code_Point`, which also covers code points that are not assigned yet."""

QUOTES = {"‘": "'", "’": "'", "‛": "'", "“": '"', "”": '"', "‟": '"'}
# A wave dash is a tilde in Japanese, and a Katakana hyphen joins names.
NO_DASH = "〜〰゠\U00010ead"
WITHOUT_LOOK_ALIKES = ("CJK", "HANGUL", "HALFWIDTH HANGUL", "HIRAGANA", "KATAKANA", "BOPOMOFO")
JAMO = range(0x3131, 0x318F)


def _within(code: int, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(first <= code <= last for first, last in ranges)


@dataclass(frozen=True)
class Character:
    """The entry of a character in `UnicodeData.txt`."""

    name: str
    category: str
    decomposition: str
    digit: str
    upper: str
    lower: str


def _ascii_form(character: str) -> str:
    if character.isspace():
        return " "
    return character.lower() if character.isprintable() else ""


def _form_by_kind(character: str, entry: Character) -> str | None:
    """Return what category and name decide alone."""
    code, category = ord(character), entry.category
    if code == 0x85 or category in {"Zs", "Zl", "Zp"}:
        return " "
    if category in {"Cc", "Cf"} or (category[0] == "M" and _within(code, MARKS)):
        return ""
    if category == "Pd" and character not in NO_DASH:
        return "-"
    named = NAMED.fullmatch(entry.name)
    return (named["a"] or named["b"]).lower() if named else None


class Rules:
    """The rules above, on the tables of one version of Unicode.

    Args:
        characters: by character; those of large ranges (ideographs, Hangul) may be left out.
        confusables: prototype of each character that has one.
    """

    def __init__(self, characters: dict[str, Character], confusables: dict[str, str]) -> None:
        self._characters, self._prototypes = characters, confusables
        # Prototypes of ASCII characters: `"` has two apostrophes, "m" has "rn".
        self._ascii: dict[str, str] = {}
        for code in range(0x20, 0x7F):
            self._ascii.setdefault(confusables.get(chr(code), chr(code)), chr(code))
        self._ascii |= {"'": "'", "O": "o", "l": "l"}
        # What the first rules decide.
        self._fixed = {chr(code): _ascii_form(chr(code)) for code in range(0x80)}
        for character, entry in characters.items():
            if ord(character) >= 0x80 and (form := _form_by_kind(character, entry)) is not None:
                self._fixed[character] = form
        codes = (code for first, last in IGNORABLE for code in range(first, last + 1))
        self._fixed |= dict.fromkeys(map(chr, codes), "") | QUOTES | OWN

    def form(self, character: str) -> str:
        """Return the canonical form of a character."""
        if character in self._fixed:
            return self._fixed[character]
        entry = self._characters.get(character)
        # "Not equal" without its stroke would be "equal".
        if entry is None or (entry.category == "Sm" and " 0338" in entry.decomposition):
            return character
        pieces = self._decompose(character)
        # A lunate sigma is a "c", its decomposition a sigma.
        if not (pieces.isascii() or entry.digit) and (look := self._look_alike(character)):
            return look
        if pieces.startswith(" "):
            return character  # an accent that has a blank to stand on
        # Joins kana with their voicing marks, and what else keeps its marks.
        return unicodedata.normalize("NFC", "".join(map(self._single, pieces)))

    def _decompose(self, character: str) -> str:
        entry = self._characters.get(character)
        # Letters of Korean that are not in a syllable: their decomposition would be parts of one.
        if entry is None or not entry.decomposition or ord(character) in JAMO:
            return character
        codes = entry.decomposition.split("> ")[-1].split()
        return "".join(self._decompose(chr(int(part, 16))) for part in codes)

    def _single(self, character: str) -> str:
        """Return the form of a character without decomposition."""
        if character in self._fixed:
            return self._fixed[character]
        entry = self._characters.get(character)
        if entry is None:
            return character
        if entry.digit:
            return entry.digit
        upper = entry.upper or character
        lower = self._characters[upper].lower or entry.lower or character
        orbit = [character, lower, upper]
        for variant in orbit:
            if look := self._look_alike(variant):
                return look
        for variant in orbit:
            if match := LATIN.fullmatch(self._characters[variant].name):
                return match["a"].lower()
        return lower

    def _look_alike(self, character: str) -> str:
        """Return the ASCII character that a character looks like, in lower case, or nothing."""
        prototype, entry = self._prototypes.get(character), self._characters[character]
        name, category = entry.name, entry.category
        if prototype is None or category[0] == "M" or name.startswith(WITHOUT_LOOK_ALIKES):
            return ""
        latin = name.startswith("LATIN ")
        if latin:
            prototype = "".join(x for x in prototype if self._characters[x].category[0] != "M")
        look = self._ascii.get(prototype, "")
        if look == "l" and not category.startswith("L"):
            look = "|"
        if look == "l" and category in {"Lu", "Lt"}:
            look = "i"  # prototypes do not tell "I" from "l"
        if look == "o" and category[0] == "N":
            look = "0"
        if not look and latin and prototype.isascii() and prototype.isalpha():
            look = prototype  # æ, œ
        if category[0] == "L" and not look.isalnum() and not name.startswith(("LATIN", "MODIFIER")):
            return ""
        return look.lower()


def read_characters(text: str) -> dict[str, Character]:
    """Read `UnicodeData.txt`, except for the ranges of which it gives only both ends."""
    characters = {}
    for line in text.splitlines():
        fields = line.split(";")
        code, name, category, decomposition = fields[0], fields[1], fields[2], fields[5]
        if name.endswith((", First>", ", Last>")):
            continue
        upper, lower = (chr(int(x, 16)) if x else "" for x in fields[12:14])
        characters[chr(int(code, 16))] = Character(
            name, category, decomposition, fields[7], upper, lower
        )
    return characters


def read_confusables(text: str) -> dict[str, str]:
    """Read `confusables.txt`."""
    lines = (line.split("#")[0].split(";") for line in text.lstrip("\ufeff").splitlines())
    fields = [line for line in lines if len(line) >= 3]
    return {
        chr(int(source, 16)): "".join(chr(int(code, 16)) for code in target.split())
        for source, target, *_ in fields
    }


def render(forms: dict[str, str], version: str) -> str:
    """Return the file: for every form, the characters in hexadecimal, ranges with a hyphen."""
    sources: dict[str, list[list[int]]] = {}
    for character, form in forms.items():
        ranges = sources.setdefault(form, [])
        if ranges and ranges[-1][1] == ord(character) - 1:
            ranges[-1][1] += 1
        else:
            ranges.append([ord(character)] * 2)
    packed = {
        form: " ".join(f"{a:x}" if a == b else f"{a:x}-{b:x}" for a, b in ranges)
        for form, ranges in sorted(sources.items())
    }
    return json.dumps({"unicode": version, "forms": packed}, indent=0) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file; the exit status is 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path, metavar="DIR")
    directory: Path = parser.parse_args(arguments).directory
    confusables = (directory / "confusables.txt").read_text(encoding="utf-8")
    version = re.search(r"^# Version: ([\d.]+)", confusables, re.MULTILINE)
    if version is None:
        msg = "got confusables.txt without a line '# Version: ...', expected Unicode's file"
        raise ValueError(msg)
    rules = Rules(
        read_characters((directory / "UnicodeData.txt").read_text(encoding="utf-8")),
        read_confusables(confusables),
    )
    points = (chr(code) for code in range(sys.maxunicode + 1))
    forms = {point: form for point in points if (form := rules.form(point)) != point}
    OUTPUT.write_text(render(forms, version[1]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
