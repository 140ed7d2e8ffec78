"""Formats the results of `attention` as text."""

from collections.abc import Sequence

from measure.attention.attention_maps import AttentionMaps
from measure.attention.attention_view import UNMOVED, View, added_attention, diversions
from run_files.terminal import harmless


def report(models: Sequence[AttentionMaps], views: Sequence[View]) -> str:
    """Return predictions, masked units and the greatest diversions of each model."""
    return harmless("\n\n".join(_model(model, views) for model in models))


def _model(model: AttentionMaps, views: Sequence[View]) -> str:
    lines = [f"{model.name}: {model.method}, {model.checkpoint}"]
    if model.cut:
        lines.append(
            f"the text is longer than the model reads: all but the first {len(model.tokens)} "
            "tokens are cut off"
        )
    lines += _answers(model)
    if model.attacked is None:
        return "\n".join([*lines, "no adversary: a model trained with one (ASA) shows both sides"])
    lines.append("units masked by the adversary (where masks are drawn, as while training)")
    for layer in range(1, model.layers + 1):
        masked, chance = model.mask(layer, None), model.chance(layer, None)
        assert masked is not None  # as there is an adversary
        assert chance is not None
        lines.append(f"  layer {layer:>2}  {masked.mean():.1%} ({chance.mean():.1%})")
    # An adversary may be unsure of every unit: then no chance is above one half.
    if not model.drawn and not any(masked.any() for masked in model.masked):
        lines.append("nothing is likelier masked than not: --seed 0 draws masks as while training")
    for view in views:
        added = added_attention(model, view)
        assert added is not None  # as there is an adversary
        lines.append(
            f"{view.label}: what changed most; no weight by more than {added.abs().max():.2g}"
        )
        lines += _diversions(model, view)
    return "\n".join(lines)


def _answers(model: AttentionMaps) -> list[str]:
    """Return the prediction, then a line for each class or word."""
    plain, attacked = model.plain, model.attacked
    if attacked is None:
        lines = [f"prediction: {plain.prediction}"]
        changes = [""] * len(plain.answers)
    else:
        lines = [f"prediction: {plain.prediction} -> {attacked.prediction} with the adversary"]
        changes = [f" -> {after}" for _, after in attacked.answers]
    width = max((len(name) for name, _ in plain.answers), default=0)
    lines += [
        f"  {name:<{width}}  {before}{after}"
        for (name, before), after in zip(plain.answers, changes, strict=True)
    ]
    return lines


def _diversions(model: AttentionMaps, view: View) -> list[str]:
    changes = diversions(model, view)
    names = [f"{model.tokens[c.query]} -> {model.tokens[c.key]}" for c in changes]
    width = max(map(len, names), default=0)
    lines = []
    for name, change in zip(names, changes, strict=True):
        masked = "" if change.masked == 0 else "  masked"
        masked += f" for {change.masked:.0%} of the heads" if 0 < change.masked < 1 else ""
        lines.append(f"  {name:<{width}}  {change.before:.3f} -> {change.after:.3f}{masked}")
    return lines or [f"  nothing by {UNMOVED} or more"]
