"""Public boxes: fixed, sensible, and found by name; bounds as text."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal.errors import InvalidInput
from semilocal.geometry.box import Box
from semilocal.geometry.places import PLACES, as_box, named_box


def test_every_place_is_a_box_inside_the_world() -> None:
    world = named_box("world")
    for name in PLACES:
        box = named_box(name)
        assert box.names == ("longitude", "latitude")
        world.check([box.lower, box.upper])


def test_bounds_are_lower_corner_then_upper_corner_in_any_dimension() -> None:
    assert as_box(" -1, -2,3 ,4.5") == Box((-1, -2), (3, 4.5))
    assert as_box("0,1") == Box((0,), (1,))
    assert as_box("0,0,0,1,2,3") == Box((0, 0, 0), (1, 2, 3))
    assert as_box("New York") == named_box("new-york")
    assert as_box((-1, -2, 3, 4.5), names=("x", "y")) == Box((-1, -2), (3, 4.5), names=("x", "y"))
    assert as_box(np.array([0, 1])) == as_box(Box((0,), (1,)))
    assert as_box("california", names=("lon", "lat")).names == ("lon", "lat")
    with pytest.raises(InvalidInput, match="is for 2 columns, and 3 columns were named"):
        as_box("0,0,1,1", names=("a", "b", "c"))
    with pytest.raises(InvalidInput, match=r"box must be a semilocal\.Box, the name of a place, or numbers"):
        as_box([[0, 0], [1, 1]])


def test_degrees_that_cannot_be_are_refused_with_the_order_of_the_corners() -> None:
    names = ("longitude", "latitude")
    for swapped in ((32.5, -124.5, 42.0, -114.0), (-124.5, -114.0, 32.5, 42.0), (0, 0, 10, 95)):
        with pytest.raises(InvalidInput, match=r"'latitude' is in degrees from -90 to 90.*: west, south, east, north"):
            as_box(swapped, names=names)
        assert as_box(swapped, names=("x", "y"))
    for beyond in ((-190, 0, -170, 9), (-124.5, 32, 200, 42), (170, 0, 361, 9)):
        with pytest.raises(InvalidInput, match="'pickup_lng' is in degrees from -180 to 180, or from 0 to 360"):
            as_box(beyond, names=("pickup_lng", "pickup_lat"))
    with pytest.raises(InvalidInput, match="south, west, north, east"):
        as_box((-124.5, 32.5, -114.0, 42.0), names=("lat", "lon"))
    assert as_box((170, -20, 190, 0), names=names).upper == (190, 0)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("atlantis", "no box is named 'atlantis'"),
        ("", "no box is named ''"),
        ("1,2,3", "hold 3 numbers"),
        ("1,two,3,4", "must be numbers with commas"),
        ("5", "no box is named '5'"),
        ("1,1,0,0", "lower < upper"),
        ("0,0,inf,1", "finite"),
        (",".join("1" * 18), "hold 18 numbers"),
    ],
)
def test_wrong_bounds_are_refused_with_the_fix(text: str, part: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        as_box(text)
    assert part in str(caught.value)
