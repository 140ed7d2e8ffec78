"""The OpenAPI document of the live page's API, and the same as a page for people."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from app.serve.request_fields import ASKED, ATTACKED, Field
from app.serve.serve_limits import ServeLimits

Document = dict[str, Any]
ERRORS = {
    "400": "no JSON",
    "403": "a request of another site",
    "404": "no such run or page",
    "408": "the body took too long",
    "413": "a body or text that is too long",
    "415": "another content type than application/json",
    "421": "an unknown host name",
    "422": "fields that are missing, unknown or wrong",
    "429": "too many requests from this address",
    "503": "too much to do; Retry-After says when to try again",
    "504": "no answer within the time",
}
"""Errors that may come instead, as `{"error": "..."}`."""
_NUMBER, _TEXT, _FLAG = {"type": "number"}, {"type": "string"}, {"type": "boolean"}
_PIECES = {
    "type": "array",
    "description": "for each text its pieces",
    "items": {
        "type": "array",
        "items": {"type": "object", "properties": {"text": _TEXT, "changed": _FLAG}},
    },
}


def document(version: str, limits: ServeLimits) -> Document:
    """Returns the OpenAPI 3.1 document.

    Args:
        version: of the program.
        limits: of the server.
    """
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Steadfast",
            "version": version,
            "description": "Answers, explanations and attacks of trained text classifiers.",
        },
        "paths": {
            "/api/runs": {"get": _read("The models, the attacks and the limits.")},
            "/api/texts": {
                "get": {
                    **_read("Texts of the corpus that a run was trained on, if they are there."),
                    "parameters": [
                        {
                            "name": "run",
                            "in": "query",
                            "required": True,
                            "schema": _TEXT,
                            "description": "name of the run",
                        }
                    ],
                }
            },
            "/api/predict": {
                "post": _asks(
                    "The class of a text, its probabilities, margin and certificate.",
                    ASKED,
                    limits,
                    {
                        "prediction": {**_TEXT, "description": "the class"},
                        "probability": {**_NUMBER, "description": "of that class"},
                        "probabilities": {
                            "type": "object",
                            "additionalProperties": _NUMBER,
                            "description": "of every class",
                        },
                        "margin": {
                            **_NUMBER,
                            "description": "the largest logit less the next one",
                        },
                        "radius": {
                            "type": ["number", "null"],
                            "description": "certified radius; null without a certificate",
                        },
                        "certificates": {
                            "type": "array",
                            "description": "certificates in words, one for each threat",
                            "items": {
                                "type": "object",
                                "properties": {
                                    "threat": _TEXT,
                                    "certified": {
                                        **_TEXT,
                                        "description": "largest number of changes, or all",
                                    },
                                    "statement": _TEXT,
                                    "kind": _TEXT,
                                    "witness": {"type": ["string", "null"]},
                                    "witness_class": {"type": ["string", "null"]},
                                },
                            },
                        },
                        "covers": {
                            **_TEXT,
                            "description": "the certificates in sentences",
                        },
                        "cut": {**_FLAG, "description": "the text was longer than is read"},
                        "unknown": {
                            "type": "array",
                            "items": _TEXT,
                            "description": "words without a vector of their own",
                        },
                    },
                )
            },
            "/api/words": {
                "post": _asks(
                    "How much each word decides, by gradient and by deletion.",
                    ASKED,
                    limits,
                    {
                        "prediction": {**_TEXT, "description": "the class"},
                        "texts": {
                            "type": "array",
                            "description": "for each text its parts, words and what is between",
                            "items": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "properties": {
                                        "text": _TEXT,
                                        "word": _FLAG,
                                        "gradient": {
                                            "type": ["number", "null"],
                                            "description": "L1 norm of the gradient at the word's "
                                            "tokens; null for words that are not read",
                                        },
                                        "deletion": {
                                            "type": ["number", "null"],
                                            "description": "how much the lead of the class falls "
                                            "without the word; null where it was not tried",
                                        },
                                    },
                                },
                            },
                        },
                        "tried": {**_NUMBER, "description": "words that were deleted"},
                    },
                )
            },
            "/api/attack": {
                "post": _asks(
                    "An attack as it runs: a JSON object per line. It ends when its client leaves.",
                    ATTACKED,
                    limits,
                    {
                        "event": {
                            **_TEXT,
                            "enum": [
                                *("waiting", "start", "asked", "step"),
                                *("end", "stopped", "error"),
                            ],
                        },
                        "queries": {**_NUMBER, "description": "asked about so far"},
                        "lead": {
                            **_NUMBER,
                            "description": "lead of the first class in logits; below 0 it is lost",
                        },
                        "word": {"type": ["string", "null"], "description": "tried next"},
                        "before": _PIECES,
                        "after": _PIECES,
                        "outcome": {**_TEXT, "enum": ["succeeded", "failed", "skipped"]},
                    },
                    media="application/x-ndjson",
                )
            },
        },
    }


def page(found: Mapping[str, Any]) -> str:
    """Returns the document as HTML.

    Args:
        found: see `document`.
    """
    return "\n".join(_page(found)) + "\n"


def _read(about: str) -> Document:
    return {"summary": about, "responses": _responses({}, "application/json")}


def _asks(
    about: str,
    fields: Mapping[str, Field],
    limits: ServeLimits,
    answer: Document,
    *,
    media: str = "application/json",
) -> Document:
    properties: dict[str, Document] = {}
    for name, field in fields.items():
        properties[name] = {
            "type": "integer" if field.number else "string",
            "description": field.about,
        }
        if name.startswith("text"):
            properties[name] |= {"minLength": 1, "maxLength": limits.characters}
        if name == "queries":
            properties[name] |= {"minimum": 1, "maximum": limits.queries}
    schema = {
        "type": "object",
        "properties": properties,
        "required": [name for name, field in fields.items() if field.required],
        "additionalProperties": False,
    }
    return {
        "summary": about,
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": _responses(answer, media),
    }


def _responses(answer: Document, media: str) -> Document:
    schema = {"type": "object", "properties": answer} if answer else {"type": "object"}
    error = {"type": "object", "properties": {"error": _TEXT}, "required": ["error"]}
    return {
        "200": {"description": "the answer", "content": {media: {"schema": schema}}},
        **{
            status: {"description": about, "content": {"application/json": {"schema": error}}}
            for status, about in ERRORS.items()
        },
    }


def _page(found: Mapping[str, Any]) -> Iterator[str]:
    info = found["info"]
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield "<title>Steadfast: JSON API</title>"
    yield '<link rel="icon" href="/live_icon.svg"><link rel="stylesheet" href="/live_page.css">'
    yield "</head>\n<body>\n<header><h1>JSON API</h1>"
    yield '<nav><a href="/">The page</a> <a href="/api/openapi.json">openapi.json</a></nav>'
    yield "</header>"
    yield f"<main>\n<p>{escape(info['description'])} Version {escape(info['version'])}.</p>"
    for path, methods in found["paths"].items():
        for method, one in methods.items():
            yield f"<section><h2><code>{method.upper()} {escape(path)}</code></h2>"
            yield f"<p>{escape(one['summary'])}</p>"
            yield from _fields("request", _asked(one))
            (media, content), *_ = one["responses"]["200"]["content"].items()
            answered = content["schema"].get("properties", {})
            yield from _fields(f"answer, {media}", {name: (s, "") for name, s in answered.items()})
            if "requestBody" in one:
                shown = {name: "..." for name in _asked(one) if _asked(one)[name][1]}
                body = escape(json.dumps(shown))
                yield (
                    "<pre><code>curl -N -H 'Content-Type: application/json' "
                    f"-d '{body}' http://127.0.0.1:8000{escape(path)}</code></pre>"
                )
            yield "</section>"
    yield "<section><h2>Errors</h2><p>A JSON object with <code>error</code>, one line.</p>"
    yield '<div class="scroll"><table><tbody>'
    for status, about in ERRORS.items():
        yield f"<tr><th scope=row>{status}</th><td>{escape(about)}</td></tr>"
    yield "</tbody></table></div></section>\n</main>\n</body>\n</html>"


def _asked(one: Mapping[str, Any]) -> dict[str, tuple[Document, str]]:
    """Returns schema and a mark of need for each field of a request."""
    found = {
        one["name"]: ({**one["schema"], "description": one["description"]}, "required")
        for one in one.get("parameters", ())
    }
    if "requestBody" in one:
        schema = one["requestBody"]["content"]["application/json"]["schema"]
        for name, field in schema["properties"].items():
            found[name] = (field, "required" if name in schema["required"] else "")
    return found


def _fields(title: str, fields: Mapping[str, tuple[Document, str]]) -> Iterator[str]:
    if not fields:
        return
    yield f'<div class="scroll"><table><caption>{escape(title)}</caption><tbody>'
    for name, (field, needed) in fields.items():
        kind = field.get("type", "")
        kind = kind if isinstance(kind, str) else " or ".join(kind)
        limits = [
            f"{word} {field[key]}"
            for word, key in (("at most", "maxLength"), ("at most", "maximum"))
            if key in field
        ]
        about = "; ".join(filter(None, [field.get("description", ""), *limits, needed]))
        if "enum" in field:
            about = "; ".join(filter(None, [about, ", ".join(field["enum"])]))
        yield f"<tr><th scope=row><code>{escape(name)}</code></th><td>{escape(kind)}</td>"
        yield f"<td>{escape(about)}</td></tr>"
    yield "</tbody></table></div>"
