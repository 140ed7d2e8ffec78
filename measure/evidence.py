"""Read all outcomes about the weights of a run, and name those about other weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

from attacks.digests import SHORT, file_digest
from attacks.outcome import AttackRecord, from_line
from attacks.summary import Summary, summarise
from measure.attack_report import class_name
from measure.verdict import keeps_prediction
from run_files.certified_bounds import BOUNDS
from run_files.checkpoint_lookup import checkpoint_text
from run_files.ledger import Ledger, attack_ledgers
from run_files.results import Results, is_combined
from run_files.run_directory import OTHERS, TRANSFER, RunDirectory
from run_files.sample_records import Record
from text.bounded_files import json_lines, read_json
from text.estimates import IntervalEstimate
from text.json_shapes import check_shape

_NONE = (None, "none")
"""The checkpoint of records without a digest of their weights."""
PROVEN = {bound.stage: bound.file for bound in BOUNDS if bound.proven and bound.lipschitz}
"""Stages of proven radii, and their files; the first one counts."""
UNTARGETED, _UNCHANGED = "untargeted", "unchanged"
"""Goals of attacks: any other class; the same class, although words are gone."""


class _Share(TypedDict):
    value: float
    low: float
    high: float
    count: int


class _PairFigures(TypedDict):
    adversarial: _Share


class _Source(TypedDict):
    run: str
    checkpoint: str
    attack: str
    records: NotRequired[str]


class _TransferFile(TypedDict):
    """The parts of a file of `attack pairs` that a transfer is made from."""

    weights: str
    source: _Source
    all: _PairFigures


class StageRecords(NamedTuple):
    """Records of samples, in the order of their ids.

    Attributes:
        file: name of their file.
        records: a JSON object for each sample.
        rows: digest of the rows of the split; None if unknown.
        settings: weights, rows and settings of the evaluation.
    """

    file: str
    records: Sequence[Record]
    rows: str | None
    settings: Mapping[str, Any]


class AttackEvidence(NamedTuple):
    """An attack that changes words.

    Attributes:
        name: name of its files.
        records: records of the samples.
        summary: its figures.
        rows: digest of the rows of the split; None if unknown, or not of the test split.
        of_test: True if its texts are of the test split.
        goal: as in its settings; `unchanged` if its successes keep the prediction.
    """

    name: str
    records: Sequence[AttackRecord]
    summary: Summary
    rows: str | None
    of_test: bool = True
    goal: str = UNTARGETED

    @property
    def breaks(self) -> bool:
        """True if its successes are errors of the model: not those of input reduction."""
        return self.goal != _UNCHANGED


class Transfer(NamedTuple):
    """The accuracy of a run on texts that an attack has changed on another model.

    Attributes:
        source: run of that model.
        attack: name of the attack.
        weights: SHA-256 of the attacked weights.
        accuracy: share of the changed texts with a correct prediction.
        records: SHA-256 of the records with these texts; "" if unknown, of older versions.
    """

    source: str
    attack: str
    weights: str
    accuracy: IntervalEstimate
    records: str = ""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Figures and records of a run that are all about the same weights.

    Attributes:
        run: the run.
        settings: content of its `config.yaml`.
        results: content of its `results.json`; None without one.
        weights: SHA-256 of the weights; "" where no file has them.
        subjects: weights, rows and settings of each stage.
        task: classification, regression, tagging or choice; None if unknown.
        class_names: names of the classes; empty if unknown.
        metrics: flat names and numbers.
        pgd: records of `test` under PGD.
        certificates: records of proven radii.
        in_words: records of each stage of `certify --threat` on the test split.
        predictions: records of `predict`.
        attacks: attacks that change words.
        transfers: `attack pairs` on the texts that attacks have changed on other runs.
        unused: sentences that name unused files, and the reason.
    """

    run: RunDirectory
    settings: Mapping[str, Any]
    results: Results | None
    weights: str
    subjects: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    task: str | None = None
    class_names: Sequence[str] = ()
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    pgd: StageRecords | None = None
    certificates: StageRecords | None = None
    in_words: Mapping[str, StageRecords] = field(default_factory=dict)
    predictions: StageRecords | None = None
    attacks: Sequence[AttackEvidence] = ()
    transfers: Sequence[Transfer] = ()
    unused: Sequence[str] = ()

    @property
    def classifies(self) -> bool:
        """True if the task is a classification, or unknown."""
        return self.task in (None, "classification")

    def class_name(self, number: Any) -> str:
        """Return the name of a class, or its number if it has no name."""
        return class_name(number, self.class_names)


