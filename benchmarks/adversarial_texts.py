"""Cost of attacks on a batch in lock step, one text after the other, and by TextAttack."""

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from scipy.special import softmax

from attacks.composition import Attack
from attacks.engine import Engine, Limits
from attacks.outcome import AttackRecord, Sample
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build
from attacks.resources.catalogue import SENTENCE_ENCODER, Resources
from attacks.resources.stop_words import TEXTFOOLER
from benchmarks.adversarial_epochs import CorpusTask
from benchmarks.command import table
from benchmarks.parity import recorded
from benchmarks.parity.sides import TimedVictim, result
from benchmarks.parity.textattack_process import TextAttackProcess
from benchmarks.timing import time_work
from lit_modules.shared.task_module import TaskModule
from training.join import training_samples

REFERENCE_BATCH = 32
"""Texts of a forward pass in TextAttack."""


@dataclass
class Way:
    """A way to attack the texts of a batch, and its cost so far in seconds.

    `attack` returns outcome, queries and text of each sample. `elsewhere` returns seconds of the
    processor that other processes have spent on it; `in_victim` are those in the victim.
    """

    name: str
    attack: Callable[[Sequence[Sample]], list[dict[str, Any]]]
    victim: TimedVictim
    elsewhere: Callable[[], float] = float
    wall: float = 0.0
    processor: float = 0.0
    in_victim: float = 0.0
    answers: list[dict[str, Any]] = field(default_factory=list)

    def run(self, samples: Sequence[Sample], *, counted: bool) -> None:
        """Attack the texts of a batch."""
        elsewhere, spent = self.elsewhere(), self.victim.spent
        results: list[dict[str, Any]] = []
        # The first batch only warms up; later ones count.
        times = time_work(lambda: results.extend(self.attack(samples)))
        if counted:
            self.wall += times.wall
            self.processor += times.processor + self.elsewhere() - elsewhere
            self.in_victim += self.victim.spent - spent
            self.answers += results


class WayCosts(NamedTuple):
    """The cost of one way to attack in seconds, those in our model among them, and billed queries.

    `ratio` is to the seconds of the processor of the first way; `agree` the share of the samples
    whose outcome, queries and text are those of the first way.
    """

    seconds: float
    processor: float
    victim: float
    queries: int
    success: float
    ratio: float
    agree: float


def both_ways(make: Callable[[], Attack], module: TaskModule, *, budget: int | None) -> list[Way]:
    """Return our engine in two ways: all texts of a batch together, and one after the other.

    The second makes forward passes as small as TextAttack's. Each way makes an attack with
    resources of its own: encoders remember the sentences they have seen.
    """

    def way(name: str, attack: Attack, victim: TimedVictim, in_flight: int | None) -> Way:
        def run(samples: Sequence[Sample]) -> list[dict[str, Any]]:
            limits = Limits(query_budget=budget, in_flight=in_flight or len(samples))
            # `in_flight` changes the speed and no result.
            records: list[AttackRecord] = list(Engine(attack, victim, limits=limits).run(samples))
            return [
                result(record) for record in sorted(records, key=lambda record: record.sample_id)
            ]

        return Way(name, run, victim)

    full = TimedVictim(module, batch_size=256)
    single = TimedVictim(module, batch_size=REFERENCE_BATCH)
    return [
        way("all texts of a batch in lock step", make(), full, None),
        way("one text after the other", make(), single, 1),
    ]


class TextAttackWay:
    """TextAttack in a process of its own, of an interpreter that has it; our model answers it."""

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
        """Attack texts; the answers come in the order of the samples' ids."""
        # By id, as the results of the engine.
        ordered = sorted(samples, key=lambda sample: sample.sample_id)
        reply = self._process.attack(
            ordered, lambda texts: softmax(self.victim.logits(texts), axis=1).tolist()
        )
        self.processor += reply["processor"]
        results: list[dict[str, Any]] = reply["results"]
        return results


