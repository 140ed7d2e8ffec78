"""MRPC: whether two sentences of the news say the same."""

from typing import ClassVar

from datamodules.base import TextDataModule


class MRPC(TextDataModule):
    """Microsoft Research Paraphrase Corpus (Dolan & Brockett 2005), split as in GLUE.

    3,668 pairs to train, 408 to validate, 1,725 to test; the test pairs have labels.
    """

    corpus = "mrpc"
    classes: ClassVar[tuple[str, ...]] = ("not_equivalent", "equivalent")
    text_columns = ("sentence1", "sentence2")
    hub_id = "nyu-mll/glue"
    hub_config = "mrpc"
