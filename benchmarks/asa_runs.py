"""The runs behind the tables of docs/methods/asa.md: their names, and how they are made."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import yaml

import lit_modules
from app.runs import atomic
from benchmarks.program_runs import make, results
from benchmarks.significance import Metric
from lit_modules.shared.settings import parameters

CONFIGS = Path(__file__).parents[1] / "configs"
METHODS = ("plain", "asa", "bernoulli", "scheduled", "magnitude", "freelb", "smart")
"""In this order, as `scheduled` takes its curve from `asa`."""
POINTS = 4
"""Decimal places of the shares in a schedule."""
_OWN = (
    *("backbone.pretrained", "backbone.architecture"),
    *("masking.kind", "masking.schedule", "masking.tau"),
    *("optimisation.optimizer", "optimisation.lr_scheduler"),
)
"""Settings of ASA that come by other ways."""
_LR = "optimisation.optimizer.init_args.lr"
_NAME = re.compile(r"([a-z0-9_]+)-([a-z]+?)(?:-tau([0-9.]+))?-seed(\d+)")


class Task(NamedTuple):
    """A task.

    Attributes:
        title: in tables.
        metric: by which it is judged, as in the paper.
        shown: name of the metric in the program.
    """

    title: str
    metric: Metric
    shown: str


_ACCURACY: tuple[Metric, str] = ("accuracy", "accuracy")
TASKS = {
    "sst2": Task("SST-2", *_ACCURACY),
    "mnli": Task("MNLI", *_ACCURACY),
    "qnli": Task("QNLI", *_ACCURACY),
    "qqp": Task("QQP", "f1", "f1"),
    "stsb": Task("STS-B", "spearman", "spearman"),
    "wnut17": Task("WNUT-17", "entity_f1", "f1"),
    "dream": Task("DREAM", *_ACCURACY),
    "anli": Task("ANLI", *_ACCURACY),
    "paws_qqp": Task("PAWS-QQP", *_ACCURACY),
    "mrpc": Task("MRPC", *_ACCURACY),
    "hellaswag": Task("HellaSwag", *_ACCURACY),
}
"""By the names of their recipes, configs/asa/NAME.yaml."""


class Run(NamedTuple):
    """A run.

    Attributes:
        task: one of `TASKS`.
        method: one of `METHODS`.
        seed: of everything.
        tau: of a sweep; None for that of the recipe.
    """

    task: str
    method: str
    seed: int
    tau: float | None = None

    @property
    def name(self) -> str:
        """The name of its folder."""
        sweep = "" if self.tau is None else f"-tau{self.tau:g}"
        return f"{self.task}-{self.method}{sweep}-seed{self.seed}"

    @classmethod
    def named(cls, name: str) -> Self | None:
        """Returns the run of a folder; None for a folder of another kind."""
        match = _NAME.fullmatch(name)
        if match is None or match[1] not in TASKS or match[2] not in METHODS:
            return None
        return cls(match[1], match[2], int(match[4]), None if match[3] is None else float(match[3]))


class Changes(NamedTuple):
    """Changes of a recipe, for all methods alike.

    Attributes:
        encoder: folder or hub name of the pretrained encoder; None for that of the recipe.
        limit_train: training samples; None for all.
        epochs: None for those of the recipe.
        settings: of ASA, such as `masking.penalty`, and of other methods as far as they have them;
            and `lr`.
        precision: of the training, by its name in the trainer; None for that of the recipe.
    """

    encoder: str | None = None
    limit_train: int | None = None
    epochs: int | None = None
    settings: Mapping[str, Any] = {}
    precision: str | None = None


class Folder:
    """The runs in a folder.

    Args:
        path: of the folder.
        data_dir: where corpora lie; None only to look at what is there.
    """

    def __init__(self, path: Path, data_dir: Path | None = None) -> None:
        self.path, self.data_dir = path, data_dir

    def runs(self) -> list[Run]:
        """Returns the runs that have been tested."""
        found = (Run.named(path.name) for path in sorted(self.path.glob("*-seed*")))
        return [run for run in found if run is not None and "test" in self.results(run)["seconds"]]

    def results(self, run: Run) -> dict[str, Any]:
        """Returns the results of a run; see `benchmarks.program_runs.results`."""
        return results(self.path / run.name)

    def checkpoint(self, run: Run) -> Path:
        """Returns the path of the weights that are tested."""
        return self.path / run.name / "checkpoints/best.ckpt"

    def predictions(self, run: Run) -> Path:
        """Returns the path of the predictions, a line for each sample of the test split."""
        return self.path / run.name / "predictions.jsonl"

    def recipe_path(self, run: Run) -> Path:
        """Returns the path of the recipe of a run."""
        return self.path / "recipes" / f"{run.name}.yaml"

    def recipe(self, run: Run) -> dict[str, Any]:
        """Returns the recipe of a run; empty where it is not known."""
        path = self.recipe_path(run)
        content: dict[str, Any] = yaml.safe_load(path.read_text()) if path.is_file() else {}
        return content

    def make(self, run: Run, changes: Changes) -> None:
        """Trains, tests and predicts, as far as that is not done; what was interrupted goes on.

        Raises:
            ValueError: the run is there, made by another recipe.
        """
        curve = None
        if run.method == "scheduled":
            curve = self.curve(Run(run.task, "asa", 0))
        wanted = recipe(run, changes, curve=curve)
        known, path = self.recipe(run), self.path / run.name
        begun = self.results(run)["seconds"] or (path / "config.yaml").is_file()
        if known != wanted and begun:
            msg = (
                f"got {differing(known, wanted)} for run {run.name!r}, expected the settings it "
                "was made with: repeat them, or choose another --runs_dir"
            )
            raise ValueError(msg)
        atomic.write_text(self.recipe_path(run), yaml.safe_dump(wanted, sort_keys=False))
        common = ["--data.data_dir", str(self.data_dir)]
        # The last epoch is tested: no validation chooses another.
        options = ["--config", str(self.recipe_path(run)), "--trainer.limit_val_batches", "0"]
        make(path, "fit", [*options, *common])
        # Answers must not depend on what a sample shares its batch with.
        common += ["--trainer.precision", "32-true"]
        make(path, "test", [*common, "--pgd.epsilon", "0"])
        if not self.predictions(run).is_file():
            make(path, "predict", common, again=True)

    def curve(self, run: Run) -> list[float]:
        """Returns the shares that an adversary has masked in the parts of its training.

        Raises:
            ValueError: it has not been trained.
        """
        path = self.checkpoint(run)
        if "fit" not in self.results(run)["seconds"] or not path.is_file():
            msg = (
                f"got no finished run {run.name!r}, expected one, whose masks make the schedule: "
                "add method asa and seed 0"
            )
            raise ValueError(msg)
        module = lit_modules.load(path)
        assert isinstance(module, lit_modules.ASA)  # by the name of the run
        shares = [round(share, POINTS) for share in module.masking.masked_over_training]
        # A schedule has two ends, also that of a single step.
        return shares if len(shares) > 1 else shares * 2


def recipe(run: Run, changes: Changes, *, curve: Sequence[float] | None = None) -> dict[str, Any]:
    """Returns the settings of a run: those of its task, changed for its method.

    Args:
        run: which one.
        changes: see there.
        curve: of `scheduled`.

    Raises:
        ValueError: a setting that ASA does not have, or that a run has by its method.
    """
    content: dict[str, Any] = yaml.safe_load((CONFIGS / f"asa/{run.task}.yaml").read_text())
    content["seed_everything"] = run.seed
    settings: dict[str, Any] = content["model"]["init_args"]
    may = [name for name in _names(lit_modules.ASA) if name not in _OWN]
    for name, value in changes.settings.items():
        if name != "lr" and name not in may:
            msg = f"got --set {name}, expected lr or a setting of ASA: {', '.join(may)}"
            raise ValueError(msg)
        *groups, last = (_LR if name == "lr" else name).split(".")
        place = settings
        for group in groups:
            place = place.setdefault(group, {})
        place[last] = value
    for part, name, value in (
        (settings["backbone"], "pretrained", changes.encoder),
        (content["data"]["init_args"], "limit_train", changes.limit_train),
        (content["trainer"], "max_epochs", changes.epochs),
        (content["trainer"], "precision", changes.precision),
    ):
        if value is not None:
            part[name] = value
    plain = _of_all(settings)
    if run.method == "asa":
        settings["masking"] |= {} if run.tau is None else {"tau": run.tau}
    elif run.method == "plain":
        content["model"] = {"class_path": "FineTuning", "init_args": plain}
    elif run.method in ("freelb", "smart"):
        path = CONFIGS / f"adversarial/adversaries/{run.method}.yaml"
        adversary = yaml.safe_load(path.read_text())["model"]["init_args"]["adversary"]
        if run.method == "freelb":  # its lengths do not suit the short embeddings of BERT
            adversary["init_args"] |= {"step_size": 0.1, "initial_size": 0.3}
        classifier = {"class_path": "FineTuning", "init_args": plain}
        settings = {"adversary": adversary, "classifier": classifier}
        content["model"] = {"class_path": "AdversarialTraining", "init_args": settings}
    else:
        schedule = {} if curve is None else {"schedule": [*curve]}
        settings["masking"] |= {"kind": run.method} | schedule
    return content


def tau_of(content: Mapping[str, Any]) -> float | None:
    """Returns the tau of an ASA recipe; None for other methods."""
    masking = content.get("model", {}).get("init_args", {}).get("masking", {})
    tau: float | None = masking.get("tau")
    return tau if masking.get("kind", "adversarial") == "adversarial" else None


def planned(
    tasks: Sequence[str],
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    taus: Sequence[float] = (),
) -> list[Run]:
    """Returns the runs of tables: all of a seed before the next, so that an early end leaves some.

    Args:
        tasks: some of `TASKS`.
        methods: some of `METHODS`.
        seeds: as many as wanted.
        taus: of a sweep; that of the recipe is the run of method `asa`.
    """
    found = []
    for seed in seeds:
        for task in tasks:
            ordered = [method for method in METHODS if method in methods]
            found += [Run(task, method, seed) for method in ordered]
            own = tau_of(recipe(Run(task, "asa", seed), Changes()))
            for tau in taus:
                run = Run(task, "asa", seed, None if tau == own else tau)
                found += [] if run in found else [run]
    return found


def _names(method: type) -> list[str]:
    """Returns the settings of a method, those of a group as `group.name`."""
    found = []
    for name, one in parameters(method).items():
        group = is_dataclass(one.default)
        found += [f"{name}.{field.name}" for field in fields(one.default)] if group else [name]
    return found


def _of_all(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those settings of ASA that all methods have: those of plain fine-tuning."""
    known = parameters(lit_modules.FineTuning)
    return {name: value for name, value in settings.items() if name in known}


