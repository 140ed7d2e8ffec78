"""Every task with plain, ASA's and adversarial training, from the command line to predictions."""

import json
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.integration.conftest import QUIET, Steadfast, lines, results

ARCHITECTURE = (
    '{"model_type": "bert", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, '
    '"intermediate_size": 12, "max_position_embeddings": 64}'
)
WORDS = "anna went to paris and bought a red lamp from smith".split()
ENCODER = {
    name: [f"--{prefix}.backbone.architecture={ARCHITECTURE}", f"--{prefix}.backbone.vocab_size=90"]
    for name, prefix in (("own", "model"), ("inner", "model.classifier"))
}
METHODS = {
    "FineTuning": ["--model=FineTuning", *ENCODER["own"], "--model.max_length=24"],
    "ASA": ["--model=ASA", *ENCODER["own"], "--model.max_length=24"],
    "FreeLB": [
        *("--model=AdversarialTraining", "--model.adversary=FreeLB"),
        *("--model.classifier=FineTuning", *ENCODER["inner"], "--model.classifier.max_length=24"),
    ],
    "SMART": [
        *("--model=AdversarialTraining", "--model.adversary=SMART"),
        "--model.adversary.epsilon=0.1",
        *("--model.classifier=FineTuning", *ENCODER["inner"], "--model.classifier.max_length=24"),
    ],
}
FIGURES = {
    "classification": {"loss", "accuracy", "f1"},
    "regression": {"loss", "spearman", "pearson"},
    "tagging": {"loss", "accuracy", "f1"},
    "choice": {"loss", "accuracy"},
}
HEADLINE = {"regression": "spearman", "tagging": "f1"}


def sentence(i: int) -> list[str]:
    return [WORDS[(i * step + step) % len(WORDS)] for step in range(1, 4 + i % 5)]


def corpus(task: str) -> list[str]:
    """Write a small corpus of a task, in the layout of a real one; the arguments that name it."""
    for split, count in (("train", 25), ("validation", 10), ("test", 13)):
        if task == "classification":
            rows = [f"{' '.join(sentence(i))}\ta {i}\t{i % 2}" for i in range(count)]
            write("mrpc", f"{split}.tsv", ["sentence1\tsentence2\tlabel", *rows])
        elif task == "regression":
            rows = [
                f"g\tf\t{(i % 11) / 2}\t{' '.join(sentence(i))}\tit is {i}" for i in range(count)
            ]
            write("stsb", f"{split}.tsv", ["genre\tfile\tscore\tsentence1\tsentence2", *rows])
        elif task == "tagging":
            rows = []
            for i in range(count):
                rows += [
                    f"{w}\t{'B-person' if w in ('anna', 'smith') else 'O'}" for w in sentence(i)
                ]
                rows.append("")
            write("wnut17", f"{split}.conll", rows)
        else:
            rows = [
                json.dumps(
                    {
                        "ctx": " ".join(sentence(i)),
                        "label": i % 4,
                        "endings": [f"{w} {i}" for w in WORDS[:4]],
                    }
                )
                for i in range(count)
            ]
            write("hellaswag", f"{split}.jsonl", rows)
    name = {
        "classification": "MRPC",
        "regression": "STSB",
        "tagging": "WNUT17",
        "choice": "HellaSwag",
    }[task]
    return [f"--data={name}", "--data.data_dir=data", "--data.batch_size=8"]


def write(folder: str, name: str, rows: list[str]) -> None:
    path = Path("data", folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(rows) + "\n")


# Each task and each way of training once.
QUICK = [("FreeLB", "classification"), ("SMART", "regression")]
QUICK += [("FineTuning", "tagging"), ("ASA", "choice")]
EVERY = [("ASA", task) for task in FIGURES] + [("FreeLB", task) for task in FIGURES]
EVERY += [("FineTuning", "tagging"), ("SMART", "regression"), ("SMART", "choice")]
CELLS = [cell if cell in QUICK else pytest.param(*cell, marks=pytest.mark.slow) for cell in EVERY]


