"""Settings of the command `attack`, and the attacks that they select."""

import difflib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from attacks.composition import Attack
from attacks.engine import VERSION, Limits
from attacks.goals import Evade, Force, Goal, make_goal
from attacks.outcome import DETECTOR_GOALS
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import OPTIONAL, WORST, is_ensemble, recipes_of
from attacks.task_goals import EntitiesChanged, LabelsChanged, Moved, VictimTask
from attacks.threat_settings import ThreatSettings
from datamodules.labelled import Split
from measure.attack_names import FILES, attack_names, file_names, read_attack
from run_files.ledger import NAME
from run_files.shard import Shard
from text import check_range
from text.subjects import flat

if TYPE_CHECKING:
    import torch

    from attacks.resources.catalogue import Resources

_OF_RECIPES = (*OPTIONAL, "language", "columns")
"""Settings of recipes; all of them have the last two."""
_OF_RESOURCES = {
    "neighbours": "vectors",
    "sentence-encoder": "sentence_encoder",
    "masked-lm": "masked_lm",
}
"""Settings with the paths of resources, by the names in `attacks.recipes.Recipe.needs`."""


@dataclass(frozen=True, kw_only=True)
class AttackSettings(RecipeSettings, Limits):
    """Settings of the command `attack`.

    Attributes:
        num_samples: number of samples of the split; all if not given. A larger number resumes after
            the samples that are done.
        choice: choice of the samples: `drawn` by a fixed permutation (the same for every model and
            attack; the first 100 of 1000 are the 100), or the `first` ones of the file.
        split: split of the samples.
        goal: `untargeted`, any class but the gold one; or the name or index of the class to reach;
            or `evade`: texts of the positive class of a detector that are no longer detected; or
            `force`: false alarms, texts of the other classes that are detected.
        positive: class that a detector detects, by name or index, for the goals evade and force;
            that of the model if it is a detector.
        threshold: least probability of the positive class at which --victim detects; the largest
            probability decides if null.
        delta: how far an attack on a regression moves the predicted number, up or down.
        seed: seed of random replacements; a sample's own seed depends on this and on its id.
        tag: file the outcome as RECIPE-TAG, apart from the same recipe with other settings.
        show: number of adversarial pairs to print at the end.
        html: write all pairs side by side to RUN/attacks/RECIPE.html.
        csv: write all pairs to RUN/attacks/RECIPE.csv, in the columns of TextAttack's log.
        threat: the set of texts of a certificate, inside which the attack has to stay.
        validity: also count the adversarial texts that keep their meaning, by WordNet and the
            sentence encoder; `attack validity` has more checks (docs/attacks/validity.md).
        shard: I/N: attack every N-th of these samples from the I-th on, with files of its own;
            `attack merge` makes one attack of all N.
    """

    num_samples: int | None = None
    choice: Literal["drawn", "first"] = "drawn"
    split: Split = "test"
    goal: str | int = "untargeted"
    positive: str | int | None = None
    threshold: float | None = None
    delta: float | None = None
    seed: int = 0
    tag: str | None = None
    show: int = 0
    html: bool = True
    csv: bool = False
    threat: ThreatSettings = field(default=ThreatSettings())
    validity: bool = False
    shard: str | None = None

    def __post_init__(self) -> None:
        """Check the settings that do not depend on the model.

        Raises:
            ValueError: a number out of its range, or a malformed tag or shard.
        """
        super().__post_init__()
        if isinstance(self.threat, Mapping):  # a command line that is parsed but not instantiated
            # The dataclass is frozen.
            object.__setattr__(self, "threat", ThreatSettings(**self.threat))
        check_range({"num_samples": self.num_samples}, least=1)
        check_range({"show": self.show, "seed": self.seed}, least=0)
        check_range({"threshold": self.threshold}, above=0, below=1)
        check_range({"delta": self.delta}, above=0)
        if self.goal not in DETECTOR_GOALS and (self.positive, self.threshold) != (None, None):
            msg = (
                f"got goal {self.goal} with positive {self.positive} and threshold "
                f"{self.threshold}, expected these only with --attack.goal evade or force"
            )
            raise ValueError(msg)
        if self.tag is not None and not NAME.fullmatch(self.tag):
            msg = f"got tag {self.tag!r}, expected letters, digits and . _ -"
            raise ValueError(msg)
        if self.shard is not None:
            Shard.of(self.shard)

    def about(self) -> dict[str, Any]:
        """Return the settings that every outcome depends on, without speed and sample count.

        The outcome of one attack also depends on `AttackPlan.subject`.
        """
        return {
            "goal": str(self.goal),
            "positive": None if self.positive is None else str(self.positive),
            "threshold": self.threshold,
            **({} if self.delta is None else {"delta": self.delta}),
            # The default of the score depends on `compat`.
            "score": make_goal(score=self.score, compat=self.compat).score,
            "compat": self.compat,
            "seed": self.seed,
            "query_budget": self.query_budget,
            "budget_per_word": self.budget_per_word,
            "split": self.split,
            "choice": self.choice,
        }

    def options(self) -> dict[str, Any]:
        """Return the settings of some attacks only, if the user has set them."""
        options = {name: getattr(self, name) for name in (*_OF_RECIPES, *_OF_RESOURCES.values())}
        return {name: value for name, value in options.items() if value is not None}

    def partial_subject(self) -> dict[str, Any]:
        """Return the subject of an attack, as far as it is known without files and model; flat."""
        k = "all" if self.threat.k is None else str(self.threat.k)
        return {
            **self.about(),
            **{name: getattr(self, name) for name in OPTIONAL if name != "fluency"},
            "attacked_columns": self.columns,
            "threat.name": None if self.threat.kind == "none" else self.threat.kind,
            "threat.k": None if self.threat.kind == "none" else k,
            "engine": VERSION,
        }

    def recipe_subjects(self) -> dict[str, dict[str, Any]]:
        """Return by its files what is known of each attack's own subject without resources; flat.

        Raises:
            ValueError: a malformed file of an attack.
        """
        names = attack_names(self.recipe)
        return dict(
            zip(file_names(self.recipe, self.tag), map(self._recipe_subject, names), strict=True)
        )

    def _recipe_subject(self, name: str) -> dict[str, Any]:
        if name.endswith(FILES):
            return flat({"recipe": read_attack(name)})
        if not is_ensemble(name):
            return {"recipe": name, "fluency": self.fluency, "language": self.language}
        parts = _parts(name)
        return {"recipe": WORST, "recipes": parts} | {
            f"{part}.{key}": getattr(self, key)
            for part in parts
            for key in _OF_RECIPES
            if key != "columns"
        }

    def target(self, class_names: Sequence[str]) -> int | None:
        """Return the index of the class to reach; None if untargeted.

        Raises:
            ValueError: the model has no such class.
        """
        if self.goal == "untargeted":
            return None
        alternatives = f"{', '.join(DETECTOR_GOALS)}, `untargeted` or "
        return _index("goal", self.goal, class_names, alternatives)

    def positive_class(self, class_names: Sequence[str], default: str | None) -> int | None:
        """Return the index of the class to evade or to force; None for other goals.

        `default` is the positive class if the settings name none.

        Raises:
            ValueError: the model has no such class, or nothing names it.
        """
        if self.goal not in DETECTOR_GOALS:
            return None
        name = default if self.positive is None else self.positive
        if name is None:
            msg = (
                f"got goal {self.goal} for a model that is no detector, expected its positive "
                f"class: --attack.positive {' or '.join(class_names)}"
            )
            raise ValueError(msg)
        return _index("positive", name, class_names)

    def aim(
        self, class_names: Sequence[str], positive: int | None, task: VictimTask = "classification"
    ) -> Goal:
        """Return the goal for a model with these classes; see `positive_class` and `target`.

        Raises:
            ValueError: a setting that the task does not have, or none that it needs.
        """
        if (self.delta is not None) != (task == "regression"):
            option = "no --attack.delta" if self.delta is None else f"--attack.delta {self.delta}"
            msg = (
                f"got {option} for a model of {task}, expected it for a regression, and only "
                "there: how far the predicted number has to move"
            )
            raise ValueError(msg)
        if task not in ("classification", "choice"):
            if (self.goal, self.score or "margin") != ("untargeted", "margin"):
                msg = (
                    f"got --attack.goal {self.goal} and --attack.score {self.score} for a model of "
                    f"{task}, expected neither: leave them out"
                )
                raise ValueError(msg)
            if self.delta is not None:
                return Moved(delta=self.delta)
            names = tuple(class_names)
            return EntitiesChanged(tags=names) if task == "tagging" else LabelsChanged(names=names)
        if positive is None:
            target = self.target(class_names)
            return make_goal(target, score=self.score, compat=self.compat)
        score = make_goal(score=self.score, compat=self.compat).score
        if self.goal == "evade":
            return Evade(positive=positive, score=score)
        return Force(target=positive, score=score)


