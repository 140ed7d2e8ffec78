"""Names of perturbation sets, as options and settings give them. Checking them reads nothing."""

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from attacks.recipes import recipe_names

if TYPE_CHECKING:
    from attacks.recipe_settings import Language

OWN_SETS = (
    *("canonical", "wordnet", "wordnet-pos", "neighbours", "inflections"),
    *("typos", "typos-splits", "typos-keyboard", "typos-inner", "delete", "insert"),
)
"""Sets without a recipe."""
ADDED = ("append", "append-glued", "append-lines", "insert-any")
"""Additions of text, in front of the names of sets or alone."""
AND = "-and-"
"""Between sets that change the same word one after another."""
LANGUAGES: dict[str, tuple["Language", ...]] = {
    **dict.fromkeys(("wordnet", "wordnet-pos", "inflections"), ("english",)),
    **dict.fromkeys(
        ("typos-keyboard", "delete", "insert"), ("english", "german", "french", "spanish")
    ),
}
"""Languages with resources, by the sets that depend on one."""


class SetName(NamedTuple):
    """A name of a perturbation set.

    Attributes:
        kind: one of `OWN_SETS`, a recipe or a file.
        number: of neighbours.
        cosine: least cosine of neighbours; None for any.
        language: of words and keyboards.
    """

    kind: str
    number: int = 50
    cosine: float | None = None
    language: "Language" = "english"


def read_name(name: str) -> SetName:
    """Return the parts of a name; nothing is read.

    Raises:
        ValueError: the set does not exist.
    """
    if is_file(name) or name in (*OWN_SETS, *recipe_names()):
        return SetName(name)
    head, at, cosine = name.partition("@")
    kind, colon, argument = head.partition(":")
    if kind in LANGUAGES and colon and not at:
        language = next((name for name in LANGUAGES[kind] if name == argument), None)
        if language is None:
            msg = (
                f"got {name}, a language without resources, expected one of "
                f"{', '.join(LANGUAGES[kind])}, or a JSON file of lists"
            )
            raise ValueError(msg)
        return SetName(kind, language=language)
    fits = argument.isdecimal() and int(argument) > 0 if colon else True
    if kind == "neighbours" and fits and (not at or _is_cosine(cosine)):
        return SetName(kind, int(argument or 50), float(cosine) if at else None)
    near = get_close_matches(kind, (*OWN_SETS, *recipe_names()), n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    msg = (
        f"got perturbation set {name!r}{hint}, expected recipes ({', '.join(recipe_names())}), "
        f"{', '.join(OWN_SETS)}, neighbours:N, neighbours:N@COSINE, or a JSON file of lists"
    )
    raise ValueError(msg)


def _is_cosine(text: str) -> bool:
    try:
        return -1 <= float(text) <= 1
    except ValueError:
        return False


def check_threat(names: str) -> None:
    """Raise ValueError for names that `find_threat` does not have; nothing is read."""
    first, comma, rest = names.partition(",")
    added = first.strip() in ADDED
    if comma or not added:
        check_names(rest if added else names)


def check_names(names: str) -> None:
    """Raise ValueError for a name that `find_sets` does not have; nothing is read."""
    for name in map(str.strip, names.split(",")):
        *firsts, last = map(read_name, name.split(AND))
        for part in firsts:
            if part.kind.startswith("typos") or part.kind in ("canonical", "delete", "insert"):
                msg = (
                    f"got {name}, expected a set of words before {AND}: wordnet, wordnet-pos, "
                    "neighbours, inflections, a recipe of synonyms or a JSON file of lists"
                )
                raise ValueError(msg)
        for part in [*firsts[1:], *([last] if firsts else [])]:
            if part.kind in ("canonical", "wordnet-pos"):
                msg = f"got {name}, expected {part.kind} first or alone"
                raise ValueError(msg)


def is_file(name: str) -> bool:
    """Return True for the name of a file of lists."""
    return Path(name).suffix in (".json", ".gz")


def file_title(name: str) -> str:
    """Return the name of the set of a file: without folders and endings."""
    return Path(name).name.partition(".")[0]


def title(names: str) -> str:
    """Return the names in names of files and figures: `pwws+typos` of `pwws,typos`."""
    return "+".join(
        AND.join(file_title(part) if is_file(part) else part for part in name.strip().split(AND))
        for name in names.split(",")
    )
