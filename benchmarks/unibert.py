"""The tables of docs/methods/unibert.md: every row a run of the real commands, attacked twice.

    python -m benchmarks.unibert --data_dir DIR --encoder FOLDER [--group sst2 ag_news ...]

DIR is a data directory that also holds what attacks need (docs/attacks.md), FOLDER a sentence
encoder, which is also what the group `pretrained` fine-tunes. Runs that are finished are not
repeated, interrupted ones go on; the tables are printed from their `results.json`. With `--print`
nothing is run.
"""

import argparse
import gzip
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from benchmarks.program import call, results

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
"""How much of each corpus is trained on, so that a table takes an hour and not a day."""
PRETRAINED = [
    "--data.limit_train=10000",
    "--trainer.max_epochs=2",
    "--model.pooling=mean",
    "--data.batch_size=32",
    "--model.optimizer.init_args.lr=1e-4",
    "--model.warmup=0.1",
]


class Row(NamedTuple):
    """A line of a table.

    Attributes:
        title: what it is called there.
        run: name of its run.
        options: of `train`.
    """

    title: str
    run: str
    options: list[str]


def rows(group: str, runs: Path, encoder: str | None) -> Iterator[Row]:
    """What a table consists of."""
    if group == "pretraining":
        for title, unitary, run in (
            ("without unitary weights", "none", "pretrain-plain"),
            ("unitary weights", "qr", "pretrain"),
        ):
            options = [f"--config={CONFIGS}/pretrain_small.yaml", f"--model.unitary={unitary}"]
            yield Row(title, run, [*options, "--data.limit_tokens=6000000", *SHORT])
    elif group in BASE:
        for trim in TRIMS:
            yield Row(trim, f"{group}-{trim}", tuned(group, trim, runs) + BASE[group])
    elif group == "margins":
        for margin in MARGINS:
            options = [*tuned("sst2", "unibert", runs), *BASE["sst2"], f"--model.margin={margin}"]
            yield Row(f"margin {margin:g}", f"margin-{margin:g}", options)
    else:
        for trim in TRIMS:
            options = [f"--config={CONFIGS}/sst2.yaml", f"--config={CONFIGS}/trims/{trim}.yaml"]
            options += [f"--model.backbone={encoder}", *PRETRAINED]
            projected = ", projected at once" if trim in ("bert_unitary", "unibert") else ""
            yield Row(trim + projected, f"pretrained-{trim}", options)
        for loss in ("cross_entropy", "multi_margin"):
            options = [f"--config={CONFIGS}/sst2.yaml", f"--model.loss={loss}"]
            options += [f"--model.backbone={runs / 'distil' / 'backbone'}", *PRETRAINED]
            yield Row(f"{loss}, projected and distilled", f"distilled-{loss}", options)


def tuned(corpus: str, trim: str, runs: Path) -> list[str]:
    """The options of a fine-tuning on one of our own encoders."""
    plain = trim in ("bert", "bert_multi_margin")
    folder = runs / ("pretrain-plain" if plain else "pretrain") / "backbone"
    names = (f"{corpus}.yaml", f"trims/{trim}.yaml", "small.yaml")
    return [*(f"--config={CONFIGS / name}" for name in names), f"--model.backbone={folder}"]


def compose_snli(data_dir: Path, folder: Path) -> Path:
    """SNLI's training split is not among the data: one of what is there, apart from the test split.

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


def run(row: Row, group: str, given: argparse.Namespace) -> None:
    """Train and attack one row, as far as that is not done."""
    data = given.data_dir
    if group == "snli":
        data = compose_snli(given.data_dir, given.runs_dir / "data")
    common = ["--data.data_dir", str(data), "--runs_dir", str(given.runs_dir), "--run", row.run]
    common += ["--trainer.enable_progress_bar", "false"]
    done = stages(given.runs_dir / row.run)
    if group == "pretraining":
        if "test" not in done:
            call("train", [*row.options, *common])
        return
    if row.run.startswith("distilled"):
        distil(given)
    if "fit" not in done:
        call("fit", [*row.options, *common])
    if "test" not in done:
        call("test", [*common, "--pgd.epsilon", "0"])
    for score in given.score:
        missing = [
            recipe for recipe in RECIPES if metric(given.runs_dir, row, recipe, score) is None
        ]
        if missing:
            options = ["--attack", ",".join(missing), "--attack.score", score, *common]
            options += ["--attack.num_samples", str(given.num_samples)]
            options += ["--attack.resources", str(given.data_dir)]
            options += ["--attack.sentence_encoder", given.encoder, "--attack.html", "false"]
            options += ["--attack.tag", score] if score != "margin" else []
            call("attack", options)


def distil(given: argparse.Namespace) -> None:
    """Make the encoder's weights unitary, and let it learn to say what the original said."""
    if "fit" in stages(given.runs_dir / "distil"):
        return
    options = ["--model=UnitaryDistillation", f"--model.backbone={given.encoder}"]
    options += ["--model.optimizer.init_args.lr=5e-4", "--model.max_length=64"]
    options += ["--data=RunningText", "--data.files=imdb/unsup_12k.txt.gz", "--data.length=64"]
    options += ["--data.data_dir", str(given.data_dir), "--data.batch_size=16"]
    options += ["--trainer.max_steps=200", "--trainer.limit_val_batches=2"]
    options += ["--checkpoint.monitor=null", "--trainer.enable_progress_bar=false"]
    call("fit", [*options, "--runs_dir", str(given.runs_dir), "--run", "distil"])


