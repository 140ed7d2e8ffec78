"""The tables of docs/methods/asa.md: what training with ASA gains.

    python -m benchmarks.asa_tables --data_dir DIR --runs_dir DIR --encoder FOLDER
        --group sst2 mrpc stsb wnut17 dream hellaswag --methods plain asa bernoulli scheduled
        magnitude freelb smart --seeds 0 1 2 [--limit_train N] [--epochs E] [--precision bf16-mixed]
        [--set NAME=VALUE ...] [--tau 0.1 0.3 0.6 1.0] [--print] [--figure FILE.png]
        [--out FILE.json]

Fine-tunes by the recipes configs/asa/GROUP.yaml with the real command line, tests the weights of
the last epoch, keeps their predictions, and prints tables in the form of the paper's Tables 1 to 4
and Figures 4b and 5. Runs that are finished are not repeated, interrupted ones go on; with
`--print` nothing is run. Tables hold every finished run of the groups in the folder, whatever was
asked for this time; runs of several commands (such as one with `--limit_train` for a large corpus)
may lie there together. `plain` is FineTuning with the same recipe, `freelb` and `smart`
AdversarialTraining around it. `--tau` adds runs of ASA with other ones than the recipe's.
`python -m benchmarks.adversarial_cost` measures a step.
"""

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import torch
import yaml

import datamodules
from app.attention.masking_figure import Masking, masking_proportions
from benchmarks.asa_masks import Masked, of_run
from benchmarks.asa_runs import (
    METHODS,
    TASKS,
    Changes,
    Folder,
    Run,
    differing,
    planned,
    settings_line,
    shared_settings,
    tau_of,
)
from benchmarks.command import command, parsed, save, table
from benchmarks.program_runs import built
from benchmarks.significance import LEVEL, Compared, Score, compared, scored
from datamodules import TextDataModule

GROUPS = ("sst2", "mrpc", "stsb", "wnut17", "dream", "hellaswag")
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
    "(benchmarks/significance.py). A single seed is never called different."
)


