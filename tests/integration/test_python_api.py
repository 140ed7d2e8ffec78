"""`import steadfast as sf`: load, predict, attack, certify, train and read runs in Python."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lit_modules  # noqa: F401 (this process may train: `sf.load` must not set that it does not)
import steadfast as sf
from steadfast.record_tables import RecordTable
from tests.integration.conftest import ROOT, Steadfast

TEXTS = ["great soup and a friendly waiter", "bland food and a rude waiter"]
PAGE = (ROOT / "docs" / "python.md").read_text()


def test_a_model_predicts_attacks_and_reads_its_run(trained: Path) -> None:
    model = sf.load(trained)
    assert repr(model) == f"<Model {trained}: OLSA, negative, positive>"
    predictions = model.predict(TEXTS)
    assert model.module is not None
    expected = model.module.predict_texts(TEXTS).argmax(1)
    assert predictions.labels == [model.classes[i] for i in expected]
    assert predictions[0]["text"] == TEXTS[0]
    attacked = model.attack([(TEXTS[0], "positive"), (TEXTS[1], 0)], query_budget=30)
    assert [record["label"] for record in attacked] == [1, 0]
    assert attacked.summary.samples == 2
    assert "deepwordbug" in repr(attacked)
    run = sf.read_run("done")
    assert run.metrics == json.loads((trained / "results.json").read_text())["metrics"]
    assert "<Run done: " in repr(run)
    assert {"test/accuracy"} <= {*run.to_pandas()["name"]}
    assert run.model().predict(TEXTS).labels == predictions.labels
    checkpoint = trained / "checkpoints" / "best.ckpt"
    assert sf.load(checkpoint).predict(TEXTS)[:] == predictions[:]


def test_records_in_a_notebook_a_frame_and_files(trained: Path) -> None:
    model = sf.load("done")
    samples = [("<b>great</b> soup and a friendly waiter", "positive")] * 3
    pages: list[str] = []
    tables: list[RecordTable] = [model.predict(TEXTS), model.attack(samples, query_budget=200)]
    for table in tables:
        assert len(table.to_pandas()) == len(table) == len(table[:])
        lines = table.save("records.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == json.loads(json.dumps(table[:]))
        rows = list(csv.DictReader(table.save("records.csv").read_text().splitlines()))
        assert [row["text"] for row in rows] == [record["text"] for record in table]
        pages.append(page := table.save("records.html").read_text())
        assert page == table._repr_html_()
        # Texts come from an attacker: they are never HTML.
        assert "<b>" not in page
        (axes,) = table.plot().axes
        assert axes.get_xlabel()
    assert "&lt;" in pages[1]
    if any(record["outcome"] == "succeeded" for record in tables[1]):
        assert "<del>" in pages[1]
    with pytest.raises(ValueError, match=r"got records\.xlsx .*expected a file with \.jsonl"):
        tables[0].save("records.xlsx")
    assert not Path("records.xlsx").exists()


@pytest.mark.slow
def test_certificates_in_words(here: Path, steadfast: Steadfast) -> None:
    run = sf.train(
        None,
        "Reviews",
        run="words",
        model="WordScores",
        model__words__split="joined",
        model__words__front_end="spelling",
        model__window=1,
        data__limit_train=200,
        trainer__max_epochs=1,
        trainer__accelerator="cpu",
    )
    model = run.model()
    (record,) = model.certify(TEXTS[:1], against="typos", k=[1, "all"])
    words = ["certify", "--run=words", "--threat=typos", "--k", "1", "all", "--text", TEXTS[0]]
    (expected,) = (json.loads(line) for line in steadfast(words, "--json").out.splitlines())
    assert record["holds"] == expected["holds"]
    table = model.certify(TEXTS, against="typos")
    shares = table.shares()["typos"]
    assert list(shares) == ["1", "2", "3", "all"]
    for k, share in shares.items():
        assert share == sum(record["holds"][k] for record in table) / 2
    assert "typo" in table._repr_html_()
    with pytest.raises(ValueError, match=r"without perturbation sets .*expected against="):
        model.certify(TEXTS)
    with pytest.raises(ValueError, match="did you mean typos"):
        model.certify(TEXTS, against="typo")


def test_wrong_input_is_one_error(trained: Path) -> None:
    model = sf.load("done")
    with pytest.raises(ValueError, match=r"got one string .*expected a list of texts"):
        model.predict("great soup")
    with pytest.raises(ValueError, match="neutral"):
        model.attack([("great soup", "neutral")])
    with pytest.raises(OSError, match=r"got run 'nope', .*there are: done"):
        sf.load("nope")
    with pytest.raises(OSError, match="nope"):
        sf.read_run("nope")
    with pytest.raises(AttributeError, match="no attribute 'laod'"):
        sf.laod  # noqa: B018 # is no name


@pytest.mark.slow
def test_a_failed_training_is_an_error(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match=r"got exit status \d of `steadfast train"):
        sf.train("default", run="wrong", trainer__max_epochs="many")
    assert "max_epochs" in capfd.readouterr().out


def test_files_are_inspected(here: Path) -> None:
    Path("mails.csv").write_text("text,label\n" + "win a prize,spam\nsee you,ham\n" * 20)
    found = sf.inspect("mails.csv")
    assert "ham" in repr(found)
    assert "duplicate" in repr(found)
    assert not found.problems
    assert sf.inspect("gone.csv").problems


def test_public_names_are_all_that_tab_shows() -> None:
    assert dir(sf) == sorted(sf.__all__)
    for name in sf.__all__:
        assert getattr(sf, name).__doc__


PROGRAM = """
import sys
import steadfast as sf
print(*({"torch", "numpy", "pytorch_lightning"} & sys.modules.keys()))
model = sf.read_run("done").model()
print(*model.predict(["great soup"]).labels)
print(*({"pytorch_lightning", "torchmetrics", "transformers", "pandas"} & sys.modules.keys()))
"""


def test_nothing_is_loaded_before_it_is_used(trained: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    first, label, last = process.stdout.splitlines()
    assert first == last == ""
    assert label in ("negative", "positive")


def test_the_example_of_the_readme_prints_its_output(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    readme = (ROOT / "README.md").read_text()
    (program, output) = re.findall(r"```(?:python|text)\n(.*?)```", readme, re.DOTALL)
    exec(program, {})  # our own page
    assert capfd.readouterr().out.endswith(f"\n{output}")


def test_the_example_of_the_page_runs(trained: Path, capfd: pytest.CaptureFixture[str]) -> None:
    trained.rename(trained.with_name("first"))
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(block, {})  # our own page
    printed = capfd.readouterr().out
    assert "acc. under attack" in printed
    assert "<Run first: " in printed
