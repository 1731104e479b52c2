"""Routes for administrators: create a campaign, hand out tokens, start, cancel. The table asks for the admin token."""

from __future__ import annotations

import logging
import math

from .. import http, rounds
from ..campaign import CampaignForm
from ..http import Request, Response
from ..problems import Problem
from ..worker import describe_step, label
from .pair import FORM_BYTES, TokensForm, cancel_pair, end_uploads, make_pair_tokens, refusing, show_pair_progress
from .table import Context, Operation

log = logging.getLogger("semilocal.service")


async def create(context: Context, request: Request) -> Response:
    """Create a campaign."""
    service = context.service
    form = http.decode_form(await http.read_request(request, FORM_BYTES), CampaignForm)
    async with refusing():
        campaign = await service.work(rounds.with_chain, service.store, form.build())
        is_new = await service.work(rounds.create_campaign, service.store, campaign, now=service.clock())
    task = campaign.task.id
    if not is_new:
        raise Problem("task-exists", "the same task exists already; to repeat the collection, give another --label")
    log.info("%s created", label(campaign))
    return http.json_response({"task": task.hex()}, status=201, headers={"Location": f"/tasks/{task.hex()}"})


async def make_tokens(context: Context, request: Request) -> Response:
    """New enrolment tokens."""
    service, task = context.service, http.task_of(request)
    form = http.decode_form(await http.read_request(request, FORM_BYTES), TokensForm)
    live = await service.campaign(task)
    async with refusing():
        tokens = await service.work(rounds.new_tokens, service.store, task, count=form.count)
    log.info("%s: %d tokens made", label(live.campaign), form.count)
    return http.json_response({"tokens": tokens}, status=201)


async def show_progress(context: Context, request: Request) -> Response:
    """How many have reported in the open round. Not for everybody: it tells when reports come in."""
    service, task = context.service, http.task_of(request)
    live = await service.refresh(task)
    status = live.status
    expected = rounds.expected_reports(live.campaign, status, live.curator)
    document = {
        "task": task.hex(), "name": live.campaign.name, "phase": status.phase, "round": status.round,
        "closed": status.closed, "enrolled": status.enrolled, "received": status.received, "expected": expected,
        "needed": status.needed, "deadline": status.deadline, "now": math.ceil(service.clock()),
        "fault": service.faults.public(task), "refused": context.metrics.refusals(task),
    }  # fmt: skip
    return http.json_response(document)


async def start(context: Context, request: Request) -> Response:
    """End enrolment."""
    service, task = context.service, http.task_of(request)
    await service.campaign(task)
    before = await service.work(rounds.start, service.store, task, service.clock())
    live = await service.refresh(task)
    if before is not None:
        words = describe_step(before, live.status, task=live.campaign.task)
        log.info("%s: %s", label(live.campaign), words)
    if live.status.phase == "cancelled":
        raise Problem("campaign-ended", "the campaign was cancelled")
    return http.json_response({"phase": live.status.phase, "round": live.status.round})


async def cancel(context: Context, request: Request) -> Response:
    """Cancel a campaign."""
    service, task = context.service, http.task_of(request)
    await service.campaign(task)
    done = await service.work(rounds.cancel, service.store, task)
    live = await service.refresh(task)
    if done:
        log.info("%s cancelled after %d closed rounds", label(live.campaign), live.status.closed)
    return http.json_response({"phase": live.status.phase, "round": live.status.round})


OPERATIONS = (
    Operation(
        "post", "/tasks", create, "Create a campaign", ("task-exists",), success=(201,), auth="admin", form=CampaignForm
    ),
    Operation(
        "post", "/tasks/{task}/tokens", make_tokens, "New enrolment tokens, shown once", success=(201,), auth="admin",
        of_pair=make_pair_tokens, form=TokensForm,
    ),
    Operation(
        "get", "/tasks/{task}/progress", show_progress, "Reports in the open round", auth="admin",
        of_pair=show_pair_progress,
    ),
    Operation(
        "post", "/tasks/{task}/start", start, "End enrolment", ("campaign-ended",), auth="admin", of_pair=end_uploads
    ),
    Operation("post", "/tasks/{task}/close", cancel, "Cancel a campaign", auth="admin", of_pair=cancel_pair),
)  # fmt: skip
