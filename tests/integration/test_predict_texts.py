"""`predict` of texts of one's own, by the real command line."""

import io
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import certify
import lit_modules
from app.cli.main import entry
from measure.predictions import TextPredictor
from tests.integration.conftest import TINY, Steadfast

TEXTS = ["the soup was fresh and warm", "a rude waiter , zorgly", "fine " * 400]


def records(lines: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.splitlines()]


def asked(texts: list[str]) -> list[str]:
    return [word for text in texts for word in ("--text", text)]


def test_answers_are_those_of_the_model(trained: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("predict", "--run=done", "--device=cpu", asked(TEXTS))
    assert outcome.status == 0, outcome.err
    found = [json.loads(line) for line in outcome.out.splitlines()]
    model = lit_modules.load(trained / "checkpoints" / "best.ckpt")
    names = model.require_text()[1]
    logits = model.predict_texts(TEXTS).double()
    radius = certify.certify(model, TEXTS).radius
    for i, answer in enumerate(found):
        assert answer["text"] == TEXTS[i]
        assert answer["prediction"] == names[int(logits[i].argmax())]
        shares = list(answer["probabilities"].values())
        assert list(answer["probabilities"]) == names
        assert math.isclose(sum(shares), 1)
        assert math.isclose(answer["probability"], max(shares))
        assert math.isclose(answer["margin"], abs(float(logits[i, 0] - logits[i, 1])))
        assert math.isclose(answer["radius"], float(radius[i]), rel_tol=1e-9)
    assert [answer["cut"] for answer in found] == [False, False, True]
    assert found[0]["unknown"] == ["warm"]
    assert "zorgly" in found[1]["unknown"]


def test_logits_that_are_not_finite_are_refused_not_classified(trained: Path) -> None:
    model = lit_modules.load(trained / "checkpoints" / "best.ckpt")
    answering = TextPredictor(model)
    *_, bias = model.parameters()
    for value in (math.nan, math.inf, -math.inf):
        with torch.no_grad():
            bias[1] = value
        with pytest.raises(ValueError, match=r"got (NaN|-?infinity) for 3 of 3 text"):
            list(answering(TEXTS))


def test_a_collapsed_model_is_named(trained: Path, steadfast: Steadfast) -> None:
    ask = ["predict", "--run=done", "--device=cpu", "--text", TEXTS[0]]
    assert "Collapsed" not in steadfast(ask).err
    results = json.loads((trained / "results.json").read_text())
    results["metrics"]["test/absorbed"] = 1.0
    (trained / "results.json").write_text(json.dumps(results))
    assert "done: Collapsed: it predicts one class only" in steadfast(ask).err


def test_all_ways_to_ask(
    trained: Path, steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [text.strip() for text in TEXTS]
    ask = ["predict", "--run=done", "--device=cpu"]
    words = [json.loads(steadfast(ask, f"--text={text}").out) for text in texts]
    words = [{"line": number, **answer} for number, answer in enumerate(words, start=1)]
    Path("texts.txt").write_text("".join(f"{text}\n" for text in texts))
    # One by one: in the company of other texts a logit differs in its last bits.
    ask.append("--batch_size=1")
    assert records(steadfast(ask, "--file=texts.txt").out) == words
    stream = io.TextIOWrapper(io.BytesIO(Path("texts.txt").read_bytes()))
    monkeypatch.setattr(sys, "stdin", stream)
    assert records(steadfast(ask, "-").out) == words
    outcome = steadfast(ask, "--file=texts.txt", "--output=answers.jsonl")
    assert outcome.out == "3 answers: answers.jsonl\n"
    assert records(Path("answers.jsonl").read_text()) == words


def test_blank_lines_keep_the_numbers_of_the_others(trained: Path, steadfast: Steadfast) -> None:
    Path("texts.txt").write_text("\nfine\n\n \nrude\n\n")
    outcome = steadfast("predict", "--run=done", "--device=cpu", "--file=texts.txt")
    assert [(line["line"], line["text"]) for line in records(outcome.out)] == [
        (2, "fine"),
        (5, "rude"),
    ]
    assert "texts.txt: skipped 4 blank lines (1, 3, 4, 6)" in outcome.err


def test_a_terminal_gets_a_table(
    trained: Path, steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "70")
    outcome = steadfast("predict", "--run=done", "--device=cpu", asked([*TEXTS, "\x1b[31mred"]))
    head, *rows = outcome.out.splitlines()
    assert head.split() == ["prediction", "probability", "margin", "radius", "text"]
    assert max(map(len, rows)) <= 70
    assert "\x1b" not in outcome.out
    assert "zorgly" in outcome.out.split("unknown words: ")[2].splitlines()[0]
    assert "1 of the texts were longer than" in outcome.out


def test_a_broken_file_leaves_no_answers(trained: Path, steadfast: Steadfast) -> None:
    Path("texts.txt").write_bytes(b"fine\n" * 300 + b"\xff\n")
    Path("answers.jsonl").write_text("of yesterday")
    outcome = steadfast(
        "predict", "--run=done", "--device=cpu", "--file=texts.txt", "--output=answers.jsonl"
    )
    assert outcome.status == 1
    assert "line 301: broken encoding" in outcome.err
    assert Path("answers.jsonl").read_text() == "of yesterday"
    assert not list(Path().glob(".answers*"))


def test_wrong_questions(trained: Path, steadfast: Steadfast) -> None:
    ask = ["predict", "--run=done", "--device=cpu", "--text=a"]
    assert "texts from one place" in steadfast(ask, "--file=b.txt").err
    assert "expected --text alone" in steadfast(ask, "--text_pair=b").err
    assert "got the empty text" in steadfast("predict", "--run=done", "--text=  ").err
    assert "--batch_size" in steadfast(ask, "--batch_size=0").err
    assert "no_such" in steadfast("predict", "--run=no_such", "--text=a").err
    assert "`predict` is about a trained model" in steadfast("predict", "--text=a").err
    assert steadfast(ask, "--nonsense").status == 2


def test_help_names_both_ways(here: Path, steadfast: Steadfast) -> None:
    assert "--file" in steadfast("predict", "--text=a", "--help").out
    assert "--text" in steadfast("predict", "--help").out


def test_models_of_pairs_and_of_numbers(here: Path, steadfast: Steadfast) -> None:
    rows = [("first\tsecond\tscore")]
    rows += [f"a soup {i}\tthe soup {i}\t{i / 5}" for i in range(24)]
    for split in ("train", "validation", "test"):
        Path(f"{split}.tsv").write_text("\n".join(rows) + "\n")
    small = '{"model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1, '
    small += '"num_attention_heads": 2, "intermediate_size": 8}'
    model = [f"--model.backbone.architecture={small}", "--model.backbone.vocab_size=60"]
    data = ["--data=TextFiles", "--data.task=regression", "--data.text_column=first"]
    data += ["--data.target_range=[0,5]"]
    data += ["--data.text_pair_column=second", "--data.label_column=score"]
    data += [f"--data.{split}={split}.tsv" for split in ("train", "validation", "test")]
    fit = ["fit", "--model=FineTuning", *model, *data, *TINY, "--trainer.max_steps=2"]
    outcome = steadfast(fit, "--run=numbers")
    assert outcome.status == 0, outcome.err
    ask = ["predict", "--run=numbers", "--device=cpu"]
    found = json.loads(steadfast(ask, "--text=a soup", "--text_pair=the soup").out)
    model_of = lit_modules.load("runs/numbers/checkpoints/best.ckpt")
    value = float(model_of.predict_texts([("a soup", "the soup")]))
    assert found["value"] == pytest.approx(value, rel=1e-5)
    assert found["text_pair"] == "the soup"
    assert "prediction" not in found
    assert "--text_pair" in steadfast(ask, "--text=a soup").err
    assert TextPredictor(model_of).no_certificate == "a regression has no certificate"


def test_a_model_that_answers_no_texts(here: Path, steadfast: Steadfast) -> None:
    Path("t.conll").write_text("anna\tB-person\nsings\tO\n\nin\tO\nrome\tB-place\n\n" * 4)
    small = '{"model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1, '
    small += '"num_attention_heads": 2, "intermediate_size": 8}'
    model = [f"--model.backbone.architecture={small}", "--model.backbone.vocab_size=60"]
    data = ["--data=TaggedFiles"]
    data += [f"--data.{split}=t.conll" for split in ("train", "validation", "test")]
    fit = ["fit", "--model=FineTuning", *model, *data, *TINY, "--trainer.max_steps=2", "--run=tags"]
    assert entry(fit) == 0
    outcome = steadfast("predict", "--run=tags", "--device=cpu", "--text=anna")
    assert outcome.status == 1
    assert "got a model for tagging" in outcome.err
