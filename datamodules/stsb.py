"""STS-B: how much two sentences mean the same, as a number."""

from collections.abc import Iterator
from typing import Any, ClassVar

from datamodules.labelled import TextDataModule
from datamodules.sources.readers import Row
from datamodules.sources.splits import hub_split_names


class STSB(TextDataModule):
    """Semantic Textual Similarity Benchmark (Cer et al. 2017): a mean score of annotators, 0 to 5.

    5,749 pairs to train, 1,500 to validate, 1,379 to test. GLUE and the hub publish the test pairs
    without scores: without a `test` file on disk, the validation pairs are tested on.

    Args:
        data_dir: folder DIR with `stsb/<split>.<jsonl|tsv|csv|parquet>[.gz]`: columns `sentence1`,
            `sentence2` and `score` (a number from 0 to 5). Without `test`, `validation` is tested
            on. Other absent files come from the hub (nyu-mll/glue, stsb).
    """

    corpus = "stsb"
    task = "regression"
    target_range = (0.0, 5.0)
    classes: ClassVar[tuple[str, ...]] = ()
    text_columns = ("sentence1", "sentence2")
    label_column = "score"
    hub_id = "nyu-mll/glue"
    hub_config = "stsb"
    hub_splits = hub_split_names(test="validation")

    def _hub_rows(self, dataset: Any) -> Iterator[Row]:
        # GLUE calls the score a label.
        return super()._hub_rows(dataset.rename_column("label", self.label_column))
