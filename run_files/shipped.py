"""Finds the settings files that come with the program: `configs/` of the checkout or the wheel."""

import difflib
from pathlib import Path

SHIPPED = Path(__file__).parents[1] / "configs"
"""Their folder."""
_OTHERS = ("attack", "cluster", "studies")
"""Folders whose files are no settings of a run."""


def settings_file(given: str, *, folder: str = "") -> Path:
    """Returns the file of a path or of the name of a shipped file.

    A file that is there wins. Otherwise `olsa/sst2`, `olsa/sst2.yaml` and `configs/olsa/sst2.yaml`
    all name the shipped `olsa/sst2.yaml`.

    Args:
        given: the path or the name.
        folder: of the shipped files that are meant, as `studies`; empty for settings of runs.

    Raises:
        ValueError: neither is there; the message names the nearest shipped files.
    """
    path = Path(given)
    if path.exists() and not path.is_dir():
        return path
    parts = path.parts[1:] if path.parts[:1] == (SHIPPED.name,) else path.parts
    name = "/".join(parts).removesuffix(".yaml")
    for known in (name, f"{folder}/{name}"):
        if (SHIPPED / f"{known}.yaml").is_file() and ".." not in parts and not path.is_absolute():
            return SHIPPED / f"{known}.yaml"
    msg = f"got {given}, which is no file{_nearest(name, folder)}"
    raise ValueError(msg)


def names(folder: str = "") -> list[str]:
    """Returns the names of the shipped files, without `.yaml`.

    Args:
        folder: see `settings_file`.
    """
    every = (path.relative_to(SHIPPED).with_suffix("") for path in SHIPPED.rglob("*.yaml"))
    wanted = (
        path
        for path in every
        if (path.parts[0] == folder if folder else path.parts[0] not in _OTHERS)
    )
    return sorted(path.as_posix() for path in wanted)


def _nearest(name: str, folder: str) -> str:
    """The shipped files that are named most like it, for a message."""
    every = names(folder)
    last = [one for one in every if one.rpartition("/")[2] == name.rpartition("/")[2]]
    found = list(dict.fromkeys([*difflib.get_close_matches(name, every, n=3, cutoff=0.5), *last]))
    hint = f"perhaps {', '.join(found[:4])}" if found else f"as {min(every, key=_depth)}"
    return f", expected one, or the name of a shipped file, {hint}"


def _depth(name: str) -> tuple[int, str]:
    return name.count("/"), name
