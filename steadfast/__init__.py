"""Train, attack and certify text classifiers.

    import steadfast as sf

    model = sf.load("first")
    model.predict(["A fine film."])

The program is installed here: this package puts the others on the import path.
Checkpoints and settings name classes by their modules, as `lit_modules.OLSA`, so the packages
keep their names. In a wheel they are inside this package, in a checkout next to it. No `app` or
`text` is installed: those names exist only in a program that has imported this package.
"""

import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

_HERE = Path(__file__).resolve().parent
HOME = _HERE if (_HERE / "lit_modules").is_dir() else _HERE.parent
"""Folder of the packages, and of `configs`."""
_PACKAGES = (
    *("app", "attacks", "certify", "datamodules", "layers", "lit_modules", "measure"),
    *("run_files", "text", "training"),
)

for _package in _PACKAGES:
    _loaded = sys.modules.get(_package)
    _folders = [str(Path(_folder).resolve()) for _folder in getattr(_loaded, "__path__", ())]
    if _loaded is not None and str(HOME / _package) not in _folders:
        _msg = (
            f"got a module {_package} from {', '.join(_folders) or 'elsewhere'}, expected that of "
            "Steadfast; import steadfast before it, or in a process of its own"
        )
        raise ImportError(_msg)


def _hidden() -> list[str]:
    """Return the user's packages and modules that those of this program hide."""
    folders = [folder for path in dict.fromkeys(sys.path) if (folder := Path(path)).is_dir()]
    return [
        str(file)
        for folder in folders
        if folder.resolve() != HOME
        for package in _PACKAGES
        for file in (folder / package / "__init__.py", folder / f"{package}.py")
        if file.is_file()
    ]


# A command imports no code of the user; a program does.
if Path(sys.argv[0] if sys.argv else "").name not in ("-m", "steadfast") and (_files := _hidden()):
    warnings.warn(
        f"got {', '.join(_files)}, hidden by the package of Steadfast of the same name, expected "
        "another name, or a process of its own for `import steadfast`",
        stacklevel=2,
    )
if str(HOME) not in sys.path:
    # In front: a package of the same name elsewhere would be imported instead.
    sys.path.insert(0, str(HOME))

import app  # noqa: E402, F401 (sets how OpenMP waits, before torch is loaded)

if TYPE_CHECKING:
    from steadfast.loaded_model import Model, load
    from steadfast.trained_run import Inspection, Run, inspect, read_run, train

__all__ = ["Inspection", "Model", "Run", "entry", "inspect", "load", "read_run", "train"]
# An installed program has this folder on the import path: `models` or `runs` would hide a user's.
_MODULES = {"Model": "loaded_model", "load": "loaded_model"}
"""Modules of public names that are not in `trained_run`: none is loaded before it is used."""

_LIGHTNING = {"pytorch_lightning", "lit_modules"}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    module = _MODULES.get(name, "trained_run")
    if module == "loaded_model" and not _LIGHTNING & sys.modules.keys():
        # A model that predicts needs no Lightning, whose import takes longer than all others.
        role: Any = import_module("text.process_role")
        role.predicts_only = True
    extras: Any = import_module("text.extras")
    with extras.extras_named():
        value = getattr(import_module(f"steadfast.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return list(__all__)


def entry() -> int:
    """Run one command of the command line.

    Returns:
        Its exit status.
    """
    from app.cli.main import entry as run

    return run()
