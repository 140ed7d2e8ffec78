"""The table of recipes: what it counts, keeps and asks of the other program."""

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attacks.outcome import Sample
from attacks.recipes import recipe_names
from attacks.resources.language_model import load_masked_lm
from attacks.resources.wordnet import WordNet
from attacks.transformations.expected_words import MaskedLMSwap
from attacks.validity.checks import Checks
from attacks.victims.kinds import ModuleVictim
from benchmarks.parity import sides, textattack_child
from benchmarks.parity.__main__ import main
from benchmarks.parity.encoder_table import LACKS, ORDER, TableFile, cells, missing, row_of
from benchmarks.parity.recipes import CHANGED, POPULATIONS, small_model
from benchmarks.parity.sides import SideResults, TimedVictim, attack_by_textattack
from tests.unit.attacks.lexicon import write_wordnet

CHILD = """
import json, sys
settings = json.loads(sys.stdin.readline())
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    results = []
    for text in json.loads(line)["texts"]:
        print(json.dumps({"texts": [text]}), flush=True)
        said = json.loads(sys.stdin.readline())
        results.append({"text": settings["prefix"] + text, "said": said})
    print(json.dumps({"results": results, "processor": 2.0}), flush=True)
"""


def samples(*texts: str) -> list[Sample]:
    return [Sample(sample_id=i, text=text, label=0) for i, text in enumerate(texts)]


def answer(outcome: str, text: str | None = None, queries: int = 4) -> dict[str, Any]:
    return {"outcome": outcome, "queries": queries, "text": text}


def test_figures_of_a_row(tmp_path: Path) -> None:
    answers = [
        answer("succeeded", "a fine film of 1990"),
        answer("succeeded", "a good film of 1991", 8),
        answer("failed"),
        answer("skipped", queries=1),
    ]
    checks = Checks(WordNet(write_wordnet(tmp_path)))
    row = row_of(answers, samples(*["a good film of 1990"] * 4), checks)
    assert row["attacked"] == 3
    assert row["success"]["value"] == pytest.approx(2 / 3)
    assert row["words_changed"]["value"] == pytest.approx(1 / 5)
    assert row["queries"]["value"] == pytest.approx(16 / 3)
    assert row["valid"]["value"] == 0.5  # another year
    shown = cells("pwws", "ours", {**row, "seconds": 2.4, "outside": 0.25})
    assert shown[:2] == ["pwws", "ours"]
    assert shown[2].startswith("0.667 [")
    assert shown[5:7] == ["2", "0.2"]
    nothing = row_of([answer("skipped")], samples("a film"), checks)
    assert nothing["success"] is None
    json.dumps(nothing)


def test_rows_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    rows = TableFile(path, {"samples": 3})
    rows.add("iga", "ours", {"lacks": "first"})
    rows.add("pwws", "TextAttack", {"lacks": "no such recipe"})
    again = TableFile(path, {"samples": 3})
    assert again.has("iga", "ours")
    assert not again.has("iga", "TextAttack")
    lines = again.table().splitlines()
    assert lines[2].startswith(
        "| pwws | TextAttack | no such recipe |"
    )  # what says most comes first
    with pytest.raises(ValueError, match="samples 3 -> 4"):
        TableFile(path, {"samples": 4})


def test_every_recipe_has_a_row_or_a_reason() -> None:
    assert set(ORDER) <= set(recipe_names())
    assert {*textattack_child.RECIPES, *LACKS} >= {*ORDER, *CHANGED, *POPULATIONS}
    assert not set(textattack_child.RECIPES) & set(LACKS)
    assert missing("bae", "ours", None) == "needs a masked language model"
    assert missing("hard-label", "ours", None) is None
    assert missing("hard-label", "TextAttack", None) == "no such recipe"
    assert missing("kuleshov", "TextAttack", None) is None  # without its language model


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--recipes", "pwws,nosuch"], "got --recipes nosuch, expected some of pwws"),
        (["--vectors", "absent.txt"], "got absent.txt, expected a file or folder that exists"),
        (["--python", "absent"], "got absent, expected a file or folder that exists"),
    ],
)
def test_wrong_options_are_said_before_anything_is_read(
    tmp_path: Path, options: list[str], message: str
) -> None:
    there = tmp_path / "there"
    there.touch()
    out = tmp_path / "rows.json"
    given = {"--data_dir": tmp_path, "--ckpt_path": there, "--vectors": there, "--out": out}
    named = [str(part) for pair in given.items() for part in pair]
    with pytest.raises(ValueError, match=message):
        main(["table", *named, *options])
    assert not out.exists()


def test_the_other_program_asks_our_victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = tmp_path / "child.py"
    child.write_text(CHILD)
    monkeypatch.setattr(sides, "PROGRAM", child)
    asked: list[str] = []

    def victim(texts: Any) -> list[list[float]]:
        asked.extend(texts)
        return [[1.0, 0.0] for _ in texts]

    def attack() -> SideResults:
        return attack_by_textattack(
            Path(sys.executable),
            "pwws",
            samples("a", "b"),
            victim,
            data_dir=tmp_path,
            vectors=tmp_path / "v.txt",
            masked_lm=None,
            prefix="x ",
        )

    theirs = attack()
    assert [one["text"] for one in theirs.results] == ["x a", "x b"]
    assert theirs.results[0]["said"] == [[1.0, 0.0]]
    assert theirs.processor == 2.0
    assert asked == ["a", "b"]
    child.write_text("raise SystemExit('no textattack here')")
    with pytest.raises(RuntimeError, match="expected an interpreter that can import textattack"):
        attack()


def test_a_masked_language_model_of_random_weights(tmp_path: Path) -> None:
    folder = small_model(tmp_path, ["a good film", "the bad plot is dull"] * 3)
    swap = MaskedLMSwap(*load_masked_lm(folder), 4, compat="textattack")
    words = swap.model.fill([("a [MASK] film", 2)])["a [MASK] film", 2]
    assert len(words) == 4
    assert not {"PAD", "[PAD]", "[UNK]", "UNK", "MASK"} & set(words)


def test_seconds_of_the_victim_include_its_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: Any, **__: Any) -> list[list[float]]:
        until = time.process_time() + 0.01
        while time.process_time() < until:
            pass
        return [[0.0]]

    for name in ("logits", "word_weights", "flip_gains"):
        monkeypatch.setattr(ModuleVictim, name, busy)
    module: Any = None
    victim = TimedVictim(module)
    for ask in (
        lambda: victim.logits([]),
        lambda: victim.word_weights([]),
        lambda: victim.flip_gains([], []),
    ):
        before = victim.spent
        ask()
        assert victim.spent >= before + 0.01


def test_neighbours_as_the_other_process_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = SimpleNamespace(WordEmbedding=lambda *parts: parts)
    monkeypatch.setitem(sys.modules, "textattack.shared", made)
    path = tmp_path / "vectors.txt"
    path.write_text("a 1 0\nb 2 0\nc 1 1\nd 0 1\n")
    matrix, index, words, nearest = textattack_child.embedding(path, 3)
    assert matrix.shape == (4, 2)
    assert index == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert words[2] == "c"
    # The word itself first, also beside one in the same direction.
    assert nearest.tolist()[0] == [0, 1, 2, 3]
    assert nearest.tolist()[1] == [1, 0, 2, 3]
    assert np.array_equal(nearest[:, 0], np.arange(4))
