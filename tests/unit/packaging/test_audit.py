"""The audit of the locks, by the real pip-audit, against databases on the loopback interface."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from requirements import audit
from requirements.audit import Accepted, Weakness, below_floors, judged, locked, main
from requirements.lock import Pin

Answer = Callable[[str, str], dict[str, Any] | None]


def weak(name: str, number: str, fixed: str) -> dict[str, Any]:
    """An answer of OSV about one weakness."""
    ranges = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": fixed}]}]
    return {
        "vulns": [
            {
                "id": f"PYSEC-{number}",
                "aliases": [f"CVE-{number}"],
                "summary": "something is wrong",
                "affected": [{"package": {"name": name, "ecosystem": "PyPI"}, "ranges": ranges}],
            }
        ]
    }


@contextmanager
def database(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """As much of OSV as is asked. Gives the address, and the packages asked about so far."""
    asked: list[str] = []
    release = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

        def do_POST(self) -> None:
            query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name, version = query["package"]["name"], query["version"]
            asked.append(name)
            content = answer(name, version)
            if content is None:  # never answers
                release.wait()
                return
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/query", asked
    finally:
        release.set()
        server.shutdown()
        server.server_close()
        thread.join()


def knows_the_canary(name: str, version: str) -> dict[str, Any]:
    return weak("pyyaml", "2020-1", "5.4") if (name, version) == ("pyyaml", "5.3") else {}


@pytest.mark.long
def test_no_weakness(capfd: pytest.CaptureFixture[str]) -> None:
    with database(knows_the_canary) as (url, asked):
        assert main(["--osv_url", url]) == 0
    out, err = capfd.readouterr()
    pins = locked()
    assert set(asked) == set(pins)
    assert f"{len(pins)} versions compared with osv today" in out
    assert "NOT COMPARED" not in out
    assert err == ""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> dict[str, Pin]:
    """Four of the locked versions, so that a database is not asked about hundreds."""
    pins = {name: locked()[name] for name in ("numpy", "pyyaml", "requests", "torch")}
    monkeypatch.setattr(audit, "locked", lambda: pins)
    return pins


def test_a_weakness_fails(few: dict[str, Pin], capfd: pytest.CaptureFixture[str]) -> None:
    def answer(name: str, version: str) -> dict[str, Any]:
        return (
            weak("numpy", "2026-9", "99.0") if name == "numpy" else knows_the_canary(name, version)
        )

    with database(answer) as (url, _):
        assert main(["--osv_url", url]) == 1
    err = capfd.readouterr().err
    assert f"numpy {few['numpy'].version}: " in err
    assert "PYSEC-2026-9" in err
    assert "CVE-2026-9" in err
    assert "expected: 99.0" in err


def test_an_accepted_weakness_passes() -> None:
    found = [Weakness("a", "1", ("PYSEC-1", "CVE-1"), "2"), Weakness("b", "1", ("CVE-2",), "2")]
    entries = [Accepted("CVE-1", "2026-11-20", "not used"), Accepted("CVE-3", "2026-11-20", "old")]
    assert judged(found, entries) == (found[1:], entries[1:])


def test_what_was_accepted_has_its_reason() -> None:
    for entry in audit.ACCEPTED:
        assert entry.since
        assert len(entry.reason) > 20


@pytest.mark.long
@pytest.mark.parametrize("content", [{}, {"vulns": []}])
def test_a_mirror_that_knows_nothing_is_no_database(
    content: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    with database(lambda *_: content) as (url, asked):
        assert main(["--osv_url", url]) == 0
    assert asked == ["pyyaml"]
    (line,) = [line for line in capfd.readouterr().out.splitlines() if "NOT COMPARED" in line]
    assert "WITH LIVE DATA" in line
    assert "no weakness of pyyaml 5.3, which has some" in line


@pytest.mark.long
def test_a_database_that_cannot_be_reached(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--osv_url", "http://me:hidden@127.0.0.1:9/v1/query"]) == 0
    out, err = capfd.readouterr()
    assert "NOT COMPARED WITH LIVE DATA" in out
    assert "hidden" not in out + err


@pytest.mark.long
def test_a_database_that_never_answers_is_given_up(capfd: pytest.CaptureFixture[str]) -> None:
    with database(lambda *_: None) as (url, _):
        assert main(["--osv_url", url, "--canary_seconds", "2"]) == 0
    assert "no answer within 2 s" in capfd.readouterr().out


@pytest.mark.usefixtures("few")
def test_one_that_stops_answering_is_given_up_too(capfd: pytest.CaptureFixture[str]) -> None:
    def answer(name: str, version: str) -> dict[str, Any] | None:
        return knows_the_canary(name, version) or None

    with database(answer) as (url, _):
        assert main(["--osv_url", url, "--seconds", "2"]) == 0
    assert "NOT COMPARED WITH LIVE DATA" in capfd.readouterr().out


def test_what_a_database_does_not_know_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"dependencies": [{"name": "a", "skip_reason": "not found"}]}
    monkeypatch.setattr(audit, "usable", lambda *_: None)
    monkeypatch.setattr(audit, "ask", lambda *_: answer)
    found, text = audit.live({"a": Pin("a", "1")}, [["-s", "osv"]], 1, 1)
    assert found == []
    assert text == "0 versions compared with osv today; NOT COMPARED, unknown there: a"


def test_the_table() -> None:
    pins = locked()
    assert below_floors(pins) == []
    # Every line of it is about a version that could be locked.
    assert set(audit.FLOORS) <= set(pins)
    assert below_floors({"torch": Pin("torch", "2.9.1")})[0].advice == "2.12.1 or newer"
    assert not below_floors({"torch": Pin("torch", "2.13.0+cpu")})


def test_locked_versions_of_all_systems() -> None:
    pins = locked()
    assert {"nvidia-nccl-cu13", "pywin32", "pytest"} <= set(pins)
    assert all(pin.hashes and not pin.marker for pin in pins.values())


def test_locks_that_contradict_each_other(tmp_path: Path) -> None:
    for number, name in enumerate(audit.LOCKS):
        (tmp_path / name).write_text(f"a=={number}\n")
    with pytest.raises(ValueError, match="got a 0 and 1, expected one version"):
        locked(tmp_path)


def test_the_canary_is_older_than_what_is_locked() -> None:
    assert Version(audit.CANARY.version) < Version(locked()[audit.CANARY.name].version)
