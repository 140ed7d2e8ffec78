"""Find the settings files of the program: `configs/` of the checkout or the wheel."""

import difflib
from pathlib import Path

from run_files.program_folder import PROGRAM

SHIPPED = PROGRAM / "configs"
"""Their folder."""
_OTHERS = ("attack", "cluster", "studies")
"""Folders of other settings than those of runs."""


def settings_file(path_or_name: str, *, folder: str = "") -> Path:
    """Return the file of a path or of the name of a shipped file.

    An existing file has priority. Otherwise `olsa/sst2`, `olsa/sst2.yaml` and
    `configs/olsa/sst2.yaml` all name the shipped `olsa/sst2.yaml`. The `folder` of other settings
    than those of runs is, for example, `studies`.

    Raises:
        ValueError: neither exists; the message names shipped files with similar names.
    """
    path = Path(path_or_name)
    if path.exists() and not path.is_dir():
        return path
    parts = path.parts[1:] if path.parts[:1] == (SHIPPED.name,) else path.parts
    name = "/".join(parts).removesuffix(".yaml")
    for candidate in (name, f"{folder}/{name}"):
        # A name never leads out of `configs/`.
        if (
            (SHIPPED / f"{candidate}.yaml").is_file()
            and ".." not in parts
            and not path.is_absolute()
        ):
            return SHIPPED / f"{candidate}.yaml"
    msg = f"got {path_or_name}, not found{_nearest(name, folder)}"
    raise ValueError(msg)


def names(folder: str = "") -> list[str]:
    """Return the names of the shipped files in a folder, without `.yaml`."""
    stems = (path.relative_to(SHIPPED).with_suffix("") for path in SHIPPED.rglob("*.yaml"))
    return sorted(
        path.as_posix()
        for path in stems
        if (path.parts[0] == folder if folder else path.parts[0] not in _OTHERS)
    )


def _nearest(name: str, folder: str) -> str:
    """Return the end of an error message: the shipped files with the most similar names."""
    candidates = names(folder)
    file = name.rpartition("/")[2]
    nearest = difflib.get_close_matches(name, candidates, n=3, cutoff=0.5)
    # The right file in the wrong folder may be far from the name as a string.
    nearest += [candidate for candidate in candidates if candidate.rpartition("/")[2] == file]
    shortest = min(candidates, key=lambda candidate: (candidate.count("/"), candidate))
    hint = f"perhaps {', '.join([*dict.fromkeys(nearest)][:4])}" if nearest else f"as {shortest}"
    return f", expected one, or the name of a shipped file, {hint}"
