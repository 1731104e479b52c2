"""Routes for everybody: campaigns, their promises, all that a closed round publishes, and how the server is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from ...errors import InvalidInput, MissingExtra
from ...protocol.messages import decode_query, encode
from .. import http, rounds
from ..campaign import Campaign
from ..http import Request, Response
from ..keys import registered_key
from ..problems import Problem
from ..results import LEVEL, Published, findings, pair_findings
from ..stores.base import What
from ..worker import poll_after
from .pair import pair_of, show_pair_statement, show_pair_task
from .table import BYTES, JSON, TEXT, Context, Handler, Operation

PAGE = 1000
GEOJSON, GEOPARQUET = "application/geo+json", "application/vnd.apache.parquet"
MOST_BOXES = 10_000
MOST_POLYGONS = 1_000
MOST_POSITIONS = 20_000  # corners of all polygons together: each may cut many cells
MOST_WITH_MEANS, MOST_POSITIONS_WITH_MEANS = 20, 1_000  # every region is compared with every area
COUNTS_BYTES = 4 << 20


class PolygonForm(msgspec.Struct, frozen=True, tag_field="type", tag="Polygon"):
    """An outline and its holes, in GeoJSON."""

    coordinates: list[list[list[float]]]


class MultiPolygonForm(msgspec.Struct, frozen=True, tag_field="type", tag="MultiPolygon"):
    """Several."""

    coordinates: list[list[list[list[float]]]]


class CountsForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a request for counts: boxes as lower and upper corners or GeoJSON polygons, and the intervals' level.

    With ``means``, the means that were released come along. ``rounding`` is the step that all coordinates are known to
    be multiples of, or one per axis; 0 for none.
    """

    boxes: list[list[list[float]]] = []
    polygons: list[PolygonForm | MultiPolygonForm] = []
    level: float = LEVEL
    means: bool = False
    rounding: float | list[float] | None = None


async def list_tasks(context: Context, request: Request) -> Response:
    """All campaigns; pairs that this server's operator has not confirmed are shown to administrators only."""
    service = context.service
    statuses = await service.read(service.store.statuses)
    rows = []
    for task, status in statuses.items():
        if task not in service.live_campaigns:
            await service.look_at(task, service.refresh(task))
        live = service.live_campaigns.get(task)
        row = {"task": task.hex(), "name": "" if live is None else live.campaign.name, "phase": status.phase}
        rows.append({**row, "enrolled": status.enrolled, "fault": service.faults.public(task)})
    pairs = service.pairs
    if pairs is None:
        return http.json_response(rows)
    known = context.is_admin(request)
    for pair in filter(lambda one: one.confirmed or known, await pairs.rows()):
        row = {"task": pair.task.hex(), "name": pair.name, "phase": pair.phase, "kind": "pair"}
        rows.append({**row, "enrolled": pair.received, "fault": service.faults.public(pair.task)})
    return http.json_response(rows)


def show_fixed(read: Callable[[Campaign], bytes], media_type: str) -> Handler:
    """A handler that answers with something that is fixed about a campaign."""

    async def handler(context: Context, request: Request) -> Response:
        live = await context.service.campaign(http.task_of(request))
        return http.immutable_response(request, read(live.campaign), media_type=media_type)

    return handler


def show_message(what: What) -> Handler:
    """A handler that answers with a stored message of a round."""

    async def handler(context: Context, request: Request) -> Response:
        task, round_ = http.task_of(request), http.round_of(request)
        return http.immutable_response(request, await context.service.message(task, round_, what))

    return handler


async def show_slice(context: Context, request: Request) -> Response:
    """The reports of a closed round that name one region."""
    task, round_ = http.task_of(request), http.round_of(request)
    return http.immutable_response(request, await context.service.slice(task, round_, *http.region_of(request)))


async def list_reports(context: Context, request: Request) -> Response:
    """A page of the reports of a closed round."""
    service = context.service
    task, round_ = http.task_of(request), http.round_of(request)
    after = request.query_params.get("after", "")
    if after and not re.fullmatch(r"[0-9a-f]{32}", after):
        raise Problem("malformed", "after must be a pseudonym: 32 lower-case hex digits")
    limit = http.number_of(request, "limit", default=PAGE, low=1, high=PAGE)
    await service.message(task, round_, "closed")
    query = decode_query(await service.message(task, round_, "query"))
    rows = await service.read(service.store.reports, task, round_, after=bytes.fromhex(after), limit=limit or PAGE)
    return http.immutable_response(request, msgspec.msgpack.encode([rounds.report_bytes(row, query) for row in rows]))


