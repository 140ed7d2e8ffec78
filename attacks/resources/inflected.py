"""Finds the inflected forms of English words: irregular ones of WordNet, others by rule."""

import re
from functools import lru_cache

from attacks.resources.word_forms import WordForms

_VOWELS = "aeiou"
_SHORT = re.compile(r"[^aeiou]*[aeiou][^aeiouwxy]")
"""One syllable that ends with one vowel and one consonant: its last letter is doubled."""
_PARTS = ("noun", "verb", "adj")


class Inflected:
    """Finds all forms of a word, by WordNet's words and irregular forms."""

    def __init__(self, forms: WordForms) -> None:
        self._forms = forms
        self._irregular: dict[str, dict[str, list[str]]] = {part: {} for part in _PARTS}
        for part in _PARTS:
            for form, bases in forms.exceptions(part).items():
                for base in bases:
                    self._irregular[part].setdefault(base, []).append(form)
        self.of = lru_cache(maxsize=1 << 15)(self._of)

    def about(self) -> dict[str, str]:
        """See `attacks.fingerprint`."""
        return self._forms.about()

    def _of(self, word: str) -> tuple[str, ...]:
        """Return the forms of a lower-case word in the order of the alphabet, without itself."""
        forms: set[str] = set()
        for part in _PARTS:
            for base in self._forms.forms(word, part):
                # All parts of speech: the text does not tell which one is meant.
                forms |= {base, *self.made(base, part)}
        return tuple(sorted(form for form in forms - {word} if form.isalpha()))

    def made(self, base: str, part: str) -> list[str]:
        """Return the forms of a base form, in lower case, as a `noun`, `verb` or `adj`."""
        irregular = sorted(self._irregular[part].get(base, ()))
        if part == "noun":
            return irregular or [_with_s(base)]
        if part == "adj":
            short = len(re.findall(f"[{_VOWELS}y]+", base.removesuffix("e"))) == 1
            regular = [_joined(base, "er"), _joined(base, "est")]
            return irregular or (regular if short or base.endswith("y") else [])
        present = [form for form in irregular if form.endswith("s")] or [_with_s(base, "sxzo")]
        lasting = [form for form in irregular if form.endswith("ing")] or [_joined(base, "ing")]
        past = [form for form in irregular if not form.endswith(("s", "ing"))]
        return [*present, *lasting, *(past or [_joined(base, "ed")])]


def _with_s(base: str, hissing: str = "sxz") -> str:
    if base.endswith((*hissing, "ch", "sh")) and not base.endswith("oo"):
        return f"{base}es"
    if base.endswith("y") and base[-2:-1] not in _VOWELS:
        return f"{base[:-1]}ies"
    return f"{base}s"


def _joined(base: str, ending: str) -> str:
    """Return a word with an ending that begins with a vowel."""
    if base.endswith("ie") and ending == "ing":
        return f"{base[:-2]}ying"
    if base.endswith("e") and not (base.endswith(("ee", "oe", "ye")) and ending == "ing"):
        return base[:-1] + ending
    if base.endswith("y") and base[-2:-1] not in _VOWELS and ending != "ing":
        return f"{base[:-1]}i{ending}"
    return base + base[-1] * bool(_SHORT.fullmatch(base)) + ending
