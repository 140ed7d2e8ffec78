from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from datamodules import MRPC, PAWSQQP, QQP, SST2, DataError, Example, Reviews, TextFiles
from datamodules.batching.encoded import EncodedTexts
from datamodules.batching.sampler import BucketBatchSampler, Order
from text import Batch, Choices, ClassLabels, Encoding, Span, Text, Tokenizer, Words, WordTokenizer


def plain_texts(examples: Sequence[Example]) -> list[Text]:
    return [example.text for example in examples if not isinstance(example.text, Words | Choices)]


def write_sst2(folder: Path, rows: list[str], split: str = "train") -> SST2:
    path = folder / "sst2" / f"{split}.tsv"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes("\n".join(["sentence\tlabel", *rows, ""]).encode("utf-8", "surrogateescape"))
    return SST2(data_dir=str(folder))


GOOD_ROWS = ["a fine film\t1", "a dull film\t0", "fine\t1.0"]
BAD_ROWS = ["caf\udce9\t1", "three\tfields\t1", " \t1", "odd\t2", "none\t"]


def test_bad_rows_are_named_and_stop_the_run(tmp_path: Path) -> None:
    write_sst2(tmp_path, ["fine\t1"], "validation")
    module = write_sst2(tmp_path, [*GOOD_ROWS, *BAD_ROWS, "odd\t3"])
    with pytest.raises(DataError) as caught:
        module.setup("fit")
    message = str(caught.value)
    path = tmp_path / "sst2" / "train.tsv"
    assert "got 6 bad row(s)" in message
    assert "--data.on_bad_row skip" in message
    assert f"{path}, line 5: broken encoding: byte 0xe9" in message
    assert f"{path}, line 6: got 3 fields, expected 2" in message
    assert f"{path}, line 7: empty text in column 'sentence'" in message
    assert f"{path}, line 8: unknown label '2', expected one of ['negative', 'positive']" in message
    assert f"{path}, line 9: no label in column 'label'" in message
    assert message.endswith("... and 1 more")


def test_skipped_bad_rows_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_sst2(tmp_path, ["fine\t1"], "validation")
    write_sst2(tmp_path, [*BAD_ROWS, *GOOD_ROWS])
    module = SST2(data_dir=str(tmp_path), on_bad_row="skip")
    module.setup("fit")
    assert [example[:3] for example in module.examples("train")] == [
        ("a fine film", 1, 0),
        ("a dull film", 0, 1),
        ("fine", 1, 2),
    ]
    assert "5 bad row(s) skipped of 8" in caplog.text


def test_only_bad_rows_is_an_error_even_when_they_are_skipped(tmp_path: Path) -> None:
    write_sst2(tmp_path, BAD_ROWS)
    module = SST2(data_dir=str(tmp_path), on_bad_row="skip")
    with pytest.raises(DataError, match="no usable row"):
        module.setup("fit")


@pytest.mark.parametrize(
    ("value", "index"),
    [("b", 1), (" a ", 0), ("1", 1), (0, 0), ("-1", None), (None, None), ("", None), (-1, None)],
)
def test_labels(value: Any, index: int | None) -> None:
    assert ClassLabels(["a", "b"])(value) == index


def test_labels_by_other_names_of_the_classes() -> None:
    index = ClassLabels(PAWSQQP.classes, PAWSQQP.synonyms)
    labels = ["paraphrase", "duplicate", "equivalent", "different", "not_equivalent"]
    assert [index(label) for label in labels] == [1, 1, 1, 0, 0]
    assert all(kind.classes in kind.synonyms for kind in (QQP, PAWSQQP, MRPC))
    with pytest.raises(ValueError, match=r"unknown label 'duplicate'"):
        ClassLabels(["negative", "positive"])("duplicate")


def test_classes_named_by_numbers_are_names() -> None:
    index = ClassLabels(["1", "0", "-1"])
    assert [index(value) for value in ("0", 1, "-1", 1.0)] == [1, 0, 2, 0]
    for value in ("2", "c", "\u0661", True, 1.5):
        with pytest.raises(ValueError, match="unknown label"):
            ClassLabels(["1", "0"])(value)


def test_only_what_the_stage_needs_is_read(tmp_path: Path) -> None:
    module = write_sst2(tmp_path, GOOD_ROWS, "validation")
    module.setup("validate")
    assert len(module.examples("validation")) == 3
    with pytest.raises(RuntimeError, match=r"setup\(stage\)"):
        module.examples("train")


def test_test_sentences_of_sst2_are_the_validation_sentences_where_there_are_no_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    module = write_sst2(tmp_path, GOOD_ROWS, "validation")
    module.setup("test")
    assert len(module.examples("test")) == 3
    assert "no labelled test split" in caplog.text
    write_sst2(tmp_path, ["own\t1"], "test")
    module = SST2(data_dir=str(tmp_path))
    module.setup("test")
    assert module.examples("test") == [Example("own", 1, 0)]


