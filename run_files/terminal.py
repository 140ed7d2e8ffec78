"""Escape control characters in text from files, for a terminal."""

import unicodedata

_KEPT = "\n\t"
_ACTIVE = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
"""Unicode's categories of characters that are not visible."""


def harmless(text: str) -> str:
    r"""Escape (as `\x1b`) all characters of a text that a terminal would act upon.

    Messages contain names of files, columns and classes, from any source. Control characters can
    move the cursor, set the title of the window or type input for the user; marks of direction
    reorder a name; a half of a surrogate pair cannot be printed.
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character in _KEPT or unicodedata.category(character) not in _ACTIVE
        else character.encode("unicode_escape").decode()
        for character in text
    )
