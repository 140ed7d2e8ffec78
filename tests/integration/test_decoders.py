"""Every command on decoders, whose head reads the last token; weights are random."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import lit_modules
import steadfast as sf
from tests.integration.conftest import REVIEWS, TINY, Steadfast, lines
from tests.unit.layers.small_decoders import DECODERS, END, TEXTS, pretrained

SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in DECODERS if kind != "qwen3"]


def fit(name: str, *settings: str) -> list[str]:
    backbone = f"--model.backbone.pretrained={name}"
    length = "--model.max_length=64"
    steps = "--trainer.max_steps=3"
    return ["fit", backbone, length, *REVIEWS, *TINY, steps, *settings]


@pytest.mark.parametrize("kind", ["qwen3", *SLOW])
def test_a_decoder_from_fit_to_export(here: Path, steadfast: Steadfast, kind: str) -> None:
    words = fit(pretrained(kind, here / "decoder"), "--model=FineTuning", "--run=run")
    outcome = steadfast(words)
    assert outcome.status == 0, outcome.err
    assert steadfast("fit", "--run=run", "--trainer.max_steps=5").status == 0  # resumed
    attacked = ["--num_samples=2", "--attack=deepwordbug", "--device=cpu"]
    assert steadfast("attack", "--run=run", attacked).status == 0
    assert steadfast("export", "--run=run", "--output=out").status == 0
    ours = lit_modules.load("out")
    texts = [*TEXTS, "", "cold coffee and warm soup " * 40]
    logits = ours.predict_texts(texts)
    alone = torch.cat([ours.predict_texts([text]) for text in texts])
    torch.testing.assert_close(alone, logits, atol=1e-5, rtol=1e-5)
    tokenizer = AutoTokenizer.from_pretrained("out")
    assert tokenizer.pad_token == END
    model: Any = AutoModelForSequenceClassification.from_pretrained("out").eval()
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
    with torch.no_grad():
        torch.testing.assert_close(model(**batch).logits, logits[:3], atol=1e-5, rtol=1e-5)
    own, hub = sf.load("out").predict(texts), sf.load("hf:out").predict(texts)
    assert [record["probability"] for record in hub] == pytest.approx(
        [record["probability"] for record in own], abs=1e-5
    )
    # A folder as others write it says nothing about padding.
    changes: dict[str, dict[str, Any]] = {
        "tokenizer_config.json": {"pad_token": None, "eos_token": END},
        "config.json": {"pad_token_id": None},
    }
    for file, change in changes.items():
        content = json.loads((here / "out" / file).read_text())
        (here / "out" / file).write_text(json.dumps(content | change))
    victim = ["--victim=hf:out", "--output=attacked", "--dataset=texts.tsv"]
    table = "".join(f"{text}\tpositive\n" for text in TEXTS)
    Path("texts.tsv").write_text(f"text\tlabel\n{table}")
    outcome = steadfast("attack", victim, "--attack=deepwordbug", "--device=cpu")
    assert outcome.status == 0, outcome.err
    assert len(lines("attacked/attacks/deepwordbug.jsonl")) == len(TEXTS)
    half = ["--attack=deepwordbug", "--device=cpu", "--dtype=bfloat16"]
    outcome = steadfast("attack", victim, half)
    assert outcome.status == 1
    assert 'dtype null -> "bfloat16"' in outcome.err
    outcome = steadfast("attack", victim[0], "--dataset=texts.tsv", "--output=half", half)
    assert outcome.status == 0, outcome.err
    assert len(lines("half/attacks/deepwordbug.jsonl")) == len(TEXTS)
    outcome = steadfast("attack", "--victim=run:run", victim[1:], half)
    assert outcome.status == 1
    assert "got --dtype bfloat16 with --victim run:run, expected it with hf: alone" in outcome.err
    assert steadfast("export", "--victim=hf:out", "--output=adopted").status == 0
    assert torch.equal(lit_modules.load("adopted").predict_texts(TEXTS), logits[:3])
