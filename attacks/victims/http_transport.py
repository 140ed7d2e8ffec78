"""Sends JSON over HTTP until a usable answer comes: retries, waiting, a rate limit."""

import email.utils
import http.client
import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from attacks.victims.answers_by_template import AnswerError, shown
from attacks.victims.http_settings import HttpSettings
from attacks.victims.kinds import VictimError
from text.bounded_files import DataError, parse_json

Read = TypeVar("Read")
_AGAIN = frozenset((408, 425, 429, 500, 502, 503, 504))
"""Statuses after which the same request may be sent again."""
_LARGEST = 1 << 26
"""Bytes of an answer that are read."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it would send texts and token to another place."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Returns None: the redirect becomes an error."""


class Transport:
    """Sends requests to one address; may be used by several threads.

    Args:
        url: the address, http or https.
        settings: see `HttpSettings`.
        sleep: waits for some seconds; may end earlier once `stop` was called.
        clock: the time in seconds.

    Attributes:
        requests: requests that were sent.

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
            msg = f"got victim http:{url}, expected an address such as http:https://HOST/PATH"
            raise ValueError(msg)
        if parts.username or parts.password:
            msg = "got an address with a password, expected it in --http.token_variable NAME"
            raise ValueError(msg)
        self.url, self.settings = url, settings
        self._headers = {**settings.headers, "Content-Type": "application/json"}
        if settings.token_variable is not None:
            token = os.environ.get(settings.token_variable, "")
            if not token:
                msg = (
                    f"got --http.token_variable {settings.token_variable}, which is not set, "
                    "expected the token in this environment variable"
                )
                raise ValueError(msg)
            self._headers["Authorization"] = f"Bearer {token}"
        self._stopped = threading.Event()
        self._sleep, self._clock = sleep or self._stopped.wait, clock
        self._opener = urllib.request.build_opener(_NoRedirect)
        self._lock = threading.Lock()
        self._next = 0.0
        self.requests = 0

    def stop(self) -> None:
        """Lets no further request begin."""
        self._stopped.set()

    def post(self, body: Any, read: Callable[[Any], Read]) -> Read:
        """Sends a request until its answer can be read.

        Args:
            body: JSON value.
            read: makes the result of the answer; an `AnswerError` says whether to try again.

        Raises:
            VictimError: no usable answer; the message has the last reason.
        """
        reason = ""
        for attempt in range(self.settings.tries):
            self._turn()
            asked = 0.0
            try:
                return read(self._send(body))
            except AnswerError as error:
                if not error.again:
                    msg = f"victim {self.url}: {error}"
                    raise VictimError(msg) from error
                reason = str(error)
            except urllib.error.HTTPError as error:
                reason, asked = self._refused(error)
            # A URLError is an OSError; so are timeouts and lost connections.
            except (OSError, http.client.HTTPException) as error:
                reason = f"{type(error).__name__}: {error}"
            if attempt + 1 < self.settings.tries:
                self._pause(attempt, asked, reason)
        msg = (
            f"victim {self.url}: got no usable answer in {self.settings.tries} tries, the last: "
            f"{reason}; expected one: the same command goes on, --http.tries and --http.timeout "
            "give it more time"
        )
        raise VictimError(msg)

    def _send(self, body: Any) -> Any:
        data = json.dumps(body).encode()
        request = urllib.request.Request(self.url, data=data, headers=self._headers)
        with self._opener.open(request, timeout=self.settings.timeout) as answer:
            raw = answer.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            msg = f"got an answer of more than {_LARGEST:,} bytes, expected scores"
            raise AnswerError(msg)
        try:
            return parse_json(raw, self.url, "an answer in JSON")
        except DataError as error:
            msg = f"got an answer that is no JSON: {shown(raw[:200].decode('utf-8', 'replace'))}"
            raise AnswerError(msg, again=True) from error

    def _refused(self, error: urllib.error.HTTPError) -> tuple[str, float]:
        """Returns the reason of a refusal and the seconds that the server asks for.

        Raises:
            VictimError: another try would be refused as well.
        """
        with error:
            said = error.read(400).decode("utf-8", "replace").strip()
        reason = f"status {error.code} {error.reason}: {said[:200]}"
        if error.code not in _AGAIN:
            moved = (
                " (redirects are not followed: give the new address)"
                if (300 <= error.code < 400)
                else ""
            )
            msg = f"victim {self.url}: got {reason}{moved}, expected an answer"
            raise VictimError(msg) from error
        return reason, retry_after(error.headers.get("Retry-After"))

    def _turn(self) -> None:
        """Waits until the next request may be sent."""
        with self._lock:
            now = self._clock()
            start = max(now, self._next)
            gap = 0.0 if self.settings.per_second is None else 1 / self.settings.per_second
            self._next = start + gap
            self.requests += 1
        if start > now:
            self._sleep(start - now)
        if self._stopped.is_set():
            msg = f"victim {self.url}: stopped"
            raise VictimError(msg)

    def _pause(self, attempt: int, asked: float, reason: str) -> None:
        """Keeps all requests back after a refusal."""
        longest = self.settings.longest_wait
        if asked > longest:
            msg = (
                f"victim {self.url}: got {reason}, and the server asks to wait {asked:.0f} s, "
                f"expected at most --http.longest_wait {longest:g}: give the command again later"
            )
            raise VictimError(msg)
        wait = max(asked, min(longest, self.settings.wait * 2**attempt))
        with self._lock:
            self._next = max(self._next, self._clock() + wait)


def retry_after(given: str | None) -> float:
    """Returns the seconds that a server asks to wait (RFC 9110, 10.2.3); 0 if it does not."""
    given = (given or "").strip()
    if given.isdecimal():
        return float(given)
    try:
        when = email.utils.parsedate_to_datetime(given)
    except (TypeError, ValueError):
        return 0.0
    return max(0.0, when.timestamp() - time.time())
