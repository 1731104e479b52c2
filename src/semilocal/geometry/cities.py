"""The largest cities of the world, for the names on maps and for finding a place by its name.

An extract of GeoNames (CC BY 4.0, geonames.org) that ships with the package; ``tools/mapdata.py`` makes it. Public
constants: no data of participants is read. Knows names and positions. Knows no outlines.
"""

from __future__ import annotations

import gzip
import unicodedata
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from .box import Box

__all__ = ["CREDIT", "City", "cities", "cities_in", "find_cities"]

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


def find_cities(name: str) -> list[City]:
    """Cities with this name, those with most inhabitants first; accents, case and hyphens do not matter.

    Parameters
    ----------
    name : str
        ``"porto"``, or with the country: ``"cambridge, gb"``.

    Examples
    --------
    >>> found = find_cities("sao-paulo")[0]
    >>> found.country, round(found.longitude), round(found.latitude)
    ('BR', -47, -24)
    >>> [city.country for city in find_cities("Cambridge")], len(find_cities("Cambridge, US"))
    (['GB', 'CA', 'US'], 1)
    """
    wanted, _, country = name.partition(",")
    country = country.strip().upper()
    plain = _plain(wanted)
    found = _by_name().get(plain) or _by_name().get(f"{plain} city", [])  # New York
    return [city for city in found if country in ("", city.country)]


@cache
def _by_name() -> dict[str, list[City]]:
    found: dict[str, list[City]] = {}
    for city in cities():
        found.setdefault(_plain(city.name), []).append(city)
    return found


def _plain(name: str) -> str:
    """A name as it is compared: small letters without accents, one blank between words."""
    letters = unicodedata.normalize("NFKD", name).lower().replace("-", " ").replace("_", " ")
    return " ".join("".join(letter for letter in letters if not unicodedata.combining(letter)).split())


def cities_in(box: Box, most: int) -> list[City]:
    """The largest cities inside a box of longitude and latitude."""
    (west, south), (east, north) = box.lower, box.upper
    found = (city for city in cities() if west < city.longitude < east and south < city.latitude < north)
    return [city for _, city in zip(range(most), found, strict=False)]
