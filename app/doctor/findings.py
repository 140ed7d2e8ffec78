"""Findings of `doctor`, printed without secrets and control characters."""

import json
import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from run_files.terminal import harmless

Status = Literal["ok", "warning", "FAILED"]

_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")
_SECRET_NAMES = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(^|_)KEY", re.IGNORECASE)


class Finding(NamedTuple):
    """The outcome of one check; `found` is the observation.

    `warning`: training works, but something is missing or slow. `FAILED`: something does not work.
    """

    name: str
    status: Status
    found: str  # also the key in the JSON
    advice: str = ""


def judge(name: str, observation: str, *problems: tuple[object, Status, str]) -> Finding:
    """Return a finding of the first (condition, status, advice) that is true; else `ok`."""
    for condition, status, advice in problems:
        if condition:
            return Finding(name, status, observation, advice)
    return Finding(name, "ok", observation)


def masked(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """Remove passwords in addresses and the values of variables like HF_TOKEN from a text."""
    for name, value in environment.items():
        # A short value, like "1", would mask parts of other words.
        if _SECRET_NAMES.search(name) and len(value) > 5:
            text = text.replace(value, "***")
    return _CREDENTIALS.sub("***@", text)


def printable(finding: Finding) -> Finding:
    """Mask secrets and control characters in the texts of a finding."""
    observation, advice = (harmless(masked(" ".join(text.split()))) for text in finding[2:])
    return finding._replace(found=observation, advice=advice)


def as_json(findings: Sequence[Finding]) -> str:
    """Return findings as JSON."""
    ok = all(finding.status != "FAILED" for finding in findings)
    checks = [finding._asdict() for finding in findings]
    return json.dumps({"ok": ok, "checks": checks}, indent=2)


def as_table(findings: Sequence[Finding], width: int) -> str:
    """Return findings as a table of at most `width` columns, with the advice below each."""
    column, lines = max(len(finding.name) for finding in findings), []
    for name, status, observation, advice in findings:
        begin = f"{status:<7}  {name:<{column}}  "
        rest = max(width - len(begin), 30)
        text = textwrap.wrap(observation, rest)
        text += textwrap.wrap(f"-> {advice}", rest, subsequent_indent="   ") if advice else []
        lines.append(begin + f"\n{' ' * len(begin)}".join(text))
    statuses = [finding.status for finding in findings]
    counts = ", ".join(f"{statuses.count(name)} {name}" for name in ("ok", "warning", "FAILED"))
    return "\n".join([*lines, "", counts])
