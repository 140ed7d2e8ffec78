"""Base forms of words, beside those of NLTK."""

from pathlib import Path

import pytest

from attacks.resources.catalogue import ResourceError
from attacks.resources.lemmas import Lemmas, find_lemmas, find_lemmas_again
from attacks.resources.word_forms import PARTS, WordForms
from attacks.resources.wordnet import WordNet
from tests.unit.attacks.lexicon import EXCEPTIONS, small_tagger, write_tagger, write_wordnet
from text import WordSettings
from text.word_splitter import WordSplitter

WORDS = {
    # Washington is WA, and arsenic is As: nouns that no writer of "was" and "as" has in mind.
    "noun": "a as cat down leaf n rock roll some soul u wa",
    "verb": "be leave run say",
    "adj": "big good well",
    "adv": "well",
}
FIGURE = (
    "Some cat was layin' down some rock 'n' roll 'lotta soul' he said.",
    "some cat wa layin down some rock n roll lotta soul he said".split(),
)
"""Figure 4.4 of the thesis (docs/methods/attention_study.md), as it is printed."""


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found but what a test puts there."""
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("NLTK_DATA", "")
    monkeypatch.setattr("sys.prefix", str(tmp_path / "python"))


@pytest.fixture
def forms(tmp_path: Path) -> WordForms:
    folder = tmp_path / "wordnet"
    folder.mkdir()
    for part, words in WORDS.items():
        (folder / f"index.{part}").write_text("".join(f"{w} x\n" for w in words.split()))
        (folder / f"{part}.exc").write_text(
            {"verb": "was be\nsaid say\n"}.get(part, EXCEPTIONS[part])
        )
    return WordForms(folder)


def of(lemmas: Lemmas, text: str) -> list[str]:
    kind = WordSettings(split="alphanumeric", lemmas="part_of_speech" if lemmas.tags else "noun")
    return WordSplitter(kind, lemmas).split(text)


def test_the_printed_example(forms: WordForms) -> None:
    text, printed = FIGURE
    assert of(Lemmas(forms), text) == printed


@pytest.mark.long
@pytest.mark.data
def test_the_printed_example_with_the_real_wordnet(data_dir: Path) -> None:
    """Needs WordNet (`python -m app resources wordnet`); skipped where there are no data."""
    text, printed = FIGURE
    settings = WordSettings(split="alphanumeric", lemmas="noun", resources=str(data_dir))
    assert of(find_lemmas(settings), text) == printed
    settings = WordSettings(lemmas="part_of_speech", resources=str(data_dir))
    correct = ["be" if word == "wa" else "say" if word == "said" else word for word in printed]
    assert of(find_lemmas(settings), text) == correct
    assert of(find_lemmas(settings), "As it has gone to us!") == "as it have go to us".split()


def test_a_lemma_is_the_shortest_known_form(forms: WordForms) -> None:
    assert of(Lemmas(forms), "cats leaves us as unheardofs") == "cat leaf u a unheardofs".split()


def test_the_part_of_speech_decides(forms: WordForms) -> None:
    """In this tagger's eyes a word in -ing is a verb, one after "to" too, all others are nouns."""
    lemmas = Lemmas(forms, small_tagger())
    assert of(lemmas, "the leaves") == ["the", "leaf"]
    assert of(lemmas, "to leaves") == ["to", "leave"]
    assert of(lemmas, "To the") == ["to", "the"]  # neither is in WordNet


def test_the_folder_and_what_is_missing_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "resources"
    noun = WordSettings(lemmas="noun", resources=str(folder))
    with pytest.raises(ResourceError, match=r"words.lemmas=noun needs WordNet, .* is not there"):
        find_lemmas(noun)
    with pytest.raises(ResourceError, match=r"needs WordNet, .* got no corpora/.*NLTK_DATA\)"):
        find_lemmas_again(noun)
    write_wordnet(folder / "corpora")
    assert of(find_lemmas(noun), "films") == ["film"]
    speech = WordSettings(lemmas="part_of_speech", resources=str(folder))
    with pytest.raises(
        ResourceError, match=r"and the part-of-speech tagger.*resources tagger` get"
    ):
        find_lemmas(speech)
    write_tagger(folder / "taggers")
    assert find_lemmas(speech).tags
    assert find_lemmas(speech).digest != find_lemmas(noun).digest
    assert find_lemmas(noun) is find_lemmas_again(noun)


def test_a_checkpoint_on_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_wordnet(tmp_path / "elsewhere" / "corpora")
    gone = WordSettings(lemmas="noun", resources=str(tmp_path / "gone"))
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "elsewhere"))
    assert of(find_lemmas_again(gone), "films") == ["film"]


def test_wordnet_has_the_same_forms(tmp_path: Path) -> None:
    place = write_wordnet(tmp_path)
    for part in PARTS:
        for word in ("films", "went", "better", "well", "takes"):
            assert WordNet(place).forms(word, part) == WordForms(place).forms(word, part)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.filterwarnings("ignore:The multilingual functions are not available")
def test_lemmas_as_nltk_finds_them(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nltk = pytest.importorskip("nltk")
    monkeypatch.setattr(nltk.data, "path", [str(data_dir / "nltk")])
    theirs = nltk.corpus.reader.wordnet.WordNetCorpusReader(
        nltk.data.find("corpora/wordnet.zip/wordnet/"), None
    )
    forms = WordForms(data_dir / "nltk" / "corpora" / "wordnet.zip")
    nouns, lemmas = Lemmas(forms), Lemmas(forms, small_tagger())
    words = list(theirs.all_lemma_names())[::50]
    words += [word + end for word in words[::3] for end in ("s", "es", "ed", "ing", "er", "est")]
    words += [word for part in PARTS for word in forms._exceptions[part]][::7]
    assert len(words) > 8000
    for word in words:
        for part, letter in zip(PARTS, "nvar", strict=True):
            known = theirs._morphy(word, letter)
            found = lemmas._lemma(word, part)
            assert found == (min(known, key=len) if known else word), (word, part)
        assert nouns.lemmas([word], (), ()) == [lemmas._lemma(word, "noun")]
    assert nltk.RegexpTokenizer(r"\w+").tokenize("it's a well-made film, 'n' so_on.") == (
        WordSplitter(WordSettings(split="alphanumeric")).split("it's a well-made film, 'n' so_on.")
    )
