"""Victims behind HTTP, against a server on this machine that is slow, flaky and lying."""

import email.utils
import json
import math
import re
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attacks
from attacks.composition import Attack
from attacks.search import Greedy, RandomSearch
from attacks.transformations import DeleteCharacter
from attacks.victims.answers_by_template import AnswerError
from attacks.victims.chat import ChatExchange
from attacks.victims.http_settings import HttpSettings
from attacks.victims.http_transport import Transport, retry_after
from attacks.victims.http_victim import HttpVictim
from attacks.victims.kinds import InvalidAnswers, VictimError
from attacks.victims.labels_only import LabelVictim, check_search
from tests.unit.attacks.victims.service import Answer, Service, pipeline, positive, serving

CLASSES = ["neg", "pos"]
TEXTS = ["a good film", "a bad film", "good, good, good", "so so"]
QUICK = {"wait": 0.001, "timeout": 5.0}


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def service() -> Iterator[Service]:
    with serving(Service()) as made:
        yield made


def victim(service: Service, cache: Path | None = None, **settings: Any) -> HttpVictim:
    return HttpVictim(service.url, CLASSES, HttpSettings(**{**QUICK, **settings}), cache=cache)


def close(one: HttpVictim, texts: list[str], wanted: Any) -> None:
    found: Any = one.probabilities(texts)
    np.testing.assert_allclose(found, wanted)


def expected(texts: list[str]) -> Any:
    return np.array([[1 - positive(text), positive(text)] for text in texts])


def test_batches_and_never_asks_twice(service: Service, tmp_path: Path) -> None:
    one = victim(service, tmp_path / "answers.jsonl", per_request=3)
    close(one, [*TEXTS, TEXTS[0]], expected([*TEXTS, TEXTS[0]]))
    np.testing.assert_allclose(one.logits(TEXTS), np.log(expected(TEXTS)))
    assert [len(body["inputs"]) for body in service.bodies] == [3, 1]
    one.close()
    again = victim(service, tmp_path / "answers.jsonl")
    close(again, TEXTS, expected(TEXTS))
    assert len(service.bodies) == 2


