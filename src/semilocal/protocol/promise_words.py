"""The words of a promise: who is trusted, which positions are compared, what is public. Each is written once, here.

Knows words, and no task.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from ..words import number_of

__all__ = [
    "BETWEEN", "FROM_DATA", "GIVEN", "INSIDE", "MOVED", "PROTECTED", "PUBLIC", "SEEDED", "SIMULATED", "TRUSTED",
    "Adjacency", "Trust", "anywhere_words", "buckets_words", "crowds_words", "factor_words", "loss_words",
    "losses_words", "priced", "published", "times_words", "values_words",
]  # fmt: skip

Trust = Literal["nobody", "two-servers", "curator"]
Adjacency = Literal["inside", "bucket", "anywhere", "presence", "nothing"]

INSIDE = "any two positions inside a participant's published region"
PROTECTED = "of a position, only the place inside a region is protected"
_BUCKET, _BUCKETS = "inside the public bucket that they named", "inside all public buckets that they named"
PUBLIC = f"Regions, crowds, tallies and who answered are public by design; {PROTECTED}."
BETWEEN: dict[Adjacency, str] = {
    "inside": INSIDE,
    "bucket": f"any two positions of one person {_BUCKET}",
    "anywhere": "any two positions of one person anywhere in the domain",
    "presence": "a person taking part or not",
    "nothing": "nothing: this is no differential privacy",
}
MOVED = "a moved position against any position inside the region it was moved to"
INSIDE_ALL = "any two positions inside all regions that were published for a participant"
MOVED_ALL = "a position that was moved, against any position inside all of these regions"
GIVEN = ", if so many take part and nobody drops out"
TRUSTED: dict[Trust, str] = {
    "nobody": "nobody: each device randomizes its own answers",
    "two-servers": "two operators not to collude: together they could read every position",
    "curator": "a curator who holds all positions",
}
SIMULATED = (
    "SIMULATION: one program holds all positions, so the person who runs it is a curator. The promise is what "
    "participants would get if each answered from a device of their own."
)
FROM_DATA = (
    "The domain was taken from the positions: the outermost ones are published as they are, and nothing is promised to "
    "the people there."
)
SEEDED = (
    "SIMULATION: the noise comes from a seeded generator, and who knows the seed can remove it. The promise is that of "
    "the same task with noise from the operating system."
)


def losses_words(epsilon: float, moved: float, *, own: str = "", several: bool = False, buckets: int = 0) -> str:
    """Both losses inside regions, each with its adjacency and delta.

    Parameters
    ----------
    own : str
        As in a :class:`Guarantee`.
    several : bool
        Whether the losses are sums over several partitions: a region of any of them tells positions apart.
    buckets : int
        How many public buckets a person named besides: they tell positions apart, too.
    """
    between, whom = (INSIDE_ALL, MOVED_ALL) if several else (INSIDE, MOVED)
    also = f" and {_BUCKET if buckets == 1 else _BUCKETS}" if buckets else ""
    values = also + values_words(own)
    words = f"{loss_words(epsilon)} between {between}{values}"
    return words if moved <= epsilon else f"{words}; at most {moved:g} (delta = 0) for {whom}{values}"


def values_words(own: str) -> str:
    """What else may differ between the two positions."""
    return f", with any two values of {own}" if own else ""


def anywhere_words(epsilon: float, *, own: str = "") -> str:
    """A loss that holds for any change of position, with adjacency and delta; ``own`` as in a :class:`Guarantee`."""
    return f"{loss_words(epsilon)} between {BETWEEN['anywhere']}{values_words(own)}"


def buckets_words(epsilon: float, buckets: int, *, own: str = "") -> str:
    """A loss that holds inside the public buckets that a person named, with adjacency and delta.

    Examples
    --------
    >>> buckets_words(1.0, 2)
    'epsilon = 1 (delta = 0) between any two positions of one person inside all public buckets that they named'
    """
    between = BETWEEN["bucket"].replace(_BUCKET, _BUCKET if buckets == 1 else _BUCKETS)
    return f"{loss_words(epsilon)} between {between}{values_words(own)}"


def loss_words(epsilon: float, delta: float = 0.0) -> str:
    """A loss with its delta."""
    return f"epsilon = {epsilon:g} (delta = {delta:g})"


def crowds_words(crowds: Sequence[tuple[int, float, int]]) -> list[str]:
    """What (k, delta, rows per person) of one or more partitions promise about crowds, in sentences."""
    parts = [
        f"{published(k, rows)}, except with probability delta = {delta:g}." if k else "No crowd is promised."
        for k, delta, rows in crowds
    ]
    if len(crowds) > 1:
        parts.append("Crowds do not compose: fewer than k may share all of a participant's regions.")
    return parts


def published(k: int, rows: int = 1) -> str:
    """A crowd of k participants; of as many rows, where one person may have several.

    Examples
    --------
    >>> published(50)
    'k = 50 participants are published in a region (49 others)'
    >>> published(2)
    'k = 2 participants are published in a region (1 other)'
    >>> published(50, rows=3)
    'k = 50 rows are published in a region, of at least 17 people (16 others)'
    """
    if rows == 1:
        return f"k = {k} participants are published in a region ({number_of(k - 1, 'other')})"
    people = -(-k // rows)
    return f"k = {k} rows are published in a region, of at least {people} people ({number_of(people - 1, 'other')})"


def priced(what: str, epsilon: float, *, own: str = "") -> str:
    """A release with its loss, its adjacency and its delta, in words; ``own`` is people's own value, if it is of that.

    Examples
    --------
    >>> priced("mean of x", 0.5)
    "mean of x (epsilon = 0.5, delta = 0 between any two positions inside a participant's published region)"
    """
    between = f"any two values of {own}" if own else BETWEEN["inside"]
    return f"{what} (epsilon = {epsilon:g}, delta = 0 between {between})" if epsilon else f"{what} (no loss)"


def times_words(number: float, unit: str) -> str:
    """A number of units; the plain number without a unit."""
    return f"{number:g}" if not unit else unit if number == 1 else f"{number:g} {unit}"


def factor_words(epsilon: float) -> str:
    """How much e^epsilon is."""
    return f"{math.exp(min(epsilon, 700.0)):.3g}"
