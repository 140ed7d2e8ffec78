"""Attacking a batch's texts in lock step, beside attacking them one by one, and TextAttack."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from attacks.composition import Attack
from attacks.engine import Engine, Limits
from attacks.goals import Floats
from attacks.interface import make_goal
from attacks.outcome import AttackRecord, Sample
from attacks.recipes import build
from attacks.resources.catalogue import Resources
from attacks.resources.stop_words import TEXTFOOLER
from attacks.victims.kinds import ModuleVictim
from benchmarks.parity import answer
from lit_modules.shared.task_module import TaskModule
from text import Text

REFERENCE_BATCH = 32
"""Texts of a forward pass in TextAttack."""
CHILD = Path(__file__).with_name("textattack_child.py")


@dataclass
class Way:
    """A way to attack, and what it took so far.

    Attributes:
        name: in the table.
        attack: what is done with the texts of a batch: outcome, queries and text of each.
        victim: what is asked.
        elsewhere: seconds of the processor that other processes have spent on it so far.
        wall: seconds of the wall clock.
        processor: seconds of the processor, of all processes.
        asked: seconds of the processor among them in the victim.
        answers: of all samples so far.
    """

    name: str
    attack: Callable[[Sequence[Sample]], list[dict[str, Any]]]
    victim: "Timed"
    elsewhere: Callable[[], float] = float
    wall: float = 0.0
    processor: float = 0.0
    asked: float = 0.0
    answers: list[dict[str, Any]] = field(default_factory=list)

    def run(self, samples: Sequence[Sample], *, counted: bool) -> None:
        """Attack the texts of a batch."""
        wall, processor = time.perf_counter(), time.process_time() + self.elsewhere()
        asked = self.victim.spent
        found = self.attack(samples)
        if counted:
            self.wall += time.perf_counter() - wall
            self.processor += time.process_time() + self.elsewhere() - processor
            self.asked += self.victim.spent - asked
            self.answers += found


class Timed(ModuleVictim):
    """Our model, and the seconds of the processor that its answers have taken."""

    spent = 0.0

    def logits(self, texts: Sequence[Text]) -> Floats:
        """See `Victim`."""
        started = time.process_time()
        answers = super().logits(texts)
        self.spent += time.process_time() - started
        return answers


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


def ours(name: str, attack: Attack, module: TaskModule, *, budget: int | None, single: bool) -> Way:
    """Our engine: all texts of a batch together, or one after the other.

    Args:
        name: in the table.
        attack: with resources of its own, so that nothing is known from another way.
        module: what is attacked.
        budget: queries for each text.
        single: one text at a time, in forward passes as small as TextAttack's.
    """
    victim = Timed(module, batch_size=REFERENCE_BATCH if single else 256)

    def run(samples: Sequence[Sample]) -> list[dict[str, Any]]:
        limits = Limits(query_budget=budget, in_flight=1 if single else len(samples))
        engine = Engine(attack, victim, limits=limits)
        records: list[AttackRecord] = sorted(engine.run(samples), key=lambda one: one.sample_id)
        return [answer(record) for record in records]

    return Way(name, run, victim)


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
        self.victim = Timed(module, batch_size=REFERENCE_BATCH)
        self.processor, self._ready = 0.0, False
        self._settings = {
            "vectors": str(vectors.resolve()),
            "stop_words": sorted(TEXTFOOLER),
            "query_budget": budget,
        }
        self._process = subprocess.Popen(
            [str(python), str(CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=_environment(data_dir),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def __call__(self, samples: Sequence[Sample]) -> list[dict[str, Any]]:
        """Attack texts; the answers come in the order of the samples' ids."""
        if not self._ready:
            self._say(self._settings)
            self._hear()
            self._ready = True
        ordered = sorted(samples, key=lambda one: one.sample_id)
        self._say(
            {"texts": [one.text for one in ordered], "labels": [one.label for one in ordered]}
        )
        while "texts" in (line := self._hear()):
            logits = self.victim.logits(line["texts"])
            odds = np.exp(logits - logits.max(axis=1, keepdims=True))
            self._say((odds / odds.sum(axis=1, keepdims=True)).tolist())
        self.processor += line["processor"]
        results: list[dict[str, Any]] = line["results"]
        return results

    def _say(self, content: object) -> None:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # that nobody answers says more
                self._process.stdin.write(json.dumps(content) + "\n")
                self._process.stdin.flush()

    def _hear(self) -> dict[str, Any]:
        line = "" if self._process.stdout is None else self._process.stdout.readline()
        if not line:
            msg = (
                "got no answer from the process with TextAttack, whose error stands above; "
                "expected an interpreter that can import textattack 0.3.11"
            )
            raise RuntimeError(msg)
        heard: dict[str, Any] = json.loads(line)
        return heard


def _environment(data_dir: Path) -> dict[str, str]:
    return {
        **os.environ,
        "NLTK_DATA": str(data_dir.resolve() / "nltk"),
        "TA_CACHE_DIR": str(Path(tempfile.gettempdir()) / "textattack-cache"),
        "HF_HUB_OFFLINE": "1",
    }


def compared(ways: Sequence[Way], batches: Sequence[Sequence[Sample]]) -> dict[str, Compared]:
    """Attack every batch in every way, one after the other; the first only warms up."""
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


def whole_recipe(resources: Resources) -> Attack:
    """TextFooler as it is by default."""
    return build("textfooler", resources)


def word_level(resources: Resources) -> Attack:
    """TextFooler as TextAttack does it, without a sentence encoder."""
    goal = make_goal(compat="textattack")
    return build("textfooler", resources, compat="textattack", goal=goal, similarity=0.0)


def both_ways(make: Callable[[], Attack], module: TaskModule, *, budget: int | None) -> list[Way]:
    """In lock step, and one by one.

    Args:
        make: an attack with resources of its own: encoders remember the sentences they have seen.
        module: what is attacked.
        budget: queries for each text.
    """
    return [
        ours("all texts of a batch in lock step", make(), module, budget=budget, single=False),
        ours("one text after the other", make(), module, budget=budget, single=True),
    ]
