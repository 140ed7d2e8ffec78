"""Escapes control characters in text from files, for a terminal."""

import unicodedata

_KEPT = "\n\t"
_ACTIVE = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
"""Unicode's categories of characters that are not visible."""


def harmless(text: str) -> str:
    r"""Write out (`\x1b`) all characters of a text that a terminal would act upon.

    Names of files, columns and classes stand in messages, and may come from anywhere: control
    characters move the cursor, set the window's title or answer for the user; marks of direction
    show a name in another order than it has; halves of surrogate pairs cannot be printed at all.
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character in _KEPT or unicodedata.category(character) not in _ACTIVE
        else character.encode("unicode_escape").decode()
        for character in text
    )
