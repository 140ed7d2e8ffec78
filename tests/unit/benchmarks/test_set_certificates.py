"""The benchmark of perturbation sets trains and certifies what it times."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import set_certificates as benchmark

ROWS = "sentence\tlabel\na good film\t1\nnot a good film\t0\na bad film\t0\nbad and good\t1\n"


@pytest.mark.long
def test_each_method_is_timed_and_certified(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sst2").mkdir()
    for split in ("train", "validation", "test"):
        (tmp_path / "sst2" / f"{split}.tsv").write_text(ROWS)
    options = ["--texts=3", "--steps=2", "--batch=2", "--repeats=1", f"--out={tmp_path}/out.json"]
    command = ["set_certificates", f"--data_dir={tmp_path}", "--sets=typos", *options]
    monkeypatch.setattr(sys, "argv", command)
    benchmark.main()
    figures = json.loads((tmp_path / "out.json").read_text())["seconds"]
    assert set(figures) == set(benchmark.METHODS)
    printed = capsys.readouterr().out
    for name, each in figures.items():
        assert 0 <= each.pop("held") <= 1
        assert min(each.values()) > 0, name
        assert f"| {name} |" in printed
