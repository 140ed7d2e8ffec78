"""What happens in a forked process: faults are planted, then the program's own entry point runs."""

import importlib
import multiprocessing
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tests.faults.injection import Fault


@dataclass(frozen=True)
class Task:
    """One process.

    Attributes:
        arguments: the command line.
        where: working directory.
        log: standard output and error go there, with `.out` and `.err` behind it.
        environment: all its variables.
        group: process group to join; 0 to lead one.
        faults: what goes wrong.
        module: whose `entry` runs; as with `python -m`.
    """

    arguments: list[str]
    where: str
    log: str
    environment: dict[str, str]
    group: int = 0
    faults: tuple[Fault, ...] = ()
    module: str = "app.__main__"


def run(task: Task) -> NoReturn:
    """Become `python -m MODULE`."""
    os.setpgid(0, task.group)
    os.chdir(task.where)
    for number, end in ((1, ".out"), (2, ".err")):
        descriptor = os.open(task.log + end, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(task.environment)
    sys.path[:0] = [task.where, *task.environment.get("PYTHONPATH", "").split(os.pathsep)]
    # The server has said how it starts processes; a loader starts its workers in the usual way.
    multiprocessing.set_start_method(None, force=True)
    # Lightning starts further processes with the command line of this one.
    main = importlib.import_module(task.module)
    sys.modules["__main__"], sys.argv = main, [str(Path(main.__file__ or "")), *task.arguments]
    for fault in task.faults:
        fault.plant()
    sys.exit(main.entry())
