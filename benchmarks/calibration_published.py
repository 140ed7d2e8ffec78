"""A threshold calibrated by what TextFooler's authors published: a part of `calibration`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from attacks.composition import Group
from attacks.constraints.sentence_similarity import SentenceSimilarity
from attacks.document import Document
from attacks.resources.sentence_encoders import SentenceEncoder
from attacks.resources.stop_words import TEXTFOOLER
from benchmarks.calibration_data import Floats, neighbours, samples, table

PUBLISHED = {
    # TextFooler's table of automatic evaluation: victim -> corpus -> (share of words changed in %,
    # similarity by the universal sentence encoder), both means.
    "WordCNN": {"mr": (14.3, 0.68), "imdb": (3.5, 0.89), "yelp": (8.3, 0.82), "ag": (15.2, 0.76)},
    "WordLSTM": {"mr": (14.9, 0.67), "imdb": (5.1, 0.87), "yelp": (10.6, 0.79), "ag": (18.6, 0.63)},
    "BERT": {"mr": (16.7, 0.65), "imdb": (6.1, 0.86), "yelp": (13.9, 0.74), "ag": (22.0, 0.57)},
}
READINGS: dict[str, Callable[[float], float]] = {
    "1 - angle": lambda s: 1 - s,
    "cosine": math.acos,
    "1 - angle / pi": lambda s: math.pi * (1 - s),
}
"""What a published similarity may be; from it to an angle in radians."""


@dataclass(slots=True)
class Text:
    """A text on its way to a share of replaced words; `steps[n]` has n of them replaced."""

    steps: list[Document]
    open_to: list[int]
    wanted: list[int]


def substitute(
    encoder: SentenceEncoder,
    texts: Sequence[str],
    near: dict[str, list[str]],
    *,
    shares: Sequence[float],
    limit: float,
) -> list[float]:
    """Mean angle between texts and what becomes of them when a share of the words is replaced.

    As TextFooler does it but for the victim: words other than stop words, in random order, by a
    random neighbour that keeps the angle of the window of 15 words, before and after the change,
    within the limit.

    Args:
        encoder: says how alike texts are.
        texts: the texts.
        near: neighbours of each word.
        shares: of the words of a text.
        limit: in radians.
    """
    random = Random(0)
    minimum = max(1 - limit / math.pi, 0.0)
    constraint = SentenceSimilarity(encoder, minimum, window=15, against="current")
    running = []
    for text in texts:
        document = Document.of(text)
        lower = [word.lower() for word in document.words]
        places = [i for i, word in enumerate(lower) if word not in TEXTFOOLER and near.get(word)]
        random.shuffle(places)
        # Rounded at random, so that the mean share is the one asked for; one word at least.
        draw = random.random()
        wanted = [max(int(share * len(document) + draw), 1) for share in shares]
        running.append(Text([document], places, wanted))
    while going := [one for one in running if one.open_to and len(one.steps) <= max(one.wanted)]:
        groups = []
        for one in going:
            current, index = one.steps[-1], one.open_to.pop()
            words = near[current.words[index].lower()]
            tried = [current.replace(index, word) for word in random.sample(words, len(words))[:2]]
            groups.append(Group(one.steps[0], current, tried))
        for one, group, kept in zip(going, groups, constraint.keep(groups), strict=True):
            fine = [c for c, keep in zip(group.candidates, kept, strict=True) if keep]
            if fine:
                one.steps.append(group.current.accept(fine[0]))
    means = []
    for i in range(len(shares)):
        ends = [one for one in running if len(one.steps) > one.wanted[i]]
        before = [one.steps[0].columns[0] for one in ends]
        after = [one.steps[one.wanted[i]].columns[0] for one in ends]
        means.append(float(np.arccos(encoder.cosines(before, after)).mean()))
    return means


def published(encoder: SentenceEncoder, data: Path, limit: int) -> dict[str, Any]:
    """What half a radian of the universal sentence encoder is in angles of this one.

    For each published mean the same share of words is replaced in the same texts. What the
    similarity constraint lets through depends on the answer itself: measured under several limits,
    and the one chosen that it leads to.
    """
    near = neighbours(data)
    limits = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
    anchors = [(v, c, *figures) for v, means in PUBLISHED.items() for c, figures in means.items()]
    angles = np.zeros((len(limits), len(anchors)))
    for corpus in ("mr", "ag", "yelp", "imdb"):
        texts = samples(data, corpus, limit if corpus in {"mr", "ag"} else limit // 3)
        mine = [i for i, anchor in enumerate(anchors) if anchor[1] == corpus]
        shares = [anchors[i][2] / 100 for i in mine]
        for row, bound in enumerate(limits):
            angles[row, mine] = substitute(encoder, texts, near, shares=shares, limit=bound)
    result: dict[str, Any] = {}
    for reading, angle in READINGS.items():
        theirs = np.array([angle(anchor[3]) for anchor in anchors])
        fits = [_fits(theirs, row) for row in angles]
        # Where what half a radian becomes is the limit under which it was measured.
        chosen = {
            name: float(np.interp(0.0, *_falling([fit[name] for fit in fits], limits)))
            for name in fits[0]
        }
        middle = float(np.mean(list(chosen.values())))
        ours = [float(np.interp(middle, limits, column)) for column in angles.T]
        result[reading] = {
            "limits": chosen,
            "rows": [
                (*anchor, float(there), here, here / float(there))
                for anchor, there, here in zip(anchors, theirs, ours, strict=True)
            ],
        }
    return result


def _fits(theirs: Floats, ours: Floats) -> dict[str, float]:
    """What 0.5 radians there are here, by several guesses at how angles are related."""
    slope, offset = np.polyfit(np.log(theirs), np.log(ours), 1)
    return {
        "proportional": 0.5 * float(np.median(ours / theirs)),
        "power": float(np.exp(offset + slope * np.log(0.5))),
    }


def _falling(
    found: Sequence[float], limits: Sequence[float]
) -> tuple[list[float], Sequence[float]]:
    """Limits by how far they are above what was found under them."""
    return [limit - value for limit, value in zip(limits, found, strict=True)], limits


def show_published(result: dict[str, Any]) -> None:
    """Print it."""
    for reading, one in result.items():
        print(f"\n### Published similarities read as {reading}\n")
        print(table(["relation of angles", "0.5 radians there are here", "angular", "cosine"], [
            [name, limit, 1 - limit / math.pi, math.cos(limit)]
            for name, limit in one["limits"].items()
        ]))  # fmt: skip
        print()
        head = ["victim", "corpus", "words changed, %", "published", "angle there", "angle here",
                "ratio"]  # fmt: skip
        print(table(head, one["rows"]))
