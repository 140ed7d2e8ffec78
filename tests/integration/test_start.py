"""A command starts without the libraries that it does not need."""

import subprocess
import sys
from pathlib import Path

from app.cli.commands import COMMANDS, find_command
from app.cli.main import _UNUSED
from tests.integration.conftest import ROOT

SLOW_TO_LOAD = (
    *("pytorch_lightning", "torchmetrics", "torch._dynamo", "sympy", "jsonargparse"),
    *("transformers", "tensorboard", "matplotlib", "scipy", "sklearn", "pandas", "datasets"),
)
PROGRAM = f"""
import sys
from importlib import import_module

from app.cli.main import _load_lightning, entry

status = entry()
for module in sys.stdin.read().split():
    import_module(module)
print(*({{*{SLOW_TO_LOAD}}} & sys.modules.keys()))
_load_lightning(whole=False)
print(*({{*{_UNUSED}}} & sys.modules.keys()))
from torchmetrics.utilities.imports import _MATPLOTLIB_AVAILABLE
print(bool(_MATPLOTLIB_AVAILABLE))
sys.exit(status)
"""


def test_a_prediction_loads_no_library_of_training(trained: Path) -> None:
    asked = find_command(["predict", "--text", "x"])
    threatened = find_command(["certify", "--threat", "words"])
    assert asked is not None
    assert threatened is not None
    commands = [asked.command, threatened.command, *COMMANDS.values()]
    # The settings of a gate and of a victim are dataclasses, which jsonargparse reads.
    parsed = {
        COMMANDS[name].file for name in ("check", "functional", "measure", "resources paraphrases")
    }
    files = {command.file for command in commands if command.imports == "torch"} - parsed
    modules = [f"app.{file}" for file in sorted(files)]
    assert {"app.commands.predict", "app.commands.certify", "app.commands.serve"} <= {*modules}
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, "predict", "--run", "done", "--text", "a good film"],
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        input="\n".join(modules),
        capture_output=True,
        text=True,
        check=True,
    )
    answer, loaded, loaded_by_lightning, plots = process.stdout.splitlines()
    assert '"prediction"' in answer
    assert loaded == loaded_by_lightning == ""
    assert plots == "False"  # an error names what is absent, instead of a NameError
