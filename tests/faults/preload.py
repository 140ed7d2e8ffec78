"""What the server loads once, so that no run has to."""

import gc
import importlib

for module in ("app.__main__", "app.cli.robust_cli", "tests.faults.child"):
    importlib.import_module(module)
# Else each run would copy all of it whenever it searches for garbage.
gc.collect()
gc.freeze()
