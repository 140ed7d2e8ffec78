"""Names of perturbation sets, as options and settings give them. Checking them reads nothing."""

from pathlib import Path

from attacks.recipes import recipe_names

OWN_SETS = ("wordnet", "neighbours", "inflections", "typos", "typos-splits")
"""Sets without a recipe."""


def check_names(names: str) -> None:
    """Raise ValueError for a name that `find_sets` does not have; nothing is read."""
    for name in map(str.strip, names.split(",")):
        kind, _, number = name.partition(":")
        ranked = kind == "neighbours" and number.isdecimal() and int(number) > 0
        if not ranked and name not in (*OWN_SETS, *recipe_names()) and not is_file(name):
            msg = (
                f"got perturbation set {name!r}, expected recipes ({', '.join(recipe_names())}), "
                f"{', '.join(OWN_SETS)}, neighbours:N, or a JSON file of lists"
            )
            raise ValueError(msg)


def is_file(name: str) -> bool:
    """Return True for the name of a file of lists."""
    return Path(name).suffix in (".json", ".gz")


def file_title(name: str) -> str:
    """Return the name of the set of a file: without folders and endings."""
    return Path(name).name.partition(".")[0]


def title(names: str) -> str:
    """Return the names in names of files and figures: `pwws+typos` of `pwws,typos`."""
    parts = map(str.strip, names.split(","))
    return "+".join(file_title(name) if is_file(name) else name for name in parts)
