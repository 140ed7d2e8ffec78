"""Format the table that a command prints at its end."""

from collections.abc import Iterable, Iterator, Mapping

from run_files.certified_bounds import BOUNDS, BoundFigures
from run_files.results import Results
from run_files.score_intervals import score_interval
from text.estimates import interval, wilson

_VOID = "means nothing: one class only"


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.3f}"


def _score(metrics: Mapping[str, float | None], name: str) -> str:
    """Return a metric, with its interval if it is a score of `test` that has one."""
    text = _number(metrics.get(name))
    stage, _, figure = name.partition("/")
    estimate = score_interval(metrics, figure) if stage == "test" else None
    return text if estimate is None else f"{text} [{interval(estimate, 3)}]"


def _accuracy(metrics: Mapping[str, float | None], prefix: str = "test") -> str:
    """Return the clean accuracy, its interval and texts, and what to compare it with."""
    value, samples = metrics[f"{prefix}/accuracy"], int(metrics.get(f"{prefix}/samples") or 0)
    text = _number(value)
    if value is not None and 0 <= value <= 1 and samples:
        text += f" [{interval(wilson(round(value * samples), samples), 3)}] on {samples:,} texts"
    others = {"majority_accuracy": "always the most frequent class", "bag_accuracy": "bag of words"}
    read = ((title, metrics.get(f"{prefix}/{name}")) for name, title in others.items())
    return "; ".join([text, *(f"{title} {_number(v)}" for title, v in read if v is not None)])


