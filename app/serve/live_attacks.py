"""Attacks that somebody watches: a bounded number at once, each ended when nobody does."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import Any

import numpy as np

from app.attack.attack_report import Piece, columns, compare
from app.predict.answers import Answer
from app.serve.model_worker import BATCH, BusyError, ModelWorker
from app.serve.serve_limits import ServeLimits
from attacks.composition import Attack, Context, Group, Job, Propose, Query, Search, Steps
from attacks.document import Candidate, Document
from attacks.engine import Engine, Limits
from attacks.goals import Floats
from attacks.outcome import AttackRecord, Sample
from attacks.victims.kinds import VictimError
from text import Text

log = logging.getLogger(__name__)

Event = dict[str, Any]
"""A line of the stream; `event` says its kind."""


class EndedError(Exception):
    """The attack has been told to end."""


class LiveAttack:
    """One attack.

    Args:
        worker: the model.
        text: what is attacked; its predicted class counts as right.
        recipe: name of the attack.
        queries: the most texts that the model is asked about.
        seconds: for all of it.
        send: gets the events, from another thread; after None there are no more.
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
        self.queries, self._send = queries, send
        self._until = time.monotonic() + seconds
        self._ended = threading.Event()
        self.asked = 0

    def stop(self) -> None:
        """Ends the attack at its next question."""
        self._ended.set()

    def check(self) -> None:
        """Raises what ends the attack.

        Raises:
            EndedError: nobody listens any more.
            TimeoutError: its time is over.
        """
        if self._ended.is_set():
            raise EndedError
        if time.monotonic() > self._until:
            msg = "the time of an attack is over"
            raise TimeoutError(msg)

    def send(self, event: str, **facts: Any) -> None:
        """Sends an event with the number of queries so far."""
        self._send({"event": event, "queries": self.asked, **facts})

    def run(self, attack: Attack) -> None:
        """Runs to the end, and sends what happens.

        Args:
            attack: of the recipe.
        """
        try:
            self.check()
            self._run(attack)
        except (EndedError, CancelledError):
            self.send("stopped", reason="stopped")
        except TimeoutError:
            self.send("stopped", reason="time")
        except BusyError as error:
            self.send("error", error=str(error))
        except VictimError as error:
            log.warning("%s on %s: %s", self.recipe, self.worker.name, error)
            self.send("error", error="the model gave no finite answer to a changed text")
        except Exception:  # of any kind: one attack must not end the server
            log.exception("%s on %s", self.recipe, self.worker.name)
            self.send("error", error="the attack failed; the server's log says how")
        finally:
            self._send(None)

    def _run(self, attack: Attack) -> None:
        answer = self.worker.answer(self.text).result()
        names = self.worker.classes
        label = names.index(answer["prediction"])
        self.send("start", prediction=answer["prediction"], lead=answer["margin"])
        watched = replace(attack, search=_Watched(attack.search, self))
        engine = Engine(
            watched,
            _Victim(self),
            limits=Limits(query_budget=self.queries, in_flight=1),
            columns=("text",) if isinstance(self.text, str) else ("text", "text_pair"),
        )
        for record in engine.run([Sample(sample_id=0, text=self.text, label=label)]):
            self._end(record, answer)

    def _end(self, record: AttackRecord, answer: Answer) -> None:
        if record.prediction is None or record.score is None or record.outcome == "error":
            raise VictimError(record.reason)
        names, after = self.worker.classes, record.adversarial
        found = record.adversarial_prediction
        score = record.score if record.adversarial_score is None else record.adversarial_score
        moved = None
        if after is not None and after != self.text:
            moved = self.worker.moved(self.text, after).result()
        radius = answer["radius"]
        # Both are about the float64 pass of the same weights: this would be an error in a proof.
        broken = (
            record.outcome == "succeeded"
            and moved is not None
            and radius is not None
            and moved < radius
        )
        self.send(
            "end",
            outcome=record.outcome,
            prediction=names[record.prediction if found is None else found],
            lead=-score,
            texts=list(columns(self.text if after is None else after)),
            before=[_lines(one) for one, _ in self.pieces(after)],
            after=[_lines(one) for _, one in self.pieces(after)],
            words=record.words,
            words_changed=record.words_changed,
            unique_queries=record.unique_queries,
            exhausted=record.exhausted,
            similarity=record.similarity,
            moved=moved,
            radius=radius,
            inside_certificate=broken,
            seconds=record.seconds,
        )

    def pieces(self, now: Text | None) -> list[tuple[list[Piece], list[Piece]]]:
        """Splits the text and what has become of it; changed words are marked."""
        both = zip(columns(self.text), columns(self.text if now is None else now), strict=True)
        return [compare(before, after) for before, after in both]


