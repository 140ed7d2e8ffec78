"""Sends JSON over HTTP until a usable answer comes: retries, waiting, a rate limit."""

import email.utils
import http.client
import json
import os
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from functools import partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from attacks.victims.answers_by_template import AnswerError, excerpt
from attacks.victims.http_settings import HttpSettings
from attacks.victims.kinds import VictimError
from text.bounded_files import DataError, parse_json
from text.web_address import hide, redact, secrets

Read = TypeVar("Read")
_AGAIN = frozenset((408, 425, 429, 500, 502, 503, 504))
"""Statuses after which the same request may be sent again."""
_LARGEST = 1 << 26
"""Bytes of an answer that are read."""
_REFUSAL = 1 << 10
"""Bytes of a refusal that are read."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it would send texts and token to another place."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return None: the redirect becomes an error."""


class _Deadline:
    """Breaks the connections that are opened while it runs when its time, in seconds, is over.

    A timeout of a socket begins anew with each byte, in the headers as well.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.over = seconds, False
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._break)
        self._timer.daemon = True

    def open(self, kind: type[http.client.HTTPConnection], host: str, **settings: Any) -> Any:
        """Make a connection that is broken in time."""
        connection = kind(host, **settings)
        connect = connection.connect

        def connected() -> None:
            connect()
            self._sockets.append(connection.sock)
            if self.over:
                self._break()

        connection.connect = connected  # type: ignore[method-assign] # urllib makes its own class
        return connection

    def _break(self) -> None:
        self.over = True
        for connection in self._sockets:
            with suppress(OSError):
                # A read that waits in another thread ends with an error.
                connection.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run while a request is sent and its answer read.

        Raises:
            TimeoutError: the time is over.
        """
        self._timer.start()
        late = f"no whole answer in {self.seconds:g} s (--http.deadline)"
        try:
            yield
        except (OSError, ValueError, http.client.HTTPException) as error:
            if self.over:
                raise TimeoutError(late) from error
            raise
        finally:
            self._timer.cancel()
        if self.over:  # an answer without a length ends where the connection does
            raise TimeoutError(late)


class _Http(urllib.request.HTTPSHandler, urllib.request.HTTPHandler):
    """Opens plain and encrypted connections within a deadline."""

    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self.deadline = deadline

    def http_open(self, req: urllib.request.Request) -> Any:
        """Open a connection."""
        return self.do_open(partial(self.deadline.open, http.client.HTTPConnection), req)

    def https_open(self, req: urllib.request.Request) -> Any:
        """Open a connection."""
        return self.do_open(partial(self.deadline.open, http.client.HTTPSConnection), req)


class _Refusal(NamedTuple):
    """An answer with the status of an error."""

    status: int
    reason: str
    headers: Message
    content: str


