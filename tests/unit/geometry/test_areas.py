"""What is no area is refused in words; areas that reach outside the domain are said to."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal import Box
from semilocal.errors import InvalidInput
from semilocal.geometry.areas import area_names, as_areas, outside_words


@pytest.mark.parametrize("areas", [[None], None, [[[0, 0], [1, 1]], None], [[0, 0, 1, 1], [2]]])
def test_what_is_no_area_is_refused(areas: object) -> None:
    with pytest.raises(InvalidInput, match="boxes must"):
        as_areas(areas, Box((0, 0), (1, 1)))


def test_boxes_may_be_rows_of_bounds() -> None:
    square, rows = Box((0, 0), (1, 1)), np.array([[0, 0, 0.5, 1], [0.5, 0, 1, 1]])
    for given, box in ((rows, square), (rows.tolist(), square), ([[0, 1], [1, 2]], Box((0,), (2,)))):
        found = as_areas(given, box)
        assert isinstance(found, np.ndarray)
        assert np.array_equal(found.reshape(2, -1), given)
    with pytest.raises(InvalidInput, match="shape"):
        as_areas([[0, 0, 1]], square)


def test_names_boxes_and_numbers_may_be_mixed() -> None:
    found = as_areas(["london", Box((1, 2), (3, 4)), [1, 2, 3, 4], [[1, 2], [3, 4]]], Box.world())
    assert isinstance(found, np.ndarray)
    assert area_names(["london", [1, 2, 3, 4]]) == ("london", "")
    assert area_names([[1, 2, 3, 4]]) == ()
    assert found[1:].tolist() == [[[1, 2], [3, 4]]] * 3
    assert found[:1].tolist() == as_areas("london", Box.world()).tolist()  # type: ignore[union-attr]


BOX = Box((0, 0), (2, 1))


def test_areas_that_reach_outside_are_told_from_those_that_lie_there() -> None:
    inside, far = [[0, 0], [2, 1]], [[5, 5], [6, 6]]
    beside = [[2, 0], [3, 1]]  # boxes are half-open: nobody of the domain is in it
    assert outside_words([inside, [[0.5, 0.5], [0.5, 0.5]]], BOX) == ""
    assert outside_words(np.empty((0, 2, 2)), BOX) == ""
    assert outside_words([[[-np.inf, 0], [np.inf, np.inf]]], BOX) == "", "as far as the domain goes"
    assert "1 of 2 areas reaches outside the domain" in (words := outside_words([inside, far], BOX))
    assert "1 altogether (the count is 0). Check" in words
    words = outside_words([far, beside, [[0.5, 0], [3, 1]], [[-1, -1], [2, 3]], [[-1, -1], [np.inf, 3]]], BOX)
    assert "5 of 5 areas reach outside" in words
    assert "2 altogether (the count is 0), 3 in part (only the part inside is counted)" in words


def test_a_polygon_around_the_domain_that_holds_none_of_it_lies_outside() -> None:
    shapely = pytest.importorskip("shapely")
    around = shapely.box(-2, -2, 4, 4) - shapely.box(-1, -1, 3, 3)
    assert "1 altogether" in outside_words([around], BOX)
    assert "1 in part" in outside_words([around, shapely.box(1, 0, 3, 1), shapely.box(0, 0, 1, 1)], BOX)
