"""Finds and loads word vectors, WordNet, taggers and models when they are first needed.

Nothing is ever downloaded from here; `python -m steadfast resources` does that. Stop words come
with the program.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from attacks.recipe_settings import Language, RecipeSettings
from attacks.resources.inflected import Inflected
from attacks.resources.neighbours import ListedNeighbours, Neighbours, VectorNeighbours
from attacks.resources.segmenters import LongestWords, characters
from attacks.resources.tagger import Tagger
from attacks.resources.vector_files import cache_folder
from attacks.resources.vectors import WordVectors
from attacks.resources.word_forms import WordForms
from attacks.resources.wordnet import WordNet
from text.bounded_files import read_text
from text.error_reasons import describe_error
from text.stop_words import LISTS as STOP_WORDS
from text.stop_words import StopWordList

if TYPE_CHECKING:
    import torch

    from attacks.document import Cut

Loaded = TypeVar("Loaded")
COUNTER_FITTED = ("counter-fitted-vectors.txt", "counter-fitted-vectors.txt.gz")
COUNTER_FITTED_ZIP = "counter-fitted-vectors.txt.zip"
LISTS = ("euc_top8_d0.7.json", "counterfitted_neighbors.json")
"""Ready lists of neighbours among the counter-fitted vectors; the first has more words."""
SENTENCE_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
MASKED_LM = "bert-base-uncased"


class ResourceError(FileNotFoundError):
    """A resource of an attack is missing."""


@contextmanager
def resources_named(setting: str) -> Iterator[None]:
    """Let errors of missing resources name another setting than `--attack.resources`."""
    try:
        yield
    except ResourceError as error:
        raise ResourceError(str(error).replace("--attack.resources", setting)) from error


class Resources:
    """The resources of attacks.

    They are looked for in this order: the folder, the default folder of
    `python -m steadfast resources`, the folders of `NLTK_DATA`, nltk's own, and for models the
    installed packages and the hub's local cache. In each folder, nltk's data may be in `nltk`,
    vectors in `counterfit` or `glove`.

    Args:
        folder: the first place to look; left out if None.
        vectors: word vectors (text) or lists of neighbours (JSON) to use instead of those found.
        sentence_encoder: folder or hub name; `SENTENCE_ENCODER` if None.
        masked_lm: folder or hub name of the masked language model; `MASKED_LM` if None.
        device: device on which these two compute; the GPU if there is one.

    Raises:
        ResourceError: the folder, or later a resource, is not found.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        vectors: str | Path | None = None,
        sentence_encoder: str | Path | None = None,
        masked_lm: str | Path | None = None,
        device: "torch.device | str | None" = None,
    ) -> None:
        self.folder = None if folder is None else Path(folder)
        self.given = None if vectors is None else Path(vectors)
        for path in (self.folder, self.given):
            if path is not None and not path.exists():
                msg = f"got {path}, which is not there, expected the path of resources"
                raise ResourceError(msg)
        self._names = {
            "sentence-encoder": str(sentence_encoder or SENTENCE_ENCODER),
            "masked-lm": str(masked_lm or MASKED_LM),
        }
        self._loaded: dict[str, Any] = {}
        self._device = device

    @classmethod
    def of(cls, settings: RecipeSettings, *, device: "torch.device | str | None" = None) -> Self:
        """Return the resources that the settings of an attack name."""
        return cls(
            settings.resources,
            vectors=settings.vectors,
            sentence_encoder=settings.sentence_encoder,
            masked_lm=settings.masked_lm,
            device=device,
        )

    # What there is

    def neighbours(self) -> Neighbours:
        """Return the words nearest to each word.

        They come from counter-fitted vectors, else from ready lists of their neighbours, else from
        GloVe vectors, where antonyms are near each other, too.
        """
        return self._once("neighbours", self._find_neighbours)

    def vectors(self) -> WordVectors | None:
        """Return the vectors of `neighbours`; None if they come from ready lists."""
        return self.neighbours().vectors

    def wordnet(self) -> WordNet:
        """Return WordNet 3.0."""
        return self._once("wordnet", lambda: WordNet(self.wordnet_place()))

    def wordnet_place(self) -> Path:
        """Return the folder or zip archive of WordNet."""
        return self._nltk("corpora/wordnet", "wordnet")

    def tagger(self) -> Tagger:
        """Return the part-of-speech tagger."""
        return self._once("tagger", lambda: Tagger.read(self.tagger_place()))

    def tagger_place(self) -> Path:
        """Return the folder or zip archive of the tagger."""
        return self._nltk("taggers/averaged_perceptron_tagger_eng", "tagger")

    def stop_words(self, name: StopWordList = "english") -> frozenset[str]:
        """Return a list of stop words; see `stop_words`.

        Raises:
            ValueError: there is none of this name.
        """
        if name not in STOP_WORDS:
            msg = f"got stop words {name!r}, expected one of {', '.join(STOP_WORDS)}"
            raise ValueError(msg)
        return STOP_WORDS[name]

    def inflected(self) -> Inflected:
        """Return the inflected forms of English words, by WordNet."""
        return self._once("inflected", lambda: Inflected(WordForms(self.wordnet_place())))

    def cut(self, language: Language) -> "Cut | None":
        """Return what cuts runs of letters into words; None for languages with spaces.

        Chinese is cut into the longest words of `words-chinese.txt` (a word on each line) in the
        folder of resources, and into characters without that file.
        """
        if language != "chinese":
            return None
        return self._once("cut", self._find_cut)

    def _find_cut(self) -> "Cut":
        for folder in self._own():
            path = folder / "words-chinese.txt"
            if path.is_file():
                return LongestWords(read_text(path).split())
        return characters

    def sentence_encoder(self) -> Any:
        """Return a `attacks.resources.sentence_encoders.SentenceEncoder`."""
        from attacks.resources.sentence_encoders import SentenceEncoder

        load = partial(SentenceEncoder, device=self._device)
        return self._once("sentence-encoder", lambda: self._model("sentence-encoder", load))

    def masked_lm(self) -> tuple[Any, Any]:
        """Return a masked language model of `transformers` and its tokenizer.

        Raises:
            ValueError: it has no masked-language-model head.
        """
        from attacks.resources.language_model import load_masked_lm

        load = partial(load_masked_lm, device=self._device)
        return self._once("masked-lm", lambda: self._model("masked-lm", load))

    # Loaded once

    def _once(self, name: str, load: Callable[[], Loaded]) -> Loaded:
        """Load a resource at its first use."""
        if name not in self._loaded:
            self._loaded[name] = load()
        loaded: Loaded = self._loaded[name]
        return loaded

    def _find_neighbours(self) -> Neighbours:
        if self.given is not None:
            return _neighbours_of(self.given)
        names = ("", "counterfit", "glove")
        folders = [folder / name for folder in self._own() for name in names]
        counter_fitted = (*COUNTER_FITTED, COUNTER_FITTED_ZIP)
        lists = [name + end for name in LISTS for end in ("", ".gz")]
        # Any counter-fitted vectors come before any lists, wherever they are.
        for find in (partial(_first, names=counter_fitted), partial(_first, names=lists), _glove):
            for folder in folders:
                if (path := find(folder)) is not None:
                    return _neighbours_of(path)
        raise _missing(folders, title="neighbours of words", command="neighbours")

    # Where to look

    def _own(self) -> list[Path]:
        default = cache_folder() / "resources"
        return [default] if self.folder is None else [self.folder, default]

    def _nltk(self, name: str, command: str) -> Path:
        """Find a folder or zip archive of nltk's data."""
        folders = [path for folder in self._own() for path in (folder, folder / "nltk")]
        folders += [*map(Path, filter(None, os.environ.get("NLTK_DATA", "").split(os.pathsep)))]
        folders += [Path.home() / "nltk_data"]
        folders += [Path(sys.prefix) / part for part in ("nltk_data", "share/nltk_data")]
        folders += [
            Path(root) / "nltk_data"
            for root in ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib")
        ]
        for folder in folders:
            for path in (folder / name, folder / f"{name}.zip"):
                if path.exists():
                    return path
        raise _missing(folders, title=f"{name}.zip", command=command)

    def _model(self, folder: str, load: Callable[[str | Path], Loaded]) -> Loaded:
        """Load a model; a local folder comes before the name."""
        name = self._names[folder]
        if Path(name).is_dir():
            return load(name)
        for root in self._own():
            # By the last part of its name, or by its kind.
            for path in (root / name.rpartition("/")[2], root / folder):
                if path.is_dir():
                    return load(path)
        try:
            return load(name)
        except OSError as error:
            title, reason = f"{folder} {name}", describe_error(error)[:200]
            raise _missing(self._own(), title=title, command=folder, reason=reason) from error


def _missing(
    folders: Iterable[Path], *, title: str, command: str, reason: str | None = None
) -> ResourceError:
    """Make the error for a missing resource."""
    looked = ", ".join(str(folder) for folder in folders)
    also = f"; {reason}" if reason else ""
    return ResourceError(
        f"got no {title} in {looked}{also}; `python -m steadfast resources {command}` gets it, or "
        "say in which folder it is (--attack.resources)"
    )


def _first(folder: Path, names: Iterable[str]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _glove(folder: Path) -> Path | None:
    """Find the largest file of GloVe vectors."""
    if not folder.is_dir():
        return None
    files = [
        path
        for path in folder.iterdir()
        if path.name.startswith("glove.") and path.name.endswith((".txt", ".txt.gz", ".txt.zip"))
    ]
    # The largest file has most words and dimensions.
    return max(files, key=lambda path: (path.stat().st_size, path.name), default=None)


def _neighbours_of(path: Path) -> Neighbours:
    """Read the neighbours of a file."""
    if path.name.endswith((".json", ".json.gz", ".json.zip")):
        return ListedNeighbours.read(path)
    cache = cache_folder()
    return VectorNeighbours(WordVectors.read(path, cache=cache), cache=cache)
