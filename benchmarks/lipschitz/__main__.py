"""`python -m benchmarks.lipschitz`: Lipschitz constants of attentions, proven bounds and ascent."""

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from benchmarks.command import command
from benchmarks.lipschitz.biases import Biases
from benchmarks.lipschitz.divergence import Divergence
from benchmarks.lipschitz.experiment import Experiment, add_options, with_options
from benchmarks.lipschitz.invertibility import Invertibility
from benchmarks.lipschitz.stability import Stability
from benchmarks.lipschitz.tightness import Tightness
from run_files.devices import torch_device
from run_files.run_directory import RunDirectory

EXPERIMENTS: dict[str, type[Experiment]] = {
    kind.name: kind for kind in (Tightness, Divergence, Biases, Invertibility, Stability)
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run an experiment: write its run, runs/NAME/, or resume it where it was stopped."""
    options = parser().parse_args(argv)
    options.device = torch_device(options.device)
    experiment = with_options(EXPERIMENTS[options.experiment](), options)
    run = RunDirectory(Path(options.runs_dir) / (options.run or f"lipschitz_{experiment.name}"))
    # Two processes would mix their points.
    run.lock()
    try:
        table = experiment.write(run.path)
    finally:
        run.unlock()
    print(f"{table}\n\n{run.path / experiment.name}.json, .csv, .png, .svg")


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = command(__doc__)
    commands = parser.add_subparsers(dest="experiment", required=True, metavar="FIGURE")
    for name, kind in EXPERIMENTS.items():
        figure = commands.add_parser(name, help=kind.text, description=kind.text)
        figure.add_argument("--run", metavar="NAME", help=f"the run (default: lipschitz_{name})")
        figure.add_argument("--runs_dir", default="runs", metavar="DIR", help="default: runs")
        figure.add_argument("--device", default="auto", help="auto (a GPU if any), cpu, cuda:1")
        add_options(figure, kind())
    return parser


if __name__ == "__main__":
    main()
