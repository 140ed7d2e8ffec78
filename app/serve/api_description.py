"""The OpenAPI document of the live page's API, and its page in the browser."""

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from app.serve.request_fields import ATTACK, OPTIONAL, QUESTION, Fields
from app.serve.serve_limits import ServeLimits

Schema = dict[str, Any]
ERRORS = {
    "400": "the body is not JSON",
    "403": "a request of another site",
    "404": "no such run or page",
    "408": "the body took too long",
    "413": "a body or text that is too long",
    "415": "another content type than application/json",
    "421": "an unknown host name",
    "422": "fields that are missing, unknown or wrong",
    "429": "too many requests from this address",
    "503": "too much to do; Retry-After says when to try again",
    "504": "no prediction within the time",
}
"""Errors that may come instead, as `{"error": "..."}`."""

# By hand: FastAPI would derive it, but its page loads scripts from another site, and its errors of
# a request are lists of objects instead of one line.


def _field(kinds: str, description: str = "", **more: Any) -> Schema:
    """Return the schema of a value; `kinds` are types of JSON with a space between them."""
    names = kinds.split()
    schema: Schema = {"type": names if len(names) > 1 else kinds, **more}
    return schema | {"description": description} if description else schema


def _list(description: str, **properties: Schema) -> Schema:
    """Return the schema of a list of objects."""
    return _field("array", description, items=_field("object", properties=properties))


def _lists(description: str, **properties: Schema) -> Schema:
    """Return the schema of a list of objects for each text of the request."""
    return _field("array", description, items=_list("", **properties))


_PIECES = _lists("for each text its pieces", text=_field("string"), changed=_field("boolean"))
_WORST = _list(
    "the text of the set that has another prediction, or comes nearest to it",
    k=_field("string", "number of changed words, or all"),
    text=_field("string"),
    after=_list("its pieces", text=_field("string"), changed=_field("boolean")),
    replaced=_field("array", "pairs of a word and what it became", items=_field("array")),
    reads=_field("string null", "what the model reads of it, if it has a front end"),
    prediction=_field("string"),
    margin=_field("number", "of the predicted class of the original text"),
)
_PREDICTION = {
    "prediction": _field("string", "the class"),
    "probability": _field("number", "of that class"),
    "probabilities": _field("object", "of every class", additionalProperties=_field("number")),
    "margin": _field("number", "the largest logit less the next one"),
    "radius": _field("number null", "certified radius; null without a certificate"),
    "certificates": _list(
        "certificates in words, one for each threat",
        threat=_field("string"),
        sentence=_field("string", "whether it is certified, and the change that is too much"),
        certified=_field("string", "largest number of changes, or all"),
        holds=_field("object", "by number of changes", additionalProperties=_field("boolean")),
        statement=_field("string"),
        kind=_field("string"),
        witness=_field("string null"),
        witness_class=_field("string null"),
        worst=_WORST,
    ),
    "covers": _field("string", "the certificates in sentences"),
    "covers_radius": _field("string", "the sentence about the radius alone"),
    "reads": _field("string", "what the model reads of the text, if it has a front end"),
    "read_pieces": _list("its pieces", text=_field("string"), changed=_field("boolean")),
    "corrected": _field("object", "corrected words", additionalProperties=_field("string")),
    "cut": _field("boolean", "the text was longer than the model reads"),
    "unknown": _field("array", "words without a vector of their own", items=_field("string")),
}
_WORDS = {
    "prediction": _field("string", "the class"),
    "texts": _lists(
        "for each text its parts: words and what is between them",
        text=_field("string"),
        word=_field("boolean"),
        gradient=_field(
            "number null",
            "L1 norm of the gradient at the word's tokens; null for words that are not read",
        ),
        deletion=_field(
            "number null",
            "how much the margin of the class falls without the word; null where it was not tried",
        ),
    ),
    "tried": _field("number", "words that were deleted"),
}
_EVENTS = ["waiting", "start", "asked", "step", "end", "stopped", "error"]
_ATTACK = {
    "event": _field("string", enum=_EVENTS),
    "queries": _field("number", "queries so far"),
    "lead": _field("number", "margin of the first class in logits; below 0 the class has changed"),
    "word": _field("string null", "tried next"),
    "before": _PIECES,
    "after": _PIECES,
    "outcome": _field("string", enum=["succeeded", "failed", "skipped"]),
}


def describe_api(version: str, limits: ServeLimits) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document."""
    texts = _reply("Texts of the corpus that a run was trained on, if they are there.", {})
    run = {"name": "run", "in": "query", "required": True, "schema": {"type": "string"}}
    texts["parameters"] = [{**run, "description": QUESTION["run"]["description"]}]
    description = "Predictions, explanations and attacks of trained text classifiers."

    def post(summary: str, fields: Fields, reply: Schema, media: str = "application/json") -> Any:
        body = {"application/json": {"schema": _request(fields, limits)}}
        operation = _reply(summary, reply, media)
        return {"post": operation | {"requestBody": {"required": True, "content": body}}}

    return {
        "openapi": "3.1.0",
        "info": {"title": "Steadfast", "version": version, "description": description},
        "paths": {
            "/api/runs": {"get": _reply("The models, the attacks and the limits.", {})},
            "/api/texts": {"get": texts},
            "/api/predict": post(
                "The class of a text, its probabilities, margin and certificate.",
                QUESTION,
                _PREDICTION,
            ),
            "/api/words": post(
                "How much each word decides, by gradient and by deletion.", QUESTION, _WORDS
            ),
            "/api/attack": post(
                "An attack as it runs: a JSON object per line. It ends when its client leaves.",
                ATTACK,
                _ATTACK,
                "application/x-ndjson",
            ),
        },
    }


def _request(fields: Fields, limits: ServeLimits) -> Schema:
    length = {"minLength": 1, "maxLength": limits.characters}
    queries = {"minimum": 1, "maximum": limits.queries}
    bounds = {"text": length, "text_pair": length, "queries": queries}
    return {
        "type": "object",
        "properties": {name: {**field, **bounds.get(name, {})} for name, field in fields.items()},
        "required": [name for name in fields if name not in OPTIONAL],
        "additionalProperties": False,
    }


def _reply(summary: str, properties: Schema, media: str = "application/json") -> Schema:
    schema = {"type": "object"} | ({"properties": properties} if properties else {})
    error = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    responses = {"200": {"description": "the response", "content": {media: {"schema": schema}}}}
    for status, description in ERRORS.items():
        content = {"application/json": {"schema": error}}
        responses[status] = {"description": description, "content": content}
    return {"summary": summary, "responses": responses}


def render_page(document: dict[str, Any]) -> str:
    """Return the document of `describe_api` as HTML."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Not Jinja's own `tojson`: it writes quotes as \u0027, for scripts.
    environment.filters["json"] = json.dumps
    return environment.get_template("api_page.html.j2").render(document=document, errors=ERRORS)
