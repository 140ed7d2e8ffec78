"""Names under which attacks are filed."""

from pathlib import Path
from typing import Any

from attacks.recipes import SIX, WORST, is_ensemble, recipes_of, split_recipes
from run_files.ledger import NAME
from run_files.shipped import settings_file
from text.bounded_files import DataError, read_yaml

FILES = (".yaml", ".yml", ".json")
"""Ends of the names of files with attacks."""


def attack_names(recipe: str) -> list[str]:
    """Return the names of recipes and files, in their order."""
    return [name for part in split_recipes(recipe) for name in (SIX if part == "all" else (part,))]


def file_names(recipe: str, tag: str | None) -> list[str]:
    """Return the names of the files of the attacks in `recipe`, without building the attacks.

    Raises:
        ValueError: a malformed file of an attack.
    """
    names = []
    for name in attack_names(recipe):
        stem = name
        if is_ensemble(name):
            recipes_of(name)  # checks the names
            stem = WORST
        elif name.endswith(FILES):
            stem = str(read_attack(name)["name"])
        names.append(stem if tag is None else f"{stem}-{tag}")
    return names


def read_attack(path: str) -> dict[str, Any]:
    """Return the content of a file with an attack; it always has a name."""
    try:
        file = settings_file(path, folder="attack")
    except ValueError as error:
        msg = str(error).replace("got ", "got attack ", 1)
        raise ValueError(msg) from error
    try:
        spec = read_yaml(file, "an attack like configs/attack/custom.yaml")
    except DataError as error:
        msg = f"got {path}, which is not valid YAML: {error}"
        raise ValueError(msg) from error
    if isinstance(spec, dict):
        # A `name` in the file overrides the name of the file.
        spec = {"name": Path(path).stem, **spec}
    if not isinstance(spec, dict) or not NAME.fullmatch(str(spec["name"])):
        msg = (
            f"got {path} as an attack, expected name (letters, digits and . _ -), transformation, "
            "search and what else configs/attack/custom.yaml has"
        )
        raise ValueError(msg)
    return spec
