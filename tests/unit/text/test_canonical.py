import hashlib
import subprocess
import sys
import unicodedata
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks.transformations.characters import LOOK_ALIKE
from text.canonical import CanonicalForm, canonical, canonical_origins

CHARACTERS = [chr(code) for code in range(sys.maxunicode + 1)]
ASSIGNED = [c for c in CHARACTERS if unicodedata.category(c) not in {"Cn", "Co", "Cs"}]
FORMS = [CanonicalForm(*options) for options in product((False, True), repeat=3)]
# Characters that rules are about, and any others.
TEXTS = st.text(
    st.sampled_from("aAAbi aaa  014$@5!\t\u200b\u0301éßⅧаВ𝐚ﬃ가คि9_２\ud800") | st.characters()
)


@pytest.mark.long
def test_every_form_is_its_own_form() -> None:
    assert [c for c in CHARACTERS if canonical(canonical(c)) != canonical(c)] == []


def test_ascii() -> None:
    for character in map(chr, range(128)):
        dropped = "" if character < " " or character == "\x7f" else character.lower()
        assert canonical(character) == (
            " " if character in "\t\n\v\f\r\x1c\x1d\x1e\x1f" else dropped
        )


def test_look_alikes_of_the_attack() -> None:
    # Bengali seven looks like a nine; the others are ASCII, which stays.
    other = {"9": "7", "1": "l", "0": "o", "'": "`"}
    assert {pose: canonical(look) for pose, look in LOOK_ALIKE.items()} == (
        {pose: other.get(pose, pose) for pose in LOOK_ALIKE}
    )


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Тhе Вig сhаnсе", "the big chance"),  # Cyrillic
        ("Τhε ΗΟΡΕ", "the hope"),  # Greek
        ("ｆｕｌｌ　ｗｉｄｔｈ", "full width"),
        ("𝓗𝓮𝓵𝓵𝓸 𝕎𝕠𝕣𝕝𝕕 𝐈𝖑𝗅", "hello world ill"),
        ("ⓗⒺ🅻🅛🄾 🇺🇸", "hello us"),
        ("ɢʀᴇᴀᴛ", "great"),
        ("Ⅷ ⅲ ﬃ ² ½", "viii iii ffi 2 1/2"),
        ("Crème brûlée, Ångström, İı", "creme brulee, angstrom, ii"),
        ("Łódź Ðø ß ẞ Æ œ", "lodz do ss ss ae oe"),
        ("“a” ‘b’ „c‟ «d» ‹e› `f` ´g′", "\"a\" 'b' \"c\" \"d\" 'e' `f` 'g'"),
        ("a‐b‑c‒d–e—f―g−h", "a-b-c-d-e-f-g-h"),
        ("it’s…", "it's..."),
        ("a\u00a0b\u2003c\u2028d\u3000e\u2800f\x85g", "a b c d e f g"),
        ("١٢٣ ۴۵ ०৭ ๓ ➀❷", "123 45 07 3 12"),
        ("≠ € © 👍🏽", "≠ € © 👍🏽"),
        ("rn m 0 O 1 l I |", "rn m 0 o 1 l i |"),
    ],
)
def test_examples(text: str, form: str) -> None:
    assert canonical(text) == form


@pytest.mark.parametrize(
    "mark",
    [
        *("\u200b", "\u200c", "\u200d", "\u00ad", "\u2060", "\ufeff", "\u202e", "\u061c", "\u034f"),
        *("\ufe0f", "\U000e0101", "\U000e0041", "\u3164", "\x00", "\x7f", "\x9f", "\u2065"),
        *("\u0301", "\u0335", "\u20dd", "\u1ab0", "\u1dc4", "\ufe20", "\u0488"),
    ],
)
def test_invisible_characters_and_accents_inside_a_word(mark: str) -> None:
    assert canonical(mark.join(["", *"ignore", ""])) == "ignore"


def test_other_scripts_survive() -> None:
    text = (
        "हिन्दी में लिखा বাংলা লেখা தமிழ் எழுத்து ภาษาไทยนี้ 日本語のテキスト、ガ "
        "中文文本一丨口 한국어 텍스트 ㅋㅋ ქართული አማርኛ שָׁל نص"
    )
    assert canonical(text) == text
    # Half width: the voicing mark stays a character of its own.
    assert canonical("ｶﾅ ﾊﾞ") == "カナ ハ\u3099"


@pytest.mark.parametrize(
    ("alphabet", "merged"),
    [
        ("абвгдежзиклмнопрстуфхцчшщъыьэюя", ["вь"]),
        ("αβγδεζηθικλμνξοπρςτυφχψω", ["ος"]),
        ("אבגדהוזחטיכךלמםנןסעפףצץקרשת", ["ון"]),
        ("ابتثجحخدذرزسشصضطظعغفقكلمنهوي", []),
        ("აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ", []),
        ("աբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆ", ["գզ", "ոռ"]),
    ],
)
def test_which_letters_of_other_scripts_become_equal(alphabet: str, merged: list[str]) -> None:
    classes: dict[str, str] = {}
    for letter in alphabet:
        classes[canonical(letter)] = classes.get(canonical(letter), "") + letter
    assert [letters for letters in classes.values() if len(letters) > 1] == merged


def test_python_s_unicode_agrees() -> None:
    # Python's tables are of another version: what both know is compared.
    for character in ASSIGNED:
        form, category = canonical(character), unicodedata.category(character)
        if character.isspace() or category == "Zs":
            assert form == " "
        elif category in {"Cc", "Cf"}:
            assert form == ""
        elif category == "Nd":
            assert form == str(unicodedata.decimal(character))
        else:
            pieces = unicodedata.normalize("NFKD", character)
            base = "".join(c for c in pieces if not unicodedata.combining(c))
            if base.isascii() and base.isalnum() and base != "":
                assert form == base.lower(), character


