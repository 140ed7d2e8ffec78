"""Runs trials in another process, because a library may end the process that loads it."""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.context import ForkProcess
from pathlib import Path

from app.doctor.findings import Finding

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

    Args:
        trials: the trials.
        seconds: seconds for which the process may be silent.
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
