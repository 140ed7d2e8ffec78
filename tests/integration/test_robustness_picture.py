"""The command behind the picture of the README."""

import json
from pathlib import Path

import pytest

from benchmarks import robustness_picture
from datamodules.reviews import SIZES


def test_certified_accuracy_counts_right_texts_beyond_the_radius(tmp_path: Path) -> None:
    rows = [(1, 1, 0.0), (0, 0, 0.25), (1, 1, 0.6), (0, 1, 9.0)]
    path = tmp_path / "certificates.jsonl"
    names = ("label", "prediction", "radius")
    path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    assert robustness_picture.certified_accuracy(path) == [0.75, 0.25, 0.25, 0.0, 0.0, 0.0]


def test_a_run_is_measured_and_drawn(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(robustness_picture, "RADII", (0.0, 0.5))
    monkeypatch.setitem(SIZES, "test", 32)
    files = ["--figure", "picture.png", "--out", "figures.json"]
    robustness_picture.main(["--run", str(trained), *files])
    found = json.loads(Path("figures.json").read_text())
    attacked, certified = found["done, under attack"], found["done, certified"]
    assert attacked[1] <= attacked[0]
    assert certified[1] <= certified[0]
    assert Path("picture.png").read_bytes().startswith(b"\x89PNG")
    assert f"done, certified | {certified[0]:.3f}" in capsys.readouterr().out
