"""RTE: whether one sentence follows from another."""

from typing import ClassVar

from datamodules.base import TextDataModule
from datamodules.splits import hub_split_names


class RTE(TextDataModule):
    """Recognizing Textual Entailment, four yearly challenges in one as in GLUE (Wang et al. 2019).

    2,490 pairs to train, 277 to validate. GLUE and the hub publish the test pairs without labels:
    where there is no labelled `test` file on disk, the validation pairs are tested on.
    """

    corpus = "rte"
    classes: ClassVar[tuple[str, ...]] = ("entailment", "not_entailment")
    text_columns = ("sentence1", "sentence2")
    hub_id = "nyu-mll/glue"
    hub_config = "rte"
    hub_splits = hub_split_names(test="validation")
