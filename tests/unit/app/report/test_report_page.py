"""The page: figures of runs that are checked by hand, contradictions, hostile texts."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

from app.cli.main import entry
from app.report.report_page import write_report
from certify.threats import Synonyms
from measure.evidence import read_evidence
from run_files.run_directory import RunDirectory
from run_files.terminal import harmless
from tests.run_command import run_command
from tests.unit.app.report.report_samples import certified_run, write_predictions, write_text_attack
from tests.unit.app.study.run_samples import digest, make_run, write_lines
from text.torch_archive import CHECKPOINT_FORMAT, CHECKPOINT_KEY

main = partial(run_command, "report")

VOID = {"meta", "link", "br", "img", "input", "hr"}
HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)">&amp;\u202e\x1b[2J{{ 7 * 7 }}'


class Page(HTMLParser):
    """The elements of a page and their attributes; fails where they are not nested."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            self.scripts.append(data)
        elif self._open and self._open[-1] not in ("style", "title", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def page(*runs: RunDirectory) -> tuple[Page, str]:
    text = write_report(runs).page.read_text()
    return Page(text), text


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


@pytest.mark.long
def test_figures_by_hand(runs: Path) -> None:
    run = certified_run(runs / "first")
    records = [([2.0, 0.0], 0, 0), ([0.0, 2.0], 1, 1), ([2.0, 0.0], 1, 0), ([2.0, 0.0], 0, 0)]
    write_predictions(run, [{"logits": z, "label": y, "prediction": p} for z, y, p in records])
    found, _ = page(run)
    assert "Accuracy on clean texts 0.750 0.301 to 0.954, 4 texts" in found.text  # Wilson
    assert "Accuracy under PGD" in found.text
    # Labels 0 1 1 0, predictions 0 1 0 0: F1 of class 0 is 4/5, of class 1 2/3.
    assert "0 0.800 0.667 1.000 2 1 0.667 1.000 0.500 2" in found.text
    assert "mean F1 0.733" in found.text
    # Confidence 0.8808 of all, accuracy 3/4.
    assert "Expected calibration error 0.131 of 4 texts" in found.text
    assert "Certified accuracy at radius 1 0.500" in found.text
    assert (
        "texts proved at eps 2 texts changed by PGD 1 texts of which nothing is proved 1"
        in found.text
    )
    assert "No contradiction in 4 texts." in found.text
    assert {path.name for path in (run.path / "report").iterdir()} == {
        *("report.html", "accuracy-over-radius.svg", "sandwich-1.svg", "reliability-1.svg"),
        "radii-1.svg",
    }


@pytest.mark.long
def test_a_contradiction_is_a_banner_and_status_1(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certified_run(runs / "sound")
    certified_run(runs / "broken", attacked=(1, 0, 0, 0))  # the radius of the second text is 1.5
    assert entry(["report", "--run", "sound"]) == 0
    out, err = capsys.readouterr()
    assert out == "runs/sound/report/report.html\n"
    assert "Contradiction" not in Path(out.strip()).read_text()
    assert entry(["report", "--run", "sound", "--run", "broken"]) == 1
    out, err = capsys.readouterr()
    assert out == "runs/sound/report_with_broken/report.html\n"
    assert "contradiction: run broken: an attack has changed 1 of 4 texts inside their" in err
    text = Path(out.strip()).read_text()
    found = Page(text)
    assert ("div", {"class": "banner", "role": "alert"}) in found.elements
    assert "Contradiction in broken An attack has changed 1 of 4 texts" in found.text
    assert "1 1.500 1 PGD 1.000 0" in found.text


@pytest.mark.long
def test_a_clean_text_with_two_answers_is_a_contradiction(runs: Path) -> None:
    run = certified_run(runs / "first")
    path = run.path / "pgd.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    records[3]["prediction"] = records[3]["pgd_prediction"] = 1
    write_lines(path, records)
    written = write_report([run])
    assert written.contradictions
    assert "no attack, in float32" in written.page.read_text()


@pytest.mark.long
@pytest.mark.parametrize("change", ["rows", "norm"])
def test_what_is_not_comparable_is_not_compared(runs: Path, change: str) -> None:
    run = certified_run(runs / "first", attacked=(1, 0, 0, 0))
    content = json.loads(run.results_path.read_text())
    if change == "rows":
        content["about"]["test"]["rows"] = {"test": "others"}
    else:
        content["about"]["test"]["pgd"]["norm"] = "linf"
    run.results_path.write_text(json.dumps(content))
    written = write_report([run])
    assert not written.contradictions
    text = written.page.read_text()
    assert "not compared" in text
    assert "Nothing was compared." in text
    assert "No contradiction" not in text


@pytest.mark.long
def test_texts_of_strangers_stay_texts(runs: Path) -> None:
    run = certified_run(runs / "first")
    write_text_attack(run, "typos", [(f"good {HOSTILE} end", f"bad {HOSTILE} end")])
    found, text = page(run)
    assert not {"img", "iframe", "object", "link"} & {n for n, _ in found.elements}
    assert not [a for _, own in found.elements for a in own if a.startswith("on")]
    assert "\u202e" not in text
    assert "\x1b" not in text
    # The texts are data of one script element; the other script is ours, and the policy names it.
    assert [own for n, own in found.elements if n == "script"] == [{"type": "application/json"}, {}]
    content, script = found.scripts
    assert "<" not in content
    (row,) = json.loads(content)["rows"]
    assert row["text"] == f"good {harmless(HOSTILE)} end"
    assert row["attacks"][0]["parts"][0] == ["good", "bad"]
    assert "".join(part for part in row["attacks"][0]["parts"][1:]).endswith("{{ 7 * 7 }} end")
    for _, own in found.elements:
        for name in ("href", "xlink:href", "src"):
            assert (own.get(name) or "#").startswith("#")  # nothing from elsewhere
    policy = [a["content"] for n, a in found.elements if "http-equiv" in a]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == [
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    ]


@pytest.mark.long
def test_a_name_of_an_attack_stays_a_name_in_pictures(runs: Path) -> None:
    run = certified_run(runs / "first")
    write_text_attack(run, "a<b>&'\"$x$", [("good", "bad")])
    found, _ = page(run)
    assert "b" not in {name for name, _ in found.elements}
    assert "a<b>&'\"$x$" in "".join(found.words)


def test_an_attack_with_errors_alone_is_listed_as_not_used(runs: Path) -> None:
    run = certified_run(runs / "first")
    write_text_attack(run, "typos", [("good", "bad"), ("fine", None)])
    path = run.path / "attacks" / "typos.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    write_lines(path, [r | {"outcome": "error", "reason": "status 500"} for r in records])
    evidence = read_evidence(run)
    assert evidence.attacks == ()
    assert evidence.unused == ("attacks/typos: every record is an error, the first: status 500",)


@pytest.mark.long
def test_the_page_can_be_read_without_eyes(runs: Path) -> None:
    run = certified_run(runs / "first")
    write_text_attack(run, "typos", [("good", "bad")])
    found, text = page(run, certified_run(runs / "second"))
    names = [name for name, _ in found.elements]
    assert names.count("h1") == names.count("main") == 1
    assert names.count("table") == names.count("caption")
    assert all(own.get("scope") in ("col", "row") for name, own in found.elements if name == "th")
    ids = [own["id"] for _, own in found.elements if own.get("id")]
    assert len(ids) == len(set(ids))
    pictures = [own for name, own in found.elements if name == "svg"]
    assert len(pictures) == 7
    assert all(own["role"] == "img" and own["aria-labelledby"] in ids for own in pictures)
    links = [own["href"] for name, own in found.elements if name == "a"]
    assert {str(link)[1:] for link in links} <= set(ids)
    assert "prefers-color-scheme: dark" in text


@pytest.mark.long
def test_the_same_runs_give_the_same_bytes(runs: Path) -> None:
    run = certified_run(runs / "first")
    first = {path.name: path.read_bytes() for path in write_report([run]).page.parent.iterdir()}
    second = {path.name: path.read_bytes() for path in write_report([run]).page.parent.iterdir()}
    assert first == second


@pytest.mark.long
def test_other_weights_are_named_and_not_used(runs: Path) -> None:
    run = certified_run(runs / "first", attacked=(1, 0, 0, 0))
    write_text_attack(run, "typos", [("good", "bad")], checkpoint="f" * 64)
    path = run.path / "pgd.jsonl"
    path.write_text(
        re.sub(r'"checkpoint": "\w+"', '"checkpoint": "0123456789ab"', path.read_text())
    )
    content = json.loads(run.results_path.read_text())
    content["about"]["test"]["checkpoint"] = "0123456789ab"
    run.results_path.write_text(json.dumps(content))
    (run.path / "others" / "step-1-x").mkdir(parents=True)
    evidence = read_evidence(run)
    assert evidence.pgd is None
    assert not evidence.attacks
    assert set(evidence.metrics) == {"certify/accuracy@1"}
    assert list(evidence.unused) == [
        "results.json, test: of other weights (0123456789ab)",
        "pgd.jsonl: of other weights (0123456789ab)",
        "attacks/typos: of other weights (ffffffffffff)",
        "others/step-1-x: of other weights or other rows",
    ]
    written = write_report([run])
    assert not written.contradictions
    assert "pgd.jsonl: of other weights" in written.page.read_text()


def test_a_run_that_is_only_trained(runs: Path) -> None:
    run = make_run(runs / "new", metrics={}, about={})
    run.results_path.unlink()
    found, _ = page(run)
    assert "No figure was measured." in found.text
    for command in ("test", "predict", "certify", "attack"):
        assert f"python -m steadfast {command} --run new" in found.text


def test_certificates_in_words_are_main_figures(runs: Path) -> None:
    names = {"certify_synonyms": None, "certify_words-smooth": {"smooth": "delete", "alpha": 0.05}}
    about: dict[str, dict[str, Any]] = {
        stage: {"threat": {"name": "synonyms"}, "k": ["1", "all"], "split": "test", "around": one}
        for stage, one in names.items()
    }
    about["certify_synonyms-dev"] = {**about["certify_synonyms"], "split": "validation"}
    values = {"accuracy": 0.75, "accuracy@1": 0.5, "accuracy@all": 0.25, "samples": 4.0}
    metrics = {f"{stage}/{key}": value for stage in about for key, value in values.items()}
    found, _ = page(make_run(runs / "words", metrics=metrics, about=about))
    assert "synonyms: accuracy 0.750 0.301 to 0.954, 4 texts" in found.text
    assert "synonyms: certified accuracy, k = all 0.250" in found.text
    assert "words-smooth: certified accuracy, k = 1, with confidence 0.95 0.500" in found.text
    assert "synonyms-dev" not in found.text
    assert "No figure was measured" not in found.text


def test_without_certificates_the_reason_is_given(runs: Path) -> None:
    run = make_run(runs / "plain", metrics={"test/accuracy": 0.5})
    content = json.loads(run.results_path.read_text())
    run.results_path.write_text(json.dumps({**content, "no_certificate": "a Transformer has none"}))
    found, _ = page(run)
    assert "Certified radii: a Transformer has none." in found.text
    assert "python -m steadfast certify --run plain --threat" in found.text
    assert found.text.count("steadfast certify") == 1


@pytest.mark.long
def test_accuracy_over_the_radii_of_a_sweep(runs: Path) -> None:
    run = certified_run(runs / "first")
    records = [json.loads(line) for line in (run.path / "pgd.jsonl").read_text().splitlines()]
    swept = [{**one, "survived@0.25": i < 3, "survived@2": False} for i, one in enumerate(records)]
    write_lines(run.path / "pgd.jsonl", swept)
    _, text = page(run)
    points = ("0.750 under PGD at 0", "0.750 under PGD at 0.25", "0.500 under PGD at 1")
    assert "; ".join(f"first: {one}" for one in (*points, "0.000 under PGD at 2")) in text


@pytest.mark.parametrize(
    ("task", "metrics", "record"),
    [
        ("regression", {"test/spearman": 0.6}, {"label": 2.5, "prediction": 2.0, "logits": [2.0]}),
        (
            "tagging",
            {"test/f1": 0.6, "test/accuracy": 0.9},
            {"label": [0, 1], "prediction": [0, 0], "logits": [[1.0, 0.0], [1.0, 0.0]]},
        ),
    ],
)
def test_other_tasks(
    runs: Path, monkeypatch: pytest.MonkeyPatch, task: str, metrics: Any, record: Any
) -> None:
    run = make_run(runs / "other", metrics=metrics)
    write_predictions(run, [record])
    known = {"task": task, "class_names": []}
    monkeypatch.setattr("measure.evidence.checkpoint_text", lambda run: known)
    found, _ = page(run)
    assert f"not for a {task}" in found.text
    assert "0.600" in found.text
    assert "Confusion matrix:" not in found.text


def test_pages_of_wrong_commands(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certified_run(runs / "first")
    assert entry(["report"]) == 2
    assert entry(["report", "--run", "third"]) == 1
    assert "there are: first" in capsys.readouterr().err
    (runs / "first" / "pgd.jsonl").write_text("no JSON\n")
    assert entry(["report", "--run", "first"]) == 1
    assert "pgd.jsonl with other lines than records of samples" in capsys.readouterr().err
    assert not (runs / "first" / "report").exists()


@pytest.mark.long
def test_another_folder(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certified_run(runs / "first")
    assert main(["--run", "first", "--run", "first", "--output", "here"]) == 0
    assert capsys.readouterr().out == "here/report.html\n"


LISTS = {"good": ["fine"], "film": ["movie"], "<b>": ["bold"]}


def words_run(
    path: Path, *, around: dict[str, Any] | None = None, lists_file: str | None = None
) -> RunDirectory:
    """Two texts, both right and certified for one word, the first one for all of them."""
    lists = path.parent.parent / "lists.json"
    lists.write_text(json.dumps(LISTS))
    threat = Synonyms.read(lists, k=None)
    about = {
        "k": ["1", "all"],
        "split": "test",
        "around": around,
        "threat": {"name": "synonyms", "digest": threat.digest, "statement": threat.statement},
        "threat_from": {"lists": lists_file or str(lists), "words": threat.words.split},
    }
    values = {"accuracy": 1.0, "accuracy@1": 1.0, "accuracy@all": 0.5, "samples": 2.0}
    metrics = {f"certify_synonyms/{key}": value for key, value in values.items()}
    run = make_run(path, metrics=metrics, about={"certify_synonyms": about})
    known = {
        "label": 0,
        "prediction": 0,
        "class": "bad",
        "kind": "exact",
        "cut": False,
        "unknown": 0,
    }
    known |= {} if around is None else {"confidence": 0.95}
    texts = [("a good film", None, "all"), (f"a good film {HOSTILE}", "a fine film <b>", "1")]
    write_lines(
        path / "certificates_synonyms.jsonl",
        [
            {"sample_id": i, "text": text, "witness": witness, "certified": certified}
            | {"witness_class": None if witness is None else "good"}
            | {"holds": {"1": True, "all": certified == "all"}}
            | {**known, "checkpoint": digest(path)[:12]}
            for i, (text, witness, certified) in enumerate(texts)
        ],
    )
    return run


def attack_inside(run: RunDirectory, name: str, k: str, *changed: str | None) -> None:
    threat = Synonyms.read(run.path.parent.parent / "lists.json", k=None)
    texts = ("a good film", f"a good film {HOSTILE}")
    about = {"name": "synonyms", "k": k, "digest": threat.digest}
    write_text_attack(run, name, list(zip(texts, changed, strict=True)), threat=about)


@pytest.mark.long
def test_certificates_in_words_below_attacks(runs: Path) -> None:
    run = words_run(runs / "words")
    attack_inside(run, "pwws", "all", None, f"a fine movie {HOSTILE}")
    attack_inside(run, "random", "1", None, None)
    found, _ = page(run)
    assert "exact: 2 texts." in found.text
    whole = "1.000 0.342 to 1.000, 2 texts"  # Wilson
    half = "0.500 0.095 to 0.905, 2 texts"
    assert f"1 {whole} {whole} {whole} random all {half} {half} {half} pwws" in found.text
    rows = {row["id"]: row for row in json.loads(found.scripts[0])["rows"]}
    assert [row["sets"][0]["certified"] for row in (rows[0], rows[1])] == ["all", "1"]
    witness = rows[1]["sets"][0]
    assert (witness["class"], witness["parts"][:2]) == ("good", ["a ", ["good", "fine"]])
    assert "Contradiction" not in found.text


@pytest.mark.long
def test_a_report_of_files_loads_no_library_of_models(runs: Path) -> None:
    run = words_run(runs / "words")
    attack_inside(run, "pwws", "all", None, f"a fine movie {HOSTILE}")
    part = {"format": CHECKPOINT_FORMAT, "task": "classification", "class_names": ["poor", "fine"]}
    before = digest(run.path)
    torch.save({CHECKPOINT_KEY: part, "w": torch.zeros(2)}, run.best)
    # The records are about the weights in the new file.
    for path in (*run.path.glob("*.json*"), *run.path.glob("attacks/*.json")):
        content = path.read_text().replace(before, digest(run.path))
        path.write_text(content.replace(before[:12], digest(run.path)[:12]))
    code = (
        "import sys; from pathlib import Path\n"
        "from app.report.site import write_site; from run_files.run_directory import RunDirectory\n"
        "write_site([RunDirectory(Path(sys.argv[1]))], Path('site'))\n"
        "slow = {'torch', 'pytorch_lightning', 'transformers', 'lit_modules'}\n"
        "print(*slow & sys.modules.keys())"
    )
    command = [sys.executable, "-c", code, str(run.path)]
    root = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=root)
    assert done.stdout == "\n"
    found = Page(Path("site/words/report.html").read_text())
    # The names are in the checkpoint alone, and the sets were compared with the attack.
    assert "poor" in found.text
    assert "not compared with attacks" not in found.text
    assert "exact: 2 texts" in found.text


@pytest.mark.long
@pytest.mark.parametrize(("name", "k"), [("pwws", "all"), ("random", "1")])
def test_a_contradiction_in_words_is_a_banner_and_status_1(
    runs: Path, capsys: pytest.CaptureFixture[str], name: str, k: str
) -> None:
    run = words_run(runs / "words")
    attack_inside(run, name, k, "a fine film", None)
    assert entry(["report", "--run", "words"]) == 1
    out, err = capsys.readouterr()
    said = "an attack has changed 1 of 2 texts inside their certificate in words (synonyms: sam"
    assert f"contradiction: run words: {said}ples 0)" in err
    found = Page(Path(out.strip()).read_text())
    assert ("div", {"class": "banner", "role": "alert"}) in found.elements
    assert f"Contradiction in words A{said[1:]}ples 0)" in found.text


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("lists", "not compared with attacks: lists.json has other lists than those of the"),
        *(
            pytest.param(change, f"not compared with attacks: {why}", marks=pytest.mark.long)
            for change, why in (
                ("file", "got lists.json, not found"),
                ("version", "an earlier version has certified these texts"),
                ("around", "these are on the model itself"),
            )
        ),
    ],
)
def test_certificates_of_another_set_or_classifier_are_not_compared(
    runs: Path, change: str, why: str
) -> None:
    around = {"smooth": "mask", "alpha": 0.05} if change == "around" else None
    run = words_run(runs / "words", around=around, lists_file="lists.json")
    attack_inside(run, "pwws", "all", "a fine film", None)
    if change == "lists":
        Path("lists.json").write_text(json.dumps({"good": ["fine"]}))
    elif change == "file":
        Path("lists.json").unlink()
    elif change == "version":
        content = json.loads(run.results_path.read_text())
        del content["about"]["certify_synonyms"]["threat_from"]
        run.results_path.write_text(json.dumps(content))
    written = write_report([run])
    assert not written.contradictions
    found = Page(written.page.read_text())
    assert why in found.text
    assert "of the attacked texts" not in found.text
    if change == "around":
        assert "each with confidence 0.95, of the smoothed classifier" in found.text
