"""Files of labelled texts as people have them, each with one difficulty."""

import gzip
import json
from collections.abc import Sequence

NOUNS = ("soup", "staff", "room", "coffee", "bread", "waiter", "table", "music")
WORDS = (("awful", "bland", "cold", "rude"), ("lovely", "great", "tasty", "warm"))


def text(i: int) -> str:
    return f"the {NOUNS[i % 8]} was {WORDS[i % 2][i // 8 % 4]} and the bill number {i}"


ROWS = [(text(i), ("neg", "pos")[i % 2]) for i in range(120)]


def table(
    rows: Sequence[Sequence[object]],
    separator: str = ",",
    head: tuple[str, ...] = ("text", "label"),
) -> str:
    return "".join(separator.join(map(str, row)) + "\n" for row in [head, *rows])


def json_lines(rows: Sequence[dict[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


HALVES = [(t, 1 + i % 9 / 2) for i, (t, _) in enumerate(ROWS)]
SKEWED = [
    (t, "sport" if i % 10 < 7 else ("world", "tech", "money")[i % 3])
    for i, (t, _) in enumerate(ROWS)
]
SENTENCES = "".join(
    "".join(f"{word}\t{'B-dish' if word in NOUNS else 'O'}\n" for word in t.split()) + "\n"
    for t, _ in ROWS
)
OBJECTS: list[dict[str, object]] = [{"text": t, "label": label} for t, label in ROWS]
FILES: dict[str, bytes] = {
    "plain.csv": table(ROWS).encode(),
    "bom.csv": table(ROWS).encode("utf-8-sig"),
    "semicolon.csv": table(ROWS, ";", ("Bewertung", "Urteil")).encode(),
    "latin.csv": table([(t.replace("coffee", "café"), y) for t, y in ROWS]).encode("latin-1"),
    "hard_space.csv": table([(t.replace(" bill", "\xa0bill"), y) for t, y in ROWS]).encode(
        "latin-1"
    ),
    "windows.csv": table([(f"“{t}”", y) for t, y in ROWS]).encode("cp1252"),
    "utf16.tsv": table(ROWS, "\t").encode("utf-16"),
    "utf16_no_mark.tsv": table(ROWS, "\t").encode("utf-16-le"),
    "mixed.csv": table([(f"süß {t}", y) for t, y in ROWS]).encode() + b"caf\xe9,pos\n",
    "nested.jsonl": json_lines(
        [{"id": i, "body": {"text": t}, "meta": {"label": y}} for i, (t, y) in enumerate(ROWS)]
    ).encode(),
    "array.json": json.dumps(OBJECTS, indent=1).encode(),
    "object.json": json.dumps({"data": OBJECTS}, indent=1).encode(),
    "pipe.txt": table(ROWS, "|").encode(),
    "packed.csv.gz": gzip.compress(table(ROWS).encode()),
    "floats.csv": table(HALVES, head=("text", "score")).encode(),
    "decimal.csv": table([(t, str(y).replace(".", ",")) for t, y in HALVES], ";").encode(),
    "lists.jsonl": json_lines([{"text": t, "label": [y, "short"]} for t, y in ROWS]).encode(),
    "one_list.jsonl": (
        json_lines([{"text": "first", "label": ["neg", "short"]}, *OBJECTS, {"text": "bare"}])
        + json_lines([{"text": 5, "label": "pos"}, {"text": ["a"], "label": "pos"}])
        + "no JSON\n"
    ).encode(),
    "joined.csv": table(
        [(t, ("joy", "fear", "joy|fear")[i % 3]) for i, (t, _) in enumerate(ROWS)]
    ).encode(),
    "none.csv": table([(t, "None" if i % 9 == 0 else y) for i, (t, y) in enumerate(ROWS)]).encode(),
    "minus.csv": table(
        [(t, -1 if i % 9 == 0 else i % 2) for i, (t, _) in enumerate(ROWS)]
    ).encode(),
    "skewed.csv": table(SKEWED).encode(),
    "leak.csv": table(ROWS[:30]).encode(),
    "empty.csv": b"",
    "header.csv": b"text,label\n",
    "no_header.csv": table(ROWS[1:], head=ROWS[0]).encode(),
    "empty_texts.csv": table(
        [("" if i % 7 == 0 else t, y) for i, (t, y) in enumerate(ROWS)]
    ).encode(),
    "emoji.csv": table([(f"{t} 😀", y) for t, y in ROWS]).encode(),
    "html.csv": table([(f"<p>{t}<br /></p>", y) for t, y in ROWS]).encode(),
    "long.csv": table([*ROWS, ("word " * 20_000, "pos")]).encode(),
    "pairs.csv": table(
        [(t, text(i + 1), ("no", "yes")[i % 2]) for i, (t, _) in enumerate(ROWS)],
        head=("premise", "hypothesis", "label"),
    ).encode(),
    "commas.csv": table(
        [(t.replace(" and", ", and") if i == 7 else t, y) for i, (t, y) in enumerate(ROWS)]
    ).encode(),
    "typo.csv": table([*ROWS, ("what a nice place", "Pos")]).encode(),
    "swapped.csv": table([(y, t) for t, y in ROWS]).encode(),
    "one_class.csv": table([(t, "pos") for t, _ in ROWS]).encode(),
    "repeated.csv": table([*ROWS, *ROWS[:20], (ROWS[0][0].upper(), "pos")]).encode(),
    "tags.conll": SENTENCES.encode(),
    "book.xlsx": b"PK\x03\x04" + bytes(100),
}
