"""Finds the base forms of words as NLTK's `WordNetLemmatizer` does, with or without a tagger.

Source: Bird, Klein, Loper, "Natural Language Processing with Python" (2009), section 3.6. Of the
known forms of a word the shortest is its lemma; a word without known form does not change.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from attacks.digests import content_digest
from attacks.resources.catalogue import ResourceError, Resources, resources_named
from attacks.resources.tagger import Tagger
from attacks.resources.word_forms import PARTS, WordForms
from text import WordSettings

PARTS_OF_TAGS = {"NOUN": "noun", "VERB": "verb", "ADJ": "adj", "ADV": "adv"}
"""Parts of speech in WordNet, by universal tags. Words of others have no forms there."""


class Lemmas:
    """Finds base forms, see `text.Lemmatizer`; without a tagger, every word is a noun."""

    def __init__(self, forms: WordForms, tagger: Tagger | None = None) -> None:
        self.tags = tagger is not None
        self._tagger = tagger
        self.digest = content_digest([part.about() for part in (forms, tagger) if part is not None])
        # Attacks ask for the same words again and again, and for many that are in no dictionary.
        self._lemma = lru_cache(maxsize=1 << 17)(
            lambda word, part: min(forms.forms(word, part), key=len, default=word)
        )

    def lemmas(
        self, words: Sequence[str], sentence: Sequence[str], positions: Sequence[int]
    ) -> list[str]:
        """See `text.Lemmatizer`."""
        if self._tagger is None:
            return [self._lemma(word, "noun") for word in words]
        tags = self._tagger.tag(sentence)
        parts = (PARTS_OF_TAGS.get(tags[position]) for position in positions)
        return [
            word if part is None else self._lemma(word, part)
            for word, part in zip(words, parts, strict=True)
        ]


def find_lemmas(settings: WordSettings) -> Lemmas:
    """Return the lemmatiser that some settings ask for.

    Raises:
        ResourceError: WordNet, the tagger or the folder is missing.
        BrokenFile: one of them has wrong content.
    """
    tagged = settings.lemmas == "part_of_speech"
    try:
        with resources_named("--model.words.resources, NLTK_DATA"):
            resources = Resources(settings.resources)
            return _read(resources.wordnet_place(), resources.tagger_place() if tagged else None)
    except ResourceError as error:
        needed = "WordNet and the part-of-speech tagger" if tagged else "WordNet"
        msg = f"words.lemmas={settings.lemmas} needs {needed}, also to predict: {error}"
        raise ResourceError(msg) from error


def find_lemmas_again(settings: WordSettings) -> Lemmas:
    """Return the lemmatiser of a checkpoint, whose folder may be that of another machine.

    Raises:
        ResourceError: see `find_lemmas`.
        BrokenFile: see `find_lemmas`.
    """
    # The folder of the training machine may be missing here.
    gone = settings.resources is not None and not Path(settings.resources).is_dir()
    return find_lemmas(replace(settings, resources=None) if gone else settings)


@lru_cache(maxsize=4)
def _read(wordnet: Path, tagger: Path | None) -> Lemmas:
    """Read each place once in a process."""
    forms = WordForms(wordnet, ("noun",) if tagger is None else PARTS)
    return Lemmas(forms, None if tagger is None else Tagger.read(tagger))
