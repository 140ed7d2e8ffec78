"""RunningText, from disk and streamed: the same blocks, every one once, split the same way."""

import json
import logging
import os
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset

from datamodules import DataError, RunningText
from datamodules.packing.blocks import pack
from datamodules.packing.packed_text import open_packed
from tests.unit.datamodules.running_text import TOKENIZER, content, corpus, place, seen, write
from text import WordTokenizer

both = pytest.mark.parametrize("streaming", [False, True])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path)
    return tmp_path


@both
def test_every_block_once_either_to_train_or_to_validate(folder: Path, streaming: bool) -> None:
    module = corpus(folder, streaming=streaming, shuffle_buffer=20)
    train, validation = content(module.train_dataloader()), content(module.val_dataloader())
    texts = list(module.train_texts())
    (expected, *more) = pack(map(str, texts), TOKENIZER, 16)
    assert len(more) == 1  # the last, short one
    n = len(expected.ids) + 1
    assert sorted(validation) == list(range(0, n, 20))
    assert sorted([*train, *validation]) == list(range(n))
    together = {**train, **validation}
    assert [together[i] for i in range(n - 1)] == expected.ids.tolist()
    assert together[n - 1] == more[0].ids[0, : more[0].tokens[0]].tolist()
    assert content(module.test_dataloader()) == validation


@both
def test_batches(folder: Path, streaming: bool) -> None:
    module = corpus(folder, streaming=streaming)
    loader = module.train_dataloader()
    batches = list(loader)
    assert all(batch.input_ids.shape == (8, 16) for batch in batches[:-1])
    assert 1 <= len(batches[-1]) <= 8
    assert all(batch.labels is None and batch.segment_ids is None for batch in batches)
    short = [int(n) for batch in batches for n in batch.lengths if n < 16]
    assert len(short) <= 1
    if not streaming:
        assert len(loader) == len(batches)


@both
def test_the_seed_and_the_epoch_make_the_order(folder: Path, streaming: bool) -> None:
    def order(seed: int, epoch: int = 0) -> list[list[int]]:
        module = place(corpus(folder, streaming=streaming, seed=seed), 0, 1, epoch)
        return seen(module.train_dataloader())

    orders = [order(0), order(1), order(0, 1)]
    assert order(0) == orders[0]
    assert len({str(batches) for batches in orders}) == 3
    assert len({str(sorted(chain(*batches))) for batches in orders}) == 1
    loader = corpus(folder, streaming=streaming).train_dataloader()
    assert [seen(loader), seen(loader)] == [orders[0], orders[0]]
    loader.sampler.set_epoch(1)  # type: ignore[attr-defined] # as Lightning does
    assert seen(loader) == orders[2]


@both
@pytest.mark.parametrize("world", [2, 4])
def test_processes_share_the_batches_of_one(folder: Path, streaming: bool, world: int) -> None:
    alone = corpus(folder, streaming=streaming)
    for name in ("train_dataloader", "val_dataloader"):
        parts = []
        for rank in range(world):
            module = corpus(
                folder, streaming=streaming, batch_size=8 // world, eval_batch_size=4 // world
            )
            loader = getattr(place(module, rank, world), name)()
            batches = seen(loader)
            weights = [loader.sampler.weight(i) for i in range(len(batches))]
            parts.append([b if w > 0 else [] for b, w in zip(batches, weights, strict=True)])
            assert all(abs(w - 1) < 1e-9 for w in weights[:-1]), (
                "only the last batch may be shared out unevenly"
            )
        longest = max(map(len, parts))
        parts = [[*part, *[[]] * (longest - len(part))] for part in parts]
        joined = [sorted(chain(*batch)) for batch in zip(*parts, strict=True)]
        assert joined == [sorted(batch) for batch in seen(getattr(alone, name)())]


@both
def test_the_split_is_the_same_for_every_seed_and_number_of_processes(
    folder: Path, streaming: bool
) -> None:
    held = [
        set(content(place(corpus(folder, streaming=streaming, seed=seed), 0, 1).val_dataloader()))
        for seed in (0, 1)
    ]
    assert held[0] == held[1]
    tenth = corpus(folder, streaming=streaming, validation_share=0.1)
    assert len(content(tenth.val_dataloader())) > 1.8 * len(held[0])
    none = corpus(folder, streaming=streaming, validation_share=0)
    assert none.val_dataloader() == none.test_dataloader() == []
    assert 0 in content(none.train_dataloader())


def test_streamed_from_a_thread_the_same(folder: Path) -> None:
    plain, threaded = (corpus(folder, streaming=True, num_workers=n) for n in (0, 1))
    assert seen(threaded.train_dataloader()) == seen(plain.train_dataloader())
    iterator = iter(threaded.train_dataloader())
    next(iterator)
    del iterator  # its thread ends with it
    (folder / "b.txt").write_bytes(b"\xff\n")
    with pytest.raises(DataError, match=r"b\.txt, line 1"):
        seen(threaded.train_dataloader())


