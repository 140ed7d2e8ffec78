"""Flag the outputs of a garak scan with a trained detector or classifier.

    python examples/adapters/garak_detector.py --target_type test.Repeat --spec probes.test.Test \
        --detectors steadfast.RunDetector \
        --detector_options '{"steadfast": {"RunDetector": {"run": "guard", "positive": "spam"}}}'

The options are those of `garak`. The detector judges what the scanned model wrote, not the prompts.
"""

import sys
from typing import Any, ClassVar

from garak import _config, _plugins, cli
from garak.attempt import Attempt
from garak.detectors.base import Detector

import steadfast as sf

MODULE = "steadfast"
"""Name of the module in `--detectors`."""


class RunDetector(Detector):
    """Flags outputs that a trained model assigns to one class.

    Options of the detector: `run` (whatever `steadfast.load` takes), `positive` (class that is a
    hit) and `runs_dir` (folder of the runs).

    Raises:
        OSError: no such run.
        ValueError: no run, or no such class.
    """

    lang_spec = "*"
    hit_desc = "The model predicts the class"
    pass_desc = "The model predicts another class"
    DEFAULT_PARAMS: ClassVar[dict[str, Any]] = Detector.DEFAULT_PARAMS | {
        "run": None,
        "positive": None,
        "runs_dir": "runs",
    }

    def __init__(self, config_root: Any = _config) -> None:
        super().__init__(config_root=config_root)
        if self.run is None:
            msg = 'got no "run", expected --detector_options with "run" and "positive"'
            raise ValueError(msg)
        self.model = sf.load(self.run, runs_dir=self.runs_dir)
        if self.positive not in self.model.classes:
            expected = ", ".join(self.model.classes) or "a classifier instead of a regression"
            msg = f'got "positive": {self.positive!r}, expected a class of {self.run}: {expected}'
            raise ValueError(msg)

    def detect(self, attempt: Attempt) -> list[float | None]:
        """Return the score of each output: 0.5 or more for the class, None without output.

        With `p`, the probability of the class, a score is `(1 + p) / 2` if it is predicted and
        `p / 2` if not: with garak's `eval_threshold` of 0.5, a hit is a prediction of the model,
        which a detector makes at its own threshold. A blank output is 0: it has no words to judge.
        """
        outputs = attempt.outputs_for(self.lang_spec)
        texts = [None if output is None else output.text for output in outputs]
        records = iter(self.model.predict([text for text in texts if text and text.strip()]))
        return [
            None if text is None else self._score(next(records)) if text.strip() else 0.0
            for text in texts
        ]

    def _score(self, record: dict[str, Any]) -> float:
        predicted = record["prediction"] == self.positive
        probability = float(record["probabilities"][self.positive])
        return (float(predicted) + probability) / 2


def register() -> None:
    """Make `RunDetector` known to garak, which looks for detectors in its own package only."""
    RunDetector.__module__ = f"garak.detectors.{MODULE}"
    sys.modules[RunDetector.__module__] = sys.modules[__name__]
    known = _plugins.PluginCache.instance()["detectors"]
    known[f"detectors.{MODULE}.RunDetector"] = _plugins.plugin_info(RunDetector)


if __name__ == "__main__":
    register()
    cli.main(sys.argv[1:])
