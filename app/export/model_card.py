"""The model card of an exported folder."""

from collections.abc import Sequence
from typing import Any

from app.runs.results import Results
from app.runs.version import line
from app.runs.weights import Weights
from lit_modules import TaskModule, TextModule

_MEASURED = ("test/", "val/", "certify/", "attack/")


def model_card(
    model: TextModule, weights: Weights, results: Results | None, transformers: Sequence[str]
) -> str:
    """Returns the card as Markdown.

    Args:
        model: the model.
        weights: its weights.
        results: of the run that they come from, whose figures may be of other weights: these are
            left out; None without a run.
        transformers: what `transformers` can load from the folder, in words.
    """
    title = (
        type(model).__name__
        if results is None
        else f"{type(model).__name__} on {results['corpus']}"
    )
    return (
        "\n\n".join(
            part
            for part in (
                f"# {title}",
                _about(model, weights, results),
                f"## Figures\n\n{_figures(weights, results)}",
                f"## Certificate\n\n{_certificate(model)}",
                f"## Use\n\n{_use(model, transformers)}",
                f"## Limits\n\n{_limits(model)}",
            )
            if part
        )
        + "\n"
    )


def _about(model: TextModule, weights: Weights, results: Results | None) -> str:
    rows = [
        ("method", type(model).__name__),
        (
            "weights",
            f"{weights.file}, step {weights.step}, SHA-256 of the file {weights.checkpoint}",
        ),
    ]
    if isinstance(model, TaskModule):
        _, names = model.require_text()
        rows.append(("task", f"{model.task.name}{' of pairs' if model.pairs else ''}"))
        if names:
            rows.append(("classes", ", ".join(names)))
    rows.append(("longest text", f"{model.require_tokenizer().max_length} tokens"))
    if results is not None:
        rows += [("run", results["run"]), ("seed of the training", str(results["seed"]))]
        digests = {
            f"{split}: {digest}"
            for about in _own(weights, results).values()
            for split, digest in about.get("rows", {}).items()
        }
        rows += [("SHA-256 of the rows", one) for one in sorted(digests)]
    rows.append(("written by", line()))
    body = "\n".join(f"| {name} | {_cell(value)} |" for name, value in rows)
    return f"| | |\n|---|---|\n{body}"


def _own(weights: Weights, results: Results) -> dict[str, dict[str, Any]]:
    """The stages that measured these weights, and what they say of themselves."""
    every = results.get("about", {})
    return {
        name: about for name, about in every.items() if about["checkpoint"] == weights.checkpoint
    }


def _figures(weights: Weights, results: Results | None) -> str:
    if results is None:
        return "None: the checkpoint lay in no run."
    stages = _own(weights, results)
    found = [
        (name, value)
        for name, value in sorted(results["metrics"].items())
        if name.startswith(_MEASURED) and any(_of(name, stage) for stage in stages)
    ]
    if not found:
        return "None: these weights have not been measured."
    rows = "\n".join(f"| `{n}` | {'not finite' if v is None else f'{v:.6g}'} |" for n, v in found)
    parts = [
        f"{stage}: measured on a part of the split ({name} {limit})"
        for stage, about in stages.items()
        for name, limit in about.items()
        if name.startswith("limit_")
    ]
    return "\n\n".join((f"| metric | value |\n|---|---|\n{rows}", *parts))


def _of(metric: str, stage: str) -> bool:
    """True if a stage measures a metric."""
    front = {"validate": "val"}.get(stage, stage)
    return metric.startswith(f"{front}/")


def _certificate(model: TextModule) -> str:
    if not isinstance(model, TaskModule):
        return "None: the model classifies nothing."
    if model.no_certificate is not None:
        return f"None: {model.no_certificate}."
    return (
        "Around each embedded text a radius within which no perturbation of its token vectors "
        "changes the prediction of the float64 pass. It says nothing about texts with other words, "
        "unless their token vectors lie within the radius, and nothing about whether the "
        "prediction is right."
    )


def _use(model: TextModule, transformers: Sequence[str]) -> str:
    python = [
        "```python",
        "import lit_modules",
        "",
        'model = lit_modules.load_module("FOLDER")',
    ]
    if isinstance(model, TaskModule) and model.task.name in ("classification", "regression"):
        text = '("a text", "another")' if model.pairs else '"a text"'
        python.append(f"model.predict_texts([{text}])")
        shell = 'steadfast predict --ckpt_path FOLDER --text "a text"'
        if model.pairs:
            shell += ' --text_pair "another"'
        return "\n".join(("```sh", shell, "```", "", *python, "```", *_lines(transformers)))
    return "\n".join((*python, "```", *_lines(transformers)))


def _lines(transformers: Sequence[str]) -> list[str]:
    return ["", *transformers] if transformers else []


def _limits(model: TextModule) -> str:
    limits = [
        f"- Texts are cut at {model.require_tokenizer().max_length} tokens.",
        "- Figures are of the split and the seed named above, and of no other texts.",
        "- Accuracy under an attack is an upper bound: a stronger attack may find more.",
    ]
    return "\n".join(limits)


def _cell(value: str) -> str:
    return " ".join(value.split()).replace("|", "\\|")
