"""AG News: topics of news items."""

from typing import ClassVar

from datamodules.labelled import TextDataModule


class AGNews(TextDataModule):
    """Titles and descriptions of news items in four topics (Zhang, Zhao & LeCun 2015).

    120,000 items to train and 7,600 to test, a quarter of them of each topic. The corpus has no
    validation split: one training item in 20, the same in all runs, validates, unless there is a
    `validation` file on disk.

    Args:
        data_dir: folder DIR with `ag_news/<split>.<jsonl|tsv|csv|parquet>[.gz]`: columns `text` and
            `label` (World, Sports, Business, Sci/Tech). Without `validation`, one training row in
            20 validates. Other absent files come from the hub (fancyzhx/ag_news).
    """

    corpus = "ag_news"
    classes: ClassVar[tuple[str, ...]] = ("World", "Sports", "Business", "Sci/Tech")
    hub_id = "fancyzhx/ag_news"
    holdout = 0.05
