"""Checks the claims of `certify export` by a search of its own: python check.py FOLDER."""

import hashlib
import json
import re
import sys
import unicodedata
from pathlib import Path

from safetensors.numpy import load

folder = Path(sys.argv[1])
about = json.loads((folder / "statement.json").read_text(encoding="utf-8"))
window, limit, classes = about["window"], about["max_length"], range(len(about["classes"]))
weights = (folder / "scores.safetensors").read_bytes()
if hashlib.sha256(weights).hexdigest() != about["weights"]:
    sys.exit("other weights than those of the statement")
index = {word: i for i, word in enumerate(about["words"]) if i >= about["specials"]}
starts = {word[:n] for word in index for n in range(1, len(word) + 1)}
tensors = {name: tensor.tolist() for name, tensor in load(weights).items()}
scores = {}  # of words and n-grams; they are integers, so sums of them are exact
for n in [name[-1] for name in tensors if name.startswith("ngrams_")]:
    scores |= zip(map(tuple, tensors["ngrams_" + n]), tensors["scores_" + n], strict=True)
tables, output = tensors.get("net_tables"), tensors.get("net_output", [])


def split(text):
    if about["normalised"]:
        text = re.sub("[\u2019\u02bc\uff07]", "'", unicodedata.normalize("NFC", text)).lower()
    return [found.group().lower() for found in re.finditer(about["pattern"], text)]


def lead(words, y, j):  # of class y over class j, by the n-grams that end with the last word
    ids = tuple(index.get(word) for word in words)
    found = filter(None, (scores.get(ids[at:]) for at in range(len(ids))))
    read = [t[i] for t, i in zip(tables[-len(ids) :], ids, strict=True) if i] if tables else []
    net = sum(max(0, sum(r[h] for r in read)) * (o[y] - o[j]) for h, o in enumerate(output))
    return sum(one[y] - one[j] for one in found) * 2**12 + net  # the net's grid is finer


def keep(states, state, value):
    states[state] = min(states.get(state, value), value)


def synonyms(places, k, y, j):
    states = {((), 0): 0}
    for place in places[:limit]:
        before, states = states, {}
        for (last, used), value in before.items():
            for word in place if k is None or used < k else place[:1]:
                words, more = (*last, word)[-window:], k is not None and word != place[0]
                state = (words[len(words) == window :], used + more)
                keep(states, state, value + lead(words, y, j))
    return min(states.values())


def characters(text, k, y, j):
    states, letters = {("", 0): 0}, "abcdefghijklmnopqrstuvwxyz0123456789 "
    plain = [c.lower() if c.isascii() and c.isalnum() else " " for c in text]
    for letter in [*plain, ""]:
        after = {} if letter else states
        for used in range(k + 1):  # insertions lead from few edits to more
            for (part, _), value in [one for one in states.items() if one[0][1] == used]:
                for other in letters if used < k else letter:
                    to = part + other if part + other in starts else "?"  # no known word
                    to, gain = ("", value + lead([part], y, j)) if other == " " else (to, value)
                    keep(states, (to, used + 1), gain) if used < k else None
                    keep(after, (to, used + (other != letter)), gain) if letter else None
                keep(after, (part, used + 1), value) if letter and used < k else None
        states = after
    return min(value + lead([part], y, j) for (part, _), value in states.items())


for number, line in enumerate((folder / "claims.jsonl").open(encoding="utf-8"), start=1):
    text, y, k, places = map(json.loads(line).get, ("text", "prediction", "k", "places"))
    fits = [p[0] for p in places] == split(text) if places else len(split(text)) + k <= limit
    search, what = (synonyms, places) if places else (characters, text)
    if not fits or min(search(what, k, y, j) for j in classes if j != y) <= 0:
        sys.exit(f"claim {number} does not hold: {line[:200]}")
print("all claims hold")
