"""The settings of the command `attack`, and the attacks that they select."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from attacks.composition import Attack
from attacks.engine import Limits
from attacks.goals import make_goal
from attacks.recipe_settings import RecipeSettings
from attacks.threat_settings import ThreatSettings
from datamodules.labelled import Split
from run_files.shard import Shard
from run_files.shipped import settings_file
from text import check_range
from text.bounded_files import DataError, read_yaml

if TYPE_CHECKING:
    import torch

    from attacks.resources.catalogue import Resources

SIX = ("textfooler", "textbugger", "bae", "deepwordbug", "pwws", "a2t")
"""The recipes that `all` stands for."""
_OF_RECIPES = ("similarity", "word_similarity", "candidates", "fluency", "language", "columns")
"""Settings of recipes; the first four of some of them."""
_OF_RESOURCES = {
    "neighbours": "vectors",
    "sentence-encoder": "sentence_encoder",
    "masked-lm": "masked_lm",
}
"""Settings of the paths of resources, by the names of `attacks.recipes.Recipe.needs`."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FILES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, kw_only=True)
class AttackSettings(RecipeSettings, Limits):
    """Settings of the command `attack`.

    Attributes:
        num_samples: number of samples of the split; all if not given. More of them later go on from
            those that are done.
        choice: choice of the samples: drawn once and for all (the same for every model and attack,
            and the first 100 of 1000 are the 100), or the `first` ones of the file.
        split: split that the samples are from.
        goal: `untargeted`, any class but the gold one; or the name or index of the class to reach.
        seed: seed of random replacements; each sample has its own, made of this and its id.
        tag: file the outcome as RECIPE-TAG, beside that of the same recipe with other settings.
        show: print so many adversarial pairs at the end.
        html: write all pairs side by side to RUN/attacks/RECIPE.html.
        threat: the set of texts of a certificate, inside which the attack has to stay.
        validity: also count the adversarial texts that still say the same, by what WordNet and the
            sentence encoder know; `attack validity` does more (docs/attacks/validity.md).
        shard: I/N: attack every N-th of these samples from the I-th on, with files of its own;
            `attack merge` makes one attack of all N.
    """

    num_samples: int | None = None
    choice: Literal["drawn", "first"] = "drawn"
    split: Split = "test"
    goal: str | int = "untargeted"
    seed: int = 0
    tag: str | None = None
    show: int = 0
    html: bool = True
    threat: ThreatSettings = field(default=ThreatSettings())
    validity: bool = False
    shard: str | None = None

    def __post_init__(self) -> None:
        """Checks what needs no model.

        Raises:
            ValueError: a number out of its range, a tag that is no part of a file's name, or a
                shard that is none.
        """
        super().__post_init__()
        if isinstance(self.threat, Mapping):  # of a command line that is read, but not built
            object.__setattr__(self, "threat", ThreatSettings(**self.threat))
        check_range({"num_samples": self.num_samples}, least=1)
        check_range({"show": self.show, "seed": self.seed}, least=0)
        if self.tag is not None and not _NAME.fullmatch(self.tag):
            msg = f"got tag {self.tag!r}, expected letters, digits and . _ -"
            raise ValueError(msg)
        if self.shard is not None:
            Shard.of(self.shard)

    def about(self) -> dict[str, Any]:
        """Returns what every outcome depends on: neither speed nor number of samples.

        Beside it, the outcome of one attack depends on `Planned.about`.
        """
        return {
            "goal": str(self.goal),
            "score": make_goal(score=self.score, compat=self.compat).score,
            "compat": self.compat,
            "seed": self.seed,
            "query_budget": self.query_budget,
            "budget_per_word": self.budget_per_word,
            "split": self.split,
            "choice": self.choice,
        }

    def options(self) -> dict[str, Any]:
        """Returns the settings that some attacks have, as far as they are given."""
        every = {name: getattr(self, name) for name in (*_OF_RECIPES, *_OF_RESOURCES.values())}
        return {name: value for name, value in every.items() if value is not None}

    def target(self, class_names: Sequence[str]) -> int | None:
        """Returns the class to reach, if there is one.

        Raises:
            ValueError: the model has no such class.
        """
        goal = str(self.goal)
        if goal == "untargeted":
            return None
        if goal in class_names:
            return class_names.index(goal)
        if goal.isascii() and goal.isdigit() and int(goal) < len(class_names):
            return int(goal)
        known = ", ".join(f"{i} ({name})" for i, name in enumerate(class_names))
        msg = f"got goal {goal!r}, expected `untargeted` or one of the classes: {known}"
        raise ValueError(msg)


class Planned(NamedTuple):
    """One attack of a command.

    Attributes:
        name: of its files.
        attack: the composition; its goal is untargeted as long as the model is not known.
        about: its recipe and settings, which the next start compares.
        options: of `AttackSettings.options`, those that it has.
        goal_given: True if the composition has a goal of its own.
    """

    name: str
    attack: Attack
    about: Mapping[str, Any]
    options: Mapping[str, Any]
    goal_given: bool


def plan(settings: AttackSettings, *, device: "torch.device | None" = None) -> list[Planned]:
    """Builds all attacks of a command before the first begins, so that errors come early.

    Args:
        settings: of the command.
        device: where models of attacks compute; the GPU if there is one.

    Raises:
        ValueError: an unknown recipe, a composition that is none, or a setting that none of them
            has.
        ResourceError: word vectors or the like are missing.
    """
    from transformers.utils import logging

    from attacks.resources.catalogue import Resources

    if not sys.stderr.isatty():
        # That of loading weights does not look for one.
        logging.disable_progress_bar()  # type: ignore[no-untyped-call] # has no annotations
    resources = Resources.of(settings, device=device)
    has = {name: _has(name) for name in _names(settings.recipe)}
    _check_options(settings, has)
    planned = [_planned(name, has[name], settings, resources) for name in has]
    return list({one.name: one for one in planned}.values())


