"""The tables of docs/methods/unibert.md: every row a run of the real commands, attacked twice.

    python -m benchmarks.unibert_tables --data_dir DIR --encoder FOLDER [--group sst2 ag_news ...]

DIR is a data directory that also holds what attacks need (docs/attacks.md), FOLDER a sentence
encoder, which is also what the group `pretrained` fine-tunes. Runs that are finished are not
repeated, interrupted ones go on; the tables are printed from their `results.json`. With `--print`
nothing is run.
"""

import gzip
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from benchmarks.command import command, parsed
from benchmarks.program_runs import NOT_RUN, Row, RunTables, cell, make

CONFIGS = Path("configs/unibert")
RECIPES = ("pwws", "textbugger", "textfooler")
TRIMS = ("bert", "bert_unitary", "bert_multi_margin", "unibert")
MARGINS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
BASE = {
    "sst2": ["--data.limit_train", "20000", "--trainer.max_epochs", "3"],
    "ag_news": ["--data.limit_train", "10000", "--trainer.max_epochs", "2"],
    "snli": ["--trainer.max_epochs", "2"],
}
SHORT = ["--trainer.max_steps=1500"]
"""Options that limit what is trained on, so that a table takes an hour and not a day."""
PRETRAINED = [
    "--data.limit_train=10000",
    "--trainer.max_epochs=2",
    "--model.pooling=mean",
    "--data.batch_size=32",
    "--model.optimisation.optimizer.init_args.lr=1e-4",
    "--model.optimisation.warmup=0.1",
]


def tuned(corpus: str, trim: str, runs: Path) -> list[str]:
    """Returns the options of a fine-tuning on one of our own encoders."""
    plain = trim in ("bert", "bert_multi_margin")
    folder = runs / ("pretrain-plain" if plain else "pretrain") / "backbone"
    names = (f"{corpus}.yaml", f"trims/{trim}.yaml", "small.yaml")
    return [
        *(f"--config={CONFIGS / name}" for name in names),
        f"--model.backbone.pretrained={folder}",
    ]


def compose_snli(data_dir: Path, folder: Path) -> Path:
    """Makes a training split for SNLI, which is not among the data, without the test split.

    The development split but every tenth row, and the training part of the counterfactually
    revised data with its originals (Kaushik et al. 2020); the tenth rows validate.
    """
    target = folder / "snli"
    if (target / "test.tsv").exists():
        return folder
    target.mkdir(parents=True, exist_ok=True)
    with gzip.open(data_dir / "snli/validation.tsv.gz", "rt", encoding="utf-8") as file:
        header, *developed = file.read().splitlines()
    revised = [
        line
        for part in ("original_train", "revised_train")
        for line in (data_dir / f"snli_counterfactual/{part}.tsv").read_text().splitlines()[1:]
    ]
    kept = [line for i, line in enumerate(developed) if i % 10]
    with gzip.open(data_dir / "snli/test.tsv.gz", "rt", encoding="utf-8") as file:
        tested = file.read().splitlines()[1:]
    for split, lines in (
        ("train", kept + revised),
        ("validation", developed[::10]),
        ("test", tested),
    ):
        (target / f"{split}.tsv").write_text("\n".join([header, *lines]) + "\n")
    return folder


