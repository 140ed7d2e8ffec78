"""A classifier behind HTTP."""

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np

from attacks.goals import Floats, logarithms
from attacks.victims.answer_cache import AnswerCache
from attacks.victims.answers_by_template import Exchange, TemplateExchange, check_distribution
from attacks.victims.chat import ChatExchange
from attacks.victims.http_settings import HttpSettings
from attacks.victims.http_transport import Transport
from attacks.victims.kinds import VictimError
from text import Text


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
        if len(classes) < 2 or len({one.strip().casefold() for one in classes}) < len(classes):
            msg = f"got classes {list(classes)}, expected at least two different names"
            raise ValueError(msg)
        self.name, self.classes, self.settings = url, list(classes), settings
        exchange: Exchange
        if settings.chat is None:
            exchange = TemplateExchange(settings, classes)
        else:
            exchange = ChatExchange(settings, classes)
        self.exchange = exchange
        self.labels_only = exchange.outputs == "labels"
        self.transport = transport or Transport(url, settings)
        self.cache = AnswerCache(None if cache is None else Path(cache), self.about())

    def about(self) -> dict[str, Any]:
        """See `attacks.fingerprint`; retries and limits are left out."""
        return {"name": self.name, "classes": self.classes, **self.exchange.about()}

    def logits(self, texts: Sequence[Text]) -> Floats:
        """See `Victim`."""
        rows = self._numbers(texts)
        return logarithms(rows) if self.exchange.outputs == "probabilities" else rows

    def probabilities(self, texts: Sequence[Text]) -> Floats | None:
        """Returns `[n, C]` as the service gave them; None if it gives none."""
        return self._numbers(texts) if self.exchange.outputs == "probabilities" else None

    def close(self) -> None:
        """Closes the file of the answers."""
        self.cache.close()

    def _numbers(self, texts: Sequence[Text]) -> Floats:
        new = [text for text in dict.fromkeys(texts) if text not in self.cache]
        left = len(new)
        if self.settings.budget is not None:
            left = max(0, self.settings.budget - len(self.cache))
        self._ask(new[:left])
        if left < len(new):
            msg = (
                f"victim {self.name}: the budget of {self.settings.budget:,} texts is used up; "
                "all records and answers are kept: a larger --http.budget goes on"
            )
            raise VictimError(msg)
        return np.array([self.cache[text] for text in texts], dtype=np.float64)

    def _ask(self, texts: Sequence[Text]) -> None:
        """Asks about texts; each answer is kept at once, also when another request fails."""
        if self.settings.parallel == 1:
            for chunk in self._chunks(texts):
                self.cache.add(zip(chunk, self._one(chunk), strict=True))
            return
        with ThreadPoolExecutor(self.settings.parallel, thread_name_prefix="victim") as pool:
            try:
                self._collect(pool, self._chunks(texts))
            except BaseException:
                self.transport.stop()
                raise

    def _chunks(self, texts: Sequence[Text]) -> Iterator[Sequence[Text]]:
        size = self.exchange.size
        return (texts[start : start + size] for start in range(0, len(texts), size))

    def _collect(self, pool: ThreadPoolExecutor, chunks: Iterator[Sequence[Text]]) -> None:
        """Sends as many requests at a time as are allowed, and no more after a failure."""
        running: dict[Future[list[list[float]]], Sequence[Text]] = {}
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
                if error is None:
                    self.cache.add(zip(chunk, future.result(), strict=True))
                else:
                    failed = failed or error
        if failed is not None:
            raise failed

    def _one(self, texts: Sequence[Text]) -> list[list[float]]:
        def read(answer: Any) -> list[list[float]]:
            rows = self.exchange.rows(answer, texts)
            if self.exchange.outputs == "probabilities":
                check_distribution(rows)
            return rows

        return self.transport.post(self.exchange.body(texts), read)