def test_private_characters_and_surrogates_stay() -> None:
    text = "".join(c for c in CHARACTERS if unicodedata.category(c) in {"Co", "Cs"})
    assert canonical(text) == text


@pytest.mark.long
def test_case_makes_no_difference() -> None:
    # Small and capital letters that look like different ones.
    different = {"υ", "Υ", "ν", "Ν", "ƽ", "Ƽ"}
    for character in ASSIGNED:
        name = unicodedata.name(character, "")
        # Python writes a subscript iota as a letter of its own in capitals.
        if name.startswith("WARANG CITI") or "YPOGEGRAMMENI" in name or "PROSGEGRAMMENI" in name:
            continue
        if not different.isdisjoint(unicodedata.normalize("NFD", character)):
            continue
        assert canonical(character.lower()) == canonical(character.upper()) == canonical(character)


def test_composed_and_decomposed_letters_agree() -> None:
    # In these three, marks stay.
    for character in map(chr, (*range(0xC0, 0x530), *range(0x1E00, 0x2000))):
        decomposed = unicodedata.normalize("NFD", character)
        assert canonical(decomposed) == canonical(character) or decomposed[0] in " ¨᾿῾", character


@given(TEXTS, TEXTS)
def test_form_of_a_text_is_that_of_its_characters(first: str, second: str) -> None:
    assert canonical(first + second) == canonical(first) + canonical(second)
    assert canonical(first) == "".join(map(canonical, first))


@given(TEXTS)
def test_origins(text: str) -> None:
    form, origins = canonical(text), canonical_origins(text)
    assert len(origins) == len(form)
    assert origins == sorted(origins)
    for index, character in enumerate(text):
        assert "".join(c for c, i in zip(form, origins, strict=True) if i == index) == (
            canonical(character)
        )


def test_origins_of_longer_and_empty_forms() -> None:
    assert canonical_origins("a\u200bﬃ b") == [0, 2, 2, 2, 3, 4]
    assert canonical_origins("Abc") == [0, 1, 2]
    assert canonical_origins("A\0bc") == [0, 2, 3]


@given(TEXTS, st.sampled_from(FORMS))
def test_options_are_idempotent(text: str, form: CanonicalForm) -> None:
    assert form(form(text)) == form(text) == form(canonical(text))


@given(TEXTS, st.sampled_from(FORMS))
def test_origins_with_options(text: str, form: CanonicalForm) -> None:
    result, origins = form(text), form.origins(text)
    assert len(origins) == len(result)
    assert origins == sorted(origins)
    posing = str.maketrans("013457@$", "oieastas")
    for character, origin in zip(result, origins, strict=True):
        source = canonical(text[origin])
        assert character in source or (form.leetspeak and character in source.translate(posing))


def test_no_option_is_the_form_of_each_character() -> None:
    assert CanonicalForm()("Sooo  1d10t k i l l") == "sooo  1d10t k i l l"


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("sooo good", "soo good"),
        ("SoOОo!!!! 1000", "soo!!!! 1000"),
        ("哈哈哈哈", "哈哈"),
        ("aaa\u200ba", "aa"),
    ],
)
def test_repeats(text: str, form: str) -> None:
    assert CanonicalForm(repeats=True)(text) == form


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("1D10T", "idiot"),
        ("@$$hole l0ve, 7h3", "asshole love, the"),
        ("$5 100 1,000 4 @ 3.5", "$5 100 1,000 4 @ 3.5"),
        ("covid19 2nd", "covidi9 2nd"),
        ("l٠ve", "love"),
    ],
)
def test_leetspeak(text: str, form: str) -> None:
    assert CanonicalForm(leetspeak=True)(text) == form


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("I g n o r e  all", "ignore  all"),
        ("a b c", "a b c"),
        ("x I  a m  b i g", "x i  a m  b i g"),
        ("so i k i l l you", "so ikill you"),
        ("1 2 3 4 5", "1 2 3 4 5"),
        ("k\ti\u2003l l.", "k i l l."),
        ("k\ti\u2003l l", "kill"),
    ],
)
def test_spaced(text: str, form: str) -> None:
    assert CanonicalForm(spaced=True)(text) == form


def test_signs_apart_are_letters_with_leetspeak_only() -> None:
    assert CanonicalForm(spaced=True)("1 d 1 0 t") == "1 d 1 0 t"
    assert CanonicalForm(spaced=True, leetspeak=True)("1 d 1 0 t") == "idiot"
    assert CanonicalForm(spaced=True, leetspeak=True)("1 3 4 5 0") == "1 3 4 5 0"
    assert CanonicalForm(repeats=True, spaced=True, leetspeak=True)("4 4 a 4 b") == "aab"


def test_table_has_not_changed() -> None:
    # Models that read canonical forms would read other texts: a new table is a change to announce.
    digest = hashlib.sha256(
        Path(canonical.__code__.co_filename).with_suffix(".json").read_bytes()
    ).hexdigest()
    assert digest == "afcf73defe583b291e26c03e45c75db116a463d4126497c4763ba610c0a6915f"


def test_ascii_needs_no_table() -> None:
    program = (
        "from text.canonical import _forms, canonical\n"
        "canonical('Abc'); print(_forms.cache_info().currsize, end=' ')\n"
        "canonical('é'); print(_forms.cache_info().currsize)"
    )
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert completed.stdout.split() == [b"0", b"1"]