def _index(
    setting: str, value: str | int, class_names: Sequence[str], alternatives: str = ""
) -> int:
    """Return the index of a class by its name or index; `alternatives` are other values."""
    name = str(value)
    # A name first: classes may be named by numbers.
    if name in class_names:
        return class_names.index(name)
    if name.isascii() and name.isdigit() and int(name) < len(class_names):
        return int(name)
    choices = ", ".join(f"{i} ({class_name})" for i, class_name in enumerate(class_names))
    msg = f"got {setting} {name!r}, expected {alternatives}one of the classes: {choices}"
    raise ValueError(msg)


class AttackPlan(NamedTuple):
    """One attack of a command.

    Attributes:
        name: name of its files.
        attack: the composition; its goal is untargeted until the classes of the model are known.
        subject: its recipe and settings, which the next start compares.
        options: the `AttackSettings.options` that it has.
        has_goal: True if the composition has a goal of its own.
        others: the further attacks of an ensemble, in the order in which they are tried.
    """

    name: str
    attack: Attack
    subject: Mapping[str, Any]
    options: Mapping[str, Any]
    has_goal: bool
    others: tuple[Attack, ...] = ()

    @property
    def attacks(self) -> tuple[Attack, ...]:
        """The attack, or all those of an ensemble."""
        return (self.attack, *self.others)

    def change(self, function: Callable[[Attack], Attack]) -> "AttackPlan":
        """Return the plan with each of its attacks changed."""
        attack, *others = map(function, self.attacks)
        return self._replace(attack=attack, others=tuple(others))


