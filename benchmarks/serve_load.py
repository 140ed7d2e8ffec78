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
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.command import command, heading, save, settings, table

WORDS = (
    *("a", "film", "that", "is", "not", "good", "but", "never", "dull"),
    *("and", "rather", "fine", "with", "an", "awful", "cast"),
)
JSON = {"Content-Type": "application/json"}
PAUSE = 0.2


class Answered(NamedTuple):
    """A request.

    Attributes:
        kind: predict, words, attack or leave.
        status: of HTTP, the last one.
        seconds: until it was answered, refusals included.
        refused: times that it was refused.
    """

    kind: str
    status: int
    seconds: float
    refused: int


def started(given: Namespace) -> tuple[subprocess.Popen[str], int]:
    """Returns a server and its port."""
    words = [f"--run={name}" for name in given.run]
    words += [f"--runs_dir={given.runs_dir}", "--port=0", "--rate=0", "--device=cpu"]
    program = subprocess.Popen(
        [sys.executable, "-m", "app", "serve", *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": str(given.threads)},
    )
    assert program.stdout is not None  # a pipe
    said = program.stdout.readline()
    found = re.search(r":(\d+)/$", said)
    if found is None:
        msg = f"got {said!r} from serve, expected its address"
        raise RuntimeError(msg)
    return program, int(found[1])


def memory(program: "subprocess.Popen[str]", what: str) -> float:
    """Returns the MiB that a process has (VmRSS) or has had at most (VmHWM)."""
    status = Path(f"/proc/{program.pid}/status").read_text(encoding="utf-8")
    found = re.search(rf"{what}:\s+(\d+)", status)
    return int(found[1]) / 1024 if found else float("nan")


def asked(port: int, kind: str, body: dict[str, Any]) -> Answered:
    """Returns what became of a request."""
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
            return Answered(kind, answer.status, time.monotonic() - begun, refused)
        refused += 1
        time.sleep(PAUSE)


def client(number: int, port: int, given: Namespace) -> list[Answered]:
    """Returns the requests of one client."""
    drawn = random.Random(number)
    found = []
    for turn in range(given.requests):
        body = {
            "run": drawn.choice(given.run),
            "text": " ".join(drawn.choices(WORDS, k=drawn.randint(3, 30))),
        }
        kind = "words" if turn % 3 == 2 else "predict"
        if number < given.attackers:
            kind = ("attack", "leave")[number % 2]
            body["recipe"] = "deepwordbug"
        found.append(asked(port, kind, body))
    return found


def main() -> None:
    """Prints latencies, refusals and memory."""
    parser = command(__doc__, "out", threads=1)
    parser.add_argument("--run", action="append", required=True, help="a run to serve")
    parser.add_argument("--runs_dir", default="runs", help="directory of all runs")
    parser.add_argument("--clients", type=int, default=200, help="at the same time")
    parser.add_argument("--requests", type=int, default=5, help="of each client")
    parser.add_argument("--attackers", type=int, default=10, help="clients that attack")
    given = parser.parse_args()
    program, port = started(given)
    try:
        before = memory(program, "VmRSS")
        begun = time.monotonic()
        with ThreadPoolExecutor(given.clients) as pool:
            lists = pool.map(lambda number: client(number, port, given), range(given.clients))
            found = [one for answers in lists for one in answers]
        seconds = time.monotonic() - begun
        peak, after = memory(program, "VmHWM"), memory(program, "VmRSS")
        program.send_signal(signal.SIGTERM)
        stopping = time.monotonic()
        status = program.wait()
        ended = time.monotonic() - stopping
    finally:
        program.kill()
    about = settings(given, "run", "clients", "requests", "attackers", "threads")
    print(heading(about), "\n")
    rows = []
    for kind in dict.fromkeys(one.kind for one in found):
        of = [one for one in found if one.kind == kind]
        times = np.array([one.seconds for one in of])
        wrong = sum(one.status != 200 for one in of)
        rows.append(
            [kind, len(of), wrong, sum(one.refused for one in of)]
            + [float(np.quantile(times, share)) for share in (0.5, 0.95, 1.0)]
        )
    head = ("request", "number", "errors", "refusals", "median s", "95 % s", "slowest s")
    print(table(head, rows))
    print(f"\n{len(found) / seconds:.1f} requests/s")
    print(f"memory: {before:.0f} MiB before, {peak:.0f} MiB at most, {after:.0f} MiB after")
    print(f"SIGTERM: ended in {ended:.1f} s with status {status}")
    figures = {"memory": [before, peak, after], "seconds": seconds, "ended": ended}
    named = [dict(zip(head, row, strict=True)) for row in rows]
    save(given.out, {"settings": about, **figures, "rows": named})


if __name__ == "__main__":
    main()
