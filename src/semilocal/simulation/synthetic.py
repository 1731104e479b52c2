"""Synthetic populations: uniform, Gaussian, clusters, a country of towns.

Knows distributions and boxes. Knows no mechanisms.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Floats
from ..errors import InvalidInput
from ..geometry.box import Box

UNIT_SQUARE = Box((0.0, 0.0), (1.0, 1.0), names=("x", "y"))

# Centre and spread of the five Gaussian clusters of the paper's synthetic range queries.
CLUSTERS = (((0.2, 0.2), 0.05), ((0.8, 0.8), 0.05), ((0.5, 0.5), 0.10), ((0.2, 0.8), 0.04), ((0.8, 0.2), 0.04))

# Chance that two people of a cell are in the same half: about 0.65 in a state and two cities (homes, check-ins, taxis)
# below the first halvings, 0.75 to 0.9 where the map is the world. These two make forecasts fit five such files.
TOGETHER = 0.72
_HALVINGS = 40
_LAND_AND_SEA = (0.9, 0.99)  # the same for large cells, from map to map: whole parts have nobody
_LARGE = 8  # this many halvings make cells of a town's size

PATIENCE = 1_000  # rounds of candidates before a population is called impossible


def uniform(n: int, rng: np.random.Generator, *, box: Box = UNIT_SQUARE) -> Floats:
    """Return n points spread evenly over the box: float64[n, d]."""
    return rng.uniform(box.lower, box.upper, size=(n, box.dimensions))


def truncated_gaussian(
    n: int, rng: np.random.Generator, *, box: Box, scale: float, centre: tuple[float, ...] | None = None
) -> Floats:
    """Return n points of N(centre, scale²) given that they fall into the box, by rejection: float64[n, d]."""
    middle = np.zeros(box.dimensions) if centre is None else np.asarray(centre, dtype=np.float64)
    kept = np.empty((0, box.dimensions))
    for _ in range(PATIENCE):
        drawn = rng.normal(middle, scale, size=(n - len(kept), box.dimensions))
        inside = ((drawn >= box.lower) & (drawn <= box.upper)).all(axis=1)
        kept = np.concatenate([kept, drawn[inside]])
        if len(kept) == n:
            return kept
    raise InvalidInput(
        f"almost nothing of N({middle.tolist()}, {scale}²) falls into {box}; move the centre into the box"
    )


def clusters(n: int, rng: np.random.Generator) -> Floats:
    """Return n points of the five Gaussian clusters in the unit square, in random order: float64[n, 2].

    Equal shares (what does not divide by five goes to the first clusters), rejection to the square.
    """
    shares = [n // len(CLUSTERS) + (place < n % len(CLUSTERS)) for place in range(len(CLUSTERS))]
    drawn = [
        truncated_gaussian(share, rng, box=UNIT_SQUARE, scale=spread, centre=centre)
        for share, (centre, spread) in zip(shares, CLUSTERS, strict=True)
    ]
    return rng.permutation(np.concatenate(drawn))


def towns(n: int, rng: np.random.Generator, *, box: Box = UNIT_SQUARE, together: float = TOGETHER) -> Floats:
    """Return n points of a country that is drawn again each time: towns in regions, streets in towns: float64[n, d].

    The box is halved along one axis after the other; at every halving the people divide by a random share, however few
    they are, so that places are crowded or empty at every scale. The first halvings are less even: land and sea.
    ``together``, from 1/2 (even) to below 1, is the chance that two people of a cell are in the same half of it; in
    large cells it is at least 0.9 to 0.99, which is drawn as well.
    """
    if not 0.5 < together < 1.0:
        raise InvalidInput(f"together must be above 0.5 and below 1; got {together!r}")
    lower, size, people = np.zeros((1, box.dimensions)), np.ones(box.dimensions), np.array([n])
    large = rng.uniform(*_LAND_AND_SEA)
    for halving in range(_HALVINGS):
        axis = halving % box.dimensions
        size[axis] /= 2
        upper = lower.copy()
        upper[:, axis] += size[axis]
        chance = max(together, large) if halving < _LARGE else together
        evenness = (1.0 - chance) / (2.0 * chance - 1.0)
        first = rng.binomial(people, rng.beta(evenness, evenness, len(people)))
        lower, people = np.concatenate([lower, upper]), np.concatenate([first, people - first])
        lower, people = lower[people > 0], people[people > 0]
    unit = rng.permutation(np.repeat(lower, people, axis=0) + rng.random((n, box.dimensions)) * size)
    low, high = np.array(box.lower), np.array(box.upper)
    return np.asarray(np.clip(low + unit * (high - low), low, high))
