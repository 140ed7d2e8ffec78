"""Canonical forms: one text for all the strings that look the same to a reader, or nearly so.

A model that reads `canonical(text)` alone predicts the same for every text with the same canonical
form, whatever the model is. What a form does not tell apart is therefore a certified set.

`canonical.json` has the form of every character, made by `requirements.canonical_forms` from
Unicode 16.0 ("Unicode Character Database"; UTS 39, "Unicode Security Mechanisms", section 4). It
does not depend on the version of Python. What the options of `CanonicalForm` take for a letter
does, for characters newer than Unicode 14.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from text.display import Displayed, display, turn_upright

_FORMS = Path(__file__).with_name("canonical.json")


class _Forms(dict[int, str]):
    """Forms by code point; a character that is not in the file is its own form."""

    def __missing__(self, code: int) -> str:
        form = chr(code)
        if code < 0x10000:  # what fills the rest of Unicode would stay in memory
            self[code] = form
        return form


@cache
def _forms() -> _Forms:
    """Read the file; not at import, since most texts have ASCII characters only."""
    forms = _Forms()
    for form, ranges in json.loads(canonical_table())["forms"].items():
        for part in ranges.split():
            first, _, last = part.partition("-")
            for code in range(int(first, 16), int(last or first, 16) + 1):
                forms[code] = form
    return forms


def canonical_table() -> str:
    """Return the file with the form of every character, for programs that check certificates."""
    return _FORMS.read_text(encoding="utf-8")


def canonical(text: str) -> str:
    """Return a text with the canonical form of each of its characters.

    Letters become lower case. Accents, invisible and control characters are dropped; white space is
    a blank, and every dash or quotation mark the one of ASCII. A character that looks like another
    of ASCII becomes that one: `а` of Cyrillic, `ａ`, `𝐚` and `ⓐ` are "a". Digits of all scripts
    become ASCII digits of the same value, even where they look like others: Bengali `৭` is "7".
    ASCII characters stay apart, as alike as they may be: "0" and "o", "rn" and "m", "1" and "l".

    The form of a text, also of one with unpaired surrogates, is the concatenation of those of its
    characters, so `canonical(a + b)` is `canonical(a) + canonical(b)`; and
    `canonical(canonical(text))` is `canonical(text)`.

    What it costs: capitals, accents ("résumé"), shapes of dashes and quotation marks. It is meant
    for texts in Latin letters. Words of other scripts stay distinct, but some of their letters
    become ASCII ones (`вода` is "boдa"), which a pretrained tokenizer has not seen; and a few
    become equal (`в` and `ь`). Hangul, kana and letters of India stay decomposed where they are.
    """
    if text.isascii() and text.isprintable():
        return text.lower()
    return text.translate(_forms())


def canonical_origins(text: str) -> list[int]:
    """Return for each character of `canonical(text)` the index of the one in `text` it is from."""
    if text.isascii() and text.isprintable():
        return list(range(len(text)))
    forms = _forms()
    return [index for index, char in enumerate(text) for _ in forms[ord(char)]]


_SIGNS = {"0": "o", "1": "i", "3": "e", "4": "a", "5": "s", "7": "t", "@": "a", "$": "s"}
_LEETSPEAK = str.maketrans(_SIGNS)
_LETTER = r"[^\W\d_]"
# A letter or one of the signs: all digits but these.
_LETTER_OR_SIGN = r"(?:[^\W_2689]|[@$])"
_ANY_LETTER, _ANY_SIGN = re.compile(_LETTER), re.compile(f"[{''.join(_SIGNS)}]")
_WORD = re.compile(r"(?:[^\W_2689]+|[@$]+)+")
_REPEATS = re.compile(rf"({_LETTER})\1{{2,}}")
# By whether signs count as letters.
_SPACED = {
    signs: re.compile(rf"(?<!\S){letter}(?: {letter}){{3,}}(?!\S)")
    for signs, letter in ((False, _LETTER), (True, _LETTER_OR_SIGN))
}
_SINGLE = re.compile(r"(?<![^\W_])[bdnpqu69](?![^\W_])")
# With `display`, also letters with full stops or hyphens between, and shorter words in letters,
# where two blanks or marks show their ends.
_DOTTED = {
    signs: re.compile(rf"(?<!\w){letter}([.\-]){letter}(?:\1{letter})*(?!\w)")
    for signs, letter in ((False, _LETTER), (True, _LETTER_OR_SIGN))
}
_APART = {
    signs: re.compile(
        rf"(?:\A|(?<=\A )|(?<=  )|(?<=[^\w\s] )){letter}(?: {letter})+(?=  | ?\Z| [^\w\s])"
    )
    for signs, letter in ((False, _LETTER), (True, _LETTER_OR_SIGN))
}


def _without_blanks(match: re.Match[str]) -> slice:
    # A test in the pattern would take quadratic time on a long line of digits.
    return slice(None, None, 2) if _ANY_LETTER.search(match[0]) else slice(None)


def _first_two(match: re.Match[str]) -> slice:
    return slice(2)


def _letters(match: re.Match[str]) -> str:
    return match[0].translate(_LEETSPEAK) if _ANY_LETTER.search(match[0]) else match[0]


_Cut = tuple[re.Pattern[str], Callable[[re.Match[str]], slice]]
"""A pattern, and which characters of its matches stay."""


@dataclass(frozen=True)
class CanonicalForm:
    """A canonical form: that of each character, and what else the options make equal.

    Applying it twice gives what applying it once gives.

    Each option says what it makes equal, and what that costs: words changed in clean texts of
    AG News, IMDB and `hate_offensive` (tweets), by more than the form of each character.

    Attributes:
        repeats: three or more equal letters in a row become two ("sooo" is "soo"). Costs how long a
            word was drawn out, "www" and "iii": 0.06, 0.02, 0.5 % of the words.
        leetspeak: 0 1 3 4 5 7 @ $ become o i e a s t a s wherever letters touch them, directly or
            through others of these signs ("1d10t" is "idiot", "$5" stays). A 1 that poses as "l"
            becomes "i". Costs "4th" (is "ath"), "mp3", "@user": 0.2, 0.06, 5.6 % of the words.
        spaced: four or more single letters with one blank between them become one word ("k i l l");
            with `leetspeak`, its signs may be among them. Costs lists of letters, and the end of a
            word before the next such one ("k i l l y o u" is "killyou"): 0, 3, 2 texts of 20,000,
            5,000, 12,000. With `display` also where full stops or hyphens are between ("a.m." is
            "am."), and words of two and three letters between two blanks.
        display: hidden, reordered and upside-down characters, and those of equal shape, are read as
            they are displayed (`text.display`). Makes 0.8, 0.2, 0.3 % of the words of SMS spam,
            prompt injections and tweets equal to another word.
    """

    repeats: bool = False
    leetspeak: bool = False
    spaced: bool = False
    display: bool = False

    def __call__(self, text: str) -> str:
        """Return the canonical form of a text."""
        if not self.display:
            return self._cut(canonical(text))
        return self._show(display(text, _forms_of(text)))

    def origins(self, text: str) -> list[int]:
        """Return for each character of the form the index of the one in `text` it is from."""
        if not self.display:
            origins = canonical_origins(text)
            self._cut(canonical(text), origins)
            return origins
        shown = display(text, _forms_of(text))
        self._show(shown, shown.origins)
        return shown.origins

    @property
    def is_local(self) -> bool:
        """True if a changed word changes no other word of the form."""
        return not (self.repeats or self.leetspeak or self.spaced)

    def state(self) -> dict[str, Any]:
        """Return plain values for the constructor: without `display` as former versions have it."""
        options = asdict(self)
        if not self.display:
            del options["display"]
        return options

    def _show(self, shown: Displayed, row: list[int] | None = None) -> str:
        """Turn the words of a displayed text, and apply the other options; `row` as in `_cut`."""
        if self.is_local:
            return turn_upright(shown.text, shown.upright)
        # Words are turned before leetspeak makes the @ of a name a letter of it. Single letters
        # wait: "n o w" must not become "u o w" first.
        form = turn_upright(shown.text, shown.upright, least=2)
        while (cut := self._cut(form, row)) != form:
            form = turn_upright(cut, least=2)
        return turn_upright(form) if _SINGLE.search(form) else form

    def _cut(self, text: str, row: list[int] | None = None) -> str:
        """Apply the options but `display`; `row`, a value for each character, is cut with it."""
        # In this order no step makes work for one before it.
        for pattern in (_DOTTED, _APART) if self.spaced and self.display else ():
            text = _cut(text, (pattern[self.leetspeak], _without_blanks), row)
        if self.spaced:
            text = _cut(text, (_SPACED[self.leetspeak], _without_blanks), row)
        if self.leetspeak and _ANY_SIGN.search(text):
            text = _WORD.sub(_letters, text)
        return _cut(text, (_REPEATS, _first_two), row) if self.repeats else text


def _forms_of(text: str) -> Mapping[int, str]:
    """Return the forms of characters; ASCII needs none of the file."""
    return {} if text.isascii() and text.isprintable() else _forms()


def _cut(text: str, cut: _Cut, row: list[int] | None) -> str:
    pattern, part = cut
    if row is not None:
        for match in reversed(list(pattern.finditer(text))):
            start, end = match.span()
            row[start:end] = row[start:end][part(match)]
    return pattern.sub(lambda match: match[0][part(match)], text)
