"""Training, certificates and attacks for perturbation sets of words, by the real command line."""

import json
import sys
from pathlib import Path
from subprocess import run

import pytest

from tests.integration.conftest import QUIET, REVIEWS, Steadfast, lines, results

CHECKER = Path(__file__).parents[2] / "docs/certificates/check_sets.py"
FRONT = ["--model=WordScores", "--model.words.split=joined", "--model.words.front_end=spelling"]
MODEL = [*FRONT, "--model.robustness.against=deepwordbug", "--model.robustness.kappa=0.9"]


def test_a_recipe_never_beats_the_certificate_of_its_set(here: Path, steadfast: Steadfast) -> None:
    fit = steadfast("fit", MODEL, REVIEWS, QUIET, "--trainer.max_epochs=2", "--run=a")
    assert fit.status == 0, fit.err
    attack = ["--run=a", "--attack=deepwordbug", "--num_samples=40", *QUIET]
    assert steadfast("attack", attack).status == 0

    certify = steadfast("certify", "--run=a", "--threat=deepwordbug", "--k", "1", "2", "all")
    assert certify.status == 0, certify.err
    metrics = results("a")["metrics"]
    certified = [metrics[f"certify_deepwordbug/accuracy@{k}"] for k in ("1", "2", "all")]
    assert certified == sorted(certified, reverse=True)
    assert certified[-1] > 0
    records = {line["sample_id"]: line for line in lines("runs/a/certificates_deepwordbug.jsonl")}
    outcomes = lines("runs/a/attacks/deepwordbug.jsonl")
    assert len(outcomes) == 40
    changed = [line for line in outcomes if line["outcome"] == "succeeded"]
    assert changed
    assert not any(records[line["sample_id"]]["holds"]["all"] for line in changed)
    # The table compares them, though the attack was not told of the set.
    (row,) = [line.split() for line in certify.out.splitlines() if line.endswith("deepwordbug")]
    assert row[0] == "all"
    assert float(row[1]) <= float(row[2])
    about = results("a")["about"]["certify_deepwordbug"]
    assert about["threat_from"]["sets"] == "deepwordbug"
    export = ["--run=a", "--threat=deepwordbug", "--k=all", "--output=claims"]
    outcome = steadfast("certify", "export", export)
    assert outcome.status == 0, outcome.err
    checked = run(
        [sys.executable, str(CHECKER), "claims"], capture_output=True, text=True, check=False
    )
    number = sum(line["holds"]["all"] for line in records.values())
    assert checked.stdout.startswith(f"{number} claims of any number of words"), checked.stderr

    text = "The food was good and the staff were freindly."
    sets = "--threat=typos,deepwordbug"
    answer = json.loads(steadfast("certify", "--run=a", sets, "--text", text, "--json").out)
    assert answer["kind"] == "exact"
    assert answer["reads"] == "the food was good and the staff were friendly."
    assert list(answer["holds"]) == ["1", "2", "3", "all"]
    assert [part["threat"] for part in answer["sets"]] == ["typos", "deepwordbug"]
    worst = answer["worst"][-1]
    (again,) = map(
        json.loads, steadfast("predict", "--run=a", "--text", worst["text"]).out.split("\n")[:1]
    )
    assert again["prediction"] == worst["prediction"]
    assert again["reads"] == worst["reads"]
    assert abs(worst["margin"]) == pytest.approx(again["margin"])
    (predicted,) = map(json.loads, steadfast("predict", "--run=a", "--text", text).out.splitlines())
    assert predicted["corrected"]["freindly"] == "friendly"
    (certificate,) = predicted["certificates"]
    assert certificate["threat"] == "deepwordbug"
    assert certificate["kind"] == "exact"
    report = steadfast("report", "--run=a")
    assert report.status == 0, report.err
    page = Path("runs/a/report/report.html").read_text()
    assert "as deepwordbug may replace it" in page
    assert page.index("Certified in words</h2>") < page.index("All figures</h2>")
    assert Path("runs/a/report/certified-words-1.svg").is_file()


def test_wrong_sets_are_one_line(here: Path, steadfast: Steadfast) -> None:
    plain = ["--model=WordScores", *REVIEWS, *QUIET, "--trainer.max_epochs=1"]
    for setting, message in (
        ("--model.robustness.against=nosuch", "got perturbation set 'nosuch', expected recipes"),
        ("--model.robustness.against=typos", "expected a model with words.split=joined"),
        ("--model.words.split=joined", "joined without words.front_end"),
        ("--model.words.front_end=spelling", "spelling with words.split=clitics, expected joined"),
    ):
        outcome = steadfast("fit", plain, setting, "--run=b")
        assert outcome.status in (1, 2)
        assert message in outcome.err, outcome.err
    assert steadfast("fit", plain, "--run=c").status == 0
    outcome = steadfast("certify", "--run=c", "--threat=typos")
    assert outcome.status == 1
    assert "got typos for words.front_end=none" in outcome.err
    window = [*FRONT, "--model.window=2", "--model.min_ngram_count=2"]
    outcome = steadfast("fit", window, REVIEWS, QUIET, "--trainer.max_epochs=1", "--run=d")
    assert outcome.status == 0, outcome.err
    outcome = steadfast("certify", "--run=d", "--threat=typos-splits")
    assert outcome.status == 1
    assert "a word may become two or none, for WordScores with window=2" in outcome.err
    outcome = steadfast("certify", "--run=d", "--threat=typos", "--text=good food")
    assert outcome.status == 0, outcome.err
    outcome = steadfast("certify", "export", "--run=d", "--threat=synonyms", "--output=claims")
    assert outcome.status in (1, 2)
    assert not Path("claims").exists()


def test_lists_of_a_run_and_of_a_file(here: Path, steadfast: Steadfast) -> None:
    fit = steadfast("fit", FRONT, REVIEWS, QUIET, "--trainer.max_epochs=1", "--run=a")
    assert fit.status == 0, fit.err
    outcome = steadfast("lists", "--from=typos", "--vocabulary=a", "--output=typos.json")
    assert outcome.status == 0, outcome.err
    lists = json.loads(Path("typos.json").read_text())
    assert lists
    assert all(word not in listed for word, listed in lists.items())
    Path("words.txt").write_text("good\ngod\nfilm\nfill\n")
    Path("lists.json").write_text('{"film": ["movie"]}')
    both = ["--from", "typos,lists.json", "--vocabulary=words.txt", "--output=both.json"]
    assert steadfast("lists", both).status == 0
    # "film" and "fill" are a typo of each other; "fil" is corrected to the first of them.
    assert json.loads(Path("both.json").read_text()) == {
        "good": ["god"],
        "god": ["good"],
        "film": ["movie", "fill"],
        "fill": ["film"],
    }
    # The file is one for certificates and for training.
    again = steadfast("certify", "--run=a", "--threat=synonyms", "--lists=both.json")
    assert again.status == 0, again.err
    for wrong, message in (
        (["--from=typos", "--vocabulary=nosuch"], "nosuch"),
        (["--from=typo", "--vocabulary=words.txt"], "got perturbation set 'typo'"),
        (["--from=lists.json", "--vocabulary=empty.txt"], "without words, expected one"),
    ):
        Path("empty.txt").write_text("\n")
        outcome = steadfast("lists", wrong, "--output=wrong.json")
        assert outcome.status == 1
        assert message in outcome.err, outcome.err
        assert not Path("wrong.json").exists()
