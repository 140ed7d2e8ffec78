"""QNLI: whether a sentence answers a question."""

from typing import ClassVar

from datamodules.labelled import TextDataModule
from datamodules.sources.splits import hub_split_names


class QNLI(TextDataModule):
    """Question Natural Language Inference, made from SQuAD for GLUE (Wang et al. 2019).

    104,743 pairs to train, 5,463 to validate. GLUE and the hub publish the test pairs without
    labels: without a `test` file on disk, the validation pairs are tested on.

    Args:
        data_dir: folder DIR with `qnli/<split>.<jsonl|tsv|csv|parquet>[.gz]`: columns `question`,
            `sentence` and `label` (entailment, not_entailment). Without `test`, `validation` is
            tested on. Other absent files come from the hub (nyu-mll/glue, qnli).
    """

    corpus = "qnli"
    classes: ClassVar[tuple[str, ...]] = ("entailment", "not_entailment")
    text_columns = ("question", "sentence")
    hub_id = "nyu-mll/glue"
    hub_config = "qnli"
    hub_splits = hub_split_names(test="validation")
