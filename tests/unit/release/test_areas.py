"""What is no area is refused in words."""

from __future__ import annotations

import pytest

from semilocal import Box
from semilocal.errors import InvalidInput
from semilocal.release._areas import as_areas


@pytest.mark.parametrize(
    ("areas", "got"),
    [
        ([None], "None in place 0"),
        (None, "None:"),
        ([[[0, 0], [1, 1]], None], "None in place 1"),
        ([Box((0, 0), (1, 1))], "Box in place 0"),
    ],
)
def test_what_is_no_area_is_named_with_what_is_allowed(areas: object, got: str) -> None:
    with pytest.raises(
        InvalidInput, match=rf"areas are boxes, numbers of the shape \(q, 2, 2\).* or polygons; got {got}"
    ):
        as_areas(areas, Box((0, 0), (1, 1)))
