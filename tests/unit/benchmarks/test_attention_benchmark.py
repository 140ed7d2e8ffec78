"""The benchmark of self-attentions: its fit, its limits, and that it counts what is there."""

import json
import math
from argparse import Namespace
from pathlib import Path

import pytest
import torch

from benchmarks import attention
from benchmarks.attention import LINEAR, MEASURED, Way, draw, exponent, main, measure_all, peaks
from benchmarks.timing import in_fresh_process
from layers.attention.mechanisms import KINDS

SMALL = Namespace(
    batch=1,
    width=8,
    heads=2,
    device="cpu",
    threads=1,
    repeats=1,
    lengths=[8, 16],
    kinds=("reva", "revcos"),
    most_s=60.0,
    most_mib=1000.0,
)


@pytest.fixture(autouse=True)
def threads() -> None:
    torch.set_num_threads(1)


def test_the_exponent_is_that_of_the_upper_half() -> None:
    lengths = [64, 128, 256, 512, 1024]
    assert exponent(lengths, [3.0 * n**1.5 for n in lengths]) == pytest.approx(1.5)
    assert exponent(lengths, [1.0, 1.0, *(n**2.0 for n in lengths[2:])]) == pytest.approx(2.0)
    assert exponent(lengths, [1.0, 2.0, 4.0, None, None]) == pytest.approx(1.0)
    assert exponent(lengths, [1.0, None, None, None, None]) is None
    assert exponent(lengths, [0.0] * 5) is None


def test_every_kind_is_measured_or_made_of_others() -> None:
    assert set(LINEAR) <= set(MEASURED) <= set(KINDS)
    assert {kind for kind in KINDS if kind not in MEASURED} == {
        "transnormer_layer_norm",
        "transnormer_rms",
    }


@pytest.mark.parametrize("kind", MEASURED)
def test_each_kind_does_both_passes(kind: str) -> None:
    module = attention.layer(kind, 16, SMALL)
    for one in attention.PASSES:
        attention.run(module, *attention.tokens(16, SMALL), one)
    assert all(parameter.grad is None for parameter in module.parameters())


@pytest.mark.long
def test_memory_is_that_of_the_pass() -> None:
    # SOFT holds a number for each pair of tokens of a head: 32 MiB, a few times. A process that
    # has run other tests keeps freed memory, and a pass in it needs less new memory than that.
    options = Namespace(**vars(SMALL) | {"heads": 2})
    (mebibytes,) = in_fresh_process(peaks, ("soft", "step"), [2048], options)
    assert 2 * 2048**2 * 4 / 2**20 <= mebibytes < 1000


def test_what_would_take_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, list[int]]] = []

    def counted(work: object, way: Way, lengths: list[int], given: Namespace) -> list[float]:
        asked.append((way[0], lengths))
        return [1.0] * len(lengths)

    squares = {"times": lambda ways, n, given: {way: float(n) ** 2 for way in ways}}
    for name, stand_in in (squares | {"in_fresh_process": counted}).items():
        monkeypatch.setattr(attention, name, stand_in)
    limits = {"lengths": [8, 16, 32], "most_s": 0.3, "most_mib": 0.02}
    found = measure_all(Namespace(**vars(SMALL) | limits))
    assert found["reva", "step"] == {"ms": [64.0, 256.0, None], "mib": [1.0, None, None]}
    # A linear kind has no pairs.
    assert found["revcos", "step"]["mib"] == [1.0, 1.0, None]
    assert ("reva", [8]) in asked


@pytest.mark.long
def test_the_whole_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(attention, "in_fresh_process", lambda work, *given: work(*given))
    out, figure = tmp_path / "a.json", tmp_path / "a.svg"
    main(["--check", "--device=cpu", f"--out={out}", f"--figure={figure}"])
    content = json.loads(out.read_text())
    assert content["lengths"] == [32, 64]
    for kind in ("reva", "revcos"):
        for one in ("forward", "step"):
            assert all(ms > 0 for ms in content["kinds"][kind][one]["ms"])
            assert math.isfinite(content["kinds"][kind][one]["ms_exponent"])
    assert "| revcos | step |" in capsys.readouterr().out
    assert "revcos" in figure.read_text()
    assert "<!-- 32 -->" in figure.read_text()
    assert "mathdefault" not in figure.read_text()


@pytest.mark.long
def test_a_picture_of_all_kinds(tmp_path: Path) -> None:
    lengths = [64, 128]
    given = Namespace(kinds=MEASURED, lengths=lengths)
    values: dict[str, list[float | None]] = {"ms": [1.0, None], "mib": [0.0, 2.0]}
    draw(tmp_path / "a.png", given, {(kind, "step"): values for kind in MEASURED})
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
