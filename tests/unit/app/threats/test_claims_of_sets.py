"""The checker of claims behind a front end: it agrees with brute force on raw strings."""

import contextlib
import hashlib
import io
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save

from app.commands.certify_export import _claim, _contents
from certify.threats import Substitutions, Typos
from layers.window_net import WindowNetSettings
from lit_modules import WordScores
from tests.unit.certify.words.test_substitutions import FRONT, Listed, Phrases, typos
from text import Vocabulary, WordSettings, WordTokenizer
from text.typo_kinds import LETTERS, list_edits

CHECKER = Path(__file__).parents[4] / "docs/certificates/check_sets.py"
PROGRAM = compile(CHECKER.read_text(), str(CHECKER), "exec")
CORPUS = ["good god go bad bat", "a bat at film", "dont go well", "good film good bat"]
TEXTS = ["good bat", "a gud film", "Don\u2019t go", "go-od b\u0430t", "zz god"]

AVOIDING = replace(FRONT, stop_words="english")
"""No word is corrected to "a" and "at"."""

Files = dict[str, bytes]


def export(
    *,
    window: int = 1,
    hidden: int = 0,
    seed: int = 0,
    k: int | None = None,
    words: WordSettings = FRONT,
) -> Files:
    """All certified texts of a model of random scores, which lean to one class."""
    torch.manual_seed(seed)
    net = WindowNetSettings(hidden=hidden, width=3)
    module = WordScores(window=window, min_ngram_count=1, net=net, words=words)
    module.attach(module.build_tokenizer(CORPUS), ["no", "yes", "perhaps"])
    module.configure_model()
    assert module.scores is not None
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
        module.scores.words[:, seed % 3] += 2
    module.eval()
    threat = Substitutions(words=words, sets=(Typos(FRONT), Listed()), k=k)
    found = module.text_certifier(threat)(TEXTS, [k])
    lines = [
        {"sample_id": number, "text": one.text, "prediction": one.prediction}
        for number, one in enumerate(found)
        if one.holds[0]
    ]
    assert lines
    return _contents(module, threat, [_claim(line, threat) for line in lines])


def checked(folder: Path, files: Files, program: CodeType = PROGRAM) -> str | None:
    """The output of the checker; None if it refuses."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    out, before = io.StringIO(), sys.argv
    sys.argv = ["check_sets.py", str(folder)]
    try:
        with contextlib.redirect_stdout(out):
            exec(program, {"__name__": "__main__"})
    except (Exception, SystemExit):  # of any kind: a stranger's Python ends with 1
        return None
    finally:
        sys.argv = before
    return out.getvalue()


def sealed(files: Files, **fields: Any) -> Files:
    """An export with other fields, whose digests are those of its content."""
    about = {**json.loads(files["statement.json"]), **fields}
    about.pop("seal")
    for key, name in (
        ("forms", "forms.json"),
        ("lists", "lists.json"),
        ("weights", "scores.safetensors"),
        ("claims", "claims.jsonl"),
    ):
        if name not in files:  # detectors have no lists
            continue
        about[key] = hashlib.sha256(files[name]).hexdigest()
    about["seal"] = hashlib.sha256(json.dumps(about).encode()).hexdigest()
    return {**files, "statement.json": json.dumps(about).encode()}


@cache
def changes(plain: str) -> tuple[str, ...]:
    return tuple(sorted(typos(plain, splits=False)))


def is_true(files: Files) -> bool:
    """Try all raw texts, read by the program's own front end."""
    about, content = json.loads(files["statement.json"]), json.loads(files["lists.json"])
    tensors = {name: tensor.tolist() for name, tensor in load(files["scores.safetensors"]).items()}
    names = about["words"]
    vocabulary = Vocabulary({word: len(names) - i for i, word in enumerate(names)})
    words = AVOIDING if about["uncorrected"] else FRONT
    tokenizer = WordTokenizer(vocabulary, max_length=about["max_length"], words=words)
    grams = {
        tuple(gram): scores
        for order in range(1, 5)
        for gram, scores in zip(
            tensors.get(f"ngrams_{order}", []), tensors.get(f"scores_{order}", []), strict=True
        )
    }
    width = max(map(len, grams))

    def logits(ids: tuple[int, ...]) -> list[int]:
        numbers = [index - 3 for index in ids]
        total = [0] * len(about["classes"])
        for end in range(len(ids)):
            for size in range(1, width + 1):
                found = (
                    grams.get(tuple(numbers[end - size + 1 : end + 1])) if size <= end + 1 else None
                )
                total = [
                    t + 2**12 * s for t, s in zip(total, found or [0] * len(total), strict=True)
                ]
            units = [0] * len(tensors.get("net_output", []))
            for back, table in enumerate(reversed(tensors.get("net_tables", []))):
                if end >= back and numbers[end - back] >= 0:
                    row = table[numbers[end - back]]
                    units = [u + r for u, r in zip(units, row, strict=True)]
            for unit, out in zip(units, tensors.get("net_output", []), strict=True):
                total = [t + max(0, unit) * o for t, o in zip(total, out, strict=True)]
        return total

    for line in files["claims.jsonl"].decode().splitlines():
        claim = json.loads(line)
        y, typed = claim["prediction"], tokenizer.splitter.split(claim["text"])
        rows = []
        for word, plain in zip(typed, tokenizer.splitter.read(typed), strict=True):
            free = content["excluded"] is not None and word not in content["excluded"]
            texts = [word, *content["lists"].get(word, []), *(changes(plain) if free else ())]
            rows.append([*dict.fromkeys(tokenizer.ids(texts))])
        for ids in product(*rows):
            count = sum(a != row[0] for a, row in zip(ids, rows, strict=True))
            if about["k"] is not None and count > about["k"]:
                continue
            found = logits(ids)
            if not all(found[y] > other for j, other in enumerate(found) if j != y):
                return False
    return True


