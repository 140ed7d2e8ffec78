"""WNUT-17: names that are new and rare, in posts of users."""

from typing import ClassVar

from datamodules.tagging import TaggedSentences, bio_tags


class WNUT17(TaggedSentences):
    """Novel and emerging entities (Derczynski et al. 2017): six types, in the BIO scheme.

    3,394 posts to train, 1,009 to validate, 1,287 to test. The hub's dataset is a loading script,
    which the `datasets` library does not run any more: put the official files into `wnut17/`.

    Args:
        data_dir: folder DIR with `wnut17/<split>.conll[.gz]`: a word, a tab and its tag in each
            line, an empty line behind each post. Needed: the corpus is not on the hub
            (https://github.com/leondz/emerging_entities_17 has the files).
    """

    corpus = "wnut17"
    classes: ClassVar[tuple[str, ...]] = bio_tags(
        ("corporation", "creative-work", "group", "location", "person", "product")
    )
    origin = "the official files are at https://github.com/leondz/emerging_entities_17"
