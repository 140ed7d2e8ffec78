"""Published attacks, and attacks on detectors, one file each: a new file here is a new recipe.

The comments of a recipe say where the paper, the code released with it, and TextAttack 0.3.11 ("the
reference") differ, and which way this code takes; `compat="textattack"` follows the reference.
Listing the names imports no recipe, and so no torch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from text.plugins import load_plugin, plugins

if TYPE_CHECKING:
    from attacks.composition import Attack
    from attacks.goals import Goal
    from attacks.recipe_parts import RecipeParts
    from attacks.recipe_settings import RecipeSettings
    from attacks.resources.catalogue import Resources

SIX = ("textfooler", "textbugger", "bae", "deepwordbug", "pwws", "a2t")
"""The recipes that `all` means, and that `attack/mean_accuracy` is a mean of."""
WORST = "worst"
"""Name of the ensemble; `worst:pwws,textfooler` names its recipes."""
CHEAPEST_FIRST = ("deepwordbug", "textbugger", "a2t", "bae", "textfooler", "pwws")
"""Recipes of the ensemble without names: those of `all`, in the order of their cost."""
NO_COUNTERPART = "it has no such attack"
OTHER_ENCODER = "another sentence encoder; ours is calibrated"

RANKED = ("ranking", "surrogate", "shortlist")
"""Settings of the recipes that rank the words of a text (`attacks.search.Greedy`)."""
OPTIONAL = (
    *("candidates", "word_similarity", "similarity", "fluency"),
    *("pool", "added_words", "side", "selection", "variants", "translations"),
    "paraphrases",
    *("edits", "positions", "p"),
    *RANKED,
    "causal_lm",
)
"""Settings that only some recipes have."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A published attack.

    Attributes:
        compose: makes the attack.
        needs: resources, by their names for `python -m steadfast resources`.
        settings: those of `OPTIONAL` that it has.
        differs: the difference that `compat="textattack"` leaves to TextAttack 0.3.11, may be "".
        refused: the reason against `compat="textattack"`; None if the recipe has it.
    """

    compose: "Callable[[RecipeParts], Attack]"
    needs: tuple[str, ...]
    settings: tuple[str, ...]
    differs: str
    refused: str | None


def recipe(
    *,
    needs: tuple[str, ...] = (),
    settings: tuple[str, ...] = (),
    differs: str = "",
    refused: str | None = None,
) -> "Callable[[Callable[[RecipeParts], Attack]], Recipe]":
    """Turn a function of a recipe's file into the recipe of that name; see `Recipe`."""
    return lambda compose: Recipe(
        compose=compose, needs=needs, settings=settings, differs=differs, refused=refused
    )


def recipe_names() -> list[str]:
    """Return the names of all recipes: those of the files, with `-` for `_`, and of plug-ins."""
    # Only lists the directory: no recipe is imported.
    own = [module.name.replace("_", "-") for module in iter_modules(__path__)]
    return [*own, *(name for name in plugins("steadfast.recipes") if name not in own)]


def is_ensemble(recipe: str) -> bool:
    """Return True for `worst` and `worst:NAMES`."""
    return recipe == WORST or recipe.startswith(f"{WORST}:")


def split_recipes(recipe: str) -> list[str]:
    """Return the attacks of a command: names, files, `all`, and an ensemble as the last one."""
    # The names of an ensemble have commas between, too: all names after it are its own.
    before, colon, listed = recipe.partition(f"{WORST}:")
    parts = [part.strip() for part in before.split(",")] if before or not colon else []
    return [*filter(None, parts), f"{WORST}:{listed}"] if colon else parts


def recipes_of(recipe: str) -> list[str]:
    """Return the names of the recipes of an ensemble, in the order in which they are tried.

    Raises:
        ValueError: no name, or a name twice.
    """
    _, colon, listed = recipe.partition(":")
    names = [name.strip() for name in listed.split(",")] if colon else [*CHEAPEST_FIRST]
    if not all(names) or len({*names}) < len(names) or any(map(is_ensemble, names)):
        msg = f"got {recipe!r}, expected different recipes with commas between: worst:pwws,a2t"
        raise ValueError(msg)
    return names


