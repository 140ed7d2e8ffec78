"""The one object that knows what TextAttack 0.3.11 ("the reference") does differently."""

from enum import StrEnum
from typing import Literal

CompatName = Literal["none", "textattack"]


class _Deviation:
    """True if the reference is reproduced."""

    def __get__(self, compat: object, owner: type) -> bool:
        return compat == "textattack"


class _Deviations:
    """Deviations of the reference that recipes, parts and engine ask for by name.

    They live in a class of their own: in the body of an enumeration they would look like members.
    """

    reference = _Deviation()
    """All at once; for deviations of a single recipe, search or transformation, explained there."""

    # Words that may be replaced
    case_sensitive_stop_words = _Deviation()
    """ "The" is not the stop word "the"."""
    rewrites_premises = _Deviation()
    """All texts of a pair are rewritten, with two recipes that keep the premise."""

    # Candidates
    unfiltered_neighbours = _Deviation()
    """Neighbours of a word may be marks (","), or several words."""
    unchanged_synonyms = _Deviation()
    """Synonyms keep the case of WordNet: a sentence may begin with a small letter."""
    keeps_space_of_deleted = _Deviation()
    """Deleting the last word of a text leaves the space before it."""
    repeats_candidates = _Deviation()
    """The victim is asked again about equal candidates."""

    # Constraints
    tags_original_text = _Deviation()
    """A tagger sees a word in the original text, and its first occurrence there gets the tag."""
    compares_by_position = _Deviation()
    """Words are compared one by one: all words after an insertion count as changed."""
    joins_pairs = _Deviation()
    """A sentence encoder sees both texts of a pair as one."""
    squares_thought_distance = _Deviation()
    """The bound of thought vectors is one of the squared distance, in single precision."""

    # Victim and goal
    probability_scores = _Deviation()
    """A search follows the probability of the gold class instead of the margin."""
    rows_as_probabilities = _Deviation()
    """Rows of the victim that sum to 1 are probabilities."""
    gradients_with_dropout = _Deviation()
    """Words are ranked by gradients in training mode."""


class Compat(_Deviations, StrEnum):
    """The program that an attack reproduces; made once, of the setting `compat`."""

    NONE = "none"
    TEXTATTACK = "textattack"

    @classmethod
    def _missing_(cls, value: object) -> "Compat":
        msg = f"got compat {value!r}, expected {' or '.join(cls)}"
        raise ValueError(msg)
