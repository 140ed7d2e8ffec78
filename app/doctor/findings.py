"""Findings of `doctor`, shown without secrets and harmless to a terminal."""

import json
import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from app.cli.terminal import harmless

Status = Literal["ok", "warning", "FAILED"]

_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")
_SECRET_NAMES = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(^|_)KEY", re.IGNORECASE)


@dataclass(frozen=True)
class Finding:
    """The outcome of one check.

    Attributes:
        name: what was checked.
        status: `warning`: training works, but not everything; `FAILED`: something will not.
        found: what was found.
        advice: what to do, unless all is well.
    """

    name: str
    status: Status
    found: str
    advice: str = ""


def judge(name: str, found: str, *problems: tuple[object, Status, str]) -> Finding:
    """Return `ok`, or the first problem that is there: (is it there, its status, advice)."""
    for there, status, advice in problems:
        if there:
            return Finding(name, status, found, advice)
    return Finding(name, "ok", found)


def masked(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """Remove passwords in addresses and the values of variables like HF_TOKEN from a text."""
    for name, value in environment.items():
        if _SECRET_NAMES.search(name) and len(value) > 5:
            text = text.replace(value, "***")
    return _CREDENTIALS.sub("***@", text)


def printable(finding: Finding) -> Finding:
    """Mask the texts of a finding and make them harmless."""
    texts = (harmless(masked(" ".join(t.split()))) for t in (finding.found, finding.advice))
    return Finding(finding.name, finding.status, *texts)


def as_json(findings: Sequence[Finding]) -> str:
    """Write findings for programs."""
    ok = all(finding.status != "FAILED" for finding in findings)
    return json.dumps({"ok": ok, "checks": [asdict(finding) for finding in findings]}, indent=2)


def as_table(findings: Sequence[Finding], width: int) -> str:
    """Write findings for people, advice below what was found, in lines of at most `width`."""
    column, lines = max(len(finding.name) for finding in findings), []
    for finding in findings:
        begin = f"{finding.status:<7}  {finding.name:<{column}}  "
        room = max(width - len(begin), 30)
        text = textwrap.wrap(finding.found, room)
        if finding.advice:
            text += textwrap.wrap(f"-> {finding.advice}", room, subsequent_indent="   ")
        lines.append(begin + f"\n{' ' * len(begin)}".join(text))
    every = [finding.status for finding in findings]
    counts = ", ".join(f"{every.count(status)} {status}" for status in ("ok", "warning", "FAILED"))
    return "\n".join([*lines, "", counts])