def read_evidence(run: RunDirectory) -> Evidence:
    """Read a run, without changing it.

    Raises:
        ValueError: a file of the run has unexpected content.
    """
    reader = RunReader(run)
    certificates = [
        records for stage, file in PROVEN.items() if (records := reader.records(file, stage))
    ]
    # In the order of `BOUNDS`: the first bound is the one of the page.
    for other in certificates[1:]:
        reader.unused.append(f"{other.file}: {certificates[0].file} is there as well")
    for path in sorted(run.path.glob("printed_*.jsonl")):
        reader.unused.append(f"{path.name}: a formula as printed, which guarantees nothing")
    metrics = reader.metrics()
    in_words = reader.in_words()
    pgd = reader.records("pgd.jsonl", "test")
    predictions = reader.records("predictions.jsonl", "predict")
    attacks = reader.attacks()
    transfers = reader.transfers()
    for folder in sorted((run.path / OTHERS).glob("*/")):
        reader.unused.append(f"{OTHERS}/{folder.name}: of other weights or other rows")
    stored = checkpoint_text(run)
    return Evidence(
        run=run,
        settings=run.config(),
        results=reader.results,
        weights=reader.weights,
        subjects=reader.subjects,
        task=stored.get("task"),
        class_names=tuple(stored.get("class_names") or _class_names(attacks, pgd, predictions)),
        metrics=_filed_again(metrics, attacks),
        pgd=pgd,
        certificates=certificates[0] if certificates else None,
        in_words=in_words,
        predictions=predictions,
        attacks=attacks,
        transfers=transfers,
        unused=tuple(reader.unused),
    )


def _filed_again(
    metrics: dict[str, float | None], attacks: Sequence[AttackEvidence]
) -> dict[str, float | None]:
    """Return the numbers with those of blind attacks as `attack` files them now."""
    # Older versions have found fewer searches blind: the records tell.
    for attack in attacks:
        stage = f"attack/{attack.name}/"
        if attack.summary.unreliable and f"{stage}accuracy" in metrics:
            kept = {n: v for n, v in metrics.items() if not (n.startswith(stage) or is_combined(n))}
            goal = {n: v for n, v in metrics.items() if n == f"{stage}target"}
            own = {f"{stage}{name}": value for name, value in attack.summary.metrics().items()}
            metrics = {**kept, **own, **goal}
    return metrics


def _class_names(
    attacks: Sequence[AttackEvidence], *measured: StageRecords | None
) -> tuple[str, ...]:
    """Return the classes that records name, for a run without a checkpoint."""
    records = [record.line() for attack in attacks for record in attack.records]
    records += [record for part in measured if part is not None for record in part.records]
    names = {
        record[key]: record[f"{key}_name"]
        for record in records
        for key in ("label", "prediction", "adversarial_prediction")
        if record.get(f"{key}_name") is not None
    }
    return tuple(names.get(index, str(index)) for index in range(max(names, default=-1) + 1))


