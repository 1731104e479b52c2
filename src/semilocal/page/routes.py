"""The routes of the page: its files, and what it shows of campaigns. ``semilocal serve`` adds them to the service's.

Everything here but the draft of a campaign is for everybody. Knows HTTP.
"""

from __future__ import annotations

import gzip
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from ..errors import InvalidInput
from ..geometry.box import Box
from ..geometry.places import named_box
from ..io.basemap import basemap_json
from ..io.map_rows import OPEN, REGION, domain_json, partition_rows, region_rows
from ..protocol.curator import Curator
from ..protocol.messages import AnyClosed, ValueClosed, decode_closed
from ..protocol.partition import UNPROTECTED
from ..protocol.promise import device_words, promise
from ..protocol.region import walls_of
from ..release.pair import PairResult
from ..service.campaign import Campaign
from ..service.http import Request, Response, decode_form, immutable_response, json_response, read_request, round_of
from ..service.http import task_of as task_in
from ..service.keys import registered_key
from ..service.pair.play import LivePair
from ..service.problems import Problem
from ..service.results import PairFindings
from ..service.rounds import catch_up
from ..service.routes.pair import pair_of
from ..service.routes.public import findings_of, show_fixed
from ..service.routes.table import JSON, Context, Operation
from ..service.stores.base import Store
from ..sharing.pair import EXPERIMENTAL
from .drafts import Draft, draft, field_of
from .single import content_security_policy, index_html, media_type, packed_file, static_files

DRAFT_BYTES = 4096
WORLD_CORNERS = 30_000  # of land, on the map that a domain is drawn on
HTML = "text/html"
_HEADERS = {"Referrer-Policy": "no-referrer", "Cache-Control": "no-cache", "Cross-Origin-Opener-Policy": "same-origin"}
_CACHE_BYTES = 64 << 20
_CURATORS = 4
_documents: WeakKeyDictionary[Store, RoundDocuments] = WeakKeyDictionary()


# -- what is shown, as JSON: a function of the task and of closed rounds ----------------------------------------------


def overview(campaign: Campaign) -> dict[str, Any]:
    """What is fixed about a campaign: domain, promise and schedule."""
    task = campaign.task
    return {
        "task": task.id.hex(), "name": campaign.name, "trust": "nobody",
        "domain": domain_json(task.box, task.hierarchy), "k": task.k, "rule": task.rule,
        "max_rounds": task.max_rounds, "window": task.window, "quorum": task.quorum,
        "enrolment": campaign.enrolment, "capacity": campaign.capacity,
        "releases": [release.what for release in campaign.releases], "public": UNPROTECTED,
        "promise": promise(task, campaign.plan).to_json(),
        "participant": device_words(task, campaign.plan),
    }  # fmt: skip


def pair_overview(live: LivePair) -> dict[str, Any]:
    """What is fixed about a task of two servers: domain, promise and both operators."""
    pair, row = live.pair, live.row
    return {
        "task": live.task.hex(), "name": row.name, "trust": "two-servers", "domain": domain_json(pair.pooled.box),
        "enrolment": row.enrolment, "capacity": row.capacity, "role": live.role,
        "notes": [EXPERIMENTAL, live.pair.collusion],
        "operators": pair.operators,
        "public": "", "promise": pair.promise().to_json(), "participant": pair.device_words(),
    }  # fmt: skip


def pair_document(counts: PairResult) -> dict[str, Any]:
    """The final cells of two servers, as the only round of a map."""
    box = counts.partition.task.box
    rows = partition_rows(counts.partition).to_json(counts.partition.task.hierarchy) if box.dimensions <= 2 else None
    privacy = counts.guarantee.to_json()
    return {"round": 1, "kind": "cells", "received": counts.total, "expected": None, "rows": rows, "privacy": privacy}


def round_document(curator: Curator, closed: AnyClosed, expected: int | None) -> dict[str, Any]:
    """What a closed round left: all regions, if it changed them, and how many reported of those ``expected``.

    The curator is as after the round.
    """
    number = closed.round
    if isinstance(closed, ValueClosed):
        received = sum(closed.responders)
        return {"round": number, "kind": "values", "rows": None, "received": received, "expected": expected}
    document = {
        "round": number, "kind": "cells", "whole": True, "received": sum(head.reports for head in closed.heads),
        "expected": expected,
    }  # fmt: skip
    changed = number == 1 or closed.finished or any(one.outcome != "more" for one in closed.verdicts)
    if curator.task.box.dimensions > 2 or not changed:
        return document | {"rows": None}
    logs = [log for _, log in sorted(curator.logs.items())]
    rows = region_rows(
        curator.task, np.array([log.lower for log in logs], dtype=np.uint64),
        np.array([log.upper for log in logs], dtype=np.uint64), np.array([log.crowd for log in logs], dtype=np.int64),
        state=np.array([REGION if curator.ended(log.region) else OPEN for log in logs]),
        walls=walls_of(logs) if curator.task.rule == "cut" else None,
    )  # fmt: skip
    return document | {"rows": rows.to_json(curator.task.hierarchy)}


