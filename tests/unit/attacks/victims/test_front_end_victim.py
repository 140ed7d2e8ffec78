"""A front end before any victim."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks.fingerprint import describe
from attacks.goals import Floats
from attacks.progress import CountedVictim
from attacks.victims.front_end_victim import FrontEndVictim
from attacks.victims.kinds import CallableVictim, InvalidAnswers, ModuleVictim
from lit_modules import FineTuning
from measure.named_victims import NamedVictim
from measure.victim_front_end import VictimFrontEnd, find_words, put_front_end
from tests.unit.lit_modules.encoders import made
from text import CanonicalForm, FrontEnd, FrontEndSettings, Text

WORDS = ["good", "film", "bad"]
SPELLING = FrontEndSettings(front_end="spelling")
TEXTS: list[Text] = ["GOOD film", "goood filmm", "bad zzzz", "gооd film", "good film"]


class Service:
    """Answers by the length of a text; remembers what it was asked."""

    name = "service"
    labels_only = True
    classes = ("no", "yes")

    def __init__(self, invalid: Sequence[str] = ()) -> None:
        self.asked: list[Text] = []
        self.invalid = set(invalid)

    def logits(self, texts: Sequence[Text]) -> Floats:
        self.asked += texts
        reasons: dict[Text, str] = {text: "odd" for text in texts if text in self.invalid}
        if reasons:
            raise InvalidAnswers("got an odd answer", reasons)
        return np.array([[float(len(str(text))), 0.0] for text in texts])

    def probabilities(self, texts: Sequence[Text]) -> Floats | None:
        self.asked += texts
        return None

    def word_weights(self, documents: Any) -> None:
        raise AssertionError(documents)


def test_a_text_is_corrected_and_asked_about_once() -> None:
    service = Service()
    victim = FrontEndVictim(service, FrontEnd.of_words(WORDS, SPELLING))
    logits = victim.logits(TEXTS)
    assert service.asked == ["good film", "bad zzzz"]
    assert logits[:, 0].tolist() == [9, 9, 8, 9, 9]
    assert victim.logits([("goood", "BAD")])[0, 0] == len(str(("good", "bad")))
    assert victim.probabilities(["filmm"]) is None
    assert service.asked[-1] == "film"
    assert (victim.name, victim.labels_only, victim.classes) == ("service", True, ("no", "yes"))
    assert not hasattr(victim, "again")  # this victim has none
    assert not hasattr(victim, "word_weights")  # a gradient is about another text
    assert CountedVictim(victim, lambda _: None).front_end is victim.front_end


def test_unknown_words_and_errors_keep_the_text_of_the_attack() -> None:
    unknown = FrontEnd.of_words(WORDS, SPELLING, unknown="[UNK]")
    service = Service(invalid=["bad [UNK]"])
    victim = FrontEndVictim(service, unknown)
    with pytest.raises(InvalidAnswers) as error:
        victim.logits(["good", "Bad zzzz", "bad qqqq"])
    assert error.value.reasons == {"Bad zzzz": "odd", "bad qqqq": "odd"}


def test_records_of_another_front_end_are_of_another_victim() -> None:
    fronts = [
        FrontEnd.of_words(WORDS, SPELLING),
        FrontEnd.of_words(WORDS[:2], SPELLING),
        FrontEnd.of_words(WORDS, SPELLING, unknown="?"),
        FrontEnd(CanonicalForm()),
        FrontEnd(CanonicalForm(spaced=True)),
    ]
    function = CallableVictim(lambda texts: [[0.0, 1.0] for _ in texts], name="f")
    about = [str(describe(FrontEndVictim(function, front).about())) for front in fronts]
    about.append(str(describe(function.about())))
    assert len(set(about)) == len(about)
    assert FrontEndVictim(Service(), fronts[0]).about()["name"] == "service"


@pytest.fixture
def words(tmp_path: Path) -> str:
    path = tmp_path / "words.txt"
    path.write_text("good\nfilm\nbad\n")
    return str(path)


def spelling(words: str) -> VictimFrontEnd:
    return VictimFrontEnd(front_end="spelling", vocabulary=words)


def test_a_pretrained_victim_reads_its_unknown_token(words: str, tmp_path: Path) -> None:
    named = put_front_end(NamedVictim(Service(), ["a", "b"], {}), spelling(words), tmp_path)
    assert isinstance(named.victim, FrontEndVictim)
    # A service has no unknown token: the word stays.
    assert named.victim.front_end("goood zzzz") == "good zzzz"
    assert named.facts == {"front end": "spelling", "vocabulary": f"{words} (3 words)"}

    module = made(FineTuning).eval()
    run = put_front_end(
        NamedVictim(ModuleVictim(module), ["a", "b"], {}), spelling(words), tmp_path
    )
    assert np.array_equal(
        run.victim.logits(["GOOD filmm zzzz"]), ModuleVictim(module).logits(["good film [UNK]"])
    )


def test_a_text_is_not_corrected_twice(words: str, tmp_path: Path) -> None:
    victim = ModuleVictim(made(FineTuning, words=SPELLING))
    with pytest.raises(ValueError, match=r"words\.front_end=spelling, expected none: it would be"):
        put_front_end(NamedVictim(victim, ["a", "b"], {}), spelling(words), tmp_path)
    none = NamedVictim(victim, ["a", "b"], {})
    assert put_front_end(none, VictimFrontEnd(), tmp_path) is none


def test_wrong_vocabularies(tmp_path: Path) -> None:
    for settings in ({"front_end": "spelling"}, {"vocabulary": "a"}):
        with pytest.raises(ValueError, match=r"expected a run or a file as vocabulary"):
            VictimFrontEnd(**settings)  # type: ignore[arg-type] # of two types
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    with pytest.raises(ValueError, match="without words, expected a run"):
        find_words(str(empty), tmp_path)
    with pytest.raises(OSError, match="nosuch"):
        find_words("nosuch", tmp_path)
