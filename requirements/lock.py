"""Resolve the dependencies of pyproject.toml into locks with hashes.

`cuda.txt` has the versions of the package index: torch as published, with the CUDA packages of its
Linux build. `cpu.txt` is the same list without those packages; its torch line also takes the CPU
wheels whose hashes were given with `--torch-wheel`. `torch-cpu.txt` names these wheels alone, so
that pip can be asked for them first. `dev.txt` is what tests and lint need on top of either.
`docs.txt` is resolved alone, to the same versions where it can be: the site is built in an
environment of its own.

Usage: `python requirements/lock.py [--upgrade] [--torch-wheel FILE ...]`. Needs `uv` on the PATH.
Without `--upgrade`, versions that are already locked stay wherever pyproject.toml still allows
them. Which index is asked is uv's own setting; it is never written down.
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYPROJECT = HERE.parent / "pyproject.toml"
OLDEST_PYTHON = "3.11"
# Packages that torch's Linux build needs and a CPU build does not; all others are common to both.
CUDA_ONLY = re.compile(r"(nvidia|cuda)-.+|triton")
HEADERS = {
    "cpu.txt": "What the project runs with, on a machine without a CUDA GPU (after torch-cpu.txt).",
    "cuda.txt": "What the project runs with, on a machine with a CUDA GPU.",
    "torch-cpu.txt": "The CPU build of torch, tried before cpu.txt (docs/decisions/0002-locks.md).",
    "dev.txt": "What tests and lint need, on top of cpu.txt or cuda.txt.",
    "docs.txt": "What the site is built with, and nothing else (docs/decisions/0013-site.md).",
}


@dataclass(frozen=True)
class Pin:
    """One package of a lock: its normalised name, exact version, and environment marker or "".

    `hashes` are the sha256 of every file that may be installed for it; `via` says who asked for it.
    """

    name: str
    version: str
    marker: str = ""
    hashes: frozenset[str] = frozenset()
    via: tuple[str, ...] = field(default=(), compare=False)

    def render(self) -> str:
        """Return the lines of this package in a requirements file."""
        condition = f" ; {self.marker}" if self.marker else ""
        lines = [f"{self.name}=={self.version}{condition}"]
        lines += [f"    --hash=sha256:{digest}" for digest in sorted(self.hashes)]
        return " \\\n".join(lines) + (f"\n    # via {', '.join(self.via)}" if self.via else "")


def parse(text: str) -> dict[str, Pin]:
    """Read a requirements file as uv (or this script) writes it: one pin per package, by name.

    Raises:
        ValueError: a line is not an exact version, or a package is listed twice.
    """
    pins: dict[str, Pin] = {}
    # A block begins at every line that is neither indented, nor a comment, nor empty.
    for block in re.findall(r"^[^\s#].*(?:\n[ \t]+.*)*", text, flags=re.MULTILINE):
        head = re.fullmatch(r"([^=\s;]+)==([^\s;\\]+)(?: ; (.*?))?(?: \\)?", block.splitlines()[0])
        if head is None or head[1] in pins:
            msg = f"got {block.splitlines()[0]!r}, expected one line name==version per package"
            raise ValueError(msg)
        comments = " ".join(re.findall(r"^\s+#(.*)", block, flags=re.MULTILINE))
        parents = re.sub(r"-[cr] \S+", "", comments.replace("via", "", 1)).replace(",", " ").split()
        pins[head[1]] = Pin(
            name=head[1],
            version=head[2],
            marker=head[3] or "",
            hashes=frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", block)),
            via=tuple(name for name in parents if not name.startswith("(")),
        )
    return pins


def render(name: str, pins: Iterable[Pin]) -> str:
    """Return the text of the lock called `name`."""
    head = (
        f"# {HEADERS[name]}\n"
        "# Written by requirements/lock.py from pyproject.toml; do not edit. Install with\n"
        "#   pip install --no-deps --require-hashes -r ...\n"
    )
    return head + "\n".join(pin.render() for pin in sorted(pins, key=lambda pin: pin.name)) + "\n"


def resolve(
    uv: str, preferences: str, *, project: bool = True, group: str | None = None, upgrade: bool
) -> dict[str, Pin]:
    """Let uv choose versions for every platform and Python at once.

    Versions of the lock `preferences` are kept where possible, unless `upgrade`. The dependencies
    are those of the project, those of a dependency group, or both.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "lock.txt"
        output.write_text(preferences, encoding="utf-8")
        command = [uv, "pip", "compile", "--no-config", "--quiet", "--no-header"]
        command += [str(PYPROJECT), "--extra", "all"] if project else []
        command += ["--universal", "--python-version", OLDEST_PYTHON, "--generate-hashes"]
        # One version of a package for all Pythons where there is one: fewer combinations to trust.
        command += ["--fork-strategy", "fewest", "--constraints", str(HERE / "constraints.txt")]
        command += ["--output-file", str(output)]
        command += ["--group", group] if group else []
        command += ["--upgrade"] if upgrade else []
        subprocess.run(command, check=True, cwd=PYPROJECT.parent, stdout=subprocess.DEVNULL)
        return parse(output.read_text(encoding="utf-8"))


