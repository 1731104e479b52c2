"""The service as an ASGI application: the table of routes, put together.

Every request passes ``App.__call__``: a refused request becomes problem+json, an unexpected fault is logged and
answered with 503. No address or user agent is looked at. Knows HTTP. Knows no campaign.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from . import http
from .http import RateLimit, Receive, Request, Response, Scope, Send, task_of
from .metrics import Metrics
from .problems import PROBLEMS, Problem
from .routes import OPERATIONS
from .routes.device import put_report
from .routes.pair import put_upload
from .routes.table import BYTES, JSON, Context, Operation
from .worker import Service

log = logging.getLogger("semilocal.service")

QUERY_BYTES = 256


class App:
    """The application; ``admin`` is the admin token's hash, ``more`` are routes of other parts, such as the page."""

    def __init__(self, service: Service, *, admin: bytes, more: Sequence[Operation] = ()) -> None:
        self.service = service
        self.context = Context(
            service, Metrics(), admin, RateLimit(rate=20.0, burst=60),
            RateLimit(rate=2.0, burst=20), describe(OPERATIONS),
        )  # fmt: skip
        self.router = http.Router(
            list(_routes(self.context, (*OPERATIONS, *more))), redirect_slashes=False, default=http.no_such_route
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            await receive()
            await send({"type": "websocket.close", "code": 1000})
            return
        watched = http.Watched(scope, receive, send, self.context.metrics)
        report = upload = None
        try:
            if len(scope["query_string"]) > QUERY_BYTES:
                raise Problem("too-large", f"a query string has at most {QUERY_BYTES} bytes")
            scope["app"] = self  # makes the router raise, so that every refusal is put into words here
            # Reports and uploads are nearly all there is to do: they go past the router, which has the same routes.
            if scope["method"] == "PUT":
                report = http.report_path(scope["path"])
                upload = http.upload_path(scope["path"]) if report is None else None
            if report is not None:
                await put_report(self.context, scope, watched.receive, watched.send, *report)
            elif upload is not None:
                await put_upload(self.context, scope, watched.receive, watched.send, *upload)
            else:
                await self.router(scope, watched.receive, watched.send)
        except http.ClientDisconnect:
            return
        except Exception as error:
            problem = http.problem_of(error)
            if report is not None:
                self.context.metrics.refused(report[0], problem.token)
            if not watched.status:
                headers, body = problem.answer(dict(scope["headers"]).get(b"accept", b""))
                await http.send_answer(watched.send, problem.status, headers, body, scope["method"])

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await self.service.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.service.stop()
        await send({"type": "lifespan.shutdown.complete"})


def _routes(context: Context, operations: Iterable[Operation]) -> Iterable[http.Route]:
    """One route per path, with all methods of the path, so that a refused method gets the list of those allowed."""
    paths: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.upper()] = operation
    for path, methods in paths.items():
        yield http.Route(path, _endpoint(context, methods), methods=list(methods))


def _endpoint(context: Context, methods: dict[str, Operation]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        operation = methods["GET" if request.method == "HEAD" else request.method]
        if operation.auth == "admin" and not context.is_admin(request):
            raise Problem("unauthorized", "this route takes the admin token: Authorization: Bearer <token>")
        pairs, handler = context.service.pairs, operation.handler
        if pairs is not None and "task" in request.path_params and await pairs.look_up(task_of(request)) is not None:
            if operation.of_pair is None:
                raise Problem("no-such-route", "a task of two servers has no such route; see spec/http.md, section 11")
            handler = operation.of_pair
        return await handler(context, request)

    return endpoint


# -- the routes for programs: an OpenAPI 3.1 description, made from the table of routes ------------------------------


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


@cache
def describe(operations: tuple[Operation, ...]) -> dict[str, Any]:
    """The OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    forms = {operation.form for operation in operations if operation.form is not None}
    _, schemas = msgspec.json.schema_components(forms, ref_template=_REFERENCE)
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "semilocal", "version": "1", "summary": "Density-adaptive location analytics"},
        "paths": paths,
        "components": {
            "securitySchemes": {
                "device": {"type": "http", "scheme": "bearer", "description": "a device's key, 64 hex digits"},
                "admin": {"type": "http", "scheme": "bearer", "description": "the admin token"},
                "peer": {"type": "http", "scheme": "Semilocal-Peer", "description": "signed by the leader of the pair"},
            },
            "schemas": {
                **schemas,
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
                },
            },
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    out: dict[str, Any] = {"summary": operation.summary, "responses": _responses(operation)}
    parameters = [_parameter(name, operation.path) for name in (*names, *operation.query)]
    if parameters:
        out["parameters"] = parameters
    if operation.form is not None:
        schema = {"$ref": _REFERENCE.format(name=operation.form.__name__)}
        out["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    elif operation.body:
        schema = {"type": "string"} if operation.body == BYTES else {"type": "object"}
        out["requestBody"] = {"required": True, "content": {operation.body: {"schema": schema}}}
    if operation.auth:
        out["security"] = [{operation.auth: []}]
    return out


def _parameter(name: str, path: str) -> dict[str, Any]:
    place, schema, text = _PARAMETERS.get(f"{path.rpartition('/')[2]} {name}", _PARAMETERS[name])
    required = place == "path" or name == "box"
    return {"name": name, "in": place, "required": required, "schema": schema, "description": text}


def _responses(operation: Operation) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status in operation.success:
        responses[str(status)] = {"description": "not modified" if status == 304 else "done"}
        if operation.answer and status != 304:
            responses[str(status)]["content"] = {operation.answer: {}}
    tokens: dict[int, list[str]] = {}
    for token in operation.refusals:
        tokens.setdefault(PROBLEMS[token][0], []).append(token)
    for status in sorted(tokens):
        content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
        responses[str(status)] = {"description": ", ".join(tokens[status]), "content": content}
    return responses
