"""``semilocal campaign create | list | show | confirm | start | close``."""

from __future__ import annotations

import json as formats
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import App

from ...errors import InvalidInput, printable
from ...io.progress import duration
from ...io.trees import read_tree
from ...protocol.messages import decode
from ...protocol.policy import foreseen
from ...protocol.task import Task
from ...sharing.kinds import is_pair_task
from ...words import number_of
from .. import pairs, server
from ..admin_client import AdminClient
from ..arguments import parse_box, parse_release
from ..campaign_options import CampaignOptions
from ..documents import CampaignState, PairState
from ..exits import DONE
from ..options import CellRule, option, task_options

if TYPE_CHECKING:
    from ...service.campaign import Campaign

__all__ = ["app", "describe_state", "label_of"]

app = App(name="campaign", help_format="markdown")

_CHANGES = {
    "over-budget": "Lower --epsilon or the releases, or tell owners to raise --max-epsilon",
    "small-crowd": "Raise --k, or tell owners to lower --min-k",
    "weak-crowd": "Lower --delta, or tell owners to raise --max-delta",
    "quorum": "Give --quorum 1",
}


@app.command
def create(
    *,
    options: CampaignOptions,
    cells: CellRule = CellRule(),
    pair: pairs.PairOptions = pairs.PairOptions(),
    office: server.Office = server.Office(),
) -> int:
    """Create a campaign."""
    from ...service.campaign import CampaignForm, ReleaseForm

    tree = read_tree(options.bounds)
    names = [name.strip() for name in options.names.split(",") if name.strip()]
    box = parse_box(options.bounds, names=names) if tree is None else tree.box
    if tree is not None and options.trust == "two-servers":
        raise InvalidInput("--bounds: campaign create with two servers takes a box; build the pair in Python")
    if options.trust == "two-servers":
        return pairs.create(options, cells, pair, office, box)
    pairs.refuse_options(options, pair)
    releases = [parse_release(text, box.names) for text in options.release]
    numbers = task_options(options, cells)
    domain: dict[str, Any] = {"hierarchy": tree}
    if tree is None:
        domain = {"box": box, "tree": options.tree, "max_depth": options.max_depth}
    forms = tuple(ReleaseForm(r.kind, r.function.name, r.function.parameters, r.epsilon) for r in releases)  # type: ignore[arg-type]

    def form_with(key: bytes) -> CampaignForm:
        task = Task.build(**domain, quorum=options.quorum, window=options.window, server_key=key, **numbers)
        return CampaignForm(options.name, task, forms, options.enrolment, options.capacity, options.enrolment_seconds)

    _warn_about_devices(form_with(b"").build())  # refuses before a database is made
    with server.connect(office, new=True) as client:
        form = form_with(b"" if options.unsigned else client.key())
        campaign = form.build()
        identity = client.create(form)
    print(campaign.statement())
    print(f"task {identity}")
    print(f"devices join at {(office.url or server.DEFAULT_URL).rstrip('/')}/tasks/{identity}")
    return DONE


def _warn_about_devices(campaign: Campaign) -> None:
    """Say beforehand if devices with default limits would refuse the campaign, or some stop early: what to change."""
    for token, reason, change in foreseen(campaign.task, campaign.plan):
        warnings.warn(f"{reason}. {_CHANGES.get(token, change)}", UserWarning, stacklevel=2)


