"""The tables of docs/methods/asa.md, from runs that are finished."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from app.attention.masking_figure import Masking, masking_proportions
from benchmarks.asa_masks import Masked, of_run
from benchmarks.asa_runs import (
    METHODS,
    TASKS,
    Folder,
    Run,
    differing,
    settings_line,
    shared_settings,
    tau_of,
)
from benchmarks.asa_scores import LEVEL, Compared, Score, compared, scored
from datamodules import CORPORA, TextDataModule

TITLES = {
    "plain": "plain",
    "asa": "ASA",
    "bernoulli": "Bernoulli",
    "scheduled": "Scheduled",
    "magnitude": "Magnitude",
    "freelb": "FreeLB",
    "smart": "SMART",
}
NOT_RUN = "-"
NOTE = (
    f"Mean ± standard deviation over seeds (their number). * differs from plain, † from ASA "
    f"(p < {LEVEL}); p is that of Student's t of the difference at the same seeds and on the same "
    "test samples, whose variance is that over seeds plus the jackknife's over test samples "
    "(benchmarks/asa_scores.py). A single seed is never called different."
)


class Column(NamedTuple):
    """What is known of a method on a task.

    Attributes:
        values: score by seed, in percent.
        scores: by seed, where predictions and data are there.
        digits: after the point.
    """

    values: dict[int, float]
    scores: dict[int, Score]
    digits: int = 1

    @property
    def cell(self) -> str:
        """Mean, deviation and number."""
        if not self.values:
            return NOT_RUN
        found = list(self.values.values())
        spread = f" ± {stdev(found):.{self.digits}f}" if len(found) > 1 else ""
        return f"{mean(found):.{self.digits}f}{spread} ({len(found)})"


class Tables:
    """Everything that finished runs have come to.

    Args:
        folder: of the runs, with a data directory to compare predictions by.
        tasks: the columns.
        mask_samples: over which masks are measured, about.

    Raises:
        ValueError: runs of a task differ in more than method, tau and seed.
    """

    def __init__(self, folder: Folder, tasks: Sequence[str], *, mask_samples: int = 1000) -> None:
        self.folder, self.tasks, self.mask_samples = folder, list(tasks), mask_samples
        self.runs = [run for run in folder.runs() if run.task in tasks]
        for task in self.tasks:
            self._check_settings([run for run in self.runs if run.task == task])
        self._corpora: dict[str, TextDataModule] = {}
        self._columns: dict[tuple[str, str, float | None], Column] = {}

    def _check_settings(self, runs: Sequence[Run]) -> None:
        for group in [runs, *([run for run in runs if run.method == m] for m in METHODS)]:
            whole = group is not runs
            known = [(run, recipe) for run in group if (recipe := self.folder.recipe(run))]
            for run, recipe in known[1:]:
                first = shared_settings(known[0][1], whole=whole)
                difference = differing(first, shared_settings(recipe, whole=whole))
                if difference:
                    msg = (
                        f"got {difference} for run {run.name!r}, unlike {known[0][0].name!r}, "
                        "expected the same settings for all runs of a task, that they can be "
                        f"compared: keep others in another --runs_dir than {self.folder.path}"
                    )
                    raise ValueError(msg)

    # What is there

    def _corpus(self, run: Run) -> TextDataModule | None:
        """The corpus of a task, set up to be tested on; None without a data directory."""
        if self.folder.data_dir is None:
            return None
        if run.task not in self._corpora:
            settings: dict[str, Any] = self.folder.recipe(run)["data"]
            options = settings["init_args"] | {"data_dir": str(self.folder.data_dir)}
            corpus = CORPORA[settings["class_path"]](**options)
            assert isinstance(corpus, TextDataModule)  # a recipe of ours
            corpus.setup("test")
            self._corpora[run.task] = corpus
        return self._corpora[run.task]

    def _score(self, run: Run, value: float) -> Score | None:
        """The score of a run's predictions; None where they or the data are absent.

        Raises:
            ValueError: they are of other weights, or on other data, than what was tested.
        """
        path, corpus = self.folder.predictions(run), self._corpus(run)
        if corpus is None or not path.is_file():
            return None
        records = (json.loads(line) for line in path.read_text().splitlines())
        answers = {record["sample_id"]: record["prediction"] for record in records}
        labels = {example.sample_id: example.label for example in corpus.examples("test")}
        found = float("nan")
        known = [label for _, label in sorted(labels.items()) if label is not None]
        if sorted(answers) == sorted(labels) and len(known) == len(labels):
            score = scored(
                TASKS[run.task].metric,
                [answers[i] for i in sorted(answers)],
                known,
                class_names=corpus.class_names,
            )
            found = 100 * score.value
            if abs(found - value) < 0.01:
                return score
        msg = (
            f"got predictions of run {run.name!r} that score {found:.2f} on the data, expected the "
            f"{value:.2f} of its test: give the --data_dir it was tested on, or delete {path}"
        )
        raise ValueError(msg)

    def column(self, task: str, method: str, tau: float | None = None) -> Column:
        """What is known of a method on a task."""
        key = (task, method, tau)
        if key not in self._columns:
            values: dict[int, float] = {}
            scores: dict[int, Score] = {}
            for run in self.runs:
                if run[:2] != key[:2] or run.tau != tau:
                    continue
                metrics = self.folder.results(run)["metrics"]
                value = values[run.seed] = 100 * metrics[f"test/{TASKS[task].shown}"]
                score = self._score(run, value)
                if score is not None:
                    scores[run.seed] = score
            self._columns[key] = Column(dict(sorted(values.items())), scores)
        return self._columns[key]

    def compared(
        self, task: str, first: str, second: str = "plain", *, tau: float | None = None
    ) -> Compared | None:
        """A method (ASA, of a tau) beside another at the seeds of both; None without any."""
        one, two = self.column(task, first, tau).scores, self.column(task, second).scores
        seeds = sorted(one.keys() & two.keys())
        return compared([one[i] for i in seeds], [two[i] for i in seeds]) if seeds else None

    def masks(self, task: str, tau: float | None = None) -> list[Masked]:
        """Shares that ASA masks, by run."""
        found = (
            of_run(self.folder, run, self._corpus(run), limit=self.mask_samples)
            for run in self.runs
            if run.task == task and run.method == "asa" and run.tau == tau
        )
        return [one for one in found if one is not None]

    def own_tau(self, task: str) -> float | None:
        """That of the recipe that ASA was run with."""
        recipes = (self.folder.recipe(r) for r in self.runs if r.task == task and r.method == "asa")
        return next((tau_of(one) for one in recipes if one), None)

    # Tables

    def settings(self) -> str:
        """How each task was trained."""
        lines = []
        for task in self.tasks:
            recipes = (self.folder.recipe(run) for run in self.runs if run.task == task)
            known = next((settings_line(one) for one in recipes if one), NOT_RUN)
            lines.append(f"- {TASKS[task].title}: {known}")
        return "\n".join(lines)

    def _head(self, first: str, *, last: str | None = None) -> list[str]:
        titles = [f"{TASKS[task].title} ({TASKS[task].shown})" for task in self.tasks]
        return head([first, *titles, *([] if last is None else [last])])

    def main(self) -> str:
        """ASA beside plain fine-tuning: the form of the paper's Tables 1 and 2."""
        lines = [*self._head("model", last="mean"), self._scores("plain")]
        swept = {run.tau for run in self.runs if run.tau is not None}
        for tau in (None, *sorted(swept)):
            lines.append(self._scores("asa", tau))
            found = [self.compared(task, "asa", tau=tau) for task in self.tasks]
            known = [one for one in found if one is not None]
            gain = (
                f"{mean(one.mean for one in known):+.1f}" if len(known) == len(found) else NOT_RUN
            )
            lines.append(row(["difference (95 %)", *map(shown_difference, found), gain]))
            lines.append(row(["p", *map(shown_p, found), ""]))
            lines.append(row(["p, signs of seeds alone", *map(shown_flips, found), ""]))
        return "\n".join(lines)

    def _scores(self, method: str, tau: float | None = None) -> str:
        """A row: its score on each task, and their mean where it has all."""
        columns = [self.column(task, method, tau) for task in self.tasks]
        means = [mean(one.values.values()) for one in columns if one.values]
        whole = f"{mean(means):.1f}" if means and len(means) == len(columns) else NOT_RUN
        title = TITLES[method] + ("" if tau is None else f", tau {tau:g}")
        return row([title, *(one.cell for one in columns), whole])

    def methods(self, names: Iterable[str]) -> str:
        """Some methods beside plain fine-tuning and ASA: the form of Tables 3 and 4."""
        lines = self._head("method")
        for method in ("plain", *names, "asa"):
            cells = []
            for task in self.tasks:
                marks = ""
                for other, mark in (("plain", "*"), ("asa", "†")):
                    found = self.compared(task, method, other) if other != method else None
                    marks += mark if found is not None and found.significant else ""
                cells.append(self.column(task, method).cell + marks)
            lines.append(row([TITLES[method], *cells]))
        return "\n".join(lines)

    def sweep(self) -> str:
        """Scores and what is masked, by tau: figure 4b."""
        taus = {run.tau for run in self.runs if run.tau is not None}
        taus |= {tau for task in self.tasks if (tau := self.own_tau(task)) is not None}
        lines = self._head("tau")
        for tau in sorted(taus):
            cells = []
            for task in self.tasks:
                place = None if tau == self.own_tau(task) else tau
                cell = self.column(task, "asa", place).cell
                shares = [mean(one.drawn) for one in self.masks(task, place)]
                cells.append(cell + (f", {100 * mean(shares):.1f} % masked" if shares else ""))
            lines.append(row([f"{tau:g}", *cells]))
        return "\n".join(lines)

    def masking(self) -> str:
        """The share that is masked in each layer of each task: figure 5."""
        found = {task: self.masks(task) for task in self.tasks}
        depth = max((len(one.drawn) for runs in found.values() for one in runs), default=0)
        numbers = [str(i + 1) for i in range(depth)]
        lines = head(["task", "tau", "noise", *numbers, "mean", "samples"])
        for task, runs in found.items():
            tau = self.own_tau(task)
            for noise in ("drawn", "none") if runs else ():
                shares = [one.drawn if noise == "drawn" else one.likely for one in runs]
                layers = [f"{100 * mean(layer):.1f}" for layer in zip(*shares, strict=True)]
                layers += [""] * (depth - len(layers))
                whole = Column({i: 100 * mean(one) for i, one in enumerate(shares)}, {}).cell
                cells = [TASKS[task].title, f"{tau:g}", noise, *layers, whole]
                lines.append(row([*cells, str(min(one.samples for one in runs))]))
            if not runs:
                lines.append(row([TASKS[task].title, *[NOT_RUN] * (depth + 4)]))
        return "\n".join(lines)

    def moved(self) -> str:
        """How far the masks of each tau move predictions, beside as many chosen by chance."""
        lines = head(["task", "tau", "divergence", "by chance", "ratio"])
        for task in self.tasks:
            own = self.own_tau(task) or 0.0
            asked = {run.tau for run in self.runs if run.task == task and run.method == "asa"}
            for tau, place in sorted((own if one is None else one, one) for one in asked):
                runs = self.masks(task, place)
                found = [[one.divergence for one in runs], [one.chance for one in runs]]
                cells = [f"{mean(each):.4f}" if runs else NOT_RUN for each in found]
                ratios = [one.divergence / one.chance for one in runs if one.chance > 0]
                whole = Column(dict(enumerate(ratios)), {}, 2).cell
                lines.append(row([TASKS[task].title, f"{tau:g}", *cells, whole]))
        return "\n".join(lines)

    def text(self) -> str:
        """All of them, Markdown."""
        parts = [
            ("Settings", self.settings()),
            ("ASA beside plain fine-tuning (Tables 1 and 2)", self.main()),
            ("Masking rules (Table 3)", self.methods(("bernoulli", "scheduled", "magnitude"))),
            ("Adversarial training (Table 4)", self.methods(("freelb", "smart"))),
            ("tau (Figure 4b)", self.sweep()),
            ("Masked units of the test split by layer, % (Figure 5)", self.masking()),
            ("Divergence of the loss by the masks, and by as many by chance", self.moved()),
        ]
        return "\n\n".join([*(f"## {title}\n\n{part}" for title, part in parts), NOTE])

    def content(self) -> dict[str, Any]:
        """The numbers behind the tables, as JSON."""
        scores, comparisons = [], []
        for run in self.runs:
            value = self.column(run.task, run.method, run.tau).values[run.seed]
            scores.append(run._asdict() | {"value": value, "recipe": self.folder.recipe(run)})
        for task in self.tasks:
            for first in TITLES:
                for second in ("plain", "asa"):
                    found = self.compared(task, first, second) if first != second else None
                    names = {"task": task, "method": first, "beside": second}
                    comparisons += [] if found is None else [names | found._asdict()]
        masks = {
            task: [one._asdict() for one in runs]
            for task in self.tasks
            if (runs := self.masks(task))
        }
        return {"runs": scores, "compared": comparisons, "masked": masks}

    def draw(self, path: Path) -> None:
        """Figure 5.

        Raises:
            ValueError: nothing has been measured.
        """
        found: Mapping[str, list[Masked]] = {task: self.masks(task) for task in self.tasks}
        drawn = [
            Masking(
                name=f"{TASKS[task].title}, tau {self.own_tau(task):g}",
                shares=[one.drawn for one in runs],
            )
            for task, runs in found.items()
            if runs
        ]
        masking_proportions(drawn, path)


def head(cells: Sequence[str]) -> list[str]:
    """The head of a table."""
    return [row(cells), "|---" * len(cells) + "|"]


def row(cells: Iterable[str]) -> str:
    """A line of a table."""
    return "| " + " | ".join(cells) + " |"


def shown_difference(found: Compared | None) -> str:
    """With its interval."""
    if found is None:
        return NOT_RUN
    reach = "" if found.low is None else f" ({found.low:+.1f} to {found.high:+.1f})"
    return f"{found.mean:+.1f}{reach}"


def shown_p(found: Compared | None) -> str:
    """With what it says."""
    if found is None or found.p is None:
        return NOT_RUN
    number = f"{found.p:.3f}" if found.p >= 0.001 else "< 0.001"
    return f"{number}, {'significant' if found.significant else 'not significant'}"


def shown_flips(found: Compared | None) -> str:
    """With the least that it can be."""
    if found is None or found.flips is None:
        return NOT_RUN
    return f"{found.flips:.2f} (least {2 / 2**found.seeds:.2f})"
