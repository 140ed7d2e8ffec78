"""The tables of docs/methods/olsa.md: every row a run of the real command.

    python -m benchmarks.olsa --data_dir DIR [--group depth gamma ...] [--backbone FOLDER]

Runs that are finished are not repeated, interrupted ones go on; the tables are printed from their
`results.json`. With `--print` nothing is run.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

OLSA = "configs/olsa/sst2.yaml"
GUARDED = "configs/olsa/sst2_guarded.yaml"
BAG = "configs/text_classifier/sst2_bag.yaml"
TRANSFORMER = "configs/text_classifier/sst2.yaml"
FINETUNE = "configs/olsa/sst2_finetune.yaml"
REVIEWS = "configs/default.yaml"
REVIEWS_TRANSFORMER = "configs/text_classifier/reviews.yaml"

Row = tuple[str, str, list[str]]


def _model(**settings: object) -> list[str]:
    return [
        part
        for name, value in settings.items()
        for part in (f"--model.{name}", "null" if value is None else str(value).lower())
    ]


PURE: dict[str, object] = {"value_clip": None, "offset_heads": 0, "feedforward": False}
"""Nothing that the paper does not have."""

GROUPS: dict[str, list[Row]] = {
    "depth": [
        *((f"ours, {d} layer(s), hinge 2", OLSA, _model(depth=d)) for d in (1, 2, 3)),
        ("bag, hinge 2", BAG, []),
        ("Transformer, 2 layers", TRANSFORMER, []),
        *(
            (f"paper's layers, {d}, gamma 2.0, margin pairwise, cap 2", GUARDED, _model(depth=d))
            for d in (1, 2, 3)
        ),
    ],
    "reviews": [
        ("ours, 2 layers, hinge 0.6", REVIEWS, []),
        ("ours without offset heads", REVIEWS, _model(offset_heads=0)),
        ("bag, hinge 0.6", REVIEWS, _model(depth=0)),
        (
            "ours, paper's loss, gamma 0.5, margin pairwise, cap 2",
            REVIEWS,
            _model(loss="cross_entropy", gamma=0.5, margin="pairwise", margin_cap=2.0),
        ),
        ("Transformer, 2 layers", REVIEWS_TRANSFORMER, []),
    ],
    "gamma": [
        (
            f"paper's layers, 1, gamma {g}",
            GUARDED,
            _model(gamma=g, margin="paper", margin_cap=None),
        )
        for g in (0.2, 0.5, 1.0, 2.0, 5.0)
    ],
    "guard": [
        (f"paper's layers, 1, gamma {g}, margin pairwise, cap 2", GUARDED, _model(gamma=g))
        for g in (2.0, 5.0)
    ],
    "hinge": [
        *((f"ours, 1 layer, hinge {t}", OLSA, _model(target_radius=t)) for t in (1.0, 1.5, 3.0)),
        *((f"bag, hinge {t}", BAG, _model(target_radius=t)) for t in (1.0, 1.5, 3.0)),
    ],
    "parts": [
        ("ours without offset heads", OLSA, _model(offset_heads=0)),
        ("ours without feed-forward", OLSA, _model(feedforward=False)),
        ("ours without value clip", OLSA, _model(value_clip=None)),
        ("ours, alpha_1 from 4", OLSA, _model(initial_alpha_1=4.0)),
    ],
    "ablation": [
        ("dropout 0.1", OLSA, _model(**PURE, dropout=0.1)),
        ("ReLU", OLSA, _model(**PURE, activation="relu")),
        ("mean-only LayerNorm", OLSA, _model(**PURE, mean_norm=True)),
    ],
    "finetune": [
        ("OLSA on MiniLM, hinge 1", FINETUNE, []),
        ("bag on MiniLM, hinge 1", FINETUNE, _model(depth=0)),
        ("OLSA on MiniLM, hinge 0.6", FINETUNE, _model(target_radius=0.6)),
    ],
}


def run_name(row: Row) -> str:
    """The run of a row: its corpus and its title."""
    title, config, _ = row
    corpus = "reviews" if config in (REVIEWS, REVIEWS_TRANSFORMER) else "sst2"
    kept = "".join(c if c.isalnum() or c == "." else "-" for c in title.lower())
    return "-".join([corpus, *(part for part in kept.split("-") if part)])


def train(row: Row, arguments: argparse.Namespace) -> None:
    """Run one row unless it is finished."""
    _, config, overrides = row
    results = arguments.runs_dir / run_name(row) / "results.json"
    if results.is_file() and "certify" in json.loads(results.read_text())["seconds"]:
        return
    command = [sys.executable, "-m", "app", "train", "--config", config]
    command += ["--data.data_dir", arguments.data_dir, "--run", run_name(row)]
    command += ["--runs_dir", str(arguments.runs_dir), *overrides]
    if config == FINETUNE and arguments.backbone:
        command += ["--model.backbone", arguments.backbone]
    print("$", " ".join(command), file=sys.stderr, flush=True)
    subprocess.run([*command, "--trainer.enable_progress_bar", "false"], check=True)


def table(group: str, runs_dir: Path) -> str:
    """The Markdown table of a group, from what is finished."""
    lines = [
        "| model | accuracy | mean radius | radius, 0 if wrong | accuracy under PGD, eps 1 "
        "| seconds of training |",
        "|---|---|---|---|---|---|",
    ]
    for row in GROUPS[group]:
        title, path = row[0], runs_dir / run_name(row) / "results.json"
        if not path.is_file():
            lines.append(f"| {title} | not run | | | | |")
            continue
        content = json.loads(path.read_text())
        metrics = content["metrics"]
        radii = [metrics.get(f"certify/{name}") for name in ("radius", "radius_correct")]
        if content.get("no_certificate") is not None:
            radii = [None, None]
        cells = [
            f"{100 * metrics.get('test/accuracy', float('nan')):.1f} %",
            *("none" if radius is None else f"{radius:.3f}" for radius in radii),
            f"{100 * metrics.get('test/pgd_accuracy', float('nan')):.1f} %",
            f"{content['seconds'].get('fit', float('nan')):.0f}",
        ]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data_dir", help="folder with sst2/{train,validation,test}.tsv[.gz]")
    parser.add_argument("--runs_dir", type=Path, default=Path("runs"), help="where runs are kept")
    parser.add_argument("--backbone", help="folder or hub name of the pretrained encoder")
    parser.add_argument("--group", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--print", action="store_true", help="print tables of finished runs only")
    arguments = parser.parse_args()
    if not arguments.print and arguments.data_dir is None:
        parser.error("give --data_dir DIR, or --print for what is finished")
    for group in arguments.group:
        for row in [] if arguments.print else GROUPS[group]:
            train(row, arguments)
        print(f"\n{group}\n\n{table(group, arguments.runs_dir)}", flush=True)


if __name__ == "__main__":
    main()
