"""Cost of attacks on a batch in lock step, one text after the other, and by TextAttack."""

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from scipy.special import softmax

from attacks.composition import Attack
from attacks.engine import Engine, Limits
from attacks.outcome import Sample
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build
from attacks.resources.catalogue import SENTENCE_ENCODER, Resources
from benchmarks.adversarial_epochs import CorpusTask
from benchmarks.command import table
from benchmarks.parity import recorded
from benchmarks.parity.sides import TimedVictim, result
from benchmarks.parity.textattack_process import TextAttackProcess
from benchmarks.timing import rounds, time_work
from lit_modules.shared.task_module import TaskModule
from text.stop_words import TEXTFOOLER
from training.join import training_samples

REFERENCE_BATCH = 32
"""Texts of a forward pass in TextAttack."""


class Attacked(NamedTuple):
    """Outcome, queries and text of each sample, and seconds, those in the model among them."""

    results: list[dict[str, Any]]
    wall: float
    processor: float
    victim: float


class Way(NamedTuple):
    """A way to attack; returns the results and the seconds that other processes have spent."""

    victim: TimedVictim
    attack: Callable[[Sequence[Sample]], tuple[list[dict[str, Any]], float]]

    def run(self, samples: Sequence[Sample]) -> Attacked:
        """Attack the texts of a batch."""
        spent, replies = self.victim.spent, list[tuple[list[dict[str, Any]], float]]()
        times = time_work(lambda: replies.append(self.attack(samples)))
        [(results, elsewhere)] = replies
        processor = times.processor + elsewhere
        return Attacked(results, times.wall, processor, self.victim.spent - spent)


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


def both_ways(
    make: Callable[[], Attack], module: TaskModule, *, budget: int | None
) -> dict[str, Way]:
    """Return our engine in two ways: all texts of a batch together, and one after the other.

    The second makes forward passes as small as TextAttack's. Each way makes an attack with
    resources of its own: encoders remember the sentences they have seen.
    """

    def way(batch_size: int, in_flight: int | None) -> Way:
        attack, victim = make(), TimedVictim(module, batch_size=batch_size)

        def run(samples: Sequence[Sample]) -> tuple[list[dict[str, Any]], float]:
            limits = Limits(query_budget=budget, in_flight=in_flight or len(samples))
            # `in_flight` changes the speed and no result.
            records = Engine(attack, victim, limits=limits).run(samples)
            ordered = sorted(records, key=lambda record: record.sample_id)
            return [result(record) for record in ordered], 0.0

        return Way(victim, run)

    return {
        "all texts of a batch in lock step": way(256, None),
        "one text after the other": way(REFERENCE_BATCH, 1),
    }


def textfooler_process(
    python: Path, vectors: Path, data_dir: Path, budget: int | None
) -> TextAttackProcess:
    """Return a process with TextFooler of TextAttack, for an interpreter that has it."""
    settings = {
        "recipe": "textfooler",
        "vectors": str(vectors.resolve()),
        "stop_words": sorted(TEXTFOOLER),
        "query_budget": budget,
    }
    return TextAttackProcess(python, settings, data_dir=data_dir)


def textattack_way(process: TextAttackProcess, module: TaskModule) -> Way:
    """Return TextAttack in a process of its own; our model answers it."""
    victim = TimedVictim(module, batch_size=REFERENCE_BATCH)

    def run(samples: Sequence[Sample]) -> tuple[list[dict[str, Any]], float]:
        # By id, as the results of the engine.
        ordered = sorted(samples, key=lambda sample: sample.sample_id)
        reply = process.attack(
            ordered, lambda texts: softmax(victim.logits(texts), axis=1).tolist()
        )
        return reply["results"], reply["processor"]

    return Way(victim, run)


def compare_ways(
    ways: Mapping[str, Way], batches: Sequence[Sequence[Sample]]
) -> dict[str, WayCosts]:
    """Attack every batch in every way, one after the other; the first only warms up."""
    measured = rounds(list(ways), lambda name, samples: ways[name].run(samples), batches)
    answers = {name: [a for run in runs for a in run.results] for name, runs in measured.items()}
    seconds = {name: sum(run.processor for run in runs) for name, runs in measured.items()}
    first, rows = next(iter(ways)), {}
    for name, runs in measured.items():
        attacked = [answer for answer in answers[name] if answer["outcome"] != "skipped"]
        successes = sum(answer["outcome"] == "succeeded" for answer in attacked)
        pairs = zip(answers[name], answers[first], strict=True)
        rows[name] = WayCosts(
            seconds=sum(run.wall for run in runs),
            processor=seconds[name],
            victim=sum(run.victim for run in runs),
            queries=sum(answer["queries"] for answer in answers[name]),
            success=successes / max(len(attacked), 1),
            ratio=seconds[name] / seconds[first],
            agree=sum(own == other for own, other in pairs) / len(answers[name]),
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
            process = textfooler_process(
                options.textattack_python, vectors, options.data_dir, budget
            )
            ways["TextAttack 0.3.11"] = textattack_way(stack.enter_context(process), module)
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
            *(attack, way),
            *(f"{seconds:.2f}" for seconds in (cost.seconds, cost.processor, cost.victim)),
            *(f"{cost.ratio:.1f}", cost.queries),
            *(f"{100 * share:.0f} %" for share in (cost.success, cost.agree)),
        ]
        for attack, ways in comparisons.items()
        for way, cost in ways.items()
    ]
    head = ["attack", "way", "seconds", "of the processor", "in the model", "ratio", "queries"]
    return table([*head, "success", "same answers"], rows)
