"""The picture of the README: accuracy under attack and certified accuracy, over the radius.

    python -m benchmarks.robustness_picture --run runs/olsa runs/transformer --figure FILE.png

Every run is a finished `train`. The attack is that of `test`: l2-PGD with 20 steps on the embedded
texts of the test split. Certified accuracy is read from `certificates.jsonl`: the share of the
texts that are classified rightly with a radius of more than that of the axis. The truth is between
the two lines of a run.
"""

from argparse import Namespace
from pathlib import Path

from attacks import PGDSettings
from benchmarks.command import command, save, table
from benchmarks.program_runs import load_run
from measure.charts import drawing, points
from measure.trainer import MeasuringTrainer
from text.bounded_files import json_lines
from training.join import JoinCorpus

RADII = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)
Curves = dict[str, list[float]]


def attacked_accuracy(run: Path) -> list[float]:
    """Return the accuracy of a run under attack at each radius."""
    model, corpus = load_run(run)
    trainer = MeasuringTrainer(
        accelerator="cpu",
        callbacks=[JoinCorpus()],
        enable_checkpointing=False,
        enable_progress_bar=False,
        inference_mode=False,
        logger=False,
    )
    points = []
    for radius in RADII:
        (metrics,) = trainer.test(
            model, datamodule=corpus, verbose=False, pgd=PGDSettings(epsilon=radius)
        )
        points.append(metrics["test/pgd_accuracy" if radius else "test/accuracy"])
    return points


def certified_accuracy(path: Path) -> list[float]:
    """Return the certified accuracy at each radius, from the certificates of a run."""
    records = [record for _, record in json_lines(path, "certificates")]
    right = [record["radius"] for record in records if record["prediction"] == record["label"]]
    # At radius 0 all right texts count, also those without a certificate.
    return [sum(radius > limit or limit == 0 for radius in right) / len(records) for limit in RADII]


def curves(runs: list[Path]) -> Curves:
    """Return the lines of the picture by name; a run without certificates has one line."""
    curves: Curves = {}
    for run in runs:
        curves[f"{run.name}, under attack"] = attacked_accuracy(run)
        if (run / "certificates.jsonl").is_file():
            curves[f"{run.name}, certified"] = certified_accuracy(run / "certificates.jsonl")
    return curves


def draw(lines: Curves, path: Path) -> None:
    """Draw the lines."""
    with drawing(path, size=(6.0, 3.4)) as figure:
        axes = figure.add_subplot()
        for i, (name, heights) in enumerate(lines.items()):
            axes.errorbar(RADII, [100 * height for height in heights], **points(i, name))
        axes.set(xlabel="radius in the space of embeddings", ylabel="accuracy in %", ylim=(0, 100))
        axes.legend()


def main(argv: list[str] | None = None) -> None:
    """Measure the runs, print the figures and draw the picture."""
    parser = command(__doc__, "out", "figure")
    parser.add_argument("--run", type=Path, nargs="+", required=True, help="run directories")
    options: Namespace = parser.parse_args(argv)
    lines = curves(options.run)
    save(options.out, {"radii": RADII, **lines})
    if options.figure is not None:
        draw(lines, options.figure)
    print(
        table(["radius", *map(str, RADII)], ([name, *heights] for name, heights in lines.items()))
    )


if __name__ == "__main__":
    main()
