"""Pairs of texts with human judgements of equal meaning."""

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
        name: corpus, and the human judgement.
        same: True if they mean the same.
        edit: True if the second text is the first one with a few words changed.
        pairs: original and other text.
    """

    name: str
    same: bool
    edit: bool
    pairs: list[tuple[Text, Text]]


def meaning_pairs(folder: Path, part: Part) -> list[MeaningPairs]:
    """Read SICK, MRPC, STS-B and the counterfactual SNLI, those that are in a folder of corpora.

    Their validation part is to choose limits, the test part to judge them.

    Raises:
        ValueError: the folder has none of them.
        DataError: a file is unreadable.
    """
    corpora = (_sick, _mrpc, _stsb, _counterfactual)
    kinds = [kind for read in corpora for kind in read(folder, part) if kind.pairs]
    if not kinds:
        msg = (
            f"got {folder} without pairs that people have judged, expected some of sick, mrpc, "
            f"stsb and snli_counterfactual, each a folder with {part}.tsv"
        )
        raise ValueError(msg)
    return kinds


def damage(
    texts: Sequence[str], vocabulary: Sequence[str], *, seed: int = 0
) -> list[tuple[Text, Text]]:
    """Return texts in which one word of at least four letters is replaced by a random word.

    Texts without such a word are left out.
    """
    source = random.Random(seed)
    pairs: list[tuple[Text, Text]] = []
    for text in texts:
        parts = text.split(" ")
        positions = [i for i, part in enumerate(parts) if len(part) > 3 and part.isalpha()]
        if positions:
            position = source.choice(positions)
            other = [*parts[:position], source.choice(vocabulary), *parts[position + 1 :]]
            pairs.append((text, " ".join(other)))
    return pairs


def running_text(paths: Sequence[str | Path], limit: int) -> list[str]:
    """Return the first lines of text files, gzipped or not, that are not empty.

    Raises:
        OSError: a file cannot be read.
        ValueError: the files have no text.
    """
    collected: list[str] = []
    for path in map(Path, paths):
        with opened(path) as file:
            for _, raw in lines(path, file, packed=path.suffix == ".gz"):
                if len(collected) >= limit:
                    break
                if line := decode(raw, path).strip():
                    collected.append(line)
    if not collected:
        msg = f"got no text in {', '.join(map(str, paths))}, expected lines of it"
        raise ValueError(msg)
    return collected


def vocabulary_of(texts: Sequence[str]) -> list[str]:
    """Return the words of texts with at least four letters, sorted."""
    words = {word for text in texts for word in split_words(text)}
    return sorted(word for word in words if len(word) > 3 and word.isalpha())


def _rows(folder: Path, stem: str, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    path = find_file(folder, stem)
    if path is not None:
        yield from (row.values for row in read_rows(path, columns) if row.problem is None)


def _sick(folder: Path, part: Part) -> list[MeaningPairs]:
    # Relatedness is from 1 to 5.
    columns = ("sentence_A", "sentence_B", "label", "relatedness_score")
    rows = list(_rows(folder / "sick", part, columns))
    same = [_two(row, columns) for row in rows if float(row[columns[3]]) >= 4.8]
    index = ClassLabels(("entailment", "neutral", "contradiction"))
    other = [_two(row, columns) for row in rows if index(row["label"]) == 2]
    return [
        MeaningPairs("SICK, relatedness at least 4.8", True, False, same),
        MeaningPairs("SICK, contradiction", False, False, other),
    ]


def _mrpc(folder: Path, part: Part) -> list[MeaningPairs]:
    columns = ("sentence1", "sentence2", "label")
    rows = list(_rows(folder / "mrpc", part, columns))
    # 1 is the class of paraphrases.
    index = ClassLabels(MRPC.classes, MRPC.synonyms)
    same = [_two(row, columns) for row in rows if index(row["label"]) == 1]
    other = [_two(row, columns) for row in rows if index(row["label"]) == 0]
    return [
        MeaningPairs("MRPC, paraphrase", True, False, same),
        MeaningPairs("MRPC, no paraphrase", False, False, other),
    ]


def _stsb(folder: Path, part: Part) -> list[MeaningPairs]:
    columns = ("sentence1", "sentence2", "score")
    rows = list(_rows(folder / "stsb", part, columns))
    same = [_two(row, columns) for row in rows if float(row["score"]) >= 4.8]
    other = [_two(row, columns) for row in rows if 2 <= float(row["score"]) <= 3]
    return [
        MeaningPairs("STS-B, at least 4.8 of 5", True, False, same),
        MeaningPairs("STS-B, 2 to 3 of 5", False, False, other),
    ]


def _counterfactual(folder: Path, part: Part) -> list[MeaningPairs]:
    """Pair SNLI texts with texts that people edited to get another label."""
    directory, columns = folder / "snli_counterfactual", ("premise", "hypothesis", "label")
    by_side: dict[tuple[str, str], Mapping[str, Any]] = {}
    for row in _rows(directory, f"original_{part}", columns):
        for side in columns[:2]:
            by_side.setdefault((side, row[side]), row)
    pairs: list[tuple[Text, Text]] = []
    for row in _rows(directory, f"revised_{part}", columns):
        # Either the premise or the hypothesis was edited; the other one identifies the original.
        for fixed, edited in (columns[:2], columns[1::-1]):
            original = by_side.get((fixed, row[fixed]))
            if original is not None and label_text(original["label"]) != label_text(row["label"]):
                pairs.append((original[edited], row[edited]))
                break
    return [MeaningPairs("SNLI, edited to another label", False, True, pairs)]


def _two(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[Text, Text]:
    return row[columns[0]], row[columns[1]]
