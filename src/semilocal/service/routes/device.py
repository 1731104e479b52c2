"""Routes for devices: enrol, wait for the campaign to move, report."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import msgspec

from ...errors import DeviceViolation
from .. import http
from ..campaign import token_hash, used_by
from ..http import Receive, Request, Response, Scope, Send
from ..problems import Problem
from ..rounds import REPORT_BYTES, check_report, verifier_of
from ..stores.base import Enrolment
from ..worker import LiveCampaign, Service, poll_after
from .pair import show_pair_state
from .table import BYTES, Context, Operation

LONGEST_WAIT = 25
_KINDS = {"collecting": "query", "releasing": "value-query"}
_ACKNOWLEDGED = [(b"content-type", b"application/json"), (b"content-length", b"77"), (b"cache-control", b"no-store")]


class EnrolmentForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of an enrolment."""

    verifier: str
    token: str | None = None


async def enrol(context: Context, request: Request) -> Response:
    """Enrol a participant."""
    service = context.service
    task, pseudonym = http.task_of(request), http.pseudonym_of(request)
    body = await http.read_request(request, REPORT_BYTES)
    form = http.decode_form(body, EnrolmentForm)
    if not http.TASK.match(form.verifier):
        raise Problem("malformed", "verifier must be SHA-256 of the key: 64 lower-case hex digits")
    verifier = bytes.fromhex(form.verifier)
    if form.token is not None and not (form.token.isascii() and 8 <= len(form.token) <= 128):
        raise Problem("bad-token", "a token has 8 to 128 plain characters")
    limited = form.token.encode() if form.token is not None else verifier
    if not context.by_token.allow(limited, service.monotonic()):
        raise Problem("too-fast", "more than 2 enrolments a second with one token")
    await service.campaign(task)
    digest, mark = None, None
    if form.token is not None:
        digest, mark = token_hash(form.token), used_by(form.token, pseudonym, verifier)
    outcome = await service.writer.put(Enrolment(task, pseudonym, verifier, digest, mark))
    context.metrics.judged(outcome)
    if outcome not in ("stored", "again"):
        raise Problem(outcome)
    document = {"enrolled": True, "digest": hashlib.sha256(body).hexdigest()}
    return http.json_response(document, status=201 if outcome == "stored" else 200)


async def show_state(context: Context, request: Request) -> Response:
    """Where the campaign stands; a long poll with ``after`` and ``wait``."""
    service, task = context.service, http.task_of(request)
    after = http.number_of(request, "after", default=None, low=-1, high=10**6)
    seconds = http.number_of(request, "wait", default=0, low=0, high=LONGEST_WAIT)
    if after is not None and seconds:
        live = await http.while_connected(request, service.wait(task, after=after, seconds=seconds))
    else:
        live = await service.fresh(task)
    return http.json_response(state_document(service, live))


def state_document(service: Service, live: LiveCampaign) -> dict[str, Any]:
    """Where a campaign stands, for everybody."""
    status, task, now = live.status, live.campaign.task.id, service.clock()
    return {
        "task": task.hex(), "phase": status.phase, "round": status.round, "kind": _KINDS.get(status.phase),
        "closed": status.closed, "enrolled": status.enrolled, "deadline": status.deadline,
        "poll_after": poll_after(status, now), "now": math.ceil(now), "fault": service.faults.public(task),
    }  # fmt: skip


async def put_report(
    context: Context, scope: Scope, receive: Receive, send: Send, task: bytes, round_: int, pseudonym: bytes
) -> None:
    """Take a report; answered when it is on disk. Nearly all requests are reports: this works on bare messages."""
    key, size = b"", 0
    for name, value in scope["headers"]:
        if name == b"authorization":
            key = value
        elif name == b"content-length":
            size = http.size_of(value)
    body = await http.read_body(receive, size, REPORT_BYTES)
    verifier = verifier_of(key)
    if verifier is None:
        raise Problem("unauthorized", "send Authorization: Bearer <key, 64 lower-case hex digits>")
    service = context.service
    if not context.by_key.allow(key, service.monotonic()):
        raise Problem("too-fast", "more than 20 requests a second with one key")
    live = service.live_campaigns.get(task)
    curator = None if live is None else live.curator_of(round_)
    if live is None or curator is None:
        live = await service.settled(task, round_)
        curator = live.curator_of(round_)
    status = live.status
    try:
        item = check_report(body, task, round_, pseudonym, verifier, curator)
    except DeviceViolation as error:
        raise Problem(error.token, error.reason) from None
    if round_ > max(status.round, status.closed) or status.phase == "enrolling":
        if status.ended:
            token = "campaign-ended" if status.phase == "cancelled" else "no-such-round"
            raise Problem(token, "the campaign has ended")
        wait = poll_after(status, service.clock())
        raise Problem("not-open-yet", f"round {round_} is not open", retry_after=wait)
    outcome = await service.writer.put(item)
    context.metrics.judged(outcome)
    if outcome not in ("stored", "again"):
        raise Problem(outcome, retry_after=1 if outcome == "not-open-yet" else None)
    status_code = 201 if outcome == "stored" else 200
    await send({"type": "http.response.start", "status": status_code, "headers": _ACKNOWLEDGED})
    await send({"type": "http.response.body", "body": b'{"digest":"%b"}' % hashlib.sha256(body).hexdigest().encode()})


async def refuse_report_path(context: Context, request: Request) -> Response:
    """Say what is wrong with the path of a report; well-formed ones go to :func:`put_report`."""
    http.task_of(request), http.round_of(request), http.pseudonym_of(request)
    raise Problem("no-such-route")


_ENROL_PROBLEMS = (
    "bad-token", "token-used", "pseudonym-taken", "enrolment-closed", "campaign-ended", "too-fast", "overloaded",
)  # fmt: skip
_REPORT_PROBLEMS = (
    "not-open-yet", "other-answer", "round-closed", "campaign-ended", "not-canonical", "other-task", "other-round",
    "other-pseudonym", "unknown-region", "other-region", "not-drawn", "bad-answer", "wrong-kind", "too-fast",
    "overloaded",
)  # fmt: skip

OPERATIONS = (
    Operation(
        "get", "/tasks/{task}/state", show_state, "Where the campaign stands; a long poll with after and wait",
        query=("after", "wait"), of_pair=show_pair_state,
    ),
    Operation(
        "put", "/tasks/{task}/participants/{pseudonym}", enrol, "Enrol", _ENROL_PROBLEMS, success=(200, 201),
        form=EnrolmentForm,
    ),
    Operation(
        "put", "/tasks/{task}/rounds/{round}/reports/{pseudonym}", refuse_report_path,
        "Report; answered when it is on disk", _REPORT_PROBLEMS, success=(200, 201), body=BYTES, auth="device",
    ),
)  # fmt: skip
