"""`serve`: the real program, its port, its end; and a real browser."""

import json
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from tests.faults.program import Piped
from tests.integration.conftest import Steadfast

TEXT = "the soup was fresh and the waiter was kind , but the coffee was cold and not good"
JSON = {"Content-Type": "application/json"}

LINES = """() => {
  const lines = (element) => {
    const range = document.createRange();
    range.selectNode(element.firstChild);
    return new Set([...range.getClientRects()].map((line) => line.top)).size;
  };
  const names = ".value, .probability, #slices td, .classes td:not(:last-child)";
  const numbers = document.querySelectorAll(names);
  return Math.max(...[...numbers].map(lines));
}"""
"""The most lines of a number on the page."""


@pytest.fixture
def serving(trained: Path) -> Iterator[tuple[Piped, int]]:
    """The program with the run `done` and a copy of it, and its port."""
    shutil.copytree(trained, trained.with_name("other"))
    program = Piped("serve", "--run=done", "--run=other", "--port=0", "--device=cpu")
    try:
        assert program.stdout is not None
        said = program.stdout.readline()
        found = re.fullmatch(r"done, other: http://127\.0\.0\.1:(\d+)/\n", said)
        assert found, (said, program.communicate())
        yield program, int(found[1])
    finally:
        program.kill()
        program.communicate()


def asked(stack: ExitStack, port: int, path: str, **body: Any) -> HTTPResponse:
    """The answer to a request; without a body it is a GET."""
    connection = stack.enter_context(closing(HTTPConnection("127.0.0.1", port)))
    content = json.dumps(body) if body else None
    connection.request("POST" if body else "GET", path, body=content, headers=JSON)
    return stack.enter_context(closing(connection.getresponse()))


def test_answers_and_the_end_by_sigterm(serving: tuple[Piped, int], steadfast: Steadfast) -> None:
    program, port = serving
    with ExitStack() as stack:
        ask = partial(asked, stack, port)
        _answers(ask, steadfast)
        # In the middle of an attack: its client is told.
        many = f"{TEXT} " * 20
        stream = ask("/api/attack", run="done", text=many, recipe="deepwordbug")
        assert json.loads(stream.readline())["event"] == "start"
        program.send_signal(signal.SIGTERM)
        last = stream.read().splitlines()[-1:]
        assert not last or json.loads(last[0])["event"] in ("stopped", "end")
    _, err = program.communicate()
    assert program.returncode == 143, err
    assert err.splitlines()[-1] == "stopped by SIGTERM"
    assert "Traceback" not in err


