"""The adapters of `examples/adapters` give the predictions of the run.

No lock has inspect_ai and garak. Where they are not installed, a stand-in of the few names that an
adapter uses shows its own lines, but proves nothing about the real packages.
"""

import asyncio
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import steadfast as sf

FOLDER = Path(__file__).parents[2] / "examples" / "adapters"
TEXTS = ["bland food and a rude waiter", "great soup and a friendly waiter"]
WRONG = r"expected a class of .*: negative, positive"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_an_adapter_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 100


# Warnings of other packages are not ours to mend.
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("positive", ["negative", "positive"])
def test_inspect_scores_are_those_of_the_run(trained: Path, positive: str) -> None:
    inspect_ai = pytest.importorskip("inspect_ai", reason="not installed: pip install inspect_ai")
    from examples.adapters.inspect_scorer import OUTPUTS, recorded_outputs

    task = recorded_outputs(str(trained), positive)
    (log,) = inspect_ai.eval(task, model="mockllm/model", display="none", log_dir="logs")
    assert log.status == "success", log.error
    predictions = sf.load(trained).predict(OUTPUTS.values())
    assert len(log.samples) == len(predictions)
    for sample, record in zip(log.samples, predictions, strict=True):
        _check_score(sample.scores["detector"].value, record, positive)
    with pytest.raises(ValueError, match=WRONG):
        recorded_outputs(str(trained), "spam")


@pytest.mark.filterwarnings("default")
def test_garak_flags_what_the_run_predicts(trained: Path) -> None:
    reason = "not installed: pip install garak"
    pytest.importorskip("garak.detectors.base", reason=reason, exc_type=ImportError)
    from garak.attempt import Attempt, Message

    from examples.adapters.garak_detector import RunDetector, register

    register()
    attempt = Attempt(prompt=Message("?"))
    attempt.outputs = [Message(TEXTS[0]), None, Message(" "), Message(TEXTS[1])]
    _check_detector(RunDetector, attempt, trained)


def test_a_stand_in_of_inspect(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unchanged(function: Any = None, **_: Any) -> Any:
        return function or unchanged

    decorators = dict.fromkeys(("scorer", "solver", "task", "mean", "stderr"), unchanged)
    _put(monkeypatch, "inspect_ai", **decorators, Score=SimpleNamespace)
    for name in ("dataset", "model", "scorer", "solver"):
        _put(monkeypatch, f"inspect_ai.{name}", **decorators, Score=SimpleNamespace)
    adapter = _import(monkeypatch, "inspect_scorer")
    for positive in ("negative", "positive"):
        score = adapter.detector(str(trained), positive)
        for record in sf.load(trained).predict(TEXTS):
            state = SimpleNamespace(output=SimpleNamespace(completion=record["text"]))
            _check_score(asyncio.run(score(state, None)).value, record, positive)
        blank = SimpleNamespace(output=SimpleNamespace(completion=" "))
        assert asyncio.run(score(blank, None)).value == {"probability": 0, "detected": 0}
    with pytest.raises(ValueError, match=WRONG):
        adapter.detector(str(trained), "spam")


def test_a_stand_in_of_garak(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Detector:
        DEFAULT_PARAMS: dict[str, Any] = {}  # noqa: RUF012 (as in garak)

        def __init__(self, config_root: Any) -> None:
            options = config_root["detectors"]["steadfast"]["RunDetector"]
            vars(self).update(self.DEFAULT_PARAMS | options)

    _put(monkeypatch, "garak", _config=None, _plugins=None, cli=None)
    _put(monkeypatch, "garak.attempt", Attempt=object)
    _put(monkeypatch, "garak.detectors")
    _put(monkeypatch, "garak.detectors.base", Detector=Detector)
    outputs = [text and SimpleNamespace(text=text) for text in (TEXTS[0], None, " ", TEXTS[1])]
    attempt = SimpleNamespace(outputs_for=lambda language: outputs)
    _check_detector(_import(monkeypatch, "garak_detector").RunDetector, attempt, trained)


def _put(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    """Put a module with this content on the import path; any other name in it is `object`."""
    module = ModuleType(name)
    vars(module).update(content, __getattr__=lambda name: object, __path__=[])
    monkeypatch.setitem(sys.modules, name, module)


def _import(monkeypatch: pytest.MonkeyPatch, stem: str) -> Any:
    """Import an adapter with the stand-in, for this test alone."""
    name = f"examples.adapters.{stem}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module(name)
    del sys.modules[name]  # other tests need the real package
    return module


def _check_score(value: dict[str, float], record: dict[str, Any], positive: str) -> None:
    assert value["probability"] == pytest.approx(record["probabilities"][positive])
    assert value["detected"] == (record["prediction"] == positive)


def _check_detector(detector: Callable[[Any], Any], attempt: Any, trained: Path) -> None:
    """Compare the scores of two texts, no output and a blank one with the predictions."""

    def make(**options: Any) -> Any:
        return detector({"detectors": {"steadfast": {"RunDetector": options}}})

    records = sf.load(trained).predict(TEXTS)
    for positive in ("negative", "positive"):
        first, *others, second = make(run=str(trained), positive=positive).detect(attempt)
        assert others == [None, 0]
        for score, record in zip((first, second), records, strict=True):
            predicted = record["prediction"] == positive
            assert (score >= 0.5) == predicted
            assert 2 * score - predicted == pytest.approx(record["probabilities"][positive])
    with pytest.raises(ValueError, match=WRONG):
        make(run=str(trained), positive="spam")
    with pytest.raises(ValueError, match='got no "run"'):
        make()
