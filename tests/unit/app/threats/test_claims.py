"""The checker of claims: whatever is changed in an export, it is refused or still true."""

import contextlib
import hashlib
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from safetensors.numpy import load, save

from app.commands.certify_export import _claim, _contents
from certify.threats import Characters, Synonyms, Threat
from layers.window_net import WindowNetSettings
from lit_modules import WordScores
from text import WordSettings

CHECKER = Path(__file__).parents[4] / "docs/certificates/check.py"
# Compiled once: that takes as long as a check, and there are thousands.
PROGRAM = compile(CHECKER.read_text(), str(CHECKER), "exec")
TEXTS = ["a good film", "not bad", "bad film", "good good film , long", "Not a FINE one"]
LISTS = {"good": ["fine", "bad"], "bad": ["good"], "film": ["one", "it"], "not": ["a"]}
OF_TEXTS = {"a good film": {"1": ["fine", "bad"], "2": ["one"]}, "not bad": {"1": ["good"]}}
ASCII = WordSettings(split="ascii")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789 "

Files = dict[str, bytes]
Words = tuple[str, ...]


def export(threat: Threat, *, window: int = 1, hidden: int = 0, seed: int = 0) -> Files:
    """The export of a model of random scores: all texts that are certified."""
    torch.manual_seed(seed)
    net = WindowNetSettings(hidden=hidden, width=3)
    module = WordScores(window=window, min_ngram_count=1, net=net, words=threat.words)
    module.attach(module.build_tokenizer([*TEXTS, "it is one"]), ["no", "yes", "perhaps"])
    module.configure_model()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    module.eval()
    subjects = [text for text in TEXTS if threat.subject(text) is not None]
    found = module.text_certifier(threat)(subjects, [threat.k])
    lines = [
        {"sample_id": number, "text": one.text, "prediction": one.prediction}
        for number, one in enumerate(found)
        if one.holds[0]
    ]
    assert lines
    return _contents(module, threat, [_claim(line, threat) for line in lines])


EXPORTS: dict[str, Callable[[], Files]] = {
    "words": lambda: export(Synonyms.of(LISTS, k=None), seed=1),
    "one word": lambda: export(Synonyms.of(LISTS, k=1), seed=1),
    "pairs": lambda: export(Synonyms.of(LISTS, k=1), window=2, seed=4),
    "net": lambda: export(Synonyms.of(LISTS, k=2), window=2, hidden=2, seed=2),
    "texts": lambda: export(Synonyms.of(OF_TEXTS, k=None), seed=1),
    "characters": lambda: export(Characters(k=1, words=ASCII), seed=4),
}


def checked(files: Files) -> str | None:
    """The output of the checker; None if it refuses.

    It reads the content from memory: to write and open four files takes as long as to check them.
    tests/integration/test_certify_threat.py gives it files.
    """
    out = io.StringIO()
    with (
        patch.object(sys, "argv", ["check.py", "."]),
        patch.object(Path, "read_bytes", lambda path: files[path.name]),
        contextlib.redirect_stdout(out),
    ):
        try:
            exec(PROGRAM, {"__name__": "__main__"})
        except (Exception, SystemExit):  # of any kind: a stranger's Python ends with 1
            return None
    return out.getvalue()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def sealed(files: Files) -> Files:
    """An export whose digests are those of its content, as who forges one would make it."""
    about = json.loads(files["statement.json"])
    about.pop("seal", None)
    for key, name in (
        ("lists", "lists.json"),
        ("weights", "scores.safetensors"),
        ("claims", "claims.jsonl"),
    ):
        if isinstance(about.get(key), str):
            about[key] = digest(files[name])
    about["seal"] = digest(json.dumps(about).encode())
    return {**files, "statement.json": json.dumps(about).encode()}


# Mutations

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    2,
    -1,
    1.0,
    0.0,
    float("nan"),
    float("inf"),
    10**30,
    "",
    "0",
    "all",
    "synonyms",
    "characters",
    "ascii",
    "clitics",
    "[A-Za-z0-9]+",
    "x",
    [],
    [[]],
    {},
    {"a": 1},
]


def others(value: Any) -> Iterator[Any]:
    """Values in the place of one, some of them near it."""
    yield from VALUES
    if isinstance(value, int) and not isinstance(value, bool):
        yield from (value + 1, value - 1, float(value), str(value), [value])
    if isinstance(value, str):
        yield from (value + " ", value + "!", value[:-1], value.upper(), [value], value[::-1])
    if isinstance(value, list):
        yield from (value[:-1], value[1:], value[::-1], [*value, *value[:1]], [*value, None])
        for at, inner in enumerate(value[:6]):
            for other in (*others(inner), *(VALUES if not isinstance(inner, list) else ())):
                yield [*value[:at], other, *value[at + 1 :]]
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {name: one for name, one in value.items() if name != key}
            for other in others(inner):
                yield {**value, key: other}


