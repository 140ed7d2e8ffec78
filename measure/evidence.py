"""Reads what was measured of the weights of a run; what is about other weights is only named."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from attacks.digests import file_digest
from attacks.outcome import AttackRecord, from_line
from attacks.summary import Summary, summarise
from run_files.certified_bounds import BOUNDS
from run_files.ledger import Ledger, attack_ledgers
from run_files.results import Results
from run_files.run_directory import OTHERS, RunDirectory
from run_files.sample_records import Record
from run_files.weights import SHORT, checkpoint_text
from text.bounded_files import json_lines

_NONE = (None, "none")
PROVEN = {one.stage: one.file for one in BOUNDS if one.proven and one.lipschitz}
"""Stages of radii that are theorems, and their files; the first one counts."""


class Measured(NamedTuple):
    """Records of samples, in the order of their ids.

    Attributes:
        file: the file that they are from.
        records: a JSON object for each sample.
        rows: digest of the rows of the split; None if nobody has said.
        about: settings of the evaluation.
    """

    file: str
    records: Sequence[Record]
    rows: str | None
    about: Mapping[str, Any]


class Attacked(NamedTuple):
    """An attack that changes words.

    Attributes:
        name: of its files.
        records: of the samples.
        summary: its figures.
        rows: digest of the rows of the split; None if nobody has said, or if it is not the test.
    """

    name: str
    records: Sequence[AttackRecord]
    summary: Summary
    rows: str | None


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Figures and records of a run that are all about the same weights.

    Attributes:
        run: the run.
        settings: content of its `config.yaml`.
        results: content of its `results.json`; None without one.
        weights: SHA-256 of the weights; "" where no file has them.
        task: classification, regression, tagging or choice; None where nobody has said.
        class_names: of the classes; empty where nobody has said.
        metrics: flat names and numbers.
        pgd: records of `test` under PGD.
        certificates: records of certificates by a theorem.
        in_words: those of each stage of `certify --threat` on the test split.
        predictions: records of `predict`.
        attacks: attacks that change words.
        unused: sentences that name what is there and is not used, and why.
    """

    run: RunDirectory
    settings: Mapping[str, Any]
    results: Results | None
    weights: str
    task: str | None = None
    class_names: Sequence[str] = ()
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    pgd: Measured | None = None
    certificates: Measured | None = None
    in_words: Mapping[str, Measured] = field(default_factory=dict)
    predictions: Measured | None = None
    attacks: Sequence[Attacked] = ()
    unused: Sequence[str] = ()

    @property
    def about(self) -> Mapping[str, Mapping[str, Any]]:
        """Weights, rows and settings of each stage."""
        return {} if self.results is None else self.results.get("about", {})

    @property
    def classifies(self) -> bool:
        """True if the task is, or may be, a classification."""
        return self.task in (None, "classification")

    def class_name(self, number: int) -> str:
        """Returns the name of a class, or its number."""
        known = 0 <= number < len(self.class_names)
        return self.class_names[number] if known else str(number)


def read_evidence(run: RunDirectory) -> Evidence:
    """Reads a run.

    Args:
        run: the run; it is not changed.

    Raises:
        ValueError: a file of it holds something else than it should.
    """
    results = run.results()
    weights = _weights(run, results)
    reader = _Reader(run, results, weights, [])
    certificates = [
        found for stage, file in PROVEN.items() if (found := reader.records(file, stage))
    ]
    for other in certificates[1:]:
        reader.unused.append(f"{other.file}: {certificates[0].file} is there as well")
    for path in sorted(run.path.glob("printed_*.jsonl")):
        reader.unused.append(f"{path.name}: a formula as printed, which guarantees nothing")
    metrics = reader.metrics()
    in_words = reader.in_words()
    pgd = reader.records("pgd.jsonl", "test")
    predictions = reader.records("predictions.jsonl", "predict")
    attacks = reader.attacks()
    for folder in sorted((run.path / OTHERS).glob("*/")):
        reader.unused.append(f"{OTHERS}/{folder.name}: of other weights or other rows")
    known = checkpoint_text(run)
    return Evidence(
        run=run,
        settings=run.config(),
        results=results,
        weights=weights,
        task=known.get("task"),
        class_names=tuple(known.get("class_names") or _class_names(attacks, pgd, predictions)),
        metrics=metrics,
        pgd=pgd,
        certificates=certificates[0] if certificates else None,
        in_words=in_words,
        predictions=predictions,
        attacks=attacks,
        unused=tuple(reader.unused),
    )


def _class_names(attacks: Sequence[Attacked], *measured: Measured | None) -> tuple[str, ...]:
    """The classes that records name, where there is no checkpoint that could name them all."""
    records = [one.line() for attack in attacks for one in attack.records]
    records += [one for each in measured if each is not None for one in each.records]
    names = {
        one[key]: one[f"{key}_name"]
        for one in records
        for key in ("label", "prediction", "adversarial_prediction")
        if one.get(f"{key}_name") is not None
    }
    return tuple(names.get(index, str(index)) for index in range(max(names, default=-1) + 1))


