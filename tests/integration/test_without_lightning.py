"""Commands that train nothing do not import Lightning: every method answers without it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import lit_modules
from tests.faults.settings import REVIEWS
from tests.integration.conftest import QUIET, Steadfast
from tests.integration.test_other_device import CELLS, FEW

QUICK = ("FineTuning",)
TEXTS = ["a fine film", "it was dull , and long", ""]
PROGRAM = """
import json, sys
from text import process_role
process_role.predicts_only = True
import lit_modules
model = lit_modules.load(sys.argv[1])
assert "pytorch_lightning" not in sys.modules
model.exact_copy()
print(json.dumps(model.predict_texts(sys.argv[2:]).tolist()))
"""


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(cell, marks=() if cell in QUICK else pytest.mark.slow, id=cell)
        for cell in CELLS
    ],
)
def test_the_same_logits(here: Path, steadfast: Steadfast, cell: str) -> None:
    few = [*REVIEWS, "--data.batch_size=8", *QUIET, *FEW, "--trainer.max_epochs=1"]
    assert steadfast("fit", CELLS[cell], few, "--run=a").status == 0
    path = str(here / "runs" / "a" / "checkpoints" / "last.ckpt")
    model = lit_modules.load(path)
    root = Path(lit_modules.__file__).parent.parent
    outcome = subprocess.run(
        [sys.executable, "-c", PROGRAM, path, *TEXTS],
        capture_output=True,
        check=False,
        cwd=root,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert json.loads(outcome.stdout) == model.predict_texts(TEXTS).tolist()


COMMANDS = """
import sys
sys.modules["pytorch_lightning"] = None  # an import of it fails
from app.cli.main import entry
sys.exit(entry())
"""


@pytest.mark.parametrize("command", ["check", "functional", "resources paraphrases"])
def test_a_wrong_option_is_one_line(command: str) -> None:
    outcome = subprocess.run(
        [sys.executable, "-c", COMMANDS, *command.split(), "--nonsense"],
        capture_output=True,
        check=False,
        cwd=Path(lit_modules.__file__).parent.parent,
        text=True,
    )
    assert outcome.returncode == 2, outcome.stderr
    (line,) = outcome.stderr.splitlines()
    assert line.startswith("error: ")
    assert "--nonsense" in line
