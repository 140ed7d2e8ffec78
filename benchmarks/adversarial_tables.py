"""The tables of docs/methods/adversarial.md: one more epoch against each adversary, then attacked.

    python -m benchmarks.adversarial_tables --data_dir DIR --masked_lm FOLDER --encoder FOLDER

A classifier is trained as ever (configs/text_classifier); every other row goes on from its
checkpoint for one epoch (of SST-2 over 20,000 texts), against another adversary. DIR is a data
directory that also holds what attacks need (docs/attacks.md), FOLDER a masked language model for
BAE (without it, BAE is left out). Runs that are finished are not repeated, interrupted ones go on;
the tables are printed from their `results.json`. With `--print` nothing is run; `--figure FILE.png`
draws them.
"""

from pathlib import Path
from statistics import mean

from app.figures.charts import Bars, grouped_bars
from benchmarks.command import command, parsed
from benchmarks.program_runs import Row, RunTables, cell, make, results

RECIPES = ("textfooler", "textbugger", "bae", "deepwordbug", "pwws", "a2t")
ADVERSARIES = ("none", "fgsm", "pgd", "freelb", "smart", "virtual", "a2t", "textfooler")
GROUPS = ("sst2", "minilm", "reviews")
CONFIGS = Path("configs")
ENCODER = [
    *("--config=configs/unibert/sst2.yaml", "--config=configs/unibert/trims/bert.yaml"),
    *("--data.limit_train=10000", "--trainer.max_epochs=2", "--data.batch_size=32"),
    *("--model.pooling=mean", "--model.optimisation.optimizer.init_args.lr=1e-4"),
]
"""Options that tune a pretrained encoder before it is attacked."""
LIMIT = {
    "sst2": ["--data.limit_train=20000"],
    "minilm": [
        *("--data.limit_train=5000", "--data.batch_size=32"),
        "--model.optimisation.optimizer.init_args.lr=5e-5",
    ],
    "reviews": [],
}
SHORTER = [
    "--model.adversary.init_args.step_size=0.1",
    "--model.adversary.init_args.initial_size=0.3",
]
"""Of FreeLB, for the shorter embeddings of BERT."""
SHARE = ["--model.adversary.init_args.adversarial_share=0.1"]
"""Options that limit the attacks of the one more epoch, so that a table takes hours, not days."""


class AdversarialTables(RunTables):
    """See `RunTables`."""

    def rows(self, group: str) -> list[Row]:
        """Returns the rows of a group; all but the first go on from its classifier."""
        corpus = "reviews" if group == "reviews" else "sst2"
        if group == "minilm":
            options = [*ENCODER, f"--model.backbone.pretrained={self.given.encoder}"]
        else:
            options = [f"--config={CONFIGS}/text_classifier/{group}.yaml"]
        found = [Row("standard training", f"{group}-standard", options)]
        for name in ADVERSARIES:
            options = [
                f"--config={CONFIGS}/adversarial/{corpus}_continued.yaml",
                f"--config={CONFIGS}/adversarial/adversaries/{name}.yaml",
                *LIMIT[group],
            ]
            options += SHARE if group != "reviews" and name == "a2t" else []
            options += SHORTER if (group, name) == ("minilm", "freelb") else []
            title = "one more epoch, plain" if name == "none" else name
            found.append(Row(title, f"{group}-{name}", options))
        if group == "reviews":
            names = ("reviews.yaml", "adversaries/textfooler.yaml")
            options = [f"--config={CONFIGS}/adversarial/{name}" for name in names]
            options += ["--model.adversary.init_args.attack.similarity=0", "--trainer.max_epochs=8"]
            options += ["--model.adversary.init_args.extend_vocabulary=true"]
            found.append(Row("textfooler from the start", "reviews-start", options))
        return found

    def make(self, group: str, row: Row) -> None:
        """Trains, tests and attacks one row, as far as that is not done."""
        given, path = self.given, self.path(row)
        common = [] if group == "reviews" else ["--data.data_dir", str(given.data_dir)]
        options = [*row.options, *common]
        if row.run not in ("reviews-start", f"{group}-standard"):
            first = given.runs_dir / f"{group}-standard/checkpoints/best.ckpt"
            options.append(f"--model.init_from={first}")
        if row.title.startswith(("textfooler", "a2t")):
            options.append(f"--model.adversary.init_args.attack.resources={given.data_dir}")
        make(path, "fit", options)
        # An encoder takes its time for PGD.
        make(path, "test", [*common, "--pgd.epsilon", "0" if group == "minilm" else "1"])
        wanted = [name for name in RECIPES if name != "bae" or given.masked_lm]
        missing = [name for name in wanted if self.attacked(row, name) is None]
        language_model = ["--attack.masked_lm", given.masked_lm] if "bae" in missing else []
        self.attack(row, missing, [*common, *language_model])

    def attacked(self, row: Row, recipe: str) -> float | None:
        """Returns the accuracy under an attack, in percent."""
        return self.metric(row, f"attack/{recipe}/accuracy")

    def mean(self, row: Row) -> float | None:
        """Returns the mean accuracy under all attacks; over some of them it is not comparable."""
        found = [self.attacked(row, recipe) for recipe in RECIPES]
        known = [value for value in found if value is not None]
        return mean(known) if len(known) == len(RECIPES) else None

    def head(self, group: str) -> list[str]:
        """Returns the titles of the columns."""
        return ["model", "clean", "l2-PGD", *RECIPES, "mean of the attacks", "fit, s"]

    def cells(self, group: str, row: Row) -> list[str]:
        """Returns clean accuracy, that under l2-PGD and each attack, their mean, and seconds."""
        tests = [self.metric(row, f"test/{name}accuracy") for name in ("", "pgd_")]
        attacks = [self.attacked(row, recipe) for recipe in RECIPES]
        seconds = results(self.path(row))["seconds"].get("fit")
        return [*map(cell, [*tests, *attacks, self.mean(row)]), cell(seconds, 0)]

    def draw(self, path: Path) -> None:
        """Draws clean accuracy and mean under attack of all rows that were attacked."""
        found = []
        for group in self.given.group:
            for row in self.rows(group):
                clean, attacked = self.metric(row, "test/accuracy"), self.mean(row)
                if clean is not None and attacked is not None:
                    title = row.title.removeprefix("one more epoch, ").removesuffix(" training")
                    found.append((f"{group}: {title}", clean, attacked))
        if not found:
            msg = f"got no attacked runs in {self.given.runs_dir}, expected some: omit --print"
            raise SystemExit(msg)
        names, clean_bars, under_attack = zip(*found, strict=True)
        bars = [Bars(name="clean", height=clean_bars)]
        bars += [Bars(name="under attack", height=under_attack)]
        grouped_bars(names, bars, path, y_label="accuracy, %")


def main() -> None:
    """Runs, prints and draws."""
    options = ("data_dir", "runs_dir", "encoder", "num_samples", "only", "print", "figure")
    parser = command(__doc__, *options, group=list(GROUPS))
    parser.add_argument("--masked_lm", help="folder of the masked language model that BAE asks")
    given = parsed(parser, "data_dir")
    if "minilm" in given.group and not given.print and given.encoder is None:
        parser.error("give --encoder FOLDER for group minilm, or other groups")
    if given.only is not None:
        given.only.append("standard training")
    tables = AdversarialTables(given)
    tables.show()
    if given.figure is not None:
        tables.draw(given.figure)


if __name__ == "__main__":
    main()
