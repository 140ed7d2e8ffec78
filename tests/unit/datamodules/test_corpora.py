"""The corpora in their layout on disk, and on the real files where these are present."""

from collections import Counter
from pathlib import Path

import pytest

import datamodules
from datamodules import DataError, TextDataModule, TextFiles
from text import WordTokenizer

CORPORA = [
    ("SST2", "sst2", ("sentence",), 2),
    ("YelpPolarity", "yelp_polarity", ("text",), 2),
    ("AGNews", "ag_news", ("text",), 4),
    ("SNLI", "snli", ("premise", "hypothesis"), 3),
    ("QQP", "qqp", ("question1", "question2"), 2),
]


@pytest.mark.parametrize(("name", "folder", "columns", "classes"), CORPORA)
def test_layout_on_disk(
    tmp_path: Path, name: str, folder: str, columns: tuple[str, ...], classes: int
) -> None:
    (tmp_path / folder).mkdir()
    header = "\t".join([*columns, "label"])
    rows = ["\t".join([*(f"{c} {i}" for c in columns), str(i % classes)]) for i in range(40)]
    for split in ("train", "test"):
        (tmp_path / folder / f"{split}.tsv").write_text("\n".join([header, *rows, ""]))
    module: TextDataModule = getattr(datamodules, name)(data_dir=str(tmp_path), batch_size=4)
    if not module.holdout:
        (tmp_path / folder / "validation.tsv").write_text("\n".join([header, *rows[:2], ""]))
    module.setup("fit")
    module.setup("test")
    assert (module.corpus, module.num_classes) == (folder, classes)
    assert module.pairs == (len(columns) == 2)
    assert len(module.examples("validation")) == 2
    assert len(module.examples("train")) == (38 if module.holdout else 40)
    assert module.examples("test")[3].label == 3 % classes
    module.tokenizer = WordTokenizer.build(module.train_texts())
    batch = next(iter(module.train_dataloader()))
    assert len(batch) == 4
    assert (batch.segment_ids is not None) == module.pairs


def test_unlabelled_pairs_of_snli_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "snli").mkdir()
    (tmp_path / "snli" / "test.csv").write_text("premise,hypothesis,label\na,b,-1\nc,d,2\n")
    module = datamodules.SNLI(data_dir=str(tmp_path))
    with caplog.at_level("INFO"):
        module.setup("test")
    assert [tuple(example) for example in module.examples("test")] == [(("c", "d"), 2, 0)]
    assert "1 rows without label left out" in caplog.text


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "stage", "sizes"),
    [
        ("SST2", "fit", {"train": 67_349, "validation": 872}),
        ("SST2", "test", {"test": 1821}),
        ("YelpPolarity", "fit", {"train": 4260, "validation": 224}),
        ("AGNews", "fit", {"train": 32_967, "validation": 1735}),
        ("AGNews", "test", {"test": 7600}),
        ("SNLI", "validate", {"validation": 9842}),
        ("SNLI", "test", {"test": 9824}),
    ],
)
def test_real_files(data_dir: Path, name: str, stage: str, sizes: dict[str, int]) -> None:
    module: TextDataModule = getattr(datamodules, name)(data_dir=str(data_dir))
    module.setup(stage)
    assert {split: len(examples) for split, examples in module._examples.items()} == sizes
    for examples in module._examples.values():
        assert set(Counter(e.label for e in examples)) == set(range(module.num_classes))


@pytest.mark.data
def test_real_lengths_need_little_padding(data_dir: Path) -> None:
    module = datamodules.SST2(data_dir=str(data_dir))
    module.setup("fit")
    module.tokenizer = WordTokenizer.build(module.train_texts(), max_length=64)
    padded = real = 0
    for batch in module.train_dataloader():
        padded += batch.mask.numel()
        real += int(batch.mask.sum())
    assert 1 - real / padded < 0.08  # measured: 0.054
    assert module._encode("train").truncated == 0


@pytest.mark.data
def test_real_pairs_as_text_files(data_dir: Path) -> None:
    module = TextFiles(
        train="train.tsv",
        validation="validation.tsv",
        test="test.tsv",
        text_column="sentence1",
        text_pair_column="sentence2",
        data_dir=str(data_dir / "mrpc"),
    )
    module.setup()
    assert [len(module.examples(split)) for split in ("train", "validation", "test")] == [
        3668,
        408,
        1725,
    ]


@pytest.mark.data
def test_a_split_that_is_nowhere(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
    with pytest.raises(DataError, match=r"snli/train\.<jsonl\|tsv\|csv\|parquet>.*is absent"):
        datamodules.SNLI(data_dir=str(data_dir)).setup("fit")
