"""Hate speech and offensive language in tweets."""

from typing import ClassVar

from datamodules.labelled import TextDataModule


class HateOffensive(TextDataModule):
    """Tweets: hate speech, offensive language, or neither (Davidson et al. 2017).

    24,783 tweets, of which 6 % are hate speech and 77 % offensive. There is no official split.

    Args:
        data_dir: folder DIR with `hate_offensive/<split>.<jsonl|tsv|csv|parquet>[.gz]`: columns
            `text` and `label` (hate, offensive, neither). Without `validation`, one training row in
            10 validates. It is not on the hub.
    """

    corpus = "hate_offensive"
    classes: ClassVar[tuple[str, ...]] = ("hate", "offensive", "neither")
    synonyms: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("hate speech", "offensive language", "neither"),
    )
    holdout = 0.1
    origin = "github.com/t-davidson/hate-speech-and-offensive-language: a split of your own"