def test_a_data_dir_that_does_not_exist(tmp_path: Path) -> None:
    for step in ("prepare_data", "setup"):
        with pytest.raises(DataError, match=r"absent, which is no folder"):
            getattr(SST2(data_dir=str(tmp_path / "absent")), step)()


def test_settings_out_of_range() -> None:
    bad: list[dict[str, Any]] = [{"batch_size": 0}, {"eval_batch_size": 0}, {"limit_train": 0}]
    for settings in bad:
        with pytest.raises(ValueError, match="at least 1"):
            Reviews(**settings)
    with pytest.raises(ValueError, match="num_workers=-1"):
        Reviews(num_workers=-1)


def test_settings_are_scalars_in_the_checkpoint() -> None:
    module = Reviews(batch_size=4, corpus_seed=3)
    assert module.hparams["batch_size"] == 4
    assert module.hparams["corpus_seed"] == 3
    assert all(value is None or isinstance(value, bool | int | str) for value in
               module.hparams.values())  # fmt: skip


def ready(**settings: Any) -> Reviews:
    module = Reviews(**settings)
    module.setup()
    module.tokenizer = WordTokenizer.build(module.train_texts(), max_length=32)
    return module


def ids(loader: DataLoader[Batch]) -> list[int]:
    return list(chain(*(batch.sample_ids.tolist() for batch in loader)))


@pytest.mark.long
def test_loaders_hand_out_every_sample_with_its_own_label_and_words() -> None:
    module = ready(batch_size=16)
    for split, loader in (
        ("train", module.train_dataloader()),
        ("validation", module.val_dataloader()),
        ("test", module.test_dataloader()),
        ("test", module.predict_dataloader()),
    ):
        examples = module.examples(split)  # type: ignore[arg-type] # a split or sampler of this test
        assert module.tokenizer is not None
        coded = module.tokenizer.encode(plain_texts(examples))
        seen = 0
        for batch in loader:
            assert batch.labels is not None
            assert batch.segment_ids is None
            for row, sample in enumerate(batch.sample_ids.tolist()):
                assert batch.input_ids[row, batch.mask[row]].tolist() == coded[sample].input_ids
                assert batch.labels[row] == examples[sample].label
            seen += len(batch)
        assert seen == len(examples)
        assert sorted(ids(loader)) == list(range(len(examples)))


def test_loaders_leave_the_global_generator_alone() -> None:
    module = ready(limit_train=64)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    ids(module.train_dataloader())
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.long
def test_workers_give_the_same_batches() -> None:
    alone, helped = ready(limit_train=100), ready(limit_train=100, num_workers=2)
    loader = helped.train_dataloader()
    assert ids(loader) == ids(alone.train_dataloader())
    loader.sampler.set_epoch(1)  # type: ignore[attr-defined] # a split or sampler of this test
    again = alone.train_dataloader()
    again.sampler.set_epoch(1)  # type: ignore[attr-defined] # a split or sampler of this test
    assert ids(loader) == ids(again)


class Counting(Tokenizer):
    pad_id, vocab_size, max_length = 0, 10, 4

    def __init__(self) -> None:
        self.texts = 0

    def encode(self, texts: Any) -> list[Encoding]:
        self.texts += len(texts)
        return [Encoding([1, 2], [0, 1], True) for _ in texts]

    def spans(self, texts: Any) -> list[list[Span]]:
        return [[Span(0, 0, 0)] * 2 for _ in texts]

    def state(self) -> dict[str, Any]:
        return {}


def test_texts_are_encoded_once_per_split_and_only_when_needed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    module = ready(limit_train=50)
    module.tokenizer = counting = Counting()
    module.train_dataloader()
    ids(module.train_dataloader())
    assert counting.texts == 50
    assert "50 of 50 train texts cut to 4 tokens" in caplog.text
    module.val_dataloader()
    assert counting.texts == 550
    module.tokenizer = other = Counting()
    module.train_dataloader()
    assert other.texts == 50


def test_no_loader_without_a_tokenizer() -> None:
    module = Reviews()
    module.setup("fit")
    with pytest.raises(RuntimeError, match="no tokenizer"):
        module.train_dataloader()


def test_limit_train_draws_with_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(seed: int | None = None) -> list[Example]:
        module = Reviews(limit_train=100, seed=seed)
        module.setup("fit")
        return module.examples("train")

    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    assert len(kept()) == 100
    assert kept() == kept(0) != kept(1)
    whole = Reviews()
    whole.setup("fit")
    assert all(example == whole.examples("train")[example.sample_id] for example in kept(1))
    monkeypatch.setenv("PL_GLOBAL_SEED", "1")
    assert kept() == kept(1)