class RunReader:
    """Reads the records and the figures of a run, and finds those about other weights.

    Args:
        run: the run.

    Attributes:
        run: the run.
        results: content of its `results.json`; None without one.
        weights: SHA-256 of its weights; "" where no file has them.
        unused: sentences that name unused files, and the reason.
    """

    def __init__(self, run: RunDirectory) -> None:
        self.run, self.results = run, run.results()
        self.unused: list[str] = []
        # The checkpoint counts; a run that began with an evaluation has none of its own.
        named = [digest for s in self.subjects.values() if (digest := s.get("checkpoint"))]
        named = [str(digest) for digest in named if digest not in _NONE]
        self.weights = (
            file_digest(run.chosen)
            if run.chosen.is_file()
            else run.source() or (named[0] if named else "")
        )

    @property
    def subjects(self) -> Mapping[str, Mapping[str, Any]]:
        """Weights, rows and settings of each stage."""
        return {} if self.results is None else self.results.get("about", {})

    def subject(self, stage: str) -> Mapping[str, Any]:
        """Return the subject of the figures of a stage."""
        return self.subjects.get(stage, {})

    def is_other(self, digest: Any) -> bool:
        """Return True for the digest, or its beginning, of other weights."""
        # Records have the first digits only, `results.json` has all.
        return digest not in _NONE and not self.weights.startswith(str(digest))

    def read(self, path: Path) -> list[Record]:
        """Return the records of a file, in the order of their ids.

        Raises:
            ValueError: it has other lines.
        """
        try:
            lines = [line for _, line in json_lines(path, "records of samples")]
            return sorted(lines, key=lambda record: int(record["sample_id"]))
        except (KeyError, TypeError, ValueError) as error:
            msg = f"got {path} with other lines than records of samples, expected these: delete it"
            raise ValueError(msg) from error

    def metrics(self) -> dict[str, float | None]:
        """Return the numbers of `results.json` that are about these weights."""
        if self.results is None:
            return {}
        stages = [name for name in self.subjects if self.is_other(self._of(name))]
        for name in stages:
            self.unused.append(
                f"results.json, {name}: of other weights ({str(self._of(name))[:SHORT]})"
            )
        dropped = tuple(f"{name}/" for name in stages)
        # Figures over several attacks include those on other weights.
        attack = any(stage.startswith("attack/") for stage in stages)
        return {
            name: value
            for name, value in self.results["metrics"].items()
            if not name.startswith(dropped) and not (attack and is_combined(name))
        }

    def _of(self, stage: str) -> Any:
        return self.subject(stage).get("checkpoint")

    def records(self, file: str, stage: str) -> StageRecords | None:
        """Return the records of a file; None without it, or if it is about other weights."""
        path = self.run.path / file
        if not path.is_file():
            return None
        records = self.read(path)
        # A record without a stamp is about the weights of its stage.
        stamps = {record.get("checkpoint", self._of(stage)) for record in records}
        digests = sorted(str(stamp)[:SHORT] for stamp in stamps if self.is_other(stamp))
        if digests:
            self.unused.append(f"{file}: of other weights ({', '.join(digests)})")
            return None
        if not records or (self.weights and not stamps.isdisjoint(_NONE)):
            reason = "no record says of which weights it is" if records else "without records"
            self.unused.append(f"{file}: {reason}")
            return None
        settings = self.subject(stage)
        return StageRecords(file, records, (settings.get("rows") or {}).get("test"), settings)

    def in_words(self) -> dict[str, StageRecords]:
        """Return the records of certificates in words on the test split, by stage."""
        records_by_stage = {}
        for stage, settings in self.subjects.items():
            if (
                "threat" in settings
                and stage.startswith("certify_")
                and settings.get("split") == "test"
            ):
                file = f"certificates_{stage.removeprefix('certify_')}.jsonl"
                if (measured := self.records(file, stage)) is not None:
                    records_by_stage[stage] = measured
        return records_by_stage

    def attacks(self) -> tuple[AttackEvidence, ...]:
        """Return the attacks that have ended, by name."""
        attacks = []
        for ledger in attack_ledgers(self.run):
            name, subject = ledger.name, ledger.subject()
            if self.is_other(subject.get("checkpoint")):
                stamp = str(subject["checkpoint"])[:SHORT]
                self.unused.append(f"attacks/{name}: of other weights ({stamp})")
            elif self.weights and subject.get("checkpoint") in _NONE:
                self.unused.append(f"attacks/{name}: nothing says of which weights it is")
            elif not (records := ledger.records()):
                self.unused.append(f"attacks/{name}: not finished; the same `attack` resumes it")
            elif all(record.get("outcome") == "error" for record in records):
                reason = records[0].get("reason")
                self.unused.append(f"attacks/{name}: every record is an error, the first: {reason}")
            else:
                rows = (self.subject(f"attack/{name}").get("rows") or {}).get("test")
                attacks.append(_read_attack(ledger, records, subject, rows))
        return tuple(attacks)

    def transfers(self) -> list[Transfer]:
        """Return the accuracies on changed texts of other runs.

        Raises:
            ValueError: a file has other content.
        """
        transfers = []
        for path in sorted((self.run.path / TRANSFER).glob("*/*.json")):
            content = read_json(path, "figures of `attack pairs`")
            check_shape(content, _TransferFile, path)
            name = f"{TRANSFER}/{path.parent.name}/{path.stem}"
            if self.is_other(content["weights"]):
                self.unused.append(f"{name}: of other weights ({content['weights'][:SHORT]})")
                continue
            source = content["source"]
            accuracy = IntervalEstimate(**content["all"]["adversarial"])
            names = source["run"], source["attack"], source["checkpoint"]
            transfers.append(Transfer(*names, accuracy, source.get("records", "")))
        return transfers


def _read_attack(
    ledger: Ledger, records: Sequence[Record], subject: Mapping[str, Any], rows: str | None
) -> AttackEvidence:
    try:
        attack_records = [from_line(record) for record in records]
        score = subject.get("score", "margin")
        goal, task = subject.get("goal"), subject.get("task")
        summary = summarise(attack_records, score=score, goal=goal, task=task)
    except (TypeError, ValueError) as error:
        msg = f"got {ledger.records_path} with other lines than records of an attack: delete it"
        raise ValueError(msg) from error
    # Older attacks have no split in their subject: they are of the test split.
    of_test = subject.get("split", "test") == "test"
    own_rows = rows if of_test else None
    reached = _UNCHANGED if keeps_prediction(subject.get("recipe")) else str(goal or UNTARGETED)
    return AttackEvidence(ledger.name, attack_records, summary, own_rows, of_test, reached)
