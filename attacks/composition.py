"""The parts of a text attack: goal, pre-constraints, transformation, constraints, search.

A search is written for one sample, as a generator that yields requests (`Query`, `Consult`,
`Propose`, `Weigh`). The engine runs the searches of many samples in lock step and answers their
requests together (`attacks/engine.py`).
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from attacks.compat import Compat
from attacks.document import Candidate, Cut, Document
from attacks.goals import Evade, Goal, Targeted, Unchanged, Unsure, Untargeted, tie
from attacks.task_goals import Label, TaskGoal
from text import Text

if TYPE_CHECKING:
    from attacks.victims.distribution_settings import DistributionSettings
    from attacks.victims.kinds import Victim
    from certify.threats import TextCertifier, Threat


class Job(NamedTuple):
    """A document of one sample, and the words (`indices`) of `current` that are to be replaced.

    `stage` selects a part of the transformation, where it has several.
    """

    original: Document
    current: Document
    indices: Sequence[int]
    random: Random
    label: int
    stage: int = 0


class Group(NamedTuple):
    """One or more candidates of one sample, made from `current`, judged together."""

    original: Document
    current: Document
    candidates: Sequence[Candidate]


class PreConstraint(Protocol):
    """Selects the words that may be replaced, before the search begins."""

    def allowed(self, document: Document, *, columns: Sequence[str]) -> Iterable[int]:
        """Return numbers of words; `columns` are the names of the texts of a pair."""


class Transformation(Protocol):
    """Proposes replacements."""

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """Return the candidates of each job, all samples of a round at once."""


class Constraint(Protocol):
    """Judges candidates; constraints of lower `cost` are asked first."""

    cost: float

    def keep(self, groups: Sequence[Group]) -> list[list[bool]]:
        """Return True for each candidate that may be used, group by group; all samples at once."""


class Verdict(NamedTuple):
    """The victim's answer to one text.

    Attributes:
        score: score of the goal: the larger the nearer.
        success: True if the goal is reached.
        prediction: predicted class, or what other tasks predict (`attacks.task_goals`).
    """

    score: float
    success: bool
    prediction: Label


class Answers(NamedTuple):
    """The answers to a query: one per text, fewer when the budget was exhausted."""

    judged: list[Verdict]
    exhausted: bool


@dataclass(frozen=True, slots=True)
class Query:
    """Ask the victim about texts; answered by `Answers`."""

    items: Sequence[Document | Candidate]


@dataclass(frozen=True, slots=True)
class Consult:
    """Ask the surrogate about texts, which costs no query; answered by `Answers`."""

    items: Sequence[Document | Candidate]


@dataclass(frozen=True, slots=True)
class Propose:
    """Ask for the candidates that keep all constraints; answered by a list of them.

    Attributes:
        current: the text.
        indices: words to replace, of which pre-constraints leave some out.
        stage: see `Job`; a later stage may change words again, so that pre-constraints are not
            asked again.
    """

    current: Document
    indices: Sequence[int]
    stage: int = 0


@dataclass(frozen=True, slots=True)
class Weigh:
    """Ask how much each word matters by the victim's gradient; answered by a list of floats."""

    document: Document


@dataclass(frozen=True, slots=True)
class EstimateGains:
    """Ask what candidates gain by the victim's gradient; answered by a list of floats."""

    document: Document
    candidates: Sequence[Candidate]


@dataclass(frozen=True, slots=True)
class DrawTexts:
    """Ask for texts of a distribution over tokens, optimised by the victim's gradient.

    It is answered by a list of texts, each the tuple of its columns.

    Attributes:
        document: the text.
        columns: numbers of the texts of a pair that may change.
        count: number of texts.
        seed: of the random numbers.
        settings: of the optimisation.
    """

    document: Document
    columns: frozenset[int]
    count: int
    seed: int
    settings: "DistributionSettings"


Request = Query | Consult | Propose | Weigh | EstimateGains | DrawTexts


