"""Clients of the live page that open connections and keep them."""

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest

from app.serve.serve_limits import ServeLimits
from tests.unit.app.serve.serving import listening, live

LIMITS = ServeLimits(connections=12, connections_per_address=6, head_seconds=30)
GET = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@contextmanager
def served(limits: ServeLimits) -> Iterator[int]:
    """The port of a live page."""
    with live(limits) as made, listening(made) as connection:
        yield connection.port


def opened(stack: ExitStack, port: int, address: str = "127.0.0.1") -> socket.socket:
    """A connection from an address of this machine."""
    made = socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(address, 0))
    return stack.enter_context(closing(made))


def status(connection: socket.socket, request: bytes = GET) -> int:
    """The status of the answer; 0 if the server has closed the connection."""
    content = b""
    try:
        connection.sendall(request)
        while b"\r\n\r\n" not in content:
            content += (part := connection.recv(1 << 16))
            if not part:
                return 0
        head, _, body = content.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        while length and len(body) < int(length[1]):
            body += connection.recv(1 << 16)
    except ConnectionError:
        return 0
    return int(head.split()[1])


def is_closed(connection: socket.socket) -> bool:
    """True once the server has closed the connection."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("start", [b"", b"G", b"POST /api/predict HTTP/1.1\r\nHost: a\r\n"])
def test_idle_connections_take_the_page_from_nobody(start: bytes) -> None:
    with ExitStack() as stack:
        port = stack.enter_context(served(LIMITS))
        idle = [opened(stack, port, f"127.0.0.{2 + i % 3}") for i in range(60)]
        for connection in idle:
            # The oldest ones may be closed already.
            try:
                connection.sendall(start)
            except ConnectionError:
                continue
        # Also for their own addresses.
        for address in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
            for _ in range(10):
                assert status(opened(stack, port, address)) == 200


def test_an_address_takes_places_from_itself_alone() -> None:
    with ExitStack() as stack:
        port = stack.enter_context(served(LIMITS))
        polite = [opened(stack, port) for _ in range(4)]
        assert [status(one) for one in polite] == [200] * 4
        for _ in range(60):
            opened(stack, port, "127.0.0.2")
        # Kept alive, and not the ones to make way.
        assert [status(one) for one in polite] == [200] * 4


def test_more_requests_of_an_address_than_it_may_have() -> None:
    """Busy connections are not closed: the newest one is refused."""
    with ExitStack() as stack:
        port = stack.enter_context(served(LIMITS))
        head = b"POST /api/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n"
        head += b"Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n"
        busy = [opened(stack, port) for _ in range(6)]
        # The server waits for their bodies.
        assert [status(one, head) for one in busy] == [100] * 6
        assert status(opened(stack, port)) == 503
        assert status(opened(stack, port, "127.0.0.2")) == 200


@pytest.mark.parametrize("first", [False, True])
def test_bytes_one_by_one_do_not_extend_the_deadline(first: bool) -> None:
    limits = ServeLimits(head_seconds=0.4)
    with ExitStack() as stack:
        connection = opened(stack, stack.enter_context(served(limits)))
        if first:
            assert status(connection) == 200
        for byte in GET * 5:
            time.sleep(0.05)
            try:
                connection.sendall(bytes([byte]))
            except ConnectionError:
                break
        else:
            pytest.fail("a head that arrives byte by byte was waited for without end")
        assert is_closed(connection)


def test_a_client_that_reads_nothing() -> None:
    limits = ServeLimits(seconds=0.2, attack_seconds=0.2)
    with ExitStack() as stack:
        connection = opened(stack, stack.enter_context(served(limits)))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(0.2)
        request = b"GET /live_page.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        for _ in range(2000):
            try:
                connection.sendall(request * 100)
            except TimeoutError:
                time.sleep(0.1)
            except ConnectionError:
                return
        pytest.fail("a response that nobody reads was kept without end")