def test_a_torn_line_of_the_cache_is_asked_again(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    one = victim(service, path, per_request=1)
    one.logits(TEXTS)
    one.close()
    path.write_bytes(path.read_bytes()[:-9])
    again = victim(service, path)
    close(again, TEXTS, expected(TEXTS))
    assert service.answered == [*TEXTS, TEXTS[-1]]


def test_a_text_that_cannot_be_read_back_costs_no_answer(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    one = victim(service, path, per_request=1)
    one.logits(["half \ud800", *TEXTS, "half \ud800"])
    assert len(service.bodies) == 1 + len(TEXTS)
    one.close()
    again = victim(service, path)
    close(again, TEXTS, expected(TEXTS))
    assert len(service.bodies) == 1 + len(TEXTS)


def test_a_cache_of_another_victim_is_refused(service: Service, tmp_path: Path) -> None:
    victim(service, tmp_path / "answers.jsonl").close()
    with pytest.raises(ValueError, match=r"answers of another victim \(outputs"):
        victim(service, tmp_path / "answers.jsonl", outputs="logits")


def test_flaky_server_gives_the_same_answers(service: Service) -> None:
    def spoil(number: int, answer: Answer) -> Answer:
        return {
            1: (503, {}, b"busy"),
            2: (0, {}, b""),
            3: (200, {}, b"<html>oops"),
            4: (200, {}, answer[2][: len(answer[2]) // 2]),
            5: (200, {}, b"[]"),
        }.get(number, answer)

    service.spoil = spoil
    one = victim(service, tries=6)
    close(one, TEXTS, expected(TEXTS))
    assert len(service.bodies) == 6


def test_answers_before_a_failure_are_kept(service: Service) -> None:
    service.spoil = lambda number, answer: answer if number < 3 else (500, {}, b"down")
    one = victim(service, per_request=1, tries=2)
    with pytest.raises(
        VictimError, match=r"2 tries, the last: status 500 .*down.*--http.tries"
    ) as error:
        one.logits(TEXTS)
    # The command that resumes says so.
    assert "resumes" not in str(error.value)
    service.spoil = lambda _, answer: answer
    close(one, TEXTS, expected(TEXTS))
    assert service.answered == TEXTS


def test_requests_at_the_same_time(service: Service) -> None:
    together = threading.Barrier(2, timeout=10)
    service.after = lambda _: [together.wait()].clear()
    one = victim(service, per_request=2, parallel=2)
    close(one, TEXTS, expected(TEXTS))


def test_a_failure_stops_the_others_and_keeps_their_answers(service: Service) -> None:
    def spoil(number: int, answer: Answer) -> Answer:
        return (
            (400, {}, b"no")
            if b"0." in answer[2] and "bad" in str(service.bodies[number - 1])
            else answer
        )

    service.spoil = spoil
    one = victim(service, per_request=1, parallel=2)
    with pytest.raises(VictimError, match="status 400"):
        one.logits(TEXTS)
    assert "a bad film" not in service.answered
    assert all(text in one.cache for text in service.answered)


def test_a_slow_server_is_given_up(service: Service) -> None:
    service.delay = 0.3
    with pytest.raises(VictimError, match=r"no usable answer in 2 tries, the last: .*timed out"):
        victim(service, timeout=0.05, tries=2).logits(TEXTS)


class Clock:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.now, self.slept = 100.0, [0.0][:0]

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.now += seconds

    def __call__(self) -> float:
        return self.now


def transport(service: Service, clock: Clock, **settings: Any) -> Transport:
    return Transport(service.url, HttpSettings(**settings), sleep=clock.sleep, clock=clock)


def test_waits_double_and_the_server_may_ask_for_more(service: Service) -> None:
    service.spoil = lambda number, answer: (
        answer if number == 5 else (429, {"Retry-After": "7"} if number == 3 else {}, b"")
    )
    clock = Clock()
    transport(service, clock, wait=1.0).post({"inputs": TEXTS}, lambda answer: answer)
    assert clock.slept == [1.0, 2.0, 7.0, 8.0]


def test_a_server_that_asks_for_too_long_ends_the_attack(service: Service) -> None:
    service.spoil = lambda *_: (429, {"Retry-After": "4000"}, b"quota")
    with pytest.raises(VictimError, match=r"asks to wait 4000 s.*longest_wait 300"):
        transport(service, Clock()).post({"inputs": TEXTS}, lambda answer: answer)


def test_retry_after_may_be_a_date() -> None:
    when = email.utils.formatdate(time.time() + 60, usegmt=True)
    assert 55 < retry_after(when) <= 60
    assert retry_after("soon") == 0
    assert retry_after(None) == 0


def test_requests_keep_their_distance(service: Service) -> None:
    clock = Clock()
    one = transport(service, clock, per_second=4.0)
    for _ in range(3):
        one.post({"inputs": TEXTS}, lambda answer: answer)
    assert clock.slept == [0.25, 0.25]


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_refusal_is_not_repeated(service: Service, status: int) -> None:
    service.spoil = lambda *_: (status, {}, b"wrong key")
    with pytest.raises(VictimError, match=f"status {status} .*wrong key"):
        victim(service).logits(TEXTS)
    assert len(service.bodies) == 1


def test_a_redirect_gets_neither_texts_nor_token(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret")
    service.spoil = lambda *_: (307, {"Location": service.url + "/other"}, b"")
    with pytest.raises(VictimError, match="redirects are not followed"):
        victim(service, token_variable="MY_TOKEN").logits(TEXTS)
    assert len(service.bodies) == 1
    assert service.headers[0]["Authorization"] == "Bearer secret"


LIES = {
    "no probabilities": (
        [[{"label": "pos", "score": 3}, {"label": "neg", "score": 1}]],
        "sum to 4",
    ),
    "negative": ([[{"label": "pos", "score": 1.5}, {"label": "neg", "score": -0.5}]], "sum to 1)"),
    "unknown label": ([[{"label": "good", "score": 1}]], "got label 'good', expected one of neg"),
    "one class": ([[{"label": "pos", "score": 1}]], "got no score of neg"),
    "text": ([[{"label": "pos", "score": "1"}, {"label": "neg", "score": 0}]], "score '1'"),
    "NaN": ([[{"label": "pos", "score": float("nan")}, {"label": "neg", "score": 0}]], "score nan"),
    "another shape": ([{"pos": 1}], "expected a list of classes"),
    "too many": ([[], []], "got 2 answers to 1 text"),
    "an error": ({"error": "loading"}, "expected one for each: {'error': 'loading'}"),
}


@pytest.mark.parametrize(("answer", "message"), LIES.values(), ids=LIES)
def test_lies_are_errors(service: Service, answer: Any, message: str) -> None:
    service.answers = lambda _: answer
    one = victim(service, tries=2)
    with pytest.raises(VictimError) as error:
        one.logits(["a good film"])
    assert message in str(error.value)
    assert len(one.cache) == 0


def test_the_budget_counts_all_starts(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    one = victim(service, path, budget=3)
    with pytest.raises(VictimError, match="budget of 3 texts is used up"):
        one.logits(TEXTS)
    one.close()
    with pytest.raises(VictimError, match="used up"):
        victim(service, path, budget=3).logits(TEXTS)
    assert service.answered == TEXTS[:3]
    close(victim(service, path, budget=4), TEXTS, expected(TEXTS))


TEMPLATES = {
    "scores": ('{"t": "{texts}"}', '{"rows": ["{scores}"]}', {"rows": [[0.25, 0.75]]}),
    "by name": ('{"t": "{texts}"}', '["{scores}"]', [{"POS": 0.75, "Neg": 0.25}]),
    "nested": (
        '{"t": "{texts}"}',
        '{"r": [{"p": {"c": [{"n": "{label}", "s": "{score}"}]}}]}',
        {"r": [{"p": {"c": [{"n": "LABEL_1", "s": 0.75}, {"n": 0, "s": 0.25}]}}]},
    ),
    "one text": ('{"t": "{text}"}', '{"p": "{scores}"}', {"p": [0.25, 0.75]}),
    "top label": ('{"t": "{text}"}', '{"l": "{label}", "s": "{score}"}', {"l": "pos", "s": 0.75}),
}


@pytest.mark.parametrize(("request_", "answer", "given"), TEMPLATES.values(), ids=TEMPLATES)
def test_templates(service: Service, request_: str, answer: str, given: Any) -> None:
    service.answers = lambda _: given
    one = victim(service, request=request_, answer=answer)
    close(one, ["x"], [[0.25, 0.75]])


def test_places_inside_strings_take_texts_as_they_are(service: Service) -> None:
    service.answers = lambda _: [0.25, 0.75]
    text = 'say "{text_pair}" \\ {text}'
    one = victim(service, request='{"q": "A: {text} B: {text_pair}"}', answer='"{scores}"')
    one.logits([(text, "b")])
    assert service.bodies == [{"q": f"A: {text} B: b"}]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"request": "{"}, "--http.request '{', which is not JSON"),
        ({"request": '{"a": 1}'}, "without a place for the text"),
        ({"answer": '{"a": 1}'}, 'without "{scores}" or "{label}"'),
        ({"answer": '"{scores}"'}, "without a list for the texts"),
        ({"answer": '[["{scores}"]]'}, "with more lists than texts and classes"),
        ({"answer": '[{"a": "{scores}", "b": "{label}"}]'}, 'with "{scores}" and "{label}"'),
        ({"tries": 0}, "http.tries"),
        ({"headers": {"a b": "c"}}, "got header"),
        ({"token_variable": "NOT_THERE"}, "which is not set"),
    ],
)
def test_settings_without_sense_are_refused(
    service: Service, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=r".*") as error:
        victim(service, **settings)
    assert message in str(error.value)


def test_other_addresses_are_refused() -> None:
    for url in ("file:///etc/passwd", "ftp://host/x", "http://user:word@host/"):
        with pytest.raises(ValueError, match="expected"):
            HttpVictim(url, CLASSES)


def chat(said: str) -> Any:
    return {"choices": [{"message": {"role": "assistant", "content": said}}]}


@pytest.mark.parametrize("said", ["pos", "  POS.", "The class is pos", '{"class": "pos"}'])
def test_chat_names_a_class(service: Service, said: str) -> None:
    service.answers = lambda _: chat(said)
    one = victim(service, chat="model-1")
    assert one.labels_only
    assert one.logits(["a good film"]).tolist() == [[0, 1]]
    (body,) = service.bodies
    assert body["model"] == "model-1"
    assert body["temperature"] == 0
    assert "neg, pos" in body["messages"][0]["content"]
    assert "a good film" in body["messages"][0]["content"]


def test_a_longer_word_that_holds_a_shorter_one() -> None:
    exchange = ChatExchange(HttpSettings(chat="m", words=["positive", "not positive"]), CLASSES)
    assert exchange.rows(chat("Not positive!"), ["x"]) == [[0, 1]]
    assert exchange.rows(chat("positive"), ["x"]) == [[1, 0]]


@pytest.mark.parametrize("said", ["I cannot say", "pos or neg", "possibly"])
def test_unclear_answers_of_a_chat(service: Service, said: str) -> None:
    service.answers = lambda _: chat(said)
    with pytest.raises(VictimError, match=r"which names (no class|several), expected one of"):
        victim(service, chat="m").logits(["x"])
    assert victim(service, chat="m", unclear="neg").logits(["x"]).tolist() == [[1, 0]]


def test_an_answer_without_content_is_not_the_class_none() -> None:
    # A refusal, or a call of a tool.
    answer = {"choices": [{"message": {"content": None, "refusal": "I cannot help"}}]}
    settings = HttpSettings(chat="m", words=["toxic", "none"])
    with pytest.raises(AnswerError, match="names no class"):
        ChatExchange(settings, ["toxic", "none"]).rows(answer, ["x"])
    unclear = replace(settings, unclear="toxic")
    assert ChatExchange(unclear, ["toxic", "none"]).rows(answer, ["x"]) == [[1, 0]]


def test_scores_of_a_chat_by_its_first_token() -> None:
    settings = HttpSettings(chat="m", words=["negative", "positive"], chat_scores=True)
    top = [(" pos", np.log(0.6)), ("Positive", np.log(0.1)), ("neg", np.log(0.2)), ("the", -9.0)]
    answer = {
        "choices": [
            {
                "message": {"content": "positive"},
                "logprobs": {
                    "content": [{"top_logprobs": [{"token": t, "logprob": p} for t, p in top]}]
                },
            }
        ]
    }
    rows: Any = ChatExchange(settings, CLASSES).rows(answer, ["x"])
    ((negative, positive_),) = rows
    assert (negative, positive_) == pytest.approx((0.2 / 0.9, 0.7 / 0.9))
    with pytest.raises(AnswerError, match="top_logprobs"):
        ChatExchange(settings, CLASSES).rows(chat("positive"), ["x"])


def test_searches_by_scores_are_refused_where_there_are_none(service: Service) -> None:
    service.answers = lambda body: [
        "pos" if positive(text) > 0.5 else "neg" for text in body["inputs"]
    ]
    one = victim(service, answer='["{label}"]')
    samples = [("a good film", 1), ("a bad plot, badly made", 0)]
    greedy = Attack(name="greedy", transformation=DeleteCharacter(), search=Greedy())
    with pytest.raises(VictimError, match="gives no scores: its search follows scores"):
        attacks.attack(one, samples, recipe=greedy)
    tried = Attack(name="tries", transformation=DeleteCharacter(), search=RandomSearch())
    outcome = attacks.attack(one, samples, recipe=tried, progress=False)
    assert outcome.summary.success_rate is not None
    assert outcome.summary.success_rate.value > 0


def test_functions_of_labels() -> None:
    one = LabelVictim(
        lambda texts: ["pos" if "good" in text else np.int64(0) for text in texts], classes=CLASSES
    )
    assert one.logits(["good", "other"]).tolist() == [[0, 1], [1, 0]]
    search = Attack(name="greedy", transformation=DeleteCharacter(), search=Greedy())
    with pytest.raises(VictimError, match="gives no scores"):
        check_search(search, one)
    with pytest.raises(VictimError, match="got 1 labels to 2"):
        LabelVictim(lambda _: ["pos"], classes=CLASSES).logits(["a", "b"])


def test_a_journal_of_a_service_goes_on_without_a_question(
    service: Service, tmp_path: Path
) -> None:
    samples = [("a good film", 1), ("a good and good plot", 1), ("all good", 1)]
    greedy = Attack(name="greedy", transformation=DeleteCharacter(), search=Greedy())

    def run(count: int) -> list[dict[str, Any]]:
        one = victim(service, tmp_path / "answers.jsonl")
        found = attacks.attack(
            one, samples[:count], recipe=greedy, path=tmp_path / "journal.jsonl", progress=False
        )
        one.close()
        return [{**record.line(), "seconds": 0} for record in found.records]

    first = run(2)
    asked = len(service.answered)
    assert run(2) == first
    assert len(service.answered) == asked
    assert run(3)[:2] == first
    assert len(set(service.answered)) == len(service.answered)
    assert "secret" not in json.dumps(first)


def dripping(head: bytes, drop: bytes) -> Iterator[str]:
    """Runs a server that sends a byte now and then, for ever; yields its address."""
    stop = threading.Event()

    class Drip(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)
            with suppress(OSError):
                self.request.sendall(head)
                while not stop.wait(0.02):
                    self.request.sendall(drop)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Drip) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        stop.set()
        server.shutdown()


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nX: ",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n",
        b"HTTP/1.1 500 Down\r\n\r\n",
        b"HTTP/1.1 401 No\r\nContent-Length: 99999\r\n\r\n",
    ],
    ids=["status", "headers", "content", "content of known length", "500", "401"],
)
def test_an_answer_byte_by_byte_ends_at_the_deadline(head: bytes) -> None:
    with contextmanager(dripping)(head, b" ") as url:
        settings = HttpSettings(timeout=30, deadline=0.3, tries=1)
        with pytest.raises(VictimError, match=r"no whole answer in 0\.3 s \(--http\.deadline\)"):
            HttpVictim(url, CLASSES, settings).logits(["x"])


