"""``semilocal campaign``: create, list, show, confirm, start, close, for one server and for pairs; tokens."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from ...errors import InvalidInput, printable
from ...geometry.box import Box
from ...geometry.places import as_box
from ...io.trees import read_tree
from ...pooled.asked import AskedValue
from ...pooled.task import PooledTask
from ...protocol.column import as_range
from ...protocol.messages import decode
from ...protocol.plan import OWN
from ...protocol.policy import foreseen
from ...protocol.task import Task
from ...service.campaign import CampaignForm
from ...service.pair.form import PairForm
from ...sharing import is_pair_task
from ...sharing.pair import PairTask
from ..admin import CAMPAIGN, CampaignName, Office, connect
from ..catalogue import DONE
from ..jobs import CellRule, task_options
from ..options import (
    DOMAIN_HELP,
    RELEASE_HELP,
    advanced,
    flat,
    not_empty,
    number,
    option,
    parse_release,
    positive,
    share,
    two_servers,
    whole,
)


@flat
class CampaignOptions:
    """A campaign: its task, its rounds and who may enrol."""

    name: Annotated[str, option("for people")]
    bounds: Annotated[str, option(DOMAIN_HELP, "BOX", dash=True)]
    epsilon: Annotated[
        float,
        option("trust nobody: loss of the map between any two places of one's region, to which each release adds its "
               "own; two servers: loss in all, for any change of position", "NUMBER", positive),
    ]  # fmt: skip
    trust: Annotated[Literal["nobody", "two-servers"], option("whom the participants trust")] = "nobody"
    k: Annotated[int | None, option("trust nobody, required: smallest crowd of a region (20)", "K", whole(1))] = None
    delta: Annotated[
        float | None,
        option("trust nobody, required: chance, per participant, that a split puts it with fewer than k (below 1/N)",
               "SHARE", share),
    ] = None  # fmt: skip
    release: Annotated[tuple[str, ...], option(RELEASE_HELP, "RELEASE")] = ()
    enrolment: Annotated[Literal["tokens", "open"], option("people with a token, or anybody")] = "tokens"
    capacity: Annotated[int | None, option("round 1 opens when so many are enrolled", "N", whole(1))] = None
    names: Annotated[str, advanced("names of the axes, such as longitude,latitude", "A,B")] = ""
    label: Annotated[str | None, advanced("a date or a number: the same collection again needs another one")] = None
    max_depth: Annotated[int | None, advanced("how deep the finest cells are", "D", whole(1))] = None
    quorum: Annotated[float, advanced("share of expected reports that closes a round early", "SHARE", number)] = 1.0
    window: Annotated[int, advanced("seconds that a round stays open", "S", whole(1))] = 3600
    enrolment_seconds: Annotated[int | None, advanced("round 1 opens by then at the latest", "S", whole(1))] = None
    peer_key: Annotated[
        str | None,
        two_servers("required with --trust two-servers: the helper's signing key, as its operator told you; `serve` "
                    "prints it", "HEX"),
    ] = None  # fmt: skip
    bucket_depth: Annotated[
        int,
        two_servers("devices name their cell of this depth in the open, and the promise holds inside it only (0: none)",
                    "D", whole(0, 16)),
    ] = 0  # fmt: skip


def run_create(*, options: CampaignOptions, cells: CellRule = CellRule(), office: Office = Office()) -> int:
    """Create a campaign, or a pair on its leader, which proposes it to the helper."""
    if options.trust == "two-servers":
        form: PairForm | CampaignForm = _pair_form(options, cells)
    else:
        form = _campaign_form(options, cells)
        campaign = form.build()  # refuses before a server is asked
        for _, reason, change in foreseen(campaign.task, campaign.plan):  # devices with default limits
            warnings.warn(f"{reason}; {change}", UserWarning, stacklevel=2)
    with connect(office) as client:
        if isinstance(form, CampaignForm):
            task = msgspec.structs.replace(form.task, server_key=client.key())
            form = msgspec.structs.replace(form, task=task)
        identity = client.create(form)
        print(client.statement(identity) if isinstance(form, PairForm) else form.build().statement())
        print(f"task {identity}")
        if isinstance(form, PairForm):
            print(f"Now both operators confirm it, each on their own server: semilocal campaign confirm {identity:.12}")
        print(f"devices join at {client.url}/tasks/{identity}")
    return DONE


def _campaign_form(options: CampaignOptions, cells: CellRule) -> CampaignForm:
    """What a server is asked for where nobody is trusted; refuses options of a pair, and a crowd without numbers."""
    if options.peer_key is not None or options.bucket_depth:
        raise InvalidInput("--peer-key and --bucket-depth belong to --trust two-servers")
    for name in ("k", "delta"):
        if getattr(options, name) is None:
            raise InvalidInput(f"--{name} is missing: it is needed with --trust nobody")
    hierarchy = read_tree(options.bounds)
    domain: dict[str, Any] = {"hierarchy": hierarchy}
    if hierarchy is None:
        domain = {"box": _box(options), "max_depth": options.max_depth}
    task = Task.build(**domain, quorum=options.quorum, window=options.window, **task_options(options, cells))
    releases = tuple(parse_release(text, task.box.names) for text in options.release)
    return CampaignForm(options.name, task, releases, options.enrolment, options.capacity, options.enrolment_seconds)


def _pair_form(options: CampaignOptions, cells: CellRule) -> PairForm:
    """What a leader is asked for; refuses options of another campaign."""
    if read_tree(options.bounds) is not None:
        raise InvalidInput("--bounds: campaign create with two servers takes a box; build the pair in Python")
    box = _box(options)
    if named := [name for name in ("k", "delta", "rule") if name in task_options(options, cells)]:
        raise InvalidInput(f"--{named[0]} has no meaning with --trust two-servers; leave it out")
    if options.peer_key is None:
        raise InvalidInput("--peer-key is missing: the helper's signing key, as its operator told you")
    asked = _asked(options.release, box)
    epsilon = options.epsilon / 2 if asked is not None and asked.per_cell else options.epsilon
    task = PooledTask.build(
        box, epsilon=epsilon, trust="two-servers", resolution=cells.resolution, max_depth=options.max_depth,
        label=options.label or "",
    )  # fmt: skip
    return PairForm(
        options.name, task, options.peer_key, options.bucket_depth, options.enrolment, options.capacity,
        options.enrolment_seconds, asked,
    )  # fmt: skip


def _asked(releases: Sequence[str], box: Box) -> AskedValue | None:
    """The value that devices are asked for beside the place; None if the task counts only."""
    if not releases:
        return None
    if len(releases) > 1:
        raise InvalidInput("--release: a task of two servers has one at most")
    form = parse_release(releases[0], box.names, shared=True)
    mean: Literal["all", "cells"] = "all" if form.kind == "mean" else "cells"
    if form.function.startswith(OWN):
        low, high = as_range(form.parameters, form.function)
        return AskedValue(name=form.function.removeprefix(OWN), low=low, high=high, mean=mean)
    return AskedValue.of_function(box, form.function, form.parameters, mean=mean)


def _box(options: CampaignOptions) -> Box:
    return as_box(options.bounds, names=[name.strip() for name in options.names.split(",") if name.strip()])


def run_list(*, office: Office = Office()) -> int:
    """All campaigns."""
    with connect(office) as client:
        for row in client.campaigns():
            print(f"{row.task}  {row.phase:<10}  {row.enrolled:>8} enrolled  {row.name}")
    return DONE


def run_show(campaign: CampaignName, /, *, office: Office = Office()) -> int:
    """Where a campaign stands, and its promise."""
    with connect(office) as client:
        task = client.find(campaign).task
        state, data = client.state(task), client.task(task)
        # a label tells a repeated collection from the one before
        label = PairTask.from_bytes(data).pooled.label if is_pair_task(data) else decode(data, Task).label
        print(state.text())
        print(f"task {task}" + (f", label {printable(label)!r}" if label else ""))
        print(client.statement(task))
    return DONE


def run_confirm(
    campaign: CampaignName,
    /,
    *,
    peer_key: Annotated[str | None, option("refuse if the other operator has another signing key", "HEX")] = None,
    office: Office = Office(),
) -> int:
    """Agree to a pair."""
    with connect(office) as client:
        task = client.find(campaign).task
        print(client.statement(task))
        state = client.state(task)
        if peer_key is not None and state.kind == "pair":
            pair = PairTask.from_bytes(client.task(task))
            other = pair.helper if state.role == "leader" else pair.leader
            if other.signing_key.hex() != peer_key:
                raise InvalidInput(
                    f"the pair names {other.name} with the key {other.signing_key.hex()}, not {peer_key}; nothing was "
                    "confirmed. Ask the operator in person which one is right"
                )
        client.move(task, "confirm")
        print(f"confirmed. {client.state(task).text()}")
    return DONE


def run_start(campaign: CampaignName, /, *, office: Office = Office()) -> int:
    """End enrolment and open round 1; two servers: end uploads and count."""
    return _move(campaign, office, "start")


def run_close(campaign: CampaignName, /, *, office: Office = Office()) -> int:
    """Cancel a running campaign."""
    return _move(campaign, office, "close")


def _move(campaign: str, office: Office, action: Literal["start", "close"]) -> int:
    with connect(office) as client:
        task = client.find(campaign).task
        state = client.state(task)
        if action == "start" and state.kind != "pair":
            asked = decode(client.task(task), Task)
            if asked.keeps_crowd and state.enrolled < asked.k:
                warnings.warn(
                    f"{state.enrolled:,} enrolled are fewer than k = {asked.k}: the only region is the whole domain, "
                    "without the crowd that was promised",
                    UserWarning,
                    stacklevel=2,
                )
        client.move(task, action)
        print(f"task {task} is {client.state(task).phase}")
    return DONE


def run_tokens(
    *,
    count: Annotated[int, option("how many", "N", whole(1, 10**7))],
    campaign: Annotated[str, option(f"{CAMPAIGN}; not needed if there is only one", "CAMPAIGN", not_empty)] = "",
    office: Office = Office(),
) -> int:
    """Print new one-time enrolment tokens, one per line."""
    with connect(office) as client:
        task = client.find(campaign).task
        for page in client.tokens(task, count):  # what was made is printed, whatever happens to the rest
            print(*page, sep="\n", flush=True)
    return DONE
