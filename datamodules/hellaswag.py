"""HellaSwag: which of four sentences continues a text."""

from typing import ClassVar

from datamodules.multiple_choice import MultipleChoice
from datamodules.sources.splits import hub_split_names


class HellaSwag(MultipleChoice):
    """Endings made by a language model, chosen to mislead others (Zellers et al. 2019).

    39,905 texts to train, 10,042 to validate. The labels of the test texts are not published:
    without a `test` file on disk, the validation texts are tested on, as in papers.

    Args:
        data_dir: folder DIR with `hellaswag/<split>.jsonl[.gz]`: `ctx`, `endings` (4 texts) and
            `label` (0 to 3) in each line. Without `test`, `validation` is tested on. Other absent
            files come from the hub (Rowan/hellaswag).
    """

    corpus = "hellaswag"
    classes: ClassVar[tuple[str, ...]] = ("A", "B", "C", "D")
    text_columns = ("ctx", "endings")
    endings: ClassVar[tuple[str, ...]] = (".jsonl",)
    hub_id = "Rowan/hellaswag"
    hub_splits = hub_split_names(test="validation")
