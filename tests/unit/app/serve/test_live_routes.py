"""The page and the API, asked without a network."""

import re
from collections.abc import Iterator
from functools import partial
from html import unescape
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient

from app.serve.api_fields import ERRORS
from app.serve.explanations import describe_certificates
from app.serve.http_guard import HEADERS
from app.serve.live_attacks import AttackPool
from app.serve.live_routes import FILES, PAGE, LiveApp
from app.serve.model_worker import ModelWorker, _Job
from app.serve.serve_limits import ServeLimits
from lit_modules import Detector, WordScores
from measure.certified_answers import ThreatCertifiers
from measure.predictions import TextPredictor
from tests.unit.app.serve.serving import TEXT, client, events, live
from tests.unit.lit_modules.builders import attached, olsa
from text import Text


@pytest.fixture(scope="module")
def site() -> Iterator[TestClient]:
    with client(version="steadfast 1") as found:
        yield found


@pytest.mark.long
def test_the_page_needs_nothing_from_elsewhere(site: TestClient) -> None:
    html = site.get("/").text
    named = re.findall(r'(?:src|href)="([^"#]+)"', html)
    assert named
    for path in named:
        assert site.get(path).status_code == 200
    for path in FILES:
        content = re.sub(r'xmlns="[^"]+"', "", site.get(path).text)
        assert "://" not in content, path
    # All that a policy without `unsafe-inline` would forbid.
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script>", html)


def test_text_never_becomes_html() -> None:
    script = (PAGE / "live_page.js").read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("GET", path) for path in FILES),
        ("GET", "/api"),
        ("GET", "/api/runs"),
        ("GET", "/nowhere"),
        ("POST", "/api/predict"),
        ("DELETE", "/"),
        ("GET", "/health"),
    ],
)
def test_every_answer_has_the_headers(site: TestClient, method: str, path: str) -> None:
    headers = site.request(method, path).headers
    for name, value in HEADERS.items():
        assert headers[name] == value
    policy = headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert not [name for name in headers if name.startswith("access-control")]
    assert "server" not in headers


def test_names_of_hosts_have_no_case() -> None:
    # As `--allow_host Guard.Example`: browsers write a name in small letters, other clients do not.
    with client(hosts=["Guard.Example"]) as site:
        for name in ("guard.example", "GUARD.example:8000", "Localhost:8000"):
            own = {"Host": name, "Origin": f"http://{name.lower()}"}
            body = {"run": "olsa", "text": "good"}
            assert site.post("/api/predict", json=body, headers=own).status_code == 200
        assert site.get("/api/runs", headers={"Host": "evil.example"}).status_code == 421


def test_the_models(site: TestClient) -> None:
    found = site.get("/api/runs").json()
    assert [run["name"] for run in found["runs"]] == ["olsa", "plain", "pairs"]
    assert [run["pairs"] for run in found["runs"]] == [False, False, True]
    assert found["runs"][0]["no_certificate"] is None
    assert "OLSA" in found["runs"][1]["no_certificate"]
    assert found["recipes"] == ["deepwordbug"]
    assert found["version"] == "steadfast 1"
    assert site.get("/api/texts?run=olsa").json()["texts"][0]["text"] == TEXT
    assert site.get("/api/texts?run=plain").json() == {"texts": [], "flips": []}
    assert site.get("/api/texts").status_code == 422
    assert site.get("/api/texts?run=nix").status_code == 404


def test_an_answer_is_that_of_predict(site: TestClient) -> None:
    found = site.post("/api/predict", json={"run": "olsa", "text": TEXT}).json()
    sentence = found.pop("covers")
    (expected,) = TextPredictor(attached(olsa()).eval())([TEXT])
    assert found.pop("covers_radius") == found.pop("headline") == sentence
    assert found.pop("certificates") == found.pop("read_pieces") == []
    assert found.keys() == expected.keys()
    assert found["prediction"] == expected["prediction"]
    assert sum(found["probabilities"].values()) == pytest.approx(1)
    assert found["radius"] > 0
    assert sentence.startswith("Proved: ")
    plain = site.post("/api/predict", json={"run": "plain", "text": TEXT}).json()
    assert plain["radius"] is None
    assert plain["covers"].startswith("Nothing is proved about this prediction: ")


