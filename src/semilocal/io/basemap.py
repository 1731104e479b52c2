"""What lies behind a map: land and sea in 1:10m, and names of cities.

Land is never drawn finer than it is: a map takes the corners that it can show, and one that is narrower than half a
degree has none. The cities are an extract of GeoNames (CC BY 4.0, geonames.org), made by ``tools/mapdata.py``.

Knows the public data that ships with the package. Knows no regions and no participants.
"""

from __future__ import annotations

import gzip
import io
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Floats
from ..geometry.box import Box
from ..geometry.units import is_map

CREDIT = "Places: GeoNames, CC BY 4.0."
NARROWEST = 0.5  # degrees: what is drawn at 1:10m says nothing about less
_AROUND = 0.02  # of a map's sides: so far outside land is cut off, where nobody sees the edge
_SHOWN = 3000  # pixels of a picture's width
_SENT = 20_000  # corners of land in a file
_CITIES = 1200  # in a file
_TRUE = 50  # a map shows that a corner is missing if it is narrower than so many times its size
Lines = list[Floats]  # each float64[n, 2]


class _Land(NamedTuple):
    """Rings around land (clockwise) and lakes: corners int32[n, 2] in steps, and the size of what each corner adds."""

    step: float
    finest: float
    corners: npt.NDArray[np.int32]
    level: npt.NDArray[np.int8]
    first: npt.NDArray[np.int64]


@lru_cache(maxsize=1)
def _world() -> _Land:
    with np.load(io.BytesIO(files("semilocal").joinpath("data", "land-10m.npz").read_bytes())) as packed:
        steps = (packed["high"].astype(np.int32) * 256 + packed["low"]).T
        first = np.concatenate([[0], np.cumsum(packed["length"])])
        corners = np.cumsum(steps, axis=0, dtype=np.int32)
        before = np.concatenate([[[0, 0]], corners])[first[:-1]]
        corners += np.repeat(packed["begin"] - before, packed["length"], axis=0).astype(np.int32)
        return _Land(float(packed["step"]), float(packed["finest"]), corners, packed["level"], first)


def land(box: Box, tolerance: float | None = None) -> Lines:
    """Rings around land and lakes, cut off a little outside a domain of longitude and latitude: float64[n, 2] each.

    Land is on the right of its rings. There is none where the domain is no map or is narrower than half a degree.
    Corners may be off by ``tolerance`` degrees; by what a picture shows if left out.
    """
    if not is_map(box) or min(box.upper[0] - box.lower[0], box.upper[1] - box.lower[1]) < NARROWEST:
        return []
    return list(_rings(box, (box.upper[0] - box.lower[0]) / _SHOWN if tolerance is None else tolerance))


@lru_cache(maxsize=16)
def _rings(box: Box, tolerance: float) -> tuple[Floats, ...]:
    world = _world()
    level = max(0, int(np.floor(np.log2(max(tolerance, world.finest) / world.finest))))
    kept = world.level >= level
    number = np.add.reduceat(kept, world.first[:-1])
    corners = world.corners[kept].astype(np.float64) * world.step
    first = np.concatenate([[0], np.cumsum(number)])
    lower, upper = np.array(box.lower), np.array(box.upper)
    around = _AROUND * (upper - lower)
    lower, upper = lower - around, upper + around
    found = []
    for row in np.flatnonzero(number > 3).tolist():
        ring = corners[first[row] : first[row + 1]]
        if np.all(ring.max(axis=0) > lower) and np.all(ring.min(axis=0) < upper):
            for axis in (0, 1):
                ring = cut(cut(ring, axis, lower[axis], 1.0), axis, upper[axis], -1.0)
            if len(ring) > 3:
                found.append(ring)
    return tuple(found)


def cut(ring: Floats, axis: int, at: float, sign: float) -> Floats:
    """The part of a closed ring on one side of a line; what crosses it goes along it."""
    away = sign * (ring[:, axis] - at)
    if len(ring) < 2 or np.all(away >= 0):
        return ring
    begin, end = ring[:-1], ring[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = begin + (away[:-1] / (away[:-1] - away[1:]))[:, None] * (end - begin)
    shown = np.stack([away[:-1] >= 0, (away[:-1] >= 0) != (away[1:] >= 0)], axis=1).ravel()
    out = np.stack([begin, crossing], axis=1).reshape(-1, 2)[shown]
    return np.concatenate([out, out[:1]])


def basemap_json(box: Box, *, most: int = _SENT) -> dict[str, Any]:
    """What a page draws behind and over its cells.

    ``land`` is x, y, then steps, in whole numbers of ``step``; it is right for views of at least ``narrowest`` degrees,
    and has at most ``most`` corners. ``cities`` are name, country, x, y, largest first.
    """
    if box.dimensions != 2:
        return {"step": 1.0, "land": [], "narrowest": 0.0, "cities": [], "credit": ""}
    width = max(high - low for low, high in zip(box.lower, box.upper, strict=True))
    step, tolerance = 10.0 ** (int(np.floor(np.log10(width))) - 4), width / _SHOWN
    shown = land(box, tolerance)
    while sum(map(len, shown)) > most:
        tolerance *= 2
        shown = land(box, tolerance)
    found = cities_in(box, _CITIES) if is_map(box) else []
    return {
        "step": step, "land": _steps(shown, step), "narrowest": max(NARROWEST, _TRUE * tolerance),
        "cities": [[city.name, city.country, city.longitude, city.latitude] for city in found],
        "credit": " ".join([*(["Land: Natural Earth."] if shown else []), *([CREDIT] if found else [])]),
    }  # fmt: skip


def _steps(lines: Lines, step: float) -> list[list[int]]:
    whole = [np.rint(line / step).astype(np.int64) for line in lines]
    return [np.diff(line, axis=0, prepend=np.zeros((1, 2), dtype=np.int64)).ravel().tolist() for line in whole]


class City(NamedTuple):
    """A city: its country as two letters, the position of its middle in degrees, and its inhabitants."""

    name: str
    country: str
    longitude: float
    latitude: float
    population: int


@cache
def cities() -> tuple[City, ...]:
    """All cities, those with most inhabitants first."""
    text = gzip.decompress(files("semilocal").joinpath("data", "cities.tsv.gz").read_bytes()).decode()
    rows = (line.split("\t") for line in text.split("\n"))
    return tuple(City(name, country, float(x), float(y), int(people)) for name, country, x, y, people in rows)


def cities_in(box: Box, most: int) -> list[City]:
    """The largest cities inside a box of longitude and latitude."""
    (west, south), (east, north) = box.lower, box.upper
    found = (city for city in cities() if west < city.longitude < east and south < city.latitude < north)
    return [city for _, city in zip(range(most), found, strict=False)]
