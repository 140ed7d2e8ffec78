"""QQP: whether two questions ask the same."""

from typing import ClassVar

from datamodules.labelled import TextDataModule
from datamodules.paraphrases import PARAPHRASES
from datamodules.sources.splits import hub_split_names


class QQP(TextDataModule):
    """Quora Question Pairs as in GLUE (Wang et al. 2019).

    363,846 pairs to train, 40,430 to validate. GLUE and the hub publish the test pairs without
    labels: without a `test` file on disk, the validation pairs are the test pairs too, as in papers
    that report on the "QQP dev" set.

    Args:
        data_dir: folder DIR with `qqp/<split>.<jsonl|tsv|csv|parquet>[.gz]`: columns `question1`,
            `question2` and `label` (different, duplicate). Without `test`, `validation` is tested
            on. Other absent files come from the hub (nyu-mll/glue, qqp).
    """

    corpus = "qqp"
    classes: ClassVar[tuple[str, ...]] = ("different", "duplicate")
    synonyms = PARAPHRASES
    text_columns = ("question1", "question2")
    hub_id = "nyu-mll/glue"
    hub_config = "qqp"
    hub_splits = hub_split_names(test="validation")