def test_a_pair(site: TestClient) -> None:
    asked = {"run": "pairs", "text": "a man eats", "text_pair": "someone is eating"}
    assert site.post("/api/predict", json=asked).json()["text_pair"] == "someone is eating"
    words = site.post("/api/words", json=asked).json()
    assert ["".join(part["text"] for part in parts) for parts in words["texts"]] == [
        "a man eats",
        "someone is eating",
    ]
    found = events(site.post("/api/attack", json={**asked, "recipe": "deepwordbug"}).text)
    assert found[-1]["event"] == "end"
    assert len(found[-1]["texts"]) == 2


def test_the_sentence_never_says_more_than_is_proved() -> None:
    answer = {"radius": 0.47459999, "prediction": "good", "certificates": []}
    assert "less than 0.474," in describe_certificates(answer, None)
    assert "radius is 0" in describe_certificates({**answer, "radius": 0.0}, None)
    assert describe_certificates({**answer, "radius": None}, "a reason").endswith(": a reason.")


def test_words_that_decide(site: TestClient) -> None:
    found = site.post("/api/words", json={"run": "olsa", "text": TEXT}).json()
    (parts,) = found["texts"]
    assert "".join(part["text"] for part in parts) == TEXT
    words = [part for part in parts if part["word"]]
    assert [part["text"] for part in words] == TEXT.replace(",", "").split()
    assert found["tried"] == len(words)
    assert all(part["gradient"] > 0 for part in words)
    # Deletion, by hand: the third word.
    model = attached(olsa()).eval()
    with_it, without = model.predict_texts([TEXT, TEXT.replace("good ", "")]).tolist()
    chosen = model.require_text()[1].index(found["prediction"])

    def lead(row: list[float]) -> float:
        return row[chosen] - max(value for i, value in enumerate(row) if i != chosen)

    assert words[2]["deletion"] == pytest.approx(lead(with_it) - lead(without), abs=1e-5)


def test_only_so_many_words_are_tried() -> None:
    with client(ServeLimits(words=3)) as site:
        found = site.post("/api/words", json={"run": "olsa", "text": TEXT}).json()
        words = [part for part in found["texts"][0] if part["word"]]
        assert found["tried"] == 3
        assert [part["deletion"] is None for part in words] == [False] * 3 + [True] * 5
        nothing = site.post("/api/words", json={"run": "olsa", "text": "!?"}).json()
        assert nothing["texts"] == [[{"text": "!?", "word": False}]]


def test_an_attack(site: TestClient) -> None:
    asked = {"run": "plain", "text": TEXT, "recipe": "deepwordbug", "queries": 50}
    answer = site.post("/api/attack", json=asked)
    assert answer.headers["content-type"] == "application/x-ndjson"
    found = events(answer.text)
    assert found[0]["event"] == "start"
    assert found[-1]["event"] == "end"
    assert found[-1]["queries"] <= 50


def test_the_description_names_what_is_there(site: TestClient) -> None:
    document = site.get("/api/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert set(document["paths"]) == {
        f"/api/{name}" for name in ("runs", "texts", "predict", "words", "attack")
    }
    page, schemas = unescape(site.get("/api").text), document["components"]["schemas"]
    for path, methods in document["paths"].items():
        assert path in page
        for method, one in methods.items():
            assert set(one["responses"]) == {"200", *map(str, ERRORS)}
            if method != "post":
                continue
            body = {"run": "olsa", "text": TEXT}
            if path.endswith("attack"):
                body["recipe"] = "deepwordbug"
            answer = site.post(path, json=body)
            found = events(answer.text)[-1]
            content = one["responses"]["200"]["content"]
            schema = content[answer.headers["content-type"]]["schema"]
            name = schema.get("anyOf", [schema])[0]["$ref"].rpartition("/")[2]
            missing = set(schemas[name]["properties"]) - set(found)
            # Of a model of pairs, with a front end, or a detector.
            others = {"text_pair", "reads", "corrected", "score", "detected", "why"}
            assert missing <= {"word", *others}
            for field in schemas[name]["properties"].values():
                assert str(field.get("description", "")) in page
    assert schemas["AttackRequest"]["required"] == ["text", "recipe"]