def leaves(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns the settings of a recipe by their whole names."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            found |= leaves(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def differing(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Returns the settings of the second recipe that differ from the first, in words."""
    before, now = leaves(known), leaves(wanted)
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return ", ".join(f"{name.replace('init_args.', '')} {now.get(name)}" for name in names)


def shared_settings(content: Mapping[str, Any], *, whole: bool = False) -> dict[str, Any]:
    """Returns the settings that runs of a task must have in common, whatever their seed and tau.

    Args:
        content: a recipe.
        whole: of one method; otherwise of all of them.
    """
    common = {name: value for name, value in content.items() if name != "seed_everything"}
    model = content["model"]["init_args"]
    if not whole:
        return common | {"model": _of_all(model.get("classifier", {}).get("init_args", model))}
    of_run = ("masking.tau", "masking.schedule")
    return common | {"model": {k: v for k, v in leaves(model).items() if k not in of_run}}


def settings_line(content: Mapping[str, Any]) -> str:
    """Returns the settings that all methods of a task share, in words."""
    flat = leaves(content)
    ends = {name.rsplit(".", 1)[-1]: value for name, value in flat.items()}
    parts = [
        f"encoder {Path(str(ends['pretrained'])).name}",
        f"lr {ends['lr']:g}, batch {ends['batch_size']}, {ends['max_epochs']} epochs",
        f"warm-up {ends['warmup']:g}, {ends['max_length']} tokens",
    ]
    shown = {
        "limit_train": "training samples",
        "pooling": "pooling",
        "precision": "precision",
        "adversary_lr_factor": "adversary's lr times",
    }
    parts += [f"{title} {ends[name]}" for name, title in shown.items() if name in ends]
    return ", ".join(parts)
