"""The wheel, built as pip builds it and used from elsewhere."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT
from tests.unit.packaging.metadata import PACKAGES

BUILT_FROM = (*PACKAGES, "configs", "steadfast")
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE")
BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source")
    for name in BUILT_FROM:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, source)
    # What lies about in a checkout is not installed.
    (source / "runs").mkdir()
    (source / "runs" / "secret.yaml").touch()
    (source / "app" / "best.ckpt").touch()
    return source


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-c", BUILD, str(where)], cwd=source, check=True)
    [found] = where.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(wheel).extractall(where)
    return where


def run(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of the installed program, in the present folder."""
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_one_package_with_all_files_of_the_packages(wheel: Path) -> None:
    names = {Path(name) for name in zipfile.ZipFile(wheel).namelist()}
    about = {name for name in names if name.parts[0].endswith(".dist-info")}
    assert {name.parts[0] for name in names - about} == {"steadfast"}
    inside = {name.relative_to("steadfast") for name in names - about}
    there = {
        path.relative_to(ROOT)
        for package in (*PACKAGES, "configs")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".ckpt")
    }
    own = {
        path.relative_to(ROOT / "steadfast")
        for path in (ROOT / "steadfast").iterdir()
        if path.suffix in (".py", ".typed")
    }
    assert inside == there | own
    assert own >= {Path("__init__.py"), Path("__main__.py"), Path("testing.py")}


def test_a_shipped_config_is_trained_from_elsewhere(site: Path, here: Path) -> None:
    short = ["--trainer.max_steps=1", "--trainer.limit_val_batches=1", "--trainer.accelerator=cpu"]
    # A folder of the name of a package is not taken for it.
    (here / "text").mkdir()
    (here / "text" / "__init__.py").write_text("raise RuntimeError")
    done = run(site, "-P", "-m", "steadfast", "fit", "--config=default", *short, "--run=a")
    assert done.returncode == 0, done.stderr
    assert (here / "runs" / "a" / "checkpoints" / "last.ckpt").is_file()
    assert "lit_modules.OLSA" in (here / "runs" / "a" / "config.yaml").read_text()


def test_packages_are_imported_from_the_package(site: Path, here: Path) -> None:
    code = "import steadfast, certify, text; print(certify.__file__, text.__file__)"
    said = run(site, "-c", code)
    assert said.stdout.split() == [
        str(site / "steadfast" / package / "__init__.py") for package in ("certify", "text")
    ], said.stderr


def test_another_package_of_the_name_of_a_package(site: Path, here: Path) -> None:
    (here / "text").mkdir()
    (here / "text" / "__init__.py").touch()
    said = run(site, "-c", "import text; import steadfast")
    assert said.returncode == 1
    assert f"ImportError: got a module text from {here / 'text'}, expected that of " in said.stderr


def test_a_package_that_would_be_hidden_is_named(site: Path, here: Path) -> None:
    names = ("app", "layers", "text")
    for name in names:
        (here / name).mkdir()
        (here / name / "__init__.py").touch()
    (here / "certify").mkdir()  # a folder without code hides nothing
    warned = run(site, "-c", "import steadfast; print(steadfast.load)")
    assert warned.returncode == 0
    assert (
        f"got {', '.join(str(Path(n, '__init__.py')) for n in names)}, hidden by" in warned.stderr
    )
    assert "certify" not in warned.stderr
    assert run(site, "-m", "steadfast", "--version").stderr == ""


CORE = """
import sys
from importlib.abc import MetaPathFinder
{extras}

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
import steadfast as sf
model = sf.load(sys.argv[1])
predictions = model.predict(["great soup"])
print(*predictions.labels)
for use in (predictions.to_pandas, predictions.plot):
    try:
        use()
    except ModuleNotFoundError as error:
        print(error)
sys.argv = ["steadfast", *sys.argv[2:]]
sys.exit(sf.entry())
"""


def test_the_core_predicts_and_names_missing_extras(site: Path, trained: Path) -> None:
    extras = (ROOT / "text" / "extras.py").read_text()
    program = CORE.format(extras=extras)
    predict = ["predict", f"--ckpt_path={trained}/checkpoints/best.ckpt", "--text=great soup"]
    done = run(site, "-c", program, str(trained), *predict)
    assert done.returncode == 0, done.stderr
    label, *missing = done.stdout.splitlines()[:3]
    assert label in ("negative", "positive")
    assert missing == [
        f"{library} is not installed: pip install 'steadfast-nlp[train]'"
        for library in ("pandas", "matplotlib")
    ]
    for command, extra in (("fit", "train"), ("serve", "serve")):
        done = run(site, "-c", program, str(trained), command, "--run=a")
        assert done.returncode == 1
        error = done.stderr.splitlines()[-1]
        assert error.endswith(f"is not installed: pip install 'steadfast-nlp[{extra}]'"), error


def test_the_revision_of_a_wheel(site: Path, here: Path) -> None:
    (site / "steadfast" / "REVISION").write_text("v1-3-gabc\n")
    said = run(site, "-m", "steadfast", "--version")
    (site / "steadfast" / "REVISION").unlink()
    assert said.stdout.rstrip().endswith("(git v1-3-gabc)"), said.stderr


def test_the_command_of_a_checkout(source: Path, here: Path) -> None:
    """`make install` in a folder whose name has a space, with the libraries of this program."""
    checkout = here / "check out"
    shutil.copytree(source, checkout)
    (checkout / "requirements").mkdir()
    shutil.copy(ROOT / "requirements" / "install.sh", checkout / "requirements")
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=checkout, check=True
    )
    [packages] = checkout.glob(".venv/lib/python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = ["bash", "requirements/install.sh", "program", ".venv/bin/steadfast"]
    subprocess.run(install, cwd=checkout, check=True)
    program = checkout / ".venv" / "bin" / "steadfast"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("steadfast ")
    code = "import steadfast, certify; print(certify.__file__)"
    done = subprocess.run(
        [checkout / ".venv" / "bin" / "python", "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(checkout / "certify" / "__init__.py")
