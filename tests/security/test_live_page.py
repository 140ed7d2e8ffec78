"""Requests to the live page that are made to harm."""

import json
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.serve.serve_limits import ServeLimits
from tests.unit.app.serve.serving import JSON, TEXT, client, listening, live

ASKED = {"run": "olsa", "text": TEXT}
LIMITS = ServeLimits(characters=200, body=2000, queries=100, attacks=1, waiting_attacks=0)


@pytest.fixture(scope="module")
def site() -> Iterator[TestClient]:
    with client(LIMITS) as found:
        yield found


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "not JSON"),
        (b"{", 400, "not JSON"),
        (b"\xff\xfe", 400, "not JSON"),
        (b"[" * 1900, 400, "not JSON"),
        (b'{"run": ' + b"9" * 1900 + b"}", 400, "not JSON"),
        (b'{"run": 9}', 422, "a number as run"),
        (b"[]", 422, "got a list"),
        (b"null", 422, "got null"),
        (b'{"text": "good"}', 422, "got no run"),
        (b'{"run": "olsa", "text": ["good"]}', 422, "got a list as text"),
        (b'{"run": "olsa", "text": "good", "ckpt_path": "/tmp/x.ckpt"}', 422, "'ckpt_path'"),
        (b'{"run": "nowhere", "text": "good"}', 404, "expected one of olsa, plain, pairs"),
        (b'{"run": "../../etc", "text": "good"}', 404, "expected one of"),
        (b'{"run": "olsa", "text": " \\n "}', 422, "an empty text"),
        (b'{"run": "olsa", "text": "\\ud800"}', 400, "not JSON"),
        (b'{"run": "olsa", "text": "a", "text_pair": "b"}', 422, "single texts"),
        (b'{"run": "pairs", "text": "a"}', 422, "classifies pairs"),
        (b'{"run": "olsa", "text": "' + b"a" * 201 + b'"}', 413, "201 characters"),
        (b'{"run": "olsa", "text": "' + b"a" * 2000 + b'"}', 413, "more than 2000 bytes"),
    ],
)
def test_bodies(site: TestClient, body: bytes, status: int, message: str) -> None:
    for path in ("/api/predict", "/api/words"):
        answer = site.post(path, content=body, headers=JSON)
        assert answer.status_code == status, answer.text
        assert message in answer.json()["error"]
        assert len(answer.json()["error"]) < 300
    assert site.post("/api/predict", json=ASKED).status_code == 200


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"recipe": "textfooler"}, "expected one of deepwordbug"),
        ({"recipe": "/etc/passwd.yaml"}, "expected one of deepwordbug"),
        ({"queries": 0}, "expected 1 to 100"),
        ({"queries": 101}, "expected 1 to 100"),
        ({"queries": 1e9}, "expected a whole number"),
        ({"queries": True}, "expected a whole number"),
    ],
)
def test_attacks_that_are_not_offered(
    site: TestClient, field: dict[str, Any], message: str
) -> None:
    asked = {**ASKED, "recipe": "deepwordbug", **field}
    answer = site.post("/api/attack", json=asked)
    assert answer.status_code == 422
    assert message in answer.json()["error"]


