"""Yelp polarity: sentiment of reviews of businesses."""

from typing import ClassVar

from datamodules.labelled import TextDataModule


class YelpPolarity(TextDataModule):
    """Yelp reviews, 1-2 stars negative and 3-4 stars positive (Zhang, Zhao & LeCun 2015).

    560,000 reviews to train and 38,000 to test, half of them negative. The corpus has no validation
    split: one training review in 20, the same in all runs, validates, unless there is a
    `validation` file on disk.

    Args:
        data_dir: folder DIR with `yelp_polarity/<split>.<jsonl|tsv|csv|parquet>[.gz]`: columns
            `text` and `label` (negative, positive). Without `validation`, one training row in 20
            validates. Other absent files come from the hub (fancyzhx/yelp_polarity).
    """

    corpus = "yelp_polarity"
    classes: ClassVar[tuple[str, ...]] = ("negative", "positive")
    hub_id = "fancyzhx/yelp_polarity"
    holdout = 0.05
