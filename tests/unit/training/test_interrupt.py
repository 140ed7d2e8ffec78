import os
import signal

import pytest

from training import interrupt
from training.interrupt import Stopped, interruption


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stops_at_once(signum: signal.Signals, code: int) -> None:
    before = signal.getsignal(signum)
    with interrupt.handle_signals(), pytest.raises(Stopped) as stopped:
        os.kill(os.getpid(), signum)
    assert stopped.value.code == code
    assert signal.getsignal(signum) == before


def test_waits_when_it_may() -> None:
    with interrupt.handle_signals() as found:
        found.deferred = True
        os.kill(os.getpid(), signal.SIGTERM)
        assert found.requested == signal.SIGTERM
        with pytest.raises(Stopped):  # not twice
            os.kill(os.getpid(), signal.SIGTERM)
    with interrupt.handle_signals():
        assert interruption.requested is None