def test_several_texts_are_one_request_and_each_counts() -> None:
    texts = [TEXT, "good", "bad"]
    with client(ServeLimits(texts=3, rate=10)) as site:
        ask = partial(site.post, "/api/predict")
        alone = ask(json={"run": "olsa", "text": "good"}).json()
        found = ask(json={"run": "olsa", "texts": texts}).json()["predictions"]
        assert [one["text"] for one in found] == texts
        assert found[1]["probabilities"] == pytest.approx(alone["probabilities"], abs=1e-6)
        assert ask(json={"run": "olsa", "texts": [*texts, "more"]}).status_code == 413
        sides = {"texts": ["a", "b"], "text_pairs": ["c", "d"]}
        found = ask(json={"run": "pairs", **sides}).json()["predictions"]
        assert [one["text_pair"] for one in found] == ["c", "d"]
        # 1 + 3 + 1 + 2 of 10 are gone: three more are allowed, a fourth is not.
        assert ask(json={"run": "olsa", "texts": texts}).status_code == 200
        refused = ask(json={"run": "olsa", "texts": texts})
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")


def test_a_request_has_at_most_as_many_texts_as_the_rate_allows() -> None:
    with client(ServeLimits(rate=3)) as site:
        assert site.get("/api/runs").json()["limits"]["texts"] == 3
        answer = site.post("/api/predict", json={"run": "olsa", "texts": ["good"] * 4})
        assert (answer.status_code, answer.json()["error"]) == (413, "got 4 texts, expected 1 to 3")
    with client(ServeLimits(rate=3)) as site:
        answer = site.post("/api/predict", json={"run": "olsa", "texts": ["good"] * 3})
        assert answer.status_code == 200


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"texts": []}, 413, "got 0 texts, expected 1 to 32"),
        ({"texts": ["a", 3]}, 422, "got a number as texts[1], expected a string"),
        ({"texts": ["a", " "]}, 422, "an empty text"),
        ({"texts": ["a"], "text": "a"}, 422, "got text and texts, expected one of text and texts"),
        ({}, 422, "got no text, expected one of text and texts"),
        ({"texts": ["a"], "text_pair": "b"}, 422, "got text_pair with texts, expected text_pairs"),
        ({"text": "a", "text_pairs": ["b"]}, 422, "got text_pairs with text, expected text_pair"),
        ({"texts": ["a"], "text_pairs": ["a"]}, 422, "single texts"),
        ({"run": "pairs", "texts": ["a"], "text_pairs": []}, 422, "1 texts and 0 text_pairs"),
    ],
)
def test_wrong_texts(site: TestClient, fields: dict[str, Any], status: int, message: str) -> None:
    answer = site.post("/api/predict", json={"run": "olsa", **fields})
    assert answer.status_code == status
    assert message in answer.json()["error"]


@pytest.mark.long
def test_a_single_model_needs_no_name(site: TestClient) -> None:
    assert "olsa, plain, pairs" in site.post("/api/predict", json={"text": "a"}).json()["error"]
    with live() as made:
        one = LiveApp({"olsa": made.workers["olsa"]}, made.pool, made.limits)
        with TestClient(one.app, "http://127.0.0.1") as client_of_one:
            assert client_of_one.post("/api/predict", json={"text": "a"}).status_code == 200
            assert client_of_one.get("/api/texts").status_code == 200


def test_ready_while_the_models_take_requests() -> None:
    with live() as made, TestClient(made.app, "http://127.0.0.1") as site:
        assert site.get("/ready").status_code == 200
        made.workers["plain"].close()
        answer = site.get("/ready")
        assert (answer.status_code, answer.json()["error"][:6]) == (503, "plain:")
        # Alive all the same: to start it anew is another decision.
        assert site.get("/health").status_code == 200


