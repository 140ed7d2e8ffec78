"""Records of the attacks of a run, in Python."""

import json
from pathlib import Path

import pytest

import steadfast as sf
from attacks.outcome import AttackRecord
from run_files.ledger import attack_ledger
from run_files.run_directory import RunDirectory
from tests.unit.attacks.outcomes import flipped, record, skipped

ATTACKS = {
    "pwws": [flipped(0, queries=30), record(1, queries=60), skipped(2)],
    "worst": [flipped(0, recipe="bae"), flipped(1, adversarial="a <b>bad</b> film"), skipped(2)],
}


@pytest.fixture
def run(tmp_path: Path) -> sf.Run:
    files = RunDirectory(tmp_path / "runs" / "done")
    (files.path / "attacks").mkdir(parents=True)
    (files.path / "config.yaml").write_text("{}\n")
    for name, records in ATTACKS.items():
        write(files, name, records)
    # One that has begun.
    attack_ledger(files, "bae").begin({"score": "margin"})
    return sf.read_run("done", runs_dir=tmp_path / "runs")


def write(files: RunDirectory, name: str, records: list[AttackRecord]) -> None:
    ledger = attack_ledger(files, name)
    ledger.records_path.write_text("".join(json.dumps(one.line()) + "\n" for one in records))
    ledger.finish({"score": "margin", "goal": "untargeted"}, 1.0, None)


def test_a_frame_of_all_attacks(run: sf.Run) -> None:
    table = run.records()
    assert table.names == ["pwws", "worst"]
    frame = table.to_pandas()
    assert frame.groupby("attack")["outcome"].apply(list).to_dict() == {
        "pwws": ["succeeded", "failed", "skipped"],
        "worst": ["succeeded", "succeeded", "skipped"],
    }
    assert frame["recipe"].tolist()[3] == "bae"
    assert "pwws" in repr(table)
    page = table._repr_html_()
    assert "<b>" not in page
    assert page.count("<tr>") == 7
    (axes,) = table.plot().axes
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["pwws", "worst"]


def test_some_attacks(run: sf.Run) -> None:
    table = run.records("worst")
    assert [one["sample_id"] for one in table] == [0, 1, 2]
    with pytest.raises(ValueError, match="got bae for run done, expected some of pwws, worst"):
        run.records("bae")


def test_no_attack(run: sf.Run) -> None:
    for path in (run.path / "attacks").iterdir():
        path.unlink()
    with pytest.raises(ValueError, match="got no attack for run done, expected one: `steadfast"):
        run.records()
