"""The application: command line, trainer, run directory and reports."""

import os

# OpenMP reads this when torch loads it, so it comes before every other import. Its threads spin
# while they wait, and keep the core from the thread that they wait for. libgomp, which torch brings
# along, and LLVM's runtime both know the variable; the others are their own names for it.
if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"} & os.environ.keys():
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