async def findings_of(context: Context, request: Request, *, early: bool = False) -> Published:
    """What a finished campaign or pair found; of a campaign, ``early`` takes its regions while values are asked."""
    service, task = context.service, http.task_of(request)
    if service.pairs is not None and await service.pairs.look_up(task) is not None:
        data = await service.pairs.transcript(await pair_of(context, request))
        return await service.compute(pair_findings, data)
    live = await service.fresh(task)
    if live.status.phase not in (("releasing", "finished") if early else ("finished",)):
        wait = poll_after(live.status, service.clock())
        raise Problem("not-closed-yet", f"the campaign is {live.status.phase}", retry_after=wait)
    return await service.compute(findings, service.store, task)


async def show_results(context: Context, request: Request) -> Response:
    """Regions, crowds and releases of a finished campaign, or cells, counts and the promise of a pair."""
    found = await findings_of(context, request)
    document = await context.service.compute(lambda: found.document)
    return http.immutable_response(request, document, media_type=JSON)


def show_map(form: Literal["geojson", "geoparquet"], media_type: str) -> Handler:
    """A handler that answers with the regions as a file."""

    async def handler(context: Context, request: Request) -> Response:
        found = await findings_of(context, request)
        if found.counts.partition.task.box.dimensions != 2:
            raise Problem("no-such-route", "a map needs two dimensions")
        try:
            document = await context.service.compute(lambda: getattr(found, form))
        except MissingExtra as error:
            raise Problem("no-such-route", f"this server cannot write GeoParquet: {error}") from None
        return http.immutable_response(request, document, media_type=media_type)

    return handler


async def count_box(context: Context, request: Request) -> Response:
    """How many participants are in one box."""
    numbers = request.query_params.get("box", "").split(",")
    try:
        corners = [float(number) for number in numbers]
        level = float(request.query_params.get("level", str(LEVEL)))
        steps = request.query_params.get("rounding")
        rounding = None if steps is None else float(steps)
    except ValueError:
        raise Problem(
            "malformed",
            "box takes numbers with commas: all lower ends, then all upper ends; level takes one, rounding one step",
        ) from None
    half = len(corners) // 2
    return await _count(
        context, request, CountsForm([[corners[:half], corners[half:]]], level=level, rounding=rounding)
    )


async def count_areas(context: Context, request: Request) -> Response:
    """How many participants are in each of many boxes or polygons."""
    return await _count(context, request, http.decode_form(await http.read_request(request, COUNTS_BYTES), CountsForm))


async def _count(context: Context, request: Request, form: CountsForm) -> Response:
    if form.boxes and form.polygons:
        raise Problem("malformed", "ask for boxes or for polygons, not for both at once")
    if not form.polygons and not 0 < len(form.boxes) <= MOST_BOXES:
        raise Problem("malformed", f"ask for 1 to {MOST_BOXES:,} boxes at once; got {len(form.boxes):,}")
    if form.means and len(form.boxes) + len(form.polygons) > MOST_WITH_MEANS:
        raise Problem("malformed", f"ask for means of 1 to {MOST_WITH_MEANS} areas at once")
    if form.polygons:
        _check_size(form.polygons, MOST_POSITIONS if not form.means else MOST_POSITIONS_WITH_MEANS)
    areas = form.boxes or msgspec.to_builtins(form.polygons)
    found = await findings_of(context, request, early=True)
    try:
        answer = await context.service.compute(found.count, areas, form.level, form.rounding)
        if form.means:
            answer["means"] = await context.service.compute(found.means_in, areas, form.level)
        return http.json_response(answer)
    except InvalidInput as error:
        raise Problem("malformed", str(error)) from None
    except MissingExtra as error:
        raise Problem("no-such-route", f"this server cannot count in polygons: {error}") from None


def _check_size(polygons: Sequence[PolygonForm | MultiPolygonForm], most: int) -> None:
    """Refuse more than a server should compute for one request."""
    if len(polygons) > MOST_POLYGONS:
        raise Problem("malformed", f"ask for 1 to {MOST_POLYGONS:,} polygons at once; got {len(polygons):,}")
    parts = [
        part
        for polygon in polygons
        for part in ([polygon.coordinates] if isinstance(polygon, PolygonForm) else polygon.coordinates)
    ]
    positions = sum(len(ring) for part in parts for ring in part)
    if positions > most:
        raise Problem(
            "malformed",
            f"the polygons have {positions:,} positions; at most {most:,} are answered at once; simplify "
            "them or ask in several requests",
        )


# -- for operators -----------------------------------------------------------------------------------------------------


async def show_key(context: Context, request: Request) -> Response:
    """The public key that tasks may pin."""
    key = await context.service.read(registered_key, context.service.store)
    if key is None:
        raise Problem("unavailable", "the server has no signing key")
    return http.json_response({"server_key": key.hex()})


