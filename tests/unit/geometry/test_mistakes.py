"""Swapped axes and other units are named wherever positions are checked, and nobody's position is printed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal import Box
from semilocal.arrays import Floats
from semilocal.errors import OutsideDomain
from semilocal.geometry.box import FEWEST, mistake_words
from semilocal.geometry.places import named_box
from tests.helpers.engine_runs import PointsSource

STATE = named_box("california")
METRES = Box((400_000, 3_600_000), (900_000, 4_600_000))
TURN = np.array([360.0, 0.0])


def lon_lat(count: int = 500) -> Floats:
    rng = np.random.default_rng(1)
    return np.column_stack([rng.uniform(-124, -115, count), rng.uniform(33, 42, count)])


def test_what_is_likely() -> None:
    assert "look swapped" in mistake_words(lon_lat()[:, ::-1], STATE)
    mostly = np.concatenate([lon_lat(400)[:, ::-1], lon_lat(200)])
    assert "look swapped" in mistake_words(mostly, STATE)
    assert mistake_words(mostly, STATE, fewest=FEWEST) == ""  # too weak to refuse to move points
    assert "0 to 360" in mistake_words(lon_lat() + TURN, STATE)
    assert "0 to 360" in mistake_words(lon_lat(), Box((230, 30), (260, 45), names=("lon", "lat")))
    assert mistake_words(lon_lat() + TURN, Box(STATE.lower, STATE.upper)) == ""  # no longitudes
    assert "look like metres" in mistake_words(lon_lat() * 111_000, STATE)
    assert mistake_words(np.full((9, 2), 900.0), Box((0, 0), (100, 100))) == ""  # percent, pixels, money: no map
    assert "look like degrees" in mistake_words(lon_lat(), METRES)
    assert mistake_words(lon_lat(), STATE) == ""
    assert mistake_words(np.zeros((3, 1)), Box((1,), (2,))) == ""


WRONG = [
    (lon_lat()[:, ::-1], STATE, "axes look swapped: longitude and latitude fit after an exchange"),
    (lon_lat() + TURN, STATE, "longitudes look counted from 0 to 360"),
    (lon_lat() * 111_000.0, STATE, "look like metres"),
    (lon_lat(), METRES, "look like degrees"),
]
CHECKS = [
    lambda points, box: box.check(points),
    lambda points, box: box.clip(points),
    lambda points, box: PointsSource(points, box).check(),
    lambda points, box: sl.counts(points, box, epsilon=1.0, trust="curator"),
]


@pytest.mark.parametrize(("points", "box", "words"), WRONG)
@pytest.mark.parametrize("check", CHECKS)
def test_the_mistake_is_named_instead_of_a_larger_box(points: Floats, box: Box, words: str, check: Any) -> None:
    with pytest.raises(OutsideDomain, match=words) as caught:
        check(points, box)
    text = str(caught.value)
    assert "500" in text
    assert "larger box" not in text
    assert "Box.clip" not in text
    for number in points[0]:
        assert f"{number:.4f}"[:7] not in text


@pytest.mark.parametrize("count", [1, FEWEST - 1, FEWEST])
def test_a_few_points_are_no_evidence_that_axes_are_swapped(count: int) -> None:
    """They are moved, as they would be if they fitted after an exchange by chance; the advice of a check stays."""
    points = lon_lat(count)[:, ::-1]
    with pytest.raises(OutsideDomain, match="axes look swapped"):
        STATE.check(points)
    if count < FEWEST:
        assert STATE.clip(points).moved == count
    else:
        with pytest.raises(OutsideDomain, match=r"10 of 10 points .* none was moved\. The axes look swapped"):
            STATE.clip(points)


@pytest.mark.parametrize(
    ("names", "upper", "shift"),
    [
        (("hour", "euros"), (24, 300), 1000.0),
        (("age", "income"), (120, 100_000), -300.0),
        (("time", "x"), (1, 1), 500.0),
    ],
)
def test_axes_that_are_no_map_have_no_metres_or_degrees(
    names: tuple[str, str], upper: tuple[float, float], shift: float
) -> None:
    box = Box((0, 0), upper, names=names)
    points = np.random.default_rng(1).uniform(0, 24, (500, 2)) + np.array([0, shift])
    assert box.clip(points).moved == 500
    with pytest.raises(OutsideDomain, match="take a larger box"):
        box.check(points)


@pytest.mark.parametrize("names", [("pickup_lon", "pickup_lat"), ("X", "Y"), ("utm_x", "utm_y"), (), ("east", "north")])
def test_axes_of_maps_are_known_by_their_names(names: tuple[str, ...]) -> None:
    assert "look like metres" in mistake_words(lon_lat() * 111_000, Box(STATE.lower, STATE.upper, names=names))
    if "pickup_lon" not in names:  # a box in metres cannot have such axes
        assert "look like degrees" in mistake_words(lon_lat(), Box(METRES.lower, METRES.upper, names=names))
