"""`certify --threat` by the real command line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from certify.smoothing import SmoothedCertifier
from certify.threats import TextCertificate
from tests.faults.injection import KillAtHook
from tests.faults.program import Machine
from tests.integration.conftest import QUIET, REVIEWS, ROOT, TINY, Steadfast, lines, results

LISTS = {"good": ["fine", "great"], "bad": ["poor", "dull"], "the": ["this"], "was": ["is"]}


def test_certify_threat(here: Path, steadfast: Steadfast) -> None:
    Path("lists.json").write_text(json.dumps(LISTS))
    split = ["--model.words.split=ascii", "--model.robustness.against=synonyms"]
    fit = ["--model=WordScores", *split, "--model.robustness.lists=lists.json", *REVIEWS, *TINY]
    outcome = steadfast("fit", fit, "--trainer.max_epochs=1", "--run=a")
    assert outcome.status == 0, outcome.err

    synonyms = ["--run=a", "--threat=synonyms", "--lists=lists.json"]
    outcome = steadfast("certify", synonyms, "--k", "all", "1", "--num_samples=40")
    assert outcome.status == 0, outcome.err
    metrics = results("a")["metrics"]
    names = ("accuracy", "accuracy@1", "accuracy@all")
    found = [metrics[f"certify_synonyms/{name}"] for name in names]
    assert found == sorted(found, reverse=True)
    records = lines("runs/a/certificates_synonyms.jsonl")
    assert len(records) == 40
    right = [r["prediction"] == r["label"] and r["holds"]["all"] for r in records]
    assert sum(right) / 40 == found[2]
    assert Path("runs/a/certificates_synonyms.png").stat().st_size > 1000
    about = results("a")["about"]["certify_synonyms"]
    assert about["threat"]["digest"]
    assert about["checkpoint"]

    inside = ["--attack.threat.kind=characters", "--attack.threat.k=1"]
    outcome = steadfast(
        "attack", "--run=a", "--attack=deepwordbug", inside, "--num_samples=10", QUIET
    )
    assert outcome.status == 0, outcome.err
    assert results("a")["about"]["attack/deepwordbug"]["threat"]["name"] == "characters"
    outcome = steadfast("certify", "--run=a", "--threat=characters", "--num_samples=10")
    assert outcome.status == 0, outcome.err
    (sandwich,) = [line.split() for line in outcome.out.splitlines() if "deepwordbug" in line]
    assert float(sandwich[1]) <= float(sandwich[2])
    assert sandwich[0] == "1"

    for threat in ("characters", "words"):
        more = ["--run=a", f"--threat={threat}", "--k", "1", "--num_samples=10"]
        outcome = steadfast("certify", more)
        assert outcome.status == 0, outcome.err
        assert 0 <= results("a")["metrics"][f"certify_{threat}/accuracy@1"] <= 1
    assert metrics.items() <= results("a")["metrics"].items()

    outcome = steadfast("certify", synonyms, "--text", "The food was good.")
    answer = json.loads(outcome.out)
    assert answer["kind"] == "exact"
    assert answer["text"] == "The food was good."

    # Another split under another name.
    more = ["--split=validation", "--tag=held-out", "--num_samples=5"]
    assert steadfast("certify", synonyms, more).status == 0
    assert "certify_synonyms-held-out/accuracy" in results("a")["metrics"]

    # Certificates of more texts are not lost to those of fewer.
    before = Path("runs/a/certificates_synonyms.jsonl").read_text()
    fewer = steadfast("certify", synonyms, "--num_samples=39")
    assert fewer.status == 1
    assert "got --num_samples 39, and 40 samples in runs/a/certificates_syn" in fewer.err
    assert "file this with another --tag, or delete runs/a/certificates_synonyms.*" in fewer.err
    assert Path("runs/a/certificates_synonyms.jsonl").read_text() == before


def test_a_model_with_attention(here: Path, steadfast: Steadfast) -> None:
    small = ["--model=OLSA", "--model.heads=2", "--model.width=8", "--trainer.max_epochs=1"]
    assert steadfast("fit", small, REVIEWS, TINY, "--run=c").status == 0
    Path("lists.json").write_text(json.dumps(LISTS))
    synonyms = ["--run=c", "--threat=synonyms", "--lists=lists.json"]
    assert steadfast("certify", synonyms, "--num_samples=5").status == 0
    lines = Path("runs/c/certificates_synonyms.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["exact"] * 5
    assert results("c")["metrics"]["certify_synonyms/samples"] == 5


def test_what_is_refused(here: Path, steadfast: Steadfast) -> None:
    small = ["--model=TextClassifier", "--model.encoder=lstm", "--model.hidden=4"]
    short = ["--model.depth=1", "--model.width=8", "--trainer.max_epochs=1"]
    assert steadfast("fit", small, short, REVIEWS, TINY, "--run=b").status == 0
    Path("lists.json").write_text(json.dumps(LISTS))
    outcome = steadfast("certify", "--run=b", "--threat=synonyms", "--lists=lists.json")
    assert outcome.status == 1
    assert "encoder=lstm (transformer and mean have one), without a certificate" in outcome.err
    assert "WordScores" in outcome.err
    for wrong, said in (
        (["--threat=synonyms"], "no lists for synonyms"),
        (["--threat=characters", "--k=-1"], "or all"),
        (["--threat=characters", "--k", "all"], "got k=all"),
        (["--threat=characters", "--k", "0"], "got --k 0 alone, which changes nothing"),
        (["--threat=characters", "--text", " "], "got the empty text ' ' for --text"),
        (["--threat=nosuch"], "got perturbation set 'nosuch'"),
    ):
        outcome = steadfast("certify", "--run=b", wrong)
        assert outcome.status in (1, 2)
        assert said in outcome.err, outcome.err


@pytest.mark.parametrize(
    ("window", "hidden"),
    [(1, 0), *(pytest.param(*case, marks=pytest.mark.slow) for case in [(2, 0), (2, 4)])],
)
def test_a_stranger_checks_the_claims(
    here: Path, steadfast: Steadfast, window: int, hidden: int
) -> None:
    Path("lists.json").write_text(json.dumps(LISTS))
    model = ["--model=WordScores", "--model.words.split=ascii", f"--model.window={window}"]
    more = [f"--model.net.hidden={hidden}"] if hidden else ["--model.min_ngram_count=2"]
    fit = [*model, *more, *REVIEWS, *TINY]
    assert steadfast("fit", fit, "--trainer.max_epochs=1", "--run=a").status == 0
    asked = [(["--threat=synonyms", "--lists=lists.json"], "all")]
    asked += [(["--threat=synonyms", "--lists=lists.json"], "1")]
    asked += [(["--threat=characters"], "1")] if window == 1 else []
    to, threat, k = "", [""], ""
    for number, (threat, k) in enumerate(asked):
        few = ["--num_samples=12"]
        assert steadfast("certify", "--run=a", threat, "--k", k, few).status == 0
        to = f"claims{number}"
        outcome = steadfast("certify", "export", "--run=a", threat, f"--k={k}", f"--output={to}")
        assert outcome.status == 0, outcome.err
        count, name = len(Path(to, "claims.jsonl").read_text().split("\n")) - 1, threat[0][9:]
        assert checked(to) == (0, f"{count} claims of {name}, k={k} hold")
    # Another text, other weights, no claim at all.
    path = Path(to, "claims.jsonl")
    kept = path.read_text()
    wrong = [json.loads(line) for line in kept.splitlines()]
    path.write_text(json.dumps(wrong[0] | {"text": wrong[0]["text"] + " more"}) + "\n")
    assert checked(to)[0] == 1
    path.write_text("")
    assert checked(to)[0] == 1
    path.write_text(kept)
    statement = Path(to, "statement.json")
    statement.write_text(statement.read_text().replace('"weights": "', '"weights": "0'))
    assert checked(to)[0] == 1
    refused = steadfast("certify", "export", "--run=a", threat, "--k=7", "--output=other")
    assert "expected one of" in refused.err
    Path("other").mkdir()
    refused = steadfast("certify", "export", "--run=a", threat, f"--k={k}", "--output=other")
    assert "which exists" in refused.err


def test_only_what_was_certified_is_exported(here: Path, steadfast: Steadfast) -> None:
    Path("lists.json").write_text(json.dumps(LISTS))
    Path("more.json").write_text(json.dumps({**LISTS, "food": ["meal"]}))
    model = ["--model=WordScores", "--model.words.split=ascii", "--trainer.max_epochs=1"]
    assert steadfast("fit", model, REVIEWS, TINY, "--run=a").status == 0
    synonyms = ["--run=a", "--threat=synonyms", "--k"]
    few = ["--num_samples=12"]
    to = ["--output=claims"]
    refused = steadfast("certify", "export", synonyms, "all", "--lists=lists.json", to)
    assert refused.status == 1
    assert "got no certificates_synonyms in runs/a" in refused.err
    assert steadfast("certify", synonyms, "all", few, "--lists=lists.json").status == 0

    def told(*more: Any) -> str:
        outcome = steadfast("certify", "export", *more, to)
        assert outcome.status == 1
        assert not Path("claims").exists()
        (line,) = outcome.err.strip().splitlines()
        return line

    # Other lists, another number, another certifier, records of another certification.
    assert "(threat" in told(synonyms, "all", "--lists=more.json")
    assert "expected one of all" in told(synonyms, "1", "--lists=lists.json")
    smooth = ["--smooth=delete", "--draws=20", "--alpha=0.1", "--tag=b"]
    assert steadfast("certify", synonyms, "all", few, "--lists=lists.json", smooth).status == 0
    assert "(around" in told(synonyms, "all", "--lists=lists.json", "--tag=b")
    tagged = ["--lists=more.json", "--tag=c"]
    assert steadfast("certify", synonyms, "all", few, tagged).status == 0
    # As a kill between the records and `results.json` leaves them.
    Path("runs/a/certificates_synonyms-c.jsonl").rename("runs/a/certificates_synonyms.jsonl")
    assert "(records" in told(synonyms, "all", "--lists=lists.json")
    # Other weights: trained further under the same name.
    assert steadfast("certify", synonyms, "all", few, "--lists=lists.json").status == 0
    about = results("a")["about"]["certify_synonyms"]["checkpoint"]
    content = Path("runs/a/results.json").read_text()
    Path("runs/a/results.json").write_text(content.replace(about, "0" * 64))
    assert "(checkpoint" in told(synonyms, "all", "--lists=lists.json")
    Path("runs/a/results.json").write_text(content)
    assert steadfast("certify", "export", synonyms, "all", "--lists=lists.json", to).status == 0
    assert checked("claims")[0] == 0


def checked(folder: str) -> tuple[int, str]:
    """The checker, without this project on its path."""
    command = [sys.executable, "-I", str(ROOT / "docs/certificates/check.py"), folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip()


def test_around_a_model(here: Path, steadfast: Steadfast) -> None:
    Path("lists.json").write_text(json.dumps(LISTS))
    lists = "--lists=lists.json"
    cnn = ["--model=TextCNN", "--model.width=8", "--model.robustness.against=synonyms"]
    fit = [*cnn, "--model.robustness.lists=lists.json", *REVIEWS, *TINY]
    assert steadfast("fit", fit, "--trainer.max_epochs=1", "--run=a").status == 0
    synonyms = ["--run=a", "--threat=synonyms", lists, "--num_samples=5"]
    outcome = steadfast("certify", synonyms)
    assert outcome.status == 0, outcome.err
    assert {one["kind"] for one in lines("runs/a/certificates_synonyms.jsonl")} == {"lower bound"}

    for noise in ("mask", "delete", "substitute"):
        more = [f"--smooth={noise}", f"--tag={noise}", "--draws=20", "--alpha=0.1"]
        outcome = steadfast("certify", synonyms, more)
        assert outcome.status == 0, outcome.err
        (kind,) = {one["kind"] for one in lines(f"runs/a/certificates_synonyms-{noise}.jsonl")}
        assert kind == "probabilistic"
    outcome = steadfast("certify", synonyms, "--smooth=mask")
    assert outcome.status == 1
    assert "without --tag" in outcome.err
    text = ["--text", "a good film", "--json"]
    outcome = steadfast("certify", synonyms, "--smooth=mask", "--draws=20", text)
    answer, model = (json.loads(o.out) for o in (outcome, steadfast("predict", "--run=a", text)))
    assert answer["kind"] == "probabilistic"
    assert (answer["model_class"], answer["margin"]) == (model["prediction"], model["margin"])

    # An attack on the model says nothing about the smoothed classifier around it.
    inside = ["--attack.threat.kind=words", "--attack.threat.k=1", "--num_samples=5"]
    outcome = steadfast("attack", "--run=a", "--attack=deepwordbug", inside, QUIET)
    assert outcome.status == 0, outcome.err
    words = ["--run=a", "--threat=words", "--k", "1", "--num_samples=5", "--draws=20"]
    outcome = steadfast("certify", words, "--smooth=delete", "--tag=smooth")
    assert outcome.status == 0, outcome.err
    assert "deepwordbug" not in outcome.out
    kept = ["--smooth=delete", "--rate=0.5", "--keep=4", "--tag=kept"]
    outcome = steadfast("certify", words, kept)
    assert outcome.status == 0, outcome.err
    assert results("a")["about"]["certify_words-kept"]["around"]["keep"] == 4
    outcome = steadfast("certify", words, "--smooth=mask", "--keep=4", "--tag=x")
    assert outcome.status == 1
    assert (
        "got smoothing.keep=4.0, expected a number above 0, and smoothing.noise=delete"
        in outcome.err
    )

    Path("texts.txt").write_text("the food was good\nthis was great\n")
    texts = ["--texts=texts.txt", "--output=encoding.json", "--fidelity=0.2"]
    outcome = steadfast("resources", "encode-words", lists, texts)
    assert outcome.status == 0, outcome.err
    outcome = steadfast("certify", synonyms, "--encoding=encoding.json", "--tag=encoded")
    assert outcome.status == 0, outcome.err
    assert "certify_synonyms-encoded/accuracy@all" in results("a")["metrics"]

    # A list of all inputs certifies what the intervals do, and more.
    outcome = steadfast("certify", synonyms, "--list=64", "--tag=listed")
    assert outcome.status == 0, outcome.err
    assert "inputs listed, " in outcome.out
    bounds = lines("runs/a/certificates_synonyms.jsonl")
    listed = lines("runs/a/certificates_synonyms-listed.jsonl")
    for bound, exact in zip(bounds, listed, strict=True):
        assert exact["holds"]["1"] >= bound["holds"]["1"] or exact["kind"] == "lower bound"
        assert 1 <= exact["passes"] <= 64
    assert results("a")["about"]["certify_synonyms-listed"]["around"] == {"list": 64}
    outcome = steadfast("certify", synonyms, "--list=64", "--smooth=mask", "--tag=x")
    assert outcome.status == 1
    assert "got several of --smooth, --encoding and --list" in outcome.err


def test_a_certification_that_is_stopped_goes_on(
    here: Path, steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    cnn = ["--model=TextCNN", "--model.width=8", *REVIEWS, *TINY]
    assert steadfast("fit", cnn, "--trainer.max_epochs=1", "--run=a").status == 0
    asked = ["--run=a", "--threat=words", "--smooth=delete", "--draws=20", "--num_samples=5"]
    certify, texts = SmoothedCertifier._certified, list[str]()

    def stopped(self: SmoothedCertifier, text: str, ks: Any) -> TextCertificate:
        texts.append(text)
        if len(texts) == 4:
            raise KeyboardInterrupt
        return certify(self, text, ks)

    with monkeypatch.context() as patched:
        patched.setattr(SmoothedCertifier, "_certified", stopped)
        assert steadfast("certify", asked, "--tag=a").status == 130
    assert "certify_words-a" not in results("a")["about"]
    other = steadfast("certify", asked, "--tag=a", "--rate=0.5")
    assert other.status == 1
    assert "of a command that has not ended, with other settings (around" in other.err
    outcome = steadfast("certify", asked, "--tag=a")
    assert outcome.status == 0, outcome.err
    assert "3 samples were done before" in outcome.err
    assert steadfast("certify", asked, "--tag=b").status == 0
    both = [lines(f"runs/a/certificates_words-{tag}.jsonl") for tag in "ab"]
    assert both[0] == both[1]
    assert not list(Path("runs/a").glob("*journal*"))


def test_edits_of_lips_lev(here: Path, steadfast: Steadfast) -> None:
    fit = ["--model=LipsLev", "--model.width=8", "--model.max_length=300", *REVIEWS, *TINY]
    outcome = steadfast("fit", fit, "--trainer.max_epochs=1", "--run=a")
    assert outcome.status == 0, outcome.err
    outcome = steadfast("certify", "--run=a", "--threat=characters", "--num_samples=5")
    assert outcome.status == 0, outcome.err
    assert {one["kind"] for one in lines("runs/a/certificates_characters.jsonl")} == {"lower bound"}
    printed = ["--run=a", "--threat=characters", "--num_samples=5", "--bound=paper"]
    outcome = steadfast("certify", printed)
    assert outcome.status == 1
    assert "got --smooth, --encoding or --bound paper without --tag" in outcome.err
    outcome = steadfast("certify", printed, "--tag=paper")
    assert outcome.status == 0, outcome.err
    assert "claimed, %" in outcome.out
    records = lines("runs/a/certificates_characters-paper.jsonl")
    assert {one["kind"] for one in records} == {"unproven"}


@pytest.mark.parametrize(
    "part", [[], pytest.param(["--trainer.limit_test_batches=4"], marks=pytest.mark.slow)]
)
def test_radii_of_a_killed_command_are_kept(
    here: Path, steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch, part: list[str]
) -> None:
    small = ["--model=OLSA", "--model.heads=2", "--model.width=8", "--trainer.max_epochs=1"]
    assert steadfast("fit", small, REVIEWS, TINY, "--run=a").status == 0
    certify = ["certify", "--run=a", *QUIET, *part]
    third = KillAtHook("__call__", 2, owner=("certify", "Certifier"))
    killed = Machine(here).run(certify, faults=[third], STEADFAST_REVISION="before")
    assert killed.status == -9, killed.err
    written = lines("runs/a/certificates.parts/rank-0.jsonl")
    assert sum("sample_id" in line for line in written) == 2 * 128
    # A commit in between is no other program.
    monkeypatch.setenv("STEADFAST_REVISION", "after")
    outcome = steadfast(*certify)
    assert outcome.status == 0, outcome.err
    assert "256 samples were done before" in outcome.err
    resumed = lines("runs/a/certificates.jsonl")
    assert steadfast(*certify).status == 0
    assert resumed == lines("runs/a/certificates.jsonl")
    assert not Path("runs/a/certificates.parts").exists()