async def show_health(context: Context, request: Request) -> Response:
    """Whether rounds are looked after, reports are written, and the database can be written."""
    health = context.service.health
    parts = await health.parts()
    if not health.good(parts):
        raise Problem("unavailable", "; ".join(f"{part}: {word}" for part, word in parts.items()), retry_after=5)
    worse = context.service.degraded()
    return http.json_response({"status": "degraded" if worse else "ok", **parts, **worse})


async def show_metrics(context: Context, request: Request) -> Response:
    """Numbers for monitoring. Not for everybody: they tell when reports come in."""
    service = context.service
    statuses = await service.read(service.store.statuses)
    totals = {
        "semilocal_batches": service.writer.batches, "semilocal_written": service.writer.written,
        "semilocal_faults": service.faults.total, "semilocal_rounds_closed": service.closings,
    }  # fmt: skip
    gauges: dict[str, float] = {
        "semilocal_queue_length": service.writer.waiting,
        "semilocal_campaigns_at_fault": len(service.faults),
    }
    if service.silence is not None:
        gauges["semilocal_peer_silent_seconds"] = service.silence
    text = context.metrics.text(statuses.values(), totals, gauges)
    return Response(text, media_type="text/plain; version=0.0.4", headers={"Cache-Control": "no-store"})


async def show_openapi(context: Context, request: Request) -> Response:
    """The description of all routes."""
    return http.json_response(context.description)


def _lasting(
    path: str, handler: Handler, summary: str, answer: str, *problems: str, pair: Handler | None = None,
    query: tuple[str, ...] = (),
) -> Operation:  # fmt: skip
    """What never changes once it is there."""
    path = f"/tasks/{{task}}{path}"
    return Operation(
        "get", path, handler, f"{summary}; immutable", problems, answer, (200, 304), query=query, of_pair=pair
    )


_COUNTS = "/tasks/{task}/counts"
_ROUND, _NOT_CLOSED, _RESULTS = "/rounds/{round}", "not-closed-yet", ("not-closed-yet", "overloaded")
_statement = show_fixed(lambda one: one.statement().encode(), f"{TEXT}; charset=utf-8")
_geojson, _geoparquet = show_map("geojson", GEOJSON), show_map("geoparquet", GEOPARQUET)

OPERATIONS = (
    Operation("get", "/tasks", list_tasks, "All campaigns"),
    _lasting("", show_fixed(lambda one: encode(one.task), BYTES), "The task", BYTES, pair=show_pair_task),
    _lasting("/plan", show_fixed(lambda one: encode(one.plan), BYTES), "The plan of releases", BYTES),
    _lasting("/statement", _statement, "The privacy statement", TEXT, pair=show_pair_statement),
    _lasting(f"{_ROUND}/query", show_message("query"), "What a round asks", BYTES, "not-open-yet"),
    _lasting(f"{_ROUND}/closed", show_message("closed"), "Tallies and verdicts", BYTES, _NOT_CLOSED),
    _lasting(
        f"{_ROUND}/slices/{{region}}", show_slice, "Reports of a closed round that name a region", BYTES, _NOT_CLOSED,
        "no-such-slice",
    ),
    _lasting(f"{_ROUND}/checkpoint", show_message("checkpoint"), "The transcript's root", BYTES, _NOT_CLOSED),
    _lasting(f"{_ROUND}/seal", show_message("seal"), "The checkpoint in its chain, signed", BYTES, _NOT_CLOSED),
    _lasting(
        f"{_ROUND}/reports", list_reports, "A page of the reports of a closed round", BYTES, _NOT_CLOSED,
        query=("after", "limit"),
    ),
    _lasting("/results", show_results, "Regions, crowds, releases", JSON, *_RESULTS, pair=show_results),
    _lasting("/regions.geojson", _geojson, "The regions (two dimensions)", GEOJSON, *_RESULTS, pair=_geojson),
    _lasting("/regions.parquet", _geoparquet, "The regions as GeoParquet", GEOPARQUET, *_RESULTS, pair=_geoparquet),
    Operation(
        "get", _COUNTS, count_box, "Participants in a box, with an interval", _RESULTS,
        query=("box", "level", "rounding"), of_pair=count_box,
    ),
    Operation(
        "post", _COUNTS, count_areas, "Participants in many boxes or polygons, with intervals", _RESULTS,
        of_pair=count_areas, form=CountsForm,
    ),
    Operation("get", "/key", show_key, "The public key that tasks may pin"),
    Operation("get", "/healthz", show_health, "Whether all parts of the server work"),
    Operation("get", "/metrics", show_metrics, "Numbers for monitoring", answer=TEXT, auth="admin"),
    Operation("get", "/openapi.json", show_openapi, "This description"),
)  # fmt: skip
