"""The datasets of the experiments, as data: what they are, where they come from, and on which terms.

Knows names, columns, checksums, public boxes and words. Knows no files. The boxes
are fixed constants, rounded outward from the documented extent of each file: no experiment takes bounds from
the positions that it protects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ....errors import InvalidInput
from ....geometry.box import Box
from ....geometry.places import DEGREES, named_box

__all__ = ["CATALOGUE", "Dataset", "Original", "Variant", "dataset"]


@dataclass(frozen=True)
class Variant:
    """One file (or folder) that a dataset can be read from.

    Attributes
    ----------
    file : str
        Its path inside the data folder.
    box : Box
        The public domain of an experiment on it, in degrees.
    note : str
        How it differs from the original.
    rows : int or None
        How many positions; None where it depends on what the home holds today.
    sha256, content_sha256 : str or None
        Of the file, and of its uncompressed text (which another compressor leaves the same).
    """

    file: str
    box: Box
    note: str
    rows: int | None = None
    sha256: str | None = None
    content_sha256: str | None = None


@dataclass(frozen=True)
class Original:
    """The file at the public home, and which variant is made of it.

    The homes publish no checksums. `sha256` is the one that other public projects recorded for the same
    address (several for Gowalla, one for Porto); None where none was found.
    """

    url: str
    layout: Literal["snap", "porto"]
    makes: str
    sha256: str | None = None
    size: int | None = None


@dataclass(frozen=True)
class Dataset:
    """A dataset: the variants in order of preference, its home, its terms, whom to cite."""

    name: str
    title: str
    columns: tuple[str, ...]
    variants: tuple[Variant, ...]
    home: str
    terms: str
    citation: str
    original: Original | None = None
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


def _degrees(west: float, south: float, east: float, north: float) -> Box:
    return Box((west, south), (east, north), names=DEGREES)


_CHO = (
    "E. Cho, S. A. Myers, J. Leskovec, Friendship and Mobility: User Movement in "
    "Location-Based Social Networks, KDD 2011"
)
_SNAP_TERMS = (
    "research use with citation; SNAP states no licence; check-ins are personal data of real, pseudonymous people"
)
_CHECKINS = ("user", "latitude", "longitude")
_GOWALLA = _degrees(-160.0, -38.0, 175.0, 70.0)

_DATASETS = (
    Dataset(
        name="california_housing",
        title="California Housing, 1990 census block groups",
        columns=("latitude", "longitude", "median_house_value"),
        variants=(
            Variant(
                "california_housing.csv.gz",
                named_box("california"),
                "complete; ships with the package; median_house_value in US dollars, capped at 500,001",
                rows=20_640,
                sha256="7868b63d9432b4e61b008dae1ab86048867accbe0c1bc9aa64d0f0d0e98aa931",
                content_sha256="3c0c1b56cf450f48292b82ffcdee9eebf63d66bf122c3d25dc20e88c85ee3652",
            ),
        ),
        home="https://www.dcc.fc.up.pt/~ltorgo/Regression/cal_housing.html",
        terms="derived from the 1990 US census; the StatLib original states no licence",
        citation="R. K. Pace, R. Barry, Sparse Spatial Autoregressions, "
        "Statistics and Probability Letters 33 (1997) 291-297",
    ),
    Dataset(
        name="gowalla",
        title="Gowalla check-ins",
        columns=_CHECKINS,
        variants=(
            Variant(
                "gowalla.csv.gz",
                _GOWALLA,
                "a filtered subset (5,628 active users, 9.6 % of the check-ins) published at "
                "github.com/rahmanidashti/STACP, "
                "commit 5ec67e9; 27 check-ins at (0, 0) left out; it cannot be rebuilt from SNAP's file",
                rows=620_656,
                sha256="061b01fbaafb59afd627f63bc68e00eb73434d77cbec433ba130dfa7bd32d6ff",
                content_sha256="6947edcea446dd1771d70a9bf4399e7905707b5db421c29612c2ad3671b22a4f",
            ),
            Variant(
                "gowalla_full.csv.gz",
                named_box("world"),
                "all of SNAP's check-ins with a possible position, original order; results differ from those "
                "on the subset",
            ),
        ),
        home="https://snap.stanford.edu/data/loc-gowalla.html",
        terms=_SNAP_TERMS,
        citation=_CHO,
        original=Original(
            "https://snap.stanford.edu/data/loc-gowalla_totalCheckins.txt.gz",
            "snap",
            "gowalla_full.csv.gz",
            sha256="c1c3e19effba649b6c89aeab3c1f9459fad88cfdc2b460fc70fd54e295d83ea0",
            size=105_470_044,
        ),
    ),
    Dataset(
        name="brightkite",
        title="Brightkite check-ins",
        columns=_CHECKINS,
        variants=(
            Variant(
                "brightkite.csv.gz",
                _degrees(-105.0, -37.0, 154.0, 59.0),
                "a filtered subset (5,766 users, some regions of the world only, 18.7 % of the check-ins) "
                "published at "
                "github.com/tanloc49/SEP-GCN, commit 2ca16e1; it cannot be rebuilt from SNAP's file",
                rows=841_511,
                sha256="ae2eef542dea847f86a55eba0de2f4ba19762f78cc6ea75b3ccc14d9355258f1",
                content_sha256="435259d99f1854aa9e5406ab124f6e4dcd1d3701b7e1930aec1e71ce7969a585",
            ),
            Variant(
                "brightkite_full.csv.gz",
                named_box("world"),
                "all of SNAP's check-ins with a possible position, original order; results differ from those "
                "on the subset",
            ),
        ),
        home="https://snap.stanford.edu/data/loc-brightkite.html",
        terms=_SNAP_TERMS,
        citation=_CHO,
        original=Original(
            "https://snap.stanford.edu/data/loc-brightkite_totalCheckins.txt.gz", "snap", "brightkite_full.csv.gz"
        ),
    ),
    Dataset(
        name="porto",
        title="Porto taxi trips, two days",
        columns=("taxi", "trip", "latitude", "longitude"),
        variants=(
            Variant(
                "porto.csv.gz",
                _degrees(-9.2, 38.7, -7.7, 42.2),
                "the first 7,732 trips of 1,710,670 (2013-07-01 and 02), 32 of them without a position; "
                "points 15 s apart",
                rows=374_144,
                sha256="3c7dd246a20831a3d6e84ccd69641f7a1673e088e025186831cecfe883e429df",
                content_sha256="2101f1fd38061be0519f5b6ce074e9d831fafa21064a891b433040f5ba3e37f4",
            ),
        ),
        home="https://archive.ics.uci.edu/dataset/339",
        terms="CC BY 4.0 as UCI lists it (check there); attribution to the authors",
        citation=(
            "L. Moreira-Matias, J. Gama, M. Ferreira, J. Mendes-Moreira, L. Damas, Predicting Taxi-Passenger "
            "Demand Using "
            "Streaming Data, IEEE Trans. Intelligent Transportation Systems 14(3), 2013"
        ),
        original=Original(
            "https://archive.ics.uci.edu/static/public/339/"
            "taxi+service+trajectory+prediction+challenge+ecml+pkdd+2015.zip",
            "porto",
            "porto.csv.gz",
            sha256="a33e2a5e145607ae2bad0db5d21b7548c88b7e0f9db1ce15839f24c4c61f8c76",
            size=534_065_916,
        ),
    ),
    Dataset(
        name="geolife",
        title="GeoLife GPS trajectories 1.3",
        columns=("latitude", "longitude"),
        variants=(
            Variant(
                "geolife",
                named_box("beijing"),
                "the original folders; about 24.9 million points, 182 users; experiments use the 83 % inside "
                "the box "
                "around Beijing and say how many lie outside",
            ),
        ),
        home="https://www.microsoft.com/en-us/download/details.aspx?id=52367",
        terms="Microsoft Research License Agreement: non-commercial, no redistribution; "
        "you accept it when you download",
        citation=(
            "Y. Zheng, X. Xie, W.-Y. Ma, GeoLife: A Collaborative Social Networking Service among User, "
            "Location and "
            "Trajectory, IEEE Data Eng. Bull. 33(2), 2010"
        ),
        by_hand="download it there yourself (the licence asks for your consent) and unpack it "
        "so that the data folder holds "
        "geolife/Data/<user>/Trajectory/*.plt",
    ),
    Dataset(
        name="brightkite_last_checkin",
        title="Brightkite, last check-in of every user",
        columns=_CHECKINS,
        variants=(
            Variant(
                "extra/brightkite_last_checkin.csv.gz",
                named_box("world"),
                "one position a user, worldwide; 1,342 users at (0, 0) left out; coordinates went through "
                "32-bit floats (below 1 m)",
                rows=50_064,
                sha256="d90113701aaeb9b91711a50eae44e950b5829d31a87fc16274ee3faf7a725735",
                content_sha256="1da9d6600cbd53ce58d8ef69e38f5223f01161f87e1008d46c9249f3d6fcacb0",
            ),
        ),
        home="https://snap.stanford.edu/data/loc-brightkite.html",
        terms=_SNAP_TERMS,
        citation=_CHO,
        by_hand="it was made from github.com/ohdoyoel/unist_cse304_term_project, commit 2ccb996, "
        "result/lv_nodes.csv: keep user, "
        "latitude, longitude, leave out (0, 0)",
    ),
    Dataset(
        name="gowalla_more_users",
        title="Gowalla, more users with fewer check-ins",
        columns=_CHECKINS,
        variants=(
            Variant(
                "extra/gowalla_more_users.csv.gz",
                _GOWALLA,
                "18,737 users, the held-out part of a published subset; 15 check-ins at (0, 0) left out; "
                "overlaps with gowalla",
                rows=293_873,
                sha256="5ab1648bda39bf4eab501d99084faf5f47cc804df6185ac8361761c1157fc0a8",
                content_sha256="147e55d0ac72717f105fae45e23fd543ddbd6a632a9c4cc091f6bc2ba604eb1f",
            ),
        ),
        home="https://snap.stanford.edu/data/loc-gowalla.html",
        terms=_SNAP_TERMS,
        citation=f"{_CHO}; subset of Y. Liu et al., PVLDB 10(10), 2017",
        by_hand="it was made from github.com/rahmanidashti/LBSNDatasets, commit b55ccca, "
        "Gowalla/Gowalla_1: the tune and test "
        "parts with the coordinates of their places",
    ),
    Dataset(
        name="gowalla_nyc",
        title="Gowalla check-ins in New York City",
        columns=_CHECKINS,
        variants=(
            Variant(
                "extra/gowalla_nyc.csv.gz",
                named_box("new-york"),
                "unfiltered SNAP check-ins in the city, without time and place number",
                rows=138_957,
                sha256="e675a6a251393c5e661d442f4a9952945926c756091516eb0e474e364212036a",
                content_sha256="7fbe74dad2e5c00d8d7d47a3c9747eac8dd64eeabbe9eb58812a0606dc0e6a4e",
            ),
        ),
        home="https://snap.stanford.edu/data/loc-gowalla.html",
        terms=_SNAP_TERMS,
        citation=_CHO,
        by_hand="it was made from github.com/rohitpandey13/academy, commit 7e7919a, "
        "tutorials/geo-located-data/jupyter/notebooks/data/gowalla_events.csv.gz: keep user, latitude, "
        "longitude",
    ),
)

CATALOGUE: Mapping[str, Dataset] = MappingProxyType({entry.name: entry for entry in _DATASETS})
