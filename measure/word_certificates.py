"""Certify a split in words: `certify --threat`."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from certify.encoding.listed_certifier import TEXTS_AT_ONCE, ListedCertifier
from certify.threats import TextCertifier, Threat
from measure.certificate_records import (
    LabelledText,
    attacks_inside,
    detections,
    figures,
    record,
    sandwich,
    stamp_of,
    table,
    write,
)
from measure.measurement import Measured, Measurement, Record
from run_files.run_directory import RunDirectory
from run_files.weights import Weights
from text.subjects import Subject

AT_ONCE = 2048
"""Texts per batch of the certifier."""


class WordCertificates(Measurement[LabelledText]):
    """Certifies the texts of a split that a threat is about.

    Args:
        certifier: certifier of the model, or of a smoothed classifier around it.
        threat: the changes, with their largest number.
        ks: the numbers of changes; None for any number.
        weights: weights of the model.
        settings: `k`, digest of the `lists`, `num_samples`, `split`, and settings of the smoothing
            `around` the model, as the subject has them.
        rows: digest of its rows.
        samples: sample ids, texts and classes of the split.
        class_names: classes of the model.
        lists: name or file of the lists of the threat, if it has lists.
        sets: names of its perturbation sets on the command line, if it has some.
        resources: folder with the resources of these sets.
        positive: the class of the figures about detections; None for none.
        tag: end of the name of the files.

    Raises:
        ValueError: the threat applies to none of the samples.
    """

    elsewhere = "file this with another --tag"
    replaces = True

    def __init__(
        self,
        certifier: TextCertifier,
        threat: Threat,
        ks: Sequence[int | None],
        *,
        weights: Weights,
        settings: Subject,
        rows: str,
        samples: Sequence[tuple[int, Any, int]],
        class_names: Sequence[str],
        lists: str | None,
        sets: str | None = None,
        resources: str | None = None,
        positive: int | None = None,
        tag: str | None,
    ) -> None:
        self._certifier, self._threat, self._ks = certifier, threat, ks
        self._weights, self._settings, self._rows = weights, settings, rows
        self._class_names, self._lists = class_names, lists
        self._sets, self._resources, self._positive = sets, resources, positive
        self._samples = [
            LabelledText(sample_id, subject, label)
            for sample_id, text, label in samples
            # The certificate is about the text in the threat's normal form, which may not exist.
            if isinstance(text, str) and (subject := threat.subject(text)) is not None
        ]
        if not self._samples:
            msg = f"got lists with none of the {len(samples)} texts, expected those of this corpus"
            raise ValueError(msg)
        self._skipped = len(samples) - len(self._samples)
        self.name = threat.title if tag is None else f"{threat.title}-{tag}"
        self.stage, self.file = f"certify_{self.name}", f"certificates_{self.name}.jsonl"

    def subject(self) -> Subject:
        """Return weights, threat, numbers of changes and rows."""
        threat = self._threat
        return {
            **self._weights.about(),
            "threat": {"name": threat.name, "digest": threat.digest, "statement": threat.statement},
            **self._settings,
            "rows": {self._settings["split"]: self._rows},
        }

    def about(self) -> Subject:
        """Return the subject, and what `report` makes the threat of again."""
        words = self._threat.words
        source: dict[str, Any] = {"lists": self._lists, "words": words.split}
        if words.front_end != "none":
            source["front_end"] = words.front_end
            source["canonical"] = words.canonical.state()
        if self._sets is not None:
            source |= {"sets": self._sets, "resources": self._resources}
        return {**self.subject(), "threat_from": source}

    def stamp(self) -> Mapping[str, Any]:
        """Return the beginnings of the digests of threat and weights."""
        return stamp_of(self._threat.digest, self._weights.checkpoint)

    def samples(self) -> Sequence[LabelledText]:
        """Return the samples that the threat applies to."""
        return self._samples

    def measure(self, samples: Sequence[LabelledText]) -> Iterator[Sequence[Record]]:
        """Yield the records of each batch."""
        # Smoothing: the random copies of one text fill a batch.
        size = 1 if self._certifier.kind == "probabilistic" else AT_ONCE
        if isinstance(self._certifier, ListedCertifier):
            size = TEXTS_AT_ONCE
        for start in range(0, len(samples), size):
            batch = samples[start : start + size]
            certificates = self._certifier([sample.text for sample in batch], self._ks)
            yield [
                record(certificate, self._ks, self._class_names, sample)
                for certificate, sample in zip(certificates, batch, strict=True)
            ]

    def figures(self, records: Sequence[Record]) -> dict[str, float]:
        """Return accuracy and certified accuracies, see `certificate_records.figures`."""
        values = figures(records, self._ks, self._skipped)
        if self._positive is not None:
            values |= detections(records, self._ks, self._positive)
        return values

    def write(self, files: RunDirectory, outcome: Measured) -> None:
        """Draw the curve."""
        write(files, self.name, outcome.records, self._ks, self.subject())

    def table(self, files: RunDirectory, records: Sequence[Record]) -> str:
        """Return the table to print; the run has attacks inside the same threat.

        Raises:
            ValueError: one of these attacks has changed a certified text.
        """
        # Attacks are on the model itself, not on the smoothed classifier, or on that of the words.
        listed = isinstance(self._certifier, ListedCertifier) and self._certifier.model.complete
        around, split = self._settings["around"], self._settings["split"]
        attacks = [] if around and not listed else attacks_inside(files, self._threat, split)
        layers = sandwich(attacks, records, self._ks)
        kinds = Counter(line["kind"] for line in records)
        lines = table(self.figures(records), layers, kinds)
        if any(layer.broken for layer in layers):
            msg = "got an attack that changed a certified text, expected none: see the table above"
            # The error alone would hide the samples that contradict each other.
            print(lines)
            raise ValueError(msg)
        return lines
