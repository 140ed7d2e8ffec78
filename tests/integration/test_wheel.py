"""The wheel, built as pip builds it and used from elsewhere."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import zipfile
from pathlib import Path

import pytest
import torch

import lit_modules  # noqa: F401 (this process may train: `sf.load` must not set that it does not)
import steadfast as sf
from app.cli.main import entry
from tests.integration.conftest import ROOT, TINY, results
from tests.integration.test_plugins import install_example, write_weather
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


def run(site: Path | str, *words: str) -> subprocess.CompletedProcess[str]:
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


@pytest.mark.slow
def test_a_shipped_config_is_trained_from_elsewhere(site: Path, here: Path) -> None:
    short = ["--trainer.max_steps=1", "--trainer.limit_val_batches=1", "--trainer.accelerator=cpu"]
    # A folder of the name of a package is not taken for it.
    (here / "text").mkdir()
    (here / "text" / "__init__.py").write_text("raise RuntimeError")
    done = run(site, "-P", "-m", "steadfast", "fit", "--config=default", *short, "--run=a")
    assert done.returncode == 0, done.stderr
    assert (here / "runs" / "a" / "checkpoints" / "last.ckpt").is_file()
    assert "lit_modules.OLSA" in (here / "runs" / "a" / "config.yaml").read_text()


def test_both_names_of_a_module_are_one_module(site: Path, here: Path) -> None:
    code = """
        import sys
        import steadfast
        import layers, text
        import certify.threats.parsing as parsing
        from steadfast import certify
        from text.batch import Batch
        names = [name for name in sys.modules if name.startswith("steadfast.")]
        for name in names:
            other = sys.modules.get(name.removeprefix("steadfast."))
            assert other in (None, sys.modules[name]), name
        assert parsing is sys.modules["certify.threats.parsing"]
        assert parsing is sys.modules["steadfast.certify.threats.parsing"]
        assert Batch is text.Batch and Batch.__module__ == "steadfast.text.batch"
        print(text.__file__, text.__spec__.name)
        import text.nothing
    """
    (here / "text").mkdir()  # a folder without code is no package of the user
    (here / "text" / "some.txt").touch()
    said = run(site, "-W", "error", "-c", textwrap.dedent(code))
    file = site / "steadfast" / "text" / "__init__.py"
    assert said.stdout == f"{file} steadfast.text\n", said.stderr
    assert said.stderr.endswith("ModuleNotFoundError: No module named 'text.nothing'\n")


def test_no_module_names_a_package_that_a_user_may_have(site: Path) -> None:
    """Not at its top, nor inside of functions, which run later."""
    imports = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(PACKAGES)})\b", re.MULTILINE)
    for path in (site / "steadfast").rglob("*.py"):
        assert not imports.search(path.read_text(encoding="utf-8")), path


@pytest.mark.slow
def test_no_module_imports_by_a_name_that_a_user_may_have(site: Path, here: Path) -> None:
    """All modules are imported where every such import raises."""
    for name in PACKAGES:
        (here / f"{name}.py").write_text("raise RuntimeError(__name__)\n")
    code = """
        import sys, warnings
        from importlib import import_module
        from pkgutil import walk_packages
        import steadfast
        warnings.simplefilter("ignore")
        names = [module.name for module in walk_packages(steadfast.__path__, "steadfast.")]
        for name in names:
            if not name.endswith("__main__"):
                import_module(name)
        print(len(names), [name for name in sys.modules if name.partition(".")[0] in PACKAGES])
    """
    code = textwrap.dedent(code).replace("PACKAGES", repr(PACKAGES))
    said = run(site, "-c", code)
    assert said.returncode == 0, said.stderr
    count, _, others = said.stdout.strip().partition(" ")
    assert int(count) > 500
    assert others == "[]"


PROGRAM = """
import json
import multiprocessing
import sys
from importlib import import_module
from pathlib import Path

NAMES = sys.argv[2].split(",")


def own(names):
    return [import_module(name).OWN for name in names] == names