@pytest.mark.long
def test_workers_read_the_blocks_on_disk(folder: Path) -> None:
    single, other = (corpus(folder, num_workers=n) for n in (0, 2))
    assert seen(single.train_dataloader()) == seen(other.train_dataloader())


def test_a_small_buffer_shuffles_less(folder: Path) -> None:
    for buffer, ordered in ((1, True), (50, False)):
        module = corpus(folder, streaming=True, shuffle_buffer=buffer)
        blocks = list(chain(*seen(module.train_dataloader())))
        assert (blocks == sorted(blocks)) == ordered


@both
def test_tokens_may_be_limited(folder: Path, streaming: bool) -> None:
    module = corpus(folder, streaming=streaming, limit_tokens=500, validation_share=0)
    blocks = content(module.train_dataloader())
    assert sum(map(len, blocks.values())) - 2 * len(blocks) == 500


def test_blocks_are_made_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    def made(**settings: Any) -> bool:
        caplog.clear()
        corpus(folder, **settings).train_dataloader()
        return "packed" in caplog.text

    assert made()
    assert not made(batch_size=4, seed=3, validation_share=0.2)
    assert made(length=20)
    assert made(limit_tokens=100)
    os.utime(folder / "a.txt", ns=(1, 1))
    assert made()
    assert not made()
    assert not list((folder / "packed").glob("*.part"))


def packed(folder: Path) -> tuple[Dataset, dict[str, Any]]:
    blocks = pack(["the hare ran"] * 9, TOKENIZER, 8)
    return open_packed(folder, "key", blocks, length=8, vocab_size=300)


def test_an_error_while_packing_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Any:
        yield from pack(["the hare ran"] * 9, TOKENIZER, 8)
        msg = "no more"
        raise DataError(msg)

    with pytest.raises(DataError, match="no more"):
        open_packed(tmp_path, "key", broken(), length=8, vocab_size=300)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]
    assert len(packed(tmp_path)[0]) > 1


@pytest.mark.parametrize("harm", ["about", "less", "other", "absent"])
def test_blocks_that_somebody_has_changed_are_refused(tmp_path: Path, harm: str) -> None:
    packed(tmp_path)
    (place,) = (path for path in tmp_path.iterdir() if path.is_dir())
    about, blocks = place / "about.json", place / "blocks.arrow"
    if harm == "about":
        about.write_text("{")
    elif harm == "less":
        blocks.write_bytes(blocks.read_bytes()[:100])
    elif harm == "other":
        about.write_text(json.dumps({**json.loads(about.read_text()), "blocks": 3}))
    else:
        blocks.unlink()
    with pytest.raises(DataError, match=rf"expected them whole: remove {place}"):
        packed(tmp_path)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"pass `--data\.cache_dir`"):
        packed(tmp_path / "file" / "packed")


def test_large_vocabularies_have_room(tmp_path: Path) -> None:
    blocks = pack(["the hare ran"] * 9, TOKENIZER, 8)
    dataset, _ = open_packed(tmp_path, "key", blocks, length=8, vocab_size=2**16 + 1)
    assert dataset.features["ids"].feature.dtype == "int32"
    assert packed(tmp_path / "small")[0].features["ids"].feature.dtype == "uint16"


@both
def test_a_tokenizer_that_packs_is_needed(folder: Path, streaming: bool) -> None:
    module = corpus(folder, streaming=streaming)
    for wrong, kind in ((None, "no tokenizer"), (WordTokenizer.build(["a"]), "WordTokenizer")):
        module.tokenizer = wrong
        with pytest.raises(ValueError, match=f"got {kind}, expected a PretrainedTokenizer"):
            module.train_dataloader()


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0},
        {"limit_tokens": 0},
        {"shuffle_buffer": 0},
        {"num_workers": -1},
        {"validation_share": 0.6},
    ],
)
def test_settings_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RunningText(files=["a"], **wrong)


def test_files_or_the_hub() -> None:
    for files, hub_id in ((None, None), ([], None), (["a"], "b/c")):
        with pytest.raises(ValueError, match=r"--data\.files` or `--data\.hub_id"):
            RunningText(files=files, hub_id=hub_id)


def test_one_pattern_need_not_be_a_list(folder: Path) -> None:
    bare, listed = (corpus(folder, files=files) for files in ("*.txt", ["*.txt"]))
    assert list(bare.train_texts()) == list(listed.train_texts())


def test_set_up_first(folder: Path) -> None:
    with pytest.raises(RuntimeError, match="setup"):
        RunningText(files=["a.txt"], data_dir=str(folder)).train_texts()


@both
def test_too_little_text_to_train_on(folder: Path, streaming: bool) -> None:
    module = corpus(folder, streaming=streaming, limit_tokens=5)
    assert content(module.val_dataloader()).keys() == {0}
    with pytest.raises(DataError, match="no block of text to train on"):
        next(iter(module.train_dataloader()))
