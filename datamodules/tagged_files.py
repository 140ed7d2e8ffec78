"""A user's own files of tagged sentences."""

import re
from pathlib import Path
from typing import ClassVar, Literal

from datamodules.sources.readers import DataError
from datamodules.sources.structured import read_conll
from datamodules.tagging import TaggedSentences, bio_tags
from datamodules.user_files import LABELS, UserFiles, check_classes
from text import check_range


class TaggedFiles(UserFiles, TaggedSentences):
    """Sentences with a tag for each word, from CoNLL files (`.gz` behind their names or not).

    A word and its tag stand in a line, with a tab between them (or spaces), and an empty line ends
    a sentence. Tags are in the BIO scheme: O, B-<type>, I-<type>. Encoding is UTF-8.

    Args:
        train: file to train on; also tells the tags, where `classes` does not.
        validation: file to validate on; a tenth of the training sentences, always the same, if not
            given.
        test: file to test and to predict on; to predict, it may hold words alone.
        classes: all tags, O first; if not given, O, B-X and I-X for each type X in `train`.
        name: of the corpus, in results.
        data_dir: folder in which relative file names are looked up; the current one if not given.
        batch_size: training sentences per batch and process.
        eval_batch_size: sentences per batch and process in validation, test and prediction.
        num_workers: processes that assemble batches; texts are encoded before, so 0 is fast.
        pin_memory: keep batches in page-locked memory, which speeds up copies to a GPU.
        on_bad_row: sentences that cannot be used (broken encoding, a line of other than two fields,
            an unknown tag): `stop` the run naming them, or `skip` them and report how many.
        seed: of the order of training batches; that of `seed_everything` if not given.
        limit_train: train on this many sentences only, chosen by the seed; all if not given.
        min_rows_per_class: training stops if a type of tags stands in fewer training sentences, as
            one does whose name is a typo; before `limit_train`. 0 allows a type without any.
    """

    corpus = "tagged_files"
    classes: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        *,
        train: str | None = None,
        validation: str | None = None,
        test: str | None = None,
        classes: list[str] | None = None,
        name: str = "tagged_files",
        data_dir: str | None = None,
        batch_size: int = 32,
        eval_batch_size: int = 128,
        num_workers: int = 0,
        pin_memory: bool = False,
        on_bad_row: Literal["stop", "skip"] = "stop",
        seed: int | None = None,
        limit_train: int | None = None,
        min_rows_per_class: int = 2,
    ) -> None:
        super().__init__(
            data_dir=data_dir,
            batch_size=batch_size,
            eval_batch_size=eval_batch_size,
            num_workers=num_workers,
            pin_memory=pin_memory,
            on_bad_row=on_bad_row,
            seed=seed,
            limit_train=limit_train,
        )
        self.class_names = check_classes(classes)
        check_range({"min_rows_per_class": min_rows_per_class}, least=0)
        self.min_rows_per_class = min_rows_per_class
        odd = [tag for tag in self.class_names[1:] if not re.fullmatch(r"[BI]-\S+", tag)]
        if odd or (self.class_names and self.class_names[0] != "O"):
            msg = f"got classes {classes}, expected O, and behind it B-<type> and I-<type>"
            raise ValueError(msg)
        self.corpus = name
        self.paths = {"train": train, "validation": validation, "test": test}

    def _find_classes(self, path: Path) -> list[str]:
        types: set[str] = set()
        for row in read_conll(path):
            types |= {tag[2:] for tag in row.values.get("tags") or ()} - {""}
            if len(types) > LABELS:
                msg = (
                    f"{path}: got more than {LABELS:,} types of tags, expected fewer: is the tag "
                    "behind the word?"
                )
                raise DataError(msg)
        if not types:
            msg = f"{path}: got no tag but O, expected tags B-<type> and I-<type>"
            raise DataError(msg)
        return list(bio_tags(sorted(types)))
