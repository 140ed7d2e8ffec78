"""A WordNet, a tagger and vectors small enough to know by heart."""

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attacks.resources.tagger import NAME, Tagger
from attacks.resources.vectors import WordVectors

# A line of index.*: lemma, part, senses, pointers, senses, tagged senses, offsets.
# A line of data.*: offset, file, type, number of words (hexadecimal), words each with a number.
SENSES = {
    "noun": (("movie", "film", "moving_picture"), ("film", "plastic_film"), ("Hollywood",)),
    "verb": (("film", "shoot", "take"), ("go", "travel")),
    "adj": (("good", "well(p)", "unspoiled"), ("big",)),
    "adv": (("well", "good"),),
}
EXCEPTIONS = {"verb": "went go\nshot shoot\n", "noun": "", "adj": "better good well\n", "adv": ""}
HEADER = "  1 This software and database is being provided to you\n"


class Alike:
    """An encoder to which all texts are nearly the same."""

    name = "alike"

    def cosines(self, first: Sequence[str], second: Sequence[str]) -> NDArray[np.float64]:
        assert len(first) == len(second)
        return np.full(len(first), 0.999)


def write_resources(folder: Path, neighbours: Mapping[str, Sequence[str]]) -> Path:
    """A folder with a WordNet, a tagger and lists of neighbours."""
    write_wordnet(folder / "corpora")
    write_tagger(folder / "taggers")
    (folder / "counterfitted_neighbors.json").write_text(json.dumps(neighbours))
    return folder


def write_wordnet(folder: Path) -> Path:
    """The database files of `SENSES`."""
    target = folder / "wordnet"
    target.mkdir(parents=True)
    for part, senses in SENSES.items():
        data = HEADER
        offsets: dict[str, list[int]] = {}
        for words in senses:
            for word in words:
                offsets.setdefault(word.partition("(")[0].lower(), []).append(len(data))
            names = " ".join(f"{word} 0" for word in words)
            data += f'{len(data):08d} 00 {part[0]} {len(words):02x} {names} 000 | a gloss; "so"  \n'
        lines = [
            f"{word} {part[0]} {len(at)} 0 {len(at)} 0 {' '.join(f'{one:08d}' for one in at)}  "
            for word, at in sorted(offsets.items())
        ]
        (target / f"data.{part}").write_text(data)
        (target / f"index.{part}").write_text(HEADER + "\n".join(lines) + "\n")
        (target / f"{part}.exc").write_text(EXCEPTIONS[part])
    return target


def zipped(folder: Path) -> Path:
    """The same in an archive beside it."""
    target = folder.with_suffix(".zip")
    with zipfile.ZipFile(target, "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"{folder.name}/{path.name}")
    return target


WEIGHTS = {
    "bias": {"NN": 0.5},
    "i suffix ing": {"VBG": 2.0},
    "i word good": {"JJ": 3.0},
    "i word big": {"JJ": 3.0},
    "i word run": {"NN": 1.0, "VB": 0.5},
    "i-1 word to": {"VB": 2.0},
    "i-1 tag DT": {"NN": 1.0, "JJ": 0.5},
    "i-1 tag+i word TO play": {"VB": 1.0},
    "i+1 word film": {"JJ": 1.5},
    "i+1 suffix ood": {"RB": 4.0},
    "i+2 word run": {"IN": 2.5},
}
KNOWN = {"the": "DT", "a": "DT", "to": "TO"}
TAGS = ("DT", "IN", "JJ", "NN", "RB", "TO", "VB", "VBG")


def small_tagger() -> Tagger:
    return Tagger(WEIGHTS, KNOWN, TAGS)


def write_tagger(folder: Path) -> Path:
    target = folder / NAME
    target.mkdir(parents=True)
    for part, content in (("weights", WEIGHTS), ("tagdict", KNOWN), ("classes", TAGS)):
        (target / f"{NAME}.{part}.json").write_text(json.dumps(content))
    return target


VECTORS = {
    "good": (1.0, 0.0, 0.1),
    "fine": (0.9, 0.1, 0.1),
    "great": (0.8, 0.3, 0.0),
    "bad": (-1.0, 0.1, 0.0),
    "film": (0.0, 1.0, 0.1),
    "movie": (0.05, 1.0, 0.1),
    ",": (0.9, 0.0, 0.5),
    "u.s.": (0.1, 0.9, 0.3),
}


def small_vectors() -> WordVectors:
    matrix = np.array(list(VECTORS.values()), dtype=np.float32)
    return WordVectors(list(VECTORS), matrix, digest="small")


def vector_lines() -> str:
    return "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in VECTORS.items())
