"""Routes for operators: the server's key, health, numbers for monitoring, the description of all routes."""

from __future__ import annotations

from .. import rounds
from ..http import Request, Response, json_response
from .table import JSON, TEXT, Context, Operation

__all__ = ["OPERATIONS"]


async def show_key(context: Context, request: Request) -> Response:
    """The public key that tasks may pin."""
    key = await context.service.read(rounds.server_key, context.service.store)
    return json_response({"server_key": key.hex()})


async def show_health(context: Context, request: Request) -> Response:
    """Whether the service and its database answer."""
    await context.service.read(context.service.store.ping)
    return json_response({"status": "ok"})


async def show_metrics(context: Context, request: Request) -> Response:
    """Numbers for monitoring."""
    service, writer = context.service, context.service.writer
    statuses = await service.read(service.store.statuses)
    text = context.metrics.text(
        statuses.values(), waiting=writer.waiting, batches=writer.batches, written=writer.written,
        closings=service.closings,
    )  # fmt: skip
    return Response(text, media_type="text/plain; version=0.0.4", headers={"Cache-Control": "no-store"})


async def show_openapi(context: Context, request: Request) -> Response:
    """The description of all routes."""
    return json_response(context.description)


OPERATIONS = (
    Operation("get", "/key", show_key, "The public key that tasks may pin", (200,), JSON, ("unavailable",)),
    Operation(
        "get", "/healthz", show_health, "Whether the service and its database answer", (200,), JSON, ("unavailable",)
    ),
    Operation("get", "/metrics", show_metrics, "Numbers for monitoring", (200,), TEXT, ("unavailable",)),
    Operation("get", "/openapi.json", show_openapi, "This description", (200,), JSON),
)
