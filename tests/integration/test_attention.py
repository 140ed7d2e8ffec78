"""`attention` by the real command line, on a trained adversary."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from app.cli.main import entry
from tests.integration.conftest import REVIEWS, TINY, Steadfast

ARCHITECTURE = {
    "model_type": "bert",
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}
MODEL = [
    f"--model.backbone.architecture={json.dumps(ARCHITECTURE)}",
    "--model.backbone.vocab_size=300",
    *REVIEWS,
    *TINY,
    "--trainer.max_steps=4",
]
TEXT = "--text=a dull film , and a very long one"
BEST = "runs/asa/checkpoints/best.ckpt"


@pytest.fixture(scope="module")
def _fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fitted")
    before = Path.cwd()
    os.chdir(path)
    # Half of the units masked from the beginning, so that there is something to see.
    settings = ["--model.masking.initial_keep=0.5", "--model.masking.tau=0"]
    try:
        assert entry(["fit", "--model=ASA", *MODEL, *settings, "--run=asa"]) == 0
        assert entry(["fit", "--model=FineTuning", *MODEL, "--run=plain"]) == 0
    finally:
        os.chdir(before)
        os.environ.pop("PL_GLOBAL_SEED", None)
    return path / "runs"


@pytest.fixture
def runs(here: Path, _fitted: Path) -> Path:
    """Copies of two runs, `asa` and `plain`, in the working directory."""
    shutil.copytree(_fitted, here / "runs")
    return here / "runs"


def test_what_it_writes(runs: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("attention", "--run=asa", TEXT)
    assert outcome.status == 0, outcome.err
    assert outcome.err == ""
    assert "asa: ASA, runs/asa/checkpoints/best.ckpt" in outcome.out
    assert "with the adversary" in outcome.out
    assert outcome.out.count("  layer ") == 3
    assert "masked" in outcome.out
    assert "layer 3, mean of heads: what changed most" in outcome.out
    content = (runs / "asa/attention.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    events = EventAccumulator(str(runs / "asa"), size_guidance={"images": 0})
    events.Reload()
    (image,) = events.Images("attention/a dull film , and a very long one")
    assert image.width > image.height > 1000
    # The same command, by the name of the file, gives the same bytes.
    few = ["--layers", "1", "--heads", "1"]
    outcome = steadfast("attention", "--run=asa", TEXT, *few)
    content = (runs / "asa/attention.png").read_bytes()
    again = steadfast("attention", f"--ckpt_path={BEST}", TEXT, *few)
    assert again.out.splitlines()[:-1] == outcome.out.splitlines()[:-1]
    assert (runs / "asa/attention.png").read_bytes() == content


def test_an_adversary_in_a_process_without_lightning(runs: Path) -> None:
    root = Path(entry.__code__.co_filename).parents[2]
    few = ["--layers", "1", "--output", str(runs / "a.png")]
    outcome = subprocess.run(
        [sys.executable, "-m", "app", "attention", "--run=asa", f"--runs_dir={runs}", TEXT, *few],
        capture_output=True,
        check=False,
        cwd=root,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "with the adversary" in outcome.stdout


@pytest.mark.slow
def test_two_models(runs: Path, steadfast: Steadfast) -> None:
    plain = "--against=runs/plain/checkpoints/best.ckpt"
    outcome = steadfast(
        "attention", "--run=asa", TEXT, plain, "--layers", "2", "--heads", "2", "--output=new/a.png"
    )
    assert outcome.status == 0, outcome.err
    assert "plain: FineTuning, runs/plain/checkpoints/best.ckpt" in outcome.out
    assert "layer 2, head 2: what changed most" in outcome.out
    assert Path("new/a.png").is_file()
    assert not (runs / "asa/attention.png").exists()
    # A file that lies in no run has no TensorBoard either.
    shutil.copy(BEST, "loose.ckpt")
    outcome = steadfast(
        "attention", "--ckpt_path=loose.ckpt", TEXT, "--layers", "1", "--output=b.png"
    )
    assert outcome.status == 0, outcome.err
    assert outcome.out.endswith("\nb.png\n")
    assert "loose.ckpt: ASA" in outcome.out


def test_a_checkpoint_of_another_run_is_refused(runs: Path, steadfast: Steadfast) -> None:
    other = "--ckpt_path=runs/plain/checkpoints/best.ckpt"
    outcome = steadfast("attention", "--run=asa", other, TEXT)
    assert outcome.status == 1
    assert "got run 'asa' and a checkpoint that is not of it" in outcome.err
    assert not (runs / "asa/attention.png").exists()


@pytest.mark.slow
def test_a_long_text(runs: Path, steadfast: Steadfast) -> None:
    text = f"--text={'a dull film ' * 10}"
    outcome = steadfast("attention", "--run=asa", text, "--layers", "3", "--heads", "1")
    assert outcome.status == 0, outcome.err
    assert re.search(r"the picture has the first 40 of \d\d tokens\n", outcome.out)


def test_errors_are_one_line(runs: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("attention", "--run=asa", "--text=")
    assert outcome.status == 1
    assert outcome.err == (
        "error: got a text without a single word, expected words in --text and --text_pair\n"
    )
    assert "Traceback" in steadfast("attention", "--run=asa", "--text=", "--debug").err
    outcome = steadfast("attention", "--run=asa", TEXT, "--text_pair=more")
    assert outcome.status == 1
    assert "for a model of single texts" in outcome.err
    assert outcome.err.count("\n") == 1
    assert not (runs / "asa/attention.png").exists()


def test_a_method_without_such_attention(trained: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("attention", "--run=done", TEXT)
    assert outcome.status == 1
    assert outcome.err.startswith("error: got runs/done/checkpoints/best.ckpt of OLSA, which has ")
    assert outcome.err.count("\n") == 1
    assert not (trained / "attention.png").exists()


def test_help(here: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("attention", "--help")
    assert outcome.status == 0
    assert "--against" in outcome.out
    assert steadfast("attention", "--run=asa").status == 2
