"""Checks claims about added text by arithmetic of its own: python check_detector.py FOLDER.

A claim is a raw text. It says that the model of the folder detects this text and every text that
contains it, by the threat of the statement: any text in front and at the end, with white space
between (append) or also without (append-glued); any lines (append-lines); any words between the
words (insert-any). Behind a front end the texts may also be written in other characters of the
same canonical form.

The model reads words as below. Each word or n-gram of a text counts once, with an integer of at
least 0. A text is detected if their sum and the offset, which has the threshold, are above 0. So
added text takes nothing away from the words that stay whole: those of the part `core(text)`. That
they do stay whole is the theorem of append.md, which no program checks.
"""

import json
import re
import sys
import unicodedata
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from safetensors.numpy import load

FORMS = "afcf73defe583b291e26c03e45c75db116a463d4126497c4763ba610c0a6915f"
FILES = ("statement.json", "forms.json", "scores.safetensors", "claims.jsonl")
FIELDS = {
    **dict.fromkeys(("threat", "says", "split", "front_end"), str),
    "options": list,
    **dict.fromkeys(("forms", "weights", "claims"), str),
    **dict.fromkeys(("number", "offset"), int),
    **dict.fromkeys(("classes", "words", "uncorrected"), list),
    "detects": str,
}
THREATS = ("append", "append-glued", "append-lines", "insert-any")
OPTIONS = ("display", "leetspeak", "repeats", "spaced")
MOST = 2**29  # of each number: the sums of the model itself are exact then

LETTER = r"[^\W\d_]"
SIGNS = str.maketrans("013457@$", "oieastas")
SHAPES = str.maketrans("l1|0`", "iiio'")
WINDOWS = str.maketrans("\x91\x92\x93\x94\x95\x96\x97", "‘’“”•–—")
UNREAD = re.compile(  # with `display`, hidden, directed and upside-down characters
    "[\ufe00-\ufe0e\U000e0020-\U000e007e\U000e0100-\U000e01ef\u202a-\u202e\u2066-\u2069"
    "ɐⱯɔƆǝƎɟƃƂɥꞍɾʞꞰɯƜɹʇꞱʌɅʍʎᄅƐɛㄣϛϚㄥ]"
)
TURN = str.maketrans("bdnpqu69", "qpudbn96")
MARKS = "".join(c for c in map(chr, range(0x300, 0x1F000)) if unicodedata.category(c)[0] == "M")
MARKS += "\u200c\u200d" + "".join(map(chr, range(0xE0100, 0xE01F0)))
PATTERNS = {
    "clitics": r"\d+(?:[.,:]\d+)*|[^\W\d_]+?(?=n't\b)|n't\b|'(?:s|m|d|re|ve|ll)\b"
    rf"|\w[\w{MARKS}]*|([^\w\s])\1*",
    "alphanumeric": rf"\w[\w{MARKS}]*",
    "ascii": "[A-Za-z0-9]+",
    "joined": rf"[^\W_](?:[\w{MARKS}'\-*@`]*[^\W_][{MARKS}]*)?",
}


def refuse(reason):
    sys.exit(f"refused: {reason}")


def letters(text):
    return re.search(LETTER, text)


def spaced(text):  # single letters with blanks, or what looks so, between become one word
    between = [rf"(?<!\S){any_letter}(?: {any_letter}){{3,}}(?!\S)"]
    if "display" in options:
        start, end = r"(?:\A|(?<=\A )|(?<=  )|(?<=[^\w\s] ))", r"(?=  | ?\Z| [^\w\s])"
        between.insert(0, rf"{start}{any_letter}(?: {any_letter})+{end}")
        between.insert(0, rf"(?<!\w){any_letter}([.\-]){any_letter}(?:\1{any_letter})*(?!\w)")
    for pattern in between:
        text = re.sub(pattern, lambda m: m[0][:: 2 if letters(m[0]) else 1], text)
    return text


def likeness(word):  # of a word that may be upside down, to English
    own = [c for c in word if c not in "'-*@_"]
    q, d, p, n = map(own.count, "qdpn")
    return not {*"iou"}.isdisjoint(own), -q, d - p, n, [-ord(c) for c in own], word


def upright(match):
    word = match[0]
    turns = {*word} <= {*"bdinopqsuxz689'-*@_"}
    return max(word, word.translate(TURN)[::-1], key=likeness) if turns else word


def form_of(text):  # what the model reads of a text
    if front == "none" and way == "ascii":
        return text
    if front == "none":
        text = unicodedata.normalize("NFC", text)
        return re.sub("[\u2019\u02bc\uff07]", "'", text).lower()
    if "display" not in options:
        return cut(text.translate(form))
    text = turned(text.translate(WINDOWS).translate(form).translate(SHAPES), 2)
    while (after := cut(text)) != text:
        text = turned(after, 2)
    return turned(text, 1)


def turned(text, least):  # with the words that may be upside down in one of their forms
    word = re.compile(PATTERNS["joined"])
    return word.sub(lambda m: upright(m) if len(m[0]) >= least else m[0], text)


def cut(text):  # the options but `display`
    if "spaced" in options:
        text = spaced(text)
    if "leetspeak" in options:
        sign = r"(?:[^\W_2689]|[@$])+"
        text = re.sub(sign, lambda m: m[0].translate(SIGNS) if letters(m[0]) else m[0], text)
    if "repeats" in options:
        text = re.sub(rf"({LETTER})\1{{2,}}", r"\1\1", text)
    return text


