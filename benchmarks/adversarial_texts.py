"""Cost of attacks on a batch in lock step, one text after the other, and by TextAttack."""

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from scipy.special import softmax

from app.training.join import training_samples
from attacks.composition import Attack
from attacks.engine import Engine, Limits
from attacks.outcome import AttackRecord, Sample
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build
from attacks.resources.catalogue import SENTENCE_ENCODER, Resources
from attacks.resources.stop_words import TEXTFOOLER
from benchmarks.adversarial_epochs import Task
from benchmarks.command import table
from benchmarks.parity import recorded
from benchmarks.parity.sides import TimedVictim, result
from benchmarks.parity.textattack_process import TextAttackProcess
from benchmarks.timing import timed
from lit_modules.shared.task_module import TaskModule
from text import Text

REFERENCE_BATCH = 32
"""Texts of a forward pass in TextAttack."""


@dataclass
class Way:
    """A way to attack, and its cost so far.

    Attributes:
        name: in the table.
        attack: attacks the texts of a batch; returns outcome, queries and text of each.
        victim: the model that answers.
        elsewhere: seconds of the processor that other processes have spent on it so far.
        wall: seconds of the wall clock.
        processor: seconds of the processor, of all processes.
        asked: seconds of the processor among them in the victim.
        answers: of all samples so far.
    """

    name: str
    attack: Callable[[Sequence[Sample]], list[dict[str, Any]]]
    victim: TimedVictim
    elsewhere: Callable[[], float] = float
    wall: float = 0.0
    processor: float = 0.0
    asked: float = 0.0
    answers: list[dict[str, Any]] = field(default_factory=list)

    def run(self, samples: Sequence[Sample], *, counted: bool) -> None:
        """Attacks the texts of a batch."""
        elsewhere, asked = self.elsewhere(), self.victim.spent
        found: list[dict[str, Any]] = []
        times = timed(lambda: found.extend(self.attack(samples)))
        if counted:
            self.wall += times.wall
            self.processor += times.processor + self.elsewhere() - elsewhere
            self.asked += self.victim.spent - asked
            self.answers += found


class Compared(NamedTuple):
    """One way to attack, beside the first one.

    Attributes:
        seconds: of the wall clock.
        processor: seconds of the processor.
        victim: seconds of the processor among them that our model took to answer.
        queries: that were billed.
        success: share of the attacked texts.
        ratio: of seconds of the processor to those of the first way.
        agree: share of the samples whose outcome, queries and text are those of the first way.
    """

    seconds: float
    processor: float
    victim: float
    queries: int
    success: float
    ratio: float
    agree: float


def both_ways(make: Callable[[], Attack], module: TaskModule, *, budget: int | None) -> list[Way]:
    """Returns our engine in two ways: all texts of a batch together, and one after the other.

    The second makes forward passes as small as TextAttack's.

    Args:
        make: an attack with resources of its own: encoders remember the sentences they have seen.
        module: the model that is attacked.
        budget: queries for each text.
    """

    def way(name: str, attack: Attack, victim: TimedVictim, in_flight: int | None) -> Way:
        def run(samples: Sequence[Sample]) -> list[dict[str, Any]]:
            limits = Limits(query_budget=budget, in_flight=in_flight or len(samples))
            records: list[AttackRecord] = list(Engine(attack, victim, limits=limits).run(samples))
            return [result(one) for one in sorted(records, key=lambda one: one.sample_id)]

        return Way(name, run, victim)

    full = TimedVictim(module, batch_size=256)
    single = TimedVictim(module, batch_size=REFERENCE_BATCH)
    return [
        way("all texts of a batch in lock step", make(), full, None),
        way("one text after the other", make(), single, 1),
    ]