class Transport:
    """Sends requests to one address; may be used by several threads.

    Args:
        url: the address, http or https.
        settings: see `HttpSettings`.
        sleep: waits for some seconds; may end earlier once `stop` was called.
        clock: the time in seconds.

    Attributes:
        requests: requests that were sent.
        name: the address without its secrets, for messages and files.

    Raises:
        ValueError: another kind of address, or no token in the environment variable.
    """

    def __init__(
        self,
        url: str,
        settings: HttpSettings,
        *,
        sleep: Callable[[float], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            msg = (
                f"got victim http:{redact(url)}, expected an address such as http:https://HOST/PATH"
            )
            raise ValueError(msg)
        # A password in the address would end up in records and messages.
        if parts.username or parts.password:
            msg = "got an address with a password, expected it in --http.token_variable NAME"
            raise ValueError(msg)
        self.url, self.name, self.settings = url, redact(url), settings
        self._headers = {**settings.headers, "Content-Type": "application/json"}
        self._secrets = {*secrets(url), *settings.headers.values()}
        if settings.token_variable is not None:
            token = os.environ.get(settings.token_variable, "")
            if not token:
                msg = (
                    f"got --http.token_variable {settings.token_variable}, which is not set, "
                    "expected the token in this environment variable"
                )
                raise ValueError(msg)
            self._headers["Authorization"] = f"Bearer {token}"
            self._secrets.add(token)
        self._stopped = threading.Event()
        self._sleep, self._clock = sleep or self._stopped.wait, clock
        self._lock = threading.Lock()
        self._next = 0.0
        self.requests = 0

    def stop(self) -> None:
        """Let no further request begin."""
        self._stopped.set()

    def hide(self, message: str) -> str:
        """Return a message without token, headers and keys of the address."""
        return hide(message, self._secrets)

    def post(self, body: Any, read: Callable[[Any], Read]) -> Read:
        """Send a request until its answer can be read.

        `read` makes the result of the answer; an `AnswerError` says whether to try again.

        Raises:
            VictimError: no usable answer; the message has the last reason.
        """
        reason = ""
        for attempt in range(self.settings.tries):
            self._turn()
            wait = 0.0
            try:
                answer = self._send(body)
                if not isinstance(answer, _Refusal):
                    return read(_value(answer))
                reason, wait = self._read_refusal(answer)
            except AnswerError as error:
                if not error.again:
                    msg = f"victim {self.name}: {self.hide(str(error))}"
                    raise VictimError(msg) from error
                reason = self.hide(str(error))
            # A URLError is an OSError; so are timeouts and lost connections.
            except (OSError, http.client.HTTPException) as error:
                reason = self.hide(f"{type(error).__name__}: {error}")
            if attempt + 1 < self.settings.tries:
                self._pause(attempt, wait, reason)
        msg = (
            f"victim {self.name}: got no usable answer in {self.settings.tries} tries, the last: "
            f"{reason}; expected one: --http.tries and --http.timeout give it more time"
        )
        raise VictimError(msg)

    def _send(self, body: Any) -> bytes | _Refusal:
        data = json.dumps(body).encode()
        request = urllib.request.Request(self.url, data=data, headers=self._headers)
        deadline = _Deadline(self.settings.deadline)
        handlers = _NoRedirect(), _Http(deadline)
        opener = urllib.request.build_opener(*handlers)
        with deadline.running():
            try:
                with opener.open(request, timeout=self.settings.timeout) as answer:
                    # One byte more than allowed tells that the answer is too long.
                    raw: bytes = answer.read(_LARGEST + 1)
            except urllib.error.HTTPError as error:
                # The body of a refusal often says why.
                with error:
                    content = error.read(_REFUSAL).decode("utf-8", "replace").strip()
                return _Refusal(error.code, str(error.reason), error.headers, content)
        return raw

    def _read_refusal(self, refusal: _Refusal) -> tuple[str, float]:
        """Return the reason of a refusal and the seconds that the server asks for.

        Raises:
            VictimError: another try would be refused as well.
        """
        excerpt = self.hide(refusal.content)[:200]
        reason = f"status {refusal.status} {self.hide(refusal.reason)}: {excerpt}"
        if refusal.status not in _AGAIN:
            moved = ""
            if 300 <= refusal.status < 400:
                moved = " (redirects are not followed: give the new address)"
            msg = f"victim {self.name}: got {reason}{moved}, expected an answer"
            raise VictimError(msg)
        return reason, retry_after(refusal.headers.get("Retry-After"))

    def _turn(self) -> None:
        """Wait until the next request may be sent."""
        with self._lock:
            now = self._clock()
            start = max(now, self._next)
            gap = 0.0 if self.settings.per_second is None else 1 / self.settings.per_second
            # The slot is reserved under the lock; the wait is outside of it.
            self._next = start + gap
            self.requests += 1
        if start > now:
            self._sleep(start - now)
        if self._stopped.is_set():
            msg = f"victim {self.name}: stopped"
            raise VictimError(msg)

    def _pause(self, attempt: int, wait: float, reason: str) -> None:
        """Keep all requests back after a refusal."""
        longest = self.settings.longest_wait
        if wait > longest:
            msg = (
                f"victim {self.name}: got {reason}, and the server asks to wait {wait:.0f} s, "
                f"expected at most --http.longest_wait {longest:g}: give the command again later"
            )
            raise VictimError(msg)
        # Exponential back-off; the server may ask for more.
        wait = max(wait, min(longest, self.settings.wait * 2**attempt))
        with self._lock:
            self._next = max(self._next, self._clock() + wait)


def _value(raw: bytes) -> Any:
    """Return the JSON value of an answer.

    Raises:
        AnswerError: it is none.
    """
    if len(raw) > _LARGEST:
        msg = f"got an answer of more than {_LARGEST:,} bytes, expected scores"
        raise AnswerError(msg)
    try:
        return parse_json(raw, "the answer", "JSON")
    except DataError as error:
        msg = f"got an answer that is no JSON: {excerpt(raw[:200].decode('utf-8', 'replace'))}"
        raise AnswerError(msg, again=True) from error


def retry_after(header: str | None) -> float:
    """Return the seconds that a server asks to wait (RFC 9110, 10.2.3); 0 if it does not."""
    header = (header or "").strip()
    if header.isdecimal():
        return float(header)
    try:
        when = email.utils.parsedate_to_datetime(header)
    except (TypeError, ValueError):
        return 0.0
    return max(0.0, when.timestamp() - time.time())
