"""Prompt injections: requests that try to replace the instructions of a language model."""

from typing import ClassVar

from datamodules.labelled import TextDataModule


class PromptInjections(TextDataModule):
    """Requests to a language model, some of them injections, in English and German (deepset 2023).

    546 requests to train and 116 to test; four in ten are injections.

    Args:
        data_dir: folder DIR with `prompt_injections/<split>.<jsonl|tsv|csv|parquet>[.gz]`: columns
            `text` and `label` (legitimate, injection). Without `validation`, one training row in 10
            validates. Other absent files come from the hub (deepset/prompt-injections).
    """

    corpus = "prompt_injections"
    classes: ClassVar[tuple[str, ...]] = ("legitimate", "injection")
    hub_id = "deepset/prompt-injections"
    holdout = 0.1
