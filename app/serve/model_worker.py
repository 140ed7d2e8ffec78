"""One model in memory, and the only thread that computes with it."""

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from attacks.document import Candidate, Document
from attacks.goals import Floats
from attacks.victims.kinds import ModuleVictim
from measure.predictions import TextPrediction, TextPredictor
from text import Text

BATCH = 32
"""Texts of one forward pass: a request waits at most for one such batch of an attack."""
Result = TypeVar("Result")


class BusyError(RuntimeError):
    """Too many requests wait."""


@dataclass(eq=False)
class _Job(Generic[Result]):
    """A function to call, or texts that form a batch with those of other jobs."""

    call: Callable[[], Result] | None = None
    texts: Sequence[Text] = ()
    rows: bool = False  # True if the result of texts is their logits, not their predictions
    future: "Future[Result]" = field(default_factory=Future)


class ModelWorker:
    """Runs one model, on batches of the texts that wait.

    Requests of people come before queries of attacks, but after each of their batches an attack
    has a turn. Each method returns the future of its result, or raises BusyError if `waiting`
    requests wait already.

    Raises:
        ValueError: the model is not a classifier.
    """

    def __init__(self, name: str, answering: TextPredictor, *, waiting: int = 256) -> None:
        if answering.number:
            msg = f"got run {name}, a regression, expected a classifier of texts"
            raise ValueError(msg)
        self.name, self.answering = name, answering
        self.model = answering.model
        self.classes: list[str] = list(self.model.require_text()[1])
        self.batches = 0
        """Number of batches for people so far."""
        self.texts = 0
        """Number of texts in these batches."""
        self.decisions = {"true": 0, "false": 0}
        """Numbers of detected texts and of others, for people so far, if it is a detector."""
        self._limit = waiting
        self._victim = ModuleVictim(self.model, batch_size=BATCH)
        self.differentiable = self._victim.differentiable
        self._people: deque[_Job[Any]] = deque()
        self._attacks: deque[_Job[Any]] = deque()
        self._changed = threading.Condition()
        self._ends = False
        self._thread = threading.Thread(target=self._work, name=f"model-{name}", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of requests that wait."""
        return len(self._people) + len(self._attacks)

    @property
    def ready(self) -> bool:
        """True if it takes another request."""
        return self._thread.is_alive() and not self._ends and len(self._people) < self._limit

    def answer(self, texts: Sequence[Text]) -> "Future[list[TextPrediction]]":
        """Queue at most `BATCH` texts of a person; the result is that of `TextPredictor`."""
        return self._add(_Job(texts=texts), self._people)

    def logits(self, texts: Sequence[Text], *, attack: bool = False) -> "Future[Floats]":
        """Queue at most `BATCH` texts of a person or an attack; the result is `[n, C]`."""
        if not attack:
            return self._add(_Job(texts=texts, rows=True), self._people)
        # Not in a batch with other requests: the logits must not depend on who else is there.
        return self._add(_Job(lambda: self._victim.logits(texts)), self._attacks)

    def weights(
        self, documents: Sequence[Document], *, compat: str = "none", attack: bool = False
    ) -> "Future[list[list[float]]]":
        """Queue documents; the result is the gradients of words (`attacks.engine.WhiteBox`)."""
        lane = self._attacks if attack else self._people
        return self._add(_Job(lambda: self._victim.word_weights(documents, compat=compat)), lane)

    def gains(self, document: Document, candidates: Sequence[Candidate]) -> "Future[list[float]]":
        """Queue at most `BATCH` candidates of an attack (`attacks.engine.WhiteBox.flip_gains`)."""
        victim, lane = self._victim, self._attacks
        return self._add(_Job(lambda: victim.flip_gains([document], [candidates])[0]), lane)

    def moved(self, text: Text, other: Text) -> "Future[float | None]":
        """Queue two texts; the result is their distance in the space of the certificate.

        It is the Frobenius norm of the difference of their token vectors; None if the numbers of
        tokens differ.
        """

        @torch.no_grad()
        def distance() -> float | None:
            first, second = (
                self.model.embed(self.model.encode_texts([side])).double()  # [1, N, d]
                for side in (text, other)
            )
            return float((first - second).norm()) if first.shape == second.shape else None

        return self._add(_Job(distance), self._attacks)

    def close(self) -> None:
        """Cancel what waits; end the thread after its present batch."""
        with self._changed:
            self._ends = True
            for job in (*self._people, *self._attacks):
                job.future.cancel()
            self._changed.notify_all()
        self._thread.join(timeout=3)

    # The thread

    def _add(self, job: _Job[Result], lane: deque[_Job[Any]]) -> "Future[Result]":
        with self._changed:
            if self._ends or len(lane) >= self._limit:
                msg = f"{len(lane)} requests wait for {self.name} already; try again later"
                raise BusyError(msg)
            lane.append(job)
            self._changed.notify()
        return job.future

    def _work(self) -> None:
        people = True
        while True:
            with self._changed:
                while not (self._ends or self._people or self._attacks):
                    self._changed.wait()
                if self._ends:
                    return
                # Whose turn it is; the other lane only while the first one is empty.
                people = bool(self._people) and (people or not self._attacks)
                jobs = self._next(self._people if people else self._attacks)
                people = not people
            # False for a client that has left: its future is cancelled.
            self._resolve([job for job in jobs if job.future.set_running_or_notify_cancel()])

    def _next(self, lane: deque[_Job[Any]]) -> list[_Job[Any]]:
        """Take a call, or the first jobs of a lane that are of one kind and fit into a batch."""
        jobs = [lane.popleft()]
        size = len(jobs[0].texts)
        while (
            jobs[0].call is None
            and lane
            and lane[0].call is None
            and lane[0].rows == jobs[0].rows
            and size + len(lane[0].texts) <= BATCH
        ):
            jobs.append(lane.popleft())
            size += len(jobs[-1].texts)
        return jobs

    def _resolve(self, jobs: Sequence[_Job[Any]]) -> None:
        if not jobs:
            return
        try:
            results = self._compute(jobs)
        except Exception as error:  # whatever it is: the thread has to live
            if len(jobs) == 1:
                jobs[0].future.set_exception(error)
                return
            # One text failed: each of the others still gets its result.
            for job in jobs:
                self._resolve([job])
            return
        for job, result in zip(jobs, results, strict=True):
            job.future.set_result(result)

    def _compute(self, jobs: Sequence[_Job[Any]]) -> list[Any]:
        if jobs[0].call is not None:
            return [jobs[0].call()]
        texts = [text for job in jobs for text in job.texts]
        ends = np.cumsum([len(job.texts) for job in jobs]).tolist()
        if jobs[0].rows:
            results: list[Any] = list(np.split(self._victim.logits(texts), ends[:-1]))
        else:
            answers = list(self.answering(texts))
            results = [answers[start:end] for start, end in itertools.pairwise([0, *ends])]
            for answer in answers:
                if "detected" in answer:
                    self.decisions["true" if answer["detected"] else "false"] += 1
        # Not before: the texts of a batch that fails are computed once more, one by one.
        self.batches += 1
        self.texts += len(texts)
        return results
