"""Pairs of texts of which people have said whether they mean the same."""

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from datamodules import MRPC
from datamodules.sources.readers import find_file, read_rows
from text import ClassLabels, Text, label_text, split_words
from text.bounded_files import decode, lines, opened

Part = Literal["validation", "test"]


class MeaningPairs(NamedTuple):
    """Pairs of one kind.

    Attributes:
        name: corpus, and what people say of the pairs.
        same: True if they mean the same.
        edit: True if the second text is the first one with a few words changed.
        pairs: original and other text.
    """

    name: str
    same: bool
    edit: bool
    pairs: list[tuple[Text, Text]]


def meaning_pairs(folder: Path, part: Part) -> list[MeaningPairs]:
    """Reads what of SICK, MRPC, STS-B and the counterfactual SNLI is in a folder of corpora.

    Args:
        folder: with a folder for each corpus.
        part: validation to choose limits, test to judge them.

    Raises:
        ValueError: none of them is there.
        DataError: a file that cannot be read.
    """
    found = [
        *_sick(folder, part),
        *_mrpc(folder, part),
        *_stsb(folder, part),
        *_counterfactual(folder, part),
    ]
    if not found:
        msg = (
            f"got {folder} without pairs that people have judged, expected some of sick, mrpc, "
            f"stsb and snli_counterfactual, each a folder with {part}.tsv"
        )
        raise ValueError(msg)
    return found


def damaged(
    texts: Sequence[str], vocabulary: Sequence[str], *, seed: int = 0
) -> list[tuple[Text, Text]]:
    """Returns texts in which one word of four letters and more is replaced by any other word.

    Args:
        texts: those without such a word are left out.
        vocabulary: words to put in.
        seed: of the choices.
    """
    source = random.Random(seed)
    found: list[tuple[Text, Text]] = []
    for text in texts:
        parts = text.split(" ")
        places = [i for i, part in enumerate(parts) if len(part) > 3 and part.isalpha()]
        if places:
            place = source.choice(places)
            other = [*parts[:place], source.choice(vocabulary), *parts[place + 1 :]]
            found.append((text, " ".join(other)))
    return found


def running_text(paths: Sequence[str | Path], limit: int) -> list[str]:
    """Returns the first lines of text files, gzipped or not, that are not empty.

    Raises:
        OSError: a file that cannot be read.
        ValueError: no text.
    """
    found: list[str] = []
    for path in map(Path, paths):
        with opened(path) as file:
            for _, raw in lines(path, file, packed=path.suffix == ".gz"):
                if len(found) >= limit:
                    break
                if line := decode(raw, path).strip():
                    found.append(line)
    if not found:
        msg = f"got no text in {', '.join(map(str, paths))}, expected lines of it"
        raise ValueError(msg)
    return found


def vocabulary_of(texts: Sequence[str]) -> list[str]:
    """Returns the words of texts with four letters and more, sorted."""
    words = {word for text in texts for word in split_words(text)}
    return sorted(word for word in words if len(word) > 3 and word.isalpha())


def _rows(folder: Path, stem: str, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    path = find_file(folder, stem)
    if path is not None:
        yield from (row.values for row in read_rows(path, columns) if row.problem is None)


def _kept(
    name: str, pairs: list[tuple[Text, Text]], *, same: bool, edit: bool
) -> list[MeaningPairs]:
    return [MeaningPairs(name, same, edit, pairs)] if pairs else []


def _sick(folder: Path, part: Part) -> list[MeaningPairs]:
    columns = ("sentence_A", "sentence_B", "label", "relatedness_score")
    rows = list(_rows(folder / "sick", part, columns))
    same = [_two(one, columns) for one in rows if float(one[columns[3]]) >= 4.8]
    index = ClassLabels(("entailment", "neutral", "contradiction"))
    other = [_two(one, columns) for one in rows if index(one["label"]) == 2]
    return [
        *_kept("SICK, relatedness at least 4.8", same, same=True, edit=False),
        *_kept("SICK, contradiction", other, same=False, edit=False),
    ]


def _mrpc(folder: Path, part: Part) -> list[MeaningPairs]:
    columns = ("sentence1", "sentence2", "label")
    rows = list(_rows(folder / "mrpc", part, columns))
    index = ClassLabels(MRPC.classes, MRPC.synonyms)
    same = [_two(one, columns) for one in rows if index(one["label"]) == 1]
    other = [_two(one, columns) for one in rows if index(one["label"]) == 0]
    return [
        *_kept("MRPC, paraphrase", same, same=True, edit=False),
        *_kept("MRPC, no paraphrase", other, same=False, edit=False),
    ]


def _stsb(folder: Path, part: Part) -> list[MeaningPairs]:
    columns = ("sentence1", "sentence2", "score")
    rows = list(_rows(folder / "stsb", part, columns))
    same = [_two(one, columns) for one in rows if float(one["score"]) >= 4.8]
    other = [_two(one, columns) for one in rows if 2 <= float(one["score"]) <= 3]
    return [
        *_kept("STS-B, at least 4.8 of 5", same, same=True, edit=False),
        *_kept("STS-B, 2 to 3 of 5", other, same=False, edit=False),
    ]


def _counterfactual(folder: Path, part: Part) -> list[MeaningPairs]:
    """Pairs texts with those that people have edited until the label was another."""
    place, columns = folder / "snli_counterfactual", ("premise", "hypothesis", "label")
    by_side: dict[tuple[str, str], Mapping[str, Any]] = {}
    for one in _rows(place, f"original_{part}", columns):
        for side in columns[:2]:
            by_side.setdefault((side, one[side]), one)
    found: list[tuple[Text, Text]] = []
    for one in _rows(place, f"revised_{part}", columns):
        for kept, edited in (columns[:2], columns[1::-1]):
            original = by_side.get((kept, one[kept]))
            if original is not None and label_text(original["label"]) != label_text(one["label"]):
                found.append((original[edited], one[edited]))
                break
    return _kept("SNLI, edited to another label", found, same=False, edit=True)


def _two(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[Text, Text]:
    return row[columns[0]], row[columns[1]]
