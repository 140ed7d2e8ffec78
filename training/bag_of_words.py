"""A bag of words that trains in seconds: the accuracy that a model has to be worth more than."""

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from datamodules import TextDataModule
from datamodules.batching.examples import Example

_WORDS = re.compile(r"\w+")


def bag_figures(corpus: object) -> dict[str, float]:
    """Return `bag_accuracy` and `bag_macro_f1` of a bag of words on the test split.

    It is a naive Bayes classifier of the words that a text has, each once, with Laplace smoothing
    (Wang and Manning, 2012, section 2.1, with binary features). It reads words in lower case, those
    of both texts of a pair apart. It has no settings, and draws nothing. The result is empty for
    another task than a classification, or without training rows on this machine.
    """
    if not isinstance(corpus, TextDataModule) or corpus.task != "classification":
        return {}
    train, test = (
        corpus.training_rows(),
        [e for e in corpus.examples("test") if e.label is not None],
    )
    if not train or not test:
        return {}
    predictions = _predict(train, test, corpus.num_classes)
    labels = _labels(test)
    scores = []
    for index in range(corpus.num_classes):
        own, made = labels == index, predictions == index
        if own.any() or made.any():
            scores.append(2 * float((own & made).sum()) / float(own.sum() + made.sum()))
    return {
        "bag_accuracy": float((labels == predictions).mean()),
        "bag_macro_f1": float(np.mean(scores)),
    }


def _predict(train: Sequence[Example], test: Sequence[Example], classes: int) -> NDArray[np.int64]:
    """Return the predicted classes of test texts."""
    from scipy.sparse import csr_matrix  # takes a while to import

    ids: dict[str, int] = {}
    rows = [[ids.setdefault(word, len(ids)) for word in _words(e)] for e in train]
    size, labels = len(ids), _labels(train)
    tests = [[ids[word] for word in _words(e) if word in ids] for e in test]

    def matrix(texts: list[list[int]]) -> csr_matrix:
        columns = np.fromiter((i for text in texts for i in text), dtype=np.int64)
        ends = np.cumsum([0, *map(len, texts)])
        return csr_matrix((np.ones(len(columns)), columns, ends), shape=(len(texts), size))

    gold = np.eye(classes)[labels]  # [n, C]
    counts = np.asarray(matrix(rows).T @ gold) + 1  # [V, C], Laplace's smoothing
    prior = np.log(gold.sum(axis=0) + 1)
    scores = matrix(tests) @ np.log(counts / counts.sum(axis=0)) + prior
    predictions: NDArray[np.int64] = np.asarray(scores).argmax(axis=1)
    return predictions


def _words(example: Example) -> Iterable[str]:
    """Return the words of a text, each once, in their order; those of a second text are marked."""
    if isinstance(example.text, str):
        return dict.fromkeys(_WORDS.findall(example.text.lower()))
    first, second = (_WORDS.findall(str(text).lower()) for text in example.text)
    return dict.fromkeys([*first, *(f"2 {word}" for word in second)])


def _labels(examples: Sequence[Example]) -> NDArray[np.int64]:
    return np.array([example.label for example in examples], dtype=np.int64)
