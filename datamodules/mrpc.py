"""MRPC: pairs of sentences from the news, with the same meaning or not."""

from typing import ClassVar

from datamodules.labelled import TextDataModule
from datamodules.paraphrases import PARAPHRASES


class MRPC(TextDataModule):
    """Microsoft Research Paraphrase Corpus (Dolan & Brockett 2005), split as in GLUE.

    3,668 pairs to train, 408 to validate, 1,725 to test; the test pairs have labels.

    Args:
        data_dir: folder DIR with `mrpc/<split>.<jsonl|tsv|csv|parquet>[.gz]`: columns `sentence1`,
            `sentence2` and `label` (not_equivalent, equivalent). Absent files come from the hub
            (nyu-mll/glue, mrpc).
    """

    corpus = "mrpc"
    classes: ClassVar[tuple[str, ...]] = ("not_equivalent", "equivalent")
    synonyms = PARAPHRASES
    text_columns = ("sentence1", "sentence2")
    hub_id = "nyu-mll/glue"
    hub_config = "mrpc"
