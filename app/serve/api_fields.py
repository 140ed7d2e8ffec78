"""The fields of the API, which FastAPI checks, the sentences of its errors, and its description."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from fastapi import Query
from fastapi.exceptions import RequestValidationError
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo
from starlette.exceptions import HTTPException

from app.serve.serve_limits import ServeLimits
from text import Text
from text.bounded_files import DataError, parse_json

ERRORS = {
    400: "the body is not JSON",
    403: "a request of another site",
    404: "no such run or page",
    408: "the body took too long",
    413: "a body or text that is too long",
    415: "another content type than application/json",
    421: "an unknown host name",
    422: "fields that are missing, unknown or wrong",
    429: "too many requests from this address",
    503: "too much to do; Retry-After says when to try again",
    504: "no prediction within the time",
}
"""Errors that may come instead, as `{"error": "..."}`."""
_KINDS = {"string_type": "a string", "int_type": "a whole number", "list_type": "a list"}


class RequestError(HTTPException):
    """A request that the server refuses; the message names the wrong part and the expected one."""


RUN = Query(description="name of the run; needed if several are served")


# Requests


class _RunRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    run: str | None = Field(None, description=RUN.description)


class Question(_RunRequest):
    """A text, or a pair of texts."""

    text: str = Field(description="the text")
    text_pair: str | None = Field(None, description="the second text, for a model of pairs")


class Questions(_RunRequest):
    """Either `text` or `texts`."""

    text: str | None = Field(None, description="the text")
    text_pair: str | None = Field(None, description="the second text, for a model of pairs")
    texts: list[str] | None = Field(None, description="several texts")
    text_pairs: list[str] | None = Field(None, description="the second texts, one for each")


class AttackRequest(Question):
    """An attack on a text."""

    recipe: str = Field(description="name of the attack")
    queries: int | None = Field(None, description="texts that the attack may query at most")


# Responses; the key `error` comes alone


class ErrorReply(BaseModel):
    """A refusal."""

    error: str


class PieceReply(BaseModel):
    """A part of a text."""

    text: str
    changed: bool


class WorstReply(BaseModel):
    """The text of a set that has another prediction, or comes nearest to it."""

    k: str = Field(description="number of changed words, or all")
    text: str
    after: list[PieceReply] = Field(description="its pieces")
    replaced: list[tuple[str, str]] = Field(description="pairs of a word and what it became")
    reads: str | None = Field(description="what the model reads of it, if it has a front end")
    prediction: str
    margin: float = Field(description="of the predicted class of the original text")


class CertificateReply(BaseModel):
    """A certificate in words."""

    threat: str
    sentence: str = Field(description="whether it is certified, and the change that is too much")
    certified: str = Field(description="largest number of changes, or all")
    holds: dict[str, bool] = Field(description="by number of changes")
    statement: str
    kind: str
    witness: str | None
    witness_class: str | None
    worst: list[WorstReply]


class PredictionReply(BaseModel):
    """The prediction of a text."""

    text: str
    text_pair: str | None = Field(None, description="of a pair")
    prediction: str = Field(description="the class")
    probability: float = Field(description="of that class")
    probabilities: dict[str, float] = Field(description="of every class")
    margin: float | None = Field(description="the largest logit less the next one")
    radius: float | None = Field(description="certified radius; null without a certificate")
    score: float | None = Field(
        None, description="of a detector: logit of its class less the next one; 0 at the threshold"
    )
    detected: bool | None = Field(None, description="decision of a detector")
    why: list[tuple[str, float]] | None = Field(
        None, description="words with the most evidence, if the detector adds up scores of words"
    )
    headline: str = Field(description="the certificates in one sentence, those in words first")
    certificates: list[CertificateReply] = Field(description="in words, one for each threat")
    covers: str = Field(description="the certificates in sentences")
    covers_radius: str = Field(description="the sentence about the radius alone")
    reads: str = Field("", description="what the model reads of the text, if it has a front end")
    read_pieces: list[PieceReply] = Field(description="its pieces")
    corrected: dict[str, str] = Field({}, description="corrected words")
    cut: bool = Field(description="the text was longer than the model reads")
    unknown: list[str] = Field(description="words without a vector of their own")


class BatchReply(BaseModel):
    """The predictions of several texts, in their order."""

    predictions: list[PredictionReply]


class WordReply(BaseModel):
    """A word, or the characters between two words."""

    text: str
    word: bool
    gradient: float | None = Field(
        None, description="L1 norm at the word's tokens; null for words that are not read"
    )
    deletion: float | None = Field(
        None, description="decrease of the margin without the word; null where it was not tried"
    )


class WordsReply(BaseModel):
    """Weight of each word in the decision."""

    prediction: str = Field(description="the class")
    texts: list[list[WordReply]] = Field(description="for each text its parts")
    tried: int = Field(description="words that were deleted")


class AttackReply(BaseModel):
    """An event of an attack."""

    event: Literal["waiting", "start", "asked", "step", "end", "stopped", "error"]
    queries: int = Field(description="queries so far")
    lead: float = Field(
        description="margin of the first class in logits; below 0 the class has changed"
    )
    word: str | None = Field(None, description="tried next")
    before: list[list[PieceReply]] = Field(description="for each text its pieces")
    after: list[list[PieceReply]] = Field(description="for each text its pieces")
    outcome: Literal["succeeded", "failed", "skipped"]


def parse_body(body: bytes) -> Any:
    """Return the JSON of a body, whose depth and numbers have bounds.

    Raises:
        RequestError: the body is not JSON.
    """
    try:
        return parse_json(body, "the body", "JSON")
    except DataError as error:
        raise RequestError(400, "the body is not JSON in UTF-8, expected JSON") from error


def describe_error(error: RequestValidationError, fields: Mapping[str, FieldInfo]) -> RequestError:
    """Return the first wrong field of a request with these `fields` as one sentence."""
    # An unknown field first: it may be a misspelt one that is missing.
    problem = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    # The first part of the place is "body", which means nothing to a client.
    kind, path, value = problem["type"], problem["loc"][1:], problem["input"]
    expected = ", ".join(f if i.is_required() else f"{f} (optional)" for f, i in fields.items())
    if not path:
        if kind == "missing":
            return RequestError(400, "the body is empty, which is not JSON; expected JSON")
        return RequestError(422, f"got {_name_type(value)}, expected an object with {expected}")
    name = "".join(f"[{part}]" if isinstance(part, int) else part for part in path)
    if kind == "extra_forbidden":
        return RequestError(422, f"got the field {name!r:.80}, expected {expected}")
    if kind == "missing":
        return RequestError(422, f"got no {name}, expected {expected}")
    type_name = _KINDS.get(kind, "another value")
    return RequestError(422, f"got {_name_type(value)} as {name}, expected {type_name}")


def read_texts(
    first: Sequence[str], second: Sequence[str] | None, *, pairs: bool, limits: ServeLimits
) -> list[Text]:
    """Return the texts, or the pairs if `pairs`, of a request.

    Raises:
        RequestError: a text is empty or too long, or the number of texts is wrong.
    """
    if pairs != (second is not None):
        expected = "text and text_pair" if pairs else "text alone"
        kind = "pairs" if pairs else "single texts"
        raise RequestError(422, f"expected {expected}: the model classifies {kind}")
    if second is not None and len(second) != len(first):
        raise RequestError(422, f"got {len(first)} texts and {len(second)} text_pairs")
    if not 1 <= len(first) <= limits.texts:
        raise RequestError(413, f"got {len(first)} texts, expected 1 to {limits.texts}")
    for text in (*first, *(second or ())):
        if not text.strip():
            raise RequestError(422, "got an empty text, expected words")
        if len(text) > limits.characters:
            msg = f"got a text of {len(text)} characters, expected at most {limits.characters}"
            raise RequestError(413, msg)
    return list(first) if second is None else list(zip(first, second, strict=True))


def _name_type(value: Any) -> str:
    # By the exact type: with `isinstance`, true would be a number.
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    return kinds.get(type(value), "null" if value is None else "a number")


# The page that describes the API

# Not FastAPI's own page: it loads scripts from another site.


def render_page(document: dict[str, Any]) -> str:
    """Return an OpenAPI document as HTML."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    schemas: dict[str, dict[str, Any]] = document["components"]["schemas"]

    def resolve(schema: dict[str, Any]) -> dict[str, Any]:
        name = schema.get("$ref", "").rpartition("/")[2]
        return schemas[name] if name else schema

    # Not Jinja's own `tojson`: it writes quotes as \u0027, for scripts.
    environment.filters |= {"json": json.dumps, "resolve": resolve, "type_name": _type_name}
    return environment.get_template("api_page.html.j2").render(document=document, errors=ERRORS)


def _type_name(schema: dict[str, Any]) -> str:
    """Return the type of a field: `array of string or null`."""
    if "anyOf" in schema:
        return " or ".join(map(_type_name, schema["anyOf"]))
    if "items" in schema:
        return f"array of {_type_name(schema['items'])}"
    return str(schema.get("type", "object"))