@pytest.mark.parametrize(
    "logarithms",
    [[math.nan, -1.0], [math.inf, -1.0], [-math.inf, -math.inf], [1000.0, -1.0], ["nan", -1.0]],
)
def test_log_probabilities_that_are_none(
    service: Service, tmp_path: Path, logarithms: list[Any]
) -> None:
    top = [{"token": t, "logprob": p} for t, p in zip(("pos", "neg"), logarithms, strict=True)]
    choice = {"message": {"content": "pos"}, "logprobs": {"content": [{"top_logprobs": top}]}}
    service.answers = lambda _: {"choices": [choice]}
    for start in (1, 2):  # no numbers are kept, and the next start asks again
        one = victim(service, tmp_path / "a.jsonl", chat="m", chat_scores=True)
        with pytest.raises(InvalidAnswers, match=r"got (score|log-probability)"):
            one.logits(["x"])
        assert (len(one.cache), one.cache.asked, len(service.bodies)) == (0, start, start)
        one.close()


def test_small_log_probabilities_are_shares() -> None:
    top = [{"token": t, "logprob": p} for t, p in (("pos", -2000.0), ("neg", -2001.0))]
    choice = {"message": {"content": "pos"}, "logprobs": {"content": [{"top_logprobs": top}]}}
    exchange = ChatExchange(HttpSettings(chat="m", chat_scores=True), CLASSES)
    rows: Any = exchange.rows({"choices": [choice]}, ["x"])
    ((negative, positive_),) = rows
    assert positive_ / negative == pytest.approx(math.e)


