"""The tables of docs/methods/adversarial.md: one more epoch against each adversary, then attacked.

    python -m benchmarks.adversarial --data_dir DIR --masked_lm FOLDER --encoder FOLDER

A classifier is trained as ever (configs/text_classifier); every other row goes on from its
checkpoint for one epoch (of SST-2 over 20,000 texts), against another adversary. DIR is a data
directory that also holds what attacks need (docs/attacks.md), FOLDER a masked language model for
BAE (without it, BAE is left out). Runs that are finished are not repeated, interrupted ones go on;
the tables are printed from their `results.json`. With `--print` nothing is run; `--figure FILE.png`
draws them.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

from benchmarks.program import call, results

RECIPES = ("textfooler", "textbugger", "bae", "deepwordbug", "pwws", "a2t")
ADVERSARIES = ("none", "fgsm", "pgd", "freelb", "smart", "virtual", "a2t", "textfooler")
GROUPS = ("sst2", "minilm", "reviews")
CONFIGS = Path("configs")
ENCODER = [
    *("--config=configs/unibert/sst2.yaml", "--config=configs/unibert/trims/bert.yaml"),
    *("--data.limit_train=10000", "--trainer.max_epochs=2", "--data.batch_size=32"),
    *("--model.pooling=mean", "--model.optimizer.init_args.lr=1e-4"),
]
"""How a pretrained encoder is tuned before."""
LIMIT = {
    "sst2": ["--data.limit_train=20000"],
    "minilm": [
        *("--data.limit_train=5000", "--data.batch_size=32"),
        "--model.optimizer.init_args.lr=5e-5",
    ],
    "reviews": [],
}
SHORTER = [
    "--model.adversary.init_args.step_size=0.1",
    "--model.adversary.init_args.initial_size=0.3",
]
"""Of FreeLB, for the shorter embeddings of BERT."""
SHARE = ["--model.adversary.init_args.adversarial_share=0.1"]
"""How much the one more epoch is about, so that a table takes hours and not days."""


class Row(NamedTuple):
    """A line of a table.

    Attributes:
        title: what it is called there.
        run: name of its run.
        options: of `fit`.
        continued: whether it begins with the classifier of the first row.
    """

    title: str
    run: str
    options: list[str]
    continued: bool = True


def rows(group: str, encoder: str | None = None) -> list[Row]:
    """What a table consists of."""
    corpus = "reviews" if group == "reviews" else "sst2"
    if group == "minilm":
        options = [*ENCODER, f"--model.backbone={encoder}"]
    else:
        options = [f"--config={CONFIGS}/text_classifier/{group}.yaml"]
    found = [Row("standard training", f"{group}-standard", options, continued=False)]
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
        options += ["--model.adversary.init_args.similarity=0", "--trainer.max_epochs=8"]
        options += ["--model.adversary.init_args.extend_vocabulary=true"]
        found.append(Row("textfooler from the start", "reviews-start", options, continued=False))
    return found


def run(row: Row, group: str, given: argparse.Namespace) -> None:
    """Train, test and attack one row, as far as that is not done."""
    common = ["--runs_dir", str(given.runs_dir), "--run", row.run]
    common += ["--trainer.enable_progress_bar", "false"]
    if group != "reviews":
        common += ["--data.data_dir", str(given.data_dir)]
    done = results(given.runs_dir / row.run)["seconds"]
    if "fit" not in done:
        options = [*row.options, *common]
        if row.continued:
            first = given.runs_dir / f"{group}-standard/checkpoints/best.ckpt"
            options.append(f"--model.init_from={first}")
        if row.title.startswith(("textfooler", "a2t")):
            options.append(f"--model.adversary.init_args.resources={given.data_dir}")
        call("fit", options)
    if "test" not in done:
        # An encoder takes its time for PGD.
        call("test", [*common, "--pgd.epsilon", "0" if group == "minilm" else "1"])
    wanted = [name for name in RECIPES if name != "bae" or given.masked_lm]
    missing = [name for name in wanted if accuracy(given.runs_dir, row, name) is None]
    if missing:
        options = ["--attack", ",".join(missing), *common, "--attack.html", "false"]
        options += ["--attack.num_samples", str(given.num_samples)]
        options += ["--attack.resources", str(given.data_dir)]
        options += ["--attack.masked_lm", given.masked_lm] if "bae" in missing else []
        call("attack", options)


def accuracy(runs: Path, row: Row, recipe: str) -> float | None:
    """Accuracy under an attack, in percent."""
    value = results(runs / row.run)["metrics"].get(f"attack/{recipe}/accuracy")
    return None if value is None else 100 * value


def line(row: Row, given: argparse.Namespace) -> list[float | None]:
    """Clean accuracy, under l2-PGD, under each attack, and their mean, in percent."""
    metrics = results(given.runs_dir / row.run)["metrics"]
    found = [accuracy(given.runs_dir, row, recipe) for recipe in RECIPES]
    known = [value for value in found if value is not None]
    clean = [metrics.get(f"test/{name}accuracy") for name in ("", "pgd_")]
    # A mean over some of the attacks is no figure to compare.
    mean = sum(known) / len(known) if len(known) == len(RECIPES) else None
    return [*(None if value is None else 100 * value for value in clean), *found, mean]


def table(group: str, given: argparse.Namespace) -> str:
    """The Markdown table of a group, from what is finished."""
    heads = ["model", "clean", "l2-PGD", *RECIPES, "mean of the attacks", "fit, s"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in rows(group, given.encoder):
        cells = ["not run" if value is None else f"{value:.1f}" for value in line(row, given)]
        seconds = results(given.runs_dir / row.run)["seconds"].get("fit")
        cells.append("not run" if seconds is None else f"{seconds:.0f}")
        lines.append(f"| {row.title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(path: Path, given: argparse.Namespace) -> None:
    """Clean accuracy and mean under attack of all rows that were attacked, as PNG."""
    from app.figures.charts import Bars, grouped_bars

    found = []
    for group in given.group:
        for row in rows(group, given.encoder):
            clean, _, *_, mean = line(row, given)
            if clean is not None and mean is not None:
                title = row.title.removeprefix("one more epoch, ").removesuffix(" training")
                found.append((f"{group}: {title}", clean, mean))
    if not found:
        msg = f"got no attacked runs in {given.runs_dir}, expected some: run without --print first"
        raise SystemExit(msg)
    names, clean_bars, attacked = zip(*found, strict=True)
    bars = [Bars(name="clean", height=clean_bars), Bars(name="under attack", height=attacked)]
    grouped_bars(names, bars, path, y_label="accuracy, %")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data_dir", type=Path, help="data directory (docs/data.md)")
    parser.add_argument("--runs_dir", type=Path, default=Path("runs"), help="where runs are kept")
    parser.add_argument("--encoder", help="folder of the pretrained encoder of group minilm")
    parser.add_argument("--masked_lm", help="folder of the masked language model that BAE asks")
    parser.add_argument("--group", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--num_samples", type=int, default=300, help="texts attacked")
    parser.add_argument("--only", nargs="+", help="rows of the groups; all if not given")
    parser.add_argument("--print", action="store_true", help="print tables of finished runs only")
    parser.add_argument("--figure", type=Path, help="PNG of clean accuracy and mean under attack")
    given = parser.parse_args()
    if not given.print and given.data_dir is None:
        parser.error("give --data_dir DIR, or --print for what is finished")
    if "minilm" in given.group and not given.print and given.encoder is None:
        parser.error("give --encoder FOLDER for group minilm, or other groups")
    for group in given.group:
        for row in [] if given.print else rows(group, given.encoder):
            if given.only is None or row.title in (*given.only, "standard training"):
                run(row, group, given)
        print(f"\n{group}\n\n{table(group, given)}", flush=True)
    if given.figure is not None:
        draw(given.figure, given)


if __name__ == "__main__":
    main()