class Column(NamedTuple):
    """Scores of a method on a task.

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
        """The mean, the standard deviation and the number of seeds."""
        if not self.values:
            return NOT_RUN
        found = list(self.values.values())
        spread = f" ± {stdev(found):.{self.digits}f}" if len(found) > 1 else ""
        return f"{mean(found):.{self.digits}f}{spread} ({len(found)})"


class Tables:
    """Tables of all finished runs.

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

    # Runs

    def _corpus(self, run: Run) -> TextDataModule | None:
        """Returns the corpus of a task, set up to be tested on; None without a data directory."""
        if self.folder.data_dir is None:
            return None
        if run.task not in self._corpora:
            part = self.folder.recipe(run)["data"]
            corpus = built(datamodules, part, data_dir=str(self.folder.data_dir))
            corpus.setup("test")
            self._corpora[run.task] = corpus
        return self._corpora[run.task]

    def _score(self, run: Run, value: float) -> Score | None:
        """Returns the score of a run's predictions; None where they or the data are absent.

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
        """Returns the scores of a method on a task."""
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
        """Compares a method (ASA, of a tau) with another at the seeds of both."""
        one, two = self.column(task, first, tau).scores, self.column(task, second).scores
        seeds = sorted(one.keys() & two.keys())
        return compared([one[i] for i in seeds], [two[i] for i in seeds]) if seeds else None

    def masks(self, task: str, tau: float | None = None) -> list[Masked]:
        """Returns the shares that ASA masks, by run."""
        found = (
            of_run(self.folder, run, self._corpus(run), limit=self.mask_samples)
            for run in self.runs
            if run.task == task and run.method == "asa" and run.tau == tau
        )
        return [one for one in found if one is not None]

    def own_tau(self, task: str) -> float | None:
        """Returns the tau of the recipe that ASA was run with."""
        recipes = (self.folder.recipe(r) for r in self.runs if r.task == task and r.method == "asa")
        return next((tau_of(one) for one in recipes if one), None)

    # Tables

    def settings(self) -> str:
        """Returns a list of how each task was trained."""
        lines = []
        for task in self.tasks:
            recipes = (self.folder.recipe(run) for run in self.runs if run.task == task)
            known = next((settings_line(one) for one in recipes if one), NOT_RUN)
            lines.append(f"- {TASKS[task].title}: {known}")
        return "\n".join(lines)

    def _head(self, first: str) -> list[str]:
        return [first, *(f"{TASKS[task].title} ({TASKS[task].shown})" for task in self.tasks)]

    def main(self) -> str:
        """Returns ASA beside plain fine-tuning: the form of the paper's Tables 1 and 2."""
        rows = [self._scores("plain")]
        swept = {run.tau for run in self.runs if run.tau is not None}
        for tau in (None, *sorted(swept)):
            rows.append(self._scores("asa", tau))
            found = [self.compared(task, "asa", tau=tau) for task in self.tasks]
            known = [one.mean for one in found if one is not None]
            gain = f"{mean(known):+.1f}" if len(known) == len(found) else NOT_RUN
            rows.append(["difference (95 %)", *map(shown_difference, found), gain])
            rows.append(["p", *map(shown_p, found), ""])
            rows.append(["p, signs of seeds alone", *map(shown_flips, found), ""])
        return table([*self._head("model"), "mean"], rows)

    def _scores(self, method: str, tau: float | None = None) -> list[str]:
        """Returns a row: the score on each task, and their mean where there are all."""
        columns = [self.column(task, method, tau) for task in self.tasks]
        means = [mean(one.values.values()) for one in columns if one.values]
        whole = f"{mean(means):.1f}" if means and len(means) == len(columns) else NOT_RUN
        title = TITLES[method] + ("" if tau is None else f", tau {tau:g}")
        return [title, *(one.cell for one in columns), whole]

    def methods(self, names: Iterable[str]) -> str:
        """Returns some methods beside plain fine-tuning and ASA: the form of Tables 3 and 4."""
        rows = []
        for method in ("plain", *names, "asa"):
            cells = []
            for task in self.tasks:
                marks = ""
                for other, mark in (("plain", "*"), ("asa", "†")):
                    found = self.compared(task, method, other) if other != method else None
                    marks += mark if found is not None and found.significant else ""
                cells.append(self.column(task, method).cell + marks)
            rows.append([TITLES[method], *cells])
        return table(self._head("method"), rows)

    def sweep(self) -> str:
        """Returns scores and masked shares by tau: figure 4b."""
        taus = {run.tau for run in self.runs if run.tau is not None}
        taus |= {tau for task in self.tasks if (tau := self.own_tau(task)) is not None}
        rows = []
        for tau in sorted(taus):
            cells = []
            for task in self.tasks:
                place = None if tau == self.own_tau(task) else tau
                cell = self.column(task, "asa", place).cell
                shares = [mean(one.drawn) for one in self.masks(task, place)]
                cells.append(cell + (f", {100 * mean(shares):.1f} % masked" if shares else ""))
            rows.append([f"{tau:g}", *cells])
        return table(self._head("tau"), rows)

    def masking(self) -> str:
        """Returns the masked share of each layer of each task: figure 5."""
        found = {task: self.masks(task) for task in self.tasks}
        depth = max((len(one.drawn) for runs in found.values() for one in runs), default=0)
        numbers = [str(i + 1) for i in range(depth)]
        rows = []
        for task, runs in found.items():
            tau = self.own_tau(task)
            for noise in ("drawn", "none") if runs else ():
                shares = [one.drawn if noise == "drawn" else one.likely for one in runs]
                layers = [f"{100 * mean(layer):.1f}" for layer in zip(*shares, strict=True)]
                layers += [""] * (depth - len(layers))
                whole = Column({i: 100 * mean(one) for i, one in enumerate(shares)}, {}).cell
                cells = [TASKS[task].title, f"{tau:g}", noise, *layers, whole]
                rows.append([*cells, str(min(one.samples for one in runs))])
            if not runs:
                rows.append([TASKS[task].title, *[NOT_RUN] * (depth + 4)])
        return table(["task", "tau", "noise", *numbers, "mean", "samples"], rows)

    def moved(self) -> str:
        """Returns how far masks of each tau move predictions, beside as many chosen by chance."""
        rows = []
        for task in self.tasks:
            own = self.own_tau(task) or 0.0
            asked = {run.tau for run in self.runs if run.task == task and run.method == "asa"}
            for tau, place in sorted((own if one is None else one, one) for one in asked):
                runs = self.masks(task, place)
                found = [[one.divergence for one in runs], [one.chance for one in runs]]
                cells = [f"{mean(each):.4f}" if runs else NOT_RUN for each in found]
                ratios = [one.divergence / one.chance for one in runs if one.chance > 0]
                whole = Column(dict(enumerate(ratios)), {}, 2).cell
                rows.append([TASKS[task].title, f"{tau:g}", *cells, whole])
        return table(["task", "tau", "divergence", "by chance", "ratio"], rows)

    def text(self) -> str:
        """Returns all tables."""
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
        """Returns the figures behind the tables."""
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
        """Draws figure 5.

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


def shown_difference(found: Compared | None) -> str:
    """Returns a difference with its interval."""
    if found is None:
        return NOT_RUN
    reach = "" if found.low is None else f" ({found.low:+.1f} to {found.high:+.1f})"
    return f"{found.mean:+.1f}{reach}"


def shown_p(found: Compared | None) -> str:
    """Returns p, and in words if it is significant."""
    if found is None or found.p is None:
        return NOT_RUN
    number = f"{found.p:.3f}" if found.p >= 0.001 else "< 0.001"
    return f"{number}, {'significant' if found.significant else 'not significant'}"


def shown_flips(found: Compared | None) -> str:
    """Returns p of the sign flips, and the least that it can be."""
    if found is None or found.flips is None:
        return NOT_RUN
    return f"{found.flips:.2f} (least {2 / 2**found.seeds:.2f})"


def main(argv: Sequence[str] | None = None) -> None:
    """Runs, prints, writes and draws."""
    options = ("data_dir", "runs_dir", "encoder", "threads", "print", "figure", "out")
    parser = command(__doc__, *options)
    parser.add_argument("--group", nargs="+", choices=list(TASKS), default=list(GROUPS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["plain", "asa"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--limit_train", type=int, help="training samples; all if not given")
    parser.add_argument("--epochs", type=int, help="those of the recipe if not given")
    parser.add_argument("--precision", help="of the training, such as bf16-mixed; not of the tests")
    words = "lr=VALUE; NAME=VALUE of ASA and all that have it, as masking.penalty=mean"
    parser.add_argument("--set", nargs="+", default=[], help=words)
    parser.add_argument("--tau", nargs="+", type=float, default=[], help="sweep, with method asa")
    parser.add_argument("--mask_samples", type=int, default=1000, help="to measure masks on")
    given = parsed(parser, "data_dir", "encoder", argv=argv)
    settings = {}
    for one in given.set:
        name, equals, value = one.partition("=")
        if not equals:
            parser.error(f"got --set {one}, expected NAME=VALUE, such as pooling=mean")
        # As in a recipe; but PyYAML knows 1e-4 as a text.
        settings[name] = yaml.safe_load(value) if name != "lr" else float(value)
    torch.set_num_threads(given.threads)
    # For the runs, which are programs of their own.
    os.environ["OMP_NUM_THREADS"] = str(given.threads)
    folder = Folder(given.runs_dir, given.data_dir)
    changes = Changes(given.encoder, given.limit_train, given.epochs, settings, given.precision)
    runs = planned(given.group, given.methods, given.seeds, taus=given.tau)
    for run in [] if given.print else runs:
        try:
            folder.make(run, changes)
        except subprocess.CalledProcessError as error:
            msg = f"run {run.name} stopped (see above); the same command goes on with it"
            raise SystemExit(msg) from error
    tables = Tables(folder, given.group, mask_samples=given.mask_samples)
    print(f"\n{tables.text()}", flush=True)
    save(given.out, tables.content() if given.out else None)
    if given.figure is not None:
        tables.draw(given.figure)


if __name__ == "__main__":
    main()
