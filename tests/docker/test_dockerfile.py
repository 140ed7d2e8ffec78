import re
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from tests.docker.compose import ROOT
from tests.unit.packaging.metadata import PACKAGES

DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()
IGNORED = [
    line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"
]


def stages() -> dict[str, str]:
    """Text of each named stage."""
    parts = re.split(r"^FROM (.+) AS (\w+)$", DOCKERFILE, flags=re.MULTILINE)
    return dict(zip(parts[2::3], parts[3::3], strict=True))


def parents() -> dict[str, str]:
    """What each named stage is made from."""
    return {name: parent for parent, name in re.findall(r"^FROM (\S+) AS (\w+)$", DOCKERFILE, re.M)}


def context(root: Path) -> set[str]:
    """Files of a checkout that reach a build."""
    exclude_paths = import_module("docker.utils.build").exclude_paths
    return {path for path in exclude_paths(str(root), IGNORED) if (root / path).is_file()}


def test_base_is_pinned_by_digest() -> None:
    assert re.search(
        r"^ARG PINNED_IMAGE=python:3\.\d+\.\d+-\S+@sha256:[0-9a-f]{64}$", DOCKERFILE, re.M
    )
    assert parents()["base"] == "${BASE_IMAGE:-$PINNED_IMAGE}"
    # A frontend named at the top would come from a registry, and be no part of what is pinned.
    assert "# syntax" not in DOCKERFILE


def test_default_target_is_the_runtime() -> None:
    assert re.findall(r"^FROM .+$", DOCKERFILE, re.M)[-1] == "FROM runtime"


def test_what_is_shipped_is_built_on_no_stage_that_knows_an_index() -> None:
    chain = ["test"]
    while (parent := parents()[chain[-1]]) in stages():
        chain.append(parent)
    assert chain == ["test", "runtime", "base"]
    for name in chain:
        assert "PIP_INDEX" not in stages()[name]
        assert "secret" not in stages()[name]


def test_packages_come_from_the_locks_by_the_script_that_make_uses() -> None:
    installing = [
        name for name, text in stages().items() if "requirements/install.sh runtime" in text
    ]
    assert installing == ["deps"]
    assert "pip install" not in DOCKERFILE
    assert "apt-get" not in DOCKERFILE


def test_every_package_is_in_the_image() -> None:
    copied = set(re.findall(r"^COPY (\w+) \1$", stages()["build"], re.M))
    assert copied == {*PACKAGES, "configs", "steadfast"}
    assert {f"!{package}/**" for package in copied} <= set(IGNORED)


def test_nothing_reaches_a_build_that_is_not_named(tmp_path: Path) -> None:
    named = [
        *(f"{package}/x.py" for package in PACKAGES),
        "configs/a/b.yaml",
        "tests/unit/test_x.py",
    ]
    named += [".git/HEAD", ".git/packed-refs", ".git/refs/heads/main"]
    others = """
        .git/config .git/index .git/objects/ab/c .git/refs/remotes/origin/main
        .env .venv/bin/python data/sst2/train.tsv runs/a/config.yaml notes.txt id_rsa
        runs/a/checkpoints/best.ckpt app/best.ckpt app/__pycache__/x.cpython-311.pyc tests/.env
        requirements/pip.conf docker/password
    """.split()
    for name in [*named, *others]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert context(tmp_path) == set(named)


def test_what_the_stages_copy_is_let_through() -> None:
    there = context(ROOT)
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.M):
        for source in line.split():
            if source == ".gi[t]":
                continue  # in an archive of the program there is none
            assert source == "." or any(
                path == source or path.startswith(f"{source}/") for path in there
            )
    assert {".env.example", "docker-compose.yml", "Makefile", "tests/conftest.py"} <= there


def revision_of(folder: Path) -> str:
    """What the stage `revision` finds in a `.git`."""
    (script,) = re.findall(r"^RUN (.+?)(?=^\S)", stages()["revision"] + "\n#", re.M | re.S)
    script = script.replace("\\\n", "\n").replace("/git/", f"{folder}/")
    script = script.replace("/REVISION", f"{folder}/REVISION")
    subprocess.run(["bash", "-euo", "pipefail", "-c", script], check=True)
    return (folder / "REVISION").read_text().strip()


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, "unknown"),
        ({"HEAD": COMMIT}, "0123456789ab-checkout"),
        ({"HEAD": "ref: refs/heads/a", "refs/heads/a": COMMIT}, "0123456789ab-checkout"),
        (
            {"HEAD": "ref: refs/heads/a", "packed-refs": f"# x\n{COMMIT} refs/heads/a\n"},
            "0123456789ab-checkout",
        ),
        ({"HEAD": "ref: refs/heads/a", "packed-refs": f"{COMMIT} refs/heads/ab\n"}, "unknown"),
        ({"HEAD": "ref: refs/heads/a"}, "unknown"),
    ],
)
def test_a_build_knows_its_commit(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content + "\n")
    assert revision_of(tmp_path) == expected
    assert "COPY --from=revision /REVISION /app/REVISION" in stages()["runtime"]
