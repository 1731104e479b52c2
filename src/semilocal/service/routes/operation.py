"""Routes for operators: the server's key, health, numbers for monitoring, the description of all routes."""

from __future__ import annotations

from ..http import Request, Response, json_response
from ..keys import registered_key
from ..problems import Problem
from .table import JSON, TEXT, Context, Operation

__all__ = ["OPERATIONS"]


async def show_key(context: Context, request: Request) -> Response:
    """The public key that tasks may pin."""
    key = await context.service.read(registered_key, context.service.store)
    if key is None:
        raise Problem("unavailable", "the server has no signing key")
    return json_response({"server_key": key.hex()})


async def show_health(context: Context, request: Request) -> Response:
    """Whether rounds are looked after, reports are written, and the database can be written."""
    health = context.service.health
    parts = await health.parts()
    if not health.good(parts):
        raise Problem("unavailable", "; ".join(f"{part}: {word}" for part, word in parts.items()), retry_after=5)
    return json_response({"status": "ok", **parts})


async def show_metrics(context: Context, request: Request) -> Response:
    """Numbers for monitoring."""
    service = context.service
    statuses = await service.read(service.store.statuses)
    context.share_metrics()
    text = context.metrics.text(statuses.values(), at_fault=service.at_fault)
    return Response(text, media_type="text/plain; version=0.0.4", headers={"Cache-Control": "no-store"})


async def show_openapi(context: Context, request: Request) -> Response:
    """The description of all routes."""
    return json_response(context.description)


OPERATIONS = (
    Operation("get", "/key", show_key, "The public key that tasks may pin", (200,), JSON, ("unavailable",)),
    Operation("get", "/healthz", show_health, "Whether all parts of the server work", (200,), JSON, ("unavailable",)),
    Operation("get", "/metrics", show_metrics, "Numbers for monitoring", (200,), TEXT, ("unavailable",)),
    Operation("get", "/openapi.json", show_openapi, "This description", (200,), JSON),
)