class SearchEnd(NamedTuple):
    """The end of a search: the best text, and the victim's answer to it."""

    item: Document | Candidate
    judged: Verdict


Steps = Generator[Request, Any, SearchEnd]
"""One search: yields requests, is sent their answers, returns its end."""


@dataclass(slots=True)
class Context:
    """The facts that a search has about its sample.

    Attributes:
        original: the document.
        clean: the victim's answer to it.
        attack: the composition.
        random: the random numbers of this sample.
        columns: names of the texts.
        scale: scale of the victim's logits: the largest of `attacks.goals.top_margins` in all
            answers about this sample so far.
        gradients: True if the victim answers `Weigh`.
        frozen: numbers of the words of the original that must stay.
        salience: what the score gains without a word, by the number of the word; filled by a search
            that ranks words in this way.
        ranked: a text that reaches the goal, if the ranking of the words has met one.
        surrogate: the same facts about the surrogate, with its own answers and scale; None
            without one.
    """

    original: Document
    clean: Verdict
    # Attack and Context refer to each other.
    attack: "Attack"
    random: Random
    columns: Sequence[str]
    scale: float = 0.0
    gradients: bool = False
    frozen: frozenset[int] = frozenset()
    salience: dict[int, float] = field(default_factory=dict)
    ranked: "SearchEnd | None" = None
    surrogate: "Context | None" = None
    # Allowed words of the latest document.
    _known: tuple[Document, list[int]] | None = None

    @property
    def reference(self) -> bool:
        """True if the reference is reproduced."""
        return self.attack.compat.reference

    @property
    def tie(self) -> float:
        """Scores nearer than this are equal; 0 for the reference."""
        return 0.0 if self.reference else tie(self.attack.goal.score, self.scale)

    def relative(self, score: float) -> float:
        """Return a score, or a difference of scores, that does not depend on the logits' scale."""
        if self.attack.goal.score == "margin" and self.scale > 0:
            return score / self.scale
        return score

    def admits(self, document: Document) -> bool:
        """Return True if a text with several changes keeps those constraints that can judge it.

        These are the constraints and pre-constraints with `admits(original, document)`; others
        judge one change at a time, when it is made.
        """
        parts = (*self.attack.constraints, *self.attack.pre_constraints)
        judges = (getattr(part, "admits", None) for part in parts)
        return all(judge(self.original, document) for judge in judges if judge is not None)

    def allowed(self, document: Document) -> list[int]:
        """Return the words that may be replaced, in order.

        The reference breaks ties between words by the iteration order of a set of their numbers;
        the same sets, built in the same way, have the same order.
        """
        # Searches ask several times about the same document.
        if self._known is not None and self._known[0] is document:
            return self._known[1].copy()
        indices = set(range(len(document)))
        if self.frozen:
            indices = {i for i in indices if document.origin[i] not in self.frozen}
        for constraint in self.attack.pre_constraints:
            if not indices:
                break
            allowed = constraint.allowed(document, columns=self.columns)
            indices = indices & (allowed if isinstance(allowed, set) else set(allowed))
        # CPython's order of a set of small integers, which the reference relies on.
        words = list(indices) if self.reference else sorted(indices)
        self._known = (document, words)
        return words.copy()


