"""PAWS-QQP: paraphrases among pairs of questions that share nearly all of their words."""

from typing import ClassVar

from datamodules.labelled import TextDataModule
from datamodules.paraphrases import PARAPHRASES
from datamodules.sources.splits import hub_split_names


class PAWSQQP(TextDataModule):
    """Paraphrase Adversaries from Word Scrambling, on Quora's questions (Zhang et al. 2019).

    11,988 pairs to train and 677 to validate and test. Their licence forbids to publish them, so
    they are not on the hub: a program of the authors makes them from a copy of QQP. Its
    `train.tsv` and `dev_and_test.tsv` become `paws_qqp/train.tsv` and `paws_qqp/validation.tsv`.
    Without a `test` file the validation pairs are tested on.

    Args:
        data_dir: folder DIR with `paws_qqp/<split>.<jsonl|tsv|csv|parquet>[.gz]`: columns
            `sentence1`, `sentence2` and `label` (different, paraphrase). Without `test`,
            `validation` is tested on. Needed: the corpus is not on the hub.
    """

    corpus = "paws_qqp"
    classes: ClassVar[tuple[str, ...]] = ("different", "paraphrase")
    synonyms = PARAPHRASES
    text_columns = ("sentence1", "sentence2")
    hub_splits = hub_split_names(test="validation")
    origin = "https://github.com/google-research-datasets/paws tells how to make it from QQP"