@pytest.mark.parametrize(("method", "task"), CELLS)
def test_train_test_predict(here: Path, steadfast: Steadfast, method: str, task: str) -> None:
    arguments = [*METHODS[method], *corpus(task), *QUIET, "--trainer.max_epochs=1", "--run=a"]
    outcome = steadfast("train", arguments, "--pgd.steps=2", "--trainer.log_every_n_steps=1")
    assert outcome.status == 0, outcome.err
    metrics = results("a")["metrics"]
    for name in FIGURES[task]:
        assert f"test/{name}" in metrics
        assert metrics[f"test/{name}"] == metrics[f"test/{name}"]
    # Attacks in the space of embeddings and certificates are about classes.
    assert ("test/pgd_accuracy" in metrics) == (task == "classification")
    assert not [name for name in metrics if name.startswith("certify/")]
    headline = HEADLINE.get(task, "accuracy")
    assert f"val/{headline}" in metrics
    events = EventAccumulator("runs/a")
    events.Reload()
    shown = {tag for tag in events.Tags()["scalars"] if tag.startswith("hp/")}
    classes = {"hp/pgd_accuracy"} if task == "classification" else set()
    assert shown == {f"hp/{headline}", *classes}
    last = events.Scalars(f"hp/{headline}")[-1].value
    assert last == pytest.approx(metrics[f"test/{headline}"])

    assert steadfast("predict", "--run=a", QUIET).status == 0
    predictions = lines("runs/a/predictions.jsonl")
    assert [record["sample_id"] for record in predictions] == list(range(13))
    if task == "regression":
        assert all(isinstance(record["prediction"], float) for record in predictions)
        assert all(isinstance(record["label"], float) for record in predictions)
    elif task == "tagging":
        assert [len(record["class"]) for record in predictions] == [3 + i % 5 for i in range(13)]
        assert [len(record["label"]) for record in predictions] == [3 + i % 5 for i in range(13)]
        assert {tag for record in predictions for tag in record["class"]} <= {
            "O",
            *(f"{mark}-{kind}" for mark in "BI" for kind in KINDS),
        }
    else:
        names = {"classification": 2, "choice": 4}[task]
        assert all(0 <= record["prediction"] < names for record in predictions)
        assert all(len(record["logits"]) == names for record in predictions)


KINDS = ("corporation", "creative-work", "group", "location", "person", "product")


@pytest.mark.parametrize(
    "task", ["regression", "tagging", pytest.param("choice", marks=pytest.mark.slow)]
)
def test_what_is_about_classes_only(here: Path, steadfast: Steadfast, task: str) -> None:
    arguments = [*METHODS["ASA"], *corpus(task), *QUIET, "--trainer.max_epochs=1", "--run=a"]
    assert steadfast("fit", arguments).status == 0
    for command in ("certify", "attack"):
        outcome = steadfast(command, "--run=a", QUIET)
        assert outcome.status == 1
        # Attacks move the number of a regression, see test_attack_tasks.py.
        if (command, task) != ("attack", "regression"):
            assert f"got a model for {task}, expected one that gives a class" in outcome.err
    wrong = ["--model=TextClassifier", *corpus(task), *QUIET, "--trainer.max_epochs=1", "--run=b"]
    outcome = steadfast("fit", wrong)
    assert outcome.status == 1
    assert f"got a corpus for {task}, expected one for classification" in outcome.err
    assert "FineTuning and ASA do the other tasks" in outcome.err
    assert not Path("runs/b/checkpoints").exists()


def test_the_metric_that_the_user_names(here: Path, steadfast: Steadfast) -> None:
    named = "--checkpoint.monitor=val/accuracy"
    base = [*METHODS["FineTuning"], *QUIET, named, "--trainer.max_epochs=1"]
    assert steadfast("fit", base, corpus("tagging"), "--run=a").status == 0
    assert set(results("a")["metrics"]) == {"val/accuracy"}
    more = ["--trainer.max_epochs=2", "--checkpoint.monitor=auto"]
    outcome = steadfast("fit", "--run=a", more)
    assert outcome.status == 0
    assert "best.ckpt was chosen otherwise up to now" in outcome.err
    assert set(results("a")["metrics"]) == {"val/f1"}
    outcome = steadfast("fit", base, corpus("regression"), "--run=b")
    assert outcome.status == 1
    expected = "FineTuning does not log, expected auto or one of val/loss, val/pearson, val/spear"
    assert f"got --checkpoint.monitor val/accuracy, which {expected}" in outcome.err


