"""HateCheck: functional tests of hate speech detectors."""

from typing import ClassVar

from datamodules.labelled import TextDataModule


class HateCheck(TextDataModule):
    """HateCheck: short texts for 29 functionalities of a detector (Röttger et al. 2021).

    3,728 texts to test on, and none to train on.

    Args:
        data_dir: folder DIR with `hatecheck/<split>.<jsonl|tsv|csv|parquet>[.gz]`: columns `text`
            and `label` (benign, hateful); others (`functionality`, `target`) are not read. It is
            not on the hub.
    """

    corpus = "hatecheck"
    classes: ClassVar[tuple[str, ...]] = ("benign", "hateful")
    synonyms: ClassVar[tuple[tuple[str, ...], ...]] = (("non-hateful", "hateful"), ("rest", "hate"))
    origin = "github.com/paul-rottger/hatecheck-data, test_suite_cases.csv"
