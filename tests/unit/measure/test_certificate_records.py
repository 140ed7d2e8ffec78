"""Certificates below attacks: which records of attacks count."""

import json
from pathlib import Path
from typing import Any

from certify.threats import Synonyms
from measure.certificate_records import attacks_inside, curve, detections, sandwich
from run_files.run_directory import RunDirectory

THREAT = Synonyms.of({"good": ["fine"], "film": ["movie"]})


def attacked(folder: Path, name: str, changed: dict[int, str], k: str, **more: str) -> None:
    about = {"threat": {"name": "synonyms", "k": k, "digest": THREAT.digest}, **more}
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"about": about}))
    rows = [
        {"sample_id": i, "text": "a good film", "outcome": "succeeded", "adversarial": text}
        for i, text in changed.items()
    ]
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def certified(sample: int, *holds: str) -> dict[str, Any]:
    known = {"sample_id": sample, "prediction": 1, "label": 1, "text": "a good film"}
    return {**known, "holds": {k: k in holds for k in ("1", "all")}}


def test_a_text_outside_of_the_set_is_no_success(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    # A crossing of two texts with one change each has two.
    attacked(tmp_path / "attacks", "pso", {0: "a fine movie", 1: "a fine film"}, "1")
    attacked(tmp_path / "attacks", "iga", {0: "a fine movie", 1: "a film"}, "all")
    attacks = attacks_inside(run, THREAT, "test")
    one, every = sandwich(attacks, [certified(0, "1"), certified(1)], [1, None])
    assert (one.attacks, one.certified, one.attacked, one.broken) == (("pso",), 0.5, 0.5, ())
    assert (every.attacks, every.attacked, every.broken) == (("iga",), 0.5, ())
    (broken,) = sandwich(attacks, [certified(0, "1"), certified(1, "1")], [1])
    assert broken.broken == (1,)


def test_fewer_changes_contradict_a_certificate_too(tmp_path: Path) -> None:
    attacked(tmp_path / "attacks", "pso", {0: "a fine film"}, "1")
    attacks = attacks_inside(RunDirectory(tmp_path), THREAT, "test")
    records = [certified(0, "1", "all"), certified(1, "all")]
    found = sandwich(attacks, records, [1, None])
    assert [one.broken for one in found] == [(0,), (0,)]
    # Under attacks with any number of changes nothing is known.
    assert [one.attacked for one in found] == [0.0, None]
    assert found[1].certified == 1.0
    attacked(tmp_path / "attacks", "pso", {0: "a fine film"}, "all")
    attacks = attacks_inside(RunDirectory(tmp_path), THREAT, "test")
    assert [one.broken for one in sandwich(attacks, records, [1, None])] == [(), (0,)]


def test_shards_and_unfinished_attacks_are_no_attacks(tmp_path: Path) -> None:
    folder = tmp_path / "attacks"
    attacked(folder, "pso", {0: "a fine film"}, "1")
    attacked(folder, "iga.shard-1-of-2", {1: "a fine film"}, "1")
    attacked(folder, "pwws", {}, "1")
    (folder / "pwws.jsonl").unlink()
    attacks = attacks_inside(RunDirectory(tmp_path), THREAT, "test")
    assert [attack.name for attack in attacks] == ["pso"]


def test_other_samples_are_not_compared(tmp_path: Path) -> None:
    attacked(tmp_path / "attacks", "pso", {0: "a fine film"}, "1", split="validation")
    run, records = RunDirectory(tmp_path), [certified(0, "1")]
    assert attacks_inside(run, THREAT, "test") == []
    attacks = attacks_inside(run, THREAT, "validation")
    (found,) = sandwich(attacks, records, [1])
    assert found.broken == (0,)
    (found,) = sandwich(attacks, [{**records[0], "text": "a good movie"}], [1])
    assert found.broken == ()


def test_a_curve_ends_with_all_words() -> None:
    known = [
        {**certified(0, "1", "all"), "certified": "all"},
        {**certified(1, "1"), "certified": "1"},
    ]
    found = curve(known, [1, None])
    assert found.changes == [0, 1, None]
    assert found.accuracy == [100.0, 100.0, 50.0]
    line, names = found.as_series()
    assert names == ("0", "1", "all")
    assert list(line.x) == [0, 1, 2]
    # Without all words, places are numbers.
    line, names = curve(known, [1]).as_series()
    assert (list(line.x), names) == ([0, 1], ())


def test_a_curve_begins_below_the_clean_accuracy_if_a_smoothed_classifier_abstains() -> None:
    records = [certified(0, "1"), certified(1)]
    records[0]["holds"]["0"], records[1]["holds"]["0"] = True, False
    assert curve(records, [0, 1]) == ([0, 1], [50.0, 50.0])


def test_a_curve_of_texts_whose_largest_number_is_known() -> None:
    known = [
        {**certified(0, "1"), "certified": "3"},
        {**certified(1, "1", "all"), "certified": "all"},
    ]
    found = curve(known, [1, None])
    assert found.changes[:5] == [0, 1, 2, 3, 4]
    assert found.accuracy[:5] == [100.0, 100.0, 100.0, 100.0, 50.0]
    assert found.changes[-1] is None
    assert found.accuracy[-1] == 50.0


def test_figures_of_detections_are_about_the_positives() -> None:
    rows = [(1, 1, True), (1, 1, False), (1, 0, True), (0, 1, True), (0, 0, True), (1, 1, True)]
    records = [
        {"label": label, "prediction": y, "holds": {"all": holds}} for label, y, holds in rows
    ]
    assert detections(records, [None], 1) == {
        "positives": 4.0,
        "recall": 3 / 4,
        "recall@all": 2 / 4,
        "detected@all": 2 / 3,
    }