class Search(Protocol):
    """Selects the words to replace, their order and their replacements.

    A search with `refines = True` looks for a better text after its first success, so that the
    budget may end it even then. One with `needs_scores = False` looks at success alone.
    """

    def steps(self, context: Context) -> Steps:
        """Search one sample."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A composition; recipes make them, and so may anyone.

    Attributes:
        name: name in results.
        transformation: proposes replacements.
        search: chooses among them.
        goal: decides when it has succeeded.
        pre_constraints: select the words that may be replaced.
        constraints: judge the replacements.
        compat: `textattack` reproduces the reference's behaviour (docs/attacks.md).
        white_box: True if the search needs gradients of the victim.
        surrogate: model that ranks words and candidates without queries to the victim, or its name
            until `assisted` finds it; None for none.
        cut: cuts runs of letters into words, for scripts without spaces; None leaves them whole.
    """

    name: str
    transformation: Transformation
    search: Search
    goal: Goal = field(default_factory=Untargeted)
    pre_constraints: Sequence[PreConstraint] = ()
    constraints: Sequence[Constraint] = ()
    compat: Compat = Compat.NONE
    white_box: bool = False
    surrogate: "Victim | str | None" = None
    cut: Cut | None = None

    def __post_init__(self) -> None:
        """Take the name of `compat` as well, such as "textattack".

        Raises:
            ValueError: a surrogate for a search that does not consult one.
        """
        object.__setattr__(self, "compat", Compat(self.compat))
        if self.surrogate is not None and not getattr(self.search, "consults", False):
            name = getattr(self.surrogate, "name", self.surrogate)
            msg = (
                f"got surrogate {name} for {self.name}, whose search is "
                f"{type(self.search).__name__}, expected one that ranks words (Greedy)"
            )
            raise ValueError(msg)

    @property
    def needs_scores(self) -> bool:
        """True if the search follows the victim's scores."""
        return bool(getattr(self.search, "needs_scores", True))

    def learn(self, texts: Callable[[], Iterable[tuple[Text, int]]]) -> "Attack":
        """Return this attack with what its transformation learns from labelled texts, if any."""
        learn = getattr(self.transformation, "learn", None)
        return self if learn is None else replace(self, transformation=learn(texts))

    def assisted(self, find: "Callable[[str], Victim]") -> "Attack":
        """Return this attack with the model that its surrogate names, if it has one."""
        if not isinstance(self.surrogate, str):
            return self
        return replace(self, surrogate=find(self.surrogate))

    def certified(
        self, certifier: "Callable[[Threat], TextCertifier] | None", threat: "Threat | None"
    ) -> "Attack":
        """Return this attack with a certifier, if its transformation takes texts from one.

        Args:
            certifier: makes the certifier of the victim against a threat; None if it has none.
            threat: the set of texts of the attack.

        Raises:
            ValueError: it needs a certifier, and there is none for this threat.
        """
        take = getattr(self.transformation, "certified", None)
        return self if take is None else replace(self, transformation=take(certifier, threat))

    def aiming(self, goal: Goal) -> "Attack":
        """Return this attack with another goal.

        An attack that keeps the prediction has its own goal, and takes only the score of another.
        So has one with a bound of the probability, unless it gets a class to reach or to leave.

        Raises:
            ValueError: an attack that keeps the prediction gets a class to reach or to leave, or
                one that needs a classifier gets the goal of another task.
        """
        if isinstance(goal, TaskGoal):
            self._check_task(goal)
            return replace(self, goal=goal)
        own, targeted = self.goal, isinstance(goal, Targeted | Evade)
        if isinstance(own, Unchanged) and isinstance(goal, Targeted | Evade):
            aim = f"target class {goal.target}" if isinstance(goal, Targeted) else "goal evade"
            msg = f"got {aim} for {self.name}, which keeps the prediction, expected no target"
            raise ValueError(msg)
        if isinstance(own, Unchanged) or (isinstance(own, Unsure) and not targeted):
            # Only the score is taken over.
            goal = replace(own, score=goal.score)
        return replace(self, goal=goal)

    def _check_task(self, goal: TaskGoal) -> None:
        """Raise ValueError if the attack needs a classifier, and the goal is of another task."""
        parts = {
            "gradients of a classifier": self.white_box,
            "classes": isinstance(self.goal, Unchanged | Unsure),
            "texts with classes": getattr(self.transformation, "pool_of_classes", False),
            "a certificate": hasattr(self.transformation, "certified"),
            "the reference": self.compat is not Compat.NONE,
        }
        if needs := [name for name, has in parts.items() if has]:
            msg = (
                f"got the attack {self.name}, which needs {needs[0]}, for a model of "
                f"{goal.task}, expected an attack that changes words by scores, such as deepwordbug"
            )
            raise ValueError(msg)
