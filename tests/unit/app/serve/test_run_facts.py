from pathlib import Path

from app.serve.run_facts import read_facts
from run_files.run_directory import RunDirectory


def test_texts_of_files_of_ones_own(tmp_path: Path) -> None:
    for split in ("train", "test"):
        rows = [f"{split} {i}\t{'ab'[i % 2]}" for i in range(6)]
        (tmp_path / f"{split}.tsv").write_text("note\tkind\n" + "\n".join(rows) + "\n")
    run = RunDirectory(tmp_path / "run")
    files = {"train": "train.tsv", "validation": "train.tsv", "test": "test.tsv"}
    columns = {"text_column": "note", "label_column": "kind", "classes": None}
    settings = {**files, **columns, "data_dir": str(tmp_path), "batch_size": 4}
    data = {"class_path": "datamodules.TextFiles", "init_args": settings}
    run.write_config({"data": data})
    found = read_facts(run, data_dir=None, characters=100).texts
    assert len(found) == 6
    assert all(
        one["text"].startswith("test") and one["label"] == "ab"[int(one["text"][-1]) % 2]
        for one in found
    )


def test_a_corpus_that_is_gone(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    data = {"class_path": "datamodules.TextFiles", "init_args": {"train": "gone.tsv"}}
    run.write_config({"data": data})
    assert read_facts(run, data_dir=None, characters=100).texts == []
