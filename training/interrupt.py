"""Handles Ctrl-C and SIGTERM: the run stops where it can resume; the exit status tells why.

During a fit a signal is only recorded. The checkpoint callback
(`training/checkpoint_callbacks.py`) reads it, saves after the batch and stops. A second signal
stops at once. Outside a fit there is nothing to save: the first signal stops at once.
"""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(SystemExit):
    """A signal asked the program to stop; `code` is the exit status 128 + signal (130, 143)."""

    def __init__(self, signum: int) -> None:
        super().__init__(128 + signum)
        self.signum = signum


class Interruption:
    """The signals that have arrived.

    Attributes:
        deferred: True if signals are only recorded, because a callback will read `requested`.
        requested: the recorded signal, if any.
        saved: path of the checkpoint written because of it, if any.
    """

    def __init__(self) -> None:
        self.deferred = False
        self.requested: int | None = None
        self.saved: str | None = None

    def reset(self) -> None:
        """Forget everything."""
        self.deferred, self.requested, self.saved = False, None, None

    def handle(self, signum: int, _frame: FrameType | None) -> None:
        """Record the signal, or raise `Stopped` if it cannot wait."""
        if self.deferred and self.requested is None:
            self.requested = signum
            log.info("stopping after this batch and a checkpoint; once more to stop without one")
            return
        self.deferred = False
        raise Stopped(signum)

    def register(self) -> None:
        """Install `handle` for Ctrl-C and SIGTERM."""
        for signum in SIGNALS:
            signal.signal(signum, self.handle)


interruption = Interruption()
"""The only one: signals belong to the process."""


@contextmanager
def handle_signals() -> Iterator[Interruption]:
    """Handle Ctrl-C and SIGTERM inside the block; restore the old handlers after it."""
    with restored_handlers():
        interruption.reset()
        interruption.register()
        yield interruption


@contextmanager
def restored_handlers() -> Iterator[None]:
    """Restore the handlers of Ctrl-C and SIGTERM after the block, in the main thread."""
    before = {signum: signal.getsignal(signum) for signum in SIGNALS}
    try:
        yield
    finally:
        # Python allows handlers in the main thread only.
        if threading.current_thread() is threading.main_thread():
            for signum, handler in before.items():
                signal.signal(signum, handler)
