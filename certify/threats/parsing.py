"""Threats by their names; `attacks.word_sets` adds those of perturbation sets."""

from certify.threats.character_edits import Characters
from certify.threats.l2_ball import L2
from certify.threats.synonym_lists import Synonyms
from certify.threats.threat import Threat
from certify.threats.word_edits import WordEditDistance
from text.word_settings import WordSettings

THREATS: dict[str, type[Threat]] = {
    "synonyms": Synonyms,
    "characters": Characters,
    "words": WordEditDistance,
    "l2": L2,
}


def parse_k(value: str) -> int | None:
    """Return a number of changes, None for `all`; a ValueError for anything else."""
    if value == "all":
        return None
    if not value.isdecimal():
        msg = f"got k={value}, expected an integer of at least 0, or all"
        raise ValueError(msg)
    return int(value)


def parse_threat(
    name: str, *, lists: str | None, k: int | None, words: WordSettings = WordSettings()
) -> Threat:
    """Return a threat of `THREATS`.

    `attacks.word_sets.find_threat` reads `--threat`: these names, and those of perturbation sets.

    Args:
        name: one of `THREATS`.
        lists: file of synonyms, for `synonyms` alone.
        k: number of changes; None for any number.
        words: the words of the model.

    Raises:
        ValueError: an unknown name, a file too many or too few, or one that is broken.
    """
    if name not in THREATS:
        msg = f"got threat {name!r}, expected one of {', '.join(THREATS)}"
        raise ValueError(msg)
    if (lists is not None) != (name == "synonyms"):
        kind = "lists" if lists is not None else "no lists"
        msg = (
            f"got {kind} for {name}, expected a file of lists for synonyms (--lists FILE), and "
            "only for them"
        )
        raise ValueError(msg)
    if lists is not None:
        return Synonyms.read(lists, k=k, words=words)
    return THREATS[name](k=k, words=words)