class TextAttack:
    """TextAttack in a process of its own; our model answers it.

    Args:
        python: an interpreter that has it.
        module: what is attacked.
        vectors: file of word vectors.
        data_dir: with nltk's data.
        budget: queries for each text.
    """

    def __init__(
        self, python: Path, module: TaskModule, *, vectors: Path, data_dir: Path, budget: int | None
    ) -> None:
        self.victim = TimedVictim(module, batch_size=REFERENCE_BATCH)
        self.processor = 0.0
        settings = {
            "recipe": "textfooler",
            "vectors": str(vectors.resolve()),
            "stop_words": sorted(TEXTFOOLER),
            "query_budget": budget,
        }
        self._process = TextAttackProcess(python, settings, data_dir=data_dir)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.__exit__(*error)

    def __call__(self, samples: Sequence[Sample]) -> list[dict[str, Any]]:
        """Attacks texts; the answers come in the order of the samples' ids."""
        ordered = sorted(samples, key=lambda one: one.sample_id)
        heard = self._process.attack(ordered, self._probabilities)
        self.processor += heard["processor"]
        results: list[dict[str, Any]] = heard["results"]
        return results

    def _probabilities(self, texts: Sequence[Text]) -> list[list[float]]:
        found: list[list[float]] = softmax(self.victim.logits(texts), axis=1).tolist()
        return found


def compared(ways: Sequence[Way], batches: Sequence[Sequence[Sample]]) -> dict[str, Compared]:
    """Attacks every batch in every way, one after the other; the first only warms up."""
    for number, samples in enumerate(batches):
        for way in ways:
            way.run(samples, counted=number > 0)
    first = ways[0]
    rows = {}
    for way in ways:
        attacked = [one for one in way.answers if one["outcome"] != "skipped"]
        won = sum(one["outcome"] == "succeeded" for one in attacked)
        same = sum(one == other for one, other in zip(way.answers, first.answers, strict=True))
        rows[way.name] = Compared(
            seconds=way.wall,
            processor=way.processor,
            victim=way.asked,
            queries=sum(one["queries"] for one in way.answers),
            success=won / max(len(attacked), 1),
            ratio=way.processor / first.processor,
            agree=same / len(way.answers),
        )
    return rows


def attacked(given: Namespace, one: Task) -> dict[str, dict[str, Compared]]:
    """Attacks the texts of the batches in every way."""
    every = training_samples(one.corpus)
    batches = [
        [Sample(sample_id=i, text=every[i].text, label=every[i].label) for i in ids]
        for ids in (batch.sample_ids.tolist() for batch in (one.first, *one.batches))
    ]
    module, budget = one.module.eval(), given.budget
    encoder = given.sentence_encoder or SENTENCE_ENCODER
    vectors = given.vectors or given.data_dir / recorded.GLOVE

    def whole() -> Attack:
        return build(
            RecipeSettings(recipe="textfooler"),
            Resources(given.resources, sentence_encoder=encoder),
        )

    def words() -> Attack:
        return recorded.compose("textfooler", Resources(given.resources, vectors=vectors))

    found = {"TextFooler": compared(both_ways(whole, module, budget=budget), batches)}
    ways = both_ways(words, module, budget=budget)
    with ExitStack() as stack:
        if given.textattack_python is not None:
            settings = {"vectors": vectors, "data_dir": given.data_dir, "budget": budget}
            theirs = stack.enter_context(TextAttack(given.textattack_python, module, **settings))
            elsewhere = partial(getattr, theirs, "processor")
            ways.append(Way("TextAttack 0.3.11", theirs, theirs.victim, elsewhere=elsewhere))
        title = "TextFooler as TextAttack does it, no sentence encoder"
        found[title] = compared(ways, batches)
    return found


def recorded_time(data_dir: Path) -> str:
    """Returns the recorded time of TextAttack, in words."""
    peer = data_dir.parent / "peer"
    if not peer.is_dir():
        return f"No recorded answers of TextAttack: {peer} is absent."
    found = recorded.compare("textfooler", data_dir, peer, repeats=3)
    return (
        f"Recorded on the victim of `peer/README.md`, {found.samples} texts, word level, "
        f"no budget: TextAttack {found.reference_seconds:.1f} s on an idle machine; here "
        f"{found.processor:.2f} s of the processor, {found.seconds:.2f} s"
    )


def texts_table(found: Mapping[str, Mapping[str, Compared]]) -> str:
    """Returns ways to attack the same texts."""
    rows = [
        [
            *(attack, way, f"{one.seconds:.2f}", f"{one.processor:.2f}", f"{one.victim:.2f}"),
            *(f"{one.ratio:.1f}", one.queries, f"{100 * one.success:.0f} %"),
            f"{100 * one.agree:.0f} %",
        ]
        for attack, ways in found.items()
        for way, one in ways.items()
    ]
    head = ["attack", "way", "seconds", "of the processor", "in the model", "ratio", "queries"]
    return table([*head, "success", "same answers"], rows)
