import sys
from pathlib import Path

import pytest

from benchmarks import attack_cost


def test_wrong_input_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.setattr(sys, "argv", ["attack_cost", "--data_dir", str(tmp_path / "no")])
    with pytest.raises(ValueError, match="got data_dir") as raised:
        attack_cost.main()
    # Python calls the hook, then ends with status 1.
    sys.excepthook(raised.type, raised.value, raised.tb)
    (last,) = capsys.readouterr().err.splitlines()
    assert last.startswith(f"error: got data_dir {tmp_path / 'no'}, which is no folder, expected")
