"""An OpenAPI document of what the server serves, its requests by the published models of Open Responses.

Of answers it says no more than their media type, since other tests hold them to the models; of errors, their shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openresponses_types import CompactResponseMethodPublicBody, CreateResponseBody
from openresponses_types.types import ErrorPayload
from pydantic.json_schema import models_json_schema

if TYPE_CHECKING:
    from pydantic import BaseModel

_REF = "#/components/schemas/{model}"
_ANSWERS = {"application/json": {"schema": {"type": "object"}}, "text/event-stream": {}}
_ERROR = {
    "type": "object",
    "properties": {"error": {"$ref": _REF.format(model=ErrorPayload.__name__)}},
    "required": ["error"],
}
_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def document() -> dict[str, Any]:
    """The document."""
    bodies: dict[str, type[BaseModel]] = {
        "/responses": CreateResponseBody,
        "/responses/input_tokens": CreateResponseBody,
        "/responses/compact": CompactResponseMethodPublicBody,
    }
    used: list[type[BaseModel]] = [*bodies.values(), ErrorPayload]
    _, schemas = models_json_schema([(model, "validation") for model in used], ref_template=_REF)
    paths: dict[str, Any] = {path: {"post": _operation(body=body)} for path, body in bodies.items()}
    paths |= {
        "/responses/{id}": {"get": _operation(_ID, *_query("stream", "starting_after")), "delete": _operation(_ID)},
        "/responses/{id}/cancel": {"post": _operation(_ID)},
        "/responses/{id}/input_items": {"get": _operation(_ID, *_query("limit", "order", "after"))},
        "/models": {"get": _operation()},
        "/models/{id}": {"get": _operation(_ID)},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "deltawire upstream", "version": "1"},
        "paths": paths,
        "components": {"schemas": schemas["$defs"]},
    }


def _operation(*parameters: dict[str, Any], body: type[BaseModel] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {
        "parameters": list(parameters),
        "responses": {
            "200": {"description": "An answer.", "content": _ANSWERS},
            "default": {"description": "An error.", "content": {"application/json": {"schema": _ERROR}}},
        },
    }
    if body is not None:
        schema = {"$ref": _REF.format(model=body.__name__)}
        made["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return made


def _query(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names]