def _answers(ask: Callable[..., HTTPResponse], steadfast: Steadfast) -> None:
    assert ask("/ready").status == 200
    answer = json.loads(ask("/api/predict", run="done", text=TEXT).read())
    expected = json.loads(steadfast("predict", "--run=done", "--device=cpu", "--text", TEXT).out)
    assert answer["covers"]
    for name in ("prediction", "radius", "unknown", "cut"):
        assert answer[name] == (
            pytest.approx(expected[name]) if name == "radius" else expected[name]
        )
    texts = json.loads(ask("/api/texts?run=done").read())["texts"]
    assert {one["label"] for one in texts} == {"negative", "positive"}
    assert "steadfast_responses_total" in ask("/metrics").read().decode()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--run=nix"], "nix"),
        ([], "--run"),
        (["--run=done", "--run=done"], "expected each run once"),
        (["--run=done", "--port=70000"], "got --port 70000"),
        (["--run=done", "--host=192.0.2.1"], "got --host 192.0.2.1"),
        (["--run=done", "--recipes=nix"], "got recipe 'nix'"),
        (["--run=done", "--queries=0"], "queries"),
    ],
)
def test_wrong_settings(
    trained: Path, steadfast: Steadfast, words: list[str], message: str
) -> None:
    outcome = steadfast("serve", "--port=0", "--device=cpu", *words)
    assert outcome.status == 1
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_in_a_browser(serving: tuple[Piped, int], browser: Any) -> None:
    _, port = serving
    page = browser.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: foreign(request.url, port, wrong))
    page.goto(f"http://127.0.0.1:{port}/")
    opens_with_an_example(page)
    # By keyboard alone: the text, then Ctrl + Enter.
    page.get_by_label("Text", exact=True).fill(f"{TEXT} <b>bold</b>")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#status:has-text('done: ')")
    page.wait_for_selector(".panel[aria-busy]", state="detached")
    panels = page.query_selector_all("#results .panel")
    assert [one.get_attribute("aria-label") for one in panels] == ["done", "other"]
    first = panels[0]
    assert first.query_selector(".prediction").inner_text() in ("negative", "positive")
    assert first.query_selector(".covers").inner_text().startswith("Proved: ")
    # Text stays text.
    assert first.query_selector(".words").inner_text() == f"{TEXT} <b>bold</b>"
    assert first.query_selector(".words b") is None
    assert len(first.query_selector_all(".weights tbody tr")) == len(
        first.query_selector_all(".words .word")
    )
    first.query_selector("input[value=gradient]").check()
    assert "darker" in first.query_selector(".legend").inner_text()
    # The same by the link.
    link, said = page.url, first.query_selector(".verdict").inner_text()
    assert "beside=other" in link
    again = browser.new_page()
    again.goto(link)
    again.wait_for_selector(".panel[aria-label=done]:not([aria-busy])")
    assert again.query_selector(".panel[aria-label=done] .verdict").inner_text() == said
    again.close()
    # An attack to its end, and one that is stopped by Escape.
    attack = page.locator(".panel[aria-label=done]")
    assert attack.locator(".stop").is_hidden()
    attack.locator(".start").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".panel[aria-label=done] .start:visible")
    outcome = first.query_selector(".outcome").inner_text()
    assert outcome.startswith("The prediction ")
    queries = int(first.query_selector(".queries").inner_text())
    assert queries > 1
    changed = int(first.query_selector(".changed").inner_text().split()[0])
    assert bool(changed) == (first.query_selector(".after ins") is not None)
    first.query_selector(".start").click()
    page.keyboard.press("Escape")
    page.wait_for_selector(".panel[aria-label=done] .start:visible")
    assert wrong == []
    tries_examples(page)
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    # No number is broken.
    assert page.evaluate(LINES) == 1


def opens_with_an_example(page: Any) -> None:
    """A text of the corpus that the model classifies rightly, and what the model is."""
    page.wait_for_selector("#status:has-text('its class is')")
    page.wait_for_selector("#results .panel[aria-busy]", state="detached")
    label = re.search(r"its class is (\w+)\.", page.inner_text("#status"))
    assert label
    assert page.inner_text("#results .panel[aria-label=done] .prediction") == label[1]
    assert "classifies a text as negative or positive" in page.inner_text("#task")
    assert page.inner_text("#level strong")
    assert page.query_selector_all("#slices tbody tr")


def tries_examples(page: Any) -> None:
    """Tab, arrows and Enter reach the examples, the history and the link."""
    page.locator("#samples input").first.focus()
    page.keyboard.press("ArrowRight")
    assert "Wrong" in page.inner_text("#samples label:has(:checked)")
    page.keyboard.press("Tab")
    sample = page.evaluate("document.activeElement.innerText")
    page.keyboard.press("Enter")
    page.wait_for_selector("#status:has-text('its class is')")
    page.wait_for_selector("#results .panel[aria-busy]", state="detached")
    assert page.input_value("#text") == sample
    tried = page.locator("#history .text-button").all_inner_texts()
    assert tried[0] == sample
    assert any(TEXT in text for text in tried)
    page.locator("#history .clear").focus()
    page.keyboard.press("Enter")
    assert page.locator("#history").is_hidden()


def foreign(url: str, port: int, wrong: list[str]) -> None:
    """Notes a request to anybody else."""
    if not url.startswith(f"http://127.0.0.1:{port}/"):
        wrong.append(url)
