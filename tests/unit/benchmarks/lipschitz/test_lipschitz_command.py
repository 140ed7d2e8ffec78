"""`lipschitz`: its files, what it says, and that a killed command goes on to the same bytes."""

import json
from pathlib import Path
from typing import Any

import pytest

from attacks.json_lines import append
from benchmarks.lipschitz.__main__ import main

SMALL = {
    "tightness": "--lengths 3 5 --starts 2 --steps 3 --top 2",
    "divergence": "--kinds l2_tied scaled_dot_product --width 4 --heads 2 --tokens 4 --starts 1 "
    "--steps 4",
    "biases": "--kinds l2_tied scaled_dot_product --width 4 --heads 2 --tokens 4",
    "invertibility": "--kinds l2_tied l2_contractive --factors 0.5 --width 4 --heads 2 --tokens 4 "
    "--texts 2 --iterations 1 8",
    "stability": "--kinds l2_tied scaled_dot_product --width 4 --heads 2 --tokens 4 --texts 2 "
    "--bins 5",
}


def run(name: str, folder: Path, more: str = "") -> Path:
    words = [name, *SMALL[name].split(), *more.split(), "--runs_dir", str(folder)]
    main([*words, "--device", "cpu"])
    return folder / f"lipschitz_{name}"


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


@pytest.mark.long
@pytest.mark.parametrize("name", SMALL)
def test_files_and_table(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = files(run(name, tmp_path))
    endings = ("csv", "json", "png", "svg")
    assert set(found) == {"points.jsonl", *(f"{name}.{ending}" for ending in endings)}
    rows = found[f"{name}.csv"].decode().splitlines()
    assert len({row.count(",") for row in rows}) == 1
    assert f"{name}.json" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "tightness",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("divergence", "biases", "invertibility", "stability")
        ),
    ],
)
def test_a_killed_command_goes_on_to_the_same_bytes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = files(run(name, tmp_path / "whole"))
    written: list[Any] = []

    def killed(stream: Any, contents: Any) -> None:
        if len(written) == 2:  # what the points depend on, and the first one
            stream.write(b'{"torn')
            raise KeyboardInterrupt
        written.append(contents)
        append(stream, contents)

    with monkeypatch.context() as patched:
        patched.setattr("benchmarks.lipschitz.experiment.append", killed)
        # The first line is written by the file's own module.
        written.append(None)
        with pytest.raises(KeyboardInterrupt):
            run(name, tmp_path / "again")
    assert not (tmp_path / "again" / f"lipschitz_{name}" / f"{name}.json").exists()
    assert files(run(name, tmp_path / "again")) == whole


@pytest.mark.slow
def test_a_finished_command_measures_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(run("tightness", tmp_path))
    monkeypatch.setattr("benchmarks.lipschitz.tightness.climb", None)
    assert files(run("tightness", tmp_path)) == before


@pytest.mark.long
def test_lower_bounds_stand_beside_proven_ones(tmp_path: Path) -> None:
    content = json.loads((run("tightness", tmp_path) / "tightness.json").read_text())
    for point in content["points"]:
        proven = point["proven"]
        assert point["found"] == sorted(point["found"], reverse=True)
        assert max(*point["found"], point["two_sides"]) < proven["sound"] <= proven["kim"]
        # Half of the others on each side: 4 c - 1 + 2 P_ii, and the bound is 4 c + 1.
        assert point["two_sides"] > proven["sound"] - 2


@pytest.mark.long
def test_biases_do_not_bound_dot_product_attention(tmp_path: Path) -> None:
    tied, dot = json.loads((run("biases", tmp_path) / "biases.json").read_text())["lines"]
    assert max(tied["norms"]) < tied["proven"]["sound"]
    assert dot["bias"] > 0.1
    # As the variance of the other tokens, the square of their range.
    assert dot["norms"][3] == pytest.approx(100 * dot["norms"][2], rel=0.05)


@pytest.mark.slow
def test_l2_attention_inverts(tmp_path: Path) -> None:
    content = json.loads((run("invertibility", tmp_path) / "invertibility.json").read_text())
    for line in content["lines"]:
        assert line["errors"][1] < line["errors"][0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("tightness --kind some", "kind='some'.*expected one of scaled_dot_product"),
        ("tightness --norm 1", "norm='1'.*expected one of 2, inf"),
        ("tightness --lengths 1", r"lengths=\[1\], expected numbers of tokens of 2 or more"),
        ("tightness --starts 0", "starts=0"),
        ("tightness --width 3 --heads 2", "width=3 and heads=2, expected a width divisible"),
        ("invertibility --factors 1", "factors=1"),
        ("invertibility --iterations 3 2", r"iterations=\[3, 2\], expected rising numbers"),
        ("invertibility --input_range 0", "input_range=0"),
        ("biases --ranges 0", "ranges=0"),
        ("divergence --kinds some", "kind='some'"),
    ],
)
def test_wrong_settings(words: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        main([*words.split(), "--runs_dir", str(tmp_path), "--device", "cpu"])
    assert not list(tmp_path.rglob("*.jsonl"))


@pytest.mark.long
def test_other_settings_than_those_of_the_run_are_refused(tmp_path: Path) -> None:
    run("tightness", tmp_path)
    with pytest.raises(ValueError, match=r"got other settings \(seed, subject\) than .*--run"):
        run("tightness", tmp_path, "--seed 1")
