"""Loaders: what their workers print."""

import sys

import pytest

from datamodules.batching.loaders import _begin_worker


@pytest.mark.parametrize(
    ("error", "said"),
    [(EOFError(), False), (ConnectionResetError(104, "reset"), False), (OSError("disk"), True)],
)
def test_a_worker_says_nothing_of_a_process_that_hung_up(
    error: Exception,
    said: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    _begin_worker(0)
    sys.excepthook(type(error), error, None)
    assert bool(capsys.readouterr().err) == said