def test_invalid_answers_on_disk_are_asked_for_again(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    first = victim(service, path)
    first.logits(TEXTS[:1])
    first.close()
    lines = [
        {"text": text, "row": row}
        for text, row in zip(TEXTS[1:3], ([math.nan, 0.5], [0.5]), strict=True)
    ]
    with path.open("a") as stream:
        stream.writelines(json.dumps(line) + "\n" for line in lines)
    close(victim(service, path), TEXTS[:3], expected(TEXTS[:3]))
    assert service.answered == TEXTS[:3]
    close(victim(service, path), TEXTS[:3], expected(TEXTS[:3]))
    assert service.answered == TEXTS[:3]


def test_an_invalid_answer_leaves_those_to_other_texts(service: Service) -> None:
    def answers(body: Any) -> Any:
        rows = pipeline(body["inputs"])
        for text, row in zip(body["inputs"], rows, strict=True):
            row[0]["score"] = row[0]["score"] if text != TEXTS[1] else math.nan
        return rows

    service.answers = answers
    one = victim(service)
    with pytest.raises(InvalidAnswers, match="score nan") as error:
        one.logits(TEXTS)
    assert list(error.value.reasons) == [TEXTS[1]]
    rest = [text for text in TEXTS if text != TEXTS[1]]
    asked = len(service.bodies)
    close(one, rest, expected(rest))
    with pytest.raises(InvalidAnswers):
        one.logits(TEXTS)
    assert len(service.bodies) == asked


def test_texts_are_asked_about_again_within_the_budget(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    one = victim(service, path, budget=3)
    first = one.logits(TEXTS[:2])
    service.answers = lambda body: pipeline(["bad"] * len(body["inputs"]))
    again = one.again(TEXTS[:1])
    assert again is not None
    assert again.argmax() == 0
    assert one.logits(TEXTS[:2]).tolist() == first.tolist()
    assert one.again(TEXTS[:1]) is None
    one.close()
    later = victim(service, path, budget=3)
    assert later.logits(TEXTS[:2]).tolist() == first.tolist()
    assert later.again(TEXTS[:1]) is None


def test_invalid_answers_count_in_the_budget_of_all_starts(
    service: Service, tmp_path: Path
) -> None:
    path = tmp_path / "answers.jsonl"
    one = victim(service, path, budget=4)
    one.logits(TEXTS[:1])
    service.answers = lambda _: [[{"label": "pos", "score": math.nan}]]
    with pytest.raises(InvalidAnswers, match="no score of neg"):
        one.again(TEXTS[:1])
    with pytest.raises(InvalidAnswers, match="no score of neg"):
        one.logits(TEXTS[1:2])
    one.close()
    later = victim(service, path, budget=4)
    with pytest.raises(InvalidAnswers):
        later.again(TEXTS[:1])
    assert later.again(TEXTS[:1]) is None
    with pytest.raises(VictimError, match="budget of 4 texts is used up"):
        later.logits(TEXTS)
    assert len(service.bodies) == 4


def test_secrets_are_written_nowhere(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "tok-0123456789")
    service.spoil = lambda *_: (403, {}, b"x" * 190 + b"tok-0123456789 key-abcdefgh hid-abcdefgh")
    settings = HttpSettings(token_variable="MY_TOKEN", headers={"X-Key": "hid-abcdefgh"})
    path = tmp_path / "answers.jsonl"
    one = HttpVictim(f"{service.url}?key=key-abcdefgh", CLASSES, settings, cache=path)
    with pytest.raises(VictimError, match="status 403") as error:
        one.logits(["x"])
    service.spoil = lambda _, answer: (200, {}, b'[[{"label": "tok-0123456789", "score": 1}]]')
    with pytest.raises(VictimError, match=r"got label '\*\*\*'") as other:
        one.logits(["y"])
    written = f"{error.value} {other.value} {one.about()} {path.read_text()}"
    assert not re.search("tok-0|key-a|hid-a", written)
    assert service.url in str(error.value)
