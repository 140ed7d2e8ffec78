"""What is installed, against what the project asks for, and whether it works."""

import json
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from app.doctor.report import Check
from app.version import line

ROOT = Path(__file__).parents[2]
MALICIOUS = {("lightning", "2.6.2"), ("lightning", "2.6.3")}
"""Uploads with a program that steals credentials (GHSA-w37p-236h-pfx3)."""
AGAIN = "install what the lock says: `make clean`, then `make install`; or build the image anew"

_SECONDS = {"torch": 180, "program": 300}
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*([^;]*)")


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version: (2, 13) of 2.13.0+cpu. Enough for the bounds that we give."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in found.group().split(".")] if found else [0]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def allowed(version: str, bounds: str) -> bool:
    """Whether a version lies within bounds such as `>=2.6.6,<2.7,!=2.6.2`."""
    has = release(version)
    for bound in filter(None, (part.strip() for part in bounds.split(","))):
        found = re.fullmatch(r"(>=|<=|==|!=|>|<)\s*([^*]+)", bound)
        if found is None:  # a kind of bound that we do not use
            continue
        wants = release(found[2])
        within = {
            ">=": has >= wants,
            "<=": has <= wants,
            "==": has == wants,
            "!=": has != wants,
            ">": has > wants,
            "<": has < wants,
        }
        if not within[found[1]]:
            return False
    return True


def required(root: Path = ROOT) -> tuple[str, dict[str, str]]:
    """Bounds of Python, and of the libraries by name: of the checkout, or the installed package."""
    project = root / "pyproject.toml"
    if project.is_file():
        import tomllib

        content = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
        python, listed = content["requires-python"], content["dependencies"]
    else:
        about = metadata.metadata("steadfast")
        python, listed = about["Requires-Python"] or "", metadata.requires("steadfast") or []
    found = (_REQUIREMENT.match(requirement) for requirement in listed)
    return python, {match[1]: match[2].strip() for match in found if match}


def installed(name: str) -> str | None:
    """The version of a library, without loading it; None if it is not there."""
    try:
        return metadata.version(name)
    except (
        metadata.PackageNotFoundError,
        KeyError,
        TypeError,
    ):  # half deleted ones have no version
        return None


def check_versions(root: Path = ROOT) -> list[Check]:
    """The program, Python and the libraries that the project names."""
    try:
        python, libraries = required(root)
    except (OSError, KeyError, ValueError, metadata.PackageNotFoundError) as error:
        return [Check("program", "FAILED", f"neither checkout nor package: {error}", AGAIN)]
    has = platform.python_version()
    checks = [Check("program", "ok", f"{line()}, in {root}")]
    if allowed(has, python):
        checks.append(Check("Python", "ok", f"{has} ({python} allowed), {sys.executable}"))
    else:
        advice = f"use a Python {python}: make PYTHON=python3.12 clean install"
        checks.append(Check("Python", "FAILED", f"{has}, expected {python}", advice))
    versions = {name: installed(name) for name in libraries}
    wrong = [
        f"{name} {version or 'is not installed'} ({libraries[name] or 'any'} allowed)"
        for name, version in versions.items()
        if version is None or not allowed(version, libraries[name])
    ]
    wrong += [f"{n} {v} is a malicious upload" for n, v in MALICIOUS if installed(n) == v]
    if wrong:
        checks.append(Check("libraries", "FAILED", "; ".join(wrong), AGAIN))
    else:
        listed = ", ".join(f"{name} {version}" for name, version in versions.items())
        checks.append(Check("libraries", "ok", f"{len(versions)} as allowed: {listed}"))
    return checks


class Probe:
    """A process that tries something out, begun at once.

    Args:
        kind: `torch` or `program`.
        options: see `app.doctor.probes`.
    """

    def __init__(self, kind: str, options: Sequence[str] = ()) -> None:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self.kind = kind
        self._process = subprocess.Popen(
            [sys.executable, "-m", "app.doctor.probes", kind, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            text=True,
            errors="replace",
            # Whatever it starts ends with it.
            start_new_session=True,
        )

    def facts(self) -> dict[str, dict[str, Any]]:
        """What it found, by step, and under `end` how it ended if that was before its time."""
        seconds, end = _SECONDS[self.kind], None
        try:
            out, err = self._process.communicate(timeout=seconds)
            if self._process.returncode:
                end = _end(self._process.returncode, err)
        except subprocess.TimeoutExpired:
            end = f"no answer within {seconds} s"
            self.kill()
            out, _ = self._process.communicate()
        finally:
            self.kill()
        steps = {}
        for text in out.splitlines():
            try:
                found = json.loads(text)
                steps[found.pop("step")] = found
            except (ValueError, AttributeError, KeyError):  # what a library says while it is loaded
                continue
        if end:
            steps["end"] = {"error": end}
        return steps

    def kill(self) -> None:
        """End it, with what it has started."""
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                self._process.kill()


def _end(status: int, err: str) -> str:
    last = (err.strip().splitlines() or ["no reason given"])[-1]
    if status < 0:
        return f"the process was ended by {signal.Signals(-status).name} ({last})"
    return f"the process ended with status {status} ({last})"


def step(facts: Mapping[str, dict[str, Any]], name: str) -> dict[str, Any]:
    """What a probe found in one step; an error if it did not come so far."""
    end = facts.get("end", {"error": "no answer"})
    return facts.get(name, end)


def simple(name: str, found: Mapping[str, Any], text: str, advice: str) -> Check:
    """A check that is ok unless its step has an error."""
    if "error" in found:
        return Check(name, "FAILED", str(found["error"]), advice)
    return Check(name, "ok", text.format(**found))


def check_torch(facts: Mapping[str, dict[str, Any]], cores: float) -> list[Check]:
    """That torch works, and that processes can work together."""
    found = step(facts, "torch")
    if "error" in found:
        advice = f"torch cannot be used, and nothing works without it: {AGAIN}"
        return [Check("torch", "FAILED", str(found["error"]), advice)]
    build = f"CUDA {found['cuda']}" if found["cuda"] else "CPU"
    text = f"{found['version']}, built for {build}, {found['threads']} thread(s)"
    checks = [Check("torch", "ok", text)]
    if found["threads"] > max(cores, 1):
        advice = f"more threads than processors wait for each other: OMP_NUM_THREADS={cores:.0f}"
        checks = [Check("torch", "warning", text, advice)]
    gloo = step(facts, "gloo")
    if "error" in gloo:
        advice = (
            "only training on several processes needs it: let the machine's own name be known (in "
            "/etc/hosts), or name the interface: GLOO_SOCKET_IFNAME=lo on one machine"
        )
        checks.append(Check("gloo", "warning", str(gloo["error"]), advice))
    else:
        processes = gloo["processes"]
        checks.append(Check("gloo", "ok", f"{processes} process(es) have added their numbers"))
    return checks


def driver() -> tuple[str, list[str]] | None:
    """Version of NVIDIA's driver and the GPUs that it lists; None where there is none."""
    command = ["nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=True, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    rows = [row.split(", ", 1) for row in done.stdout.splitlines() if ", " in row]
    return (rows[0][0], [name for _, name in rows]) if rows else None


def check_program(facts: Mapping[str, dict[str, Any]]) -> Iterable[Check]:
    """That everything else can be loaded."""
    yield simple("loading", step(facts, "program"), "all of the program can be loaded", AGAIN)
    yield simple("TensorBoard", step(facts, "tensorboard"), "{version} can be loaded", AGAIN)