def plan(settings: AttackSettings, *, device: "torch.device | None" = None) -> list[AttackPlan]:
    """Build all attacks of a command before the first begins, so that errors come early.

    `device` is that of the models of attacks; the GPU of this machine, else the CPU, if None.

    Raises:
        ValueError: an unknown recipe, a malformed composition, or a setting that no attack has.
        ResourceError: a resource is missing, for example word vectors.
    """
    from attacks import recipes
    from attacks.resources.catalogue import Resources

    option_names = {name: _option_names(name) for name in attack_names(settings.recipe)}
    known = recipes.recipe_names()
    # Only then: loading transformers takes seconds.
    parts = [part for name in option_names for part in _parts(name)]
    models = any(name not in known or recipes.find_recipe(name).needs for name in parts)
    if models and not sys.stderr.isatty():
        from transformers.utils import logging

        # The bar for loading weights does not check whether stderr is a terminal.
        logging.disable_progress_bar()  # type: ignore[no-untyped-call] # has no annotations
    resources = Resources.of(settings, device=device)
    _check_options(settings, option_names)
    planned = [_plan_attack(name, option_names[name], settings, resources) for name in option_names]
    # Attacks of one name would share their records: the last one counts.
    return list({attack.name: attack for attack in planned}.values())


def check_attacks(settings: AttackSettings) -> None:
    """Check the names of the attacks and their settings, without resources.

    Raises:
        ValueError: an unknown recipe, a malformed file, a setting that no attack has, or `compat`
            for a recipe without it.
    """
    file_names(settings.recipe, settings.tag)
    _check_options(settings, {name: _option_names(name) for name in attack_names(settings.recipe)})


def _check_options(settings: AttackSettings, option_names: Mapping[str, Sequence[str]]) -> None:
    """Check that each option belongs to one of the attacks."""
    from attacks import recipes

    recipe_list = recipes.recipe_names()
    for part in [part for name in option_names for part in _parts(name)]:
        if part in recipe_list:
            recipes.check_compat(part, settings)
    for key, value in settings.options().items():
        if not any(key in names for names in option_names.values()):
            own_file = set(option_names) - set(recipe_list)
            hint = "; an attack of your own has it in its file" if own_file else ""
            takers = [recipe for recipe in recipe_list if key in _option_names(recipe)]
            msg = (
                f"got {key} {value} for {', '.join(option_names)}, expected it for one of "
                f"{', '.join(takers)}{hint}"
            )
            raise ValueError(msg)