def check_attacks(settings: AttackSettings) -> None:
    """Checks the names of the attacks and which settings they have, without resources.

    Args:
        settings: of the command.

    Raises:
        ValueError: an unknown recipe, a file that is no attack, a setting that none of them has, or
            `compat` for a recipe without it.
    """
    file_names(settings.recipe, settings.tag)
    _check_options(settings, {name: _has(name) for name in _names(settings.recipe)})


def _check_options(settings: AttackSettings, has: Mapping[str, Sequence[str]]) -> None:
    """Checks that each option belongs to one of the attacks."""
    from attacks import recipes

    known = recipes.recipe_names()
    for name in has:
        if name in known:
            recipes.check_compat(name, settings)
    for key, value in settings.options().items():
        if not any(key in every for every in has.values()):
            own = "; an attack of your own has it in its file" if set(has) - set(known) else ""
            msg = (
                f"got {key} {value} for {', '.join(has)}, expected it for one of "
                f"{', '.join(one for one in known if key in _has(one))}{own}"
            )
            raise ValueError(msg)


def _planned(
    name: str, has: Sequence[str], settings: AttackSettings, resources: "Resources"
) -> Planned:
    """Builds an attack with those options that it has."""
    from attacks import recipes

    options = {key: value for key, value in settings.options().items() if key in has}
    about = {key: options.get(key) for key in has}
    # The columns of the corpus have that name.
    about["attacked_columns"] = about.pop("columns", None)
    if name in recipes.recipe_names():
        changed: dict[str, Any] = {key: options.get(key) for key in _OF_RECIPES}
        attack = recipes.build(replace(settings, recipe=name, **changed), resources)
        about, given = {"recipe": name, **about}, False
    else:
        attack, spec = _composed(name, resources, settings)
        about, given = {"recipe": spec, **about}, "goal" in spec
    filed = attack.name if settings.tag is None else f"{attack.name}-{settings.tag}"
    return Planned(filed, attack, about, options, goal_given=given)


def _has(name: str) -> tuple[str, ...]:
    """Returns the `AttackSettings.options` that an attack has; a file has its own for the rest."""
    from attacks import recipes

    if name not in recipes.recipe_names():
        if not name.endswith(_FILES):
            msg = (
                f"got attack {name!r}, expected all, one of {', '.join(recipes.recipe_names())}, "
                "or a YAML file with an attack of your own"
            )
            raise ValueError(msg)
        return tuple(_OF_RESOURCES.values())
    recipe = recipes.find_recipe(name)
    needs = [key for resource, key in _OF_RESOURCES.items() if resource in recipe.needs]
    return (*recipe.settings, "language", "columns", *needs)


def _names(recipe: str) -> list[str]:
    """Returns the names of recipes and files, in their order."""
    parts = [part.strip() for part in recipe.split(",")]
    return [name for part in parts for name in (SIX if part == "all" else (part,))]


def file_names(recipe: str, tag: str | None) -> list[str]:
    """Returns the names that attacks are filed under, without building them.

    Args:
        recipe: as for the command.
        tag: of their files.

    Raises:
        ValueError: a file that is no attack.
    """
    names = []
    for name in _names(recipe):
        known = str(_spec(name)["name"]) if name.endswith(_FILES) else name
        names.append(known if tag is None else f"{known}-{tag}")
    return names


def _composed(
    path: str, resources: "Resources", settings: AttackSettings
) -> tuple[Attack, dict[str, Any]]:
    """Returns the attack of a file, and the content of the file."""
    from measure.compose import compose

    spec = _spec(path)
    if "goal" in spec and (settings.score is not None or str(settings.goal) != "untargeted"):
        msg = (
            f"got --attack.goal {settings.goal} and --attack.score {settings.score} for {path}, "
            "which has a goal of its own, expected one of the two: leave the settings out, or goal "
            "in the file"
        )
        raise ValueError(msg)
    goal = make_goal(score=settings.score, compat=settings.compat)
    return compose(spec, resources, compat=settings.compat, goal=goal), spec


def _spec(path: str) -> dict[str, Any]:
    """Returns the content of a file with an attack; it always has a name."""
    try:
        file = settings_file(path, folder="attack")
    except ValueError as error:
        msg = str(error).replace("got ", "got attack ", 1)
        raise ValueError(msg) from error
    try:
        spec = read_yaml(file, "an attack like configs/attack/custom.yaml")
    except DataError as error:
        msg = f"got {path}, which is no YAML: {error}"
        raise ValueError(msg) from error
    if isinstance(spec, dict):
        spec = {"name": Path(path).stem, **spec}
    if not isinstance(spec, dict) or not _NAME.fullmatch(str(spec["name"])):
        msg = (
            f"got {path} as an attack, expected name (letters, digits and . _ -), transformation, "
            "search and what else configs/attack/custom.yaml has"
        )
        raise ValueError(msg)
    return spec


def applied(settings: AttackSettings, planned: Sequence[Planned]) -> list[str]:
    """Returns a line for each setting of some attacks only: the names of these attacks.

    Args:
        settings: of the command.
        planned: its attacks.
    """
    lines = []
    for key, value in settings.options().items():
        takers = [one.name for one in planned if key in one.options]
        others = [one.name for one in planned if key not in one.options]
        without = f"; {', '.join(others)} without it" if others else ""
        lines.append(f"{key} {value} applies to {', '.join(takers)}{without}")
    return lines
