"""The datasets of the experiments, as data: what they are, where they come from, and on which terms.

Knows ``catalogue.toml``: names, columns, checksums, public boxes and words. Knows no files of positions.
"""

from __future__ import annotations

import importlib.resources
import tomllib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from ...errors import InvalidInput
from ...geometry.box import Box
from ...geometry.places import DEGREES, named_box

__all__ = ["CATALOGUE", "Dataset", "Variant", "dataset"]


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One file (or folder) that a dataset can be read from."""

    file: str  # its path inside the data folder
    place: str | tuple[float, float, float, float] = msgspec.field(name="box")  # or west, south, east, north
    note: str  # how it differs from the original
    rows: int | None = None  # None where it depends on what the home holds today
    layout: Literal["csv", "snap", "porto", "geolife"] = "csv"
    url: str = ""  # where it comes from as it is
    sha256: str | None = None

    @property
    def box(self) -> Box:
        """The public domain of an experiment on it, in degrees."""
        if isinstance(self.place, str):
            return named_box(self.place)
        return Box(self.place[:2], self.place[2:], names=DEGREES)


class Dataset(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset: the variants in order of preference, its home, its terms, whom to cite."""

    name: str
    title: str
    columns: tuple[str, ...]
    variants: tuple[Variant, ...]
    home: str
    terms: str
    citation: str
    by_hand: str = ""


def dataset(name: str) -> Dataset:
    """Return the entry of a dataset, or say which there are.

    Examples
    --------
    >>> dataset("porto").columns
    ('taxi', 'trip', 'latitude', 'longitude')
    """
    if name not in CATALOGUE:
        raise InvalidInput(f"no dataset is called {name!r}; there are {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


def _read() -> Mapping[str, Dataset]:
    text = importlib.resources.files(__package__).joinpath("catalogue.toml").read_text(encoding="utf-8")
    entries = msgspec.convert(tomllib.loads(text)["dataset"], tuple[Dataset, ...])
    return MappingProxyType({entry.name: entry for entry in entries})


CATALOGUE = _read()