@pytest.mark.parametrize(
    "media", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_other_content_types(site: TestClient, media: str) -> None:
    """Requests that a form of another site can send without a question of the browser."""
    answer = site.post("/api/predict", content=json.dumps(ASKED), headers={"Content-Type": media})
    assert answer.status_code == 415


def test_a_body_that_lies_about_its_length_or_has_none(site: TestClient) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 100

    assert site.post("/api/predict", content=parts(), headers=JSON).status_code == 413
    for length in ("-1", "x", "9" * 40):
        wrong = {**JSON, "Content-Length": length}
        assert site.post("/api/predict", content=b"{}", headers=wrong).status_code == 413


@pytest.mark.parametrize(
    "path",
    [
        *("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/live_page.html/../serve_command.py"),
        *("/serve_command.py", "/page/live_page.js", "//etc/passwd", "/live_page.css%00.py"),
        *("/static/..%2f..%2fpyproject.toml", "/runs/olsa/checkpoints/best.ckpt"),
    ],
)
def test_no_path_leads_out(path: str) -> None:
    with live(LIMITS) as made, listening(made) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 404
        assert json.loads(answer.read()) == {"error": "no such page"}


def test_other_sites_and_hosts(site: TestClient) -> None:
    refused = [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:8000"}, 421),
    ]
    for headers, status in refused:
        answer = site.post("/api/predict", json=ASKED, headers=headers)
        assert answer.status_code == status, headers
        assert not [name for name in answer.headers if name.startswith("access-control")]
    # A rebound name must not even read.
    assert site.get("/api/runs", headers={"Host": "evil.example"}).status_code == 421
    assert site.options("/api/predict", headers={"Origin": "http://a.b"}).status_code == 403
    own = {"Origin": "http://127.0.0.1:8000", "Host": "127.0.0.1:8000"}
    assert site.post("/api/predict", json=ASKED, headers=own).status_code == 200
    with client(hosts=["models.example"]) as named:
        assert named.get("/", headers={"Host": "models.example:80"}).status_code == 200


def test_too_many_requests() -> None:
    with client(ServeLimits(rate=5)) as site:
        found = [site.post("/api/predict", json=ASKED) for _ in range(8)]
        assert [one.status_code for one in found[:5]] == [200] * 5
        assert found[-1].status_code == 429
        assert int(found[-1].headers["Retry-After"]) > 0
        # Nobody gets another address by saying so.
        forged = {"X-Forwarded-For": "10.0.0.1", "Forwarded": "for=10.0.0.1"}
        assert site.post("/api/predict", json=ASKED, headers=forged).status_code == 429
        assert site.get("/").status_code == 200


def test_no_answer_in_time() -> None:
    with live(ServeLimits(seconds=1e-4)) as made, TestClient(made.app, "http://127.0.0.1") as site:
        assert site.post("/api/words", json=ASKED).status_code in (408, 504)


def test_html_in_texts_and_names_stays_text(site: TestClient) -> None:
    """It comes back as JSON that no browser takes for a page."""
    hostile = "<img src=x onerror=alert(1)>"
    answer = site.post("/api/predict", json={"run": "olsa", "text": hostile})
    assert answer.json()["text"] == hostile
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    unknown = site.post("/api/predict", json={"run": hostile, "text": "a"})
    assert unknown.headers["content-type"] == "application/json"


def test_a_client_that_leaves_ends_its_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    with live(LIMITS) as made, listening(made) as connection:
        victim = made.workers["plain"]._victim
        ask = victim.logits

        def slow(texts: Any) -> Any:
            time.sleep(0.02)
            return ask(texts)

        monkeypatch.setattr(victim, "logits", slow)
        asked = {"run": "plain", "text": "good film " * 20, "recipe": "deepwordbug"}
        body = json.dumps(asked)
        connection.request("POST", "/api/attack", body=body, headers=JSON)
        answer = connection.getresponse()
        assert json.loads(answer.readline())["event"] == "start"
        assert made.pool.busy == 1
        other = HTTPConnection(connection.host, connection.port)
        other.request("POST", "/api/attack", body=body, headers=JSON)
        assert other.getresponse().status == 503
        other.close()
        answer.close()
        connection.close()
        # It would take 100 questions.
        while made.pool.busy:
            time.sleep(0.01)
        connection.request("POST", "/api/attack", body=body, headers=JSON)
        assert connection.getresponse().status == 200


def test_nothing_that_is_sent_is_loaded() -> None:
    """No route reads a file, a pickle or a name of a class: these words are not in the code."""
    package = Path(__file__).parents[2] / "app" / "serve"
    names = ("live_routes", "explanations", "live_attacks", "model_worker", "api_fields")
    for name in (*names, "http_guard"):
        code = (package / f"{name}.py").read_text()
        for word in ("pickle", "import_module", "torch.load", "yaml", "eval(", "exec(", "open("):
            assert word not in code, name
