"""SNLI: whether one sentence follows from another."""

from typing import ClassVar

from datamodules.labelled import TextDataModule


class SNLI(TextDataModule):
    """Stanford Natural Language Inference (Bowman et al. 2015): pairs of premise and hypothesis.

    549,367 pairs to train, 9,842 to validate, 9,824 to test. The hub also has the pairs on which
    annotators did not agree, with the label -1: they are not part of the task, and are dropped and
    counted in the log.

    Args:
        data_dir: folder DIR with `snli/<split>.<jsonl|tsv|csv|parquet>[.gz]`: columns `premise`,
            `hypothesis` and `label` (entailment, neutral, contradiction). Absent files come from
            the hub (stanfordnlp/snli).
    """

    corpus = "snli"
    classes: ClassVar[tuple[str, ...]] = ("entailment", "neutral", "contradiction")
    text_columns = ("premise", "hypothesis")
    hub_id = "stanfordnlp/snli"
    drop_unlabelled = True
