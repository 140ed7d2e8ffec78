"""The front end of a model: the text that it reads in place of the given one."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from text.batch import Span, Text
from text.canonical import CanonicalForm
from text.corrector import Corrector
from text.marks import INNER, JOINED
from text.stop_words import StopWordList
from text.word_settings import FrontEndSettings, WordSettings

REMEMBERED = 1 << 16
"""Corrections, and texts, that a front end remembers."""


class FrontEnd:
    """Replaces texts by their canonical form, and corrects the words in it.

    Texts with the same `form` are the same text for the model, whatever the model is.

    Args:
        form: the canonical form.
        corrector: of the words without the marks inside; None for no correction.
        spellings: how known words are written, where that differs: `dont` is "don't", and with
            `display` also `ciaim` "claim".
        unknown: replaces a word without a correction; None keeps it.
        stop_words: list of the words that the corrector avoids, for `state`.
    """

    def __init__(
        self,
        form: CanonicalForm,
        corrector: Corrector | None = None,
        *,
        spellings: Mapping[str, str] | None = None,
        unknown: str | None = None,
        stop_words: StopWordList | None = None,
    ) -> None:
        self.form, self.corrector, self.unknown = form, corrector, unknown
        self.stop_words = stop_words
        self.spellings = dict(spellings or {})
        self._ids: dict[str, int] = {}
        self._texts: dict[str, str] = {}

    @classmethod
    def build(
        cls,
        texts: Iterable[Text],
        settings: FrontEndSettings,
        *,
        min_count: int = 1,
        unknown: str | None = None,
    ) -> "FrontEnd":
        """Make the front end whose vocabulary is the words of (training) texts.

        Args:
            texts: read once, and only for a corrector or with `display`, whose words are written as
                most texts write them; pairs count with both their texts.
            settings: of the front end.
            min_count: rarer words are unknown.
            unknown: see the class.

        Raises:
            ValueError: no word is that frequent.
        """
        if settings.front_end != "spelling" and not settings.canonical.display:
            return cls(settings.canonical)
        written = replace(settings.canonical, display=False)
        counts: Counter[str] = Counter()
        for text in texts:
            for part in (text,) if isinstance(text, str) else text:
                counts.update(JOINED.findall(written(part)))
        plain = {word: _plain(settings.canonical(word)) for word in counts}
        totals: Counter[str] = Counter()
        for word, count in counts.items():
            # Spellings such as "don't" and "dont" are one word for `min_count`.
            totals[plain[word]] += count
        # Of the spellings of a word the most frequent one comes first.
        words = sorted(counts, key=lambda word: (-totals[plain[word]], -counts[word], word))
        if settings.front_end != "spelling":
            return cls.of_words(words, settings)
        words = [word for word in words if totals[plain[word]] >= min_count]
        if not words:
            msg = (
                f"got no word {min_count} times (min_count) for words.front_end=spelling, expected "
                "texts with words"
            )
            raise ValueError(msg)
        return cls.of_words(words, settings, unknown=unknown)

    @classmethod
    def of_words(
        cls, words: Iterable[str], settings: FrontEndSettings, *, unknown: str | None = None
    ) -> "FrontEnd":
        """Make the front end of a vocabulary, the most frequent word first.

        Of several spellings of a word the first counts; `unknown` is that of the class.
        """
        form, corrects = settings.canonical, settings.front_end == "spelling"
        if not corrects and not form.display:
            return cls(form)
        written: dict[str, str] = {}
        for word in words:
            for part in JOINED.findall(replace(form, display=False)(word)):
                read = form(part) if form.display else part
                written.setdefault(_plain(read) if corrects else read, part)
        spellings = {word: part for word, part in written.items() if word != part}
        if not corrects:
            return cls(form, spellings=spellings)
        corrector = Corrector(
            list(written), first=0, unknown=len(written), avoid=settings.uncorrected
        )
        return cls(
            settings.canonical,
            corrector,
            spellings=spellings,
            unknown=unknown,
            stop_words=settings.stop_words,
        )

    @property
    def kind(self) -> Literal["canonical", "spelling"]:
        """The setting `words.front_end`."""
        return "canonical" if self.corrector is None else "spelling"

    @property
    def word_settings(self) -> WordSettings:
        """The words of a text for which it writes others."""
        return WordSettings(
            split="clitics" if self.corrector is None else "joined",
            front_end=self.kind,
            canonical=self.form,
            stop_words=self.stop_words,
        )

    @property
    def words(self) -> list[str]:
        """The vocabulary as it is written, the most frequent word first.

        Without a corrector those words alone that are written otherwise than in `form`.
        """
        if self.corrector is None:
            return list(self.spellings.values())
        tokens = self.corrector.tokens[self.corrector.first :]
        return [self.spellings.get(token, token) for token in tokens]

    def __call__(self, text: str) -> str:
        """Return the text that the model reads."""
        read = self._texts.get(text)
        if read is None:
            read = self.form(text)
            if self.corrector is not None or self.spellings:
                read = JOINED.sub(lambda match: self.write(match[0]), read)
            # A text is encoded, located and corrected one after the other.
            if len(self._texts) >= REMEMBERED >> 6:
                self._texts.clear()
            self._texts[text] = read
        return read

    def read(self, text: Text) -> Text:
        """Return the text, or pair of texts, that the model reads."""
        return self(text) if isinstance(text, str) else (self(text[0]), self(text[1]))

    def id_of(self, word: str) -> int:
        """Return the id of a word without marks inside, corrected.

        Raises:
            ValueError: there is no corrector.
        """
        number = self._ids.get(word)
        if number is None:
            if self.corrector is None:
                msg = "got words.front_end=canonical, expected spelling to correct a word"
                raise ValueError(msg)
            # Unknown words repeat; a long-running service must not collect them for ever.
            if len(self._ids) >= REMEMBERED:
                self._ids.clear()
            number = self._ids[word] = self.corrector(word)
        return number

    def corrections(self, text: str) -> dict[str, str]:
        """Return the words of a text that are corrected, and what they become."""
        if self.corrector is None:
            return {}
        corrected = {}
        for word in JOINED.findall(self.form(text)):
            plain = _plain(word)
            number = self.id_of(plain)
            if number != self.corrector.unknown and self.corrector.tokens[number] != plain:
                corrected[word] = self.write(word)
        return corrected

    def locate(self, text: Text, spans: Sequence[Span]) -> list[Span]:
        """Return spans of `read(text)` as spans of `text`; in a corrected word, of the word."""
        origins = [self._origins(part) for part in ((text,) if isinstance(text, str) else text)]
        return [
            Span(at, origins[at][0][start], origins[at][1][end - 1])
            if start < end
            else Span(at, 0, 0)
            for at, start, end in spans
        ]

    def forget(self) -> None:
        """Drop what is remembered of former texts."""
        self._ids.clear()
        self._texts.clear()

    def state(self) -> dict[str, Any]:
        """Return plain values for `from_state`."""
        state: dict[str, Any] = {"front_end": self.kind, "canonical": self.form.state()}
        if self.corrector is None:
            return {**state, "words": self.words} if self.spellings else state
        return {**state, "words": self.words, "stop_words": self.stop_words}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], *, unknown: str | None = None) -> "FrontEnd":
        """Rebuild from `state()`.

        Raises:
            KeyError: the state is incomplete.
            ValueError: other values, or an option that this version does not know.
        """
        try:
            form = CanonicalForm(**state["canonical"])
            settings = FrontEndSettings(
                front_end=state["front_end"], canonical=form, stop_words=state.get("stop_words")
            )
            return cls.of_words(state.get("words", ()), settings, unknown=unknown)
        except (AttributeError, TypeError) as error:
            msg = f"got a front end that cannot be read ({error}), expected one of FrontEnd.state()"
            raise ValueError(msg) from error

    def write(self, word: str) -> str:
        """Return what the model reads in place of a word of the canonical form."""
        if self.corrector is None:
            return self.spellings.get(word, word)
        number = self.id_of(_plain(word))
        if number == self.corrector.unknown:
            return word if self.unknown is None else self.unknown
        token = self.corrector.tokens[number]
        return self.spellings.get(token, token)

    def _origins(self, text: str) -> tuple[list[int], list[int]]:
        """Return for each character of `front_end(text)` where its part of `text` starts, ends."""
        plain = self.form(text)
        starts = self.form.origins(text)
        ends = [start + 1 for start in starts]
        if self.corrector is None and not self.spellings:
            return starts, ends
        # From the end: a word of another length would shift the matches after it.
        for match in reversed(list(JOINED.finditer(plain))):
            written = self.write(match[0])
            if written != match[0]:
                first, last = match.span()
                size = len(written)
                # Letters of a corrected word have no origin of their own: each has that of the
                # whole word.
                starts[first:last] = [starts[first]] * size
                ends[first:last] = [ends[last - 1]] * size
        return starts, ends


def _plain(word: str) -> str:
    """Return a word without the marks inside."""
    return word if word.isalnum() else INNER.sub("", word)
