"""A classifier behind HTTP on this machine, which can be slow, flaky, rate-limited and lying."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, str], bytes]
"""Status, headers and content."""


def positive(text: str) -> float:
    """Probability of the second class: smooth, and the same for equal texts."""
    words = text.lower().split()
    score = sum(("good" in w) - ("bad" in w) + 0.01 * len(w) for w in words)
    return min(0.99, max(0.01, 0.5 + 0.2 * score))


def pipeline(texts: list[str]) -> Any:
    """Answers as text-classification services of Hugging Face do."""
    return [
        [{"label": "pos", "score": positive(t)}, {"label": "neg", "score": 1 - positive(t)}]
        for t in texts
    ]


class Service:
    """The behaviour of the server.

    Attributes:
        answers: the JSON of an answer by the JSON of the request.
        spoil: makes another answer of the number of the request and the right one.
        delay: seconds before an answer.
        bodies: all requests, as they came.
        answered: texts of requests that got a right answer, with `inputs` in them.
        after: called with the number of requests before each answer.
    """

    def __init__(self) -> None:
        self.answers: Callable[[Any], Any] = lambda body: pipeline(body["inputs"])
        self.spoil: Callable[[int, Answer], Answer] = lambda _, answer: answer
        self.after: Callable[[int], None] = lambda _: None
        self.delay = 0.0
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.answered: list[str] = []
        self.url = ""
        self._lock = threading.Lock()

    def respond(self, body: Any, headers: dict[str, str]) -> Answer:
        with self._lock:
            self.bodies.append(body)
            self.headers.append(headers)
            number = len(self.bodies)
        time.sleep(self.delay)
        right: Answer = (200, {}, json.dumps(self.answers(body)).encode())
        found = self.spoil(number, right)
        if found is right and isinstance(body.get("inputs"), list):
            with self._lock:
                self.answered += body["inputs"]
        self.after(number)
        return found


@contextmanager
def serving(service: Service) -> Iterator[Service]:
    """Runs the server on a free port of the loopback interface."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = json.loads(self.rfile.read(length))
            status, headers, content = service.respond(body, dict(self.headers))
            if status == 0:  # the connection breaks
                self.connection.close()
                return
            try:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:  # the client is gone
                return

        def log_message(self, *_: Any) -> None:
            """Prints nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign] # clients are killed here
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_address[1]}/classify"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
