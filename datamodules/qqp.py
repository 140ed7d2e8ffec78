"""QQP: whether two questions ask the same."""

from typing import ClassVar

from datamodules.base import TextDataModule
from datamodules.splits import hub_split_names


class QQP(TextDataModule):
    """Quora Question Pairs as in GLUE (Wang et al. 2019).

    363,846 pairs to train, 40,430 to validate. GLUE and the hub publish the test pairs without
    labels: where there is no labelled `test` file on disk, the validation pairs are the test pairs
    too, as in papers that report on the "QQP dev" set.
    """

    corpus = "qqp"
    classes: ClassVar[tuple[str, ...]] = ("different", "duplicate")
    text_columns = ("question1", "question2")
    hub_id = "nyu-mll/glue"
    hub_config = "qqp"
    hub_splits = hub_split_names(test="validation")
