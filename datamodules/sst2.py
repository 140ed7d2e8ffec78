"""SST-2: sentiment of phrases and sentences from film reviews."""

from typing import ClassVar

from datamodules.labelled import TextDataModule
from datamodules.sources.splits import hub_split_names


class SST2(TextDataModule):
    """Stanford Sentiment Treebank, two classes (Socher et al. 2013), as in GLUE (Wang et al. 2019).

    67,349 phrases to train, 872 sentences to validate, 1,821 to test. GLUE and the hub publish the
    test sentences without labels: without a `test` file on disk, the validation sentences are the
    test sentences too, as in papers that report on the "SST-2 dev" set.

    Args:
        data_dir: folder DIR with `sst2/<split>.<jsonl|tsv|csv|parquet>[.gz]`: columns `sentence`
            and `label` (negative, positive). Without `test`, `validation` is tested on. Other
            absent files come from the hub (stanfordnlp/sst2).
    """

    corpus = "sst2"
    classes: ClassVar[tuple[str, ...]] = ("negative", "positive")
    text_columns = ("sentence",)
    hub_id = "stanfordnlp/sst2"
    hub_splits = hub_split_names(test="validation")
