"""RTE: whether one sentence follows from another."""

from typing import ClassVar

from datamodules.labelled import TextDataModule
from datamodules.sources.splits import hub_split_names


class RTE(TextDataModule):
    """Recognizing Textual Entailment, four yearly challenges in one as in GLUE (Wang et al. 2019).

    2,490 pairs to train, 277 to validate. GLUE and the hub publish the test pairs without labels:
    without a `test` file on disk, the validation pairs are tested on.

    Args:
        data_dir: folder DIR with `rte/<split>.<jsonl|tsv|csv|parquet>[.gz]`: columns `sentence1`,
            `sentence2` and `label` (entailment, not_entailment). Without `test`, `validation` is
            tested on. Other absent files come from the hub (nyu-mll/glue, rte).
    """

    corpus = "rte"
    classes: ClassVar[tuple[str, ...]] = ("entailment", "not_entailment")
    text_columns = ("sentence1", "sentence2")
    hub_id = "nyu-mll/glue"
    hub_config = "rte"
    hub_splits = hub_split_names(test="validation")
