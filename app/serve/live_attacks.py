"""Attacks that a client watches: a bounded number at once; one ends when its client leaves."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from app.serve.model_worker import BATCH, BusyError, ModelWorker
from app.serve.serve_limits import ServeLimits
from attacks.composition import Attack, Context, Propose, Query, Search, Steps
from attacks.document import Candidate, Document
from attacks.engine import Engine, Limits
from attacks.goals import Floats, Goal, Unchanged
from attacks.outcome import AttackRecord, Sample
from attacks.victims.kinds import VictimError
from measure.attack_report import columns, compare
from measure.predictions import TextPrediction
from text import Text

log = logging.getLogger(__name__)

T = TypeVar("T")
Event = dict[str, Any]
"""A line of the stream; `event` is its kind."""
_SHOWN = ("words", "words_changed", "unique_queries", "exhausted", "similarity", "seconds")
"""Fields of a record that the last event repeats."""


class EndedError(Exception):
    """The client has left, or the server ends."""


class LiveAttack:
    """One attack on a text, whose predicted class counts as its gold class.

    `queries` and `seconds`, its waiting included, are its bounds; `recipe` is a name of the pool.
    `send` takes the events, in another thread; None is the last.
    """

    def __init__(
        self,
        worker: ModelWorker,
        text: Text,
        recipe: str,
        *,
        queries: int,
        seconds: float,
        send: Callable[[Event | None], None],
    ) -> None:
        self.worker, self.text, self.recipe = worker, text, recipe
        self._budget, self._send = queries, send
        self._deadline = time.monotonic() + seconds
        self._stopped = threading.Event()
        self.queries = 0
        """Number of queries so far."""

    def stop(self) -> None:
        """End the attack before its next query."""
        self._stopped.set()

    def check(self) -> None:
        """Raise EndedError after `stop`, TimeoutError when the time is over."""
        if self._stopped.is_set():
            raise EndedError
        if time.monotonic() > self._deadline:
            msg = "the time of an attack is over"
            raise TimeoutError(msg)

    def send(self, event: str, **fields: Any) -> None:
        """Send an event with the number of queries so far."""
        self._send({"event": event, "queries": self.queries, **fields})

    def run(self, attack: Attack) -> None:
        """Run to the end, and send the events."""
        try:
            self.check()
            (answer,) = self.worker.answer([self.text]).result()
            label = self.worker.classes.index(answer["prediction"])
            self.send("start", prediction=answer["prediction"], lead=answer["margin"])
            engine = Engine(
                replace(attack, search=_WatchedSearch(attack.search, self)),
                _Victim(self),
                # One sample at a time: the events come in the order of the search.
                limits=Limits(query_budget=self._budget, in_flight=1),
                columns=("text",) if isinstance(self.text, str) else ("text", "text_pair"),
            )
            for record in engine.run([Sample(sample_id=0, text=self.text, label=label)]):
                self._end(record, answer, attack.goal)
        except (EndedError, CancelledError):
            self.send("stopped", reason="stopped")
        except TimeoutError:
            self.send("stopped", reason="time")
        except BusyError as error:
            self.send("error", error=str(error))
        except VictimError as error:
            log.warning("%s on %s: %s", self.recipe, self.worker.name, error)
            self.send("error", error="the model gave no finite logits for a changed text")
        except Exception:  # whatever it is: one attack must not end the server
            log.exception("%s on %s", self.recipe, self.worker.name)
            self.send("error", error="the attack failed; the server's log says how")
        finally:
            self._send(None)

    def _end(self, record: AttackRecord, answer: TextPrediction, goal: Goal) -> None:
        if record.prediction is None or record.score is None or record.outcome == "error":
            raise VictimError(record.reason)
        adversarial = self.text if record.adversarial is None else record.adversarial
        label, score = record.adversarial_prediction, record.adversarial_score
        moved, radius = None, answer["radius"]
        if adversarial != self.text:
            moved = self.worker.moved(self.text, adversarial).result()
        # Both are of the float64 pass of the same weights: a smaller move disproves a proof.
        inside = moved is not None and radius is not None and moved < radius
        before, after = self.split(adversarial)
        self.send(
            "end",
            outcome=record.outcome,
            prediction=self.worker.classes[record.prediction if label is None else label],
            lead=_lead(goal, record.score if score is None else score),
            texts=list(columns(adversarial)),
            before=before,
            after=after,
            **{name: getattr(record, name) for name in _SHOWN},
            moved=moved,
            radius=radius,
            # Not every success is another class: some attacks keep it.
            inside_certificate=inside and label not in (None, record.prediction),
        )

    def split(self, changed: Text) -> tuple[list[list[Event]], list[list[Event]]]:
        """Split the text before and after a change into pieces; mark the changed words."""
        columns_of_both = zip(columns(self.text), columns(changed), strict=True)
        before, after = zip(*(compare(*pair) for pair in columns_of_both), strict=True)
        return [[p._asdict() for p in t] for t in before], [[p._asdict() for p in t] for t in after]


class AttackPool:
    """Runs attacks, which it knows by the names of their recipes, in its own threads."""

    def __init__(self, attacks: Mapping[str, Attack], limits: ServeLimits) -> None:
        self.attacks = {name: _share(attack) for name, attack in attacks.items()}
        self.limits = limits
        self._queue: deque[LiveAttack] = deque()
        self._running: set[LiveAttack] = set()
        self._changed = threading.Condition()
        self._ends = False
        self._threads = [
            # Daemons: an attack that hangs does not keep the program alive.
            threading.Thread(target=self._work, name=f"attack-{number}", daemon=True)
            for number in range(limits.attacks)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def busy(self) -> int:
        """Number of attacks that run or wait."""
        with self._changed:
            return len(self._queue) + len(self._running)

    def start(self, live: LiveAttack) -> int:
        """Queue an attack; return the number of attacks before it.

        Raises:
            BusyError: too many attacks wait already.
        """
        with self._changed:
            before = len(self._queue) + len(self._running)
            if self._ends or before >= self.limits.attacks + self.limits.waiting_attacks:
                msg = f"{before} attacks run or wait already; try again later"
                raise BusyError(msg)
            self._queue.append(live)
            self._changed.notify()
        return max(0, before + 1 - self.limits.attacks)

    def stop(self, live: LiveAttack) -> None:
        """End an attack; if it waits, leave the queue."""
        live.stop()
        with self._changed:
            if live in self._queue:
                self._queue.remove(live)

    def stop_all(self) -> None:
        """End all attacks, without a lock: a signal handler may call it."""
        self._ends = True
        for live in (*self._queue, *self._running):
            live.stop()

    def close(self) -> None:
        """End all attacks and the threads."""
        self.stop_all()
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=3)

    def _work(self) -> None:
        while True:
            with self._changed:
                while not (self._ends or self._queue):
                    self._changed.wait()
                if not self._queue:
                    return
                live = self._queue.popleft()
                self._running.add(live)
            try:
                live.run(self.attacks[live.recipe])
            finally:
                with self._changed:
                    self._running.remove(live)


class _Victim:
    """The model as an attack sees it: other requests have their turn, and `stop` ends it."""

    def __init__(self, live: LiveAttack) -> None:
        self._live = live
        self.name = live.worker.name
        self.differentiable = live.worker.differentiable

    def logits(self, texts: Sequence[Text]) -> Floats:
        """See `attacks.victims.kinds.Victim`."""
        live, parts, rest = self._live, [], len(texts)
        for chunk in self._batches(texts):
            parts.append(live.worker.logits(chunk, attack=True).result())
            live.queries += len(chunk)
            rest -= len(chunk)
            if rest:
                live.send("asked", of=len(texts))
        logits: Floats = np.concatenate(parts)
        return logits

    def word_weights(
        self, documents: Sequence[Document], *, compat: str = "none"
    ) -> list[list[float]]:
        """See `attacks.engine.WhiteBox`."""
        self._live.check()
        return self._live.worker.weights(documents, compat=compat, attack=True).result()

    def flip_gains(
        self, documents: Sequence[Document], candidates: Sequence[Sequence[Candidate]]
    ) -> list[list[float]]:
        """See `attacks.engine.WhiteBox`."""
        worker = self._live.worker
        return [
            [
                gain
                for part in self._batches(every)
                for gain in worker.gains(document, part).result()
            ]
            for document, every in zip(documents, candidates, strict=True)
        ]

    def _batches(self, items: Sequence[T]) -> Iterator[Sequence[T]]:
        """Yield batches, so that other requests wait for one and not for all of them."""
        for start in range(0, len(items), BATCH):
            self._live.check()
            yield items[start : start + BATCH]


class _WatchedSearch:
    """A search that sends an event for each step; its other attributes are passed on."""

    def __init__(self, search: Search, live: LiveAttack) -> None:
        self._search, self._live = search, live

    def __getattr__(self, name: str) -> Any:
        return getattr(self._search, name)

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        inner = self._search.steps(context)
        reply: Any = None
        score = context.clean.score
        scores: dict[Text, float] = {}
        # Not `yield from`: it would hide the requests.
        while True:
            try:
                request = inner.send(reply)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return] # the value of a generator is Any
            self._live.check()
            if isinstance(request, Propose):
                current = request.current
                score = scores.get(current.text, score)
                word = current.words[request.indices[0]] if len(request.indices) else None
                _, after = self._live.split(current.text)
                lead = _lead(context.attack.goal, score)
                self._live.send("step", lead=lead, word=word, after=after)
            reply = yield request
            if isinstance(request, Query):
                # Not strict: the budget may have cut the query.
                judged = zip(request.items, reply.judged, strict=False)
                scores = {item.text: judgement.score for item, judgement in judged}


def _lead(goal: Goal, score: float) -> float:
    """Return the margin of the first class, of a score of an attack that keeps or leaves it."""
    return score if isinstance(goal, Unchanged) else -score


class _LockedPart:
    """A part of an attack that several threads share: one of them uses it at a time.

    It has only the attributes of the part: searches ask for methods of some parts, like `admits`.
    """

    def __init__(self, part: Any, lock: "threading.Lock") -> None:
        self._part, self._lock = part, lock

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._part, name)
        if not callable(value):
            return value

        def locked(*args: Any, **settings: Any) -> Any:
            with self._lock:
                return value(*args, **settings)

        return locked


def _share(attack: Attack) -> Attack:
    """Return an attack whose parts, which keep models and caches, several threads may use."""
    # One lock for all parts: constraints and the transformation may share a model.
    share: Any = partial(_LockedPart, lock=threading.Lock())
    return replace(
        attack,
        transformation=share(attack.transformation),
        constraints=[share(constraint) for constraint in attack.constraints],
    )