@cache
def find_recipe(name: str) -> Recipe:
    """Return a recipe by its name.

    Raises:
        ValueError: an unknown name, or a faulty plug-in.
    """
    names = recipe_names()
    if name not in names:
        msg = f"got recipe {name!r}, expected one of {', '.join(names)}"
        raise ValueError(msg)
    # File and function have the name of the recipe.
    stem = name.replace("-", "_")
    if find_spec(f"{__name__}.{stem}") is not None:
        chosen: Recipe = getattr(import_module(f"{__name__}.{stem}"), stem)
        return chosen
    loaded = load_plugin(plugins("steadfast.recipes")[name])
    if not isinstance(loaded, Recipe):
        msg = f"got plug-in {name}, which is a {type(loaded).__name__}, expected a recipe(...)"
        raise ValueError(msg)
    return loaded


def check_recipe(settings: "RecipeSettings") -> None:
    """Check that the recipe exists, and that it has the settings.

    Raises:
        ValueError: an unknown recipe, or a setting that it does not have.
    """
    name = settings.recipe
    available = find_recipe(name).settings
    if strange := [
        option
        for option in OPTIONAL
        if getattr(settings, option) is not None and option not in available
    ]:
        msg = (
            f"got {', '.join(strange)} for {name}, expected only what it has: "
            f"{', '.join(available) or 'nothing'}"
        )
        raise ValueError(msg)
    check_compat(name, settings)


def check_compat(name: str, settings: "RecipeSettings") -> None:
    """Check that a recipe can do as the reference does, if the settings ask for it.

    Raises:
        ValueError: it cannot, or not with these settings.
    """
    if settings.compat == "none":
        return
    chosen = find_recipe(name)
    if chosen.refused is not None:
        msg = (
            f"got compat textattack for {name}, expected none (--attack.compat none): TextAttack "
            f"0.3.11 is not repeated here: {chosen.refused}"
        )
        raise ValueError(msg)
    if changed := [option for option in RANKED if getattr(settings, option) is not None]:
        msg = (
            f"got compat textattack and {', '.join(changed)} for {name}, expected one or the "
            "other: TextAttack 0.3.11 has no such setting"
        )
        raise ValueError(msg)
    # The language model of the reference is another one.
    if "fluency" in chosen.settings and settings.fluency != 0:
        msg = (
            f"got compat textattack and fluency {settings.fluency} for {name}, expected fluency 0 "
            f"(--attack.fluency 0): TextAttack 0.3.11 has {chosen.differs}"
        )
        raise ValueError(msg)


def build(
    settings: "RecipeSettings", resources: "Resources | None" = None, *, goal: "Goal | None" = None
) -> "Attack":
    """Return the attack of some settings.

    Args:
        settings: recipe, and the changes to it.
        resources: word vectors and the like; those that the settings name if None.
        goal: any class but the gold one if None.

    Raises:
        ValueError: an unknown recipe, or a setting that it does not have.
        ResourceError: something is missing.
    """
    from attacks.goals import make_goal
    from attacks.recipe_parts import RecipeParts
    from attacks.resources.catalogue import ResourceError, Resources

    check_recipe(settings)
    chosen = find_recipe(settings.recipe)
    try:
        parts = RecipeParts(resources or Resources.of(settings), settings)
        attack = chosen.compose(parts)
    except ResourceError as error:
        # Resources that the settings switch off are not listed.
        spared = set()
        if settings.similarity == 0:
            spared.add("sentence-encoder")
        if settings.fluency == 0 and "fluency" in chosen.settings:
            spared.add("masked-lm")
        needs = [need for need in chosen.needs if need not in spared]
        if len(needs) == 1:
            raise
        msg = (
            f"{error}; all that {settings.recipe} needs: "
            f"`python -m steadfast resources {' '.join(needs)}`"
        )
        raise ResourceError(msg) from error
    return attack.aiming(goal or make_goal(score=settings.score, compat=parts.compat))
