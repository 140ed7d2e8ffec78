"""Findings of `doctor`, printed without secrets, and the processes of their trials.

A library may end the process that loads it: trials run in processes of their own.
"""

import json
import os
import re
import signal
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.context import ForkProcess
from pathlib import Path
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


# Trials


Trial = Iterator[Finding]
"""First the finding for the case that the trial fails, without the reason; then its findings."""


def run_trial(trial: Trial) -> Iterator[tuple[bool, Finding]]:
    """Yield (False, the finding in case of failure), then (True, finding) for each finding."""
    failure = Finding("doctor", "FAILED", "")
    try:
        failure = next(trial)
        yield False, failure
        for finding in trial:
            yield True, finding
    except Exception as error:  # whatever it is: it becomes a finding
        reason = " ".join(str(error).split())[:500] or "no reason given"
        yield True, failure._replace(found=f"{failure.found}{type(error).__name__}: {reason}")


class TrialProcess(ForkProcess):
    """Runs trials one after the other in a process that starts at once and ends with ours.

    It may be silent for so many `seconds`.
    """

    def __init__(self, trials: Iterable[Trial], seconds: float) -> None:
        super().__init__(daemon=True)
        self._trials, self._seconds = trials, seconds
        self._receiver, self._sender = Pipe(duplex=False)
        self.start()  # a fork is safe here: no library with threads is loaded yet
        self._sender.close()  # ours: else its end in the other process would not be EOF here

    def findings(self) -> Iterator[Finding]:
        """Yield the findings; if the process ends too early, its last trial has failed."""
        failure, end = Finding("doctor", "FAILED", ""), ""
        with suppress(EOFError):
            while self._receiver.poll(self._seconds):
                final, finding = self._receiver.recv()
                if final:
                    yield finding
                else:
                    failure = finding
            end = f"no answer within {self._seconds:g} s"
            self.kill()
        self.join()
        if status := self.exitcode:
            by = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
            yield failure._replace(found=failure.found + (end or f"the process was ended {by}"))

    def run(self) -> None:
        """Run the trials, in the other process."""
        with Path(os.devnull).open("r+b") as null:
            for stream in range(3):  # libraries print while they are loaded
                os.dup2(null.fileno(), stream)
        for trial in self._trials:
            for message in run_trial(trial):
                self._sender.send(message)
        os._exit(0)  # not by return: libraries may fail while Python ends