EXPORTS: dict[str, Callable[[], Files]] = {
    "words": lambda: export(),
    "pairs": lambda: export(window=2, seed=1, k=1),
    "net": lambda: export(window=2, hidden=2, seed=2, k=2),
    "stop words": lambda: export(seed=3, k=1, words=AVOIDING),
}


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [name if name == "words" else pytest.param(name, marks=pytest.mark.long) for name in EXPORTS],
)
def test_claims_hold_exactly_where_no_raw_text_breaks_them(name: str, tmp_path: Path) -> None:
    files = EXPORTS[name]()
    about = json.loads(files["statement.json"])
    k = "all" if about["k"] is None else about["k"]
    assert (
        checked(tmp_path / "a", files)
        == f"{about['number']} claims of {about['sets']}, k={k} hold\n"
    )
    assert is_true(files)
    outcomes = set()
    for text, y, k in product(
        ("good bat", "a g\u00f3d film", "don't go at", "ax ax"), range(3), (0, 1, None)
    ):
        line = json.dumps({"sample_id": 0, "text": text, "prediction": y}) + "\n"
        forged = sealed({**files, "claims.jsonl": line.encode()}, k=k, number=1)
        true = is_true(forged)
        assert (checked(tmp_path / "a", forged) is not None) == true, (text, y, k)
        outcomes.add(true)
    assert outcomes == {True, False}


@pytest.mark.long
def test_a_change_of_any_file_is_refused_or_true(tmp_path: Path) -> None:
    files = EXPORTS["words"]()
    about = json.loads(files["statement.json"])
    for name, content in files.items():
        for changed in (content[:-1], b" " + content + b"0", content.replace(b"1", b"2", 1)):
            assert changed == content or checked(tmp_path / "a", {**files, name: changed}) is None

    def verdict(name: str, content: bytes, **fields: Any) -> tuple[bool, bool]:
        forged = sealed({**files, name: content}, **fields)
        return checked(tmp_path / "a", forged) is not None, is_true(forged)

    # A score changed, with new digests: refused where some raw text breaks a claim.
    tensors, outcomes = load(files["scores.safetensors"]), set()
    for row in range(0, len(about["words"]), 3):
        scores = tensors["scores_1"].copy()
        scores[row] = scores[row][[1, 2, 0]]
        outcome = verdict("scores.safetensors", save({**tensors, "scores_1": scores}))
        assert outcome[0] == outcome[1], row
        outcomes.add(outcome[0])
    assert False in outcomes
    # A list or typos left out: the statement is about fewer texts, and is what is checked.
    content = json.loads(files["lists.json"])
    for lists in (
        {**content, "lists": {}},
        {**content, "excluded": None},
        {**content, "excluded": ["good", "bat"]},
        {**content, "lists": {"good": ["bad", "bat"], "bat": ["dont"]}},
    ):
        outcome = verdict("lists.json", json.dumps(lists).encode())
        assert outcome[0] == outcome[1], lists
    # A confusable left out: a different front end, whatever the digests say.
    forms = json.loads(files["forms.json"])
    assert "430" in forms["forms"]["a"].split()
    forms["forms"]["a"] = forms["forms"]["a"].replace("430 ", "")
    fewer = {**files, "forms.json": json.dumps(forms).encode()}
    assert checked(tmp_path / "a", sealed(fewer)) is None
    # Another order of words: ties of the corrector are broken otherwise.
    other = sealed(files, words=about["words"][::-1])
    assert (checked(tmp_path / "a", other) is not None) == is_true(other)
    for field, value in (
        ("number", about["number"] + 1),
        ("k", -1),
        ("k", "all"),
        ("max_length", 0),
        ("front_end", "none"),
        ("threat", "synonyms"),
        ("classes", ["no", "no", "perhaps"]),
        ("words", about["words"][:-1]),
        ("more", 1),
    ):
        assert checked(tmp_path / "a", sealed(files, **{field: value})) is None, field