def mutated_json(content: bytes) -> Iterator[bytes]:
    value = json.loads(content)
    if isinstance(value, dict):
        text = content.decode()
        key = next(iter(value))
        # A key that is there twice: what a person reads first does not count.
        yield text.replace("{", "{" + json.dumps(key) + ": 0, ", 1).encode()
        yield json.dumps({**value, "more": 1}).encode()
        yield json.dumps(dict(reversed(value.items()))).encode()
    for other in others(value):
        yield json.dumps(other).encode()
    yield b""
    yield content + b" "
    yield content + content


def mutated_lines(content: bytes) -> Iterator[bytes]:
    lines = content.decode().removesuffix("\n").split("\n")
    yield from (b"", b"\n", content + b"\n", content[:-1], content + content, content + b"{}\n")
    yield from ("".join(line + "\n" for line in part).encode() for part in (lines[1:], lines[::-1]))
    for at, line in enumerate(lines[:2]):
        for other in mutated_json(line.encode()):
            changed = [*lines[:at], other.decode(), *lines[at + 1 :]]
            yield "".join(one + "\n" for one in changed).encode()


def mutated_weights(content: bytes) -> Iterator[bytes]:
    tensors = load(content)
    yield from (b"", content[:-1], content + b"0")
    for name, tensor in tensors.items():
        yield save({other: one for other, one in tensors.items() if other != name})
        for changed in (-tensor, tensor[:-1], tensor[..., :-1], tensor + 1, tensor.astype("f4")):
            yield save({**tensors, name: changed.copy()})


MUTATIONS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "statement.json": mutated_json,
    "lists.json": mutated_json,
    "claims.jsonl": mutated_lines,
    "scores.safetensors": mutated_weights,
}

# Brute force, by other code than that of the checker and of the certificates


def is_true(files: Files) -> bool:
    about = json.loads(files["statement.json"])
    tensors = {name: tensor.tolist() for name, tensor in load(files["scores.safetensors"]).items()}
    names = about["words"]

    # By their words: a text costs its own n-grams, and not all that there are.
    by_gram: dict[tuple[str, ...], list[list[int]]] = {}
    for name, rows in tensors.items():
        if name.startswith("ngrams_"):
            for row, scores in zip(rows, tensors[f"scores_{name[-1]}"], strict=True):
                by_gram.setdefault(tuple(names[index] for index in row), []).append(scores)
    lengths = {len(gram) for gram in by_gram}

    def split(text: str) -> Words:
        return words_of(text, about["split"], about["pattern"])

    def logits(words: Words) -> list[int]:
        words = words[: about["max_length"]]
        total = [0] * len(about["classes"])
        for length in lengths:
            for at in range(len(words) - length + 1):
                for scores in by_gram.get(words[at : at + length], ()):
                    total = [t + 2**12 * s for t, s in zip(total, scores, strict=True)]
        tables = tensors.get("net_tables", [])
        for end in range(len(words)) if tables else ():
            units = [0] * len(tensors["net_output"])
            for back, table in enumerate(reversed(tables)):
                if end - back >= 0 and words[end - back] in names:
                    row = table[names.index(words[end - back])]
                    units = [u + r for u, r in zip(units, row, strict=True)]
            for unit, out in zip(units, tensors["net_output"], strict=True):
                total = [t + max(0, unit) * o for t, o in zip(total, out, strict=True)]
        return total

    def holds(words: Words, y: int) -> bool:
        found = logits(words)
        return all(found[y] > other for j, other in enumerate(found) if j != y)

    lines = files["claims.jsonl"].decode().removesuffix("\n").split("\n")
    claims = [json.loads(line) for line in lines]
    content = json.loads(files["lists.json"])
    for claim in claims:
        words, y, k = split(claim["text"]), claim["prediction"], about["k"]
        if about["threat"] == "synonyms":
            of_words, of_texts = content[2:]
            places = [[word, *of_words.get(word, [])] for word in words]
            if of_texts:
                listed = of_texts[claim["text"]]
                places = [[w, *listed.get(str(at), [])] for at, w in enumerate(words)]
            near = [text for text in product(*places) if all(split(w) == (w,) for w in text)]
            if k is not None:
                near = [t for t in near if sum(a != b for a, b in zip(t, words, strict=True)) <= k]
        else:
            assert k <= 1
            near = edited_words(claim["text"], k, about["split"], about["pattern"])
        if not all(holds(text, y) for text in near):
            return False
    return bool(about["number"] == len(claims) > 0)