def main():
    if sys.argv[1] == "before":
        assert own(NAMES)
    import steadfast as sf
    from steadfast.text import split_words

    if sys.argv[1] == "between":
        assert own(NAMES)
    texts = ["great soup and a friendly waiter", "bland food and a rude waiter"]
    model = sf.load("done")
    predictions = model.predict(texts)
    attacked = model.attack([(texts[0], "positive")], query_budget=20)
    certified = sf.load("words").certify(texts, against="typos", k=[1])
    if sys.argv[1] == "before":
        settings = json.loads(sys.argv[3])
        run = sf.train(None, run="wheel", **settings)
        assert run.model().predict(texts).labels
        # A run of the checkout continues.
        sf.train(None, run="checkout", **settings | {"trainer__max_epochs": 2})
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(split_words, (texts[0],)) == texts[0].split()
    assert own(NAMES)
    files = [Path(sys.modules[name].__file__).parts[-3] for name in NAMES]
    assert files == ["project"] * len(NAMES), files
    print(json.dumps([predictions[:], attacked[:], certified[:]]))


if __name__ == "__main__":
    main()
"""
TEXTS = ["great soup and a friendly waiter", "bland food and a rude waiter"]
SETTINGS = {
    "model": "OLSA",
    "model__width": 8,
    "model__heads": 2,
    "data": "Reviews",
    "data__limit_train": 64,
    "data__batch_size": 16,
    "data__num_workers": 2,
    "pgd__steps": 2,
    "trainer__max_epochs": 1,
    "trainer__accelerator": "cpu",
    "trainer__limit_val_batches": 1,
    "trainer__limit_test_batches": 1,
    "trainer__enable_progress_bar": False,
    "trainer__enable_model_summary": False,
}
STUDY = """
title: A tiny study
base: {settings: {model: TextClassifier, model.encoder: mean, model.width: 8, data: Reviews,
  data.limit_train: 64, trainer.max_epochs: 1, trainer.accelerator: cpu}}
rows: {plain: {}}
stages: [fit, {test: {pgd.epsilon: 0}}]
columns: {accuracy: {metric: test/accuracy}}
"""


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a model that has certificates in words."""
    folder = tmp_path_factory.mktemp("words")
    model = ["--model=WordScores", "--model.window=1", "--model.words.split=joined"]
    model += ["--model.words.front_end=spelling", "--data=Reviews", "--data.limit_train=200"]
    with contextlib.chdir(folder):
        assert entry(["fit", *model, *TINY, "--trainer.max_epochs=1", "--run=words"]) == 0
    return folder / "runs" / "words"


