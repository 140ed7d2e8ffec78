"""The settings of the words that a text is split into, and the interface of lemmatisers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

from text.canonical import CanonicalForm
from text.checks import check_choice
from text.stop_words import LISTS, StopWordList

FRONT_ENDS = ("none", "canonical", "spelling")


@dataclass(frozen=True, kw_only=True)
class FrontEndSettings:
    """The front end: what happens to a text before the model reads it.

    Attributes:
        front_end: none: nothing; canonical: each character becomes the plain one that it looks
            like, and invisible ones go (`text.canonical`): capitals and accents are lost, also for
            a cased model; spelling: also, a word that is not in the vocabulary becomes the most
            frequent word of it within one edit, else an unknown word (`text.corrector`).
        stop_words: no word is corrected to a stop word of this list. Attacks leave stop words as
            they are, so that a misspelt word was another one. null: to any word.
        canonical: options of the canonical form; with any of them there is no certificate for
            words that are replaced (with `display` alone: but for typos).
    """

    front_end: Literal["none", "canonical", "spelling"] = "none"
    stop_words: StopWordList | None = None
    # No attribute of the class: certificates allow no callable ones but methods.
    canonical: CanonicalForm = field(default_factory=CanonicalForm)

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown choice."""
        check_choice("words.front_end", self.front_end, FRONT_ENDS)
        if self.stop_words is not None:
            check_choice("words.stop_words", self.stop_words, get_args(StopWordList))

    @property
    def uncorrected(self) -> frozenset[str]:
        """The words that no word is corrected to, without the marks inside."""
        words = frozenset[str]() if self.stop_words is None else LISTS[self.stop_words]
        if self.canonical.display:
            words = frozenset(map(self.canonical, words))
        return frozenset("".join(filter(str.isalnum, word)) for word in words)

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings without effect, each with the setting that disables it."""
        reasons = (
            {}
            if self.front_end == "spelling"
            else {"stop_words": f"words.front_end={self.front_end}"}
        )
        return reasons | ({"canonical": "words.front_end=none"} if self.front_end == "none" else {})


@dataclass(frozen=True, kw_only=True)
class WordSettings(FrontEndSettings):
    r"""The settings of the words of a text, the same in training, attacks and predictions.

    Attributes:
        split: the words of a text, in lower case. clitics: words, clitics (do, n't), numbers and
            punctuation; alphanumeric: runs of letters, digits and _, as NLTK's
            `RegexpTokenizer` finds them by \w+, without punctuation; ascii: runs of the letters a
            to z and digits, all else between words, so that one character never changes more
            than the words next to it; joined: runs of letters, digits and the marks inside a word
            (well-known, don't), the words of attacks; the model reads them without the marks.
        lemmas: base forms that replace the words. none: unchanged words; noun: NLTK's
            `WordNetLemmatizer`, which treats every word as a noun (was: wa); part_of_speech: by the
            part of speech in its sentence (was: be).
        resources: folder with WordNet and, for part_of_speech, the tagger, in the form that attacks
            read; the default folders are searched too (docs/attacks.md).
    """

    split: Literal["clitics", "alphanumeric", "ascii", "joined"] = "clitics"
    lemmas: Literal["none", "noun", "part_of_speech"] = "none"
    resources: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown choice."""
        super().__post_init__()
        check_choice("words.split", self.split, ("clitics", "alphanumeric", "ascii", "joined"))
        check_choice("words.lemmas", self.lemmas, ("none", "noun", "part_of_speech"))
        if self.lemmas != "none" and (
            self.split in ("ascii", "joined") or self.front_end != "none"
        ):
            msg = (
                f"got words.split={self.split} and words.front_end={self.front_end} with "
                f"words.lemmas={self.lemmas}, expected lemmas none"
            )
            raise ValueError(msg)
        if self.split == "joined" and self.front_end == "none":
            msg = "got words.split=joined without words.front_end, expected canonical or spelling"
            raise ValueError(msg)
        if self.front_end == "spelling" and self.split != "joined":
            msg = f"got words.front_end=spelling with words.split={self.split}, expected joined"
            raise ValueError(msg)

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings without effect, each with the setting that disables it."""
        own = {"resources": "words.lemmas=none"} if self.lemmas == "none" else {}
        return super().unused | own


class Lemmatizer(Protocol):
    """Finds the base forms of words.

    Attributes:
        digest: identifies the data that it reads.
        tags: True if it reads the sentence around a word.
    """

    digest: str
    tags: bool

    def lemmas(
        self, words: Sequence[str], sentence: Sequence[str], positions: Sequence[int], /
    ) -> list[str]:
        """Return the base form of each word.

        Args:
            words: n words in lower case.
            sentence: the tokens of the text, with their capitals; empty unless `tags`.
            positions: n indices of the words in `sentence`; empty unless `tags`.
        """
        ...
