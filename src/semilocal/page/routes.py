"""The routes of the page: its files, and what it shows of campaigns. ``semilocal serve`` adds them to the service's.

Everything here but the draft of a campaign is for everybody. Knows HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import time
from collections.abc import AsyncIterator
from weakref import WeakKeyDictionary

import msgspec

from ..errors import InvalidInput, MissingExtra
from ..io.coast import coast, lines_json
from ..service.http import Request, Response, decode_form, immutable_response, json_response, read_request, round_of
from ..service.http import task_of as task_in
from ..service.keys import registered_key
from ..service.problems import Problem
from ..service.routes.device import state_document
from ..service.routes.table import JSON, TASK_PROBLEMS, Context, Operation
from ..service.stores.base import Store
from ..service.worker import LiveCampaign, Service
from .assets import content_security_policy, index_html, media_type, static_files
from .documents import RoundDocuments, overview
from .drafts import Draft, draft

try:
    from starlette.responses import StreamingResponse
except ImportError:
    raise MissingExtra("starlette", "service") from None

__all__ = ["OPERATIONS"]

DRAFT_BYTES = 4096
VIEWERS = 500  # streams of events at the same time, per worker
LOOK_SECONDS = 1.0
BEAT_SECONDS = 15.0
HTML, EVENTS = "text/html", "text/event-stream"
_HEADERS = {
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",
}  # fmt: skip
_documents: WeakKeyDictionary[Store, RoundDocuments] = WeakKeyDictionary()
_viewers: WeakKeyDictionary[Service, int] = WeakKeyDictionary()


async def show_page(context: Context, request: Request) -> Response:
    """The page itself; the address after the slash is the page's own business."""
    headers = {**_HEADERS, "Content-Security-Policy": content_security_policy()}
    return Response(index_html(), media_type="text/html; charset=utf-8", headers=headers)


async def show_file(context: Context, request: Request) -> Response:
    """A file of the page."""
    name = request.path_params["file"]
    data = static_files().get(name)
    if data is None:
        raise Problem("no-such-route", "the page has no such file")
    answer = immutable_response(request, data, media_type=media_type(name))
    answer.headers.update(_HEADERS)  # checked each time: a newer server may have another file
    return answer


async def show_overview(context: Context, request: Request) -> Response:
    """What is fixed about a campaign."""
    live = await context.service.campaign(task_in(request.path_params))
    document = msgspec.json.encode(overview(live.campaign))
    return immutable_response(request, document, media_type=JSON)


async def show_cells(context: Context, request: Request) -> Response:
    """The cells that a closed round left."""
    service = context.service
    task, number = task_in(request.path_params), round_of(request.path_params)
    await service.message(task, number, "closed")  # refuses a round that is not closed
    live = await service.fresh(task)
    documents = _documents.setdefault(service.store, RoundDocuments(service.store))
    packed = await service.work(documents.read, task, number, max(number, live.status.closed))
    return _compressed(request, packed)


async def show_coast(context: Context, request: Request) -> Response:
    """Coastlines inside the domain."""
    live = await context.service.campaign(task_in(request.path_params))
    box = live.campaign.task.box
    lines = await context.service.work(lambda: lines_json(coast(box), box))
    return _compressed(request, gzip.compress(msgspec.json.encode(lines), 5, mtime=0))


def _compressed(request: Request, packed: bytes) -> Response:
    """Gzipped JSON that never changes; unpacked for those who cannot."""
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return immutable_response(request, gzip.decompress(packed), media_type=JSON)
    answer = immutable_response(request, packed, media_type=JSON)
    answer.headers["Content-Encoding"], answer.headers["Vary"] = "gzip", "Accept-Encoding"
    return answer


async def stream_events(context: Context, request: Request) -> Response:
    """Where the campaign stands, again whenever that changes: server-sent events."""
    service = context.service
    live = await service.fresh(task_in(request.path_params))
    if _viewers.get(service, 0) >= VIEWERS:
        raise Problem("overloaded", f"{VIEWERS} pages are watching already", retry_after=30)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(service, live), media_type=EVENTS, headers=headers)


async def _events(service: Service, live: LiveCampaign) -> AsyncIterator[bytes]:
    _viewers[service] = _viewers.get(service, 0) + 1
    try:
        shown, beat = None, time.monotonic()
        while not service.stopping:
            changed = live.changed
            document = state_document(service, live)
            if (document | {"now": 0, "poll_after": 0}) != shown:
                shown, beat = document | {"now": 0, "poll_after": 0}, time.monotonic()
                yield b"event: state\ndata: " + msgspec.json.encode(document) + b"\n\n"
            elif time.monotonic() - beat > BEAT_SECONDS:
                beat = time.monotonic()
                yield b": still here\n\n"
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), LOOK_SECONDS)
            live = await service.fresh(live.campaign.task.id)
    finally:
        _viewers[service] -= 1


async def make_draft(context: Context, request: Request) -> Response:
    """The form and the promise of a campaign that is not created yet."""
    service = context.service
    asked = decode_form(await read_request(request, DRAFT_BYTES), Draft)
    key = await service.read(registered_key, service.store)
    try:
        return json_response(await service.work(lambda: draft(asked, server_key=key or b"")))
    except InvalidInput as error:
        raise Problem("malformed", str(error)) from None


_OF_ROUND = (*TASK_PROBLEMS, "no-such-round", "not-closed-yet", "unavailable")

OPERATIONS = (
    Operation("get", "/", show_page, "The page", (200,), HTML),
    Operation("get", "/static/{file:path}", show_file, "A file of the page", (200, 304), ""),
    Operation(
        "get", "/tasks/{task}/overview", show_overview, "Domain, promise, schedule", (200, 304), JSON, TASK_PROBLEMS
    ),
    Operation(
        "get", "/tasks/{task}/rounds/{round}/cells", show_cells, "The cells that a closed round left", (200, 304), JSON,
        _OF_ROUND,
    ),
    Operation("get", "/tasks/{task}/coast", show_coast, "Coastlines in the domain", (200, 304), JSON, TASK_PROBLEMS),
    Operation(
        "get", "/tasks/{task}/events", stream_events, "Where the campaign stands, whenever that changes", (200,),
        EVENTS, (*TASK_PROBLEMS, "overloaded", "unavailable"),
    ),
    Operation(
        "post", "/drafts", make_draft, "A campaign's form and promise", (200,), JSON,
        ("unauthorized", "malformed", "too-large", "unavailable"), JSON, "admin",
    ),
)  # fmt: skip
