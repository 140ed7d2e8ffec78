"""Both names of each package: `text`, as in a checkout, and `steadfast.text`, as in a wheel.

One is real: that of the files. The other one leads to the same module objects, so that programs
and plug-ins may use either. A user's own package `text` has priority in a wheel, whose code
imports `steadfast.text`.
"""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

PACKAGES = (
    *("app", "attacks", "certify", "datamodules", "layers", "lit_modules", "measure"),
    *("run_files", "text", "training"),
)
"""Those of `text.module_names`, which cannot be imported before `offer`."""
_HERE = Path(__file__).resolve().parent
IN_WHEEL = (_HERE / "lit_modules").is_dir()
"""True if the packages are inside of `steadfast`, False in a checkout."""
HOME = _HERE if IN_WHEEL else _HERE.parent
"""Folder of the packages, and of `configs`."""


def offer() -> None:
    """Make all packages importable.

    Raises:
        ImportError: another package of the same name was imported before, in a checkout.
    """
    if not any(isinstance(finder, _OtherNames) for finder in sys.meta_path):
        # In front: the usual finders would load `text.batch` a second time, from `text.__path__`.
        sys.meta_path.insert(0, _OtherNames())
    if not IN_WHEEL:
        _put_on_path()


class _OtherNames(MetaPathFinder):
    """Finds a package, or a module in it, by its other name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a specification that leads to the real module; None for all other names."""
        real = _name_in_wheel(fullname) if IN_WHEEL else _name_in_checkout(fullname)
        if real is None or find_spec(real) is None:
            return None
        return ModuleSpec(fullname, _SameModule(real))


class _SameModule(Loader):
    """Loads a module that has another name already, or gets it here."""

    def __init__(self, real: str) -> None:
        self._real = real

    def exec_module(self, module: ModuleType) -> None:
        """Put the real module where Python has made an empty one; it is what `import` returns."""
        sys.modules[module.__name__] = import_module(self._real)


def _name_in_wheel(name: str) -> str | None:
    """Return `steadfast.text.batch` for `text.batch`, unless `text` is the user's."""
    package, dot, _ = name.partition(".")
    real = f"steadfast.{package}"
    if package not in PACKAGES:
        return None
    if dot:
        ours = real in sys.modules and sys.modules.get(package) is sys.modules[real]
    else:
        ours = not _has_code(package)
    return f"steadfast.{name}" if ours else None


def _name_in_checkout(name: str) -> str | None:
    """Return `text.batch` for `steadfast.text.batch`."""
    real = name.removeprefix("steadfast.")
    return real if real != name and real.partition(".")[0] in PACKAGES else None


def _has_code(package: str) -> bool:
    """Return True if the user has a package or module of this name."""
    others = [finder for finder in sys.meta_path if not isinstance(finder, _OtherNames)]
    for finder in others:
        spec = finder.find_spec(package, None)
        if spec is None:
            continue
        # Python takes any folder for a package: one of text files would hide `text`.
        folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
        depths = ("*.py", "*/*.py")
        return spec.loader is not None or any(
            file for folder in folders for depth in depths for file in folder.glob(depth)
        )
    return False


def _put_on_path() -> None:
    """Put the checkout in front of the import path."""
    for package in PACKAGES:
        loaded = sys.modules.get(package)
        folders = [str(Path(folder).resolve()) for folder in getattr(loaded, "__path__", ())]
        if loaded is not None and str(HOME / package) not in folders:
            msg = (
                f"got a module {package} from {', '.join(folders) or 'elsewhere'}, expected that "
                "of Steadfast; import steadfast before it, in a process of its own, or from a wheel"
            )
            raise ImportError(msg)
    # A command imports no code of the user; a program does.
    command = Path(sys.argv[0] if sys.argv else "").name in ("-m", "steadfast")
    if not command and (files := _hidden()):
        warnings.warn(
            f"got {', '.join(files)}, hidden by the package of Steadfast of the same name, "
            "expected another name, or a wheel of Steadfast",
            stacklevel=4,
        )
    if str(HOME) not in sys.path:
        sys.path.insert(0, str(HOME))


def _hidden() -> list[str]:
    """Return the user's packages and modules that those of the checkout hide."""
    folders = [folder for path in dict.fromkeys(sys.path) if (folder := Path(path)).is_dir()]
    return [
        str(file)
        for folder in folders
        if folder.resolve() != HOME
        for package in PACKAGES
        for file in (folder / package / "__init__.py", folder / f"{package}.py")
        if file.is_file()
    ]
