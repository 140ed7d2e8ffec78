"""The page and the API, asked without a network."""

import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from app.serve.api_description import ERRORS
from app.serve.explanations import describe_certificates
from app.serve.http_guard import HEADERS
from app.serve.live_routes import FILES, PAGE
from app.serve.serve_limits import ServeLimits
from measure.predictions import TextPredictor
from tests.unit.app.serve.serving import TEXT, client, events
from tests.unit.lit_modules.builders import attached, olsa


@pytest.fixture(scope="module")
def site() -> Iterator[TestClient]:
    with client(version="steadfast 1") as found:
        yield found


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


def test_the_models(site: TestClient) -> None:
    found = site.get("/api/runs").json()
    assert [run["name"] for run in found["runs"]] == ["olsa", "plain", "pairs"]
    assert [run["pairs"] for run in found["runs"]] == [False, False, True]
    assert found["runs"][0]["no_certificate"] is None
    assert "OLSA" in found["runs"][1]["no_certificate"]
    assert found["recipes"] == ["deepwordbug"]
    assert found["version"] == "steadfast 1"
    assert site.get("/api/texts?run=olsa").json()["texts"][0]["text"] == TEXT
    assert site.get("/api/texts?run=plain").json() == {"texts": []}
    assert site.get("/api/texts").status_code == 404


def test_an_answer_is_that_of_predict(site: TestClient) -> None:
    found = site.post("/api/predict", json={"run": "olsa", "text": TEXT}).json()
    sentence = found.pop("covers")
    (expected,) = TextPredictor(attached(olsa()).eval())([TEXT])
    assert found.pop("covers_radius") == sentence
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
    page = site.get("/api").text
    for path, methods in document["paths"].items():
        assert path in page
        for method, one in methods.items():
            assert set(one["responses"]) == {"200", *ERRORS}
            schema = next(iter(one["responses"]["200"]["content"].values()))["schema"]
            body = {"run": "olsa", "text": TEXT}
            if path.endswith("attack"):
                body["recipe"] = "deepwordbug"
            if method == "post":
                answer = site.post(path, json=body)
                found = events(answer.text)[-1]
                assert answer.headers["content-type"] in one["responses"]["200"]["content"]
                missing = set(schema["properties"]) - set(found)
                # The last two are of a model with a front end.
                assert missing <= {"word", "reads", "corrected"}
    fields = document["paths"]["/api/attack"]["post"]["requestBody"]["content"]
    assert fields["application/json"]["schema"]["required"] == ["run", "text", "recipe"]
