"""The installed program: puts its rooms on the import path.

Checkpoints and settings name classes by their modules, as `lit_modules.OLSA`, so the rooms keep
their names. In a wheel they lie inside this package, in a checkout beside it. Nothing called `app`
or `text` is installed: those names exist only in a program that has imported this package.
"""

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
HOME = _HERE if (_HERE / "lit_modules").is_dir() else _HERE.parent
"""Folder of the rooms, and of `configs`."""
_ROOMS = ("app", "attacks", "certify", "datamodules", "layers", "lit_modules", "text")

for _room in _ROOMS:
    _known = sys.modules.get(_room)
    _places = [str(Path(_one).resolve()) for _one in getattr(_known, "__path__", ())]
    if _known is not None and str(HOME / _room) not in _places:
        _msg = (
            f"got a module {_room} from {', '.join(_places) or 'elsewhere'}, expected that of "
            "Steadfast; import steadfast before it, or in a process of its own"
        )
        raise ImportError(_msg)
if str(HOME) not in sys.path:
    # In front: a package of the same name elsewhere would be taken for a room.
    sys.path.insert(0, str(HOME))

import app  # noqa: E402, F401 (sets how OpenMP waits, before anybody loads torch)


def entry() -> int:
    """Runs one command of the command line.

    Returns:
        Its exit status.
    """
    from app.cli.main import entry as run

    return run()
