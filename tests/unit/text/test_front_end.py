"""A front end: one text for the model, however the given one looks."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks.recipes import unicode as ways
from text import (
    CanonicalForm,
    CharacterTokenizer,
    FrontEnd,
    FrontEndSettings,
    FrontEndTokenizer,
    PretrainedTokenizer,
    Span,
    Words,
    canonical,
    front_end,
    tokenizer_from_state,
    train_word_piece,
)

SPELLING = FrontEndSettings(front_end="spelling")
TEXTS = ["a good film", "Don't see it: a bad, bad film", "well-known, good 1984", "Don't, dont"]
OPTIONS = [CanonicalForm(*options) for options in product((False, True), repeat=3)]
# Several spellings, typos, marks inside words, unknown words, and all that options are about.
HARD_WORDS = (
    "good GOOD gооd g\u200bood goood gooood god d-on't dont w3ll k i l 0 @ $5 - ' ... ﬃ é 哈哈哈 "
    "[UNK] <unk> zz _ 1984 1984x"
)
HARD = st.lists(
    st.sampled_from([*HARD_WORDS.split(), " ", " ", " ", "  ", "\t"]) | st.characters(), max_size=12
).map("".join)


def built(form: CanonicalForm = CanonicalForm(), unknown: str | None = "[UNK]") -> FrontEnd:
    settings = FrontEndSettings(front_end="spelling", canonical=form)
    return FrontEnd.build(TEXTS, settings, unknown=unknown)


@pytest.fixture(scope="module")
def tokenizer() -> FrontEndTokenizer:
    inner = train_word_piece(map(canonical.canonical, TEXTS), 90, max_length=16)
    return FrontEndTokenizer(inner, built())


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("A  GOOD film!", "a  good film!"),
        ("a goood fil", "a good film"),
        ("gооd\u200b ﬁlm", "good film"),  # Cyrillic, invisible, a ligature
        ("dont", "don't"),
        ("d-o-n't don'tt", "don't don't"),
        ("wellknown", "well-known"),
        ("zzzz, [SEP] q", "[UNK], [see] a"),
        ("1985", "1984"),
        ("", ""),
        ("\u200b -- ", " -- "),
    ],
)
def test_what_a_model_reads(text: str, read: str) -> None:
    assert built()(text) == read


def test_most_frequent_words_come_first_and_rare_ones_are_unknown() -> None:
    assert built().words[:5] == ["don't", "a", "bad", "film", "good"]
    rare = FrontEnd.build(TEXTS, SPELLING, min_count=2, unknown="?")
    assert rare.words == ["don't", "a", "bad", "film", "good"]
    assert rare("see 1984 good") == "? ? good"
    # A pair counts with both its texts.
    assert FrontEnd.build([("a b", "b")], SPELLING).words == ["b", "a"]
    with pytest.raises(ValueError, match=r"got no word 9 times \(min_count\)"):
        FrontEnd.build(TEXTS, SPELLING, min_count=9)


def test_without_a_corrector_texts_are_not_read() -> None:
    texts = iter(TEXTS)
    front = FrontEnd.build(texts, FrontEndSettings(front_end="canonical"))
    assert next(texts) == TEXTS[0]
    assert (front("Goood É"), front.words, front.corrections("goood")) == ("goood e", [], {})


@pytest.mark.parametrize("kind", ["canonical", "spelling"])
def test_displayed_words_are_written_as_most_texts_write_them(kind: Any) -> None:
    settings = FrontEndSettings(front_end=kind, canonical=CanonicalForm(display=True))
    texts = ["Claim 100 pounds", "claim", "I'm Ill ill", "well-known loo 100", "I1l on no"]
    front = FrontEnd.build(texts, settings, unknown="[UNK]")
    read = "claim 100 pounds: i'm ill, on well-known"
    assert front("ϹLA1M lOO spunod: ı'm |ll, uo uʍouʞ-llǝʍ") == read
    again = FrontEnd.from_state(front.state(), unknown="[UNK]")
    assert (again.spellings, again.words, again.state()) == (
        front.spellings,
        front.words,
        front.state(),
    )
    for text in texts:
        for way in (ways.homoglyphs, ways.upside_down, ways.tags, ways.bidirectional):
            assert front(" ".join(map(way, text.split(" ")))) == front(text) == front(front(text))
        read = front(text)
        spans = front.locate(text, [Span(0, i, i + 1) for i in range(len(read))])
        assert all(0 <= start < end <= len(text) for _, start, end in spans)


@pytest.mark.long
@given(HARD, st.sampled_from(OPTIONS))
def test_a_text_and_its_form_are_one_text(text: str, form: CanonicalForm) -> None:
    front = built(form)
    assert front(text) == front(form(text)) == front(text.replace("o", "\u200bо"))
    # Where unknown words stay, twice is once.
    kept = built(form, unknown=None)
    assert kept(kept(text)) == kept(text)


@pytest.mark.parametrize(
    ("character", "text"),
    [("о", "gооd film"), ("ｇ", "ｇood film"), ("\u200b", "go\u200bod film"), ("é", "good film é")],
)
def test_a_confusable_that_is_left_out_is_caught(
    character: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = "good film e" if "é" in text else "good film"
    assert FrontEnd(CanonicalForm())(text) == expected
    mutant = canonical._Forms(canonical._forms())
    mutant[ord(character)] = character
    monkeypatch.setattr(canonical, "_forms", lambda: mutant)
    assert FrontEnd(CanonicalForm())(text) != expected


@pytest.mark.parametrize("form", OPTIONS)
def test_only_vocabulary_words_and_the_unknown_token_are_read(form: CanonicalForm) -> None:
    front = built(form)
    for text in ("goood v3ry 600d", "w e l l known", "zz-zz filmm", "sooo baddd"):
        for word in front(text).replace("[UNK]", "").split():
            assert word in front.words


def test_reach_lists_what_is_read_after_a_typo() -> None:
    """The model reads nothing but the results that `Corrector.reach` lists."""
    front = built()
    corrector = front.corrector
    assert corrector is not None
    for word in ("film", "dont", "zz", "bad"):
        ids, starts = corrector.reach([word])
        listed = {
            "[UNK]" if number == corrector.unknown else front.words[number]
            for number, _ in ids[starts[0] : starts[1]].tolist()
        }
        typos = {word, *(word[:i] + c + word[i:] for i in range(len(word) + 1) for c in "aqdж")}
        typos |= {word[:i] + word[i + 1 :] for i in range(len(word))}
        typos |= {word[:i] + c + word[i + 1 :] for i in range(len(word)) for c in "aqdж"}
        assert {front(typo) for typo in typos if typo} <= listed


def test_corrections_name_words_as_they_are_in_the_text() -> None:
    front = built()
    assert front.corrections("A goood FILMM, zzz don-t") == {"goood": "good", "filmm": "film"}
    assert front.corrections("d-ontt") == {"d-ontt": "don't"}


@pytest.mark.long
@given(HARD)
def test_spans_are_those_of_the_text(text: str) -> None:
    front = built()
    read = front(text)
    spans = front.locate(text, [Span(0, i, i + 1) for i in range(len(read))])
    assert [span.start for span in spans] == sorted(span.start for span in spans)
    for character, (_, start, end) in zip(read, spans, strict=True):
        assert 0 <= start < end <= len(text)
        if end == start + 1:
            form = canonical.canonical(text[start])
            assert character in form or any(map(str.isalnum, form))  # of a corrected word


def test_spans_of_pairs() -> None:
    front = built()
    pair = ("g\u200bood filmm", "Badd")
    assert front.read(pair) == ("good film", "bad")
    spans = [Span(0, 0, 0), Span(0, 0, 4), Span(0, 5, 7), Span(1, 1, 3)]
    assert front.locate(pair, spans) == [
        Span(0, 0, 0),
        Span(0, 0, 5),
        Span(0, 6, 11),  # a part of a corrected word is the word
        Span(1, 0, 4),
    ]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_end, "REMEMBERED", 64)
    front = built()
    for number in range(200):
        assert front(f"good x{number}q{number}") == "good [UNK]"
    assert len(front._ids) <= 64
    assert len(front._texts) <= 1


def test_texts_of_one_form_have_one_encoding(tokenizer: FrontEndTokenizer) -> None:
    plain, *others = tokenizer.encode(["good film", "GOOD film", "gооd fi\u200blm", "goood ﬁlmm"])
    assert all(other == plain for other in others)
    inner: PretrainedTokenizer = tokenizer.inner  # type: ignore[assignment] # see the fixture
    assert inner.encode(["goood film"]) != [plain]
    (coded,) = tokenizer.encode(["zzzz"])
    assert coded.input_ids == [*inner.template[0], tokenizer.unk_id, *inner.template[1]]
    assert tokenizer.encode([("filmm", "BAD")]) == inner.encode([("film", "bad")])
    assert tokenizer.spans(["zzzz filmm"])[0][1] == Span(0, 0, 4)


@pytest.mark.parametrize("form", OPTIONS)
def test_a_state_has_the_front_end(tokenizer: FrontEndTokenizer, form: CanonicalForm) -> None:
    one = FrontEndTokenizer(tokenizer.inner, built(form))
    again = tokenizer_from_state(one.state())
    assert isinstance(again, FrontEndTokenizer)
    assert again.state() == one.state()
    assert again.front_end.form == form
    texts = ["G00d goood filmm", "w e l l known zz", "don't dont"]
    assert again.encode(texts) == one.encode(texts)
    for wrong in ({"canonical": {"odd": True}}, {"words": [1]}, {"words": 3}, {"canonical": 1}):
        with pytest.raises(ValueError, match="got a front end that cannot be read"):
            tokenizer_from_state(one.state() | {"front_end": one.front_end.state() | wrong})
    # Without a front end nothing is added.
    assert "front_end" not in tokenizer.inner.state()
    assert isinstance(tokenizer_from_state(tokenizer.inner.state()), PretrainedTokenizer)


def test_what_is_refused(tokenizer: FrontEndTokenizer) -> None:
    with pytest.raises(ValueError, match=r"expected words\.front_end=none for tagging"):
        tokenizer.encode_words([Words(("a", "film"))])
    characters = CharacterTokenizer.build(TEXTS)
    with pytest.raises(ValueError, match=r"spelling for a tokenizer without unknown token"):
        FrontEndTokenizer(characters, built(unknown=None))
    with pytest.raises(ValueError, match=r"words\.front_end=canonical, expected spelling"):
        FrontEnd(CanonicalForm()).id_of("a")
    with pytest.raises(ValueError, match=r"words\.front_end='?odd"):
        FrontEndSettings(front_end="odd")  # type: ignore[arg-type] # a wrong setting
