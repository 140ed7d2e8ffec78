"""The fields of requests: one table that checks them, and that describes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from text import Text
from text.bounded_files import DataError, parse_json


class RequestError(ValueError):
    """A request that cannot be answered.

    Args:
        status: of HTTP.
        message: what came and what is expected.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field of a request.

    Attributes:
        about: what it is.
        number: True for a whole number, False for a string.
        required: False if it may be left out.
    """

    about: str
    number: bool = False
    required: bool = True


RUN = Field(about="name of the run")
TEXT = Field(about="the text")
PAIR = Field(about="the second text, for a model of pairs", required=False)
ASKED: Mapping[str, Field] = {"run": RUN, "text": TEXT, "text_pair": PAIR}
"""Of `predict` and `words`."""
ATTACKED: Mapping[str, Field] = {
    **ASKED,
    "recipe": Field(about="name of the attack"),
    "queries": Field(about="texts that the model may be asked about", number=True, required=False),
}
"""Of `attack`."""


def parsed(body: bytes, fields: Mapping[str, Field]) -> dict[str, Any]:
    """Returns the fields of a request.

    Args:
        body: JSON.
        fields: all that it may have, by name.

    Raises:
        RequestError: no JSON, or other fields.
    """
    try:
        given = parse_json(body, "the body", "JSON")
    except DataError as error:
        raise RequestError(400, "got a body that is no JSON in UTF-8, expected JSON") from error
    if not isinstance(given, dict):
        raise RequestError(422, f"got {_kind(given)}, expected an object with {_all(fields)}")
    if strange := [name for name in given if name not in fields]:
        raise RequestError(422, f"got the field {strange[0]!r:.80}, expected {_all(fields)}")
    for name, field in fields.items():
        if name not in given:
            if field.required:
                raise RequestError(422, f"got no {name}, expected {_all(fields)}")
            continue
        value = given[name]
        right = isinstance(value, str)
        if field.number:
            right = isinstance(value, int) and not isinstance(value, bool)
        if not right:
            kind = "a whole number" if field.number else "a string"
            raise RequestError(422, f"got {_kind(value)} as {name}, expected {kind}")
    return given


def text_of(given: Mapping[str, Any], *, pairs: bool, characters: int) -> Text:
    """Returns the text or pair of a request.

    Args:
        given: its fields.
        pairs: True for a model of pairs.
        characters: the most that a text may have.

    Raises:
        RequestError: empty, too long, or one text in place of two.
    """
    if pairs != ("text_pair" in given):
        wanted = "text and text_pair" if pairs else "text alone"
        kind = "pairs" if pairs else "single texts"
        raise RequestError(422, f"expected {wanted}: the model answers to {kind}")
    texts = [given[name] for name in ("text", "text_pair") if name in given]
    for one in texts:
        if not one.strip():
            raise RequestError(422, "got an empty text, expected words")
        if len(one) > characters:
            msg = f"got a text of {len(one)} characters, expected at most {characters}"
            raise RequestError(413, msg)
    return texts[0] if len(texts) == 1 else (texts[0], texts[1])


def _all(fields: Mapping[str, Field]) -> str:
    return ", ".join(name if one.required else f"{name} (optional)" for name, one in fields.items())


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    return kinds.get(type(value), "null" if value is None else "a number")