def words_of(text: str, way: str, pattern: str) -> Words:
    plain = text if way == "ascii" else text.lower()
    return tuple(match.group().lower() for match in re.finditer(pattern, plain))


@cache
def edited_words(text: str, k: int, way: str, pattern: str) -> list[Words]:
    """The words of all edited texts, each once: most edits make the same words as another."""
    return list(dict.fromkeys(words_of(one, way, pattern) for one in edited(text, k)))


def edited(text: str, k: int) -> set[str]:
    found = {text}
    for at in range(len(text) + 1) if k else ():
        found |= {text[:at] + c + text[at:] for c in LETTERS}
        found |= {text[:at] + c + text[at + 1 :] for c in [*LETTERS, ""]}
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [name if name == "words" else pytest.param(name, marks=pytest.mark.slow) for name in EXPORTS],
)
def test_what_is_changed_is_refused_or_true(name: str) -> None:
    files = EXPORTS[name]()
    about = json.loads(files["statement.json"])
    k = "all" if about["k"] is None else about["k"]
    told = f"{about['number']} claims of {about['threat']}, k={k} hold\n"
    assert checked(files) == told
    assert is_true(files)
    count = 0
    for file, mutate in MUTATIONS.items():
        # Values are near one another: some changes give the same bytes.
        for content in dict.fromkeys(mutate(files[file])):
            if content == files[file]:
                continue
            count += 1
            changed = {**files, file: content}
            same = file == "statement.json" and _parsed(content) == about
            # Whatever is changed in a single file contradicts a digest of the statement.
            assert checked(changed) is None or same, content[:300]
            try:
                forged = sealed(changed)
            except (ValueError, TypeError, AttributeError):
                continue
            said = checked(forged)
            assert said is None or is_true(forged), (file, content[:300])
            if said is not None and file == "claims.jsonl":
                assert json.loads(forged["statement.json"])["number"] == int(said.split()[0])
    assert count > 300


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None


def test_a_statement_about_fewer_claims_is_refused() -> None:
    files = EXPORTS["words"]()
    lines = files["claims.jsonl"].split(b"\n")
    fewer = sealed({**files, "claims.jsonl": b"\n".join([*lines[:-2], b""])})
    assert checked(fewer) is None
    # The same claim twice, by another number, is refused by its number alone.
    twice = lines[0] + b"\n" + lines[0] + b"\n"
    about = {**json.loads(files["statement.json"]), "number": 2}
    both = {**files, "claims.jsonl": twice, "statement.json": json.dumps(about).encode()}
    assert checked(sealed(both)) is None


def test_words_of_every_edit_are_tried() -> None:
    """Each claim that brute force refutes is refused: false predictions, too many edits."""
    files = EXPORTS["characters"]()
    about = json.loads(files["statement.json"])
    refuted = 0
    for text, y, k in product(("good", "a bad film", "not one", "it"), range(3), (0, 1)):
        claim = {"sample_id": 0, "text": text, "prediction": y, "k": k, "places": None}
        stated = json.dumps({**about, "k": k, "number": 1}).encode()
        lines = (json.dumps(claim) + "\n").encode()
        forged = sealed({**files, "statement.json": stated, "claims.jsonl": lines})
        true = is_true(forged)
        assert (checked(forged) is not None) == true, (text, y, k)
        refuted += not true
    assert refuted > 10


@pytest.mark.parametrize("name", ["words", "one word", "pairs", "net"])
def test_all_sets_of_synonyms_are_searched(name: str) -> None:
    files = EXPORTS[name]()
    about, lists = json.loads(files["statement.json"]), json.loads(files["lists.json"])[2]
    threat = Synonyms.of(lists)
    outcomes = set()
    for text, y, k in product(("good", "a bad film", "not one good"), range(3), (0, 1, 2, None)):
        places = threat.candidates(text)
        claim = {"sample_id": 0, "text": text, "prediction": y, "k": k, "places": places}
        stated = json.dumps({**about, "k": k, "number": 1}).encode()
        lines = (json.dumps(claim) + "\n").encode()
        forged = sealed({**files, "statement.json": stated, "claims.jsonl": lines})
        true = is_true(forged)
        assert (checked(forged) is not None) == true, (text, y, k)
        outcomes.add(true)
    assert outcomes == {True, False}


def test_the_checker_is_short_and_on_its_own() -> None:
    text = CHECKER.read_text()
    assert len(text.splitlines()) <= 90
    imported = set(re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE))
    assert imported == {"json", "re", "sys", "unicodedata", "hashlib", "pathlib", "safetensors"}
