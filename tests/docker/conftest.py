"""An engine, the image, and containers that are as restricted as Compose makes them."""

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.docker.compose import ROOT

NOT_ASKED = (
    "builds an image: ask for it with STEADFAST_DOCKER_TESTS=1 (and, behind a mirror, the build's "
    "arguments in STEADFAST_DOCKER_BUILD_ARGS); docker/smoke_test.sh is the quick form"
)
SECRET = "never-in-what-is-shipped.invalid"

Start = Callable[..., Any]


@pytest.fixture(scope="session")
def engine() -> Iterator[Any]:
    """A client of the engine that `DOCKER_HOST` names, or of the usual one."""
    if os.environ.get("STEADFAST_DOCKER_TESTS", "0") in ("", "0"):
        pytest.skip(NOT_ASKED)
    sdk = import_module("docker")
    try:
        client = sdk.from_env(timeout=600)
    except sdk.errors.DockerException as error:
        pytest.skip(f"no container engine answers: {error}")
    yield client
    client.close()


def build(tag: str, *arguments: str) -> None:
    """Build an image as docs/docker.md says: the SDK has no BuildKit."""
    given = shlex.split(os.environ.get("STEADFAST_DOCKER_BUILD_ARGS", ""))
    file = str(ROOT / "docker" / "Dockerfile")
    command = ["docker", "build", *given, "--build-arg", "VARIANT=cpu", *arguments]
    done = subprocess.run(
        [*command, "--tag", tag, "--file", file, str(ROOT)],
        env=os.environ | {"DOCKER_BUILDKIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]


@pytest.fixture(scope="session")
def image(engine: Any) -> Iterator[Any]:
    """The CPU image, built from an index that is named with a secret."""
    tag = f"steadfast-pytest:{os.getpid()}"
    build(tag, "--build-arg", f"PIP_TRUSTED_HOST={SECRET}")
    yield engine.images.get(tag)
    engine.images.remove(tag, force=True)


@pytest.fixture
def user() -> str:
    """Another user than the image's: whoever runs this, or, for root, one without account."""
    return f"{os.getuid()}:{os.getgid()}" if os.getuid() else "1234:1234"


@pytest.fixture
def runs(tmp_path: Path, user: str) -> Path:
    """A folder of runs on the host that the user may write."""
    path = tmp_path / "runs"
    path.mkdir()
    if not os.getuid():
        os.chown(path, *(int(number) for number in user.split(":")))
    return path


@pytest.fixture
def start(engine: Any, image: Any, runs: Path, user: str) -> Iterator[Start]:
    """Start a container with everything that docker-compose.yml takes away from it."""
    started = []

    def start(*command: str, **settings: Any) -> Any:
        given: dict[str, Any] = {
            "user": user,
            "init": True,
            "read_only": True,
            "tmpfs": {"/tmp": ""},
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges:true"],
            "environment": {"OMP_NUM_THREADS": "1"},
            "volumes": {str(runs): {"bind": "/app/runs", "mode": "rw"}},
        }
        container = engine.containers.run(image.id, list(command), detach=True, **given | settings)
        started.append(container)
        return container

    yield start
    for container in started:
        container.remove(force=True, v=True)


@pytest.fixture
def ended(start: Start) -> Callable[..., tuple[int, str]]:
    """Run a container to its end; its exit status and all it printed."""

    def ended(*command: str, **settings: Any) -> tuple[int, str]:
        container = start(*command, **settings)
        status = int(container.wait()["StatusCode"])
        return status, container.logs().decode()

    return ended


def wait_until(condition: Callable[[], object], what: str, seconds: float = 120) -> None:
    """Ask again and again; the limit only keeps a broken test from hanging."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"{what} did not come about"
        time.sleep(0.1)
