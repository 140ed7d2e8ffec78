"""Starts a program that ends with its parent; a script, run without site-packages.

`python tied.py PARENT PROGRAM ARGUMENT ...`: Linux kills the program when process PARENT ends, even
by a crash. On other systems the program is only started.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Replace this process by the program."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before prctl
            sys.exit(1)
    os.execv(program[0], program)


if __name__ == "__main__":
    main()
