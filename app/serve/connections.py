"""Connections of the live page: a deadline for each state, and a bound for each address."""

import asyncio
import json
from collections import Counter
from typing import cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from app.serve.serve_limits import ServeLimits

# Written by hand: before a request there is nothing to which the application could respond.
_BODY = json.dumps({"error": "too many open connections of this address; try again later"}).encode()
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 2\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


class Connection(H11Protocol):
    """A connection that ends at its deadline; while idle, also to make room for a newer one.

    uvicorn waits forever for the head of a first request, and a single byte cancels its deadline
    for the next one. Here an idle connection has `head_seconds` to send the full head of a request;
    then the response has `response_seconds`, also for a client that reads nothing.
    """

    limits = ServeLimits()
    since = 0.0  # time of the event loop at which the present state began
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

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvicorn narrows it, too
        """Count the connection; see `asyncio.Protocol`."""
        super().connection_made(transport)
        self._watch()
        # uvicorn's set of open connections has this one already.
        peers = [peer for peer in self.connections if isinstance(peer, Connection)]
        same_address = [peer for peer in peers if peer.address == self.address]
        if len(same_address) > self.limits.connections_per_address:
            if not _drop_oldest(same_address, self):
                transport.write(_REFUSAL)
                transport.close()
        elif len(peers) > self.limits.connections:
            # The address with the most idle connections pays, not the one that came first.
            counts = Counter(peer.address for peer in peers if peer.idle)
            most = max(counts.values())
            _drop_oldest([peer for peer in peers if counts[peer.address] == most], self)

    def data_received(self, data: bytes) -> None:
        """Read bytes of a request; see `asyncio.Protocol`."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline; see `asyncio.Protocol`."""
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()

    def _watch(self) -> None:
        """Set a new deadline if the state has changed: more bytes do not extend it."""
        request = None if self.idle else self.cycle
        if self._deadline is not None:
            if request is self._request:
                return
            self._deadline.cancel()
        self._request, self.since = request, self.loop.time()
        limits = self.limits
        seconds = limits.head_seconds if request is None else limits.response_seconds
        # Not close(): it waits until the client has read everything.
        self._deadline = self.loop.call_later(seconds, self.transport.abort)


def server_config(app: ASGIApp, limits: ServeLimits) -> uvicorn.Config:
    """Return the settings of uvicorn."""
    return uvicorn.Config(
        app,
        port=0,  # any, of a server that gets no socket
        # A class, as uvicorn makes the connections and passes nothing of ours.
        http=type("LimitedConnection", (Connection,), {"limits": limits}),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=15,
        # Else a client could pretend any address by X-Forwarded-For.
        proxy_headers=False,
        # uvicorn counts the new connection before ours decides: hence one more.
        limit_concurrency=limits.connections + 1,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=1 << 14,
    )


def _drop_oldest(connections: list[Connection], newest: Connection) -> bool:
    """Abort the connection that is idle for the longest time; return False if all are busy."""
    idle = [peer for peer in connections if peer.idle and peer is not newest]
    if not idle:
        return False
    oldest = min(idle, key=lambda peer: peer.since)
    # Removed now: the loop accepts the connections that wait before it reports this loss.
    oldest.connections.discard(oldest)
    oldest.transport.abort()
    return True
