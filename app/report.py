"""The table at the end."""

from app.results import Results


def _number(value: float | None, digits: int = 4) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def table(results: Results) -> str:
    """What a run has measured, as aligned text.

    Args:
        results: content of its `results.json`.
    """
    metrics, seconds = results["metrics"], results["seconds"]
    epsilon = metrics.get("test/pgd_epsilon")
    attack = "accuracy under l2-PGD" + (f" at eps = {epsilon:g}" if epsilon is not None else "")
    stages = ", ".join(f"{stage} {spent:.1f}" for stage, spent in seconds.items())
    rows = [
        ("accuracy", _number(metrics.get("test/accuracy"))),
        ("mean certified radius", _number(metrics.get("certify/radius"))),
        (attack, _number(metrics.get("test/pgd_accuracy"))),
        ("seconds", f"{_number(sum(seconds.values()), 1)} ({stages})"),
    ]
    title = f"{results['method']} on {results['corpus']}, seed {results['seed']}"
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    return "\n".join(["", title, "-" * max(len(title), *map(len, lines)), *lines])
