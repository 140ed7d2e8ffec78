"""What a check says, and how it is shown: without secrets, and harmless to a terminal."""

import dataclasses
import json
import os
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from app.terminal import harmless

Status = Literal["ok", "warning", "FAILED"]

_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")
_SECRET_NAMES = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(^|_)KEY", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Check:
    """The outcome of one check.

    Attributes:
        name: what was looked at.
        status: `warning`: training works, but not everything; `FAILED`: something will not.
        found: what was found.
        advice: what to do, unless all is well.
    """

    name: str
    status: Status
    found: str
    advice: str = ""


def masked(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """A text without passwords in addresses and without the values of variables like HF_TOKEN."""
    for name, value in environment.items():
        if _SECRET_NAMES.search(name) and len(value) > 5:
            text = text.replace(value, "***")
    return _CREDENTIALS.sub("***@", text)


def fit_to_print(checks: Iterable[Check]) -> list[Check]:
    """The checks with every text masked and harmless."""
    return [
        dataclasses.replace(
            check,
            found=harmless(masked(" ".join(check.found.split()))),
            advice=harmless(masked(" ".join(check.advice.split()))),
        )
        for check in checks
    ]


def failed(checks: Iterable[Check]) -> bool:
    """Whether there is anything that will not work."""
    return any(check.status == "FAILED" for check in checks)


def as_json(checks: Sequence[Check]) -> str:
    """The checks for programs."""
    content = {"ok": not failed(checks), "checks": [dataclasses.asdict(c) for c in checks]}
    return json.dumps(content, indent=2)


def as_table(checks: Sequence[Check], width: int) -> str:
    """The checks for people, advice below what was found.

    Args:
        checks: at least one.
        width: of the terminal, in characters.
    """
    column = max(len(check.name) for check in checks)
    room = max(width - column - len("warning") - 4, 30)
    lines = []
    for check in checks:
        text = textwrap.wrap(check.found, room) or [""]
        if check.advice:
            text += textwrap.wrap(f"-> {check.advice}", room, subsequent_indent="   ")
        begin = f"{check.status:<7}  {check.name:<{column}}  "
        lines += [begin + text[0], *(" " * len(begin) + line for line in text[1:])]
    counts = [
        f"{sum(check.status == status for check in checks)} {status}"
        for status in ("ok", "warning", "FAILED")
    ]
    return "\n".join([*lines, "", ", ".join(counts)])