@pytest.fixture
def project(here: Path, _trained: Path, words: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's project, the working directory, which has packages of all our names."""
    folder = here / "project"
    for name in PACKAGES:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"OWN = {name!r}\n")
    shutil.copytree(_trained, folder / "runs")
    shutil.copytree(words, folder / "runs" / "words")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    "order",
    [
        "before",
        pytest.param("between", marks=pytest.mark.slow),
        pytest.param("after", marks=pytest.mark.slow),
    ],
)
def test_a_project_with_packages_of_all_our_names(site: Path, project: Path, order: str) -> None:
    (project / "program.py").write_text(PROGRAM)
    words = [order, ",".join(PACKAGES), json.dumps(SETTINGS)]
    options = [f"--{name.replace('__', '.')}={value}" for name, value in SETTINGS.items()]
    if order == "before":
        assert entry(["train", *options, "--run=checkout"]) == 0
        shutil.copytree("runs/checkout", "begun")
    done = run(site, "program.py", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    if order != "before":
        return
    # The checkout, in this process, measures and stores the same.
    model = sf.load("done")
    tables = (
        model.predict(TEXTS),
        model.attack([(TEXTS[0], "positive")], query_budget=20),
        sf.load("words").certify(TEXTS, against="typos", k=[1]),
    )
    records = [[record | {"seconds": 0} for record in table] for table in tables]
    others = json.loads(done.stdout.splitlines()[-1])
    assert [[record | {"seconds": 0} for record in table] for table in others] == json.loads(
        json.dumps(records)
    )
    stored = Path("runs/wheel/config.yaml").read_text().replace("wheel", "checkout")
    assert stored == Path("begun/config.yaml").read_text()
    assert "lit_modules.OLSA" in stored
    for name in ("best.ckpt", "last.ckpt"):
        wheels, checkouts = (
            torch.load(run / "checkpoints" / name, weights_only=True)
            for run in (Path("runs/wheel"), Path("begun"))
        )
        assert wheels.keys() == checkouts.keys()
        assert wheels["hyper_parameters"] == checkouts["hyper_parameters"]
    wheels, checkouts = (
        json.loads((run / "results.json").read_text())
        for run in (Path("runs/wheel"), Path("begun"))
    )
    assert wheels["metrics"].keys() == checkouts["metrics"].keys()
    assert "steadfast." not in json.dumps(wheels)
    # Each has continued a run of the other one.
    assert entry(["train", *options, "--trainer.max_epochs=2", "--run=wheel"]) == 0
    for name in ("wheel", "checkout"):
        last = torch.load(Path("runs", name, "checkpoints", "last.ckpt"), weights_only=True)
        assert last["global_step"] == 8  # 2 epochs of 4 batches


@pytest.mark.slow
def test_a_study_in_such_a_project(site: Path, project: Path) -> None:
    Path("tiny.yaml").write_text(STUDY)
    done = run(site, "-m", "steadfast", "study", "run", "tiny.yaml")
    assert done.returncode == 0, done.stderr
    again = run(site, "-m", "steadfast", "study", "run", "tiny.yaml")
    assert again.returncode == 0, again.stderr
    assert "test" not in again.stderr, again.stderr  # nothing is left to do


def test_a_class_path_is_ours_and_not_the_users(site: Path, project: Path) -> None:
    (project / "lit_modules" / "__init__.py").write_text("class OLSA: ...\n")
    words = ["--model=lit_modules.OLSA", "--data=datamodules.Reviews", "--print_config"]
    said = run(site, "-m", "steadfast", "fit", *words)
    assert "class_path: lit_modules.OLSA\n" in said.stdout, said.stderr
    assert "class_path: datamodules.Reviews\n" in said.stdout


@pytest.mark.slow
def test_a_plugin_of_an_installed_program(
    site: Path, here: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    packages = tmp_path_factory.mktemp("packages")
    install_example(packages)
    both = f"{packages}{os.pathsep}{site}"
    code = """
        import steadfast
        from steadfast.attacks.recipes import find_recipe
        from steadfast.datamodules import CORPORA
        from steadfast.lit_modules import METHODS
        print(METHODS["DeepAveraging"].__module__, CORPORA["Weather"].__module__)
        print(find_recipe("double-letter").needs)
    """
    said = run(both, "-W", "error", "-c", textwrap.dedent(code))
    assert said.stdout == "plugin_example plugin_example\n()\n", said.stderr
    write_weather()
    options = ["--model=DeepAveraging", "--data=Weather", "--data.data_dir=data"]
    for words in (["train", *options, *TINY], ["attack", "--attack=double-letter"]):
        done = run(both, "-m", "steadfast", *words, "--run=deep")
        assert done.returncode == 0, done.stderr
    assert "attack/double-letter/accuracy" in results("deep")["metrics"]
    assert "plugin_example.DeepAveraging" in Path("runs/deep/config.yaml").read_text()


CORE = """
import json
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
for words in json.loads(sys.argv[2]):
    sys.argv = ["steadfast", *words]
    print(sf.entry(), file=sys.stderr)
"""


def test_the_core_predicts_and_names_missing_extras(site: Path, trained: Path) -> None:
    extras = (ROOT / "text" / "extras.py").read_text()
    program = CORE.format(extras=extras)
    predict = ["predict", f"--ckpt_path={trained}/checkpoints/best.ckpt", "--text=great soup"]
    others = ["fit", "--run=a"], ["serve", "--run=a"]
    done = run(site, "-c", program, str(trained), json.dumps([*others, predict]))
    assert done.returncode == 0, done.stderr
    label, *missing = done.stdout.splitlines()[:3]
    assert label in ("negative", "positive")
    assert missing == [
        f"{library} is not installed: pip install 'steadfast-nlp[train]'"
        for library in ("pandas", "matplotlib")
    ]
    *errors, status = done.stderr.splitlines()
    assert status == "0", done.stderr
    for extra, error, status in zip(("train", "serve"), errors[::2], errors[1::2], strict=True):
        assert status == "1"
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
