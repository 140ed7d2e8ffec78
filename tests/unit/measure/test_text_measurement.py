"""Measurements of plug-ins: what resumes, and what is refused."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from attacks.goals import Floats
from attacks.outcome import Sample
from attacks.victims.kinds import VictimError
from measure import text_measurement
from measure.archive import FolderArchive
from measure.measurement import Record
from measure.runner import run
from measure.text_measurement import TextMeasurement
from run_files.ledger import Ledger
from run_files.run_directory import RunDirectory
from text import Text

SAMPLES = [
    Sample(sample_id=i, text=text, label=int("good" in text))
    for i, text in enumerate(["good", "bad", "a good one", "not good", "bad bad", "fine"])
]


class Good:
    """Predicts class 1 for texts with `good`; fails after some texts."""

    name = "good"

    def __init__(self, most: int = 100) -> None:
        self.most = most
        self.queries: list[Text] = []

    def logits(self, texts: Sequence[Text]) -> Floats:
        if len(self.queries) + len(texts) > self.most:
            raise VictimError("down")
        self.queries += texts
        hits = np.array(["good" in text for text in texts])
        return np.stack([~hits, hits], axis=1).astype(float)


@dataclass(frozen=True, kw_only=True)
class SuffixSettings:
    suffix: str = ""


class Suffix(TextMeasurement):
    """Accuracy with a suffix, of the first samples."""

    count = 6
    name = "suffix"
    settings_class: ClassVar[type[Any] | None] = SuffixSettings

    def samples(self) -> Sequence[Sample]:
        return super().samples()[: self.count]

    def measure_batch(self, samples: Sequence[Sample]) -> Sequence[Record]:
        predictions = self.predict([f"{s.text} {self.settings.suffix}" for s in samples])
        return [
            {"sample_id": s.sample_id, "label": s.label, "prediction": prediction}
            for s, prediction in zip(samples, predictions, strict=True)
        ]

    def figures(self, records: Sequence[Record]) -> dict[str, float]:
        return {"accuracy": sum(r["label"] == r["prediction"] for r in records) / len(records)}


def measure(
    folder: Path, victim: Good, *, weights: str = "a", count: int = 6, **options: Any
) -> list[Record]:
    files = RunDirectory(folder / "run")
    identity = {"run": "run", "method": "good", "corpus": "six", "seed": 0}
    options = {"known_weights": True, **options}
    measurement = Suffix(
        victim, SAMPLES, classes=("no", "yes"), about={"checkpoint": weights}, **options
    )
    measurement.count = count
    return list(run(measurement, FolderArchive(files, identity)).records)


def test_a_second_start_asks_only_for_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_measurement, "AT_ONCE", 2)
    broken = Good(most=4)
    with pytest.raises(VictimError, match="4 of 6 samples are done"):
        measure(tmp_path, broken)
    rest = Good()
    records = measure(tmp_path, rest)
    assert [*broken.queries, *rest.queries] == [f"{sample.text} " for sample in SAMPLES]
    assert [record["sample_id"] for record in records] == [*range(6)]
    # A finished outcome is used again; the metrics have the prefix of the command.
    again = Good()
    assert [r["prediction"] for r in measure(tmp_path, again)] == [r["label"] for r in records]
    assert again.queries == []
    results = RunDirectory(tmp_path / "run").results()
    assert results is not None
    assert results["metrics"] == {"measure/suffix/accuracy": 1}


def test_fewer_samples_than_a_stopped_measurement_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_measurement, "AT_ONCE", 2)
    with pytest.raises(VictimError):
        measure(tmp_path, Good(most=4))
    with pytest.raises(ValueError, match=r"got --num_samples 2, and in .*2 records of further"):
        measure(tmp_path, Good(), count=2)
    assert len(measure(tmp_path, Good(), count=4)) == 4
    # Of a finished one all records count.
    assert len(measure(tmp_path, Good(), count=2)) == 4


def test_another_subject_is_refused_and_a_tag_files_it_apart(tmp_path: Path) -> None:
    measure(tmp_path, Good())
    other = SuffixSettings(suffix="good")
    with pytest.raises(
        ValueError, match=r"settings\.suffix \"\" -> \"good\".*by --tag, as suffix-"
    ):
        measure(tmp_path, Good(), settings=other)
    with pytest.raises(ValueError, match='checkpoint "a" -> "b"'):
        measure(tmp_path, Good(), weights="b")
    records = measure(tmp_path, Good(), settings=other, tag="good")
    assert {record["prediction"] for record in records} == {1}
    ledger = Ledger(tmp_path / "run" / "measure" / "suffix-good.jsonl")
    assert ledger.subject()["settings"] == {"suffix": "good"}


def test_unknown_weights_are_measured_again(tmp_path: Path) -> None:
    for _ in range(2):
        victim = Good()
        measure(tmp_path, victim, known_weights=False)
        assert len(victim.queries) == 6