class AttackPool:
    """Runs attacks on threads of its own.

    Args:
        attacks: by the names of their recipes.
        limits: see `ServeLimits`.
    """

    def __init__(self, attacks: Mapping[str, Attack], limits: ServeLimits) -> None:
        self.attacks = {name: _in_turn(attack) for name, attack in attacks.items()}
        self.limits = limits
        self._queue: deque[LiveAttack] = deque()
        self._running: set[LiveAttack] = set()
        self._changed = threading.Condition()
        self._ends = False
        self._threads = [
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
        """Lets an attack begin as soon as there is room.

        Returns:
            The number of attacks before it.

        Raises:
            BusyError: too many wait already.
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
        """Ends an attack, and frees its place."""
        live.stop()
        with self._changed:
            if live in self._queue:
                self._queue.remove(live)

    def stop_all(self) -> None:
        """Ends all attacks; a handler of signals may call it, so it takes no lock."""
        self._ends = True
        for live in (*self._queue, *self._running):
            live.stop()

    def close(self) -> None:
        """Ends all attacks and the threads."""
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
    """The model as an attack sees it: it asks in turn with people, and can be told to end."""

    def __init__(self, live: LiveAttack) -> None:
        self._live = live
        self.name = live.worker.name
        self.differentiable = live.worker.differentiable

    def logits(self, texts: Sequence[Text]) -> Floats:
        """See `attacks.victims.kinds.Victim`."""
        live, parts = self._live, []
        for start in range(0, len(texts), BATCH):
            live.check()
            chunk = texts[start : start + BATCH]
            parts.append(live.worker.logits(chunk, attack=True).result())
            live.asked += len(chunk)
            if start + BATCH < len(texts):
                live.send("asked", of=len(texts))
        found: Floats = np.concatenate(parts)
        return found

    def word_weights(
        self, documents: Sequence[Document], *, compat: str = "none"
    ) -> list[list[float]]:
        """See `attacks.engine.WhiteBox`."""
        self._live.check()
        return self._live.worker.weights(documents, compat=compat, attack=True).result()


class _Watched:
    """A search that tells where it stands."""

    def __init__(self, search: Search, live: LiveAttack) -> None:
        self._search, self._live = search, live

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        inner = self._search.steps(context)
        answer: Any = None
        score = context.clean.score
        asked: dict[Text, float] = {}
        while True:
            try:
                request = inner.send(answer)
            except StopIteration as end:
                reached: Any = end.value
                return reached  # type: ignore[no-any-return] # what a generator returns is Any
            self._live.check()
            if isinstance(request, Propose):
                current = request.current
                score = asked.get(current.text, score)
                words = [current.words[i] for i in request.indices[:1]]
                self._live.send(
                    "step",
                    lead=-score,
                    word=words[0] if words else None,
                    after=[_lines(one) for _, one in self._live.pieces(current.text)],
                )
            answer = yield request
            if isinstance(request, Query):
                judged = zip(request.items, answer.judged, strict=False)
                asked = {item.text: one.score for item, one in judged}


class _OneAtATime:
    """A part of an attack that several threads share: one of them uses it at a time."""

    def __init__(self, part: Any, lock: "threading.Lock") -> None:
        self._part, self._lock = part, lock
        self.cost: float = getattr(part, "cost", 0.0)

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `attacks.composition.Transformation`."""
        with self._lock:
            found: list[list[Candidate]] = self._part.propose(jobs)
        return found

    def keep(self, groups: Sequence[Group]) -> list[list[bool]]:
        """See `attacks.composition.Constraint`."""
        with self._lock:
            found: list[list[bool]] = self._part.keep(groups)
        return found


def _in_turn(attack: Attack) -> Attack:
    """Returns an attack whose parts, which hold models and caches, several threads may use."""
    lock = threading.Lock()
    return replace(
        attack,
        transformation=_OneAtATime(attack.transformation, lock),
        constraints=[_OneAtATime(one, lock) for one in attack.constraints],
    )


def _lines(pieces: Sequence[Piece]) -> list[Event]:
    return [one._asdict() for one in pieces]