class UniBERTTables(RunTables):
    """See `RunTables`."""

    def rows(self, group: str) -> Iterator[Row]:
        """Yields the rows of a group."""
        runs = self.given.runs_dir
        if group == "pretraining":
            for title, unitary, run in (
                ("without unitary weights", "none", "pretrain-plain"),
                ("unitary weights", "qr", "pretrain"),
            ):
                options = [
                    f"--config={CONFIGS}/pretrain_small.yaml",
                    f"--model.unitary.method={unitary}",
                ]
                yield Row(title, run, [*options, "--data.limit_tokens=6000000", *SHORT])
        elif group in BASE:
            for trim in TRIMS:
                yield Row(trim, f"{group}-{trim}", tuned(group, trim, runs) + BASE[group])
        elif group == "margins":
            for margin in MARGINS:
                options = [
                    *tuned("sst2", "unibert", runs),
                    *BASE["sst2"],
                    f"--model.objective.margin={margin}",
                ]
                yield Row(f"margin {margin:g}", f"margin-{margin:g}", options)
        else:
            for trim in TRIMS:
                options = [f"--config={CONFIGS}/sst2.yaml", f"--config={CONFIGS}/trims/{trim}.yaml"]
                options += [f"--model.backbone.pretrained={self.given.encoder}", *PRETRAINED]
                projected = ", projected at once" if trim in ("bert_unitary", "unibert") else ""
                yield Row(trim + projected, f"pretrained-{trim}", options)
            for loss in ("cross_entropy", "multi_margin"):
                options = [f"--config={CONFIGS}/sst2.yaml", f"--model.objective.loss={loss}"]
                options += [
                    f"--model.backbone.pretrained={runs / 'distil' / 'backbone'}",
                    *PRETRAINED,
                ]
                yield Row(f"{loss}, projected and distilled", f"distilled-{loss}", options)

    def make(self, group: str, row: Row) -> None:
        """Trains and attacks one row, as far as that is not done."""
        given, path, data = self.given, self.path(row), self.given.data_dir
        if group == "snli":
            data = compose_snli(data, given.runs_dir / "data")
        common = ["--data.data_dir", str(data)]
        if group == "pretraining":
            make(path, "train", [*row.options, *common], stage="test")
            return
        if row.run.startswith("distilled"):
            make(given.runs_dir / "distil", "fit", distillation(given))
        make(path, "fit", [*row.options, *common])
        make(path, "test", [*common, "--pgd.epsilon", "0"])
        for score in given.score:
            missing = [one for one in RECIPES if self.attacked(row, one, score) is None]
            options = ["--attack.score", score, "--attack.sentence_encoder", given.encoder]
            options += ["--attack.tag", score] if score != "margin" else []
            self.attack(row, missing, [*options, *common])

    def attacked(self, row: Row, recipe: str, score: str) -> float | None:
        """Returns the accuracy under an attack, in percent."""
        name = recipe if score == "margin" else f"{recipe}-{score}"
        # What a blind attack leaves standing is filed apart: it is no robustness.
        keys = ("accuracy", "unreliable_accuracy")
        return self.metric(row, *(f"attack/{name}/{key}" for key in keys))

    def head(self, group: str) -> list[str]:
        """Returns the titles of the columns."""
        if group == "pretraining":
            quarters = [f"quarter {q}" for q in (1, 2, 3, 4)]
            return ["encoder", *quarters, "validation", "masked accuracy", "tokens/s"]
        attacks = [f"{recipe}, {score}" for score in self.given.score for recipe in RECIPES]
        return ["model", "accuracy", *attacks, "blind, %"]

    def cells(self, group: str, row: Row) -> list[str]:
        """Returns losses and speed of a pre-training, otherwise accuracies."""
        if group == "pretraining":
            *quarters, speed = curve(self.path(row))
            tested = [self.metric(row, f"test/{n}", scale=1) for n in ("loss", "accuracy")]
            return [*quarters, *(cell(one, 3) for one in tested), speed]
        clean = self.metric(row, "test/accuracy")
        found = [self.attacked(row, r, score) for score in self.given.score for r in RECIPES]
        # Of the texts that are attacked, those on which the probability says nothing.
        blind = self.metric(row, "attack/textfooler-probability/saturated")
        return [cell(clean), *(cell(one) for one in found), cell(blind, 0)]


def distillation(given: Namespace) -> list[str]:
    """Returns the options by which a unitary copy learns to imitate the encoder."""
    options = ["--model=UnitaryDistillation", f"--model.backbone.pretrained={given.encoder}"]
    options += ["--model.optimisation.optimizer.init_args.lr=5e-4", "--model.max_length=64"]
    options += ["--data=RunningText", "--data.files=imdb/unsup_12k.txt.gz", "--data.length=64"]
    options += ["--data.data_dir", str(given.data_dir), "--data.batch_size=16"]
    options += ["--trainer.max_steps=200", "--trainer.limit_val_batches=2"]
    return [*options, "--checkpoint.monitor=null"]


def curve(path: Path) -> list[str]:
    """Returns the training loss in each quarter of a run, and the median of tokens per second."""
    events = [EventAccumulator(str(file)).Reload() for file in sorted(path.glob("events*"))]
    found: dict[str, dict[int, float]] = {"train/loss": {}, "train/tokens_per_second": {}}
    for name, values in found.items():
        for one in events:
            if name in one.Tags()["scalars"]:
                values |= {scalar.step: scalar.value for scalar in one.Scalars(name)}
    losses = list(found["train/loss"].values())
    if len(losses) < 4:
        return [NOT_RUN] * 5
    n = len(losses)
    quarters = [mean(losses[q * n // 4 : (q + 1) * n // 4]) for q in range(4)]
    speed = median(found["train/tokens_per_second"].values())
    return [*(f"{loss:.3f}" for loss in quarters), f"{speed:.0f}"]


def main() -> None:
    """Runs and prints."""
    options = ("data_dir", "runs_dir", "encoder", "num_samples", "only", "print")
    parser = command(__doc__, *options, group=["pretraining", *BASE, "pretrained", "margins"])
    parser.add_argument("--score", nargs="+", choices=("margin", "probability"), default=["margin"])
    UniBERTTables(parsed(parser, "data_dir", "encoder")).show()


if __name__ == "__main__":
    main()
