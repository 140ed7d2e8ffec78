"""A user's own files of tagged sentences."""

import re
from pathlib import Path
from typing import Any

from datamodules.sources.readers import DataError
from datamodules.sources.structured import read_conll
from datamodules.sources.text_table import LABELS
from datamodules.tagging import TaggedSentences, bio_tags
from datamodules.user_files import UserFiles


class TaggedFiles(UserFiles, TaggedSentences):
    """Sentences with a tag for each word, from CoNLL files (optionally with `.gz`).

    Each line has a word and its tag, with a tab between them (or spaces); an empty line ends a
    sentence. Tags are in the BIO scheme: O, B-<type>, I-<type>. Encoding is UTF-8.

    Args:
        classes: all tags, O first; if not given, O, B-X and I-X for each type X in `train`.
        name: name of the corpus, in results.
        base: settings of `UserFiles`.
    """

    def __init__(
        self, *, classes: list[str] | None = None, name: str = "tagged_files", **base: Any
    ) -> None:
        super().__init__(classes=classes, name=name, **base)
        odd = [tag for tag in self.class_names[1:] if not re.fullmatch(r"[BI]-\S+", tag)]
        if odd or (self.class_names and self.class_names[0] != "O"):
            msg = f"got classes {classes}, expected O, and behind it B-<type> and I-<type>"
            raise ValueError(msg)

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
