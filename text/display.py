"""Text as it is displayed: characters that are hidden, reordered, upside down or of equal shape.

Sources: Unicode Standard Annex 9, "Unicode Bidirectional Algorithm" (rules X1 to X8 and L2), for
the order in which characters are displayed; the alphabet of upside-down text is that of Hackett et
al., "Bypassing Prompt Injection and Jailbreak Detection in LLM Guardrails", 2025.

Everything here depends on the characters of one run without white space alone.
"""

import re
import string
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from text.marks import JOINED

_SHAPES = str.maketrans("l1|0`", "iiio'")
"""ASCII characters that look like another one, in lower case; "I" is an "i" there."""
_BY_SHAPE = {"৭": "9", "㈃": "(2)"}
"""Digits that look like another digit."""
UPSIDE_DOWN = dict(zip("ᵄᵓᴲᶡᶣʴᶺꭩ𐞠㉣ℇᵋ", "acefhrvwy233", strict=True)) | dict(
    zip("ɐⱯɔƆǝƎɟƃƂɥꞍɾʞꞰɯƜɹʇꞱʌɅʍʎᄅƐɛㄣϛϚㄥ", "aacceefgghhjkkmmrttvvwy2334557", strict=True)
)
"""Letters and digits upside down, which are not another letter of ASCII then; capitals, and others
with the same form, as well."""
_UPSIDE_DOWN_I = dict.fromkeys("ᴉƖɩ", "i")
OTHER = "\ue000"
"""Stands for any character that a word has not."""
_ACCENTED = re.compile("[À-ÖØ-öø-ſẠ-ỹ]")
"""Letters that hidden and upside-down text leaves as they are, since it has none for them."""
_FEW = 3
"""Accented letters of a word, at most, that may be all that is visible of it."""
_KEPT = "^"
"""Marks an accented letter in a text that may be upside down."""
_JOINT = "-"
_JOINTS = frozenset("‐‑‒–—―‘’‛“”‟′´|")
"""Dashes and quotation marks that are no part of a word in attacks, but in a form; and "|"."""
_WINDOWS = str.maketrans("\x91\x92\x93\x94\x95\x96\x97", "‘’“”•–—")
"""Punctuation of Windows-1252 that was decoded as Latin-1."""
_TURN = str.maketrans("bdnpqu69", "qpudbn96")
_TURNABLE = frozenset("bdinopqsuxz689")
"""Letters and digits that are ASCII upside down as well, by shape."""
_MARKS_INSIDE = frozenset("'-*@_")
_BOTH_WAYS = _TURNABLE | _MARKS_INSIDE
_OTHERS = frozenset(string.ascii_lowercase + string.digits) - _TURNABLE

_PDF, _PDI = "\u202c", "\u2069"
# Direction is right to left, overrides that of letters, isolates.
_OPENING = {
    "\u202a": (False, False, False),
    "\u202b": (True, False, False),
    "\u202d": (False, True, False),
    "\u202e": (True, True, False),
    "\u2066": (False, False, True),
    "\u2067": (True, False, True),
    "\u2068": (False, False, True),
}
_DEEPEST = 125
_DIRECTED = re.compile(r"[^\s\u2800]*[\u202a-\u202e\u2066-\u2069][^\s\u2800]*")
_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
"""Scripts that are read from right to left: their words stay in the order of the characters."""

_HIDDEN = re.compile("[\ufe00-\ufe0e\U000e0020-\U000e007e\U000e0100-\U000e01ef]")
_SYMBOL = re.compile("[\u2190-\u2bff\U0001f000-\U0001faff]")


class Displayed(NamedTuple):
    """A text as it is displayed.

    Attributes:
        text: n characters.
        origins: n rising indices of the characters of the original.
        upright: n strings: what an upside-down letter is upright; `_JOINT` for marks between words
            that may be upside down one by one, `_KEPT` for letters with an accent, nothing for all
            others.
    """

    text: str
    origins: list[int]
    upright: list[str]


def display(text: str, forms: Mapping[int, str]) -> Displayed:
    """Return a text with the form of each character, hidden text included, in displayed order.

    `forms` are those of characters, by code point.
    """
    if text.isascii() and text.isprintable():
        form = text.lower().translate(_SHAPES)
        return Displayed(form, list(range(len(text))), [""] * len(text))
    characters, origins = _reorder(*_reveal(text.translate(_WINDOWS), forms))
    found, sources, upright = list[str](), list[int](), list[str]()
    for char, origin in zip(characters, origins, strict=True):
        turned = _JOINT if char in _JOINTS else UPSIDE_DOWN.get(char, "")
        if _ACCENTED.match(char):
            turned = _KEPT
        form = _BY_SHAPE.get(char) or _UPSIDE_DOWN_I.get(char) or forms[ord(char)]
        if char in UPSIDE_DOWN and not form.isascii():
            form = turned
        found += form
        sources += [origin] * len(form)
        upright += [turned.translate(_SHAPES)] * len(form)
    return Displayed("".join(found).translate(_SHAPES), sources, upright)


