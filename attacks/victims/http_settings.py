"""The settings of a classifier served over HTTP."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from text import check_range
from text.bounded_files import LINE_LIMIT, DataError, parse_json, read_text

REQUEST = '{"inputs": "{texts}"}'
"""The request of text-classification services that follow Hugging Face's inference interface."""
ANSWER = '[[{"label": "{label}", "score": "{score}"}]]'
"""Their answer."""
PROMPT = (
    "Classify the text. Answer with exactly one of these words, and with nothing else: {words}."
    "\n\nText: {text}"
)
_HEADER = re.compile(r"[A-Za-z0-9-]+")


@dataclass(frozen=True, kw_only=True)
class HttpSettings:
    r"""Requests, answers and patience of a classifier served over HTTP.

    Attributes:
        request: JSON of a request, or a file with it. "{texts}" means the list of texts (of
            pairs, a list of lists); "{text}" and "{text_pair}", also inside longer strings, for the
            texts of one sample, and then each request is about one.
        answer: JSON of the answer, or a file with it: the same shape, with "{scores}" for the
            numbers of all classes, or "{label}" and "{score}". A list with one element means any
            number of them: the texts (with "{texts}"), then the classes.
        outputs: kind of the scores.
        chat: name of the model; the address is then that of an OpenAI-style chat endpoint
            (`.../v1/chat/completions`), and request and answer are not used.
        prompt: question to the chat model, or a file with it; with {text}, {text_pair}, {words}.
        words: word that names each class in the answer of the chat model, in the order of the
            classes; the class names if not given.
        chat_scores: take scores from the log-probabilities of the first token of the chat's answer.
        unclear: class of a chat's answer that names no class, or several; an error if not given.
        per_request: texts of a request, where "{texts}" allows more than one.
        parallel: requests at the same time.
        per_second: requests per second at most; no limit if null.
        timeout: seconds to wait for an answer to begin, and for each further part of it.
        deadline: seconds for a whole answer, from the request to the last byte.
        tries: times that a request is sent before the attack stops.
        wait: seconds before the second try; doubled for each further one. A longer Retry-After of
            the server counts instead.
        longest_wait: seconds between two tries at most; a server that wants more ends the attack.
        budget: texts that the service may be asked about, in all starts together.
        token_variable: environment variable with the token of `Authorization: Bearer TOKEN`.
        headers: further headers. They are sent, and written nowhere.
    """

    request: str = REQUEST
    answer: str = ANSWER
    outputs: Literal["probabilities", "logits"] = "probabilities"
    chat: str | None = None
    prompt: str = PROMPT
    words: list[str] | None = None
    chat_scores: bool = False
    unclear: str | None = None
    per_request: int = 32
    parallel: int = 1
    per_second: float | None = None
    timeout: float = 60.0
    deadline: float = 300.0
    tries: int = 6
    wait: float = 1.0
    longest_wait: float = 300.0
    budget: int | None = None
    token_variable: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError for a number out of its range, or an invalid header."""
        counts = {"per_request": self.per_request, "parallel": self.parallel, "tries": self.tries}
        check_range({f"http.{name}": value for name, value in counts.items()}, least=1)
        check_range({"http.budget": self.budget}, least=1)
        check_range({"http.timeout": self.timeout, "http.deadline": self.deadline}, above=0)
        check_range({"http.per_second": self.per_second}, above=0)
        check_range({"http.wait": self.wait, "http.longest_wait": self.longest_wait}, least=0)
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(name) or not value.isprintable():
                msg = f"got header {name!r}, expected letters, digits and -, and a value in a line"
                raise ValueError(msg)


def template(setting: str, name: str) -> Any:
    """Return the JSON of a template, or of the file that holds it.

    Raises:
        ValueError: not JSON.
    """
    text = content(setting)
    try:
        return parse_json(text, "the template", "JSON")
    except DataError as error:
        msg = (
            f"got --http.{name} {setting[:80]!r}, which is not JSON ({error}), expected JSON such "
            f"as {REQUEST if name == 'request' else ANSWER}, or a file with it"
        )
        raise ValueError(msg) from error


def content(setting: str) -> str:
    """Return a text, or the content of the file that it names."""
    short = len(setting) < 256 and not set("{}\n") & set(setting)
    # A template has braces, and a path has none.
    is_path = short and Path(setting).is_file()
    return read_text(Path(setting), limit=LINE_LIMIT) if is_path else setting


def fill_in(template: Any, values: Mapping[str, Any]) -> Any:
    """Replace placeholders of a JSON value by the values of their names.

    A string that is a placeholder as a whole becomes the value; inside a longer string, strings are
    put in.
    """
    if isinstance(template, dict):
        return {key: fill_in(part, values) for key, part in template.items()}
    if isinstance(template, list):
        return [fill_in(part, values) for part in template]
    if not isinstance(template, str):
        return template
    # The whole string is a placeholder: its value may be a list.
    if template[:1] == "{" and template[-1:] == "}" and template[1:-1] in values:
        return values[template[1:-1]]
    return put_in(
        template, {name: value for name, value in values.items() if isinstance(value, str)}
    )


def put_in(template: str, values: Mapping[str, str]) -> str:
    """Replace placeholders of a string in one pass: texts may hold braces of their own."""
    if not values:
        return template
    names = "|".join(map(re.escape, values))
    return re.sub(f"{{({names})}}", lambda match: values[match[1]], template)
