"""Checks of every request (hosts, sites, rates), and headers of every response."""

import time
from collections import OrderedDict
from collections.abc import Collection, Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
"""Of every response. None of them allows anything to another site (no CORS)."""
LOCAL = ("127.0.0.1", "localhost", "[::1]")
"""Names of this machine; under any other name a foreign page could reach us (DNS rebinding)."""
RETRY = {"Retry-After": "5"}
"""Of a response to too many requests."""
_CLIENTS = 4096
"""Addresses whose rates are kept in memory."""


class Guard:
    """Refuses foreign hosts, foreign sites and too many requests to the API; adds the headers."""

    def __init__(self, app: ASGIApp, *, hosts: Collection[str], rate: "RateLimit") -> None:
        self.app, self.hosts, self.rate = app, frozenset(map(str.lower, hosts)), rate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await (self._refuse(scope) or self.app)(scope, receive, send_with_headers)

    def _refuse(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        # Names of hosts have no case.
        host = headers.get("host", "").lower()
        # With and without a port: an address of version 6 has colons itself.
        if host.rpartition(":")[0] not in self.hosts and host not in self.hosts:
            return refusal(
                421, "got an unknown host; `serve --allow_host NAME` allows another name"
            )
        if scope["method"] not in ("GET", "HEAD"):
            # Browsers set both, and scripts cannot; other clients send none.
            site, origin = headers.get("sec-fetch-site", "same-origin"), headers.get("origin")
            same_host = origin is None or origin.lower().partition("://")[2] == host
            if site not in ("same-origin", "none") or not same_host:
                return refusal(403, "got a request of another site, expected one of this page")
        # Files of the page cost nothing.
        if scope["path"].startswith("/api/") and not self.rate.take(scope):
            return refusal(429, self.rate.message, RETRY)
        return None


class RateLimit:
    """A token bucket for each address; `rate` is per minute, None: no bound."""

    def __init__(self, rate: int | None) -> None:
        self.rate = rate
        self.message = f"got more than {rate} requests a minute; wait a little"
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, scope: Scope, count: int = 1) -> bool:
        """Take `count` requests of the address of a client; return False if that is too many."""
        if self.rate is None:
            return True
        address = (scope.get("client") or ("", 0))[0]
        now = time.monotonic()
        tokens, before = self._buckets.pop(address, (float(self.rate), now))
        # A bucket is full after a minute without requests.
        tokens = min(float(self.rate), tokens + (now - before) * self.rate / 60)
        allowed = tokens >= count
        # pop() above and this move the address to the end: the first one is the oldest.
        self._buckets[address] = (tokens - count * allowed, now)
        while len(self._buckets) > _CLIENTS:
            self._buckets.popitem(last=False)
        return allowed


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return an error of the API."""
    return JSONResponse({"error": message}, status_code=status, headers=headers)