def stages(path: Path) -> set[str]:
    """What a run has been through."""
    return set(results(path)["seconds"])


def metric(runs: Path, row: Row, recipe: str, score: str) -> float | None:
    """Accuracy under an attack, in percent."""
    name = recipe if score == "margin" else f"{recipe}-{score}"
    metrics = results(runs / row.run)["metrics"]
    # What a blind attack leaves standing is filed apart: it is no robustness.
    found = [metrics.get(f"attack/{name}/{key}") for key in ("accuracy", "unreliable_accuracy")]
    return next((100 * value for value in found if value is not None), None)


def table(group: str, given: argparse.Namespace) -> str:
    """The Markdown table of a group, from what is finished."""
    lines = []
    if group == "pretraining":
        quarters = " | ".join(f"quarter {q}" for q in (1, 2, 3, 4))
        lines = [f"| encoder | {quarters} | validation | masked accuracy | tokens/s |"]
        lines.append("|---" * 8 + "|")
    else:
        heads = [f"{recipe}, {score}" for score in given.score for recipe in RECIPES]
        heads.append("blind, %")
        lines = [
            "| model | accuracy | " + " | ".join(heads) + " |",
            "|---" * (2 + len(heads)) + "|",
        ]
    for row in rows(group, given.runs_dir, given.encoder):
        metrics = results(given.runs_dir / row.run)["metrics"]
        if group == "pretraining":
            cells = curve(given.runs_dir / row.run)
            names = ("test/loss", "test/accuracy")
            cells[4:4] = [f"{metrics.get(name, float('nan')):.3f}" for name in names]
        else:
            cells = [f"{100 * metrics.get('test/accuracy', float('nan')):.1f}"]
            for score in given.score:
                for recipe in RECIPES:
                    value = metric(given.runs_dir, row, recipe, score)
                    cells.append("not run" if value is None else f"{value:.1f}")
            # Of the texts that are attacked, those on which the probability says nothing.
            blind = metrics.get("attack/textfooler-probability/saturated", float("nan"))
            cells.append(f"{100 * blind:.0f}")
        lines.append(f"| {row.title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def curve(path: Path) -> list[str]:
    """The training loss in each quarter of a run, and the tokens a second, in the middle of all."""
    events = [EventAccumulator(str(file)).Reload() for file in sorted(path.glob("events*"))]
    found: dict[str, dict[int, float]] = {"train/loss": {}, "train/tokens_per_second": {}}
    for name, values in found.items():
        for one in events:
            if name in one.Tags()["scalars"]:
                values |= {scalar.step: scalar.value for scalar in one.Scalars(name)}
    losses = list(found["train/loss"].values())
    if len(losses) < 4:
        return ["not run"] * 5
    n = len(losses)
    quarters = [mean(losses[q * n // 4 : (q + 1) * n // 4]) for q in range(4)]
    speed = median(found["train/tokens_per_second"].values())
    return [*(f"{loss:.3f}" for loss in quarters), f"{speed:.0f}"]


def main() -> None:
    """Run and print."""
    groups = ("pretraining", *BASE, "pretrained", "margins")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data_dir", type=Path, help="data directory (docs/data.md)")
    parser.add_argument("--runs_dir", type=Path, default=Path("runs"), help="where runs are kept")
    parser.add_argument("--encoder", help="folder of the sentence encoder")
    parser.add_argument("--group", nargs="+", choices=groups, default=list(groups))
    parser.add_argument("--score", nargs="+", choices=("margin", "probability"), default=["margin"])
    parser.add_argument("--num_samples", type=int, default=300, help="texts attacked")
    parser.add_argument("--only", nargs="+", help="runs of the groups; all if not given")
    parser.add_argument("--print", action="store_true", help="print tables of finished runs only")
    given = parser.parse_args()
    if not given.print and (given.data_dir is None or given.encoder is None):
        parser.error("give --data_dir DIR and --encoder FOLDER, or --print for what is finished")
    for group in given.group:
        for row in [] if given.print else rows(group, given.runs_dir, given.encoder):
            if given.only is None or row.run in given.only:
                run(row, group, given)
        print(f"\n{group}\n\n{table(group, given)}", flush=True)


if __name__ == "__main__":
    main()
