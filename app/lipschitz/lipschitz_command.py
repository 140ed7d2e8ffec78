"""`python -m app lipschitz`: Lipschitz constants of attentions, proven and found."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from app.lipschitz import divergence, layer_times, reconstruction, stability, tightness
from app.lipschitz.ascent import Ascent
from app.lipschitz.subjects import NAMES, Subject
from app.processes.devices import torch_device
from app.runs.run_directory import RunDirectory
from layers.attention.mechanisms import KINDS

Experiment = Callable[[Path, torch.device], list[str]]
_OF_A_RUN = "run:NAME is the first attention of a run's model"


def main(argv: Sequence[str]) -> int:
    """Runs `lipschitz`; see `Command.place`.

    Raises:
        ValueError: settings that make no sense, or other ones than those of the run.
        OSError: a file that cannot be written.
    """
    args = parser().parse_args(argv)
    run = RunDirectory(Path(args.runs_dir) / (args.run or f"lipschitz_{args.experiment}"))
    experiment, device = _EXPERIMENTS[args.experiment](args), torch_device(args.device)
    run.lock()
    try:
        lines = experiment(run.path, device)
    finally:
        run.unlock()
    print("\n".join(lines))
    print(f"\n{run.path / args.experiment}.json, .csv, .png, .svg")
    return 0


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="steadfast lipschitz",
        description="Lipschitz constants of attentions: what is proven, and what is found "
        "(docs/methods/l2_attention.md). Writes a run, runs/NAME/, and goes on where it was "
        "stopped.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="experiment", required=True, metavar="FIGURE")
    _tightness_options(_of(commands, "tightness", "proven bounds, and the largest norm found"))
    _divergence_options(_of(commands, "divergence", "ascent on the norm of the Jacobian"))
    _invertibility_options(_of(commands, "invertibility", "fixed-point inversion of x + c f(x)"))
    _stability_options(_of(commands, "stability", "outputs of a layer, and losses of runs"))
    _runtime_options(_of(commands, "runtime", "time of a layer, forward and back"))
    return parser


def _of(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, about: str
) -> argparse.ArgumentParser:
    one = commands.add_parser(name, help=about, description=about, allow_abbrev=False)
    add = one.add_argument
    add("--run", metavar="NAME", help=f"name of the run (default: lipschitz_{name})")
    add("--runs_dir", default="runs", metavar="DIR", help="directory of all runs (default: runs)")
    add("--device", default="auto", help="auto (default: a GPU if there is one), cpu, cuda:1")
    add("--debug", action="store_true", help="show where an error came from (STEADFAST_DEBUG=1)")
    return one


def _tightness_options(one: argparse.ArgumentParser) -> None:
    add = one.add_argument
    text = f"one of {', '.join(NAMES)}; {_OF_A_RUN}"
    add("--kind", default="l2_tied", metavar="NAME", help=text)
    add("--norm", default="inf", help="2 or inf, of all numbers of a text (default: inf)")
    _sizes(one, width=1, heads=1)
    default = list(range(100, 1001, 100))
    text = "numbers of tokens (default: 100 200 ... 1000)"
    add("--lengths", type=int, nargs="+", default=default, metavar="N", help=text)
    text = "identity (default), as in the paper, or random"
    add("--weights", default="identity", help=text)
    text = "largest norm of a token, for one_lipschitz and one_lipschitz_l2 (default: 4)"
    add("--radius", type=float, default=4.0, metavar="R", help=text)
    add("--top", type=int, default=5, metavar="K", help="best starts to show (default: 5)")
    _ascent_options(one, starts=50, steps=1000)


def _divergence_options(one: argparse.ArgumentParser) -> None:
    _kinds(one, ["scaled_dot_product", "l2", "l2_tied"], NAMES)
    one.add_argument("--norm", default="inf", help="2 or inf (default: inf)")
    _sizes(one, width=64, heads=8)
    _count(one, "tokens", 64, "tokens of a text")
    _ascent_options(one, starts=8, steps=500)


def _invertibility_options(one: argparse.ArgumentParser) -> None:
    _kinds(one, ["l2_tied", "l2_contractive", "scaled_dot_product"], NAMES)
    text = "the c of x + c f(x) (default: 0.5 0.7 0.9)"
    add = one.add_argument
    add("--factors", type=float, nargs="+", default=[0.5, 0.7, 0.9], metavar="C", help=text)
    _sizes(one, width=64, heads=8)
    _count(one, "tokens", 64, "tokens of a text")
    _count(one, "texts", 128, "inputs that are inverted")
    text = "inputs are from U[-R, R], the first token is 0 (default: 10)"
    add("--input_range", type=float, default=10.0, metavar="R", help=text)
    default = [1, 2, 4, 8, 16, 32, 64]
    text = "evaluations of f (default: 1 2 4 ... 64)"
    add("--iterations", type=int, nargs="+", default=default, metavar="N", help=text)
    _count(one, "seed", 0, "seed of weights and inputs")


def _stability_options(one: argparse.ArgumentParser) -> None:
    _kinds(one, ["scaled_dot_product", "l2_tied"], NAMES)
    text = "runs whose training losses are drawn"
    one.add_argument("--curves", nargs="+", default=[], metavar="RUN", help=text)
    _sizes(one, width=64, heads=8)
    _count(one, "tokens", 64, "tokens of a text")
    _count(one, "texts", 128, "inputs")
    text = "inputs are from U[-R, R], the first token is 0 (default: 10)"
    one.add_argument("--input_range", type=float, default=10.0, metavar="R", help=text)
    _count(one, "bins", 60, "bars of the histogram")
    _count(one, "seed", 0, "seed of weights and inputs")


def _runtime_options(one: argparse.ArgumentParser) -> None:
    _kinds(one, ["l2", "l2_tied", "l2_contractive"], tuple(KINDS))
    _sizes(one, width=512, heads=8)
    _count(one, "tokens", 256, "tokens of a text")
    _count(one, "texts", 8, "texts of a batch")
    _count(one, "rounds", 20, "times that each is measured")


def _kinds(one: argparse.ArgumentParser, default: list[str], names: Sequence[str]) -> None:
    text = f"attentions (default: {' '.join(default)}), of {', '.join(names)}"
    text += f"; {_OF_A_RUN}" if names == NAMES else ""
    one.add_argument("--kinds", nargs="+", default=default, metavar="NAME", help=text)


def _sizes(one: argparse.ArgumentParser, *, width: int, heads: int) -> None:
    _count(one, "width", width, "D, numbers of a token")
    _count(one, "heads", heads, "H, heads of the attention")


def _ascent_options(one: argparse.ArgumentParser, *, starts: int, steps: int) -> None:
    _count(one, "starts", starts, "random inputs to climb from")
    _count(one, "steps", steps, "steps of Adam, at most")
    _count(one, "seed", 0, "seed of random weights and starts")
    text = "learning rate of the ascent (default: 0.1)"
    one.add_argument("--rate", type=float, default=0.1, metavar="R", help=text)


def _count(one: argparse.ArgumentParser, name: str, default: int, about: str) -> None:
    text = f"{about} (default: {default})"
    one.add_argument(f"--{name}", type=int, default=default, metavar="N", help=text)


def _tightness(args: argparse.Namespace) -> Experiment:
    names = ("kind", "width", "heads", "weights", "radius", "seed", "runs_dir")
    given = tightness.Tightness(
        subject=Subject(**{name: getattr(args, name) for name in names}),
        norm=args.norm,
        lengths=args.lengths,
        ascent=Ascent(starts=args.starts, steps=args.steps, rate=args.rate),
        top=min(args.top, args.starts),
        seed=args.seed,
    )
    return lambda folder, device: tightness.run(given, folder, device)


def _divergence(args: argparse.Namespace) -> Experiment:
    names = ("kinds", "width", "heads", "tokens", "norm", "seed", "runs_dir")
    ascent = Ascent(starts=args.starts, steps=args.steps, patience=args.steps, rate=args.rate)
    given = divergence.Divergence(ascent=ascent, **{name: getattr(args, name) for name in names})
    return lambda folder, device: divergence.run(given, folder, device)


def _invertibility(args: argparse.Namespace) -> Experiment:
    sizes = ("width", "heads", "tokens", "texts", "input_range", "seed", "runs_dir")
    names = ("kinds", "factors", "iterations", *sizes)
    given = reconstruction.Reconstruction(**{name: getattr(args, name) for name in names})
    return lambda folder, device: reconstruction.run(given, folder, device)


def _stability(args: argparse.Namespace) -> Experiment:
    sizes = ("width", "heads", "tokens", "texts", "input_range", "bins", "seed", "runs_dir")
    names = ("kinds", "curves", *sizes)
    given = stability.Stability(**{name: getattr(args, name) for name in names})
    return lambda folder, device: stability.run(given, folder, device)


def _runtime(args: argparse.Namespace) -> Experiment:
    names = ("kinds", "width", "heads", "tokens", "texts", "rounds")
    given = layer_times.LayerTimes(**{name: getattr(args, name) for name in names})
    return lambda folder, device: layer_times.run(given, folder, device)


_EXPERIMENTS: dict[str, Callable[[argparse.Namespace], Experiment]] = {
    "tightness": _tightness,
    "divergence": _divergence,
    "invertibility": _invertibility,
    "stability": _stability,
    "runtime": _runtime,
}
