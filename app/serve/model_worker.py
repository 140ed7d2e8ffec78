"""One model in memory, and the only thread that computes with it."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from app.predict.answers import Answer, Answering
from attacks.document import Document
from attacks.goals import Floats
from attacks.victims.kinds import ModuleVictim
from text import Text

BATCH = 32
"""Texts that the model is given at once; requests that wait longer for a turn than for their own
batch would be slow, and an attack asks about hundreds."""
Found = TypeVar("Found")


class BusyError(RuntimeError):
    """Too many requests wait already."""


class _Job(Generic[Found]):
    """A call of the thread, or texts, which are given to the model with those of other jobs.

    `rows` is true if the logits of the texts are wanted, and false if the answer to the one text.
    """

    __slots__ = ("call", "future", "rows", "texts")

    def __init__(
        self,
        call: Callable[[], Found] | None = None,
        *,
        texts: Sequence[Text] = (),
        rows: bool = False,
    ) -> None:
        self.call, self.texts, self.rows = call, texts, rows
        self.future: Future[Found] = Future()


class ModelWorker:
    """Answers about texts with one model, in batches of those that wait.

    People come before attacks, but after each of their batches an attack has a turn.

    Args:
        name: of the run.
        answering: the model.
        waiting: requests that may wait.

    Raises:
        ValueError: the model gives no classes.
    """

    def __init__(self, name: str, answering: Answering, *, waiting: int = 256) -> None:
        if answering.number:
            msg = f"got run {name}, a regression, expected a model that gives classes to texts"
            raise ValueError(msg)
        self.name, self.answering = name, answering
        self.model = answering.model
        self.classes: list[str] = list(self.model.require_text()[1])
        self.batches = 0
        """Number of batches of answers and logits for people so far."""
        self._waiting = waiting
        self._victim = ModuleVictim(self.model, batch_size=BATCH)
        self.differentiable = self._victim.differentiable
        self._people: deque[_Job[Any]] = deque()
        self._attacks: deque[_Job[Any]] = deque()
        self._changed = threading.Condition()
        self._ends = False
        self._thread = threading.Thread(target=self._work, name=f"model-{name}", daemon=True)
        self._thread.start()

    def answer(self, text: Text) -> "Future[Answer]":
        """Returns the future answer to a text, see `Answering`.

        Raises:
            BusyError: too many requests wait.
        """
        return self._add(_Job(texts=[text]), self._people)

    def logits(self, texts: Sequence[Text], *, attack: bool = False) -> "Future[Floats]":
        """Returns the future logits `[n, C]` of at most `BATCH` texts.

        Args:
            texts: at least one.
            attack: True if it may wait for people.

        Raises:
            BusyError: too many requests wait.
        """
        if not attack:
            return self._add(_Job(texts=texts, rows=True), self._people)
        # Alone: the numbers of an attack do not depend on who else is there.
        return self._add(_Job(lambda: self._victim.logits(texts)), self._attacks)

    def weights(
        self, documents: Sequence[Document], *, compat: str = "none", attack: bool = False
    ) -> "Future[list[list[float]]]":
        """Returns the future gradients of words, see `attacks.engine.WhiteBox`.

        Args:
            documents: at least one.
            compat: see `attacks.engine.WhiteBox`.
            attack: True if it may wait for people.

        Raises:
            BusyError: too many requests wait.
        """
        lane = self._attacks if attack else self._people
        return self._add(_Job(lambda: self._victim.word_weights(documents, compat=compat)), lane)

    def moved(self, text: Text, other: Text) -> "Future[float | None]":
        """Returns the future distance of two texts in the space of the certificate.

        It is the Frobenius norm of the difference of their tokens; None for texts of different
        numbers of tokens.

        Raises:
            BusyError: too many requests wait.
        """
        return self._add(_Job(lambda: self._moved(text, other)), self._attacks)

    def close(self) -> None:
        """Ends the thread after what it computes now; what waits is cancelled."""
        with self._changed:
            self._ends = True
            for job in (*self._people, *self._attacks):
                job.future.cancel()
            self._changed.notify_all()
        self._thread.join(timeout=3)

    # The thread

    def _add(self, job: _Job[Found], lane: deque[_Job[Any]]) -> "Future[Found]":
        with self._changed:
            if self._ends or len(lane) >= self._waiting:
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
                people = bool(self._people) and (people or not self._attacks)
                jobs = self._next(self._people if people else self._attacks)
                people = not people
            self._run(jobs)

    def _next(self, lane: deque[_Job[Any]]) -> list[_Job[Any]]:
        """Takes a call, or all jobs of one kind at the head of a lane that fit into a batch."""
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

    def _run(self, jobs: Sequence[_Job[Any]]) -> None:
        # A client that has left has cancelled its future.
        left = [job for job in jobs if job.future.set_running_or_notify_cancel()]
        if not left:
            return
        try:
            found = self._answers(left)
        except Exception as error:
            if len(left) == 1:
                left[0].future.set_exception(error)
                return
            # One of them is to blame: the others get their answer.
            for job in left:
                self._alone(job)
            return
        for job, one in zip(left, found, strict=True):
            job.future.set_result(one)

    def _alone(self, job: _Job[Any]) -> None:
        try:
            job.future.set_result(self._answers([job])[0])
        except Exception as error:
            job.future.set_exception(error)

    def _answers(self, jobs: Sequence[_Job[Any]]) -> list[Any]:
        if jobs[0].call is not None:
            return [jobs[0].call()]
        self.batches += 1
        texts = [text for job in jobs for text in job.texts]
        if not jobs[0].rows:
            return list(self.answering(texts))
        ends = np.cumsum([len(job.texts) for job in jobs])
        return list(np.split(self._victim.logits(texts), ends[:-1]))

    @torch.no_grad()
    def _moved(self, text: Text, other: Text) -> float | None:
        embedded = [self.model.embed(self.model.encode_texts([one])) for one in (text, other)]
        first, second = (one.double() for one in embedded)
        return float((first - second).norm()) if first.shape == second.shape else None
