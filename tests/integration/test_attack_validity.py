"""`attack validity` by the real command line, with a small WordNet and the packaged encoder."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import QUIET, Steadfast, lines
from tests.integration.test_attack_shards import timeless
from tests.unit.attacks import lexicon

SCORES = """
def scores(texts):
    return [[0.0, t.count("good") + 0.6 * t.count("film") - 0.5] for t in texts]
"""


@pytest.fixture
def attacked(here: Path, steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An attack of WordNet's synonyms, and its resources."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    lexicon.write_wordnet(here / "res" / "corpora")
    lexicon.write_tagger(here / "res" / "taggers")
    (here / "valid_scores.py").write_text(SCORES)
    rows = ["a good one in 1999", "a film", "not good", "nothing here"]
    (here / "texts.tsv").write_text("text\tlabel\n" + "".join(f"{row}\tpos\n" for row in rows))
    found = steadfast(
        *("attack", "--victim=python:valid_scores:scores", "--classes=neg,pos", "--attack=pwws"),
        *("--dataset=texts.tsv", "--attack.resources=res", "--output=out"),
    )
    assert found.status == 0, found.err
    return here / "out" / "attacks" / "pwws.jsonl"


def test_success_before_and_after(attacked: Path, steadfast: Steadfast) -> None:
    records = [line for line in lines(attacked) if line["outcome"] == "succeeded"]
    assert records
    line = ["attack", "validity", f"--records={attacked}", "--resources=res", "--device=cpu"]
    found = steadfast(*line, "--sentence_encoder=nowhere")
    assert found.status == 0, found.err
    assert "similarity is not measured" in found.err
    assert "grammar is not measured" in found.err
    assert f"{len(records)} adversarial texts, {len(records)} valid" in found.out
    Path("prose.txt").write_text("a good one in 1900\nthe film was not good\n" * 20)
    # A limit that nothing keeps.
    strict = steadfast(
        *line, "--sentence_encoder=nowhere", "--running_text=prose.txt", "--limit.perplexity=0"
    )
    assert strict.status == 0, strict.err
    assert f"{len(records)} adversarial texts, 0 valid" in strict.out
    report = json.loads((attacked.parent / "validity" / "pwws.json").read_text())
    assert report["checks"][4:] == ["perplexity", "grammar"]
    assert report["invalid_by"]["perplexity"] == len(records)
    assert report["valid_success_rate"]["value"] == 0
    assert report["valid_accuracy"]["value"] == 0.75
    (first, *_) = lines(attacked.parent / "validity" / "pwws.jsonl")
    assert first["valid"] is False
    assert "perplexity" in first["failed"]


def test_with_the_attack_itself(attacked: Path, steadfast: Steadfast) -> None:
    found = steadfast(
        *("attack", "--victim=python:valid_scores:scores", "--classes=neg,pos", "--attack=pwws"),
        *(
            "--dataset=texts.tsv",
            "--attack.resources=res",
            "--output=out",
            "--attack.validity=true",
        ),
    )
    assert found.status == 0, found.err
    assert "success rate, valid texts only" in found.out
    assert (attacked.parent / "validity" / "pwws.json").is_file()


def of_victim(*more: str, out: str) -> list[str]:
    return [
        *("attack", "--victim=python:valid_scores:scores", "--classes=neg,pos", "--attack=pwws"),
        *("--dataset=texts.tsv", "--attack.resources=res", f"--output={out}"),
        *("--attack.validity=true", *more),
    ]


def test_shards_of_a_victim_and_their_validity(attacked: Path, steadfast: Steadfast) -> None:
    del attacked
    assert steadfast(of_victim(out="whole")).status == 0
    whole, parts = Path("whole/attacks"), Path("parts/attacks")
    for index in (2, 1, 3):
        found = steadfast(of_victim(f"--attack.shard={index}/3", out="parts"))
        assert found.status == 0, found.err
        assert f"pwws: shard {index}/3, " in found.out
        assert "success rate" not in found.out  # a figure of a part is none
    assert not Path("parts/results.json").exists()
    merged = steadfast("attack", "merge", "--output=parts")
    assert merged.status == 0, merged.err
    assert "success rate, valid texts only" in merged.out
    for name in ("pwws.jsonl", "pwws.json", "validity/pwws.jsonl", "validity/pwws.json"):
        assert timeless(lines_of(parts / name)) == timeless(lines_of(whole / name)), name
    here, there = (
        json.loads(Path(f"{out}/results.json").read_text()) for out in ("whole", "parts")
    )
    assert here["metrics"] == there["metrics"]
    assert 0 < there["metrics"]["attack/pwws/success_rate"] <= 1
    # Without the validity of one part, that of the whole is left out.
    (parts / "validity" / "pwws.shard-2-of-3.json").unlink()
    (parts / "validity" / "pwws.json").unlink()
    again = steadfast("attack", "merge", "--output=parts")
    assert "validity is left out: pwws.shard-2-of-3 was not measured" in again.out
    assert not (parts / "validity" / "pwws.json").exists()
    both = steadfast("attack", "merge", "--output=parts", "--run=any")
    assert both.status == 1
    assert "expected one of them" in both.err


def test_validity_of_a_run(trained: Path, steadfast: Steadfast) -> None:
    del trained
    lexicon.write_wordnet(Path("res/corpora"))
    words = ["attack", "--run=done", "--attack=deepwordbug", "--attack.validity=true"]
    words += ["--attack.resources=res", "--num_samples=6", *QUIET]
    found = steadfast(words)
    assert found.status == 0, found.err
    folder = Path("runs/done/attacks/validity")
    names = ("deepwordbug.jsonl", "deepwordbug.json")
    expected = [lines_of(folder / name) for name in names]
    report, records = expected[1], lines(folder.parent / names[0])
    won = [one for one in records if one["outcome"] == "succeeded"]
    said = f"deepwordbug: {len(won)} adversarial texts, {report['valid']} valid"
    assert report["samples"] == 6
    assert report["succeeded"] == len(won) == len(expected[0])
    assert said in found.out
    for name in names:
        (folder / name).unlink()
        (folder.parent / name).unlink()
    for index in (1, 2):
        assert steadfast([*words, f"--attack.shard={index}/2"]).status == 0
        assert not (folder / "deepwordbug.json").exists()
    merged = steadfast("attack", "merge", "--run=done")
    assert merged.status == 0, merged.err
    assert said in merged.out
    assert [lines_of(folder / name) for name in names] == expected


def lines_of(path: Path) -> Any:
    """The content of a file of JSON or of JSON lines."""
    text = path.read_text()
    return json.loads(text) if path.suffix == ".json" else [*map(json.loads, text.splitlines())]


def test_calibration(attacked: Path, steadfast: Steadfast) -> None:
    del attacked
    for part in ("validation", "test"):
        folder = Path("corpora/snli_counterfactual")
        folder.mkdir(parents=True, exist_ok=True)
        head = "premise\thypothesis\tlabel\n"
        original = [f"A man sings song {i}.\tSomebody sings loudly.\t0\n" for i in range(20)]
        revised = [f"A man sings song {i}.\tNobody sings loudly.\t2\n" for i in range(20)]
        (folder / f"original_{part}.tsv").write_text(head + "".join(original))
        (folder / f"revised_{part}.tsv").write_text(head + "".join(revised))
    Path("prose.txt").write_text("somebody sings a song\nnobody sings loudly\n" * 20)
    found = steadfast(
        *(
            "attack",
            "validity",
            "--calibrate=corpora",
            "--resources=res",
            "--running_text=prose.txt",
        ),
        *("--sentence_encoder=nowhere", "--device=cpu"),
    )
    assert found.status == 0, found.err
    assert "limits, chosen on the validation parts: antonyms 0" in found.out
    (edited,) = [line for line in found.out.splitlines() if "edited to another label" in line]
    cells = [cell.strip() for cell in edited.strip("|").split("|")]
    assert cells[1:4] == ["20", "0.000", "1.000"]  # each edit puts a negation in
    nothing = steadfast("attack", "validity", "--calibrate=res", "--resources=res")
    assert nothing.status == 1
    assert "without pairs that people have judged" in nothing.err


def test_without_records(here: Path, steadfast: Steadfast) -> None:
    lexicon.write_wordnet(here / "res" / "corpora")
    Path("other.jsonl").write_text("{}\n")
    found = steadfast("attack", "validity", "--records=other.jsonl", "--resources=res")
    assert found.status == 1
    assert "a line that is no record" in found.err