def _plan_attack(
    name: str, option_names: Sequence[str], settings: AttackSettings, resources: "Resources"
) -> AttackPlan:
    """Build an attack with the options that it has."""
    from attacks import recipes

    if is_ensemble(name):
        return _plan_ensemble(name, settings, resources)
    options = {key: value for key, value in settings.options().items() if key in option_names}
    subject = {key: options.get(key) for key in option_names}
    # In a subject, `columns` are those of the corpus.
    subject["attacked_columns"] = subject.pop("columns", None)
    if name in recipes.recipe_names():
        # Options of other recipes of the command are set back to None.
        changed: dict[str, Any] = {key: options.get(key) for key in _OF_RECIPES}
        attack = recipes.build(replace(settings, recipe=name, **changed), resources)
        subject, has_goal = {"recipe": name, **subject}, False
    else:
        attack, spec = _compose_file(name, resources, settings)
        subject, has_goal = {"recipe": spec, **subject}, "goal" in spec
    filed = attack.name if settings.tag is None else f"{attack.name}-{settings.tag}"
    return AttackPlan(filed, attack, subject, options, has_goal=has_goal)


def _plan_ensemble(name: str, settings: AttackSettings, resources: "Resources") -> AttackPlan:
    """Build all attacks of an ensemble.

    Raises:
        ValueError: one of them has a goal of its own.
    """
    members = [
        _plan_attack(part, _option_names(part), settings, resources) for part in _parts(name)
    ]
    if own := [member.name for member in members if member.has_goal]:
        msg = f"got {', '.join(own)} with a goal in {name}, expected attacks of one goal"
        raise ValueError(msg)
    first, *others = [member.attack for member in members]
    subject: dict[str, Any] = {"recipe": WORST, "recipes": _parts(name)}
    for member in members:
        subject |= {f"{member.attack.name}.{key}": part for key, part in member.subject.items()}
    return AttackPlan(
        name=WORST if settings.tag is None else f"{WORST}-{settings.tag}",
        attack=first,
        subject=subject,
        options={key: value for member in members for key, value in member.options.items()},
        has_goal=False,
        others=tuple(others),
    )


def _parts(name: str) -> list[str]:
    """Return the recipes of an ensemble; the name of another attack."""
    return recipes_of(name) if is_ensemble(name) else [name]


def _option_names(name: str) -> tuple[str, ...]:
    """Return the `AttackSettings.options` of an attack; a file sets the others itself."""
    from attacks import recipes

    if is_ensemble(name):
        names = [option for part in _parts(name) for option in _option_names(part)]
        return tuple(dict.fromkeys(names))
    if name not in recipes.recipe_names():
        if not name.endswith(FILES):
            near = difflib.get_close_matches(name, recipes.recipe_names(), n=1)
            msg = (
                f"got attack {name!r}, expected all, {WORST}, one of "
                f"{', '.join(recipes.recipe_names())}, or a YAML file with an attack of your own"
                f"{''.join(f': perhaps {recipe}' for recipe in near)}"
            )
            raise ValueError(msg)
        return tuple(_OF_RESOURCES.values())
    recipe = recipes.find_recipe(name)
    needs = [key for resource, key in _OF_RESOURCES.items() if resource in recipe.needs]
    # Every recipe has the last two settings.
    return (*recipe.settings, "language", "columns", *needs)


def _compose_file(
    path: str, resources: "Resources", settings: AttackSettings
) -> tuple[Attack, dict[str, Any]]:
    """Return the attack of a file, and the content of the file."""
    from measure.compose import compose

    spec = read_attack(path)
    if "goal" in spec and (settings.score is not None or str(settings.goal) != "untargeted"):
        msg = (
            f"got --attack.goal {settings.goal} and --attack.score {settings.score} for {path}, "
            "which has a goal of its own, expected one of the two: leave the settings out, or goal "
            "in the file"
        )
        raise ValueError(msg)
    goal = make_goal(score=settings.score, compat=settings.compat)
    return compose(spec, resources, compat=settings.compat, goal=goal), spec


def applied(settings: AttackSettings, planned: Sequence[AttackPlan]) -> list[str]:
    """Return a line for each setting that only some attacks have, with their names."""
    lines = []
    for key, value in settings.options().items():
        takers = [attack.name for attack in planned if key in attack.options]
        remaining = [attack.name for attack in planned if key not in attack.options]
        without = f"; {', '.join(remaining)} without it" if remaining else ""
        lines.append(f"{key} {value} applies to {', '.join(takers)}{without}")
    return lines