def forged(files: Files, scores: dict[str, int], content: Any, **fields: Any) -> Files:
    """The one claim that "good film" stays "no", of a model with these scores of this class."""
    about = json.loads(files["statement.json"])
    rows = np.array([[score] + [0] * (len(about["classes"]) - 1) for score in scores.values()])
    numbers = np.arange(len(scores)).reshape(-1, 1)
    claim = json.dumps({"sample_id": 0, "text": "good film", "prediction": 0}) + "\n"
    changed = {
        "scores.safetensors": save({"ngrams_1": numbers, "scores_1": rows}),
        "lists.json": json.dumps(content).encode(),
        "claims.jsonl": claim.encode(),
    }
    return sealed({**files, **changed}, words=[*scores], number=1, **fields)


def test_a_listed_text_of_two_words_is_refused(tmp_path: Path) -> None:
    files, scores = EXPORTS["words"](), {"good": 1, "film": 3, "bad": -2, "bat": -2}
    # "bad bat film" has the score -1, though each of both words leaves 1.
    for listed, holds in (("bad", True), ("bat", True), ("bad bat", False)):
        content = {"lists": {"good": [listed]}, "excluded": None}
        assert (checked(tmp_path / "a", forged(files, scores, content)) is not None) == holds


def test_words_with_any_character_do_not_hide_the_others(tmp_path: Path) -> None:
    files = EXPORTS["words"]()
    # Each typo is a word, also with the character that stands for all others; "g\u0436od" is none.
    typed = {typo for new in ("\ue000", "\ue001") for typo in list_edits("good", LETTERS + new)}
    scores = {"good": 2, "film": -1, **dict.fromkeys(sorted(typed - {"good"}), 2)}
    content = {"lists": {}, "excluded": ["film"]}
    no_target = forged(files, scores, content, uncorrected=[*scores])
    assert checked(tmp_path / "a", no_target) is None


def test_what_the_checker_does_not_know_is_refused() -> None:
    module = WordScores(words=FRONT)
    module.attach(module.build_tokenizer(CORPUS), ["no", "yes"])
    module.configure_model()
    for part in (Phrases(), Typos(FRONT, splits=True)):
        threat = Substitutions(words=FRONT, sets=(part,))
        line = {"sample_id": 0, "text": "good", "prediction": 0}
        with pytest.raises(ValueError, match="expected sets that replace a word by one"):
            _contents(module.eval(), threat, [line])


def test_a_bias_which_no_checker_adds_is_refused() -> None:
    module = WordScores(words=FRONT, bias=True)
    module.attach(module.build_tokenizer(CORPUS), ["no", "yes"])
    module.configure_model()
    threat = Substitutions(words=FRONT, sets=(Typos(FRONT),))
    line = {"sample_id": 0, "text": "good", "prediction": 0}
    with pytest.raises(ValueError, match=r"got a model with a bias, .* expected bias=false"):
        _contents(module.eval(), threat, [line])


def test_the_checker_is_short_and_on_its_own() -> None:
    text = CHECKER.read_text()
    assert len(text.splitlines()) <= 150
    imported = set(re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE))
    assert imported == {"json", "re", "sys", "functools", "hashlib", "pathlib", "safetensors"}
