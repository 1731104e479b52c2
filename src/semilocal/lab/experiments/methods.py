"""The methods of the experiments: one table with the look of each, and how it runs in each kind of experiment.

A new baseline is one row here. What a row promises comes from what it runs. Knows names, looks and ways. Knows no
figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import Any

from ...errors import InvalidInput
from ...protocol.promise import Guarantee
from .. import baselines
from .ways import (
    Exact,
    Ours,
    Papers,
    PlainCounts,
    PlainPoints,
    PlainValues,
    Pooled,
    Purpose,
    Way,
    Zero,
    laplace_values,
    paper_regions,
    published_regions,
)

__all__ = ["METHODS", "Look", "Method", "Purpose", "crowd_kept", "look", "promise_of", "used_for", "way_of"]


@dataclass(frozen=True)
class Look:
    """The look of a method: a name for people, colour, marker, line, whether the marker is filled, width in points."""

    name: str
    colour: str
    marker: str
    dashes: str
    filled: bool = True
    width: float = 1.4


@dataclass(frozen=True)
class Method:
    """One method: its look, and how it releases values, counts and points; None where it is not used for that."""

    look: Look
    values: Ours | Papers | PlainValues | Pooled | Zero | None = None
    counts: Ours | Papers | PlainCounts | Pooled | Zero | None = None
    points: Ours | Papers | PlainPoints | Pooled | Exact | None = None


_MARGIN = "the printed margin holds at δ = 0.05, not for small δ"
_ALONE = "a region may hold one person"

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "ours": Method(
            Look("semilocal, nobody trusted", "#08519c", "o", "-", width=2.0),
            values=Ours("values"),
            counts=Ours("counts"),
            points=Ours("points"),
        ),
        "pooled-curator": Method(
            Look("semilocal, curator", "#006d2c", ">", "-", width=2.0),
            values=Pooled("curator", "values"),
            counts=Pooled("curator", "counts"),
            points=Pooled("curator", "points"),
        ),
        "pooled-servers": Method(
            Look("semilocal, two servers", "#41ab5d", ">", "--", filled=False, width=2.0),
            values=Pooled("two-servers", "values"),
            counts=Pooled("two-servers", "counts"),
            points=Pooled("two-servers", "points"),
        ),
        "paper": Method(
            Look("paper's rule", "#a50f15", "s", ":"),
            values=Papers(paper_regions, "values", _MARGIN),
            counts=Papers(paper_regions, "counts", f"its noise on public counts buys nothing; {_MARGIN}"),
            points=Papers(paper_regions, "points", f"region centres; {_MARGIN}"),
        ),
        "published": Method(
            Look("published code's rule", "#ef6548", "s", "-.", filled=False),
            values=Papers(published_regions, "values", _ALONE),
            counts=Papers(published_regions, "counts", f"noise on counts protects no position; {_ALONE}"),
        ),
        "central": Method(
            Look("central DP (trusted curator)", "#000000", "*", "-"), values=PlainValues(baselines.central_mean)
        ),
        "privtree": Method(
            Look("PrivTree (trusted curator)", "#1b7837", "^", "-"),
            counts=PlainCounts(partial(baselines.privtree, nonnegative=False)),
        ),
        "privtree-cut": Method(
            Look("PrivTree, no counts below 0 (trusted curator)", "#5aae61", "^", "--", filled=False),
            counts=PlainCounts(baselines.privtree),
        ),
        "ldp": Method(
            Look("local DP", "#7f7f7f", "v", "--"),
            values=PlainValues(baselines.local_mean, laplace_values),
            points=PlainPoints(baselines.laplace_points),
        ),
        "ldp-kdtree": Method(
            Look("LDP kd-tree", "#b58ac6", "D", "-.", filled=False), counts=PlainCounts(baselines.ldp_kdtree)
        ),
        "ldp-quadtree": Method(Look("LDP quadtree", "#762a83", "D", ":"), counts=PlainCounts(baselines.ldp_quadtree)),
        "ahead": Method(Look("AHEAD (local DP)", "#d09a00", "P", "--"), counts=PlainCounts(baselines.ahead)),
        "geo": Method(Look("planar Laplace", "#35978f", "X", "-."), points=PlainPoints(baselines.planar_laplace)),
        "sldp-quantize": Method(
            Look("SLDP-Quantization", "#3f2d8f", "h", "-"),
            points=Papers(published_regions, "points", f"region centres; {_ALONE}"),
        ),
        "sldp-split": Method(
            Look("SLDP-Split", "#8d86c9", "h", "--", filled=False),
            points=Papers(
                published_regions, "points", f"the draw around a centre does not look at the position; {_ALONE}", True
            ),
        ),
        "zero": Method(Look("answer 0", "#969696", "None", "-"), values=Zero(), counts=Zero()),
        "exact": Method(Look("no privacy", "#404040", "None", ":"), points=Exact()),
        "kanonymous": Method(
            Look("k-anonymous quadtree (no noise)", "#8c4a1f", "p", ":"),
            counts=PlainCounts(baselines.kanonymous_quadtree, by_k=True, note="exact counts by a trusted curator"),
        ),
    }
)


def look(name: str) -> Look:
    """Return the look of a method.

    Examples
    --------
    >>> look("ldp").name
    'local DP'
    """
    if name not in METHODS:
        raise InvalidInput(f"no method is called {name!r}; there are {', '.join(METHODS)}")
    return METHODS[name].look


def used_for(purpose: Purpose) -> tuple[str, ...]:
    """Return the names of the methods that are used for a kind of experiment."""
    return tuple(name for name, method in METHODS.items() if getattr(method, purpose) is not None)


def way_of(name: str, purpose: Purpose) -> Any:
    """Return how a method runs in a kind of experiment."""
    if name not in used_for(purpose):
        raise InvalidInput(f"{name!r} is not used for {purpose}; there are {', '.join(used_for(purpose))}")
    return getattr(METHODS[name], purpose)


@cache
def promise_of(name: str, purpose: Purpose) -> Guarantee:
    """Return what a method promises in a kind of experiment, at ε = 1.

    Examples
    --------
    >>> promise_of("published", "values").cost("ε")
    '1.5 ε inside'
    """
    way: Way = way_of(name, purpose)
    return way.promise()


def crowd_kept(guarantee: Guarantee) -> bool | None:
    """Whether a crowd of k is promised; None where there are no regions."""
    return bool(guarantee.k) if guarantee.k or guarantee.adjacency == "inside" else None
