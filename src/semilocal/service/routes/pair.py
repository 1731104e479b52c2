"""Routes of two servers that count together (experimental): uploads, the pair's task and state, and the other server.

Handlers of pairs for the routes that ordinary campaigns have too stand in their rows of the table as ``of_pair``.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from ...errors import InvalidInput
from ...sharing.wire import MAX_BODY, MAX_UPLOAD
from .. import http
from ..http import Receive, Request, Response, Scope, Send
from ..pair.form import PairForm
from ..pair.peer import ANSWER_HEADER, answer_signature
from ..pair.play import LivePair
from ..pair.service import PairService
from ..problems import Problem
from .table import BYTES, Context, Operation

FORM_BYTES = 65_536
_STEPS = ("propose", "forward", "close", "finish", "sign")
_LEVEL = re.compile(r"0|[1-9][0-9]?")


class TokensForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a request for tokens."""

    count: int


def pairs_of(context: Context) -> PairService:
    """This server's part in pairs."""
    if context.service.pairs is None:
        raise Problem("wrong-role", "this server takes part in no pair; it would have to run with --role")
    return context.service.pairs


async def pair_of(context: Context, request: Request) -> LivePair:
    """The pair in the path, as it stands now."""
    pairs = pairs_of(context)
    return await pairs.refresh(await pairs.find(http.task_of(request)))


@asynccontextmanager
async def refusing() -> AsyncIterator[None]:
    """Bad input of a request becomes an answer."""
    try:
        yield
    except InvalidInput as error:
        raise Problem("malformed", str(error)) from None


# -- devices and everybody ---------------------------------------------------------------------------------------------


async def put_upload(context: Context, scope: Scope, receive: Receive, send: Send, task: bytes, report: bytes) -> None:
    """Take an upload; answered when it is on disk. Nearly all requests are uploads: this works on bare messages."""
    size = next((http.size_of(value) for name, value in scope["headers"] if name == b"content-length"), 0)
    body = await http.read_body(receive, size, MAX_UPLOAD)
    pairs = pairs_of(context)
    if not context.by_key.allow(report, context.service.monotonic()):
        raise Problem("too-fast", "more than 20 requests a second for one report")
    outcome, receipt = await pairs.upload(task, report, body)
    context.metrics.judged(outcome)
    data = receipt.to_bytes()
    headers = [
        (b"content-type", BYTES.encode()), (b"content-length", b"%d" % len(data)), (b"cache-control", b"no-store"),
    ]  # fmt: skip
    await send({"type": "http.response.start", "status": 201 if outcome == "stored" else 200, "headers": headers})
    await send({"type": "http.response.body", "body": data})


async def refuse_upload_path(context: Context, request: Request) -> Response:
    """Say what is wrong with the path of an upload; well-formed ones go to :func:`put_upload`."""
    http.task_of(request)
    raise Problem("no-such-route", "a report is named by 32 lower-case hex digits")


async def show_pair_task(context: Context, request: Request) -> Response:
    """The pair task."""
    live = await pairs_of(context).find(http.task_of(request))
    return _for_other_pages(http.immutable_response(request, live.body))


async def show_pair_statement(context: Context, request: Request) -> Response:
    """What taking part costs, in words."""
    live = await pairs_of(context).find(http.task_of(request))
    return http.immutable_response(request, live.pair.statement().encode(), media_type="text/plain; charset=utf-8")


async def show_pair_state(context: Context, request: Request) -> Response:
    """Where the pair stands, and what it waits for."""
    return _for_other_pages(http.json_response(pairs_of(context).state(await pair_of(context, request))))


async def show_pair_progress(context: Context, request: Request) -> Response:
    """The same for this server's operator: also why the pair does not go on."""
    return http.json_response(pairs_of(context).state(await pair_of(context, request), operator=True))


def _for_other_pages(answer: Response) -> Response:
    """Let a device on the other operator's page read what is public here: it compares both."""
    answer.headers["Access-Control-Allow-Origin"] = "*"
    return answer


async def show_transcript(context: Context, request: Request) -> Response:
    """The signed transcript."""
    live = await pair_of(context, request)
    return http.immutable_response(request, await pairs_of(context).transcript(live))


async def show_operator(context: Context, request: Request) -> Response:
    """Who runs this server, with the keys for the next pair."""
    pairs = pairs_of(context)
    operator = await pairs.operator()
    keys = {"signing_key": operator.signing_key.hex(), "sealing_key": operator.sealing_key.hex()}
    return http.json_response({"name": operator.name, "origin": operator.origin, **keys, "role": pairs.settings.role})


# -- administrators ----------------------------------------------------------------------------------------------------


