"""The figures of validity beside the records of an attack: `validity/NAME.jsonl` and `.json`."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attacks.outcome import AttackRecord, from_line
from attacks.resources.catalogue import ResourceError, Resources
from attacks.summary import IntervalEstimate, wilson
from attacks.validity.checks import Checks, ValidityLimits
from measure.attack_settings import AttackSettings
from run_files import atomic
from text.bounded_files import json_lines, read_json

log = logging.getLogger(__name__)


def place(records: Path) -> Path:
    """Returns the file with a line for each adversarial text of some records."""
    return records.parent / "validity" / records.name


def write(records: Path, report: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> None:
    """Writes figures and lines beside the records of an attack."""
    path = place(records)
    atomic.write_lines(path, [dict(one) for one in lines])
    atomic.write_text(path.with_suffix(".json"), json.dumps(report, indent=2) + "\n")


def report_of(
    records: Sequence[AttackRecord],
    failed: Sequence[Sequence[str]],
    *,
    checks: Sequence[str],
    limits: Mapping[str, Any],
) -> dict[str, Any]:
    """Returns the figures of an attack.

    Args:
        records: of all samples.
        failed: names of the checks that each adversarial text does not pass, in their order.
        checks: names of the checks that were made.
        limits: of a valid text.
    """
    records = [one for one in records if one.outcome != "error"]
    attacked = [one for one in records if one.attacked]
    succeeded = [one for one in attacked if one.outcome == "succeeded"]
    valid = sum(not some for some in failed)
    right = sum(one.prediction == one.label for one in records)
    report: dict[str, Any] = {
        "limits": dict(limits),
        "checks": list(checks),
        "samples": len(records),
        "attacked": len(attacked),
        "succeeded": len(succeeded),
        "valid": valid,
        "invalid_by": {name: sum(name in some for some in failed) for name in checks},
    }
    if attacked:
        report["success_rate"] = asdict(wilson(len(succeeded), len(attacked)))
        report["valid_success_rate"] = asdict(wilson(valid, len(attacked)))
    if succeeded:
        report["valid_share"] = asdict(wilson(valid, len(succeeded)))
    if records:
        report["accuracy"] = asdict(wilson(right - len(succeeded), len(records)))
        report["valid_accuracy"] = asdict(wilson(right - valid, len(records)))
    return report


def told(path: Path, report: Mapping[str, Any]) -> list[str]:
    """Returns the lines that are printed of an attack.

    Args:
        path: its records.
        report: see `report_of`.
    """
    lines = [f"\n{path.stem}: {report['succeeded']} adversarial texts, {report['valid']} valid"]
    if not report["succeeded"]:
        return lines
    titles = {
        "success_rate": "success rate",
        "valid_success_rate": "success rate, valid texts only",
        "accuracy": "accuracy under attack",
        "valid_accuracy": "accuracy, valid texts only",
        "valid_share": "valid share",
    }
    lines += [
        f"  {title:<31} {_share(IntervalEstimate(**report[key]))}" for key, title in titles.items()
    ]
    by = ", ".join(f"{name} {count}" for name, count in report["invalid_by"].items())
    return [*lines, f"  invalid by (several possible)   {by}"]


def _share(one: IntervalEstimate) -> str:
    return f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]"


def merge(path: Path, records: Sequence[AttackRecord], shards: Sequence[Path]) -> list[str]:
    """Unites the validity of all shards of an attack; returns the lines to print.

    Nothing is written, and a line says why, where a shard has not measured it (again), or with
    other checks or limits.

    Args:
        path: records of the whole attack.
        records: the same, read.
        shards: records of each shard.
    """
    there = [place(one) for one in shards if place(one).with_suffix(".json").is_file()]
    if not there:
        return []
    without = f"\n{path.stem}: validity is left out"
    if len(there) < len(shards):
        missing = sorted({*map(place, shards)} - {*there})
        return [f"{without}: {', '.join(one.stem for one in missing)} was not measured"]
    reports = [read_json(one.with_suffix(".json"), "a report") for one in there]
    first = reports[0]
    if any(one["checks"] != first["checks"] or one["limits"] != first["limits"] for one in reports):
        return [f"{without}: its shards were measured by other checks or limits"]
    read = [record for part in there for _, record in json_lines(part, "records")]
    lines = {int(one["sample_id"]): one for one in read}
    ids = [one.sample_id for one in records if one.outcome == "succeeded"]
    if lost := [one for one in ids if one not in lines]:
        return [f"{without}: {len(lost)} adversarial texts were not measured"]
    kept = [lines[one] for one in ids]
    failed = [one["failed"] for one in kept]
    report = report_of(records, failed, checks=first["checks"], limits=first["limits"])
    write(path, report, kept)
    return told(path, report)


def usual_checks(settings: AttackSettings, device: Any) -> Checks:
    """Returns the checks of `--attack.validity`: those that need neither text nor other models.

    Raises:
        ResourceError: WordNet is not there.
    """
    resources = Resources.of(settings, device=device)
    return Checks(resources.wordnet(), encoder=sentence_encoder(resources))


def sentence_encoder(resources: Resources) -> Any:
    """Return the sentence encoder; None, with a warning, where there is none."""
    try:
        return resources.sentence_encoder()
    except ResourceError as error:
        log.warning("similarity is not measured: %s", error)
        return None


def file_validity(path: Path, checks: Checks, limits: ValidityLimits) -> list[str]:
    """Writes the figures of an attack beside its records; returns the lines to print.

    Args:
        path: its records.
        checks: measure the texts.
        limits: of a valid text.
    """
    report, lines = judged(path, checks, limits)
    write(path, report, lines)
    return told(path, report)


def records_of(path: Path) -> list[AttackRecord]:
    """Returns the records of an attack.

    Raises:
        ValueError: the file holds something else.
        OSError: it cannot be read.
    """
    try:
        return [from_line(record) for _, record in json_lines(path, "records")]
    except (ValueError, TypeError) as error:
        msg = f"got {path} with a line that is no record ({error}), expected RECIPE.jsonl"
        raise ValueError(msg) from error


def judged(
    path: Path, checks: Checks, limits: ValidityLimits
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Returns the figures of an attack, and a line for each adversarial text.

    Args:
        path: its records.
        checks: measure the texts.
        limits: of a valid text.
    """
    records = records_of(path)
    succeeded = [one for one in records if one.outcome == "succeeded"]
    pairs = [(one.text, one.adversarial) for one in succeeded if one.adversarial is not None]
    measured = checks.measure(pairs) if pairs else []
    failed = [one.failures(limits) for one in measured]
    report = report_of(records, failed, checks=checks.made(), limits=asdict(limits))
    lines = [
        {
            "sample_id": record.sample_id,
            "valid": not some,
            "failed": some,
            **{key: value for key, value in one._asdict().items() if value is not None},
        }
        for record, one, some in zip(succeeded, measured, failed, strict=True)
    ]
    return report, lines
