"""The page that describes the API in the browser."""

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from app.serve.api_fields import ERRORS

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
    environment.filters |= {"json": json.dumps, "resolve": resolve, "type_name": _name_type}
    return environment.get_template("api_page.html.j2").render(document=document, errors=ERRORS)


def _name_type(schema: dict[str, Any]) -> str:
    """Return the type of a field: `array of string or null`."""
    if "anyOf" in schema:
        return " or ".join(map(_name_type, schema["anyOf"]))
    if "items" in schema:
        return f"array of {_name_type(schema['items'])}"
    return str(schema.get("type", "object"))
