"""Measurements of a classifier on labelled texts, from plug-ins (docs/python.md)."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from attacks.digests import content_digest
from attacks.outcome import Sample
from attacks.victims.kinds import Victim
from measure.measurement import Measurement, Record
from text import Text
from text.estimates import aligned
from text.plugins import load_plugin, plugins
from text.subjects import Subject

AT_ONCE = 256
"""Samples between two writes of records."""


class TextMeasurement(Measurement[Sample]):
    """A measurement of a plug-in: the command `measure` finds it by its entry point.

    Args:
        victim: the classifier.
        samples: texts with the index of their class.
        classes: names of its classes.
        about: the classifier and the texts, for the subject.
        known_weights: True if `about` has the weights. A finished outcome of unknown weights, as of
            a service, is measured again.
        settings: an object of `settings_class`; None for its defaults.
        tag: files the outcome as NAME-TAG.

    Attributes:
        name: its name on the command line.
        version: to raise when the same texts get other records: those of before are not resumed.
        settings_class: a frozen dataclass with defaults, the options `--settings.FIELD`; None
            without any.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    settings_class: ClassVar[type[Any] | None] = None

    def __init__(
        self,
        victim: Victim,
        samples: Sequence[Sample],
        *,
        classes: Sequence[str],
        about: Mapping[str, Any],
        known_weights: bool,
        settings: Any = None,
        tag: str | None = None,
    ) -> None:
        self.victim, self._samples, self._about = victim, samples, about
        if settings is None and self.settings_class is not None:
            settings = self.settings_class()
        self.settings = settings
        self.class_names = classes
        self.replaces = not known_weights
        self.elsewhere = f"file it apart by --tag, as {self.name}-TAG"
        self.stage = f"measure/{self.name}" if tag is None else f"measure/{self.name}-{tag}"
        self.file = f"{self.stage}.jsonl"

    @abstractmethod
    def measure_batch(self, samples: Sequence[Sample]) -> Sequence[Record]:
        """Return the record of each sample, a JSON object with its `sample_id`.

        Indices of classes in `label` and `prediction` get the names of the classes as well.
        """

    def predict(self, texts: Sequence[Text]) -> list[int]:
        """Return the index of the predicted class of each text."""
        classes: list[int] = self.victim.logits(texts).argmax(axis=1).tolist()
        return classes

    def subject(self) -> Subject:
        """Return the classifier, the texts, the measurement and its settings."""
        return {
            **self._about,
            "measurement": self.name,
            "version": self.version,
            "settings": None if self.settings is None else asdict(self.settings),
            "classes": list(self.class_names),
            "texts": content_digest([[s.sample_id, s.text, s.label] for s in self._samples]),
        }

    def samples(self) -> Sequence[Sample]:
        """Return all samples."""
        return self._samples

    def measure(self, samples: Sequence[Sample]) -> Iterator[Sequence[Record]]:
        """Yield the records of each batch."""
        for start in range(0, len(samples), AT_ONCE):
            yield self.measure_batch(samples[start : start + AT_ONCE])

    def table(self, records: Sequence[Record]) -> str:
        """Return the figures for a person."""
        figures = self.figures(records)
        return aligned([["figure", "value"], *([name, f"{v:.6g}"] for name, v in figures.items())])


def measurement_names() -> list[str]:
    """Return the names of all installed measurements; none is imported."""
    return sorted(plugins("steadfast.measurements"))


def find_measurement(name: str) -> type[TextMeasurement]:
    """Return a measurement by its name.

    Raises:
        ValueError: an unknown name, or a faulty plug-in.
    """
    names = measurement_names()
    if name not in names:
        installed = ", ".join(names) or "a plug-in with one, and none is installed (docs/python.md)"
        msg = f"got measurement {name!r}, expected {'one of ' if names else ''}{installed}"
        raise ValueError(msg)
    point = plugins("steadfast.measurements")[name]
    loaded = load_plugin(point)
    if not (isinstance(loaded, type) and issubclass(loaded, TextMeasurement)) or (
        loaded.name != name
    ):
        msg = f"got plug-in {name}, which is {point.value}, expected a TextMeasurement of this name"
        raise ValueError(msg)
    return loaded
