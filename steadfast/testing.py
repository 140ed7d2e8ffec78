"""Check a text classifier in a test: how often attacks change its predictions.

    from steadfast.testing import assert_holds

    def test_the_filter_holds():
        assert_holds(classify, TEXTS, LABELS, positive="spam", max_flip_rate=0.05)

There is no pytest plug-in to install: a plug-in would load this package in every test run.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from attacks.outcome import Sample
from attacks.victims.kinds import CallableVictim, Victim, as_victim
from attacks.victims.labels_only import LabelVictim
from measure.gate import Gate, GateReport, GateSettings
from measure.gate_report import gate_table
from measure.named_victims import Outputs, named_victim
from run_files.devices import torch_device
from text import ClassLabels, Text

_FIRST = 256
"""Texts whose answers tell the kind of a function."""


def assert_holds(
    classifier: Any,
    texts: Iterable[Text],
    labels: Iterable[Any] | None = None,
    *,
    recipes: str | Sequence[str] | None = None,
    max_flip_rate: float | None = None,
    classes: Sequence[str] | None = None,
    outputs: Outputs | None = None,
    runs_dir: str | Path = "runs",
    **limits: Any,
) -> GateReport:
    """Raise AssertionError unless a classifier keeps within limits; the message has a diff.

    Args:
        classifier: a function from a list of texts to logits or probabilities `[texts, classes]`,
            to probabilities of the second class `[texts]`, or to labels; a module with
            `predict_texts`; a victim; the name of a run; or `hf:NAME`, `run:NAME` and so on.
        texts: strings, or pairs of strings.
        labels: their classes, by name or index; the predictions if None.
        recipes: attacks, as of `GateSettings`.
        max_flip_rate: largest share of predictions that a recipe may change; 0 without any limit.
        classes: names of the classes; those of the model, or their numbers, if None.
        outputs: kind of values that a function returns; told from its first answer if None.
        runs_dir: folder of the runs.
        limits: other settings of `GateSettings`, such as `min_accuracy` or `positive`.

    Returns:
        The report of limits that hold.

    Raises:
        AssertionError: a limit does not hold, or was not checked.
        ValueError: invalid settings, labels that are not classes, or no texts.
        VictimError: the classifier failed.
    """
    __tracebackhide__ = True  # pytest then shows the line of the test
    named = recipes if recipes is None or isinstance(recipes, str) else ",".join(recipes)
    settings = GateSettings(recipes=named, max_flip_rate=max_flip_rate, **limits)
    if not settings.limited:
        settings = GateSettings(recipes=named, max_flip_rate=0.0, **limits)
    inputs = list(texts)
    if not inputs:
        msg = "got no texts, expected some"
        raise ValueError(msg)
    victim, names = _as_victim(classifier, inputs, classes, outputs, Path(runs_dir))
    gold, names = _gold_classes(victim, names, inputs, labels)
    if len(gold) != len(inputs) or None in gold:
        msg = f"got {len(inputs)} texts and {len(gold)} labels, expected a label for each text"
        raise ValueError(msg)
    samples = [
        Sample(sample_id=i, text=text, label=label)
        for i, (text, label) in enumerate(zip(inputs, gold, strict=True))
        if label is not None
    ]
    columns = ("text",) if isinstance(inputs[0], str) else ("text", "text_pair")
    report = Gate(victim, names, samples, settings, columns=columns).run()
    if not report.holds:
        raise AssertionError("\n" + gate_table(report))
    return report


def _gold_classes(
    victim: Victim, names: list[str], texts: Sequence[Text], labels: Iterable[Any] | None
) -> tuple[list[int | None], list[str]]:
    """Return the classes of texts, or else the predictions, and the names or numbers of all."""
    if labels is None:
        logits = victim.logits(texts)
        return logits.argmax(axis=1).tolist(), names or [str(i) for i in range(logits.shape[1])]
    names = names or [str(i) for i in range(victim.logits(texts[:1]).shape[1])]
    return [*map(ClassLabels(names), labels)], names


def _as_victim(
    classifier: Any,
    texts: Sequence[Text],
    classes: Sequence[str] | None,
    outputs: Outputs | None,
    runs_dir: Path,
) -> tuple[Victim, list[str]]:
    """Return the victim, and the names of its classes; none if they are unknown."""
    if isinstance(classifier, str):
        named = named_victim(
            classifier if ":" in classifier else f"run:{classifier}",
            classes=classes,
            outputs=outputs or "logits",
            runs_dir=runs_dir,
            device=torch_device("auto"),
            batch_size=256,
        )
        return named.victim, named.classes
    victim = as_victim(classifier)
    if type(victim) is CallableVictim:
        return _of_function(classifier, texts, list(classes or ()), outputs)
    own: Any = getattr(victim, "class_names", ())
    return victim, list(classes or own)


def _of_function(
    function: Callable[[list[Text]], Any],
    texts: Sequence[Text],
    classes: list[str],
    outputs: Outputs | None,
) -> tuple[Victim, list[str]]:
    """Return the victim of a function, by the kind of its answers."""
    name = getattr(function, "__name__", type(function).__name__)
    answers = _numbers(function(list(texts[:_FIRST])))
    probabilities = answers.dtype.kind == "f" and bool(((answers >= 0) & (answers <= 1)).all())
    if answers.ndim == 1 and outputs != "labels" and probabilities:

        def rows(batch: list[Text]) -> Any:
            positive = np.asarray(_numbers(function(batch)), dtype=np.float64)
            return np.stack([1 - positive, positive], axis=1)

        return CallableVictim(rows, outputs="probabilities", name=name), classes
    if answers.ndim == 1:
        starts = range(0, len(texts), _FIRST)
        parts = [] if classes else [function(list(texts[i : i + _FIRST])) for i in starts]
        labels = {str(answer) for part in parts for answer in _numbers(part).tolist()}
        names = classes or sorted(labels)
        return LabelVictim(function, classes=names, name=name), names
    if outputs is None and probabilities:
        outputs = "probabilities" if np.allclose(answers.sum(axis=1), 1, atol=1e-3) else None
    kind: Literal["logits", "probabilities"] = (
        "probabilities" if outputs == "probabilities" else "logits"
    )
    return CallableVictim(function, outputs=kind, name=name), classes


def _numbers(answer: Any) -> NDArray[Any]:
    return np.asarray(answer.detach().cpu() if isinstance(answer, Tensor) else answer)
