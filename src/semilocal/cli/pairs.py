"""What the administrator's commands say and do about pairs of two servers (experimental).

Knows the options of a pair and the words for its state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from ..errors import InvalidInput
from ..geometry.box import Box
from ..geometry.places import parse_numbers
from ..io.progress import duration
from ..pooled.asked import AskedValue
from ..pooled.task import PooledTask
from ..protocol.column import as_range
from ..words import number_of
from . import server
from .arguments import parse_function, whole
from .documents import PairState
from .exits import DONE
from .options import CellRule, group, option

if TYPE_CHECKING:
    from .campaign_options import CampaignOptions

__all__ = ["PairOptions", "check_peer_key", "create", "describe", "refuse_options"]

_ONLY_PAIRS = ("peer_key", "max_reports", "bucket_depth", "value", "range", "mean_of", "per_cell")
_ONLY_CAMPAIGNS = ("k", "delta", "rule", "release", "unsigned")


@group("Two servers", more=" (experimental), with --trust two-servers")
@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """The options of a pair.

    Attributes
    ----------
    peer_key
        the helper's signing key, as its operator told you: `serve` prints it
    max_reports
        uploads that one person may send (1)
    bucket_depth
        devices name their cell of this depth in the open, and the promise holds inside it only (0: none)
    value
        ask for a number of people's own beside the place, such as fare; needs --range
    range
        of --value: smallest and largest value that anybody can have
    mean_of
        ask for a function of the position instead of --value: coordinate, squared_norm, linear or indicator
    per_cell
        the mean in every final cell of a map; half of --epsilon goes to the map. Without it: one mean over all, no map,
        and no place is sent
    """

    peer_key: Annotated[str | None, option(metavar="HEX")] = None
    max_reports: Annotated[int | None, option(whole(1, 1000), "M")] = None
    bucket_depth: Annotated[int | None, option(whole(0, 16), "D")] = None
    value: Annotated[str | None, option(metavar="NAME")] = None
    range: Annotated[str | None, option(metavar="LOW,HIGH")] = None
    mean_of: Annotated[str | None, option(metavar="F")] = None
    per_cell: bool = False

    def asked(self, box: Box) -> AskedValue | None:
        """The value that devices are asked for; None if the task counts only."""
        mean: Literal["all", "cells"] = "cells" if self.per_cell else "all"
        if self.value is None and self.mean_of is None:
            if self.range is not None or self.per_cell:
                raise InvalidInput("--range and --per-cell belong to --value or --mean-of")
            return None
        if self.mean_of is None:
            limits = None if self.range is None else parse_numbers(self.range, "--range")
            low, high = as_range(limits, f"--value {self.value}")
            return AskedValue(name=self.value or "", low=low, high=high, mean=mean)
        if self.value is not None or self.range is not None:
            raise InvalidInput("give --value with --range, or --mean-of: one of the two")
        f = parse_function(self.mean_of, box.names)
        return AskedValue.of_function(box, f.name, f.parameters, mean=mean)


def refuse_options(options: CampaignOptions, pair: PairOptions) -> None:
    """Refuse options of a pair for another campaign, and a campaign without its numbers."""
    named = [name for name in _ONLY_PAIRS if getattr(pair, name) not in (None, False)]
    if named:
        more = "; here it is --release mean:own:NAME:LOW,HIGH:EPSILON" if named[0] in ("value", "range") else ""
        raise InvalidInput(f"--{named[0].replace('_', '-')} belongs to --trust two-servers{more}")
    for name in ("k", "delta"):
        if getattr(options, name) is None:
            raise InvalidInput(f"--{name} is missing: it is needed with --trust nobody")


def create(options: CampaignOptions, cells: CellRule, pair: PairOptions, office: server.Office, box: Box) -> int:
    """Create a pair on the leader; it proposes the pair to its helper."""
    from ..service.pair.form import PairForm

    named = [name for name in _ONLY_CAMPAIGNS if getattr(cells, name, None) or getattr(options, name, None)]
    if named:
        raise InvalidInput(f"--{named[0].replace('_', '-')} has no meaning with --trust two-servers; leave it out")
    if pair.peer_key is None:
        raise InvalidInput("--peer-key is missing: the helper's signing key, as its operator told you")
    if office.db:
        raise InvalidInput("a pair is created on the running leader: give --url, not --db")
    asked = pair.asked(box)
    epsilon = options.epsilon / 2 if asked is not None and asked.per_cell else options.epsilon
    task = PooledTask.build(
        box, epsilon=epsilon, trust="two-servers", resolution=cells.resolution, max_depth=options.max_depth,
        max_reports=pair.max_reports or 1, label=options.label or "",
    )  # fmt: skip
    form = PairForm(
        options.name, task, pair.peer_key, pair.bucket_depth or 0, options.enrolment, options.capacity,
        options.enrolment_seconds, asked,
    )  # fmt: skip
    with server.connect(office, new=True) as client:
        identity = client.create_pair(form)
        print(client.statement(identity))
        print(f"task {identity}")
        print(f"Now both operators confirm it, each on their own server: semilocal campaign confirm {identity[:12]}")
        print(f"devices join at {client.url}/tasks/{identity}")
    return DONE


def check_peer_key(task: bytes, role: str, key: str) -> None:
    """Refuse a pair whose other operator has another key than the one that was told in person."""
    from ..sharing.pair import PairTask

    pair = PairTask.from_bytes(task)
    other = pair.helper if role == "leader" else pair.leader
    if other.signing_key.hex() != key:
        raise InvalidInput(
            f"the pair names {other.name} with the key {other.signing_key.hex()}, not {key}; nothing was confirmed. "
            "Ask the operator in person which one is right"
        )


def describe(state: PairState) -> str:
    """Where a pair stands and what it waits for, in words.

    Examples
    --------
    >>> describe(PairState("open", "leader", 60, refused=1, deadline=1600, now=1000, waits_for="uploads"))
    'open (leader of two servers, experimental): 60 uploads; 1 refused; uploads end in 10 min 00 s; waits for uploads'
    """
    parts = [f"{state.phase} ({state.role} of two servers, experimental): {number_of(state.received, 'upload')}"]
    if state.accepted is not None:
        parts.append(f"{state.accepted:,} take part")
    if state.refused:
        parts.append(f"{state.refused:,} refused")
    if state.phase == "open" and state.deadline is not None:
        parts.append(f"uploads end in {duration(max(0, state.deadline - state.now))}")
    if state.level is not None:
        done = "" if state.progress is None else f", {state.progress:.0%} of the reports evaluated"
        parts.append(f"next is {state.level}{done}")
    if state.waits_for:
        parts.append(f"waits for {state.waits_for}")
    if state.fault:
        parts.append(state.fault)
    return "; ".join(parts)
