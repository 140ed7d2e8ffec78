"""Likely mistakes in texts: each pattern, also behind the fast checks before it."""

import sys

import pytest

from datamodules.sources import likely_mistakes
from datamodules.sources.likely_mistakes import text_mistakes

CHARACTERS = [chr(i) for i in range(sys.maxunicode + 1) if not 0xD800 <= i < 0xE000]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a <b>bold</b> word", "HTML"),
        ("salt &amp; pepper", "HTML"),
        ("cafÃ©", "a wrong encoding"),
        ("caf\ufffd", "a wrong encoding"),
        ("zero\u200bwidth", "invisible"),
        ("bell\x07", "invisible"),
        ("word " * 1001, "more than 1,000 words"),
        ('"quoted"', "double quotes"),
    ],
)
def test_a_mistake_is_named_once_with_its_texts(text: str, name: str) -> None:
    (mistake,) = text_mistakes([text, text])
    assert mistake.startswith("2 texts have")
    assert name in mistake
    assert text_mistakes(["a word", "caf\u00e9 & 1 < 2"]) == []


@pytest.mark.long
def test_invisible_characters_are_not_printable() -> None:
    # Printable texts are not searched for them.
    hidden = [c for c in CHARACTERS if likely_mistakes._INVISIBLE.match(c)]
    assert len(hidden) == 39
    assert not any(map(str.isprintable, hidden))


@pytest.mark.long
def test_lower_case_has_the_same_words() -> None:
    # `inspect` counts words and compares texts in lower case.
    assert not any(bool(c.casefold().split()) != bool(c.split()) for c in CHARACTERS)
