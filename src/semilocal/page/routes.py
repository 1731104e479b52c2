"""The routes of the page: its files, and what it shows of campaigns. ``semilocal serve`` adds them to the service's.

Everything here is for everybody. Knows HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from ..errors import MissingExtra
from ..geometry.box import Box
from ..io.basemap import basemap_json
from ..service.http import Request, Response, immutable_response, json_response, round_of
from ..service.http import task_of as task_in
from ..service.problems import Problem
from ..service.results import PairFindings
from ..service.routes.device import state_document
from ..service.routes.pair import pair_of, pairs_of
from ..service.routes.public import findings_of
from ..service.routes.table import JSON, Context, Operation
from ..service.stores.base import Store
from ..service.worker import Service
from .documents import RoundDocuments, overview, pair_document, pair_overview
from .single import content_security_policy, index_html, media_type, packed_file, static_files

try:
    from starlette.responses import StreamingResponse
except ImportError:
    raise MissingExtra("starlette", "service") from None

VIEWERS = 500  # streams of events at the same time, per worker
LOOK_SECONDS = 1.0
BEAT_SECONDS = 15.0
HTML, EVENTS = "text/html", "text/event-stream"
_HEADERS = {
    "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache", "Cross-Origin-Opener-Policy": "same-origin",
}  # fmt: skip
Look = Callable[[], Awaitable[tuple[dict[str, Any], asyncio.Event]]]
_documents: WeakKeyDictionary[Store, RoundDocuments] = WeakKeyDictionary()
_viewers: WeakKeyDictionary[Service, int] = WeakKeyDictionary()


async def show_page(context: Context, request: Request) -> Response:
    """The page itself; the address after the slash is the page's own business."""
    headers = {**_HEADERS, "Content-Security-Policy": content_security_policy()}
    return Response(index_html(), media_type="text/html; charset=utf-8", headers=headers)


async def show_join(context: Context, request: Request) -> Response:
    """The page of a participant: a device in the browser."""
    await context.service.campaign(task_in(request))
    return _join()


async def show_pair_join(context: Context, request: Request) -> Response:
    """The page of a participant whose device also asks the second operator."""
    live = await pair_of(context, request)
    return _join(live.pair.leader.origin, live.pair.helper.origin)


def _join(*origins: str) -> Response:
    headers = {**_HEADERS, "Content-Security-Policy": content_security_policy(*origins)}
    return Response(index_html("views/join.js"), media_type="text/html; charset=utf-8", headers=headers)


async def show_file(context: Context, request: Request) -> Response:
    """A file of the page."""
    name = request.path_params["file"]
    data = static_files().get(name)
    if data is None:
        raise Problem("no-such-route", "the page has no such file")
    answer = _compressed(request, packed_file(name), media_type(name))
    answer.headers.update(_HEADERS)  # checked each time: a newer server may have another file
    return answer


async def show_overview(context: Context, request: Request) -> Response:
    """What is fixed about a campaign."""
    live = await context.service.campaign(task_in(request))
    document = msgspec.json.encode(overview(live.campaign))
    return immutable_response(request, document, media_type=JSON)


async def show_cells(context: Context, request: Request) -> Response:
    """The cells that a closed round left."""
    service = context.service
    task, number = task_in(request), round_of(request)
    await service.message(task, number, "closed")  # refuses a round that is not closed
    documents = _documents.setdefault(service.store, RoundDocuments(service.store))
    packed = await service.work(documents.read, task, number)
    return _compressed(request, packed)


async def show_pair_overview(context: Context, request: Request) -> Response:
    """What is fixed about a task of two servers."""
    return json_response(pair_overview(await pair_of(context, request)))


async def show_pair_cells(context: Context, request: Request) -> Response:
    """The final cells of two servers, as round 1."""
    if round_of(request) != 1:
        raise Problem("no-such-round", "two servers publish one map, as round 1")
    found = await findings_of(context, request)
    assert isinstance(found, PairFindings)
    packed = await context.service.work(lambda: _packed(pair_document(found.counts)))
    return _compressed(request, packed)


@lru_cache(maxsize=16)
def _ground(box: Box) -> bytes:
    return _packed(basemap_json(box))


