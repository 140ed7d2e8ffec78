"""A classifier served over HTTP."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np

from attacks.goals import Floats, logarithms
from attacks.victims.answer_cache import AnswerCache
from attacks.victims.answers_by_template import AnswerError, Exchange, TemplateExchange, check_row
from attacks.victims.chat import ChatExchange
from attacks.victims.http_settings import HttpSettings
from attacks.victims.http_transport import Transport
from attacks.victims.kinds import InvalidAnswers, VictimError
from text import Text

_HOPELESS = 8
"""Invalid answers without a valid one after which a service is not asked any more."""
Row = list[float] | AnswerError


class HttpVictim:
    """Asks a service; a text that was answered once is never asked about again.

    Args:
        url: the address.
        classes: names of the classes, in the order of their numbers.
        settings: see `HttpSettings`.
        cache: file of the answers; only in memory if None.
        transport: sends the requests; one of the settings if None.

    Attributes:
        labels_only: True if the service names classes without scores. A search then has to work
            without (`attacks.victims.labels_only`).

    Raises:
        ValueError: fewer than two classes, templates without sense, or a cache of another victim.
    """

    def __init__(
        self,
        url: str,
        classes: Sequence[str],
        settings: HttpSettings | None = None,
        *,
        cache: str | Path | None = None,
        transport: Transport | None = None,
    ) -> None:
        settings = settings or HttpSettings()
        if len(classes) < 2 or len({name.strip().casefold() for name in classes}) < len(classes):
            msg = f"got classes {list(classes)}, expected at least two different names"
            raise ValueError(msg)
        self.classes, self.settings = list(classes), settings
        exchange: Exchange
        if settings.chat is None:
            exchange = TemplateExchange(settings, classes)
        else:
            exchange = ChatExchange(settings, classes)
        self.exchange = exchange
        self.labels_only = exchange.outputs == "labels"
        self.transport = transport or Transport(url, settings)
        self.name = self.transport.name
        self.cache = AnswerCache(None if cache is None else Path(cache), self.about(), self._check)
        self._invalid: dict[Text, str] = {}

    def about(self) -> dict[str, Any]:
        """See `attacks.fingerprint`; retries and limits are left out."""
        return {"name": self.name, "classes": self.classes, **self.exchange.about()}

    def logits(self, texts: Sequence[Text]) -> Floats:
        """See `Victim`."""
        rows = self._numbers(texts)
        return logarithms(rows) if self.exchange.outputs == "probabilities" else rows

    def probabilities(self, texts: Sequence[Text]) -> Floats | None:
        """Return `[n, C]` as the service gave them; None if it gives none."""
        return self._numbers(texts) if self.exchange.outputs == "probabilities" else None

    def again(self, texts: Sequence[Text]) -> Floats | None:
        """Ask about texts once more, without the cache; None beyond the budget."""
        if self._left() < len(texts):
            return None
        answers = dict(self._ask(texts, self.cache.count))
        invalid = {text: str(row) for text, row in answers.items() if isinstance(row, AnswerError)}
        if invalid:
            raise self._error(invalid)
        rows = np.array([answers[text] for text in texts], dtype=np.float64)
        return logarithms(rows) if self.exchange.outputs == "probabilities" else rows

    def close(self) -> None:
        """Close the file of the answers."""
        self.cache.close()

    def _check(self, row: Sequence[float]) -> None:
        check_row(row, len(self.classes), self.exchange.outputs)

    def _left(self) -> float:
        """Return the texts that may still be asked about."""
        budget = self.settings.budget
        return math.inf if budget is None else budget - self.cache.asked

    def _error(self, invalid: Mapping[Text, str]) -> InvalidAnswers:
        return InvalidAnswers(f"victim {self.name}: {next(iter(invalid.values()))}", invalid)

    def _numbers(self, texts: Sequence[Text]) -> Floats:
        new = [text for text in dict.fromkeys(texts) if text not in self.cache]
        # Invalid answers are not asked for again in this start.
        new = [text for text in new if text not in self._invalid]
        remaining = len(new) if self._left() >= len(new) else max(0, int(self._left()))
        for text, row in self._ask(new[:remaining], self.cache.add):
            if isinstance(row, AnswerError):
                self._invalid[text] = str(row)
        if remaining < len(new):
            msg = (
                f"victim {self.name}: the budget of {self.settings.budget:,} texts is used up; "
                "all records and answers are kept: give a larger --http.budget to resume"
            )
            raise VictimError(msg)
        if invalid := {text: self._invalid[text] for text in texts if text in self._invalid}:
            raise self._error(invalid)
        return np.array([self.cache[text] for text in texts], dtype=np.float64)

    def _ask(
        self, texts: Sequence[Text], keep: Callable[[list[tuple[Text, list[float]]]], None]
    ) -> list[tuple[Text, Row]]:
        """Ask about texts; each valid answer is kept at once, also when another request fails.

        The texts are all different; `keep` writes answers.
        """
        answered: list[tuple[Text, Row]] = []

        def take(chunk: Sequence[Text], rows: Sequence[Row]) -> None:
            fresh = list(zip(chunk, rows, strict=True))
            keep([(text, row) for text, row in fresh if not isinstance(row, AnswerError)])
            # An invalid answer is paid for, too: it has no numbers to keep.
            self.cache.count([(text, ()) for text, row in fresh if isinstance(row, AnswerError)])
            answered.extend(fresh)
            invalid = {text: str(row) for text, row in answered if isinstance(row, AnswerError)}
            # Wrong templates make all answers invalid: stop before they are all paid for.
            if not len(self.cache) and len(invalid) >= _HOPELESS:
                raise self._error(invalid)

        if self.settings.parallel == 1:
            for chunk in self._chunks(texts):
                take(chunk, self._one(chunk))
            return answered
        with ThreadPoolExecutor(self.settings.parallel, thread_name_prefix="victim") as pool:
            try:
                self._collect(pool, self._chunks(texts), take)
            except BaseException:
                # Threads in their retries would otherwise wait for minutes.
                self.transport.stop()
                raise
        return answered

    def _chunks(self, texts: Sequence[Text]) -> Iterator[Sequence[Text]]:
        size = self.exchange.size
        return (texts[start : start + size] for start in range(0, len(texts), size))

    def _collect(
        self,
        pool: ThreadPoolExecutor,
        chunks: Iterator[Sequence[Text]],
        take: Callable[[Sequence[Text], Sequence[Row]], None],
    ) -> None:
        """Send as many requests at a time as are allowed, and no more after a failure."""
        running: dict[Future[list[Row]], Sequence[Text]] = {}
        failed: BaseException | None = None
        while True:
            while failed is None and len(running) < self.settings.parallel:
                chunk = next(chunks, None)
                if chunk is None:
                    break
                running[pool.submit(self._one, chunk)] = chunk
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                chunk = running.pop(future)
                error = future.exception()
                try:
                    if error is None:
                        take(chunk, future.result())
                except InvalidAnswers as invalid:
                    error = invalid
                # Running requests are awaited: their answers are paid for.
                failed = failed or error
        if failed is not None:
            raise failed

    def _one(self, texts: Sequence[Text]) -> list[Row]:
        def read(answer: Any) -> list[Row]:
            try:
                rows = self.exchange.rows(answer, texts)
            except AnswerError as error:
                if error.again or len(texts) > 1:
                    raise
                rows = [error]
            return [self._valid(row) for row in rows]

        return self.transport.post(self.exchange.body(texts), read)

    def _valid(self, row: Row) -> Row:
        """Return the numbers of a text, or the error of its answer."""
        try:
            if isinstance(row, AnswerError):
                raise row
            self._check(row)
        except AnswerError as error:
            return AnswerError(self.transport.hide(str(error)))
        return row
