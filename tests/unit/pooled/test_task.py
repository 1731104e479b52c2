"""A pooled task: canonical bytes, honest parameters, clear refusals."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from semilocal import Box
from semilocal.errors import InvalidInput
from semilocal.geometry.units import at_least
from semilocal.hierarchy import BinaryTree
from semilocal.pooled import MAX_LEVELS, UNITS, PooledTask

SQUARE = Box((0, 0), (1, 1))


def build(**changes: Any) -> PooledTask:
    return PooledTask.build(**{"box": SQUARE, "epsilon": 1.0, "trust": "curator", **changes})


def test_a_task_is_its_canonical_bytes() -> None:
    task = build(label="bicycles")
    assert PooledTask.from_bytes(task.to_bytes()) == task
    assert len(task.id) == 32
    assert build(epsilon=1).id == build(epsilon=1.0).id
    assert len({build().id, build(label="x").id, build(epsilon=2.0).id, build(trust="two-servers").id}) == 4


def test_other_bytes_are_refused() -> None:
    fields = msgspec.msgpack.decode(build().to_bytes())
    for changed in ({**fields, "more": 1}, dict(reversed(fields.items())), {**fields, "epsilon": -1.0}):
        with pytest.raises(InvalidInput, match="pooled task"):
            PooledTask.from_bytes(msgspec.msgpack.encode(changed))
    with pytest.raises(InvalidInput):
        PooledTask.from_bytes(b"nothing")


def test_units_add_up_to_half_of_epsilon_for_one_report_each() -> None:
    assert build(epsilon=0.3).unit * UNITS * 2 == Fraction(0.3)
    assert build(epsilon=0.3, max_reports=5).unit * UNITS * 2 * 5 == Fraction(0.3)


def test_the_threshold_grows_with_the_noise() -> None:
    assert build(epsilon=2.0).threshold == 12.0
    assert build(epsilon=1.0).threshold == 24.0
    assert build(epsilon=2.0, max_reports=3).threshold == 36.0
    assert build(epsilon=2.0, trust="two-servers").threshold == pytest.approx(12.0 * 2**0.5)


@pytest.mark.parametrize("sides", [(0.01, 0.01), (0.3, 0.01), (0.5, 0.001)])
def test_no_cell_is_narrower_than_the_resolution_and_one_more_level_would_be(sides: tuple[float, float]) -> None:
    tree = build(resolution=sides).hierarchy
    widths = [1 / 2 ** ((tree.max_depth - axis + 1) // 2) for axis in range(2)]
    assert all(width >= side for width, side in zip(widths, sides, strict=True))
    next_axis = tree.max_depth % 2
    assert widths[next_axis] / 2 < sides[next_axis]


@pytest.mark.parametrize("names", [("longitude", "latitude"), ("lat", "lon")])
@pytest.mark.parametrize("resolution", [1.0, 30.0, (1.0, 30.0)])
def test_a_resolution_is_in_kilometres_on_maps(names: tuple[str, str], resolution: float | tuple[float, float]) -> None:
    """As ``min_side`` where nobody is trusted: a degree of longitude is shortest in the north."""
    west_south, east_north = (10.0, 50.0), (13.0, 60.0)
    turn = -1 if names[0] == "lat" else 1
    box = Box(west_south[::turn], east_north[::turn], names=names)
    tree = build(box=box, resolution=resolution).hierarchy
    least = resolution if isinstance(resolution, tuple) else (resolution,)
    assert at_least([tree.smallest_sides], least)[0]
    assert not at_least([BinaryTree(box, tree.max_depth + 1).smallest_sides], least)[0]
    ends = BinaryTree(box, 6)
    everywhere = ends.sides(np.arange(1 << 6, 2 << 6, dtype=np.uint64))
    assert ends.smallest_sides == pytest.approx(everywhere.min(axis=0)), "no cell is smaller than those at the corners"


def test_a_resolution_that_does_not_fit_the_map_is_refused_in_kilometres() -> None:
    box = Box((10, 50), (13, 60), names=("lon", "lat"))
    with pytest.raises(InvalidInput, match=r"measure 89\.7 x 557 km and the resolution is 200"):
        build(box=box, resolution=200.0)


def test_the_default_depth_is_what_forty_levels_and_floats_allow() -> None:
    assert build().hierarchy.max_depth == MAX_LEVELS
    assert build(box=Box((0,), (1,))).hierarchy.max_depth == 20
    assert build(box=Box((0,) * 8, (1,) * 8)).hierarchy.max_depth == MAX_LEVELS
    assert build(resolution=1e-30).hierarchy.max_depth == MAX_LEVELS


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"epsilon": 0}, "epsilon must be a number above 0"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"resolution": 0.6}, "at most half of the box"),
        ({"resolution": 2.0}, "measure 0.5 x 0.5 and the resolution is 2"),
        ({"resolution": 0}, "resolution must be a length above 0"),
        ({"resolution": (0.1, 0.1, 0.1)}, "one per axis"),
        ({"resolution": 0.1, "max_depth": 3}, "not both"),
        ({"max_depth": 41}, "from 1 to 40"),
        ({"max_depth": 0}, "max_depth"),
        ({"trust": "nobody"}, "'curator' or 'two-servers'"),
        ({"max_reports": 0}, "max_reports"),
        ({"max_reports": 1.5}, "max_reports"),
        ({"box": "world"}, "semilocal.Box"),
    ],
)
def test_bad_input_is_refused_with_what_is_allowed(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        build(**changes)
