"""Checks claims about perturbation sets by a search of its own: python check_sets.py FOLDER.

A claim is a raw text and a class. It says: at most k words of the text may change (null: any
number), each into a text of its list in lists.json or, unless typos are excluded for it, by one
typo; whatever they become, the model of the folder predicts this class. So does every text whose
characters have the same canonical forms.

The model reads the canonical form of a text (forms.json), finds words in it by the pattern of the
statement, removes the marks inside of them, corrects those that it does not know to the first of
its words within one edit that is not in the list `uncorrected`, and adds up integer scores of
words, n-grams or windows.
"""

import json
import re
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path

from safetensors.numpy import load

FORMS = "afcf73defe583b291e26c03e45c75db116a463d4126497c4763ba610c0a6915f"
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
FILES = ("statement.json", "forms.json", "lists.json", "scores.safetensors", "claims.jsonl")
FIELDS = {
    **dict.fromkeys(("threat", "sets", "split", "pattern", "front_end"), str),
    **dict.fromkeys(("forms", "lists", "weights", "claims"), str),
    "number": int,
    "max_length": int,
    "classes": list,
    "words": list,
    "uncorrected": list,
}


def refuse(reason):
    sys.exit(f"refused: {reason}")


def split(text):
    return [match.group() for match in re.finditer(pattern, text.translate(form))]


def plain(word):  # without the marks inside, which the model does not read
    return re.sub("['\\-*@`_]+", "", word) if way == "joined" and not word.isalnum() else word


def near(word):  # the ends of one edit that turn a word into one of the model, as numbers
    parts = [(word[:n], word[n : n + 1], word[n + 1 :]) for n in range(len(word))]
    yield longer.get(word)  # a letter is inserted
    for head, letter, tail in parts:
        yield longer.get(f"{head}?{tail}")  # replaced
        yield targets.get(head + tail)  # deleted
        yield targets.get(head + tail[:1] + letter + tail[1:])  # swapped with the next


@cache
def read(word):  # the number of the word that the model reads; None: it has no score
    if word in index or front != "spelling" or len(word) > 24:
        return index.get(word)
    return min((number for number in near(word) if number is not None), default=None)


@cache
def reached(word):  # the numbers that a word may get, its own first
    others = [plain(new) for text in lists.get(word, []) for new in split(text)]
    if excluded is not None and word not in excluded:
        own = plain(word)
        for head, tail in ((own[:n], own[n:]) for n in range(len(own) + 1)):
            others += [head + tail[1:], head + tail[1:2] + tail[:1] + tail[2:]]
            others += [head + c + rest for c in alphabet for rest in (tail, tail[1:])]
    return [*dict.fromkeys(map(read, (plain(word), *filter(None, others))))]


@cache
def lead(ids, y, j):  # of y over j, by n-grams that end with the last word; a net's grid is finer
    rows = [t[i] for t, i in zip(tables[-len(ids) :], ids, strict=False) if i is not None]
    net = sum(max(0, sum(r[h] for r in rows)) * (o[y] - o[j]) for h, o in enumerate(output))
    return sum(s[y] - s[j] for n in range(len(ids)) if (s := scores.get(ids[n:]))) * 2**12 + net


def least(places, y, j):  # of all texts: by their last words, and the number of changes
    states = {((), 0): 0}
    for place in places:
        before, states = states, {}
        for (last, used), value in before.items():
            for new in place if k is None or used < k else place[:1]:
                tail = (*last, new)[-window:]
                to = tail[len(tail) == window :], used + (k is not None and new != place[0])
                total = value + lead(tail, y, j)
                states[to] = min(states.get(to, total), total)
    return min(states.values())


contents = [Path(sys.argv[1], name).read_bytes() for name in FILES]
about, digests = json.loads(contents[0]), [sha256(data).hexdigest() for data in contents]
seal, k = about.pop("seal", None), about.pop("k", 0)
seal == sha256(json.dumps({**about, "k": k}).encode()).hexdigest() or refuse("the seal")
{name: type(value) for name, value in about.items()} == FIELDS or refuse("the fields")
threat, sets, way, pattern, front, *stated, number, most, classes, words, avoided = about.values()
stated == digests[1:] or refuse("a file is not the one of the statement")
digests[1] == FORMS or refuse("forms.json is not the table of canonical forms that is known here")
k is None or (type(k) is int and k >= 0) or refuse("k")
threat == "substitutions" or refuse("the threat")
front in ("canonical", "spelling") or refuse("the front end")
most >= 1 < len({*classes}) == len(classes) or refuse("the numbers")
{*map(type, (*classes, *words))} == {str} or refuse("the words")
len({*words}) == len(words) or refuse("a word twice")
form = {}
for new, ranges in json.loads(contents[1])["forms"].items():
    for first, _, last in (part.partition("-") for part in ranges.split()):
        form |= dict.fromkeys(range(int(first, 16), int(last or first, 16) + 1), new)
lists, excluded = map(json.loads(contents[2]).get, ("lists", "excluded"))
{*map(type, lists.values()), type(excluded)} <= {list, type(None)} or refuse("the lists")
{len(split(text)) for texts in lists.values() for text in texts} <= {1} or refuse("a listed text")
excluded = None if excluded is None else {*excluded}
excluded is None or front == "spelling" or refuse("typos without a corrector")
tensors = {n: t.astype("i8", casting="no").tolist() for n, t in load(contents[3]).items()}
tables, output = tensors.get("net_tables", []), tensors.get("net_output", [])
window, scores = len(tables) or max(int(name[-1]) for name in tensors), {}
for n in range(1, 2 if tables else window + 1):
    scores |= zip(map(tuple, tensors[f"ngrams_{n}"]), tensors[f"scores_{n}"], strict=True)
tensors["ngrams_1"] == [[n] for n in range(len(words))] or refuse("words without a score")
{*map(len, scores.values()), *map(len, output)} == {len(classes)} or refuse("the scores")
{len(row) for table in tables for row in table} <= {len(output)} or refuse("the net")
index, targets, longer = {word: n for n, word in enumerate(words)}, {}, {}
for word, n in reversed(index.items()):
    if word not in avoided and re.fullmatch("[a-z0-9]{1,23}", word):
        targets[word] = n
        for at in range(len(word)):  # of several words the first one stays
            longer[word[:at] + word[at + 1 :]] = longer[word[:at] + "?" + word[at + 1 :]] = n
known = {*LETTERS, *"".join(words)}
other = next(c for c in map(chr, range(0xE000, 0x110000)) if c not in known)
alphabet = sorted({*known, other})  # the other one stands for all that no word of the model has
claims, names = contents[4].decode().removesuffix("\n").split("\n"), set()
for line in claims:
    claim = json.loads(line)
    at, text, y = claim.values()
    kinds = (type(at), type(text), type(y)) == (int, str, int) and 0 <= y < len(classes)
    same = line == json.dumps({"sample_id": at, "text": text, "prediction": y}) and kinds
    places = [reached(word) for word in split(text)][:most] if same else []
    if not same or min(least(places, y, j) for j in range(len(classes)) if j != y) <= 0:
        refuse(f"a claim that does not hold: {line[:200]}")
    names.add(at)
len(names) == len(claims) == number or refuse("the number of claims")
print(f"{number} claims of {sets}, k={'all' if k is None else k} hold")
