"""Masks of an adversary, from a run to the table, the file and the picture."""

import json
import os
import random
from pathlib import Path

import pytest
import torch

from app.cli.main import entry
from benchmarks import asa_masks
from layers.architectures import build_masked_lm
from layers.pretrained_encoders import save_model
from tests.unit.layers.small_encoders import ARCHITECTURES
from text import save_tokenizer, train_word_piece

WORDS = ("film", "plot", "good", "bad", "very", "is", "the", "was", "not", "dull")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """SST-2 in its layout."""
    generator, folder = random.Random(0), tmp_path / "data"
    (folder / "sst2").mkdir(parents=True)
    for split in ("train", "validation", "test"):
        lines = [f"{' '.join(generator.choices(WORDS, k=6))}\t{i % 2}\n" for i in range(12)]
        (folder / f"sst2/{split}.tsv").write_text(f"sentence\tlabel\n{''.join(lines)}")
    return folder


def trained(tmp_path: Path, data: Path, name: str, *more: str) -> Path:
    """A run of ASA on a BERT with random weights."""
    folder = tmp_path / "encoder"
    if not folder.exists():
        folder.mkdir()
        tokenizer = train_word_piece([" ".join(WORDS)], 60, max_length=24)
        torch.manual_seed(0)
        sizes = {"hidden_size": 8, "vocab_size": tokenizer.vocab_size}
        save_model(build_masked_lm({**ARCHITECTURES["bert"], **sizes}), folder)
        save_tokenizer(tokenizer, folder)
    words = ["fit", "--config=configs/asa/sst2.yaml", f"--model.backbone.pretrained={folder}"]
    words += ["--model.max_length=24", "--trainer.max_epochs=1", "--trainer.accelerator=cpu"]
    words += [f"--data.data_dir={data}", f"--runs_dir={tmp_path / 'runs'}", f"--run={name}"]
    try:
        assert entry([*words, "--trainer.enable_progress_bar=false", *more]) == 0
    finally:
        os.environ.pop("PL_GLOBAL_SEED", None)
    return tmp_path / "runs" / name


@pytest.mark.long
def test_masks_of_runs(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # With so large a step the masks of random weights move something.
    fast = "--model.optimisation.optimizer.init_args.lr=0.1"
    runs = [trained(tmp_path, data, name, fast) for name in ("one", "two")]
    capsys.readouterr()
    out, figure = tmp_path / "out.json", tmp_path / "figure.png"
    given = ["--run", *map(str, runs), "--out", str(out), "--figure", str(figure)]
    asa_masks.main(given)
    shares, moves = capsys.readouterr().out.strip().split("\n\n")
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shares.splitlines()[2:]]
    assert [line[:2] for line in lines] == [
        *(["one", "drawn"], ["one", "none"]),
        *(["two", "drawn"], ["two", "none"]),
    ]
    assert {line[-1] for line in lines} == {"12"}
    found = json.loads(out.read_text())
    drawn = found["one"]["drawn"]
    assert all(0 < share < 1 for share in drawn)
    assert lines[0][2:-2] == [f"{100 * share:.1f}" for share in drawn]
    assert [line.split("|")[1].strip() for line in moves.splitlines()[2:]] == ["one", "two"]
    assert moves.count("| one |") == 1
    assert found["one"]["chance"] > 0
    assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_a_run_without_adversary_is_refused(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained(tmp_path, data, "plain", "--model.masking.kind=none")
    with pytest.raises(SystemExit):
        asa_masks.main(["--run", str(run)])
    assert "expected runs of ASA with masking.kind adversarial" in capsys.readouterr().err
