"""The routes for programs: an OpenAPI 3.1 description, made from the table of routes.

Knows the rows of the table. Knows no store.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from .problems import PROBLEMS
from .routes.table import BYTES, Operation

__all__ = ["describe"]

_REFERENCE = "#/components/schemas/{name}"
_PARAMETERS = {
    "task": ("path", {"type": "string", "pattern": "^[0-9a-f]{64}$"}, "SHA-256 of the task's canonical bytes"),
    "pseudonym": ("path", {"type": "string", "pattern": "^[0-9a-f]{32}$"}, "a participant's name in the task"),
    "report": ("path", {"type": "string", "pattern": "^[0-9a-f]{32}$"}, "a report's name"),
    "step": ("path", {"type": "string"}, "a step between two servers; see spec/http.md, section 11"),
    "depth": ("path", {"type": "integer", "minimum": 0}, "a level of the tree"),
    "round": ("path", {"type": "integer", "minimum": 1}, "number of the round"),
    "region": ("path", {"type": "string", "pattern": "^[0-9]+-[0-9]+$"}, "codes lower-upper, lower to before upper"),
    "after": ("query", {"type": "string", "pattern": "^[0-9a-f]{32}$"}, "the last pseudonym of the page before"),
    "state after": ("query", {"type": "integer", "minimum": -1, "maximum": 10**6}, "the round that is known already"),
    "wait": ("query", {"type": "integer", "minimum": 0, "maximum": 25}, "seconds"),
    "limit": ("query", {"type": "integer", "minimum": 1, "maximum": 1000}, "most reports of a page"),
    "box": ("query", {"type": "string"}, "all lower ends, then all upper ends, with commas"),
    "level": ("query", {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, "of the interval; 0.95"),
    "rounding": ("query", {"type": "number", "exclusiveMinimum": 0}, "step that all coordinates are multiples of"),
}


def describe(operations: Iterable[Operation]) -> dict[str, Any]:
    """The OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    rows = list(operations)
    forms = {row.form for row in rows if row.form is not None}
    _, schemas = msgspec.json.schema_components(forms, ref_template=_REFERENCE)
    for operation in rows:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "semilocal", "version": "1",
            "summary": "Density-adaptive location analytics",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "device": {"type": "http", "scheme": "bearer", "description": "a device's key, 64 hex digits"},
                "admin": {"type": "http", "scheme": "bearer", "description": "the admin token"},
                "peer": {"type": "http", "scheme": "Semilocal-Peer", "description": "signed by the leader of the pair"},
            },
            "schemas": {
                **{name: _short(schema) for name, schema in schemas.items()},
                "Problem": {
                    "type": "object",
                    "required": ["type", "token", "title", "status", "detail"],
                    "properties": {
                        "type": {"type": "string"},
                        "token": {"type": "string", "enum": sorted(PROBLEMS)},
                        "title": {"type": "string"},
                        "status": {"type": "integer"},
                        "detail": {"type": "string"},
                    },
                }
            },
        },
    }  # fmt: skip


def _operation(operation: Operation) -> dict[str, Any]:
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    out: dict[str, Any] = {"summary": operation.summary, "responses": _responses(operation)}
    parameters = [_parameter(name, operation.path) for name in (*names, *operation.query)]
    if parameters:
        out["parameters"] = parameters
    if operation.body:
        schema = {"type": "string"} if operation.body == BYTES else {"type": "object"}
        if operation.form is not None:
            schema = {"$ref": _REFERENCE.format(name=operation.form.__name__)}
        out["requestBody"] = {"required": True, "content": {operation.body: {"schema": schema}}}
    if operation.auth:
        out["security"] = [{operation.auth: []}]
    return out


def _short(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with the first line of its words: the rest is for readers of the source."""
    words = schema.get("description", "").splitlines()[:1]
    return {**schema, "description": words[0]} if words else schema


def _parameter(name: str, path: str) -> dict[str, Any]:
    place, schema, text = _PARAMETERS.get(f"{path.rpartition('/')[2]} {name}", _PARAMETERS[name])
    return {
        "name": name,
        "in": place,
        "required": place == "path" or name == "box",
        "schema": schema,
        "description": text,
    }


def _responses(operation: Operation) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status in operation.success:
        responses[str(status)] = {"description": "not modified" if status == 304 else "done"}
        if operation.answer and status != 304:
            responses[str(status)]["content"] = {operation.answer: {}}
    tokens: dict[int, list[str]] = {}
    for token in dict.fromkeys((*operation.problems, "too-large", "method-not-allowed")):
        tokens.setdefault(PROBLEMS[token][0], []).append(token)
    for status in sorted(tokens):
        content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
        responses[str(status)] = {"description": ", ".join(tokens[status]), "content": content}
    return responses