async def create_pair(context: Context, request: Request) -> Response:
    """Create a pair with the helper of this leader."""
    pairs = pairs_of(context)
    form = http.decode_form(await http.read_request(request, FORM_BYTES), PairForm)
    async with refusing():
        task = await pairs.create(form)
    return http.json_response({"task": task.hex()}, status=201, headers={"Location": f"/tasks/{task.hex()}"})


async def confirm_pair(context: Context, request: Request) -> Response:
    """This server's operator agrees to a pair."""
    async with refusing():
        live = await pairs_of(context).confirm(await pair_of(context, request))
    return http.json_response({"phase": live.row.phase})


async def end_uploads(context: Context, request: Request) -> Response:
    """End uploads; what is there is counted."""
    live = await pairs_of(context).end_uploads(await pair_of(context, request))
    return http.json_response({"phase": live.row.phase})


async def cancel_pair(context: Context, request: Request) -> Response:
    """Cancel a pair; its shares are deleted."""
    live = await pairs_of(context).cancel(await pair_of(context, request))
    return http.json_response({"phase": live.row.phase})


async def make_pair_tokens(context: Context, request: Request) -> Response:
    """New tokens, one upload each."""
    form = http.decode_form(await http.read_request(request, FORM_BYTES), TokensForm)
    async with refusing():
        tokens = await pairs_of(context).new_tokens(await pair_of(context, request), form.count)
    return http.json_response({"tokens": tokens}, status=201)


# -- the other server --------------------------------------------------------------------------------------------------


async def answer_peer(context: Context, request: Request) -> Response:
    """Answer a step of the leader; the signature is checked before the body is read."""
    pairs, task, step = pairs_of(context), http.task_of(request), _step(request)
    live = await pairs.look_up(task)
    async with refusing():
        header = request.headers.get("authorization", "")
        signature, digest = pairs.check_leader(live, step, header, request.scope["path"])
        body = await http.read_request(request, MAX_BODY if live is not None else FORM_BYTES)
        if not hmac.compare_digest(digest, hashlib.sha256(body).digest()):
            raise Problem("bad-signature", "the body is not the one that was signed")
        data = await pairs.answer(task, step, body)
        signed = answer_signature(pairs.signing_secret((await pairs.find(task)).pair), signature, 200, data)
    return Response(data, media_type=BYTES, headers={ANSWER_HEADER: signed.hex(), "Cache-Control": "no-store"})


def _step(request: Request) -> str:
    step, depth = request.path_params["step"], request.path_params.get("depth")
    if depth is None and step in _STEPS:
        return str(step)
    if depth is not None and step in ("check", "sums") and _LEVEL.fullmatch(depth):
        return f"levels/{depth}/{step}"
    raise Problem("no-such-route", "there is no such step; see spec/http.md, section 11")


_PEER = (
    "malformed", "bad-signature", "unknown-leader", "other-version", "wrong-clock", "wrong-role", "not-confirmed",
    "other-request", "out-of-order", "other-task", "campaign-ended", "overloaded",
)  # fmt: skip
_UPLOAD = (
    "wrong-role", "not-open-yet", "other-upload", "uploads-closed", "campaign-ended", "bad-token", "token-used",
    "not-canonical", "other-report", "bad-upload", "too-fast", "overloaded",
)  # fmt: skip
_TASK = "/tasks/{task}"

OPERATIONS = (
    Operation(
        "put", f"{_TASK}/uploads/{{report}}", refuse_upload_path, "Upload a report in two shares (experimental)",
        _UPLOAD, BYTES, (200, 201), BYTES, of_pair=refuse_upload_path,
    ),
    Operation(
        "get", f"{_TASK}/transcript", show_transcript, "Signed transcript of two servers; immutable",
        ("not-closed-yet", "campaign-ended", "wrong-role"), BYTES, (200, 304), of_pair=show_transcript,
    ),
    Operation("get", "/operator", show_operator, "Who runs this server of a pair", ("wrong-role",)),
    Operation(
        "post", "/pairs", create_pair, "Create a pair of two servers (experimental)",
        ("wrong-role", "task-exists", "peer-away"), success=(201,), auth="admin", form=PairForm,
    ),
    Operation(
        "post", f"{_TASK}/confirm", confirm_pair, "Agree to a pair", ("wrong-role", "malformed"), auth="admin",
        of_pair=confirm_pair,
    ),
    *(
        Operation(
            "post", f"{_TASK}/peer/{step}", answer_peer, "A step of the leader", _PEER, BYTES, body=BYTES, auth="peer",
            of_pair=answer_peer,
        )
        for step in ("{step}", "levels/{depth}/{step}")
    ),
)  # fmt: skip
