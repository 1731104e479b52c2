"""The largest cities of the world, for the names on maps.

An extract of GeoNames (CC BY 4.0, geonames.org) that ships with the package; ``tools/mapdata.py`` makes it. Public
constants: no data of participants is read. Knows names and positions. Knows no outlines.
"""

from __future__ import annotations

import gzip
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from .box import Box

__all__ = ["CREDIT", "City", "cities", "cities_in"]

CREDIT = "Places: GeoNames, CC BY 4.0."


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
