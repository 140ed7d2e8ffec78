"""Names of modules and classes: those that Python has, and those that files store.

A checkout has the packages at its top, a wheel has them inside `steadfast`. Settings, checkpoints
and results of both store the names of the checkout, as `lit_modules.OLSA`.
"""

from typing import Any

PACKAGES = (
    *("app", "attacks", "certify", "datamodules", "layers", "lit_modules", "measure"),
    *("run_files", "text", "training"),
)
"""The packages of this program."""
_PREFIX = __name__.removesuffix("text.module_names")
"""`steadfast.` in a wheel, nothing in a checkout."""


def real_name(stored: str) -> str:
    """Return Python's name of a module or class; names of other programs stay."""
    own = stored_name(stored)
    return f"{_PREFIX}{own}" if own.partition(".")[0] in PACKAGES else stored


def stored_name(real: str) -> str:
    """Return the name in files of a module or class; names of other programs stay."""
    own = real.removeprefix("steadfast.")
    return own if own.partition(".")[0] in PACKAGES else real


def own_package(module: str) -> str | None:
    """Return the package that a module is in, by Python's name; None in another program."""
    package = module.removeprefix(_PREFIX).partition(".")[0]
    return package if package in PACKAGES and module.startswith(_PREFIX) else None


def find_class(stored: str) -> Any:
    """Import a class by its name in files; None if it does not exist.

    A user's package may have the name of one of ours: a class that is not in ours may be in it.
    """
    from pydoc import locate

    found = locate(real_name(stored))
    return locate(stored) if found is None else found
