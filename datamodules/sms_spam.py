"""SMS spam: unwanted short messages."""

from typing import ClassVar

from datamodules.labelled import TextDataModule


class SmsSpam(TextDataModule):
    """UCI SMS Spam Collection, two classes (Almeida, Hidalgo and Yamakami 2011).

    5,574 messages, one in eight is spam. There is no official split.

    Args:
        data_dir: folder DIR with `sms_spam/<split>.<jsonl|tsv|csv|parquet>[.gz]`: columns `text`
            and `label` (ham, spam). Without `validation`, one training row in 10 validates. It is
            not on the hub.
    """

    corpus = "sms_spam"
    classes: ClassVar[tuple[str, ...]] = ("ham", "spam")
    origin = "archive.ics.uci.edu/dataset/228: a split of your own"
    holdout = 0.1
