"""Every method on every kind of corpus, from fit to predictions."""

import json
from pathlib import Path

import pytest

import lit_modules
from tests.integration.conftest import ATTACK, QUIET, Steadfast, lines, results

METHODS = {
    "OLSA": ["--model=OLSA", "--model.heads=2"],
    "TextClassifier": ["--model=TextClassifier", "--model.heads=2"],
    "TextClassifier-mean": ["--model=TextClassifier", "--model.encoder=mean"],
    "AdversarialTraining-FreeLB": [
        "--model=AdversarialTraining",
        "--model.adversary=FreeLB",
        "--model.classifier=OLSA",
        "--model.classifier.heads=2",
    ],
    "AdversarialTraining-TextAdversary": [
        "--model=AdversarialTraining",
        "--model.adversary=TextAdversary",
        "--model.adversary.attack.recipe=deepwordbug",
        "--model.adversary.attack.query_budget=20",
        "--model.classifier=TextClassifier",
        "--model.classifier.heads=2",
    ],
}
# Of the thousands of texts of Reviews, a few batches: test_distributed.py predicts them all.
FEW = [f"--trainer.limit_{loop}_batches=2" for loop in ("val", "test", "predict")]
UNCERTIFIED = ("TextClassifier", "AdversarialTraining-TextAdversary")
# Each method writes its page once.
CORPORA = {"Reviews": [], "TextFiles-single": [], "TextFiles-pair": [pytest.mark.report]}
# Each corpus once, and once an own, a certified and an adversarial method.
QUICK = (
    ("TextClassifier", "Reviews"),
    ("TextClassifier", "TextFiles-single"),
    ("OLSA", "TextFiles-pair"),
    ("AdversarialTraining-FreeLB", "TextFiles-pair"),
)
CELLS = [
    pytest.param(
        *(method, kind), marks=[*marks, *([] if (method, kind) in QUICK else [pytest.mark.slow])]
    )
    for method in METHODS
    for kind, marks in CORPORA.items()
]


def corpus(kind: str) -> list[str]:
    if kind == "Reviews":
        return ["--data=Reviews", "--data.limit_train=48"]
    words = ("red", "green", "blue")
    for split, count in (("train", 45), ("validation", 12), ("test", 15)):
        rows = [
            {
                "first": f"a {words[i % 3]} thing no {i}",
                "second": f"it is {i}",
                "label": words[i % 3],
            }
            for i in range(count)
        ]
        Path(f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = {name: f"{name}.jsonl" for name in ("train", "validation", "test")}
    settings |= {"text_column": "first", "label_column": "label"}
    if kind == "TextFiles-pair":
        settings["text_pair_column"] = "second"
    return ["--data=TextFiles", *(f"--data.{key}={value}" for key, value in settings.items())]


@pytest.mark.parametrize(("method", "kind"), CELLS)
def test_matrix(here: Path, steadfast: Steadfast, method: str, kind: str) -> None:
    width = "classifier.width" if method.startswith("Adversarial") else "width"
    arguments = [
        *METHODS[method],
        f"--model.{width}=8",
        *corpus(kind),
        "--data.batch_size=16",
        *QUIET,
        *FEW,
    ]
    outcome = steadfast("train", arguments, ATTACK, "--trainer.max_epochs=1", "--run=a")
    assert outcome.status == 0, outcome.err
    assert Path("runs/a/report/report.html").exists() == (kind == "TextFiles-pair")
    found = results("a")
    metrics = found["metrics"]
    assert found["method"] == method.split("-", maxsplit=1)[0]
    assert 0 <= metrics["test/pgd_accuracy"] <= metrics["test/accuracy"] <= 1
    certified = method not in UNCERTIFIED
    assert (metrics.get("certify/radius", 0) > 0) == certified
    assert ("no_certificate" in found) == (not certified)
    assert ("test/radius" in metrics) == certified
    assert Path("runs/a/certificates.jsonl").exists() == certified

    assert steadfast("validate", "--run=a", QUIET, FEW).status == 0
    assert results("a")["metrics"]["val/accuracy"] == pytest.approx(metrics["val/accuracy"])
    assert steadfast("predict", "--run=a", QUIET, FEW).status == 0
    predictions = lines("runs/a/predictions.jsonl")
    if certified:
        certificates = lines("runs/a/certificates.jsonl")
        assert [r["prediction"] for r in predictions] == [r["prediction"] for r in certificates]

    model = lit_modules.load("runs/a/checkpoints/best.ckpt")
    text: str | tuple[str, str] = ("a red thing", "it is") if model.pairs else "a red thing"
    assert model.predict_texts([text]).shape == (1, 2 if kind == "Reviews" else 3)

    again = steadfast("train", "--run=a")
    assert again.status == 1
    assert "is finished" in again.err
    assert steadfast("fit", "--run=a", "--trainer.max_epochs=2").status == 0