@dataclass(frozen=True)
class _Reader:
    run: RunDirectory
    results: Results | None
    weights: str
    unused: list[str]

    def stage(self, name: str) -> Mapping[str, Any]:
        """The subject of the figures of a stage."""
        return {} if self.results is None else self.results.get("about", {}).get(name, {})

    def other(self, digest: Any) -> bool:
        """True for the digest, or its beginning, of other weights."""
        return digest not in _NONE and not self.weights.startswith(str(digest))

    def metrics(self) -> dict[str, float | None]:
        """The numbers of `results.json` that are of these weights."""
        if self.results is None:
            return {}
        stages = [name for name in self.results.get("about", {}) if self.other(self._of(name))]
        for name in stages:
            self.unused.append(
                f"results.json, {name}: of other weights ({str(self._of(name))[:SHORT]})"
            )
        dropped = [f"{name}/" for name in stages]
        dropped += ["attack/mean_"] if any(one.startswith("attack/") for one in stages) else []
        found = self.results["metrics"]
        return {k: v for k, v in found.items() if not k.startswith(tuple(dropped))}

    def _of(self, stage: str) -> Any:
        return self.stage(stage).get("checkpoint")

    def records(self, file: str, stage: str) -> Measured | None:
        """The records of a file; None if there is none, or if it is of other weights."""
        path = self.run.path / file
        if not path.is_file():
            return None
        records = _lines(path)
        stamps = {record.get("checkpoint", self._of(stage)) for record in records}
        others = sorted(str(stamp)[:SHORT] for stamp in stamps if self.other(stamp))
        if others:
            self.unused.append(f"{file}: of other weights ({', '.join(others)})")
            return None
        if not records or (self.weights and not stamps.isdisjoint(_NONE)):
            why = "no record says of which weights it is" if records else "without records"
            self.unused.append(f"{file}: {why}")
            return None
        about = self.stage(stage)
        return Measured(file, records, (about.get("rows") or {}).get("test"), about)

    def in_words(self) -> dict[str, Measured]:
        """The records of certificates in words on the test split, by their stages."""
        found = {}
        for stage, about in ({} if self.results is None else self.results.get("about", {})).items():
            if "threat" in about and stage.startswith("certify_") and about.get("split") == "test":
                file = f"certificates_{stage.removeprefix('certify_')}.jsonl"
                if (measured := self.records(file, stage)) is not None:
                    found[stage] = measured
        return found

    def attacks(self) -> tuple[Attacked, ...]:
        """The attacks that have ended, by name."""
        found = []
        for ledger in attack_ledgers(self.run):
            name, about = ledger.name, ledger.subject()
            if self.other(about.get("checkpoint")):
                stamp = str(about["checkpoint"])[:SHORT]
                self.unused.append(f"attacks/{name}: of other weights ({stamp})")
            elif self.weights and about.get("checkpoint") in _NONE:
                self.unused.append(f"attacks/{name}: nothing says of which weights it is")
            elif not (records := ledger.records()):
                self.unused.append(f"attacks/{name}: it has not ended; the same `attack` goes on")
            else:
                rows = (self.stage(f"attack/{name}").get("rows") or {}).get("test")
                found.append(_attacked(ledger, records, about, rows))
        return tuple(found)


def _attacked(
    ledger: Ledger, records: Sequence[Record], about: Mapping[str, Any], rows: str | None
) -> Attacked:
    try:
        made = [from_line(record) for record in records]
        summary = summarise(made, score=about.get("score", "margin"))
    except (TypeError, ValueError) as error:
        msg = f"got {ledger.records_path} with other lines than records of an attack: delete it"
        raise ValueError(msg) from error
    of_test = about.get("split", "test") == "test"
    return Attacked(ledger.name, made, summary, rows if of_test else None)


def _weights(run: RunDirectory, results: Results | None) -> str:
    """SHA-256 of the weights that figures have to be about; "" where there are none."""
    if run.chosen.is_file():
        return file_digest(run.chosen)
    about = {} if results is None else results.get("about", {})
    named = [str(one["checkpoint"]) for one in about.values() if one.get("checkpoint") not in _NONE]
    return run.source() or (named[0] if named else "")


def _lines(path: Path) -> list[Record]:
    try:
        records = [record for _, record in json_lines(path, "records of samples")]
        return sorted(records, key=lambda record: int(record["sample_id"]))
    except (KeyError, TypeError, ValueError) as error:
        msg = f"got {path} with other lines than records of samples, expected these: delete it"
        raise ValueError(msg) from error
