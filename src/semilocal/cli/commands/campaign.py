"""``semilocal campaign create | list | show | confirm | start | close``."""

from __future__ import annotations

import argparse
import json
import warnings
from typing import TYPE_CHECKING

import msgspec

from ...io.progress import duration
from ...protocol.policy import Policy, refusals, stops_early
from ...protocol.task import Task
from .. import pairs, server
from ..arguments import (
    BOX_HELP,
    FUNCTION_HELP,
    add_resolution,
    add_rule,
    add_task,
    number,
    parse_box,
    parse_release,
    task_options,
    whole,
)  # fmt: skip
from ..documents import PairState, State
from ..exits import DONE
from .join import DEFAULT_MAX_EPSILON

if TYPE_CHECKING:
    from ...service.campaign import Campaign

__all__ = ["add_arguments", "describe_state"]

_CHANGES = {
    "over-budget": "Lower --epsilon, --max-trims or the releases, or tell owners to raise --max-epsilon",
    "small-crowd": "Raise --k, or tell owners to lower --min-k",
    "weak-crowd": "Lower --delta, or tell owners to raise --max-delta",
    "no-crowd": "Take --rule trim or all, or tell owners to give --allow-no-crowd",
    "over-exposure": "Lower --epsilon or --max-depth, or tell owners to raise --max-exposure",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The actions and their options."""
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="create | list | show | confirm | start | close"
    )
    create = actions.add_parser("create", help="create a campaign")
    _add_create(create)
    create.set_defaults(run=run_create)
    listing = actions.add_parser("list", help="all campaigns")
    listing.set_defaults(run=run_list)
    server.add_arguments(create)
    server.add_arguments(listing)
    for name, run, words in (
        ("show", run_show, "where a campaign stands, and its promise"),
        ("confirm", run_confirm, "two servers: agree to a pair, as the operator of this server"),
        ("start", run_move, "end enrolment and open round 1; two servers: end uploads and count"),
        ("close", run_move, "cancel a running campaign"),
    ):
        action = actions.add_parser(name, help=words)
        action.add_argument("campaign", metavar="CAMPAIGN", help=server.CAMPAIGN_HELP)
        if name == "show":
            action.add_argument("--json", action="store_true", help="the state as one JSON object")
        if name == "confirm":
            action.add_argument(
                "--peer-key", metavar="HEX", help="refuse if the other operator has another signing key"
            )
        action.set_defaults(run=run)
        server.add_arguments(action)


def _add_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", required=True, help="for people")
    parser.add_argument("--bounds", metavar="BOX", required=True, help=f"the public domain: {BOX_HELP}")
    parser.add_argument("--names", default="", metavar="A,B", help="names of the axes, such as longitude,latitude")
    parser.add_argument(
        "--trust", choices=["nobody", "two-servers"], default="nobody",
        help="whom the participants trust; two-servers is experimental, and then --k and --delta are left out "
        "(%(default)s)",
    )  # fmt: skip
    add_task(parser, required=False)
    add_rule(parser)
    pairs.add_arguments(parser)
    add_resolution(parser)
    parser.add_argument(
        "--label", help="a date or a number, part of the task: the same collection again needs another one"
    )
    parser.add_argument("--tree", choices=["binary", "quad"], default="binary", help="(%(default)s)")
    parser.add_argument("--max-depth", type=whole(1), metavar="D", help="most splits on a path")
    parser.add_argument(
        "--quorum", type=number(0), default=1.0, help="share of the expected reports that closes a round early (1.0)"
    )
    parser.add_argument("--window", type=whole(1), default=3600, help="seconds that a round stays open (%(default)s)")
    parser.add_argument(
        "--unsigned", action="store_true", help="do not pin the server's key; checkpoints are not signed"
    )
    parser.add_argument("--enrolment", choices=["tokens", "open"], default="tokens", help="(%(default)s)")
    parser.add_argument("--capacity", type=whole(1), metavar="N", help="round 1 opens when so many are enrolled")
    parser.add_argument(
        "--enrolment-seconds", type=whole(1), metavar="S", help="round 1 opens after this time at the latest"
    )
    parser.add_argument(
        "--release", action="append", default=[], metavar="RELEASE",
        help=f"counts, points, mean:FUNCTION:EPSILON or values:FUNCTION:EPSILON; FUNCTION is {FUNCTION_HELP}; may be "
        "repeated",
    )  # fmt: skip


def run_create(args: argparse.Namespace) -> int:
    """Create a campaign."""
    from ...service.campaign import CAMPAIGN_TRIMS, CampaignForm, ReleaseForm

    box = parse_box(args.bounds, names=[name.strip() for name in args.names.split(",") if name.strip()])
    if args.trust == "two-servers":
        return pairs.create(args, box)
    pairs.refuse_options(args)
    releases = [parse_release(text, box.names) for text in args.release]
    options = task_options(args)
    if args.rule in (None, "trim") and args.accounting == "core":
        options.setdefault("max_trims", CAMPAIGN_TRIMS)
    with server.connect(args) as client:
        task = Task.build(
            box, tree=args.tree, max_depth=args.max_depth, quorum=args.quorum, window=args.window,
            server_key=b"" if args.unsigned else client.key(), **options,
        )  # fmt: skip
        forms = tuple(ReleaseForm(r.kind, r.function.name, r.function.parameters, r.epsilon) for r in releases)  # type: ignore[arg-type]
        form = CampaignForm(args.name, task, forms, args.enrolment, args.capacity, args.enrolment_seconds)
        campaign = form.build()
        _warn_about_devices(campaign)
        identity = client.create(form)
    print(campaign.statement())
    print(f"task {identity}")
    print(f"devices join at {(args.url or server.DEFAULT_URL).rstrip('/')}/tasks/{identity}")
    return DONE


def _warn_about_devices(campaign: Campaign) -> None:
    """Say beforehand if devices with default limits would refuse the campaign or stop early, with what to change."""
    policy = Policy(max_epsilon=float(DEFAULT_MAX_EPSILON))
    for what, found in (
        ("would refuse", refusals(campaign.task, campaign.plan, policy)),
        ("might stop before they have a region", stops_early(campaign.task, campaign.plan, policy)),
    ):
        for token, reason, change in found:
            options = _CHANGES.get(token, change)
            warnings.warn(f"devices with default limits {what}: {reason}. {options}", UserWarning, stacklevel=2)


def describe_state(state: State | PairState) -> str:
    """Where a campaign stands, in words.

    Examples
    --------
    >>> describe_state(State("collecting", 3, 2, enrolled=90, received=60, expected=88, deadline=1600, now=1000))
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
        return f"{state.phase}: {state.closed} rounds closed, {enrolled}"
    parts = [f"{state.phase}: round {state.round} is open"]
    if received is not None and expected is not None:
        parts[0] += f", {received:,} of {expected:,} answers received, {max(0, expected - received):,} missing"
    if left is not None:
        parts.append(f"it closes in {left}")
    if state.fault:
        parts.append(state.fault)
    return "; ".join([*parts, enrolled])


def run_list(args: argparse.Namespace) -> int:
    """List all campaigns."""
    with server.connect(args) as client:
        for row in client.campaigns():
            print(f"{row.task}  {row.phase:<10}  {row.enrolled:>8} enrolled  {row.name}")
    return DONE


def run_show(args: argparse.Namespace) -> int:
    """Show where a campaign stands."""
    with server.connect(args) as client:
        task = client.find(args.campaign)
        state = client.state(task)
        if args.json:
            print(json.dumps(msgspec.to_builtins(state), indent=2))
            return DONE
        print(describe_state(state))
        print(client.statement(task))
    return DONE


def run_confirm(args: argparse.Namespace) -> int:
    """Agree to a pair of two servers."""
    with server.connect(args) as client:
        task = client.find(args.campaign)
        print(client.statement(task))
        state = client.state(task)
        if args.peer_key is not None and isinstance(state, PairState):
            pairs.check_peer_key(client.task(task), state.role, args.peer_key)
        client.confirm(task)
        print(f"confirmed. {describe_state(client.state(task))}")
    return DONE


def run_move(args: argparse.Namespace) -> int:
    """End the enrolment of a campaign, or cancel it."""
    with server.connect(args) as client:
        task = client.find(args.campaign)
        {"start": client.start, "close": client.close}[args.action](task)
        print(f"task {task} is {client.state(task).phase}")
    return DONE