@pytest.mark.long
def test_upsampling_repeats_training_texts_of_a_class() -> None:
    plain, upsampled = ready(), ready(upsample={"negative": 3, "positive": 1})
    rows = plain.examples("train")
    assert upsampled.examples("train")[: len(rows)] == rows
    copies = upsampled.examples("train")[len(rows) :]
    negative = [row.text for row in rows if row.label == 0]
    assert [row.text for row in copies] == negative * 2
    assert all(row.label == 0 for row in copies)
    # Ids of their own, so that every copy is a sample of every epoch.
    assert sorted(ids(upsampled.train_dataloader())) == list(range(len(rows) + len(copies)))
    assert list(upsampled.train_texts()) == list(plain.train_texts())
    for split in ("validation", "test"):
        assert upsampled.examples(split) == plain.examples(split)


def test_two_processes_share_the_copies_and_a_resume_goes_on_among_them() -> None:
    module = ready(limit_train=50, upsample={"negative": 2})
    assert module.tokenizer is not None
    encoded = EncodedTexts(module.examples("train"), module.tokenizer, pairs=False)
    orders = [Order(world=2, rank=rank, epoch=1) for rank in (0, 1)]
    both = [BucketBatchSampler(encoded.lengths, 4, order) for order in orders]
    rows = sorted(row for sampler in both for batch in sampler for row in batch)
    assert rows == list(range(len(module.examples("train"))))
    resumed = BucketBatchSampler(encoded.lengths, 4, orders[0]._replace(skip=2))
    assert list(resumed) == list(both[0])[2:]


def test_upsampling_by_a_fraction_does_not_depend_on_the_seed() -> None:
    half = [ready(upsample={"positive": 1.5}, seed=seed).examples("train") for seed in (0, 1)]
    assert half[0] == half[1]
    counts = Counter(example.text for example in half[0])
    positive = [example.text for example in ready().examples("train") if example.label]
    assert sum(counts[text] == 2 for text in positive) == len(positive) // 2
    assert len(half[0]) == 4000 + len(positive) // 2


def test_upsampling_after_a_limit_and_before_a_resume() -> None:
    module = ready(limit_train=20, upsample={"negative": 2})
    train = module.examples("train")
    assert len({example.text for example in train}) == 20
    assert len({example.sample_id for example in train}) == len(train)
    # A resumed run with other rows is refused by this.
    assert module._content() != ready(limit_train=20)._content()


def test_upsampling_of_held_out_rows(tmp_path: Path) -> None:
    rows = ["text\tlabel", *(f"text {i}\t{i % 2}" for i in range(40)), ""]
    (tmp_path / "a.tsv").write_text("\n".join(rows))
    module = TextFiles(train="a.tsv", upsample={"1": 2}, data_dir=str(tmp_path))
    module.setup("fit")
    trained = {example.text for example in module.examples("train")}
    assert not trained & {example.text for example in module.examples("validation")}
    assert len(trained) == 36


def test_upsampling_of_a_class_that_there_is_not() -> None:
    with pytest.raises(DataError, match=r"got upsample of \['neutral'\], expected classes of"):
        ready(upsample={"neutral": 2})
    with pytest.raises(
        ValueError, match=r"got upsample\.negative=0, expected a whole number of at"
    ):
        Reviews(upsample={"negative": 0})


@pytest.fixture
def pairs(tmp_path: Path) -> TextFiles:
    rows = ["a\tb\tlabel", *(f"one {i}\ttwo {i} x\t{i % 2}" for i in range(30)), ""]
    (tmp_path / "a.tsv").write_text("\n".join(rows))
    return TextFiles(train="a.tsv", text_column="a", text_pair_column="b", data_dir=str(tmp_path))


def test_pairs_carry_both_texts_and_segments(pairs: TextFiles) -> None:
    pairs.setup("fit")
    assert pairs.pairs
    texts: list[Text] = list(pairs.train_texts())
    assert all(isinstance(text, tuple) for text in texts)
    pairs.tokenizer = WordTokenizer.build(texts)
    for batch in pairs.train_dataloader():
        assert batch.segment_ids is not None
        assert (batch.segment_ids.sum(1) == 3).all()
        assert (batch.segment_ids[~batch.mask] == 0).all()


@pytest.mark.long
def test_encoding_in_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ready()
    assert module.tokenizer is not None
    examples = module.examples("validation")
    at_once = EncodedTexts(examples, module.tokenizer, pairs=False)
    monkeypatch.setattr(EncodedTexts, "_CHUNK", 7)
    parts = EncodedTexts(examples, module.tokenizer, pairs=False)
    assert torch.equal(at_once[range(500)].input_ids, parts[range(500)].input_ids)
