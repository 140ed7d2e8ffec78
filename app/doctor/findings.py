"""Findings of `doctor`, printed without secrets and control characters."""

import json
import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from app.cli.terminal import harmless

Status = Literal["ok", "warning", "FAILED"]

_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")
_SECRET_NAMES = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(^|_)KEY", re.IGNORECASE)


class Finding(NamedTuple):
    """The outcome of one check: its name, its status, what was found, and what to do about it.

    `warning`: training works, but something is missing or slow. `FAILED`: something does not work.
    """

    name: str
    status: Status
    found: str
    advice: str = ""


def judge(name: str, found: str, *problems: tuple[object, Status, str]) -> Finding:
    """Return the first problem that is true, of (condition, status, advice); else `ok`."""
    first = next((problem[1:] for problem in problems if problem[0]), ("ok", ""))
    return Finding(name, first[0], found, first[1])


def masked(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """Remove passwords in addresses and the values of variables like HF_TOKEN from a text."""
    for name, value in environment.items():
        if _SECRET_NAMES.search(name) and len(value) > 5:
            text = text.replace(value, "***")
    return _CREDENTIALS.sub("***@", text)


def printable(finding: Finding) -> Finding:
    """Mask secrets and control characters in the texts of a finding."""
    found, advice = (harmless(masked(" ".join(text.split()))) for text in finding[2:])
    return finding._replace(found=found, advice=advice)


def as_json(findings: Sequence[Finding]) -> str:
    """Write findings for programs."""
    ok = all(finding.status != "FAILED" for finding in findings)
    return json.dumps({"ok": ok, "checks": [one._asdict() for one in findings]}, indent=2)


def as_table(findings: Sequence[Finding], width: int) -> str:
    """Write findings for people, in lines of at most `width`; the advice stands below each."""
    column, lines = max(len(finding.name) for finding in findings), []
    for name, status, found, advice in findings:
        begin = f"{status:<7}  {name:<{column}}  "
        room = max(width - len(begin), 30)
        text = textwrap.wrap(found, room)
        text += textwrap.wrap(f"-> {advice}", room, subsequent_indent="   ") if advice else []
        lines.append(begin + f"\n{' ' * len(begin)}".join(text))
    every = [finding.status for finding in findings]
    counts = ", ".join(f"{every.count(status)} {status}" for status in ("ok", "warning", "FAILED"))
    return "\n".join([*lines, "", counts])
