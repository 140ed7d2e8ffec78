"""What docs/methods/asa.md reports of ASA: what a step costs, and what training with it gains.

    python -m benchmarks.asa cost --lengths 128 256 512 [--model minilm] [--batch 16]
        [--repeats 3] [--out FILE.json] [--figure FILE.png]
    python -m benchmarks.asa results --data_dir DIR --runs_dir DIR --encoder FOLDER
        --group sst2 mrpc stsb wnut17 dream hellaswag --methods plain asa bernoulli scheduled
        magnitude freelb smart --seeds 0 1 2 [--limit_train N] [--epochs E] [--precision bf16-mixed]
        [--set NAME=VALUE ...] [--tau 0.1 0.3 0.6 1.0] [--print] [--figure FILE.png]
        [--out FILE.json]

`cost`: see `python -m benchmarks.adversarial_cost`, of which it is a part. `results`: fine-tunes by
the recipes configs/asa/GROUP.yaml with the real command line, tests the weights of the last epoch,
keeps their predictions, and prints tables in the form of the paper's Tables 1 to 4 and Figures 4b
and 5. Runs that are finished are not repeated, interrupted ones go on; with `--print` nothing is
run. Tables hold every finished run of the groups in the folder, whatever was asked for this time;
runs of several commands (such as one with `--limit_train` for a large corpus) may lie there
together. `plain` is FineTuning with the same recipe, `freelb` and `smart` AdversarialTraining
around it. `--tau` adds runs of ASA with other ones than the recipe's.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
import yaml

from app.runs import atomic
from benchmarks import adversarial_cost
from benchmarks.asa_runs import METHODS, TASKS, Changes, Folder, planned
from benchmarks.asa_tables import Tables

GROUPS = ("sst2", "mrpc", "stsb", "wnut17", "dream", "hellaswag")
COMPARED = ("ASA", "FreeLB-2", "FreeLB-3", "SMART-1, released", "SMART-1, proximal")


def results(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """Run, print, write, draw."""
    if not given.print and (given.data_dir is None or given.encoder is None):
        parser.error("give --data_dir DIR and --encoder FOLDER, or --print for what is finished")
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
    if not given.print:
        changes = Changes(given.encoder, given.limit_train, given.epochs, settings, given.precision)
        for run in planned(given.group, given.methods, given.seeds, taus=given.tau):
            try:
                folder.make(run, changes)
            except subprocess.CalledProcessError as error:
                msg = f"run {run.name} stopped (see above); the same command goes on with it"
                raise SystemExit(msg) from error
    tables = Tables(folder, given.group, mask_samples=given.mask_samples)
    print(f"\n{tables.text()}", flush=True)
    if given.out is not None:
        atomic.write_text(given.out, json.dumps(tables.content(), indent=2) + "\n")
    if given.figure is not None:
        tables.draw(given.figure)


def main(argv: Sequence[str] | None = None) -> None:
    """One of both."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["cost"]:
        named = any(word.partition("=")[0] == "--methods" for word in words)
        adversarial_cost.main([*words[1:], *([] if named else ["--methods", *COMPARED])])
        return
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.asa", description=(__doc__ or "").splitlines()[0]
    )
    parts = parser.add_subparsers(required=True)
    parts.add_parser("cost", help="a step of ASA beside others; see cost --help")
    found = parts.add_parser("results", help="runs and tables")
    found.add_argument("--data_dir", type=Path, help="data directory (docs/data.md)")
    found.add_argument("--runs_dir", type=Path, default=Path("runs"), help="where runs are kept")
    found.add_argument("--encoder", help="folder or hub name of the pretrained encoder")
    found.add_argument("--group", nargs="+", choices=list(TASKS), default=list(GROUPS))
    found.add_argument("--methods", nargs="+", choices=METHODS, default=["plain", "asa"])
    found.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    found.add_argument("--limit_train", type=int, help="training samples; all if not given")
    found.add_argument("--epochs", type=int, help="those of the recipe if not given")
    found.add_argument(
        "--precision", help="of the training, such as bf16-mixed; tests are in 32-true"
    )
    found.add_argument(
        "--set", nargs="+", default=[], help="NAME=VALUE of ASA and all that have it; lr=VALUE"
    )
    found.add_argument("--tau", nargs="+", type=float, default=[], help="sweep, with method asa")
    found.add_argument("--threads", type=int, default=1, help="threads of torch")
    found.add_argument("--mask_samples", type=int, default=1000, help="to measure masks on")
    found.add_argument("--print", action="store_true", help="print tables of finished runs only")
    found.add_argument("--figure", type=Path, help="PNG of what is masked, as Figure 5")
    found.add_argument("--out", type=Path, help="where the numbers are kept, as JSON")
    results(found, parser.parse_args(words))


if __name__ == "__main__":
    main()
