"""The tables of docs/methods/olsa.md: every row a run of the real command.

    python -m benchmarks.olsa_tables --data_dir DIR [--group depth gamma ...] [--encoder FOLDER]

Runs that are finished are not repeated, interrupted ones go on; the tables are printed from their
`results.json`. With `--print` nothing is run.
"""

from collections.abc import Iterator

from benchmarks.command import command, parsed
from benchmarks.program_runs import NOT_RUN, Row, RunTables, cell, make, results

OLSA = "configs/olsa/sst2.yaml"
GUARDED = "configs/olsa/sst2_guarded.yaml"
BAG = "configs/text_classifier/sst2_bag.yaml"
TRANSFORMER = "configs/text_classifier/sst2.yaml"
FINETUNE = "configs/olsa/sst2_finetune.yaml"
REVIEWS = "configs/default.yaml"
REVIEWS_TRANSFORMER = "configs/text_classifier/reviews.yaml"


def model(*settings: str) -> list[str]:
    """Returns the options of some settings of the model."""
    return [f"--model.{one}" for one in settings]


PURE = ("layers.value_clip=null", "layers.offset_heads=0", "layers.feedforward=false")
"""Nothing that the paper does not have."""

GROUPS: dict[str, list[tuple[str, str, list[str]]]] = {
    "depth": [
        *((f"ours, {d} layer(s), hinge 2", OLSA, model(f"depth={d}")) for d in (1, 2, 3)),
        ("bag, hinge 2", BAG, []),
        ("Transformer, 2 layers", TRANSFORMER, []),
        *(
            (
                f"paper's layers, {d}, gamma 2.0, margin pairwise, cap 2",
                GUARDED,
                model(f"depth={d}"),
            )
            for d in (1, 2, 3)
        ),
    ],
    "reviews": [
        ("ours, 2 layers, hinge 0.6", REVIEWS, []),
        ("ours without offset heads", REVIEWS, model("layers.offset_heads=0")),
        ("bag, hinge 0.6", REVIEWS, model("depth=0")),
        (
            "ours, paper's loss, gamma 0.5, margin pairwise, cap 2",
            REVIEWS,
            model(
                *("objective.loss=cross_entropy", "objective.gamma=0.5"),
                *("objective.margin=pairwise", "objective.margin_cap=2.0"),
            ),
        ),
        ("Transformer, 2 layers", REVIEWS_TRANSFORMER, []),
    ],
    "gamma": [
        (
            f"paper's layers, 1, gamma {g}",
            GUARDED,
            model(f"objective.gamma={g}", "objective.margin=paper", "objective.margin_cap=null"),
        )
        for g in (0.2, 0.5, 1.0, 2.0, 5.0)
    ],
    "guard": [
        (
            f"paper's layers, 1, gamma {g}, margin pairwise, cap 2",
            GUARDED,
            model(f"objective.gamma={g}"),
        )
        for g in (2.0, 5.0)
    ],
    "hinge": [
        *(
            (f"ours, 1 layer, hinge {t}", OLSA, model(f"objective.target_radius={t}"))
            for t in (1.0, 1.5, 3.0)
        ),
        *((f"bag, hinge {t}", BAG, model(f"objective.target_radius={t}")) for t in (1.0, 1.5, 3.0)),
    ],
    "parts": [
        ("ours without offset heads", OLSA, model("layers.offset_heads=0")),
        ("ours without feed-forward", OLSA, model("layers.feedforward=false")),
        ("ours without value clip", OLSA, model("layers.value_clip=null")),
        ("ours, alpha_1 from 4", OLSA, model("layers.initial_alpha_1=4.0")),
    ],
    "ablation": [
        ("dropout 0.1", OLSA, model(*PURE, "layers.dropout=0.1")),
        ("ReLU", OLSA, model(*PURE, "layers.activation=relu")),
        ("mean-only LayerNorm", OLSA, model(*PURE, "layers.mean_norm=true")),
    ],
    "finetune": [
        ("OLSA on MiniLM, hinge 1", FINETUNE, []),
        ("bag on MiniLM, hinge 1", FINETUNE, model("depth=0")),
        ("OLSA on MiniLM, hinge 0.6", FINETUNE, model("objective.target_radius=0.6")),
    ],
}
"""Titles, configurations and other options of the rows."""


class OLSATables(RunTables):
    """See `RunTables`."""

    def rows(self, group: str) -> Iterator[Row]:
        """Yields the rows of a group; a run is named after its corpus and its title."""
        for title, config, more in GROUPS[group]:
            corpus = "reviews" if config in (REVIEWS, REVIEWS_TRANSFORMER) else "sst2"
            kept = "".join(c if c.isalnum() or c == "." else "-" for c in title.lower())
            options = [f"--config={config}", *more]
            if config == FINETUNE and self.given.encoder:
                options += ["--model.backbone.pretrained", self.given.encoder]
            yield Row(title, "-".join([corpus, *filter(None, kept.split("-"))]), options)

    def make(self, group: str, row: Row) -> None:
        """Trains, tests and certifies one row."""
        options = [*row.options, "--data.data_dir", str(self.given.data_dir)]
        make(self.path(row), "train", options, stage="certify")

    def head(self, group: str) -> list[str]:
        """Returns the titles of the columns."""
        radii = ["mean radius", "radius, 0 if wrong"]
        return ["model", "accuracy", *radii, "accuracy under PGD, eps 1", "seconds of training"]

    def cells(self, group: str, row: Row) -> list[str]:
        """Returns accuracy, radii, accuracy under PGD and seconds."""
        found = results(self.path(row))
        if not found["metrics"]:
            return [NOT_RUN, *[""] * 4]
        radii = [self.metric(row, f"certify/{n}", scale=1) for n in ("radius", "radius_correct")]
        if found.get("no_certificate") is not None:
            radii = [None, None]
        clean, attacked = (self.metric(row, f"test/{n}accuracy") for n in ("", "pgd_"))
        shown = ["none" if radius is None else f"{radius:.3f}" for radius in radii]
        seconds = cell(found["seconds"].get("fit"), 0)
        return [f"{cell(clean)} %", *shown, f"{cell(attacked)} %", seconds]


def main() -> None:
    """Runs and prints."""
    options = ("data_dir", "runs_dir", "encoder", "only", "print")
    parser = command(__doc__, *options, group=list(GROUPS))
    OLSATables(parsed(parser, "data_dir")).show()


if __name__ == "__main__":
    main()
