"""Put a front end before a victim: canonical form and spelling, with the words of a run or file."""

from dataclasses import dataclass
from pathlib import Path

from attacks.victims.front_end_victim import FrontEndVictim
from attacks.victims.kinds import HuggingFaceVictim, ModuleVictim
from lit_modules.checkpoints.reading import load
from lit_modules.shared.text_module import TextModule
from measure.named_victims import NamedVictim
from run_files.checkpoint_lookup import find_checkpoint
from text import FrontEnd, FrontEndSettings, PretrainedTokenizer, WordTokenizer
from text.bounded_files import read_text


@dataclass(frozen=True, kw_only=True)
class VictimFrontEnd(FrontEndSettings):
    """The front end before a victim.

    Attributes:
        vocabulary: words of the corrector: of a run in --runs_dir, or a file of words, frequent
            ones first.
    """

    vocabulary: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a vocabulary without a corrector, or the reverse."""
        super().__post_init__()
        if (self.vocabulary is None) == (self.front_end == "spelling"):
            msg = (
                f"got --words.front_end {self.front_end} and --words.vocabulary {self.vocabulary}, "
                "expected a run or a file as vocabulary for spelling, and only for it"
            )
            raise ValueError(msg)


def put_front_end(named: NamedVictim, words: VictimFrontEnd, runs_dir: Path) -> NamedVictim:
    """Return a victim with a front end before it; the victim itself for the front end none.

    An unknown word becomes the unknown token of the victim's tokenizer. It stays where there is
    none, as for a service.

    Raises:
        ValueError: a vocabulary without words, or a run that has a front end of its own.
        OSError: the vocabulary is not found.
    """
    if words.front_end == "none":
        return named
    victim, unknown = named.victim, None
    if isinstance(victim, HuggingFaceVictim):
        unknown = victim.tokenizer.unk_token
    elif isinstance(victim, ModuleVictim) and isinstance(victim.module, TextModule):
        tokenizer = victim.module.require_tokenizer()
        if tokenizer.front_end is not None:
            msg = (
                f"got --words.front_end {words.front_end} for a run that has "
                f"words.front_end={tokenizer.front_end.kind}, expected none: it would be corrected "
                "twice"
            )
            raise ValueError(msg)
        unknown = tokenizer.unk_token if isinstance(tokenizer, PretrainedTokenizer) else None
    known = [] if words.vocabulary is None else find_words(words.vocabulary, runs_dir)
    front_end = FrontEnd.of_words(known, words, unknown=unknown)
    facts = named.facts | {"front end": words.front_end}
    if words.vocabulary is not None:
        facts["vocabulary"] = f"{words.vocabulary} ({len(front_end.words):,} words)"
    return NamedVictim(FrontEndVictim(victim, front_end), named.classes, facts)


def find_words(vocabulary: str, runs_dir: Path) -> list[str]:
    """Return the words of a run or of a text file, the most frequent one first.

    Raises:
        ValueError: it has no words.
        OSError: it is not found.
    """
    if Path(vocabulary).is_file():
        words = read_text(Path(vocabulary)).split()
    else:
        _, checkpoint = find_checkpoint("attack", runs_dir, vocabulary, None)
        tokenizer = load(checkpoint).require_tokenizer()
        if isinstance(tokenizer, WordTokenizer):
            words = tokenizer.vocabulary.words()
        else:
            words = [] if tokenizer.front_end is None else tokenizer.front_end.words
    if not words:
        msg = (
            f"got --words.vocabulary {vocabulary} without words, expected a run with a vocabulary "
            "of words or a corrector, or a file of words"
        )
        raise ValueError(msg)
    return words