def moves_characters(text: str) -> bool:
    """Return True if a text has hidden, directed or upside-down characters.

    The display of any other text is that of its characters one by one, but for words of which all
    letters are letters both ways.
    """
    return any(map(UPSIDE_DOWN.__contains__, text)) or any(
        pattern.search(text) for pattern in (_HIDDEN, _DIRECTED)
    )


def turn_upright(text: str, upright: Sequence[str] = (), *, least: int = 1) -> str:
    """Turn the words of a displayed text that are upside down.

    A word is, if it has more upside-down letters than others that would look otherwise. A word all
    of whose letters are letters both ways ("pound", "punod") gets one of its two forms.

    Args:
        text: n characters.
        upright: see `Displayed`; nothing if no letter is upside down.
        least: shorter words of letters both ways stay as they are.
    """
    if not any(upright):
        return JOINED.sub(lambda match: _choose(match[0], least), text)
    parts, end = [], 0
    for match in JOINED.finditer(text):
        start, stop = match.span()
        turns = upright[start:stop]
        if any(turns) or stop - start >= least:
            parts += [text[end:start], _turn_word(match[0], turns)]
            end = stop
    return "".join([*parts, text[end:]])


def _turn_word(word: str, upright: Sequence[str]) -> str:
    turned = sum(letter not in ("", _JOINT, _KEPT) for letter in upright)
    if not turned:
        return _choose(word)
    if _JOINT in upright:
        at = upright.index(_JOINT)
        ends = (slice(at), slice(at + 1, None))
        return word[at].join(_turn_word(word[part], upright[part]) for part in ends)
    if turned == 1:
        # One typo turns no accented letter: certificates of typos do not see accents.
        upright = ["" if letter == _KEPT else letter for letter in upright]
    upside_up = (char for char, letter in zip(word, upright, strict=True) if not letter)
    if turned <= _count_others("".join(upside_up)):
        return word
    letters = zip(word, upright, strict=True)
    # Accented letters stay as they are: they are turned twice.
    kept = (char.translate(_TURN) if to == _KEPT else to or char for char, to in letters)
    return _turn("".join(kept))


def may_turn(word: str) -> bool:
    """Return True if one changed character may turn a word round."""
    return _count_others(word) <= 1


def list_typos(word: str, letters: str) -> Iterator[tuple[str, str]]:
    """Yield the typos of a word of a displayed text, and what each is displayed as.

    A word whose letters are letters both ways has the typos of both. Each displayed word comes at
    least once, for any typo but marks of direction. Typos insert `letters`, or put them in place of
    others.
    """
    # Canonical forms need neither numpy nor rapidfuzz.
    from text.typo_kinds import are_near, list_edits

    letters = "".join(char for char in letters if char.translate(_SHAPES) == char)
    upside_down = {letter: char for char, letter in UPSIDE_DOWN.items()}
    for spelling in (word, _turn(word)) if _TURNABLE.issuperset(word) else (word,):
        for typo in list_edits(spelling, letters):
            yield typo, _choose(typo)
            # A letter that is typed upside down turns the others, if none of them says otherwise.
            if _count_others(typo) == 1 and len(typo) >= len(word):
                at = next(i for i, char in enumerate(typo) if char in _OTHERS)
                head, char, tail = typo[:at], typo[at], typo[at + 1 :]
                if char in upside_down and are_near(spelling, head + OTHER + tail):
                    yield head + upside_down[char] + tail, _turn(typo)


def _count_others(word: str) -> int:
    """Return the number of letters and digits that would look otherwise upside down."""
    return sum(map(_OTHERS.__contains__, word))


@lru_cache(maxsize=1 << 16)
def _choose(word: str, least: int = 1) -> str:
    """Return the form of a word that may be upside down: the one that is more like English."""
    if len(word) < least or not _BOTH_WAYS.issuperset(word):
        return word
    return max(word, _turn(word), key=_likeness)


def _likeness(word: str) -> tuple[bool, int, int, int, list[int], str]:
    letters = [char for char in word if char not in _MARKS_INSIDE]
    vowels = not {*"iou"}.isdisjoint(letters)
    counts = {char: letters.count(char) for char in "qdpn"}
    order = [-ord(char) for char in letters]
    return vowels, -counts["q"], counts["d"] - counts["p"], counts["n"], order, word


def _turn(word: str) -> str:
    return word.translate(_TURN)[::-1]