def test_adversaries_and_methods_that_do_not_go_together(here: Path, steadfast: Steadfast) -> None:
    tagging = [*corpus("tagging"), *QUIET, "--trainer.max_epochs=1"]
    inner = ["--model.classifier=FineTuning", *ENCODER["inner"]]
    outcome = steadfast(
        "fit",
        ["--model=AdversarialTraining", "--model.adversary=SMART", *inner],
        "--model.adversary.released=true",
        tagging,
    )
    assert outcome.status == 1
    assert "got SMART on a corpus for tagging, expected one for classification" in outcome.err
    asa = ["--model.classifier=ASA", *ENCODER["inner"]]
    outcome = steadfast(
        "fit", "--model=AdversarialTraining", "--model.adversary=FreeLB", asa, tagging
    )
    assert outcome.status == 1
    assert "got ASA, which has a training step of its own" in outcome.err


def test_a_users_own_adversarial_texts_with_any_checkpoint(
    here: Path, steadfast: Steadfast
) -> None:
    """As with AdvGLUE: a TSV, the classes in the order of the model's, and a checkpoint."""
    arguments = [*METHODS["ASA"], *corpus("classification"), *QUIET, "--trainer.max_epochs=1"]
    assert steadfast("fit", arguments, "--run=a").status == 0
    rows = [f"anna w3nt to p{i}ris\tit is {i}\t{i % 2}" for i in range(9)]
    Path("adversarial.tsv").write_text("\n".join(["first\tsecond\tlabel", *rows]) + "\n")
    outcome = steadfast(
        "test",
        "--ckpt_path=runs/a/checkpoints/best.ckpt",
        "--data=TextFiles",
        "--data.test=adversarial.tsv",
        *("--data.text_column=first", "--data.text_pair_column=second"),
        "--data.classes=[not_equivalent, equivalent]",
        "--run=adversarial",
        QUIET,
    )
    assert outcome.status == 0, outcome.err
    assert 0 <= results("adversarial")["metrics"]["test/accuracy"] <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model.masking.tau=-1"], "got masking.tau=-1.0"),
        (["--model.masking.kind=scheduled"], "expected a schedule for kind scheduled"),
        (
            [
                '--model.backbone.architecture={"model_type": "rembert", "num_hidden_layers": 1, '
                '"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}',
                "--model.pooling=mean",
            ],
            "whose attention cannot be biased, expected an encoder, one of bert, roberta",
        ),
        (["--model.max_length=4000"], "expected at most"),
    ],
)
def test_wrong_settings(
    here: Path, steadfast: Steadfast, arguments: list[str], message: str
) -> None:
    base = [*METHODS["ASA"], *corpus("classification"), *QUIET, "--trainer.max_epochs=1"]
    outcome = steadfast("fit", base, arguments, "--run=a")
    assert outcome.status == 1
    assert message in outcome.err
    assert len(outcome.err.strip().splitlines()) < 6
    assert not list(Path().glob("runs/a/checkpoints/*"))


def test_wrong_rows(here: Path, steadfast: Steadfast) -> None:
    """Each names the file and the line, and what was expected; nothing is left behind."""
    cases = {
        "tagging": ("wnut17/train.conll", 2, "anna B-person more\textra fields here"),
        "choice": ("hellaswag/train.jsonl", 3, '{"ctx": "a", "label": 0, "endings": ["b", "c"]}'),
        "regression": ("stsb/train.tsv", 4, "g\tf\tvery much\tone\tother"),
    }
    for task, (file, line, row) in cases.items():
        arguments = [*METHODS["ASA"], *corpus(task), *QUIET, "--trainer.max_epochs=1"]
        path = Path("data", file)
        rows = path.read_text().splitlines()
        rows[line - 1] = row
        path.write_text("\n".join(rows) + "\n")
        outcome = steadfast("fit", arguments, "--run=a")
        assert outcome.status == 1
        assert f"{file}, line {line}" in outcome.err, outcome.err
        assert not Path("runs/a/checkpoints").exists()


def test_what_is_cut_is_counted(here: Path, steadfast: Steadfast) -> None:
    base = [*METHODS["ASA"], *corpus("tagging"), "--model.max_length=5", *QUIET]
    outcome = steadfast("fit", base, "--trainer.max_steps=1", "--run=a")
    assert outcome.status == 0, outcome.err
    assert "texts cut to 5 tokens" in outcome.err
