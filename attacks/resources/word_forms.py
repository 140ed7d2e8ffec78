"""Reads WordNet's words and their base forms from its database files.

The files (`index.*`, `*.exc`; the manual page wndb(5WN) describes them) are those that nltk
distributes as `wordnet.zip`.
"""

from collections.abc import Sequence
from pathlib import Path

from attacks.digests import content_digest, digest
from attacks.resources.archive import BrokenFile, member

PARTS = ("noun", "verb", "adj", "adv")

# Endings and their replacements, which give the base form; see morphy(7WN).
_ENDINGS = {
    "noun": "s: ses:s ves:f xes:x zes:z ches:ch shes:sh men:man ies:y",
    "verb": "s: ies:y es:e es: ed:e ed: ing:e ing:",
    "adj": "er: est: er:e est:e",
    "adv": "",
}
DETACHMENT = {part: [rule.split(":") for rule in rules.split()] for part, rules in _ENDINGS.items()}


class WordForms:
    """Knows the words of a folder `wordnet`, or of `wordnet.zip`, and their base forms.

    Raises:
        BrokenFile: it is not WordNet's database.
    """

    def __init__(self, path: str | Path, parts: Sequence[str] = PARTS) -> None:
        self.place = Path(path)
        self._index: dict[str, dict[bytes, bytes]] = {}
        self._exceptions: dict[str, dict[str, list[str]]] = {}
        for part in parts:
            self._index[part] = {
                line.partition(b" ")[0]: line
                for line in member(self.place, f"index.{part}").split(b"\n")
                # The licence at the head is indented.
                if line and not line.startswith(b" ")
            }
            exceptions = (
                line.split()
                for line in member(self.place, f"{part}.exc").decode("utf-8", "replace").split("\n")
            )
            self._exceptions[part] = {form[0]: form[1:] for form in exceptions if form}
        if not self._index["noun"]:
            msg = f"{self.place}: got no nouns in it, expected WordNet's database files"
            raise BrokenFile(msg)

    def about(self) -> dict[str, str]:
        """See `attacks.fingerprint`."""
        words = (word for words in self._index.values() for word in words)
        return {"digest": digest([*words, content_digest(self._exceptions)])}

    def exceptions(self, part: str) -> dict[str, list[str]]:
        """Return the base forms of each irregular form of a part of speech."""
        return self._exceptions[part]

    def forms(self, lemma: str, part: str) -> list[str]:
        """Return the known forms of a word: the word itself, then its base forms."""
        base = self._exceptions[part].get(lemma)
        if base is None:
            base = [
                lemma.removesuffix(old) + new
                for old, new in DETACHMENT[part]
                if lemma.endswith(old)
            ]
        index = self._index[part]
        return [form for form in dict.fromkeys((lemma, *base)) if form.encode() in index]
