"""Checks of every request, and headers of every answer: hosts, sites, rates."""

import time
from collections import OrderedDict
from collections.abc import Collection

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
"""Of every answer. None allows another site anything: there is no CORS."""
LOCAL = ("127.0.0.1", "localhost", "[::1]")
"""Names of this machine; under another name a foreign page could reach the server (rebinding)."""
_CLIENTS = 4096
"""Addresses whose rates are remembered."""


class Guard:
    """Refuses foreign hosts, foreign sites and too many requests; adds the headers.

    Args:
        app: the application.
        hosts: names under which it may be reached.
        rate: requests to the API per minute and address; None for no bound.
    """

    def __init__(self, app: ASGIApp, *, hosts: Collection[str], rate: int | None) -> None:
        self.app, self.hosts, self.rate = app, frozenset(hosts), rate
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refused = self._refused(scope)
        await (refused or self.app)(scope, receive, headed)

    def _refused(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host.rpartition(":")[0] not in self.hosts and host not in self.hosts:
            return refusal(
                421, "got an unknown host; `serve --allow_host NAME` allows another name"
            )
        if scope["method"] not in ("GET", "HEAD"):
            site, origin = headers.get("sec-fetch-site", "same-origin"), headers.get("origin")
            same = origin is None or origin.partition("://")[2] == host
            if site not in ("same-origin", "none") or not same:
                return refusal(403, "got a request of another site, expected one of this page")
        if scope["path"].startswith("/api/") and not self._allowed(scope):
            found = refusal(429, f"got more than {self.rate} requests a minute; wait a little")
            found.headers["Retry-After"] = "5"
            return found
        return None

    def _allowed(self, scope: Scope) -> bool:
        """Takes a request from what an address has left: a bucket that fills with time."""
        if self.rate is None:
            return True
        address = (scope.get("client") or ("", 0))[0]
        now = time.monotonic()
        left, before = self._buckets.pop(address, (float(self.rate), now))
        left = min(float(self.rate), left + (now - before) * self.rate / 60)
        allowed = left >= 1
        self._buckets[address] = (left - allowed, now)
        while len(self._buckets) > _CLIENTS:
            self._buckets.popitem(last=False)
        return allowed


def refusal(status: int, message: str) -> JSONResponse:
    """Returns an error as the API gives it.

    Args:
        status: of HTTP.
        message: one line.
    """
    return JSONResponse({"error": message}, status_code=status)