def describe_state(state: CampaignState | PairState) -> str:
    """Where a campaign stands, in words.

    Examples
    --------
    >>> state = CampaignState("collecting", 3, 2, enrolled=90, received=60, expected=88, deadline=1600, now=1000)
    >>> describe_state(state)
    'collecting: round 3 is open, 60 of 88 answers received, 28 missing; it closes in 10 min 00 s; 90 enrolled'
    """
    if isinstance(state, PairState):
        return pairs.describe(state)
    left = None if state.deadline is None else duration(max(0, state.deadline - state.now))
    received, expected = state.received, state.expected if state.expected is not None else state.needed
    enrolled = f"{state.enrolled:,} enrolled"
    if state.phase == "enrolling":
        ends = [f"{expected:,} are enrolled"] if expected else []
        ends += [f"{left} have passed"] if left else []
        when = " or ".join(ends) or "the administrator starts it"
        return f"enrolling: {enrolled}; round 1 opens when {when}"
    if state.phase not in ("collecting", "releasing"):
        return f"{state.phase}: {number_of(state.closed, 'round')} closed, {enrolled}"
    parts = [f"{state.phase}: round {state.round} is open"]
    if received is not None and expected is not None:
        parts[0] += (
            f", {received:,} of {number_of(expected, 'answer')} received, {max(0, expected - received):,} missing"
        )
    if left is not None:
        parts.append(f"it closes in {left}")
    if state.fault:
        parts.append(state.fault)
    return "; ".join([*parts, enrolled])


def label_of(task: bytes) -> str:
    """What tells a repeated collection from the one before; empty if it has no label."""
    if is_pair_task(task):
        from ...sharing.pair import PairTask

        return PairTask.from_bytes(task).pooled.label
    return decode(task, Task).label


@app.command(name="list")
def run_list(*, office: server.Office = server.Office()) -> int:
    """All campaigns."""
    with server.connect(office) as client:
        for row in client.campaigns():
            print(f"{row.task}  {row.phase:<10}  {row.enrolled:>8} enrolled  {row.name}")
    return DONE


@app.command
def show(campaign: server.Campaign, /, *, json: bool = False, office: server.Office = server.Office()) -> int:
    """Where a campaign stands, and its promise.

    Parameters
    ----------
    json
        the state as one JSON object
    """
    with server.connect(office) as client:
        task = client.find(campaign)
        state = client.state(task)
        if json:
            print(formats.dumps(msgspec.to_builtins(state), indent=2))
            return DONE
        label = label_of(client.task(task))
        print(describe_state(state))
        print(f"task {task}" + (f", label {printable(label)!r}" if label else ""))
        print(client.statement(task))
    return DONE


@app.command
def confirm(
    campaign: server.Campaign,
    /,
    *,
    peer_key: Annotated[str | None, option(metavar="HEX")] = None,
    office: server.Office = server.Office(),
) -> int:
    """Two servers: agree to a pair, as the operator of this server.

    Parameters
    ----------
    peer_key
        refuse if the other operator has another signing key
    """
    with server.connect(office) as client:
        task = client.find(campaign)
        print(client.statement(task))
        state = client.state(task)
        if peer_key is not None and isinstance(state, PairState):
            pairs.check_peer_key(client.task(task), state.role, peer_key)
        client.confirm(task)
        print(f"confirmed. {describe_state(client.state(task))}")
    return DONE


@app.command
def start(campaign: server.Campaign, /, *, office: server.Office = server.Office()) -> int:
    """End enrolment and open round 1; two servers: end uploads and count."""
    return _move(campaign, office, _start)


@app.command
def close(campaign: server.Campaign, /, *, office: server.Office = server.Office()) -> int:
    """Cancel a running campaign."""
    return _move(campaign, office, AdminClient.close)


def _start(client: AdminClient, task: str) -> None:
    state = client.state(task)
    if isinstance(state, CampaignState):
        asked = decode(client.task(task), Task)
        if asked.keeps_crowd and state.enrolled < asked.k:
            warnings.warn(
                f"{state.enrolled:,} enrolled are fewer than k = {asked.k}: the only region is the whole domain, "
                "without the crowd that was promised",
                UserWarning,
                stacklevel=2,
            )
    client.start(task)


def _move(campaign: str, office: server.Office, move: Callable[[AdminClient, str], None]) -> int:
    with server.connect(office) as client:
        task = client.find(campaign)
        move(client, task)
        print(f"task {task} is {client.state(task).phase}")
    return DONE
