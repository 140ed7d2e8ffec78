"""Checks the claims of `certify export` by a search of its own: python check.py FOLDER."""

import json
import re
import sys
import unicodedata
from hashlib import sha256
from pathlib import Path

from safetensors.numpy import load


def split(text):
    if way != "ascii":
        text = re.sub("[\u2019\u02bc\uff07]", "'", unicodedata.normalize("NFC", text)).lower()
    return [match.group().lower() for match in re.finditer(pattern, text)]


def listed(text):  # the candidates of each word, the word itself first
    places = []
    for at, token in enumerate(text.split() if texts else split(text)):
        places += [[word] for word in split(token)] if texts else [[token]]
        if others := texts[text].get(str(at)) if texts else lists.get(token):
            places[-1] = [*dict.fromkeys([places[-1][0], *(w for w in others if split(w) == [w])])]
    return places


def lead(words, y, j):  # of y over j, by n-grams that end with the last word; a net's grid is finer
    ids = tuple(map(index.get, words))
    read = [t[i] for t, i in zip(tables[-len(ids) :], ids, strict=False) if i is not None]
    net = sum(max(0, sum(r[h] for r in read)) * (o[y] - o[j]) for h, o in enumerate(output))
    return sum(s[y] - s[j] for at in range(len(ids)) if (s := scores.get(ids[at:]))) * 2**12 + net


def least(places, y, j):  # by the last words, or the letters of one, and the number of changes
    states = {((), 0) if synonyms else ("", 0): 0}
    for place in places:
        before, states = states, {}
        for (last, used), value in before.items():
            for new in place if k is None or used < k else place[:1]:
                tail = (*last, new)[-window:] if synonyms else [last]
                more = lead(tail, y, j) if synonyms or (last and new == " ") else 0
                part = "" if new == " " else f"{last}{new}"  # else "?": of no known word
                rest = tail[len(tail) == window :] if synonyms else part if part in starts else "?"
                to = (rest, used + (k is not None and new != place[0]))
                states[to] = min(states.get(to, value + more), value + more)
    return min(states.values())


files = ("statement.json", "lists.json", "scores.safetensors", "claims.jsonl")
stated, content, weights, claimed = (Path(sys.argv[1], name).read_bytes() for name in files)
about, claims = json.loads(stated), claimed.decode().removesuffix("\n").split("\n")
fields = "threat split pattern lists weights claims number max_length classes words k seal"
threat, way, pattern, *digests, number, most, classes, words, k, seal = about.values()
synonyms, kinds = threat == "synonyms", [*[str] * 6, int, int, list, list, type(k), str]
*subject, lists, texts = [*json.loads(content), *[{}, {}][2 * synonyms :]]
tensors = {n: t.astype("i8", casting="no").tolist() for n, t in load(weights).items()}
tables, output = tensors.get("net_tables", []), tensors.get("net_output", [])
window, scores = len(tables) or max(int(name[-1]) for name in tensors), {}
for n in range(1, 2 if tables else window + 1):
    scores |= zip(map(tuple, tensors[f"ngrams_{n}"]), tensors[f"scores_{n}"], strict=True)
index = dict(zip(words, range(len(words)), strict=True))
starts = {word[:n] for word in words for n in range(len(word) + 1)}  # with the empty one
checks = [
    " ".join(about) == fields and [*map(type, about.values())] == kinds,
    about.pop("seal") == sha256(json.dumps(about).encode()).hexdigest(),
    digests == [sha256(data).hexdigest() for data in (content, weights, claimed)],
    number == len({json.loads(line)["sample_id"] for line in claims}) == len(claims),
    most >= 1 and (synonyms if k is None else type(k) is int and 0 <= k <= (k * synonyms or most)),
    synonyms or [threat, way, window] == ["characters", "ascii", 1],
    {type(entry) for one in (lists, *texts.values()) for entry in one.values()} <= {list},
    subject == [threat, way] and (way == "ascii") == (pattern == "[A-Za-z0-9]+"),
    {*map(type, classes + words)} == {str} and tensors["ngrams_1"] == [[i] for i in index.values()],
    {len(r) for t in tables for r in t} <= {len(output)} and {*map(len, output)} <= {len(classes)},
    len({*classes}) == len(classes) > 1 and {*map(len, scores.values())} == {len(classes)},
]
all(checks) or sys.exit(f"refused: check {1 + checks.index(False)} of the statement")
spare = (0 if synonyms else k) * [letters := ["", *"abcdefghijklmnopqrstuvwxyz0123456789 "]]
for line in claims:
    at, text, y = map(json.loads(line).get, ("sample_id", "text", "prediction"))
    places = listed(text) if synonyms else None
    told = {"sample_id": at, "text": text, "prediction": y, "k": k, "places": places}
    same = line == json.dumps(told) and {type(at), type(y)} == {int} and 0 <= y < len(classes)
    read = [p[0] for p in places] == split(text) if synonyms else len(split(text)) + k <= most
    plain = re.sub("[^a-z0-9]", " ", text.encode("ascii", "replace").decode().lower())
    edits = [p for c in plain for p in (*spare, [c, *letters])] + [*spare, [" "]]
    paths = places[:most] if synonyms else edits
    if not (same and read and min(least(paths, y, j) for j in range(len(classes)) if j != y) > 0):
        sys.exit(f"refused: a claim that does not hold: {line[:200]}")
print(f"{number} claims of {threat}, k={'all' if k is None else k} hold")
