"""The fields of requests, as JSON Schema: one table that checks them and describes them."""

from collections.abc import Mapping
from typing import Any

from text import Text
from text.bounded_files import DataError, parse_json

Fields = Mapping[str, Mapping[str, Any]]
QUESTION: Fields = {
    "run": {"type": "string", "description": "name of the run"},
    "text": {"type": "string", "description": "the text"},
    "text_pair": {"type": "string", "description": "the second text, for a model of pairs"},
}
"""Of `predict` and `words`."""
ATTACK: Fields = {
    **QUESTION,
    "recipe": {"type": "string", "description": "name of the attack"},
    "queries": {"type": "integer", "description": "texts that the attack may query at most"},
}
"""Of `attack`."""
OPTIONAL = ("text_pair", "queries")


class RequestError(ValueError):
    """A request that the server refuses; the message names the wrong part and the expected one."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def parse_fields(body: bytes, fields: Fields) -> dict[str, Any]:
    """Return the fields of a request, whose body may have only these `fields`.

    Raises:
        RequestError: the body is not JSON, or has other fields.
    """
    try:
        request = parse_json(body, "the body", "JSON")
    except DataError as error:
        raise RequestError(400, "the body is not JSON in UTF-8, expected JSON") from error
    expected = ", ".join(f"{name} (optional)" if name in OPTIONAL else name for name in fields)
    if not isinstance(request, dict):
        raise RequestError(422, f"got {_name_type(request)}, expected an object with {expected}")
    if unknown := [name for name in request if name not in fields]:
        raise RequestError(422, f"got the field {unknown[0]!r:.80}, expected {expected}")
    for name, schema in fields.items():
        if name not in request:
            if name not in OPTIONAL:
                raise RequestError(422, f"got no {name}, expected {expected}")
            continue
        whole_number = schema["type"] == "integer"
        # Not isinstance: True is an int in Python, but not a number in JSON.
        if type(request[name]) is not (int if whole_number else str):
            kind = "a whole number" if whole_number else "a string"
            msg = f"got {_name_type(request[name])} as {name}, expected {kind}"
            raise RequestError(422, msg)
    return request


def read_text(request: Mapping[str, Any], *, pairs: bool, characters: int) -> Text:
    """Return the text, or the pair if `pairs`, of the fields of a request.

    Raises:
        RequestError: a text is empty or too long, or the number of texts is wrong.
    """
    if pairs != ("text_pair" in request):
        expected = "text and text_pair" if pairs else "text alone"
        kind = "pairs" if pairs else "single texts"
        raise RequestError(422, f"expected {expected}: the model classifies {kind}")
    texts = [request[name] for name in ("text", "text_pair") if name in request]
    for text in texts:
        if not text.strip():
            raise RequestError(422, "got an empty text, expected words")
        if len(text) > characters:
            msg = f"got a text of {len(text)} characters, expected at most {characters}"
            raise RequestError(413, msg)
    return texts[0] if len(texts) == 1 else (texts[0], texts[1])


def _name_type(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    return kinds.get(type(value), "null" if value is None else "a number")
