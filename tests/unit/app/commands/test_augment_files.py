"""The file of `augment`, and the journal that a kill may leave next to it."""

from pathlib import Path

import pytest

from app.commands.augment import AugmentedFile

TEXTS = ["a good film", "a bad one"]


def test_the_journal_of_a_file_that_is_written_hinders_nobody(tmp_path: Path) -> None:
    path = tmp_path / "more.jsonl"
    journal = path.with_name("more.jsonl.journal")
    with AugmentedFile(path, {"seed": 0}, TEXTS) as augmented:
        augmented.add({"text": "a fine film"})
    with pytest.raises(ValueError, match="with other settings"):
        AugmentedFile(path, {"seed": 1}, TEXTS)
    with AugmentedFile(path, {"seed": 0}, TEXTS) as augmented:
        augmented.add({"text": "a poor one"})
        content = journal.read_bytes()
        augmented.finish()
    # As a kill between the two leaves it.
    journal.write_bytes(content)
    with AugmentedFile(path, {"seed": 1}, TEXTS) as augmented:
        assert augmented.records == []
