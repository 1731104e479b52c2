"""What lies behind maps: land and sea where they are, never too fine; cities; credits."""

from __future__ import annotations

import numpy as np

from semilocal.geometry.box import Box
from semilocal.geometry.places import named_box
from semilocal.io.basemap import Lines, basemap_json, land
from semilocal.testing import unit_box


def holds(rings: Lines, x: float, y: float) -> bool:
    """Whether a point is on land: inside an odd number of rings."""
    crossed = 0
    for ring in rings:
        (x0, y0), (x1, y1) = ring[:-1].T, ring[1:].T
        rows = (y0 <= y) != (y1 <= y)
        crossed += int(np.count_nonzero(x0[rows] + (y - y0[rows]) / (y1 - y0)[rows] * (x1 - x0)[rows] > x))
    return crossed % 2 == 1


def decoded(lines: list[list[int]], step: float) -> Lines:
    return [np.cumsum(np.reshape(line, (-1, 2)), axis=0) * step for line in lines]


LAND = {"Sacramento": (-121.49, 38.58), "Reno": (-119.81, 39.53), "San Diego": (-117.0, 32.8)}
SEA = {"Pacific": (-123.5, 34.0), "west of the Golden Gate": (-122.9, 37.7), "between the islands": (-119.0, 33.6)}


def test_land_is_land_and_the_sea_is_sea_whole_or_cut_off_and_as_a_page_takes_it() -> None:
    california, world = named_box("california"), named_box("world")
    sent = basemap_json(california)
    for rings in (land(california), land(world, 0.02), decoded(sent["land"], sent["step"])):
        assert {name: holds(rings, *place) for name, place in LAND.items()} == dict.fromkeys(LAND, True)
        assert {name: holds(rings, *place) for name, place in SEA.items()} == dict.fromkeys(SEA, False)
    assert not holds(land(world, 0.02), 51.0, 41.5), "the Caspian Sea is a hole"
    assert all(np.array_equal(ring[0], ring[-1]) for ring in land(california))
    # Pictures fill a frame with land as its hole: land goes round the other way than lakes.
    area = sum(
        np.sum(r[:-1, 0] * r[1:, 1] - r[1:, 0] * r[:-1, 1]) / 2
        for r in land(Box((-124.5, 32.5), (-114.1, 42.1), names=("lon", "lat")))
    )
    assert -10.8 * 10.0 < area < -0.7 * 10.4 * 9.6


def test_no_coast_goes_across_the_world() -> None:
    rings = land(named_box("world"))
    for begin, end in ((ring[:-1], ring[1:]) for ring in rings):
        inside = (np.abs(begin[:, 0]) < 180) & (np.abs(end[:, 0]) < 180) & (np.abs(begin[:, 1]) < 90)
        assert np.abs(end - begin)[inside].max(initial=0.0) < 12
    lowest = min(float(ring[:, 1].min()) for ring in rings)
    assert lowest <= -90, "the pole is land"


def test_land_is_never_drawn_finer_than_it_is() -> None:
    near = Box((-122.7, 37.6), (-122.3, 37.9), names=("lon", "lat"))
    assert land(near) == []
    assert basemap_json(near)["land"] == []
    coarse, fine = basemap_json(named_box("world")), basemap_json(named_box("california"))
    assert fine["narrowest"] == 0.5 < coarse["narrowest"], "a coarser drawing ends at a wider view"
    assert sum(map(len, coarse["land"])) <= 2 * 20_000
    assert land(unit_box()) == []


def test_cities_are_inside_the_map_the_largest_first_and_credited() -> None:
    sent = basemap_json(named_box("california"))
    assert [name for name, *_ in sent["cities"][:3]] == ["Los Angeles", "Tijuana", "San Diego"]
    assert all(-124.5 < x < -114.1 and 32.5 < y < 42.1 for _, _, x, y in sent["cities"])
    assert "GeoNames, CC BY 4.0" in sent["credit"]
    assert basemap_json(unit_box())["cities"] == basemap_json(unit_box(3))["land"] == []
