"""A second process that fails: loaded by `STEADFAST_IMPORT`, it does what `FAULT` says."""

import os
import signal
from collections.abc import Callable

from lit_modules import TaskModule
from training.watch import Watcher


def refuse() -> None:
    msg = "a bad row"
    raise ValueError(msg)


FAULTS: dict[str, tuple[Callable[[], object], str]] = {
    "exits": (lambda: os._exit(3), "has ended with exit status 3"),
    "says 143": (lambda: os._exit(143), "was ended by SIGTERM"),
    "aborts": (os.abort, "was ended by SIGABRT"),
    "is killed": (lambda: os.kill(os.getpid(), signal.SIGKILL), "was ended by SIGKILL"),
    "raises": (refuse, "a bad row"),
}
"""What it does, and what the first process prints about it."""


def fail(*_: object) -> None:
    FAULTS[os.environ["FAULT"]][0]()


# The first process waits for a rank that is gone, where it has nothing to report.
assert Watcher.__init__.__kwdefaults__ is not None
Watcher.__init__.__kwdefaults__["grace"] = 1.0
if os.environ.get("LOCAL_RANK") == "1":
    if os.environ["FAULT_AT"] == "import":
        fail()
    TaskModule.training_step = fail  # type: ignore[method-assign, assignment] # meant
