"""The validity of an attack, next to its records: `validity/NAME.jsonl` and `.json`."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attacks.outcome import AttackRecord, from_line
from attacks.resources.catalogue import ResourceError, Resources
from attacks.validity.checks import Checks, ValidityLimits
from measure.attack_settings import AttackSettings
from run_files import atomic
from text.bounded_files import json_lines, read_json
from text.estimates import IntervalEstimate, wilson
from text.subjects import differences

log = logging.getLogger(__name__)


def validity_path(records: Path) -> Path:
    """Return the file with the validity of each adversarial text in `records`."""
    return records.parent / "validity" / records.name


def write(records: Path, report: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> None:
    """Write figures and lines next to the records of an attack."""
    path = validity_path(records)
    atomic.write_lines(path, [dict(line) for line in lines])
    atomic.write_text(path.with_suffix(".json"), json.dumps(report, indent=2) + "\n")


def report_of(
    records: Sequence[AttackRecord],
    failed: Sequence[Sequence[str]],
    *,
    checks: Sequence[str],
    limits: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the figures of an attack, with the limits of a valid text.

    `failed` has the names of the failed checks of each adversarial text, in the order of records.
    """
    records = [record for record in records if record.outcome != "error"]
    attacked = [record for record in records if record.attacked]
    succeeded = [record for record in attacked if record.outcome == "succeeded"]
    valid = sum(not names for names in failed)
    right = sum(record.right for record in records)
    report: dict[str, Any] = {
        "limits": dict(limits),
        "checks": list(checks),
        "samples": len(records),
        "attacked": len(attacked),
        "succeeded": len(succeeded),
        "valid": valid,
        "invalid_by": {name: sum(name in names for names in failed) for name in checks},
    }
    if attacked:
        report["success_rate"] = asdict(wilson(len(succeeded), len(attacked)))
        report["valid_success_rate"] = asdict(wilson(valid, len(attacked)))
    if succeeded:
        report["valid_share"] = asdict(wilson(valid, len(succeeded)))
    if records:
        # A correct prediction stays correct unless an attack succeeds.
        report["accuracy"] = asdict(wilson(right - len(succeeded), len(records)))
        report["valid_accuracy"] = asdict(wilson(right - valid, len(records)))
    return report


def report_lines(path: Path, report: Mapping[str, Any]) -> list[str]:
    """Return the lines to print for an attack, from its `report_of`."""
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
    for key, title in titles.items():
        lines.append(f"  {title:<31} {IntervalEstimate(**report[key])}")
    by = ", ".join(f"{name} {count}" for name, count in report["invalid_by"].items())
    return [*lines, f"  invalid by (several possible)   {by}"]


def merge(path: Path, records: Sequence[AttackRecord], shards: Sequence[Path]) -> list[str]:
    """Merge the validity of all shards of an attack; return the lines to print.

    If a shard has no validity, an old one, or other checks or limits, the only line is the reason.
    `path` is that of the merged records, `shards` are those of the parts.
    """
    paths = [validity_path(shard) for shard in shards]
    measured = [file for file in paths if file.with_suffix(".json").is_file()]
    if not measured:
        return []
    without = f"\n{path.stem}: validity is left out"
    if len(measured) < len(shards):
        missing = sorted({*paths} - {*measured})
        return [f"{without}: {', '.join(file.stem for file in missing)} was not measured"]
    first, *rest = [read_json(file.with_suffix(".json"), "a report") for file in measured]
    if any(differences(first, other, only=("checks", "limits")) for other in rest):
        return [f"{without}: its shards were measured by other checks or limits"]
    lines = {
        int(line["sample_id"]): line for file in measured for _, line in json_lines(file, "records")
    }
    ids = [record.sample_id for record in records if record.outcome == "succeeded"]
    # A shard may have been resumed after its validity was measured.
    if lost := set(ids) - set(lines):
        return [f"{without}: {len(lost)} adversarial texts were not measured"]
    merged = [lines[sample_id] for sample_id in ids]
    failed = [line["failed"] for line in merged]
    report = report_of(records, failed, checks=first["checks"], limits=first["limits"])
    write(path, report, merged)
    return report_lines(path, report)


def usual_checks(settings: AttackSettings, device: Any) -> Checks:
    """Return the checks of `--attack.validity`: they need neither corpora nor language models.

    Raises:
        ResourceError: WordNet is missing.
    """
    resources = Resources.of(settings, device=device)
    return Checks(resources.wordnet(), encoder=sentence_encoder(resources))


def sentence_encoder(resources: Resources) -> Any:
    """Return the sentence encoder; None, with a warning, if it is missing."""
    try:
        return resources.sentence_encoder()
    except ResourceError as error:
        log.warning("similarity is not measured: %s", error)
        return None


def file_validity(path: Path, checks: Checks, limits: ValidityLimits) -> list[str]:
    """Measure the adversarial texts of an attack, file the figures; return the lines to print."""
    records = read_attack_records(path)
    succeeded = [record for record in records if record.outcome == "succeeded"]
    pairs = [(r.text, r.adversarial) for r in succeeded if r.adversarial is not None]
    measured = checks.measure(pairs) if pairs else []
    failed = [figures.failures(limits) for figures in measured]
    lines = [
        {
            "sample_id": record.sample_id,
            "valid": not names,
            "failed": names,
            **{key: value for key, value in figures._asdict().items() if value is not None},
        }
        for record, figures, names in zip(succeeded, measured, failed, strict=True)
    ]
    report = report_of(records, failed, checks=checks.made(), limits=asdict(limits))
    write(path, report, lines)
    return report_lines(path, report)


def read_attack_records(path: Path) -> list[AttackRecord]:
    """Return the records of an attack.

    Raises:
        ValueError: the file has other content.
        OSError: the file cannot be read.
    """
    try:
        return [from_line(record) for _, record in json_lines(path, "records")]
    except (ValueError, TypeError) as error:
        msg = f"got {path} with a line that is no record ({error}), expected RECIPE.jsonl"
        raise ValueError(msg) from error
