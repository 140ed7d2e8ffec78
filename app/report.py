"""The table at the end."""

from app.results import Results


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.4f}"


def table(results: Results) -> str:
    """What a run has measured, as aligned text.

    Args:
        results: content of its `results.json`.
    """
    metrics, seconds = results["metrics"], results["seconds"]
    epsilon = metrics.get("test/pgd_epsilon")
    attack = "accuracy under l2-PGD" + (f" at eps = {epsilon:g}" if epsilon is not None else "")
    stages = ", ".join(f"{stage} {spent:.1f}" for stage, spent in seconds.items())
    figures = {"accuracy": "accuracy", "f1": "F1", "spearman": "Spearman", "pearson": "Pearson"}
    named = {f"test/{name}": text for name, text in figures.items()}
    named |= {"certify/radius": "mean certified radius", "test/pgd_accuracy": attack}
    if "test" not in seconds or "validate" in seconds:
        named |= {name: name for name in metrics if name.startswith("val/")}
    suffix = "/accuracy"
    attacks = [name for name in metrics if name.startswith("attack/") and name.endswith(suffix)]
    named |= {name: f"accuracy under {name.split('/')[1]}" for name in attacks}
    rows = [(text, _number(metrics[name])) for name, text in named.items() if name in metrics]
    rows.append(("seconds", f"{sum(seconds.values()):.1f} ({stages})"))
    title = f"{results['method']} on {results['corpus']}, seed {results['seed']}"
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    return "\n".join(["", title, "-" * max(len(title), *map(len, lines)), *lines])