def _detected(metrics: Mapping[str, float | None], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the title and the text of both shares at the threshold."""
    shares = {"recall": ("detected", "positives"), "false_alarms": ("false alarms", "negatives")}
    for name, (title, of) in shares.items():
        value, count = metrics.get(prefix + name), int(metrics.get(prefix + of) or 0)
        if value is not None and count:
            hits = round(value * count)
            text = f"{value:.3f} [{interval(wilson(hits, count), 3)}], {hits:,} of {count:,}"
            yield title, text


def _slices(metrics: Mapping[str, float | None]) -> Iterator[tuple[str, str]]:
    """Yield a row for each value of `--data.slices`."""
    for name in metrics:
        # A value may have slashes, too.
        prefix, _, figure = name.rpartition("/")
        if figure == "samples" and prefix.startswith("test/"):
            detector = f"{prefix}/positives" in metrics
            parts = [f"{title} {text}" for title, text in _detected(metrics, f"{prefix}/")]
            parts = parts if detector else [f"accuracy {_accuracy(metrics, prefix)}"]
            yield prefix.removeprefix("test/"), "; ".join(parts)


def _detection(results: Results) -> list[tuple[str, str]]:
    """Return the rows of a detector: at its threshold, and of its ranking."""
    metrics, detector = results["metrics"], results.get("detector")
    if detector is None or "test/false_alarms" not in metrics:
        return []
    shares = _detected(metrics, "test/")
    rows = [(f"{title} ({detector['positive']})", text) for title, text in shares]
    if metrics.get("test/auc") is None:  # hard benign texts alone have no ranking
        return rows
    at = [f"test/recall_at_{rate}" for rate in (0.001, 0.01, 0.05)]
    rates = ", ".join(_number(metrics.get(name)) for name in at)
    rows.append(("detected at 0.1, 1, 5 % false alarms", rates))
    ranking = ", ".join(_score(metrics, f"test/{name}") for name in ("auc", "average_precision"))
    return [*rows, ("AUC, average precision", ranking)]


def _attack(metrics: Mapping[str, float | None], name: str) -> str:
    """Return the accuracy under an attack, its interval, texts and goal, and the clean accuracy."""
    prefix = f"attack/{name}/"
    figures = {key.removeprefix(prefix): metrics[key] for key in metrics if key.startswith(prefix)}
    reliable = "accuracy" in figures
    # An unreliable accuracy is printed with a note, never alone.
    accuracy = figures.get("accuracy" if reliable else "unreliable_accuracy")
    count, target = int(figures.get("samples") or 0), figures.get("target")
    if accuracy is None or not count:
        return _number(accuracy)
    goal = "untargeted" if target is None else f"to class {target:.0f}"
    if "flip_rate" in figures:
        goal = "detections evaded" if target is None else "false alarms forced"
    ends = interval(wilson(round(accuracy * count), count), 3)
    clean = _number(figures.get("clean_accuracy"))
    line = (
        f"{accuracy:.3f} [{ends}] on {count:,} texts, {goal}; the same texts without attack {clean}"
    )
    return line if reliable else f"{line}; no measure of robustness"


def _certified(
    metrics: Mapping[str, float | None], bounds: Iterable[BoundFigures]
) -> dict[str, str]:
    """Return the metrics of certificates with their titles; a title names an unproven formula."""
    titles = {}
    for bound in bounds:
        stage, certified, by = bound.stage, bound.certified, bound.by
        if f"{stage}/radius_correct" in metrics:
            titles[f"{stage}/radius_correct"] = f"mean {certified}radius, 0 where wrong{by}"
        else:
            # Without labels, no text is known to be wrong.
            titles[f"{stage}/radius"] = f"mean {certified}radius, right or wrong{by}"
        prefix = f"{stage}/accuracy@"
        radii = [name.removeprefix(prefix) for name in metrics if name.startswith(prefix)]
        for radius in sorted(radii, key=float):
            titles[f"{prefix}{radius}"] = f"{certified}accuracy at radius {radius}{by}"
    return titles


def notes(results: Results) -> str:
    """Return notes on the figures: unfinished training, and limits on the data."""
    stages: dict[str, list[str]] = {}
    for stage, subject in results.get("about", {}).items():
        if subject.get("training_ended") is False:
            where = f"epoch {subject.get('epoch', '?')}, step {subject.get('step', '?')}"
            file = subject.get("file", "a checkpoint")
            line = f"measured before the training had ended ({file}: {where})"
            stages.setdefault(line, []).append(stage)
        for name, limit in subject.items():
            if name.startswith("limit_"):
                line = f"measured on a part of the split (--trainer.{name} {limit})"
                stages.setdefault(line, []).append(stage)
    return "\n".join(f"{', '.join(names)}: {line}" for line, names in stages.items())


def table(results: Results, *, void: bool = False) -> str:
    """Return the results of a run as aligned text.

    With `void`, radii and accuracy under attack mean nothing, as the model has collapsed.
    """
    metrics, seconds = results["metrics"], results["seconds"]
    epsilon = metrics.get("test/pgd_epsilon")
    attack = "accuracy under l2-PGD" + (f" at eps = {epsilon:g}" if epsilon is not None else "")
    stages = ", ".join(f"{stage} {spent:.1f}" for stage, spent in seconds.items())
    of_class = f" of {results['positive']}" if "positive" in results else ""
    figures = {"accuracy": "accuracy", "f1": f"F1{of_class}", "macro_f1": "macro-F1"}
    figures |= {"spearman": "Spearman", "pearson": "Pearson"}
    titles = {f"test/{name}": text for name, text in figures.items()}
    reason = results.get("no_certificate")
    # Without a Lipschitz constant, there may still be certificates by bound propagation.
    bounds = [bound for bound in BOUNDS if reason is None or not bound.lipschitz]
    titles |= {"test/ece": "calibration error (ECE)", "test/brier": "Brier score"}
    titles |= (robust := _certified(metrics, bounds))
    if "test/bits_per_character" in metrics:
        titles["test/loss"] = "nats per character"
        titles["test/bits_per_character"] = "bits per character"
    robust["test/pgd_accuracy"] = titles["test/pgd_accuracy"] = attack
    if "test" not in seconds or "validate" in seconds:
        titles |= {name: name for name in metrics if name.startswith("val/")}
        titles["val/f1"] = f"val/f1{of_class}"
    nothing = f" ({_VOID})" if void else ""
    rows = [
        (text, _score(metrics, name) + nothing * (name in robust))
        if name != "test/accuracy"
        else (text, _accuracy(metrics))
        for name, text in titles.items()
        if name in metrics
    ]
    at = next((i for i, (title, _) in enumerate(rows) if title != "accuracy"), len(rows))
    rows[at:at] = [*_detection(results), *_slices(metrics)]
    if reason is not None and any(bound.lipschitz and bound.stage in seconds for bound in BOUNDS):
        rows.append(("certified radius", f"no certificate: {reason}"))
    # attack/NAME/FIGURE; the mean over attacks has two parts.
    parts = [name.split("/") for name in metrics if name.startswith("attack/")]
    attacks = dict.fromkeys(part[1] for part in parts if len(part) == 3)
    rows += [(f"accuracy under {name}", _attack(metrics, name) + nothing) for name in attacks]
    rows.append(("seconds", f"{sum(seconds.values()):.1f} ({stages})"))
    title = f"{results['method']} on {results['corpus']}, seed {results['seed']}"
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    return "\n".join(["", title, "-" * max(len(title), *map(len, lines)), *lines])