def test_metrics_count_and_have_no_texts() -> None:
    with client(ServeLimits(rate=3)) as site:
        for text in ("secretword", "good", ""):
            site.post("/api/predict", json={"run": "olsa", "text": text})
        site.post("/api/predict", json={"run": "olsa", "text": "good"})
        site.get("/secretpath")
        lines = site.get("/metrics").text.splitlines()
    responses = 'steadfast_responses_total{path="/api/predict",status='
    for status, count in ((200, 2), (422, 1), (429, 1)):
        assert f'{responses}"{status}"}} {count}' in lines
    assert 'steadfast_responses_total{path="other",status="404"} 1' in lines
    assert 'steadfast_response_seconds_bucket{path="/api/predict",le="+Inf"} 4' in lines
    assert 'steadfast_texts_total{run="olsa"} 2' in lines
    assert "secret" not in "".join(lines)
    samples = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r'[a-z_]+(\{([a-z]+="[^"]*",?)+\})? [0-9.e+-]+', s) for s in samples)


def test_errors_of_the_program_count_and_have_the_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    with live() as made, TestClient(made.app, "http://127.0.0.1", False) as site:
        one = made.workers["plain"]
        model, texts = one.model, ["good", "broken", "bad"]
        predict = model.predict_texts

        def fail(batch: list[Text]) -> torch.Tensor:
            if "broken" in batch:
                raise RuntimeError
            return predict(batch)

        monkeypatch.setattr(model, "predict_texts", fail)
        answer = site.post("/api/predict", json={"run": "plain", "text": "broken"})
        assert answer.status_code == 500
        assert answer.headers["x-content-type-options"] == "nosniff"
        # Of one batch: each text counts once, and one that failed does not.
        one._resolve([_Job(texts=[text]) for text in texts])
        lines = site.get("/metrics").text.splitlines()
    assert 'steadfast_responses_total{path="/api/predict",status="500"} 1' in lines
    assert 'steadfast_texts_total{run="plain"} 2' in lines


def test_a_detector_decides_and_counts() -> None:
    torch.manual_seed(0)
    scores = attached(lambda: WordScores(min_ngram_count=1), classes=2).eval()
    with torch.no_grad():
        next(scores.parameters()).normal_()
    plain_logits = scores.predict_texts(["good", "bad"])
    threshold = float((plain_logits[:, 1] - plain_logits[:, 0]).mean())
    scores.fold(Detector("class 1", threshold, 0.01, 0.9, negatives=100, positives=10))
    one = ModelWorker("guard", TextPredictor(scores, ThreatCertifiers.of_model(scores)))
    pool = AttackPool({}, ServeLimits())
    try:
        made = LiveApp({"guard": one}, pool, ServeLimits())
        with TestClient(made.app, "http://127.0.0.1") as client:
            body = {"texts": ["good", "bad"]}
            answers = client.post("/api/predict", json=body).json()["predictions"]
            (run,) = client.get("/api/runs").json()["runs"]
            lines = client.get("/metrics").text.splitlines()
    finally:
        pool.close()
        one.close()
    assert run["detector"]["threshold"] == threshold
    assert sorted(answer["detected"] for answer in answers) == [False, True]
    for answer, row in zip(answers, plain_logits, strict=True):
        score = float(row[1] - row[0])
        assert answer["score"] == pytest.approx(score - threshold, abs=1e-5)
        assert answer["detected"] == (score > threshold) == (answer["prediction"] == "class 1")
        # Of the model as it was trained, not of the shifted logits.
        assert answer["probabilities"]["class 1"] == pytest.approx(float(row.softmax(0)[1]))
        assert [word for word, _ in answer["why"]] == ([answer["text"]] if score > 0 else [])
    for detected in ("true", "false"):
        assert f'steadfast_decisions_total{{run="guard",detected="{detected}"}} 1' in lines


def test_texts_of_the_corpus_have_outcomes(site: TestClient) -> None:
    (sample,) = site.get("/api/texts?run=olsa").json()["texts"]
    answer = site.post("/api/predict", json={"run": "olsa", "text": TEXT}).json()
    assert sample == {"text": TEXT, "label": "bad", "prediction": answer["prediction"]}
