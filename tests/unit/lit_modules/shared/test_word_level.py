"""Words and their base forms, through training settings, checkpoints and predictions."""

import shutil
from pathlib import Path

import pytest
import torch
from pytorch_lightning import Trainer

from attacks.resources.catalogue import ResourceError
from layers import WordEmbedding
from lit_modules import TextClassifier, load
from tests.unit.attacks.lexicon import write_wordnet
from text import WordSettings, WordTokenizer

TEXTS = ["A film, two films!", "good plots", "don't go"]


def save(module: TextClassifier, path: Path) -> Path:
    """A checkpoint without training."""
    module.attach(module.build_tokenizer(TEXTS), ["bad", "good"])
    module.configure_model()
    trainer = Trainer(logger=False, enable_checkpointing=False, accelerator="cpu", max_epochs=0)
    trainer.strategy.connect(module)
    trainer.save_checkpoint(path)
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("NLTK_DATA", "")
    monkeypatch.setattr("sys.prefix", str(tmp_path / "python"))
    write_wordnet(tmp_path / "resources" / "corpora")
    return tmp_path / "resources"


def test_a_checkpoint_keeps_the_words(folder: Path, tmp_path: Path) -> None:
    words = WordSettings(split="alphanumeric", lemmas="noun", resources=str(folder))
    path = save(TextClassifier(width=8, heads=2, depth=1, words=words), tmp_path / "a.ckpt")
    again = load(path)
    assert isinstance(again, TextClassifier)
    assert isinstance(again.tokenizer, WordTokenizer)
    assert again.words == words
    assert again.tokenizer.tokens("Films, don't!") == ["film", "don", "t"]
    same = again.predict_texts(["film", "Films!"])
    assert torch.equal(same[0], same[1])
    # Another folder does as well, but not none.
    shutil.move(folder, tmp_path / "home" / "nltk_data")
    torch.testing.assert_close(load(path).predict_texts(["film"]), same[:1])
    shutil.rmtree(tmp_path / "home")
    with pytest.raises(ResourceError, match=r"lemmas=noun needs WordNet.*resources wordnet` gets"):
        load(path)


def test_the_default_writes_what_it_wrote(tmp_path: Path) -> None:
    path = save(TextClassifier(width=8, heads=2, depth=1), tmp_path / "a.ckpt")
    content = torch.load(path, weights_only=True)
    assert set(content["steadfast"]["tokenizer"]) == {"kind", "max_length", "vocabulary"}
    del content["hyper_parameters"]["words"]  # as older versions left it
    module = TextClassifier.from_settings(content["hyper_parameters"])
    assert module.words == WordSettings()


def test_a_folder_without_lemmas_is_said_to_be_unused() -> None:
    plain, unread = WordSettings(), WordSettings(resources="somewhere")
    assert TextClassifier(words=unread).unused()["words.resources"] == "words.lemmas=none"
    assert (
        TextClassifier(words=plain).unused().keys() == TextClassifier(words=unread).unused().keys()
    )


def test_words_of_a_file_of_vectors_are_looked_up_by_their_base_forms(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    vectors = tmp_path / "v.txt"
    vectors.write_text("film 1 0\ngood 0 1\nunseen 1 1\n")
    words = WordSettings(split="alphanumeric", lemmas="noun", resources=str(folder))
    module = TextClassifier(
        width=2, heads=1, embedding=WordEmbedding(vectors=str(vectors)), words=words
    )
    tokenizer = module.build_tokenizer(TEXTS)
    assert isinstance(tokenizer, WordTokenizer)
    assert tokenizer.vocabulary.get_itos()[3:] == ["film", "good", "unseen"]
    assert tokenizer.vocabulary.count("film") == 2
    assert tokenizer.encode(["Films?"])[0].input_ids == [3]
