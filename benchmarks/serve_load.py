"""The live page under load: latencies, refusals and memory.

    python -m benchmarks.serve_load --run NAME [--run NAME ...] [--runs_dir DIR] [--clients 200]
        [--requests 5] [--attackers 10] [--out FILE.json]

Starts `serve` as a process of its own. All clients ask at the same time, each one request after the
other; some attack, and every second one of those leaves after its first event. A client that is
refused with 503 tries again after a moment, as the page's users would: refusals are counted.
Memory is the server's, from /proc (Linux).
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any, NamedTuple

import numpy as np

from benchmarks.command import command, heading, save, settings, table
from benchmarks.timing import in_memory

WORDS = (
    *("a", "film", "that", "is", "not", "good", "but", "never", "dull"),
    *("and", "rather", "fine", "with", "an", "awful", "cast"),
)
JSON = {"Content-Type": "application/json"}
PAUSE = 0.2


class Response(NamedTuple):
    """The last status of a request, its seconds, and the times that it was refused before."""

    kind: str
    status: int
    seconds: float
    refused: int


def start_server(options: Namespace) -> tuple[subprocess.Popen[str], int]:
    """Return a server and its port."""
    words = [f"--run={name}" for name in options.run]
    words += [f"--runs_dir={options.runs_dir}", "--port=0", "--rate=0", "--device=cpu"]
    program = subprocess.Popen(
        [sys.executable, "-m", "app", "serve", *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": str(options.threads)},
    )
    assert program.stdout is not None  # a pipe
    line = program.stdout.readline()
    match = re.search(r":(\d+)/$", line)
    if match is None:
        msg = f"got {line!r} from serve, expected its address"
        raise RuntimeError(msg)
    return program, int(match[1])


def send_request(port: int, kind: str, body: dict[str, Any]) -> Response:
    """Return what became of a request."""
    path = "/api/attack" if kind == "leave" else f"/api/{kind}"
    begun, refused = time.monotonic(), 0
    while True:
        connection = HTTPConnection("127.0.0.1", port)
        connection.request("POST", path, body=json.dumps(body), headers=JSON)
        answer = connection.getresponse()
        if kind == "leave":
            answer.readline()
        else:
            answer.read()
        connection.close()
        if answer.status != 503:
            return Response(kind, answer.status, time.monotonic() - begun, refused)
        # 503: the server is busy and asks to come back.
        refused += 1
        time.sleep(PAUSE)


def client(number: int, port: int, options: Namespace) -> list[Response]:
    """Return the requests of one client."""
    drawn = random.Random(number)
    responses = []
    for turn in range(options.requests):
        body = {
            "run": drawn.choice(options.run),
            "text": " ".join(drawn.choices(WORDS, k=drawn.randint(3, 30))),
        }
        # Every third request explains; the others predict.
        kind = "words" if turn % 3 == 2 else "predict"
        if number < options.attackers:
            # Half of the attackers close the connection before the end.
            kind = ("attack", "leave")[number % 2]
            body["recipe"] = "deepwordbug"
        responses.append(send_request(port, kind, body))
    return responses


def main() -> None:
    """Print latencies, refusals and memory."""
    parser = command(__doc__, "out", threads=1)
    parser.add_argument("--run", action="append", required=True, help="a run to serve")
    parser.add_argument("--runs_dir", default="runs", help="directory of all runs")
    parser.add_argument("--clients", type=int, default=200, help="at the same time")
    parser.add_argument("--requests", type=int, default=5, help="of each client")
    parser.add_argument("--attackers", type=int, default=10, help="clients that attack")
    options = parser.parse_args()
    program, port = start_server(options)
    try:
        before = in_memory("VmRSS", program.pid)
        begun = time.monotonic()
        with ThreadPoolExecutor(options.clients) as pool:
            lists = pool.map(lambda number: client(number, port, options), range(options.clients))
            responses = [response for answers in lists for response in answers]
        seconds = time.monotonic() - begun
        peak, after = in_memory("VmHWM", program.pid), in_memory("VmRSS", program.pid)
        program.send_signal(signal.SIGTERM)
        stopping = time.monotonic()
        status = program.wait()
        ended = time.monotonic() - stopping
    finally:
        program.kill()
    setup = settings(options, "run", "clients", "requests", "attackers", "threads")
    print(heading(setup), "\n")
    rows = []
    for kind in dict.fromkeys(response.kind for response in responses):
        of_kind = [response for response in responses if response.kind == kind]
        times = np.array([response.seconds for response in of_kind])
        wrong = sum(response.status != 200 for response in of_kind)
        rows.append(
            [kind, len(of_kind), wrong, sum(response.refused for response in of_kind)]
            + [float(np.quantile(times, share)) for share in (0.5, 0.95, 1.0)]
        )
    head = ("request", "number", "errors", "refusals", "median s", "95 % s", "slowest s")
    print(table(head, rows))
    print(f"\n{len(responses) / seconds:.1f} requests/s")
    print(f"memory: {before:.0f} MiB before, {peak:.0f} MiB at most, {after:.0f} MiB after")
    print(f"SIGTERM: ended in {ended:.1f} s with status {status}")
    figures = {"memory": [before, peak, after], "seconds": seconds, "ended": ended}
    named = [dict(zip(head, row, strict=True)) for row in rows]
    save(options.out, {"settings": setup, **figures, "rows": named})


if __name__ == "__main__":
    main()
