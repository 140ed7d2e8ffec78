"""Hashed n-grams of characters."""

import torch

from layers.hashed_spelling import hashed_ngrams
from layers.ngram_scores import NgramScores

WORDS = ["<pad>", "<unk>", "<sep>", "terrible", "terribly", "x", "soup"]


def test_words_share_the_ngrams_they_have_in_common() -> None:
    ngrams = hashed_ngrams(WORDS, 10_000)
    assert ngrams.min() == 0
    assert ngrams.max() <= 10_000
    rows = [set(row.tolist()) - {0} for row in ngrams]
    # <te ter err rri rib ibl, <ter terr erri rrib ribl, <terr terri errib rribl
    assert len(rows[3] & rows[4]) == 6 + 5 + 4
    assert len(rows[3]) == 8 + 7 + 6
    assert len(rows[5]) == 1
    assert not rows[3] & rows[6]
    assert torch.equal(ngrams, hashed_ngrams(WORDS, 10_000))
    assert hashed_ngrams(["soup"], 3).max() <= 3


def test_a_score_is_the_sum_of_its_ngrams_by_the_root_of_their_number() -> None:
    scores = NgramScores(len(WORDS), 2, spelling=50).eval()
    scores.set_spelling(WORDS)
    assert scores.of_spelling is not None
    with torch.no_grad():
        scores.of_spelling.copy_(torch.randint(-8, 9, (50, 2)) / 8)
        table = scores.word_table()
        for index, row in enumerate(hashed_ngrams(WORDS, 50).tolist()):
            own = [scores.of_spelling[bucket - 1] for bucket in row if bucket]
            expected = torch.stack(own).sum(dim=0) / len(own) ** 0.5 if index >= 3 else 0 * table[0]
            torch.testing.assert_close(table[index], expected.double(), atol=1e-6, rtol=0)
    assert "spelling" not in scores.state_dict()
