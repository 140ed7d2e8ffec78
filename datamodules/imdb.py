"""IMDB: sentiment of film reviews."""

from typing import ClassVar

from datamodules.labelled import TextDataModule


class IMDB(TextDataModule):
    """Film reviews, negative and positive (Maas et al. 2011).

    25,000 reviews to train and 25,000 to test, half of them negative. The corpus has no validation
    split: one training review in 20, the same in all runs, validates, unless there is a
    `validation` file on disk.

    Args:
        data_dir: folder DIR with `imdb/<split>.<jsonl|tsv|csv|parquet>[.gz]`: columns `text` and
            `label` (negative, positive). Without `validation`, one training row in 20 validates.
            Other absent files come from the hub (stanfordnlp/imdb).
    """

    corpus = "imdb"
    classes: ClassVar[tuple[str, ...]] = ("negative", "positive")
    hub_id = "stanfordnlp/imdb"
    holdout = 0.05
