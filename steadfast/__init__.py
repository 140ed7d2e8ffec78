"""The installed program: puts its packages on the import path.

Checkpoints and settings name classes by their modules, as `lit_modules.OLSA`, so the packages
keep their names. In a wheel they are inside this package, in a checkout next to it. No `app` or
`text` is installed: those names exist only in a program that has imported this package.
"""

import sys
from pathlib import Path

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
if str(HOME) not in sys.path:
    # In front: a package of the same name elsewhere would be imported instead.
    sys.path.insert(0, str(HOME))

import app  # noqa: E402, F401 (sets how OpenMP waits, before torch is loaded)


def entry() -> int:
    """Run one command of the command line.

    Returns:
        Its exit status.
    """
    from app.cli.main import entry as run

    return run()
