import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from run_files.terminal import harmless


def test_what_terminals_act_upon_is_written_out() -> None:
    assert harmless("\x1b]0;title\x07 \x1b[2J\r\b\x9b") == r"\x1b]0;title\x07 \x1b[2J\r\x08\x9b"
    assert harmless("a\u202etxt.exe\u2066\u200f") == r"a\u202etxt.exe\u2066\u200f"
    assert harmless("half \ud800 a pair") == r"half \ud800 a pair"


def test_ordinary_text_stays() -> None:
    text = "line 17:\tZoë, 漢字, עברית, 😀 — got '…'\nnext line"
    assert harmless(text) == text


@given(st.text(st.characters(codec=None), max_size=20))
def test_everything_can_be_printed(text: str) -> None:
    safe = harmless(text)
    safe.encode()
    kinds = {unicodedata.category(character) for character in safe if character not in "\n\t"}
    assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}
