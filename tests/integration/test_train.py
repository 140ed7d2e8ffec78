import json
import re
from pathlib import Path

import pytest
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import lit_modules
from tests.integration.conftest import ATTACK, OLSA, QUIET, REVIEWS, TINY, Steadfast, lines, results
from training.trainer import check_sweep


@pytest.mark.report
def test_train_fits_tests_certifies_and_reports(here: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("train", OLSA, REVIEWS, TINY, ATTACK, "--trainer.max_epochs=1", "--run=a")
    assert outcome.status == 0
    table = outcome.out.strip().splitlines()
    assert table[0] == "OLSA on reviews, seed 0"
    rows = {row.split("  ")[0]: row.split("  ", 1)[1].strip() for row in table[2 : table.index("")]}
    found = results("a")
    metrics = found["metrics"]
    assert rows["accuracy"].startswith(f"{metrics['test/accuracy']:.3f} [")
    # A bag of words is not comparable with a part of the split.
    assert "test/bag_accuracy" not in metrics
    assert "always the most frequent class" in outcome.out or "Collapsed: " in outcome.out
    assert found["positive"] == "positive"
    assert rows["F1 of positive"].startswith(f"{metrics['test/f1']:.3f} [")
    assert rows["macro-F1"].startswith(f"{metrics['test/macro_f1']:.3f} [")
    headline = f"{metrics['certify/radius_correct']:.3f}"
    assert rows["mean certified radius, 0 where wrong"] == headline
    for radius in ("0", "0.25", "0.5", "1", "2"):
        share = f"{metrics[f'certify/accuracy@{radius}']:.3f}"
        assert rows[f"certified accuracy at radius {radius}"] == share
    assert rows["accuracy under l2-PGD at eps = 1"] == f"{metrics['test/pgd_accuracy']:.3f}"
    assert re.match(r"[\d.]+ \(fit [\d.]+, test [\d.]+, certify [\d.]+\)", rows["seconds"])
    assert table[-1] == "runs/a"
    assert table[-3] == "report: runs/a/report/report.html"
    assert {path.name for path in Path("runs/a").iterdir()} >= {
        "config.yaml",
        "results.json",
        "certificates.jsonl",
        "checkpoints",
    }
    assert sorted(path.name for path in Path("runs/a/checkpoints").iterdir()) == [
        "best.ckpt",
        "last.ckpt",
    ]
    assert found["run"] == "a"
    assert found["method"] == "OLSA"
    assert found["corpus"] == "reviews"
    assert found["seed"] == 0
    assert set(found["seconds"]) == {"fit", "test", "certify"}
    assert {"steadfast", "revision", "python", "torch"} <= set(found["versions"])


def test_the_class_that_f1_is_of(here: Path, steadfast: Steadfast) -> None:
    common = ("train", OLSA, REVIEWS, TINY, "--trainer.max_epochs=1")
    outcome = steadfast(
        *common, "--data.positive=negative", "--checkpoint.monitor=val/macro_f1", "--run=a"
    )
    assert outcome.status == 0, outcome.err
    assert "F1 of negative" in outcome.out
    assert results("a")["positive"] == "negative"
    assert steadfast(*common, "--run=b").status == 0
    first, second = results("a")["metrics"], results("b")["metrics"]
    # The same weights: one epoch. Macro-F1 is the mean of both.
    both = (first["test/f1"] + second["test/f1"]) / 2
    assert first["test/macro_f1"] == second["test/macro_f1"] == pytest.approx(both)
    wrong = steadfast(*common, "--data.positive=neutral", "--run=c")
    assert wrong.status == 1
    assert "got positive 'neutral', expected one of the classes" in wrong.err


def test_a_method_without_certificate_says_so(here: Path, steadfast: Steadfast) -> None:
    model = ["--model=TextClassifier", "--model.width=8", "--model.depth=1", "--model.heads=2"]
    # Nothing is certified, so nothing needs full precision.
    settings = [*REVIEWS, *TINY, "--trainer.max_epochs=1", "--trainer.precision=bf16-mixed"]
    outcome = steadfast("train", model, settings, ATTACK, "--run=a")
    assert outcome.status == 0, outcome.err
    reason = "no Lipschitz constant is proven for a Transformer"
    assert f"no certificate: {reason}" in outcome.out
    assert "certified accuracy" not in outcome.out
    found = results("a")
    assert found["no_certificate"].startswith(reason)
    assert found["corpus"] == "reviews"
    assert set(found["seconds"]) == {"fit", "test", "certify"}
    assert not [name for name in found["metrics"] if name.startswith("certify")]
    assert not Path("runs/a/certificates.jsonl").exists()
    events = EventAccumulator("runs/a")
    events.Reload()
    shown = {tag for tag in events.Tags()["scalars"] if "certif" in tag or tag.startswith("hp/")}
    assert shown == {"hp/accuracy", "hp/pgd_accuracy"}

    Path("runs/a/results.json").unlink()
    outcome = steadfast("certify", "--run=a", QUIET)
    assert outcome.status == 0, outcome.err
    assert f"no certificate: {reason}" in outcome.out
    found = results("a")
    assert (found["corpus"], found["metrics"]) == ("reviews", {})


@pytest.mark.parametrize("radii", ["[]", "[0.5,-1]", "[.nan]", "[.inf]"])
def test_radii_are_checked_first(here: Path, steadfast: Steadfast, radii: str) -> None:
    outcome = steadfast("train", OLSA, REVIEWS, TINY, f"--radii={radii}", "--run=a")
    assert outcome.status != 0
    (line,) = outcome.err.strip().splitlines()
    assert line.startswith(("error: got radii=[", "error: got --radii "))
    assert not Path("runs/a").exists()


def test_certificates_are_those_of_the_metrics(trained: Path) -> None:
    certificates = lines("runs/done/certificates.jsonl")
    metrics = results("done")["metrics"]
    assert len(certificates) == 128
    assert list(certificates[0]) == [
        "sample_id",
        "label",
        "prediction",
        "margin",
        "lipschitz",
        "radius",
        "bound",
        "tokens",
        "label_name",
        "prediction_name",
        "checkpoint",
    ]
    ids = [record["sample_id"] for record in certificates]
    assert ids == sorted(set(ids))
    right = [record["prediction"] == record["label"] for record in certificates]
    radii = [record["radius"] for record in certificates]
    assert metrics["certify/radius"] == pytest.approx(sum(radii) / 128)
    assert metrics["certify/radius_correct"] == pytest.approx(
        sum(r for r, hit in zip(radii, right, strict=True) if hit) / 128
    )
    assert metrics["certify/accuracy@0"] == pytest.approx(metrics["test/accuracy"])
    # No attack inside the certified radius: it is a lower bound on what PGD leaves standing.
    assert metrics["certify/accuracy@1"] <= metrics["test/pgd_accuracy"]


def test_a_name_is_made_up(here: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("fit", OLSA, REVIEWS, TINY, "--trainer.max_epochs=1")
    assert outcome.status == 0
    (run,) = Path("runs").iterdir()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_OLSA_Reviews", run.name)
    assert outcome.out.strip().endswith(str(run))


def test_the_seed_decides(here: Path, steadfast: Steadfast) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        arguments = ["--seed", seed, "--run", name, "--trainer.max_epochs=1"]
        assert steadfast("train", OLSA, REVIEWS, TINY, ATTACK, arguments).status == 0
    assert results("a")["metrics"] == results("b")["metrics"]
    assert results("a")["metrics"] != results("c")["metrics"]
    assert results("c")["seed"] == 2


def test_the_stored_settings_make_a_new_run(trained: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("train", "--config=runs/done/config.yaml", ATTACK, "--run=again")
    assert outcome.status == 0
    assert results("again")["metrics"] == results("done")["metrics"]
    read = [
        yaml.safe_load(Path(f"runs/{run}/config.yaml").read_text()) for run in ("done", "again")
    ]
    assert read[0] == read[1]


def own(name: str, labels: str, *, column: str = "label") -> str:
    """A file of one's own with two rows for each label."""
    rows = [f"a dull film, number {i}\t{label}" for i, label in enumerate(labels * 2)]
    Path(name).write_text("\n".join([f"text\t{column}", *rows]) + "\n")
    return name


OWN = [*OLSA, *TINY, "--data=TextFiles", "--trainer.max_epochs=1", "--run=a"]


@pytest.mark.parametrize(
    ("labels", "column", "message"),
    [
        (None, "label", "got no test file, expected one: pass `--data.test FILE`, or train with"),
        ("01x", "label", "test.tsv, line 4: unknown label 'x'"),
        ("01", "mood", "got columns ['text', 'mood'], expected ['label']"),
        (" ", "label", "got a test split without labels, expected labels: `fit` trains without a"),
    ],
)
def test_the_test_file_is_looked_at_before_the_training(
    here: Path, steadfast: Steadfast, labels: str | None, column: str, message: str
) -> None:
    arguments = [*OWN, f"--data.train={own('train.tsv', '01' * 10)}"]
    if labels is not None:
        arguments.append(f"--data.test={own('test.tsv', labels, column=column)}")
    outcome = steadfast("train", arguments, ATTACK)
    assert outcome.status == 1
    assert message in outcome.err
    assert not Path("runs").exists()


def test_a_run_gets_its_test_file_later(here: Path, steadfast: Steadfast) -> None:
    assert steadfast("fit", OWN, f"--data.train={own('train.tsv', '01' * 10)}").status == 0
    missing = steadfast("test", "--run=a", TINY, ATTACK)
    assert "got no test file" in missing.err
    later = f"--data.test={own('test.tsv', '01')}"
    outcome = steadfast("train", "--run=a", ATTACK, later)
    assert outcome.status == 0, outcome.err
    assert set(results("a")["seconds"]) == {"fit", "test", "certify"}
    assert steadfast("predict", "--run=a", TINY).status == 0  # the run knows it now
    other = steadfast("test", "--run=a", TINY, f"--data.test={own('other.tsv', '01')}")
    assert "data.test: 'test.tsv' in the run, 'other.tsv' given" in other.err


@pytest.mark.parametrize("wrong", ["--pgd.steps=0", "--pgd.epsilon=-1"])
def test_settings_of_the_test_are_looked_at_before_the_training(
    here: Path, steadfast: Steadfast, wrong: str
) -> None:
    outcome = steadfast("train", OLSA, REVIEWS, TINY, "--trainer.max_epochs=1", wrong, "--run=a")
    assert outcome.status == 1
    assert f"got {wrong}" in outcome.err
    assert not Path("runs").exists()


def test_a_share_of_no_test_batch_is_found_before_the_training(
    here: Path, steadfast: Steadfast
) -> None:
    share = "--trainer.limit_test_batches=0.01"
    outcome = steadfast("train", OLSA, REVIEWS, "--trainer.max_epochs=1", share, "--run=a")
    assert outcome.status == 1
    assert "got --trainer.limit_test_batches 0.01 of 8 batches" in outcome.err
    assert not Path("runs").exists()


def test_no_test_where_none_is_wanted(here: Path, steadfast: Steadfast) -> None:
    none = [*TINY, "--trainer.limit_test_batches=0", "--trainer.max_epochs=1", "--run=a"]
    assert steadfast("train", OLSA, REVIEWS, none).status == 0
    assert set(results("a")["seconds"]) == {"fit"}


def test_the_best_checkpoint_is_tested_and_loads_alone(trained: Path) -> None:
    model = lit_modules.load(trained / "checkpoints" / "best.ckpt")
    assert model.predict_texts(["the soup was not good"]).shape == (1, 2)


def test_without_validation_the_last_checkpoint_is_tested(here: Path, steadfast: Steadfast) -> None:
    arguments = ["--trainer.limit_val_batches=0", "--trainer.max_epochs=1", "--run=a"]
    assert steadfast("train", OLSA, REVIEWS, TINY, ATTACK, arguments).status == 0
    assert not Path("runs/a/checkpoints/best.ckpt").exists()
    assert "test/accuracy" in results("a")["metrics"]


def test_a_dry_run_leaves_nothing(here: Path, steadfast: Steadfast) -> None:
    assert (
        steadfast("train", OLSA, REVIEWS, TINY, ATTACK, "--trainer.fast_dev_run=true").status == 0
    )
    assert not list(here.rglob("*.*"))


def test_no_attack_when_epsilon_is_zero(trained: Path, steadfast: Steadfast) -> None:
    swept = steadfast("test", "--run=done", TINY, "--pgd.epsilon=0.5", ATTACK, "--sweep=[0.5,9]")
    assert swept.status == 0, swept.err
    metrics = results("done")["metrics"]
    assert metrics["test/pgd_epsilon"] == 0.5
    # An attack of the sweep is the attack of that radius.
    assert metrics["test/pgd_accuracy@0.5"] == metrics["test/pgd_accuracy"]
    assert metrics["test/pgd_accuracy@9"] < metrics["test/pgd_accuracy"]
    assert results("done")["about"]["test"]["sweep"] == [0.5, 9.0]
    records = [json.loads(line) for line in (trained / "pgd.jsonl").read_text().splitlines()]
    assert all(record["survived@0.5"] == record["survived"] for record in records)
    Path("runs/done/results.json").unlink()
    assert steadfast("test", "--run=done", TINY, "--pgd.epsilon=0").status == 0
    assert "test/pgd_accuracy" not in results("done")["metrics"]


@pytest.mark.parametrize("sweep", [[1.0, 1.0], [0.5, 0.0], [float("inf")], [float("nan")]])
def test_radii_of_a_sweep(sweep: list[float]) -> None:
    with pytest.raises(ValueError, match="expected different radii above 0"):
        check_sweep(sweep)


def test_certify_needs_full_precision(here: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("train", OLSA, REVIEWS, TINY, "--trainer.precision=bf16-mixed", "--run=a")
    assert outcome.status == 1
    assert "expected 32-true or 64-true" in outcome.err
    assert not Path("runs/a/checkpoints").exists()


def test_certify_in_double_precision(trained: Path, steadfast: Steadfast) -> None:
    before = results("done")["metrics"]["certify/radius"]
    assert steadfast("certify", "--run=done", TINY, "--trainer.precision=64-true").status == 0
    assert results("done")["metrics"]["certify/radius"] == pytest.approx(before, rel=1e-4)
