"""Replaces words by their other inflected forms.

Source: Tan et al., "It's Morphin' Time! Combating Linguistic Discrimination with Inflectional
Perturbations", 2020, section 3.
"""

from random import Random

from attacks.resources.inflected import Inflected
from attacks.transformations.case import in_case_of
from attacks.transformations.word_swap import WordSwap


class Inflect(WordSwap):
    """Replaces a noun, verb or adjective by the other forms of its base form.

    Paper and reference take the forms of LemmInflect and the part of speech of a tagger. Here all
    forms of all parts of speech that a word may have are proposed, by WordNet's irregular forms and
    the rules of English.

    Args:
        inflected: finds the forms.
    """

    span = "listed"

    def __init__(self, inflected: Inflected) -> None:
        self.inflected = inflected

    def replacements(self, word: str, random: Random) -> list[str]:
        """See `WordSwap`."""
        forms = (in_case_of(form, word) for form in self.inflected.of(word.lower()))
        return [form for form in dict.fromkeys(forms) if form != word]
