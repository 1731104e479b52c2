"""The options of ``semilocal campaign create``.

Knows options and their words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from .arguments import BOX_HELP, FUNCTION_HELP, OWN_HELP, TREE_HELP, number, whole
from .options import Positive, Share, group, option

__all__ = ["CampaignOptions"]


@group()
@dataclass(frozen=True, kw_only=True)
class CampaignOptions:
    """A campaign: its task, its rounds and who may enrol.

    Attributes
    ----------
    name
        for people
    names
        names of the axes, such as longitude,latitude
    trust
        whom the participants trust; two-servers is experimental, and then --k and --delta are left out
    epsilon
        trust nobody: loss of the map between any two places of one's region, to which each release adds its own;
        two servers: loss in all, for any change of position
    k
        the smallest crowd of a region (20)
    delta
        chance, per participant, that a split puts it with fewer than k (1e-6; take it below 1/N)
    label
        a date or a number, part of the task: the same collection again needs another one
    tree
        how a cell is split: in two or in four
    max_depth
        how deep the finest cells are
    quorum
        share of the expected reports that closes a round early
    window
        seconds that a round stays open
    unsigned
        do not pin the server's key; checkpoints are not signed
    enrolment
        who may take part: people with a token, or anybody
    capacity
        round 1 opens when this many participants are enrolled
    enrolment_seconds
        round 1 opens after this time at the latest
    """

    name: str
    bounds: Annotated[str, option(metavar="BOX", help=f"the public domain: {BOX_HELP}; {TREE_HELP}")]
    names: Annotated[str, option(metavar="A,B")] = ""
    trust: Literal["nobody", "two-servers"] = "nobody"
    epsilon: Positive
    k: Annotated[int | None, option(whole(1), "K")] = None
    delta: Share | None = None
    label: str | None = None
    tree: Literal["binary", "quad"] = "binary"
    max_depth: Annotated[int | None, option(whole(1), "D")] = None
    quorum: Annotated[float, option(number(0), "SHARE")] = 1.0
    window: Annotated[int, option(whole(1), "S")] = 3600
    unsigned: bool = False
    enrolment: Literal["tokens", "open"] = "tokens"
    capacity: Annotated[int | None, option(whole(1), "N")] = None
    enrolment_seconds: Annotated[int | None, option(whole(1), "S")] = None
    release: Annotated[
        tuple[str, ...],
        option(
            metavar="RELEASE",
            help=f"counts, points, mean:FUNCTION:EPSILON or values:FUNCTION:EPSILON; FUNCTION is {FUNCTION_HELP}, or "
            f"{OWN_HELP}; may be repeated",
        ),
    ] = ()
