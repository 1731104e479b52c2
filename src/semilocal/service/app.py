"""The service as an ASGI application: the table of routes, put together.

Every request passes ``App.__call__``: a refused request becomes problem+json, an unexpected fault is logged and
answered with 503. No address or user agent is looked at. Knows HTTP. Knows no campaign.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from typing import Any

from ..errors import MissingExtra, printable
from .admin import admin_hash
from .http import Watched, nameless, no_such_route, problem_of, report_path, send_answer, task_of, upload_path
from .intake import Intake
from .limits import RateLimit
from .metrics import FOLDER, SHARE_EVERY, Metrics
from .openapi import describe
from .problems import Problem
from .results import FindingsCache
from .routes import OPERATIONS
from .routes.device import put_report
from .routes.pair import put_upload
from .routes.table import Context, Handler, Operation
from .worker import Service

try:
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from starlette.routing import Route, Router
    from starlette.types import Receive, Scope, Send
except ImportError:
    raise MissingExtra("starlette", "service") from None

__all__ = ["App", "create_app"]

log = logging.getLogger("semilocal.service")

QUERY_BYTES = 256


class App:
    """The application.

    Parameters
    ----------
    service : Service
    admin : bytes
        ``admin_hash`` of the admin token.
    access_log : bool
        Whether to log method, path and status of every request, without the pseudonym of its device.
    more : sequence of Operation
        Routes of other parts, such as the page; they are not in the description for programs.
    """

    def __init__(
        self, service: Service, *, admin: bytes, access_log: bool = False, more: Sequence[Operation] = ()
    ) -> None:
        self.service, self.access_log = service, access_log
        self.context = Context(
            service, Metrics(), FindingsCache(service.store), admin, RateLimit(rate=20.0, burst=60),
            RateLimit(rate=2.0, burst=20), _description(),
        )  # fmt: skip
        self.intake = None if access_log else Intake(self.context)  # what goes past us is not logged
        self.router = Router(
            list(_routes(self.context, (*OPERATIONS, *more))), redirect_slashes=False, default=no_such_route
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            await receive()
            await send({"type": "websocket.close", "code": 1000})
            return
        watched = Watched(send, self.context.metrics)
        report = None
        try:
            if len(scope["query_string"]) > QUERY_BYTES:
                raise Problem("too-large", f"a query string has at most {QUERY_BYTES} bytes")
            scope["app"] = self  # makes the router raise, so that every refusal is put into words here
            # Reports and uploads are nearly all there is to do: they go past the router, which has the same routes.
            report = report_path(scope["path"]) if scope["method"] == "PUT" else None
            upload = upload_path(scope["path"]) if scope["method"] == "PUT" else None
            if report is not None:
                await put_report(self.context, scope, receive, watched, *report)
            elif upload is not None:
                await put_upload(self.context, scope, receive, watched, *upload)
            else:
                await self.router(scope, receive, watched)
        except ClientDisconnect:
            return
        except Exception as error:
            problem = problem_of(error)
            if report is not None:
                self.context.metrics.refused(report[0], problem.token)
            if not watched.status:
                await send_answer(watched, problem.status, problem.headers, problem.body, scope["method"])
        if self.access_log:
            log.info("%s %s %d", scope["method"], printable(nameless(scope["path"])), watched.status)

    def leave(self) -> None:
        """Answer all polls; the server is about to stop."""
        self.service.leave()

    async def _share_metrics(self) -> None:
        """Let the scrapes of other workers see this one's numbers."""
        while FOLDER in os.environ:
            self.context.share_metrics()
            await asyncio.sleep(SHARE_EVERY)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        sharing: asyncio.Task[None] | None = None
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.service.start()
                sharing = asyncio.create_task(self._share_metrics())
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                if sharing is not None:
                    sharing.cancel()
                await self.service.stop()
                if FOLDER in os.environ:  # what this worker did still counts
                    self.context.share_metrics()
                await send({"type": "lifespan.shutdown.complete"})
                return


def _routes(context: Context, operations: Iterable[Operation]) -> Iterable[Route]:
    """One route per path, with all methods of the path, so that a refused method gets the list of those allowed."""
    paths: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.upper()] = operation
    for path, methods in paths.items():
        yield Route(path, _endpoint(context, methods), methods=list(methods))


def _endpoint(context: Context, methods: dict[str, Operation]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        operation = methods["GET" if request.method == "HEAD" else request.method]
        if operation.auth == "admin":
            _check_admin(context, request)
        return await (await _handler(context, operation, request))(context, request)

    return endpoint


async def _handler(context: Context, operation: Operation, request: Request) -> Handler:
    """The handler for the kind of task that the path names."""
    pairs = context.service.pairs
    if pairs is None or "task" not in request.path_params or await pairs.look_up(task_of(request.path_params)) is None:
        return operation.handler
    if operation.of_pair is None:
        raise Problem("no-such-route", "a task of two servers has no such route; see spec/http.md, section 11")
    return operation.of_pair


def _check_admin(context: Context, request: Request) -> None:
    header = request.headers.get("authorization", "")
    token = header[7:] if header[:7].lower() == "bearer " else ""
    if not hmac.compare_digest(admin_hash(token), context.admin):
        raise Problem("unauthorized", "this route takes the admin token: Authorization: Bearer <token>")


@cache
def _description() -> dict[str, Any]:
    return describe(OPERATIONS)


def create_app(service: Service, *, admin: bytes, access_log: bool = False, more: Sequence[Operation] = ()) -> App:
    """The application over a service; see :class:`App`."""
    return App(service, admin=admin, access_log=access_log, more=more)
