"""The bag of words, against scikit-learn."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import f1_score
from sklearn.naive_bayes import MultinomialNB

from datamodules import SST2, Reviews
from training.bag_of_words import bag_figures


def test_it_is_naive_bayes_of_the_words_of_a_text() -> None:
    corpus = Reviews(limit_train=300)
    corpus.setup("fit")
    corpus.setup("test")
    train, test = corpus.examples("train"), corpus.examples("test")
    vectors = CountVectorizer(binary=True, token_pattern=r"\w+")
    features = vectors.fit_transform([e.text for e in train])
    labels, gold = ([e.label for e in part] for part in (train, test))
    made = MultinomialNB().fit(features, labels).predict(vectors.transform([e.text for e in test]))
    assert bag_figures(corpus) == {
        "bag_accuracy": pytest.approx(np.mean(made == np.array(gold))),
        "bag_macro_f1": pytest.approx(f1_score(gold, made, average="macro")),
    }


def test_a_test_alone_reads_the_training_rows(tmp_path: Path) -> None:
    folder = tmp_path / "sst2"
    folder.mkdir()
    rows = {"train": "good film\t1\nbad film\t0\n", "test": "a good one\t1\na bad one\t0\n"}
    for split, text in rows.items():
        (folder / f"{split}.tsv").write_text(f"sentence\tlabel\n{text}")
    corpus = SST2(data_dir=str(tmp_path))
    corpus.setup("test")
    assert bag_figures(corpus) == {"bag_accuracy": 1.0, "bag_macro_f1": 1.0}
    (folder / "train.tsv").unlink()
    alone = SST2(data_dir=str(tmp_path))
    alone.setup("test")
    assert bag_figures(alone) == {}