def split(everything: dict[str, Pin], runtime: dict[str, Pin]) -> dict[str, Pin]:
    """Return the packages of `everything` that are not in `runtime`.

    Raises:
        ValueError: a package has different pins in the two.
    """
    for name, pin in runtime.items():
        if everything.get(name) != pin:
            msg = f"got two resolutions of {name}, expected the same with and without dev"
            raise ValueError(msg)
    return {name: pin for name, pin in everything.items() if name not in runtime}


def cpu_from_cuda(cuda: dict[str, Pin], cpu_wheels: frozenset[str]) -> dict[str, Pin]:
    """Return the CPU lock: no CUDA packages, and a torch that may also be one of the CPU wheels.

    The wheels are given by their sha256.
    """
    pins = {}
    for name, pin in cuda.items():
        if CUDA_ONLY.fullmatch(name):
            continue
        hashes = pin.hashes | cpu_wheels if name == "torch" else pin.hashes
        via = tuple(asker for asker in pin.via if not CUDA_ONLY.fullmatch(asker))
        pins[name] = replace(pin, hashes=hashes, via=via)
    return pins


def wheel_hashes(wheels: Sequence[Path], version: str) -> frozenset[str]:
    """Return the sha256 of torch CPU wheels, files named `torch-<version>+cpu-...whl`.

    Raises:
        ValueError: a file is not a CPU wheel of that version.
    """
    for wheel in wheels:
        if not wheel.name.startswith(f"torch-{version}+cpu-"):
            msg = f"got {wheel.name}, expected a wheel torch-{version}+cpu-*.whl"
            raise ValueError(msg)
    return frozenset(hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels)


def previous(name: str) -> str:
    """Return the content of the lock called `name`, empty before the first one."""
    path = HERE / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the locks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--upgrade", action="store_true", help="take the newest allowed versions")
    parser.add_argument(
        "--torch-wheel",
        type=Path,
        nargs="+",
        default=[],
        help="CPU wheels of torch to accept too; known ones stay while torch's version is the same",
    )
    settings = parser.parse_args(arguments)
    uv = shutil.which("uv")
    if uv is None:
        sys.exit("lock.py: uv not found; install it (pip install uv) or put it on the PATH")

    former = previous("cuda.txt") + previous("dev.txt")
    everything = resolve(uv, former, group="dev", upgrade=settings.upgrade)
    chosen = "\n".join(pin.render() for pin in everything.values())
    cuda = resolve(uv, chosen, upgrade=False)
    dev = split(everything, cuda)
    # The versions of the others where both have a package: one version to look after.
    own = (parse(previous("docs.txt")) | everything).values()
    preferred = "\n".join(pin.render() for pin in own)
    docs = resolve(uv, preferred, project=False, group="docs", upgrade=False)

    torch = cuda["torch"]
    wheels = wheel_hashes(settings.torch_wheel, torch.version)
    build = Pin("torch", f"{torch.version}+cpu", torch.marker, wheels, ("cpu.txt",))
    before = parse(previous("torch-cpu.txt")).get("torch")
    if before is not None and before.version == build.version:
        build = replace(build, hashes=wheels | before.hashes)
    locks = {
        "cpu.txt": cpu_from_cuda(cuda, build.hashes),
        "cuda.txt": cuda,
        "torch-cpu.txt": {"torch": build} if build.hashes else {},
        "dev.txt": dev,
        "docs.txt": docs,
    }
    for name, pins in locks.items():
        (HERE / name).write_text(render(name, pins.values()), encoding="utf-8")
        print(f"requirements/{name}: {len(pins)} packages")


if __name__ == "__main__":
    main()
