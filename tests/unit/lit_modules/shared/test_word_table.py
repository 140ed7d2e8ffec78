"""An embedding that begins with the vectors of a file."""

import logging
from pathlib import Path

import pytest
import torch

from layers import WordEmbedding
from layers.embeddings import PlainEmbedding
from lit_modules import AdversarialTraining, TaskModule, TextClassifier, load
from lit_modules.adversaries import SMART
from tests.unit.lit_modules.builders import SINGLE, loader, make, trainer
from text import WordSettings

WORDS = {"bad": 1, "good": 2, "splendid": 3, "film": 4, "a": 5, "awful": 6, "the": 7}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    path = tmp_path / "vectors.txt"
    path.write_text("".join(f"{word} {n} 0 0 {n}.5\n" for word, n in WORDS.items()))
    return path


def joined(module: TaskModule) -> TaskModule:
    torch.manual_seed(0)
    module.attach(module.build_tokenizer(SINGLE), ["bad", "good"])
    module.configure_model()
    return module


def classifier(vectors: Path, **settings: object) -> TextClassifier:
    own = WordEmbedding(
        **{"kind": "plain", "positions": "none", "vectors": str(vectors), "frozen": True}  # type: ignore[arg-type] # of several kinds
        | {name: settings.pop(name) for name in ("kind", "frozen", "scale") if name in settings}
    )
    return make(
        TextClassifier, **{"width": 4, "heads": 2, "depth": 1, "embedding": own, **settings}
    )


def test_all_words_of_the_file_have_their_vectors(vectors: Path) -> None:
    module = joined(classifier(vectors))
    tokenizer, _ = module.require_text()
    # First those of the training texts, the most frequent first; then the file's.
    assert tokenizer.state()["vocabulary"]["tokens"] == [
        *("<pad>", "<unk>", "<sep>", "bad", "good", "a", "film"),
        *("splendid", "awful", "the"),
    ]
    x = module.embed(module.encode_texts(["splendid film", "unheard film"]))
    expected = [[[3, 0, 0, 3.5], [4, 0, 0, 4.5]], [[0, 0, 0, 0], [4, 0, 0, 4.5]]]
    torch.testing.assert_close(x, torch.tensor(expected))


def test_the_most_frequent_words_are_kept(vectors: Path) -> None:
    module = joined(classifier(vectors, max_vocab_size=5))
    assert module.require_text()[0].state()["vocabulary"]["tokens"][3:] == ["bad", "good"]


def test_words_are_split_as_the_settings_say(vectors: Path) -> None:
    with vectors.open("a") as stream:
        stream.write("n't 9 9 9 9\n")
    for split, unknown in (("clitics", False), ("alphanumeric", True)):
        words = WordSettings(split=split)  # type: ignore[arg-type] # a literal
        tokenizer, _ = joined(classifier(vectors, words=words)).require_text()
        (encoding,) = tokenizer.encode(["isn't"])
        index = tokenizer.state()["vocabulary"]["tokens"].index("n't")
        assert (index not in encoding.input_ids) is unknown


def test_a_frozen_table_is_not_trained_and_a_free_one_is(vectors: Path) -> None:
    for frozen in (True, False):
        module = joined(classifier(vectors, frozen=frozen))
        assert isinstance(module, TextClassifier)
        assert isinstance(module.embedding, PlainEmbedding)
        table = module.embedding.words.weight
        before = table.detach().clone()
        assert bool((before[1] == 0).all()) is frozen
        groups = module.parameter_groups()
        assert any(group is table for group in groups) is not frozen
        batches = loader(module, SINGLE, 3, classes=2)
        trainer().fit(module, batches, batches)
        assert torch.equal(table, before) is frozen


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_checkpoint_alone_is_enough(vectors: Path, tmp_path: Path, wrapped: bool) -> None:
    inner = classifier(vectors)
    module = joined(
        AdversarialTraining(classifier=inner, adversary=SMART(epsilon=0.1, step_size=0.1))
        if wrapped
        else inner
    )
    run, batches = trainer(), loader(module, SINGLE, 3, classes=2)
    run.fit(module, batches, batches)
    run.save_checkpoint(tmp_path / "a.ckpt")
    texts = ["a splendid film", "the awful film"]
    expected = module.eval().predict_texts(texts)
    vectors.unlink()
    again = load(tmp_path / "a.ckpt")
    assert torch.equal(again.predict_texts(texts), expected)
    assert not again.get_parameter(
        "classifier.embedding.words.weight" if wrapped else "embedding.words.weight"
    ).requires_grad


def test_vectors_in_the_normalised_embedding(vectors: Path) -> None:
    module = joined(classifier(vectors, kind="normalized"))
    x = module.embed(module.encode_texts(["splendid unheard"]))
    word = torch.tensor([3, 0, 0, 3.5])
    torch.testing.assert_close(x[0], torch.stack([2 * word / word.norm(), torch.zeros(4)]))


def test_the_scale_of_words(vectors: Path) -> None:
    module = joined(classifier(vectors, scale=3.0))
    x = module.embed(module.encode_texts(["splendid"]))
    torch.testing.assert_close(x[0, 0], 3.0 * torch.tensor([3, 0, 0, 3.5]))


def test_wrong_files(vectors: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ValueError, match=r"got vectors of 4 numbers in .* and width=8, .*width 4"):
        joined(classifier(vectors, width=8))
    with pytest.raises(ValueError, match=r"none\.txt, not found"):
        joined(classifier(tmp_path / "none.txt"))
    vectors.write_text("Dog 1 2 3 4\nBAD 1 2 3 4\n")
    with pytest.raises(ValueError, match=r"without any of the \d+ words of the training texts"):
        joined(classifier(vectors))
    vectors.write_text("bad 1 2 3 4\ngood 1 2 3\n")
    with pytest.raises(ValueError, match=r"line 2: got 3 finite numbers .* a word and 4 finite"):
        joined(classifier(vectors))
    vectors.write_text("bad 1 2 3 4\ngood 1 2 3 4\nbad 1 2 3 4\n")
    with caplog.at_level(logging.WARNING):
        joined(classifier(vectors))
    assert "1 lines of" in caplog.text
