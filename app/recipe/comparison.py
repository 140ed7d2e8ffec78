"""The last table of a recipe: models side by side on the test rows."""

from collections.abc import Iterator, Mapping, Sequence

from app.recipe.candidates import CERTIFIED, cell, holds
from measure.labelled_predictions import Predictions, class_mean, most_frequent
from run_files.ledger import Ledger
from run_files.run_directory import RunDirectory
from run_files.terminal import harmless
from text.estimates import aligned, wilson


def compare_models(
    runs: Sequence[RunDirectory], stage: str, attacks: Sequence[str], class_names: Sequence[str]
) -> str:
    """Return the table of measured runs, and a line about each collapsed model.

    Args:
        runs: the robust run first.
        stage: name of its word certificates in `results.json`.
        attacks: names of the attacks.
        class_names: classes of the corpus.
    """
    means = "  mean of the classes"
    titles = ["clean", means, "largest class"]
    for k in CERTIFIED:
        titles += [f"certified, {k} words", means]
    if attacks:
        titles += ["attacked texts, clean", means]
    for name in attacks:
        titles += [f"under {name}", means]
    columns = [["accuracy, %", *titles]]
    notes: list[str] = []
    labels: Sequence[int] = ()
    for run in runs:
        results = run.results()
        metrics = {} if results is None else results["metrics"]
        made = Predictions.of(Ledger(run.predictions).records())
        labels = made.labels
        column = [run.name, cell(made.accuracy), f"{100 * made.balanced:.1f}"]
        column.append(f"{100 * made.largest[1]:.1f}")
        certificates = Ledger(run.path / f"certificates_{stage.removeprefix('certify_')}.jsonl")
        records = certificates.records()
        for k in CERTIFIED:
            hits = [holds(record, k) for record in records]
            column.append(cell(wilson(sum(hits), len(hits))) if hits else "-")
            column.append(
                f"{100 * class_mean([r['label'] for r in records], hits):.1f}" if hits else "-"
            )
        if attacks:
            column.append(_share(metrics, f"attack/{attacks[0]}", "clean_accuracy"))
            column.append(_attacked_mean(run, attacks[0], clean=True))
        for name in attacks:
            column.append(_share(metrics, f"attack/{name}", "accuracy"))
            column.append(_attacked_mean(run, name, clean=False))
        columns.append(column)
        notes += _doubts(run.name, made, class_names)
    number, share_of_labels = most_frequent(labels)
    title = (
        f"{len(labels):,} test texts, of which {100 * share_of_labels:.1f} % are "
        f"{class_names[number]!r}; 95 % intervals in brackets"
    )
    rows = list(zip(*columns, strict=True))
    return "\n".join(map(harmless, [title, aligned(rows), *notes]))


def _share(metrics: Mapping[str, float | None], stage: str, name: str) -> str:
    """Return a share of the samples of a stage; a question mark follows an unreliable one."""
    count = metrics.get(f"{stage}/samples")
    for key, mark in ((name, ""), (f"unreliable_{name}", "?")):
        value = metrics.get(f"{stage}/{key}")
        if value is not None and count:
            return cell(wilson(round(value * count), int(count))) + mark
    return "-"


def _attacked_mean(run: RunDirectory, name: str, *, clean: bool) -> str:
    """Return the mean over the classes of the accuracy of attacked texts, before or after."""
    records = Ledger(run.path / "attacks" / f"{name}.jsonl").records()
    valid = [record for record in records if record["outcome"] != "error"]
    hits = [r["prediction"] == r["label"] and (clean or r["outcome"] != "succeeded") for r in valid]
    return f"{100 * class_mean([r['label'] for r in valid], hits):.1f}" if valid else "-"


def _doubts(name: str, made: Predictions, class_names: Sequence[str]) -> Iterator[str]:
    """Yield the reason why a model is no good, if there is one."""
    number, largest = made.largest
    usual, share = most_frequent(made.labels)
    rare = min(sorted(set(made.labels)), key=list(made.labels).count)
    times = round(share * len(made.labels) / list(made.labels).count(rare))
    advice = ""
    if times > 1:
        repeat = f"--data.upsample '{{{class_names[rare]}: {times}}}'"
        advice = f"; {repeat} trains on a rare class more often"
    if made.collapsed:
        yield (
            f"{name} has collapsed: it predicts {class_names[number]!r} for {100 * largest:.1f} % "
            f"of the texts, whatever they say; that is no robustness{advice}"
        )
    elif made.accuracy.low <= share:
        always = f"to predict {class_names[usual]!r} for every text"
        yield f"{name} is not clearly better than {always}{advice}"