def compare_ways(ways: Sequence[Way], batches: Sequence[Sequence[Sample]]) -> dict[str, WayCosts]:
    """Attack every batch in every way, one after the other; the first only warms up."""
    for number, samples in enumerate(batches):
        for way in ways:
            way.run(samples, counted=number > 0)
    first = ways[0]
    rows = {}
    for way in ways:
        attacked = [answer for answer in way.answers if answer["outcome"] != "skipped"]
        successes = sum(answer["outcome"] == "succeeded" for answer in attacked)
        same = sum(
            answer == other for answer, other in zip(way.answers, first.answers, strict=True)
        )
        rows[way.name] = WayCosts(
            seconds=way.wall,
            processor=way.processor,
            victim=way.in_victim,
            queries=sum(answer["queries"] for answer in way.answers),
            success=successes / max(len(attacked), 1),
            ratio=way.processor / first.processor,
            agree=same / len(way.answers),
        )
    return rows


def compare_attacks(options: Namespace, task: CorpusTask) -> dict[str, dict[str, WayCosts]]:
    """Attack the texts of the batches in every way."""
    training = training_samples(task.corpus)
    batches = [
        [Sample(sample_id=i, text=training[i].text, label=training[i].label) for i in ids]
        for ids in (batch.sample_ids.tolist() for batch in (task.first, *task.batches))
    ]
    module, budget = task.module.eval(), options.budget
    encoder = options.sentence_encoder or SENTENCE_ENCODER
    vectors = options.vectors or options.data_dir / recorded.GLOVE

    def whole() -> Attack:
        return build(
            RecipeSettings(recipe="textfooler"),
            Resources(options.resources, sentence_encoder=encoder),
        )

    def words() -> Attack:
        return recorded.compose("textfooler", Resources(options.resources, vectors=vectors))

    comparisons = {"TextFooler": compare_ways(both_ways(whole, module, budget=budget), batches)}
    ways = both_ways(words, module, budget=budget)
    with ExitStack() as stack:
        if options.textattack_python is not None:
            settings = {"vectors": vectors, "data_dir": options.data_dir, "budget": budget}
            theirs = stack.enter_context(
                TextAttackWay(options.textattack_python, module, **settings)
            )
            # Read late: the other process adds to its processor time batch by batch.
            elsewhere = partial(getattr, theirs, "processor")
            ways.append(Way("TextAttack 0.3.11", theirs, theirs.victim, elsewhere=elsewhere))
        title = "TextFooler as TextAttack does it, no sentence encoder"
        comparisons[title] = compare_ways(ways, batches)
    return comparisons


def recorded_time(data_dir: Path) -> str:
    """Return the recorded time of TextAttack, in words."""
    peer = data_dir.parent / "peer"
    if not peer.is_dir():
        return f"No recorded answers of TextAttack: {peer} is absent."
    comparison = recorded.compare("textfooler", data_dir, peer, repeats=3)
    return (
        f"Recorded on the victim of `peer/README.md`, {comparison.samples} texts, word level, "
        f"no budget: TextAttack {comparison.reference_seconds:.1f} s on an idle machine; here "
        f"{comparison.processor:.2f} s of the processor, {comparison.seconds:.2f} s"
    )


def texts_table(comparisons: Mapping[str, Mapping[str, WayCosts]]) -> str:
    """Return ways to attack the same texts."""
    rows = [
        [
            *(
                attack,
                way,
                f"{comparison.seconds:.2f}",
                f"{comparison.processor:.2f}",
                f"{comparison.victim:.2f}",
            ),
            *(f"{comparison.ratio:.1f}", comparison.queries, f"{100 * comparison.success:.0f} %"),
            f"{100 * comparison.agree:.0f} %",
        ]
        for attack, ways in comparisons.items()
        for way, comparison in ways.items()
    ]
    head = ["attack", "way", "seconds", "of the processor", "in the model", "ratio", "queries"]
    return table([*head, "success", "same answers"], rows)