def _reveal(text: str, forms: Mapping[int, str]) -> tuple[str, list[int]]:
    """Return a text with the words that are hidden in it, and the origins of its characters.

    Tag characters, and the bytes in variation selectors behind a symbol, are such words, unless
    they touch a letter: there they are invisible marks. Accented letters, of which there is no tag
    character, may be visible in a hidden word.
    """
    if not _HIDDEN.search(text):
        return text, list(range(len(text)))
    found, origins, touches = list[str](), list[int](), [False]
    stop = 0
    while stop < len(text):
        start = stop
        while stop < len(text) and not forms[ord(text[stop])]:
            stop += 1
        if stop == start:
            found.append(text[start])
            origins.append(start)
            touches.append(forms[ord(text[start])][-1].isalnum())
            stop += 1
            continue
        run, secret = text[start:stop], ""
        after = stop < len(text) and forms[ord(text[stop])][0].isalnum()
        if start and _SYMBOL.match(text[start - 1]) and not (touches[-2] or after):
            secret = _read_selectors(run)
        if secret:
            start -= 1
            del found[-1], origins[-1], touches[-1]
        elif not (touches[-1] or after) or _is_hidden(text, start, stop, forms):
            secret = "".join(map(_read_tag, run))
        found += secret or run
        origins += [min(start + at, stop - 1) for at in range(len(secret or run))]
    return "".join(found), origins


def _is_hidden(text: str, start: int, stop: int, forms: Mapping[int, str]) -> bool:
    """Return True if few letters around hidden characters are visible, and all have an accent."""
    tags = [chr(ord(char) - 0xE0000) for char in text[start:stop] if char != _read_tag(char)]
    # A typo of one such mark would split a word in two.
    if len(tags) == 1 and not (tags[0].isalnum() or tags[0] in _MARKS_INSIDE):
        return False
    letters = list(islice(_letters_around(text, start, stop, forms), _FEW + 1))
    return len(letters) <= _FEW and all(map(_ACCENTED.match, letters))


def _letters_around(text: str, start: int, stop: int, forms: Mapping[int, str]) -> Iterator[str]:
    """Yield the letters and digits of the word that has the characters from start to stop."""
    for places in (reversed(range(start)), range(stop, len(text))):
        for char in map(text.__getitem__, places):
            form = forms[ord(char)]
            if form and not form.isalnum():
                break
            if form:
                yield char


def _read_tag(char: str) -> str:
    return chr(ord(char) - 0xE0000) if "\U000e0020" <= char <= "\U000e007e" else char


def _read_selectors(run: str) -> str:
    """Return the text whose bytes are variation selectors; nothing if they are no such text."""
    codes = map(ord, run)
    selectors = [code for code in codes if 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF]
    data = bytes(code - 0xFE00 if code < 0xFE10 else code - 0xE0100 + 16 for code in selectors)
    try:
        # Single surrogates, which UTF-8 refuses, may be hidden in this way, too.
        secret = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return ""
    return secret if all(char >= " " for char in secret) else ""


def _reorder(text: str, origins: list[int]) -> tuple[str, list[int]]:
    """Return the characters in the order in which marks of direction have them displayed.

    A mark acts up to the next white space, so that no word changes the direction of another.
    """
    found, sources, end = list[str](), list[int](), 0
    for match in _DIRECTED.finditer(text):
        if _RIGHT_TO_LEFT.search(match[0]):
            continue
        start, stop = match.span()
        order = [start + at for at in _displayed_order(match[0])]
        found += text[end:start]
        found += [text[at] for at in order]
        sources += origins[end:start]
        sources += sorted(origins[at] for at in order)
        end = stop
    return "".join(found) + text[end:], sources + origins[end:]


def _displayed_order(run: str) -> list[int]:
    """Return the indices of the characters but the marks of direction, from left to right.

    Letters and all others are taken for letters that are read from left to right.
    """
    stack, isolates = [(0, False, False)], 0
    order, levels = list[int](), list[int]()
    for index, char in enumerate(run):
        level, override, _ = stack[-1]
        if char in _OPENING:
            backwards, forced, isolate = _OPENING[char]
            if isolate:
                order.append(index)
                levels.append(level)
                isolates += 1
            deeper = (level + 1) | 1 if backwards else (level + 2) & ~1
            stack.append((deeper if deeper <= _DEEPEST else level, forced, isolate))
        elif char == _PDF:
            if len(stack) > 1 and not stack[-1][2]:
                stack.pop()
        elif char == _PDI:
            if isolates:
                isolates -= 1
                while not stack.pop()[2]:
                    pass
                order.append(index)
                levels.append(stack[-1][0])
        else:
            order.append(index)
            levels.append(level if override else level + level % 2)
    order = _reverse(order, levels)
    return [index for index in order if run[index] not in _OPENING and run[index] != _PDI]


def _reverse(order: list[int], levels: list[int]) -> list[int]:
    """Turn round each longest part of a level and those above it, from the highest level on."""
    for least in range(max(levels, default=0), 0, -1):
        start = 0
        for at in range(len(levels) + 1):
            if at == len(levels) or levels[at] < least:
                order[start:at] = order[start:at][::-1]
                levels[start:at] = levels[start:at][::-1]
                start = at + 1
    return order
