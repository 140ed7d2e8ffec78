"""What TextAttack 0.3.11 answers, sample by sample, and what hides no difference."""

import json
from itertools import permutations
from pathlib import Path

import pytest

from benchmarks.parity import recorded
from benchmarks.parity.__main__ import main


@pytest.fixture
def peer(data_dir: Path) -> Path:
    folder = data_dir.parent / "peer"
    if not folder.is_dir():
        pytest.skip(f"no recorded answers of the reference: {folder} is absent")
    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def test_the_order_of_words_is_nothing_to_the_victim(tmp_path: Path) -> None:
    path = tmp_path / "victim.json"
    weights = {"a": 0.1, "b": 0.2, "c": 0.3, "d": -0.7, "e": 1e9, "f": -1e9}
    path.write_text(json.dumps({"bias": 0.1, "weights": weights}))
    victim = recorded.FixedVictim(path)
    texts = [" ".join(order) for order in permutations(weights)]
    assert len({tuple(row) for row in victim(texts)}) == 1


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("name", ["pwws", "textfooler"])
def test_every_sample_as_the_reference(data_dir: Path, peer: Path, name: str) -> None:
    found = recorded.compare(name, data_dir, peer)
    assert found.differences == []
    assert found.agreement == {"outcome": 300, "queries": 300, "text": 300}
    assert found.enough


@pytest.mark.long
@pytest.mark.data
@pytest.mark.parametrize(
    "in_flight", [7, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, 300))]
)
def test_whatever_else_is_attacked(data_dir: Path, peer: Path, in_flight: int) -> None:
    found = recorded.compare("textfooler", data_dir, peer, in_flight=in_flight)
    assert found.differences == []


@pytest.mark.slow
@pytest.mark.data
def test_the_command(
    data_dir: Path, peer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "parity.json"
    given = ["--data_dir", str(data_dir), "--peer", str(peer), "--repeats", "1", "--out", str(out)]
    assert main(["recorded", *given]) == 0
    printed = capsys.readouterr().out
    assert "pwws: outcome 300/300, queries 300/300, text 300/300" in printed
    assert '"attack": "textfooler"' in out.read_text()


@pytest.mark.long
@pytest.mark.data
def test_a_difference_is_seen(data_dir: Path, peer: Path, tmp_path: Path) -> None:
    lines = (peer / "pwws_0_300.jsonl").read_text().splitlines()[:20]
    other = tmp_path / "other.jsonl"
    other.write_text("\n".join([lines[0].replace('"queries": 35', '"queries": 36'), *lines[1:]]))
    found = recorded.compare("pwws", data_dir, peer, expected=other)
    assert [one["row"] for one in found.differences] == [0]
    assert found.agreement == {"outcome": 20, "queries": 19, "text": 20}
    assert found.enough  # 95 %
    other.write_text("\n".join([*lines[1:2], lines[0].replace("failed", "skipped")]))
    assert not recorded.compare("pwws", data_dir, peer, expected=other).enough
