"""The service as an ASGI application: one list of routes (``spec/http.md``).

Nothing gets past ``App.__call__``: a refused request becomes problem+json, an unexpected fault is logged and answered
with 503. No address or user agent is looked at. Knows HTTP. Decides nothing about reports: that is ``check`` and the
store.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from collections.abc import Callable
from typing import Any

import msgspec

from ..errors import InvalidInput, MissingExtra, Overloaded, StoreUnavailable
from ..protocol.messages import encode
from ..protocol.plan import encode_value
from . import rounds
from .admin import admin_hash, create_campaign, new_tokens
from .campaign import CampaignForm, token_hash, used_by
from .check import check_report
from .http import (
    TASK,
    Watched,
    decode_form,
    from_http,
    immutable_response,
    json_response,
    no_such_route,
    number_of,
    pseudonym_of,
    read_body,
    read_request,
    report_path,
    round_of,
    send_answer,
    size_of,
    task_of,
)
from .limits import RateLimit
from .metrics import Metrics
from .openapi import describe
from .problems import Problem
from .results import geojson, results
from .stores.base import Enrolment, What
from .worker import Service, poll_after

try:
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from starlette.routing import Route, Router
    from starlette.types import Receive, Scope, Send
except ImportError:
    raise MissingExtra("starlette", "service") from None

__all__ = ["App", "create_app"]

log = logging.getLogger("semilocal.service")

REPORT_BYTES = 4096
ADMIN_BYTES = 65_536
QUERY_BYTES = 256
LONGEST_WAIT = 25
PAGE = 1000

_KEY = re.compile(rb"[Bb]earer ([0-9a-f]{64})\Z")
_CREATED = [(b"content-length", b"0"), (b"cache-control", b"no-store")]


class EnrolmentForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of an enrolment."""

    verifier: str
    token: str | None = None


class TokensForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a request for tokens."""

    count: int


class App:
    """The application.

    Parameters
    ----------
    service : Service
    admin : bytes
        ``admin_hash`` of the admin token.
    """

    def __init__(self, service: Service, *, admin: bytes) -> None:
        self.service, self._admin = service, admin
        self.metrics = Metrics()
        self._by_key = RateLimit(rate=20.0, burst=60)
        self._by_token = RateLimit(rate=2.0, burst=20)
        self.router = Router(self._routes(), redirect_slashes=False, default=no_such_route)

    def _routes(self) -> list[Route]:
        task, round_ = "/tasks/{task}", "/tasks/{task}/rounds/{round}"
        return [
            Route(f"{round_}/reports/{{pseudonym}}", self._report, methods=["PUT"], name="report"),
            Route(f"{task}/state", self._state, methods=["GET"], name="state"),
            Route(f"{round_}/query", self._query, methods=["GET"], name="query"),
            Route(f"{round_}/closed", self._closed, methods=["GET"], name="closed"),
            Route(f"{round_}/checkpoint", self._checkpoint, methods=["GET"], name="checkpoint"),
            Route(f"{round_}/seal", self._seal, methods=["GET"], name="seal"),
            Route(f"{round_}/reports", self._reports, methods=["GET"], name="reports"),
            Route(f"{task}/participants/{{pseudonym}}", self._enrol, methods=["PUT"], name="enrol"),
            Route(task, self._task, methods=["GET"], name="task"),
            Route(f"{task}/plan", self._plan, methods=["GET"], name="plan"),
            Route(f"{task}/statement", self._statement, methods=["GET"], name="statement"),
            Route(f"{task}/results", self._results, methods=["GET"], name="results"),
            Route(f"{task}/regions.geojson", self._geojson, methods=["GET"], name="geojson"),
            Route("/tasks", self._tasks, methods=["GET", "POST"], name="tasks"),
            Route(f"{task}/tokens", self._tokens, methods=["POST"], name="tokens"),
            Route(f"{task}/start", self._start, methods=["POST"], name="start"),
            Route(f"{task}/close", self._close, methods=["POST"], name="close"),
            Route("/key", self._key, methods=["GET"], name="key"),
            Route("/healthz", self._healthz, methods=["GET"], name="healthz"),
            Route("/metrics", self._metrics, methods=["GET"], name="metrics"),
            Route("/openapi.json", self._openapi, methods=["GET"], name="openapi"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            await receive()
            await send({"type": "websocket.close", "code": 1000})
            return
        watched = Watched(send, self.metrics)
        try:
            if len(scope["query_string"]) > QUERY_BYTES:
                raise Problem("too-large", f"a query string has at most {QUERY_BYTES} bytes")
            scope["app"] = self  # makes the router raise, so that every refusal is put into words here
            # Reports are nearly all there is to do: they go past the router, which has the same route.
            report = report_path(scope["path"]) if scope["method"] == "PUT" else None
            if report is None:
                await self.router(scope, receive, watched)
            else:
                await self._put_report(scope, receive, watched, *report)
            return
        except Problem as error:
            problem = error
        except HTTPException as error:
            problem = from_http(error)
        except (StoreUnavailable, Overloaded) as error:
            problem = Problem(
                "overloaded" if isinstance(error, Overloaded) else "unavailable", str(error.args[0])[:200]
            )
            if isinstance(error, StoreUnavailable):
                log.warning("the database is away: %s", error)
                problem = Problem("unavailable", "the database does not answer now")
        except ClientDisconnect:
            return
        except Exception:
            log.exception("unexpected fault")
            problem = Problem("unavailable", "an unexpected fault; it was logged")
        if not watched.begun:
            await send_answer(watched, problem.status, problem.headers, problem.body, scope["method"])

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.service.start()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.service.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    # -- devices -----------------------------------------------------------------------------------------------

    async def _put_report(
        self, scope: Scope, receive: Receive, send: Send, task: bytes, round_: int, pseudonym: bytes
    ) -> None:
        key, size = b"", 0
        for name, value in scope["headers"]:
            if name == b"authorization":
                key = value
            elif name == b"content-length":
                size = size_of(value)
        body = await read_body(receive, size, REPORT_BYTES)
        match = _KEY.match(key)
        if match is None:
            raise Problem("unauthorized", "send Authorization: Bearer <key, 64 lower-case hex digits>")
        service = self.service
        if not self._by_key.allow(key, service.clock()):
            raise Problem("too-fast", "more than 20 requests a second with one key")
        verifier = hashlib.sha256(bytes.fromhex(match[1].decode())).digest()
        live = await service.campaign(task)
        if round_ > live.status.round or (live.asked is None and not live.status.ended):
            live = await service.refresh(task)
        status = live.status
        asked = live.asked if round_ == status.round and round_ > status.closed else None
        item = check_report(body, task=task, round_=round_, pseudonym=pseudonym, verifier=verifier, asked=asked)
        if round_ > max(status.round, status.closed) or status.phase == "enrolling":
            if status.ended:
                raise Problem(
                    "campaign-ended" if status.phase == "cancelled" else "no-such-round", "the campaign has ended"
                )
            raise Problem(
                "not-open-yet", f"round {round_} is not open", retry_after=poll_after(status, service.clock())
            )
        outcome = await service.writer.put(item)
        self.metrics.judged(outcome)
        if outcome == "stored" or outcome == "again":
            await send(
                {"type": "http.response.start", "status": 201 if outcome == "stored" else 200, "headers": _CREATED}
            )
            await send({"type": "http.response.body", "body": b""})
            return
        raise Problem(outcome, retry_after=1 if outcome == "not-open-yet" else None)

    async def _report(self, request: Request) -> Response:
        # Well-formed ones never get here; this puts into words what is wrong with the others.
        task_of(request.path_params), round_of(request.path_params), pseudonym_of(request.path_params)
        raise Problem("no-such-route")

    async def _enrol(self, request: Request) -> Response:
        task, pseudonym = task_of(request.path_params), pseudonym_of(request.path_params)
        form = decode_form(await read_request(request, REPORT_BYTES), EnrolmentForm)
        if not TASK.match(form.verifier):
            raise Problem("malformed", "verifier must be SHA-256 of the key: 64 lower-case hex digits")
        verifier = bytes.fromhex(form.verifier)
        if form.token is not None and not (form.token.isascii() and 8 <= len(form.token) <= 128):
            raise Problem("bad-token", "a token has 8 to 128 plain characters")
        limited = form.token.encode() if form.token is not None else verifier
        if not self._by_token.allow(limited, self.service.clock()):
            raise Problem("too-fast", "more than 2 enrolments a second with one token")
        await self.service.campaign(task)
        digest, mark = None, None
        if form.token is not None:
            digest, mark = token_hash(form.token), used_by(form.token, pseudonym, verifier)
        outcome = await self.service.writer.put(Enrolment(task, pseudonym, verifier, digest, mark))
        self.metrics.judged(outcome)
        if outcome not in ("stored", "again"):
            raise Problem(outcome)
        return json_response({"enrolled": True}, status=201 if outcome == "stored" else 200)

    async def _state(self, request: Request) -> Response:
        task = task_of(request.path_params)
        after = number_of(request, "after", default=None, low=-1, high=10**6)
        seconds = number_of(request, "wait", default=0, low=0, high=LONGEST_WAIT)
        if after is not None and seconds:
            live = await self.service.wait(task, after=after, seconds=seconds)
        else:
            live = await self.service.fresh(task)
        status, now = live.status, self.service.clock()
        kind = None if live.asked is None or status.ended else "value-query" if live.asked.is_value else "query"
        document = {
            "task": task.hex(), "phase": status.phase, "round": status.round, "kind": kind, "closed": status.closed,
            "enrolled": status.enrolled, "deadline": status.deadline, "poll_after": poll_after(status, now),
            "now": int(now),
        }  # fmt: skip
        return json_response(document)

    # -- what everybody may read -------------------------------------------------------------------------------

    async def _task(self, request: Request) -> Response:
        live = await self.service.campaign(task_of(request.path_params))
        return immutable_response(request, encode(live.campaign.task))

    async def _plan(self, request: Request) -> Response:
        live = await self.service.campaign(task_of(request.path_params))
        return immutable_response(request, encode_value(live.campaign.plan))

    async def _statement(self, request: Request) -> Response:
        live = await self.service.campaign(task_of(request.path_params))
        return immutable_response(request, live.campaign.statement().encode(), media_type="text/plain; charset=utf-8")

    async def _query(self, request: Request) -> Response:
        return await self._message(request, "query")

    async def _closed(self, request: Request) -> Response:
        return await self._message(request, "closed")

    async def _checkpoint(self, request: Request) -> Response:
        return await self._message(request, "checkpoint")

    async def _seal(self, request: Request) -> Response:
        return await self._message(request, "seal")

    async def _message(self, request: Request, what: What) -> Response:
        task, round_ = task_of(request.path_params), round_of(request.path_params)
        return immutable_response(request, await self.service.message(task, round_, what))

    async def _reports(self, request: Request) -> Response:
        task, round_ = task_of(request.path_params), round_of(request.path_params)
        after = request.query_params.get("after", "")
        if after and not re.fullmatch(r"[0-9a-f]{32}", after):
            raise Problem("malformed", "after must be a pseudonym: 32 lower-case hex digits")
        limit = number_of(request, "limit", default=PAGE, low=1, high=PAGE)
        await self.service.message(task, round_, "closed")
        query = rounds.decode_query(await self.service.message(task, round_, "query"))
        rows = await self.service.read(
            self.service.store.reports, task, round_, after=bytes.fromhex(after), limit=limit or PAGE
        )
        return immutable_response(request, msgspec.msgpack.encode([rounds.report_bytes(row, query) for row in rows]))

    async def _results(self, request: Request) -> Response:
        return await self._published(request, results, "application/json")

    async def _geojson(self, request: Request) -> Response:
        live = await self.service.campaign(task_of(request.path_params))
        if live.campaign.task.box.dimensions != 2 or live.campaign.task.rule == "each":
            raise Problem("no-such-route", 'GeoJSON needs two dimensions and rule "all" or "trim"')
        return await self._published(request, geojson, "application/geo+json")

    async def _published(self, request: Request, make: Callable[..., dict[str, Any]], media_type: str) -> Response:
        task = task_of(request.path_params)
        live = await self.service.fresh(task)
        if live.status.phase != "finished":
            wait = poll_after(live.status, self.service.clock())
            raise Problem("not-closed-yet", f"the campaign is {live.status.phase}", retry_after=wait)
        document = await self.service.read(make, self.service.store, task)
        return immutable_response(request, msgspec.json.encode(document), media_type=media_type)

    # -- administrators ----------------------------------------------------------------------------------------

    def _check_admin(self, request: Request) -> None:
        given = request.headers.get("authorization", "")
        token = given[7:] if given[:7].lower() == "bearer " else ""
        if not hmac.compare_digest(admin_hash(token), self._admin):
            raise Problem("unauthorized", "this route takes the admin token: Authorization: Bearer <token>")

    async def _tasks(self, request: Request) -> Response:
        if request.method == "POST":
            return await self._create(request)
        statuses = await self.service.read(self.service.store.statuses)
        rows = []
        for task, status in statuses.items():
            live = await self.service.campaign(task)
            rows.append(
                {"task": task.hex(), "name": live.campaign.name, "phase": status.phase, "enrolled": status.enrolled}
            )
        return json_response(rows)

    async def _create(self, request: Request) -> Response:
        self._check_admin(request)
        body = await read_request(request, ADMIN_BYTES)
        form = decode_form(body, CampaignForm)
        try:
            campaign = form.build()
            fresh = await self.service.read(create_campaign, self.service.store, campaign, now=self.service.clock())
        except InvalidInput as error:
            raise Problem("malformed", str(error)) from None
        task = campaign.task.id
        if not fresh:
            raise Problem("task-exists", "change the task, for example its delta, to run it again")
        return json_response({"task": task.hex()}, status=201, headers={"Location": f"/tasks/{task.hex()}"})

    async def _tokens(self, request: Request) -> Response:
        self._check_admin(request)
        task = task_of(request.path_params)
        form = decode_form(await read_request(request, ADMIN_BYTES), TokensForm)
        await self.service.campaign(task)
        try:
            tokens = await self.service.read(new_tokens, self.service.store, task, count=form.count)
        except InvalidInput as error:
            raise Problem("malformed", str(error)) from None
        return json_response({"tokens": tokens}, status=201)

    async def _start(self, request: Request) -> Response:
        self._check_admin(request)
        task = task_of(request.path_params)
        await self.service.campaign(task)
        await self.service.read(rounds.start, self.service.store, task, self.service.clock())
        live = await self.service.refresh(task)
        if live.status.phase == "cancelled":
            raise Problem("campaign-ended", "the campaign was cancelled")
        return json_response({"phase": live.status.phase, "round": live.status.round})

    async def _close(self, request: Request) -> Response:
        self._check_admin(request)
        task = task_of(request.path_params)
        await self.service.campaign(task)
        await self.service.read(rounds.cancel, self.service.store, task)
        live = await self.service.refresh(task)
        return json_response({"phase": live.status.phase, "round": live.status.round})

    # -- operation ---------------------------------------------------------------------------------------------

    async def _key(self, request: Request) -> Response:
        key = await self.service.read(rounds.server_key, self.service.store)
        return json_response({"server_key": key.hex()})

    async def _healthz(self, request: Request) -> Response:
        await self.service.read(self.service.store.ping)
        return json_response({"status": "ok"})

    async def _metrics(self, request: Request) -> Response:
        statuses = await self.service.read(self.service.store.statuses)
        text = self.metrics.text(
            statuses.values(), waiting=self.service.writer.waiting, batches=self.service.writer.batches,
            written=self.service.writer.written, closings=self.service.closings,
        )  # fmt: skip
        return Response(text, media_type="text/plain; version=0.0.4", headers={"Cache-Control": "no-store"})

    async def _openapi(self, request: Request) -> Response:
        return json_response(describe())


def create_app(service: Service, *, admin: bytes) -> App:
    """The application over a service; ``admin`` is the hash of the admin token."""
    return App(service, admin=admin)
