import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_wrong_input_is_said_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.attack_cost", "--data_dir", str(tmp_path / "no")]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(f"error: got data_dir {tmp_path / 'no'}, which is no folder, expected")
    assert "Traceback" not in ended.stderr