class RoundDocuments:
    """Documents of closed rounds, compressed, in bounded memory: they never change, and everybody wants the same."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._curators: OrderedDict[bytes, Curator] = OrderedDict()
        self._kept: OrderedDict[tuple[bytes, int], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, task: bytes, number: int) -> bytes:
        """The document of a round that is closed, as gzipped JSON."""
        with self._lock:  # one reader computes, the others wait for it
            if (task, number) not in self._kept:
                self._build(task, number)
            self._kept.move_to_end((task, number))
            return self._kept[task, number]

    def _build(self, task: bytes, number: int) -> None:
        """Follow the campaign up to a round, and keep the documents of all rounds on the way."""
        campaign = self._store.campaign(task)
        if campaign is None:
            raise InvalidInput("there is no campaign with this task")
        curator = self._curators.pop(task, None)
        if curator is None or curator.round > number:
            curator = catch_up(self._store, campaign, 0)
        while curator.round <= number:
            closing, expected = curator.round, curator.expected
            message = decode_closed(self._store.message(task, closing, "closed") or b"")
            catch_up(self._store, campaign, closing, curator)
            document = round_document(curator, message, expected)
            self._kept[task, closing] = _packed(document)
        self._curators[task] = curator
        while len(self._curators) > _CURATORS:
            self._curators.popitem(last=False)
        while sum(map(len, self._kept.values())) > _CACHE_BYTES and len(self._kept) > 1:
            self._kept.popitem(last=False)


# -- routes ------------------------------------------------------------------------------------------------------------


async def show_page(context: Context, request: Request) -> Response:
    """The page itself; the address after the slash is the page's own business."""
    return _html("views/main.js")


async def show_join(context: Context, request: Request) -> Response:
    """The page of a participant: a device in the browser."""
    await context.service.campaign(task_in(request))
    return _html("views/join.js")


async def show_pair_join(context: Context, request: Request) -> Response:
    """The page of a participant whose device also asks the second operator."""
    live = await pair_of(context, request)
    return _html("views/join.js", live.pair.leader.origin, live.pair.helper.origin)


def _html(entry: str, *origins: str) -> Response:
    headers = {**_HEADERS, "Content-Security-Policy": content_security_policy(*origins)}
    return Response(index_html(entry), media_type="text/html; charset=utf-8", headers=headers)


async def show_file(context: Context, request: Request) -> Response:
    """A file of the page."""
    name = request.path_params["file"]
    data = static_files().get(name)
    if data is None:
        raise Problem("no-such-route", "the page has no such file")
    answer = _compressed(request, packed_file(name), media_type(name))
    answer.headers.update(_HEADERS)  # checked each time: a newer server may have another file
    return answer


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


@cache
def _world() -> bytes:
    box = named_box("world")
    return _packed({"domain": domain_json(box), "ground": basemap_json(box, most=WORLD_CORNERS)})


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


async def show_world(context: Context, request: Request) -> Response:
    """Land and cities of the world."""
    return await _show_ground(context, request, _world)


def _packed(document: Any) -> bytes:
    return gzip.compress(msgspec.json.encode(document), 5, mtime=0)


def _compressed(request: Request, packed: bytes, media: str = JSON) -> Response:
    """Gzipped content that never changes; unpacked for those who cannot."""
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return immutable_response(request, gzip.decompress(packed), media_type=media)
    answer = immutable_response(request, packed, media_type=media)
    answer.headers["Content-Encoding"], answer.headers["Vary"] = "gzip", "Accept-Encoding"
    return answer


async def make_draft(context: Context, request: Request) -> Response:
    """The form and the promise of a campaign that is not created yet."""
    service = context.service
    body = await read_request(request, DRAFT_BYTES)
    try:
        asked = decode_form(body, Draft)
    except Problem as problem:
        raise Problem(problem.token, problem.detail, field=field_of(problem.detail)) from None
    if asked.trust == "two-servers" and (service.pairs is None or service.pairs.settings.role != "leader"):
        raise Problem("wrong-role", "a pair is created on its leader: this server has no --role leader", field="trust")
    key = await service.read(registered_key, service.store)
    try:
        return json_response(await service.work(lambda: draft(asked, server_key=key or b"")))
    except InvalidInput as error:
        raise Problem("malformed", str(error), field=field_of(str(error))) from None


OPERATIONS = (
    Operation("get", "/", show_page, "The page", answer=HTML),
    Operation(
        "get", "/join/{task}", show_join, "The page of a participant", answer=HTML, of_pair=show_pair_join
    ),
    Operation("get", "/static/{file:path}", show_file, "A file of the page", answer="", success=(200, 304)),
    Operation(
        "get", "/tasks/{task}/overview", show_fixed(lambda one: msgspec.json.encode(overview(one)), JSON),
        "Domain, promise, schedule", success=(200, 304), of_pair=show_pair_overview,
    ),
    Operation(
        "get", "/tasks/{task}/rounds/{round}/cells", show_cells, "The cells that a closed round left",
        ("not-closed-yet",), success=(200, 304), of_pair=show_pair_cells,
    ),
    Operation(
        "post", "/drafts", make_draft, "A campaign's form and promise", ("malformed", "wrong-role"), body=JSON,
        auth="admin",
    ),
    Operation(
        "get", "/tasks/{task}/coast", show_coast, "What lies behind maps of the domain", success=(200, 304),
        of_pair=show_pair_coast,
    ),
    Operation("get", "/world", show_world, "A map of the world, to draw a domain on", success=(200, 304)),
)  # fmt: skip
