"""The routes for programs: an OpenAPI 3.1 description, made from one table.

Knows the table below, which a test compares with the routes. Knows no state.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .problems import PROBLEMS

__all__ = ["OPERATIONS", "Operation", "describe"]


class Operation(NamedTuple):
    """One route and method."""

    method: str
    path: str
    summary: str
    success: tuple[int, ...]
    answer: str  # media type, or empty
    problems: tuple[str, ...] = ()
    body: str = ""
    auth: str = ""
    query: tuple[str, ...] = ()


_TASK = ("no-such-route", "no-such-task")
_REPORTS = (
    *_TASK, "no-such-round", "unauthorized", "not-open-yet", "other-answer", "round-closed", "missed-round",
    "campaign-ended", "too-large", "not-canonical", "other-task", "other-round", "other-pseudonym", "unknown-cell",
    "bad-answer", "wrong-kind", "wrong-path", "too-fast", "overloaded", "unavailable",
)  # fmt: skip
_ENROL = (
    *_TASK, "malformed", "bad-token", "token-used", "pseudonym-taken", "enrolment-closed", "campaign-ended",
    "too-large", "too-fast", "overloaded", "unavailable",
)  # fmt: skip
_ROUND = (*_TASK, "no-such-round", "not-closed-yet", "unavailable")
_ADMIN = ("unauthorized", "malformed", "too-large", "unavailable")
_JSON, _BYTES, _TEXT = "application/json", "application/msgpack", "text/plain"

OPERATIONS: tuple[Operation, ...] = (
    Operation("get", "/tasks", "All campaigns", (200,), _JSON, ("unavailable",)),
    Operation("post", "/tasks", "Create a campaign", (201,), _JSON, (*_ADMIN, "task-exists"), _JSON, "admin"),
    Operation("get", "/tasks/{task}", "The task; immutable", (200, 304), _BYTES, _TASK),
    Operation("get", "/tasks/{task}/plan", "The plan of releases; immutable", (200, 304), _BYTES, _TASK),
    Operation("get", "/tasks/{task}/statement", "The promise in plain words; immutable", (200, 304), _TEXT, _TASK),
    Operation(
        "get", "/tasks/{task}/state", "Where the campaign stands; a long poll with after and wait", (200,), _JSON,
        (*_TASK, "malformed", "unavailable"), query=("after", "wait"),
    ),
    Operation("put", "/tasks/{task}/participants/{pseudonym}", "Enrol", (200, 201), _JSON, _ENROL, _JSON),
    Operation(
        "put", "/tasks/{task}/rounds/{round}/reports/{pseudonym}", "Report; answered when it is on disk", (200, 201),
        "", _REPORTS, _BYTES, "device",
    ),
    Operation(
        "get", "/tasks/{task}/rounds/{round}/query", "What a round asks; immutable", (200, 304), _BYTES,
        (*_TASK, "no-such-round", "not-open-yet", "unavailable"),
    ),
    Operation(
        "get", "/tasks/{task}/rounds/{round}/closed", "Tallies and verdicts; immutable", (200, 304), _BYTES, _ROUND
    ),
    Operation(
        "get", "/tasks/{task}/rounds/{round}/checkpoint", "The transcript's root; immutable", (200, 304), _BYTES, _ROUND
    ),
    Operation(
        "get", "/tasks/{task}/rounds/{round}/seal", "The checkpoint in its chain, signed; immutable", (200, 304),
        _BYTES, _ROUND,
    ),
    Operation(
        "get", "/tasks/{task}/rounds/{round}/reports", "A page of the reports of a closed round; immutable", (200, 304),
        _BYTES, (*_ROUND, "malformed"), query=("after", "limit"),
    ),
    Operation(
        "get", "/tasks/{task}/results", "Regions, crowds, releases; immutable", (200, 304), _JSON,
        (*_TASK, "not-closed-yet", "unavailable"),
    ),
    Operation(
        "get", "/tasks/{task}/regions.geojson", "The regions (two dimensions); immutable", (200, 304),
        "application/geo+json", (*_TASK, "not-closed-yet", "unavailable"),
    ),
    Operation(
        "post", "/tasks/{task}/tokens", "New enrolment tokens, shown once", (201,), _JSON, (*_ADMIN, *_TASK), _JSON,
        "admin",
    ),
    Operation(
        "post", "/tasks/{task}/start", "End enrolment", (200,), _JSON, (*_ADMIN, *_TASK, "campaign-ended"), "", "admin"
    ),
    Operation("post", "/tasks/{task}/close", "Cancel a campaign", (200,), _JSON, (*_ADMIN, *_TASK), "", "admin"),
    Operation("get", "/key", "The public key that tasks may pin", (200,), _JSON, ("unavailable",)),
    Operation("get", "/healthz", "Whether the service and its database answer", (200,), _JSON, ("unavailable",)),
    Operation("get", "/metrics", "Numbers for monitoring", (200,), _TEXT, ("unavailable",)),
    Operation("get", "/openapi.json", "This description", (200,), _JSON),
)  # fmt: skip

_PARAMETERS = {
    "task": ("path", {"type": "string", "pattern": "^[0-9a-f]{64}$"}, "SHA-256 of the task's canonical bytes"),
    "pseudonym": ("path", {"type": "string", "pattern": "^[0-9a-f]{32}$"}, "a participant's name in the task"),
    "round": ("path", {"type": "integer", "minimum": 1}, "number of the round"),
    "after": ("query", {"type": "string"}, "where to go on; see spec/http.md"),
    "wait": ("query", {"type": "integer", "minimum": 0, "maximum": 25}, "seconds"),
    "limit": ("query", {"type": "integer", "minimum": 1, "maximum": 1000}, "most reports of a page"),
}


def describe() -> dict[str, Any]:
    """The OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "semilocal", "version": "1",
            "summary": "Density-adaptive location analytics without a trusted curator",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "device": {"type": "http", "scheme": "bearer", "description": "a device's key, 64 hex digits"},
                "admin": {"type": "http", "scheme": "bearer", "description": "the admin token"},
            },
            "schemas": {
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
    parameters = [_parameter(name) for name in (*names, *operation.query)]
    if parameters:
        out["parameters"] = parameters
    if operation.body:
        kind = "string" if operation.body == _BYTES else "object"
        out["requestBody"] = {"required": True, "content": {operation.body: {"schema": {"type": kind}}}}
    if operation.auth:
        out["security"] = [{operation.auth: []}]
    return out


def _parameter(name: str) -> dict[str, Any]:
    place, schema, text = _PARAMETERS[name]
    return {"name": name, "in": place, "required": place == "path", "schema": schema, "description": text}


def _responses(operation: Operation) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status in operation.success:
        responses[str(status)] = {"description": "not modified" if status == 304 else "fine"}
        if operation.answer and status != 304:
            responses[str(status)]["content"] = {operation.answer: {}}
    tokens: dict[int, list[str]] = {}
    for token in dict.fromkeys((*operation.problems, "too-large", "method-not-allowed")):
        tokens.setdefault(PROBLEMS[token][0], []).append(token)
    for status in sorted(tokens):
        content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
        responses[str(status)] = {"description": ", ".join(tokens[status]), "content": content}
    return responses
