"""Train, attack and certify text classifiers.

    import steadfast as sf

    model = sf.load("first")
    model.predict(["A fine film."])

In a wheel the packages are inside this one, in a checkout next to it; `steadfast.package_names`
gives them both names. A wheel leaves the import path, and the user's packages, as they are.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from steadfast import package_names

package_names.offer()

import app  # noqa: E402, F401 (sets how OpenMP waits, before torch is loaded)
from text.module_names import real_name  # noqa: E402 (it can be imported now)

if TYPE_CHECKING:
    from steadfast.loaded_model import Model, load
    from steadfast.trained_run import Inspection, Run, inspect, read_run, train

__all__ = ["Inspection", "Model", "Run", "entry", "inspect", "load", "read_run", "train"]
_MODULES = {"Model": "loaded_model", "load": "loaded_model"}
"""Modules of public names that are not in `trained_run`: none is loaded before it is used."""

_LIGHTNING = {"pytorch_lightning", real_name("lit_modules")}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    module = _MODULES.get(name, "trained_run")
    if module == "loaded_model" and not _LIGHTNING & sys.modules.keys():
        # A model that predicts needs no Lightning, whose import takes longer than all others.
        from text import process_role

        process_role.predicts_only = True
    from text.extras import extras_named

    with extras_named():
        value = getattr(import_module(f"steadfast.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return list(__all__)


def entry() -> int:
    """Run one command of the command line, and return its exit status."""
    from app.cli.main import entry as run

    return run()
