"""Wrong settings of encoders: one sentence, and no run in the way of the corrected command."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import OLSA, QUIET, REVIEWS, TINY, Steadfast
from tests.integration.test_unibert import (
    BERT,
    CLASSIFIER,
    ENCODER,
    FOLDER,
    ONCE,
    TEXT,
    UNITARY,
    _pretrained,
    pretrained,
)
from tests.unit.datamodules.running_text import write
from text import save_tokenizer, train_word_piece

__all__ = ["_pretrained", "pretrained"]
CLASSIFY = [*CLASSIFIER, "--model.backbone.vocab_size=100", *REVIEWS, *TINY, ONCE]
FROM_FOLDER = [*CLASSIFY, f"--model.backbone.pretrained={FOLDER}"]
PRETRAIN = [*ENCODER, *TEXT, *QUIET, ONCE]


def refused(steadfast: Steadfast, *arguments: Any) -> str:
    """The one sentence."""
    outcome = steadfast("fit", *arguments, "--run=a")
    assert outcome.status == 1, outcome.err
    assert "Traceback" not in outcome.err
    assert "--debug shows where" not in outcome.err  # for what only we can mend
    errors = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert outcome.err.strip().splitlines()[-1] == errors[0]
    assert not Path("runs/a/config.yaml").exists()
    assert not Path("runs/a/backbone").exists()
    return errors[0]


def architecture(**changes: Any) -> str:
    settings = json.loads(BERT.split("=", 1)[1])
    return f"--model.backbone.architecture={json.dumps({**settings, **changes})}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--model.backbone.pretrained=nowhere"],
            "'nowhere' from which no tokenizer could be loaded",
        ),
        (
            ["--model.backbone.pretrained=runs/absent/backbone"],
            "which is no folder, expected one with",
        ),
        ([], "got backbone.pretrained=None, backbone.architecture=None"),
        (
            [BERT, "--model.backbone.pretrained=nowhere"],
            "got backbone.pretrained='nowhere', backbone.arch",
        ),
        ([architecture(model_type="bret")], "model_type 'bret', expected one that transformers"),
        ([architecture(hidden_size="wide")], "'hidden_size' expected int, got str"),
        ([architecture(hiden_size=9)], "did you mean hidden_size?"),
        ([BERT, '--model.unitary.weights=["querry"]'], "attention.self.query.weight, network."),
        ([BERT, '--model.unitary.weights=["intermediate.dense.weight"]'], "choose among network"),
        ([BERT, "--model.max_length=64"], "max_length=64, expected at most 100 ids and 32 tokens"),
        (
            [BERT, "--model.backbone_dropout=1"],
            "got backbone_dropout=1.0, expected a finite number of at least 0",
        ),
    ],
)
def test_of_a_classifier(
    here: Path, steadfast: Steadfast, arguments: list[str], message: str
) -> None:
    said = refused(steadfast, CLASSIFY, arguments)
    assert message in said
    if "no tokenizer could be loaded" in said:
        # Both ways to get it.
        assert "give the path of a downloaded backbone, or connect to the hub once" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data.length=64"], "64 tokens (--data.length) for a model of at most 32 (--model.max_"),
        (["--data.length=64", "--model.max_length=64"], "expected at most 60 ids and 32 tokens"),
        (
            ["--model.backbone.tokenizer=words"],
            "a PretrainedTokenizer without mask token, expected",
        ),
        (REVIEWS, "got MaskedLM on Reviews, whose texts are apart and have labels"),
        (
            ["--model.unitary.method=qr", '--model.unitary.weights=["querry"]'],
            "'querry', which fits no",
        ),
    ],
)
def test_of_an_encoder(
    here: Path, steadfast: Steadfast, arguments: list[str], message: str
) -> None:
    Path("text").mkdir()
    write(Path("text"), lines=20)
    Path("words").mkdir()
    save_tokenizer(train_word_piece(["a b c d"], 40, max_length=64), Path("words"))
    for path in Path("words").iterdir():  # a tokenizer like any other, but for its name
        path.write_text(path.read_text().replace('"mask_token"', '"none"').replace("MASK", "NONE"))
    base = [word for word in PRETRAIN if word not in TEXT] if arguments == REVIEWS else PRETRAIN
    assert message in refused(steadfast, base, arguments)


def test_a_classifier_wants_labels(here: Path, steadfast: Steadfast) -> None:
    Path("text").mkdir()
    write(Path("text"), lines=20)
    for model in (OLSA, [*CLASSIFIER, BERT]):
        said = refused(steadfast, model, TEXT, QUIET, ONCE)
        assert "on RunningText, which has no labels, expected a corpus with labels, or" in said


def test_a_sequence_longer_than_packed_ones(pretrained: Path, steadfast: Steadfast) -> None:
    """Blocks that are there already would go to a model without places for them."""
    long = [architecture(max_position_embeddings=64), "--model.max_length=64", "--data.length=64"]
    assert steadfast("fit", PRETRAIN, long, "--run=long").status == 0
    assert "(--data.length)" in refused(steadfast, PRETRAIN, "--data.length=64")


def test_reduced_precision(pretrained: Path, steadfast: Steadfast) -> None:
    """Is found when the fit begins; the same command in another precision goes on from there."""
    for precision in ("bf16-true", "16-true"):
        outcome = steadfast("fit", FROM_FOLDER, f"--trainer.precision={precision}", "--run=a")
        assert outcome.status == 1
        assert "expected float32 or float64" in outcome.err.splitlines()[-1]
        assert "train with --trainer.precision bf16-mixed" in outcome.err.splitlines()[-1]
    assert steadfast("fit", FROM_FOLDER, "--run=a").status == 0


def config(**settings: Any) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))

    return change


def other_words(folder: Path) -> None:
    words = " ".join(f"word{i}" for i in range(300))
    save_tokenizer(train_word_piece([words], 400, max_length=32), folder)


HARM: dict[str, tuple[Callable[[Path], object], str]] = {
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "no file named model.safetensors"),
    "damaged weights": (lambda f: (f / "model.safetensors").write_bytes(b"x" * 99), "header"),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "no tokenizer could be loaded"),
    "no tokenizer's": (lambda f: (f / "tokenizer.json").write_text("{}"), "no tokenizer could be"),
    "other shapes": (config(hidden_size=32), "whose weights have other shapes than its config"),
    "more layers": (config(num_hidden_layers=3), "whose weights lack 16 of the encoder's"),
    "another model": (config(model_type="evil"), "no encoder could be loaded"),
    "other words": (other_words, "ids and max_length=32, expected at most 60 ids"),
}


def test_folders(pretrained: Path, steadfast: Steadfast) -> None:
    for name, (harm, message) in HARM.items():
        broken = Path("broken")
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(pretrained, broken)
        harm(broken)
        said = refused(steadfast, CLASSIFY, "--model.backbone.pretrained=broken")
        assert message in said, name
    for model in (CLASSIFY, ["--model=MaskedLM", *TEXT, *QUIET, ONCE]):
        said = refused(
            steadfast, model, "--model.backbone.pretrained=runs/pre/checkpoints/last.ckpt"
        )
        assert "which is a file, expected a folder or hub name: pre-training writes" in said
    assert steadfast("fit", FROM_FOLDER, "--run=a").status == 0  # nothing is in its way
    assert UNITARY not in FROM_FOLDER  # it is the default
