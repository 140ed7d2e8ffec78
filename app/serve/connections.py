"""Connections of the live page: a deadline for each state, and a bound for each address."""

import asyncio
import json
from collections import Counter
from typing import cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from app.serve.serve_limits import ServeLimits

_BODY = json.dumps({"error": "too many open connections of this address; try again later"}).encode()
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 2\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


class Connection(H11Protocol):
    """A connection that ends at its deadline, or, while it is idle, for the sake of a newer one.

    uvicorn itself waits without end for the head of a first request, and a single byte ends its
    deadline for the next one. Here an idle connection has `head_seconds` to send the whole head of
    a request; from there the response has `response_seconds`, also for a client that reads nothing.

    Attributes:
        limits: see `ServeLimits`.
        since: time of the loop at which the present state began.
    """

    limits = ServeLimits()
    since = 0.0
    _deadline: asyncio.TimerHandle | None = None
    _request: RequestResponseCycle | None = None

    @property
    def idle(self) -> bool:
        """True if no request is being served."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    @property
    def address(self) -> str:
        """Address of the client, without its port."""
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Counts the connection; see `asyncio.Protocol`."""
        super().connection_made(transport)
        self._watch()
        others = [one for one in self.connections if isinstance(one, Connection)]
        same = [one for one in others if one.address == self.address]
        if len(same) > self.limits.connections_per_address:
            if not _drop_oldest(same, self):
                transport.write(_REFUSAL)
                transport.close()
        elif len(others) > self.limits.connections:
            counts = Counter(one.address for one in others if one.idle)
            most = max(counts.values())
            _drop_oldest([one for one in others if counts[one.address] == most], self)

    def data_received(self, data: bytes) -> None:
        """Reads bytes of a request; see `asyncio.Protocol`."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Waits for the next request."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the deadline; see `asyncio.Protocol`."""
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()

    def _watch(self) -> None:
        """Sets the deadline anew if the state has changed: bytes alone do not extend it."""
        request = None if self.idle else self.cycle
        if self._deadline is not None:
            if request is self._request:
                return
            self._deadline.cancel()
        self._request, self.since = request, self.loop.time()
        limits = self.limits
        seconds = limits.head_seconds if request is None else limits.response_seconds
        # Not close(), which waits for a client that reads nothing.
        self._deadline = self.loop.call_later(seconds, self.transport.abort)


def server_config(app: ASGIApp, limits: ServeLimits, *, port: int = 0) -> uvicorn.Config:
    """Return the settings of the server of the live page.

    Args:
        app: the application.
        limits: of the server.
        port: where to listen if `run` gets no socket; 0 for any.
    """
    return uvicorn.Config(
        app,
        port=port,
        http=type("LimitedConnection", (Connection,), {"limits": limits}),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=15,
        # Whoever sends X-Forwarded-For could have any address.
        proxy_headers=False,
        # uvicorn counts the connection itself; one more than ours that have a place.
        limit_concurrency=limits.connections + 1,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=1 << 14,
    )


def _drop_oldest(connections: list[Connection], newest: Connection) -> bool:
    """Abort the connection that is idle for the longest time; return False if there is none."""
    idle = [one for one in connections if one.idle and one is not newest]
    if not idle:
        return False
    oldest = min(idle, key=lambda one: one.since)
    # Removed now: the loop reports the loss only after the connections that wait to be accepted.
    oldest.connections.discard(oldest)
    oldest.transport.abort()
    return True