async def _show_ground(context: Context, request: Request, packed: Callable[[], bytes]) -> Response:
    found = _compressed(request, await context.service.work(packed))
    found.headers["Cache-Control"] = "no-cache"  # a newer server may draw land otherwise
    return found


async def show_coast(context: Context, request: Request) -> Response:
    """Land and cities of a campaign's domain."""
    live = await context.service.campaign(task_in(request))
    return await _show_ground(context, request, lambda: _ground(live.campaign.task.box))


async def show_pair_coast(context: Context, request: Request) -> Response:
    """The same for a task of two servers."""
    live = await pair_of(context, request)
    return await _show_ground(context, request, lambda: _ground(live.pair.pooled.box))


def _packed(document: Any) -> bytes:
    return gzip.compress(msgspec.json.encode(document), 5, mtime=0)


def _compressed(request: Request, packed: bytes, media: str = JSON) -> Response:
    """Gzipped content that never changes; unpacked for those who cannot."""
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return immutable_response(request, gzip.decompress(packed), media_type=media)
    answer = immutable_response(request, packed, media_type=media)
    answer.headers["Content-Encoding"], answer.headers["Vary"] = "gzip", "Accept-Encoding"
    return answer


async def stream_events(context: Context, request: Request) -> Response:
    """Where the campaign stands, again whenever that changes: server-sent events."""
    service, task = context.service, task_in(request)
    await service.fresh(task)  # refuses a task that is not there

    async def look() -> tuple[dict[str, Any], asyncio.Event]:
        live = await service.fresh(task)
        return state_document(service, live), live.changed

    return _stream(service, look)


async def stream_pair_events(context: Context, request: Request) -> Response:
    """Where the pair stands, again whenever that changes: server-sent events."""
    pairs, live = pairs_of(context), await pair_of(context, request)

    async def look() -> tuple[dict[str, Any], asyncio.Event]:
        return pairs.state(await pairs.refresh(live)), asyncio.Event()

    return _stream(context.service, look)


def _stream(service: Service, look: Look) -> Response:
    if _viewers.get(service, 0) >= VIEWERS:
        raise Problem("overloaded", f"{VIEWERS} pages are watching already", retry_after=30)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events(service, look), media_type=EVENTS, headers=headers)


async def events(service: Service, look: Look) -> AsyncIterator[bytes]:
    """Server-sent events: the document whenever it has changed, and a sign of life when it has not.

    ``look`` gives it, and an event that is set when it may have changed; it is looked at every second anyway.
    """
    _viewers[service] = _viewers.get(service, 0) + 1
    try:
        shown, beat = None, time.monotonic()
        while not service.stopping:
            document, changed = await look()
            lasting = document | {"now": 0, "poll_after": 0}
            if lasting != shown:
                shown, beat = lasting, time.monotonic()
                yield b"event: state\ndata: " + msgspec.json.encode(document) + b"\n\n"
            elif time.monotonic() - beat > BEAT_SECONDS:
                beat = time.monotonic()
                yield b": still here\n\n"
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), LOOK_SECONDS)
    finally:
        _viewers[service] -= 1


OPERATIONS = (
    Operation("get", "/", show_page, "The page", answer=HTML),
    Operation(
        "get", "/join/{task}", show_join, "The page of a participant", answer=HTML, of_pair=show_pair_join
    ),
    Operation("get", "/static/{file:path}", show_file, "A file of the page", answer="", success=(200, 304)),
    Operation(
        "get", "/tasks/{task}/overview", show_overview, "Domain, promise, schedule", success=(200, 304),
        of_pair=show_pair_overview,
    ),
    Operation(
        "get", "/tasks/{task}/rounds/{round}/cells", show_cells, "The cells that a closed round left",
        ("not-closed-yet",), success=(200, 304), of_pair=show_pair_cells,
    ),
    Operation(
        "get", "/tasks/{task}/events", stream_events, "Where the campaign stands, whenever that changes",
        ("overloaded",), EVENTS, of_pair=stream_pair_events,
    ),
    Operation(
        "get", "/tasks/{task}/coast", show_coast, "What lies behind maps of the domain", success=(200, 304),
        of_pair=show_pair_coast,
    ),
)  # fmt: skip