def core(text):  # the part whose words stay whole
    blank = [(c if front == "none" else form.get(ord(c), c)).isspace() for c in text]
    blanks = [n for n, is_blank in enumerate(blank) if is_blank]
    start, stop = 0, len(text)
    if threat == "append-glued":
        start, stop = (blanks[0], blanks[-1]) if blanks else (0, 0)
    if "spaced" in options:  # an added letter joins single letters next to it
        ends = [start - 1, *(n for n in blanks if start <= n < stop), stop]
        runs = [(a + 1, b) for a, b in pairwise(ends) if len(form_of(text[a + 1 : b])) > 1]
        start, stop = (runs[0][0], runs[-1][1]) if runs else (0, 0)
    return text[start:stop]


def near(word):  # the ends of one edit that turn a word into one of the model, as numbers
    parts = [(word[:n], word[n : n + 1], word[n + 1 :]) for n in range(len(word))]
    yield longer.get(word)  # a letter is inserted
    for head, letter, tail in parts:
        yield longer.get(f"{head}?{tail}")  # replaced
        yield targets.get(head + tail)  # deleted
        yield targets.get(head + tail[:1] + letter + tail[1:])  # swapped with the next


def read(word):  # the number of the word that the model reads; None: it has no score
    if way == "joined" and not word.isalnum():  # without the marks inside
        word = re.sub("['\\-*@`_]+", "", word)
    if word in index or front != "spelling" or len(word) > 24:
        return index.get(word)
    return min((number for number in near(word) if number is not None), default=None)


def evidence(text):  # of all words and n-grams that a text has, each once
    ids = tuple(read(m[0].lower()) for m in re.finditer(PATTERNS[way], form_of(text)))
    sizes = range(1, 2 if threat == "insert-any" else orders + 1)
    grams = {ids[n : n + size] for size in sizes for n in range(len(ids) - size + 1)}
    return sum(scores.get(gram, 0) for gram in grams)


contents = [Path(sys.argv[1], name).read_bytes() for name in FILES]
about, digests = json.loads(contents[0]), [sha256(data).hexdigest() for data in contents]
seal = about.pop("seal", None)
seal == sha256(json.dumps(about).encode()).hexdigest() or refuse("the seal")
{name: type(value) for name, value in about.items()} == FIELDS or refuse("the fields")
threat, says, way, front, options, *stated, number, offset, classes, words, avoided, target = (
    about.values()
)
stated == digests[1:] or refuse("a file is not the one of the statement")
digests[1] == FORMS or refuse("forms.json is not the table of canonical forms that is known here")
threat in THREATS or refuse("the threat")
(way in PATTERNS and front in ("none", "canonical", "spelling")) or refuse("the words")
options == [name for name in OPTIONS if name in options] or refuse("the options")
front == "none" and options and refuse("options without a canonical form")
threat == "insert-any" and "spaced" in options and refuse("an inserted word divides a spaced one")
{*map(type, (*classes, *words, *avoided))} == {str} or refuse("the names")
(len({*classes}) == len(classes) == 2 and target in classes) or refuse("the classes")
len({*words}) == len(words) or refuse("a word twice")
form = {}
for new, ranges in json.loads(contents[1])["forms"].items():
    for first, _, last in (part.partition("-") for part in ranges.split()):
        form |= dict.fromkeys(range(int(first, 16), int(last or first, 16) + 1), new)
if "display" in options:
    form |= {ord(c): new for c, new in zip("৭ᴉƖɩ", "9iii", strict=True)}
any_letter = r"(?:[^\W_2689]|[@$])" if "leetspeak" in options else LETTER
tensors = {n: t.astype("i8", casting="no").tolist() for n, t in load(contents[2]).items()}
orders, scores = len(tensors) // 2, {}
for n in range(1, orders + 1):
    grams, values = tensors[f"ngrams_{n}"], tensors[f"scores_{n}"]
    ({*map(len, grams)} <= {n} and {*map(len, values)} <= {1}) or refuse("the shapes")
    scores |= {tuple(gram): score for gram, (score,) in zip(grams, values, strict=True)}
tensors["ngrams_1"] == [[n] for n in range(len(words))] or refuse("words without a score")
2 * len(scores) == sum(map(len, tensors.values())) <= 2**24 or refuse("an n-gram twice")
all(0 <= score <= MOST for score in scores.values()) or refuse("a score below 0, or too large")
index, targets, longer = {word: n for n, word in enumerate(words)}, {}, {}
for word, n in reversed(index.items()):
    if word not in avoided and re.fullmatch("[a-z0-9]{1,23}", word):
        targets[word] = n
        for at in range(len(word)):  # of several words the first one stays
            longer[word[:at] + word[at + 1 :]] = longer[word[:at] + "?" + word[at + 1 :]] = n
claims, names = contents[3].decode().removesuffix("\n").split("\n"), set()
for line in claims:
    at, text = json.loads(line).values()
    line == json.dumps({"sample_id": at, "text": text}) or refuse(f"a claim: {line[:200]}")
    "display" in options and UNREAD.search(text) and refuse(f"a text not read here: {line[:200]}")
    offset + evidence(core(text)) > 0 or refuse(f"a claim that does not hold: {line[:200]}")
    names.add(at)
len(names) == len(claims) == number or refuse("the number of claims")
print(f"{number} texts stay {target}: {says}")
