"""A front end before a pretrained encoder, by the real command line."""

import json
from pathlib import Path

import pytest

from lit_modules import load
from tests.integration.conftest import QUIET, REVIEWS, Steadfast, lines

ENCODER = {
    "model_type": "bert",
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
}
MODEL = [
    "--model=FineTuning",
    f"--model.backbone.architecture={json.dumps(ENCODER)}",
    "--model.backbone.vocab_size=400",
    "--model.max_length=32",
    "--model.words.front_end=spelling",
    "--model.min_count=2",
]


def test_from_fit_to_attack(here: Path, steadfast: Steadfast) -> None:
    fit = [*MODEL, *REVIEWS, *QUIET, "--run=a"]
    assert steadfast("fit", fit, "--trainer.max_steps=4").status == 0
    front_end = load("runs/a/checkpoints/last.ckpt").front_end
    assert front_end is not None
    words = front_end.words
    # The checkpoint has the words: nothing is read again.
    resumed = steadfast("fit", fit, "--trainer.max_steps=6")
    assert resumed.status == 0, resumed.err
    again = load("runs/a/checkpoints/last.ckpt").front_end
    assert again is not None
    assert again.words == words

    # Words without any other word near them, known to the model and with typos.
    known = [word for word in words if word.isalpha() and len(word) > 6][:3]
    typos = {f"{word}q": word for word in known}
    cased = " ".join(known).upper().replace("O", "\u200bО")  # of Cyrillic
    Path("texts.txt").write_text("\n".join([" ".join(known), cased, " ".join(typos)]))
    outcome = steadfast("predict", "--run=a", "--file=texts.txt")
    assert outcome.status == 0, outcome.err
    first, alike, changed = map(json.loads, outcome.out.splitlines())
    plain = pytest.approx(first["probabilities"], rel=1e-5)
    assert alike["probabilities"] == plain
    assert changed["probabilities"] == plain
    assert "corrected" not in alike
    assert changed["corrected"] == typos

    attack = ["--run=a", "--attack=deepwordbug", "--num_samples=6", *QUIET]
    assert steadfast("attack", attack).status == 0
    assert len(lines("runs/a/attacks/deepwordbug.jsonl")) == 6
    wrong = steadfast("fit", MODEL, REVIEWS, QUIET, "--model.min_count=9999", "--run=b")
    assert wrong.status == 1
    assert "got no word 9999 times (min_count)" in wrong.err
