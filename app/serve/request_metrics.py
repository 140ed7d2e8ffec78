"""Counts of requests in the text format of Prometheus, without their texts or addresses."""

import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MEDIA_TYPE = "text/plain; version=0.0.4"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180)
"""Upper bounds of the buckets of a latency."""
Samples = Sequence[tuple[Mapping[str, str], float]]
"""Labels and value of each sample of a family."""


@dataclass
class _Latencies:
    buckets: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    total: float = 0.0


class RequestMetrics:
    """Responses by path and status, and their seconds by path.

    A path that the server does not know counts as "other": else a client could fill the memory.
    """

    def __init__(self, paths: Collection[str]) -> None:
        self.paths = frozenset(paths)
        self._responses: Counter[tuple[str, int]] = Counter()
        self._latencies: defaultdict[str, _Latencies] = defaultdict(_Latencies)

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count a response; all calls come from the event loop."""
        path = path if path in self.paths else "other"
        self._responses[path, status] += 1
        latencies = self._latencies[path]
        latencies.buckets[bisect_left(SECONDS, seconds)] += 1
        latencies.total += seconds

    def render(self, families: Mapping[str, tuple[str, Samples]]) -> str:
        """Return all metrics: those of the requests, and more families by name with their help."""
        lines = [*self._lines()]
        for name, (text, samples) in families.items():
            lines += _head(name, "counter" if name.endswith("_total") else "gauge", text)
            lines += [_sample(name, labels, value) for labels, value in samples]
        return "\n".join(lines) + "\n"

    def _lines(self) -> Iterator[str]:
        name = "steadfast_responses_total"
        yield from _head(name, "counter", "responses by path and status")
        for (path, status), count in sorted(self._responses.items()):
            yield _sample(name, {"path": path, "status": str(status)}, count)
        name = "steadfast_response_seconds"
        yield from _head(name, "histogram", "seconds from a request to the end of its response")
        for path, latencies in sorted(self._latencies.items()):
            # Buckets of Prometheus are cumulative: each counts all responses up to its bound.
            totals = [*accumulate(latencies.buckets)]
            for bound, total in zip((*map(str, SECONDS), "+Inf"), totals, strict=True):
                yield _sample(f"{name}_bucket", {"path": path, "le": bound}, total)
            yield _sample(f"{name}_sum", {"path": path}, latencies.total)
            yield _sample(f"{name}_count", {"path": path}, totals[-1])


class MetricsMiddleware:
    """Counts each response, refusals included, when it has ended."""

    def __init__(self, app: ASGIApp, metrics: RequestMetrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        start, status = time.monotonic(), 0

        async def watch(message: Message) -> None:
            nonlocal status
            # Only the first message has a status; those of the body have none.
            status = message.get("status", status)
            await send(message)

        try:
            await self.app(scope, receive, watch)
        finally:
            if status:
                self.metrics.add(scope["path"], status, time.monotonic() - start)


def _head(name: str, kind: str, text: str) -> Iterable[str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    # Names of runs are names of files: a quote is possible.
    escaped = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    pairs = ",".join(f'{key}="{text.translate(escaped)}"' for key, text in labels.items())
    return f"{name}{{{pairs}}} {value}" if pairs else f"{name} {value}"
