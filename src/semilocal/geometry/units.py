"""Units of a domain's axes: degrees or units of their own, lengths and areas in kilometres, and the reference system.

A domain says what its axes are by their names: longitude and latitude are degrees, others have units of their own.
Knows names of axes and one radius. Knows no participants.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats
from ..errors import InvalidInput, printable
from .box import Box
from .places import LATITUDE, LONGITUDE

RADIUS_KM = 6371.0088  # of the sphere with the mean radius of the Earth
KILOMETRES_PER_DEGREE = 111.32  # along a meridian, and along the equator
_ROUNDING = 1e-9  # edges and cosines are rounded: a side that is short by no more counts as long enough


def is_geographic(box: Box) -> bool:
    """Whether the axes are called longitude and latitude, in any order and any usual spelling."""
    names = [name.lower() for name in box.names]
    return len(names) == 2 and any(n in LATITUDE for n in names) and any(n in LONGITUDE for n in names)


def latitude_first(box: Box) -> bool:
    """Whether the domain's axes are the other way round than those of GeoJSON."""
    return is_geographic(box) and box.names[0].lower() in LATITUDE


def is_map(box: Box) -> bool:
    """Whether a map with north at the top can be drawn: the axes are longitude and latitude, in this order."""
    return is_geographic(box) and box.names[0].lower() in LONGITUDE and box.lower[1] >= -90 and box.upper[1] <= 90


def areas(boxes: Floats, *, geographic: bool) -> Floats:
    """Areas of boxes float64[m, 2, d]: km² on the sphere, or products of the sides in the axes' units: float64[m]."""
    sides = boxes[:, 1] - boxes[:, 0]
    if not geographic:
        return np.asarray(np.prod(sides, axis=1))
    heights = np.diff(np.sin(np.radians(boxes[:, :, 1])), axis=1)[:, 0]
    return np.asarray(RADIUS_KM**2 * np.radians(sides[:, 0]) * heights)


def aspect(box: Box) -> float:
    """Length of one unit of the second axis over one of the first: 1 / cos of the middle latitude, or 1."""
    if not is_map(box):
        return 1.0
    middle = np.radians((box.lower[1] + box.upper[1]) / 2)
    return float(1.0 / max(np.cos(middle), 0.1))


def side_unit(box: Box) -> str:
    """The unit of :func:`sides`, for people: "km", or nothing where the axes have units of their own."""
    return "km" if is_geographic(box) else ""


def sides(boxes: npt.ArrayLike, domain: Box) -> Floats:
    """Length of the sides of boxes, shape (n, 2, d), inside a domain: float64[n, d].

    In units of the axes, or in kilometres in a geographic domain: a degree of longitude is taken at the middle of the
    box.
    """
    corners = np.asarray(boxes, dtype=np.float64)
    found = np.asarray(corners[:, 1] - corners[:, 0])
    if not is_geographic(domain):
        return found
    latitude = next(axis for axis, name in enumerate(domain.names) if name.lower() in LATITUDE)
    found = found * KILOMETRES_PER_DEGREE
    found[:, 1 - latitude] *= np.cos(np.radians(corners[:, :, latitude].mean(axis=1)))
    return found


def at_least(lengths: npt.ArrayLike, least: tuple[float, ...]) -> Flags:
    """Whether no side, shape (n, d), is shorter than allowed, by one length per axis or one for all: bool[n]."""
    return np.asarray((np.asarray(lengths) >= np.array(least or (0.0,)) * (1 - _ROUNDING)).all(axis=1))


def lengths_words(lengths: Floats) -> str:
    """Lengths as people write them: "0.25 x 1,069"."""
    return " x ".join(f"{length:,.0f}" if 1e3 <= length < 1e9 else f"{length:.3g}" for length in lengths.tolist())


# -- reference systems -----------------------------------------------------------------------------------------------


def crs_of(box: Box) -> str | None:
    """The name of a domain's reference system; None if its axes have units of their own."""
    return "EPSG:4326" if is_geographic(box) else None


def check_crs(crs: Any, box: Box, *, what: str) -> None:
    """Refuse coordinates whose reference system (a pyproj.CRS) is missing or is not that of the domain.

    ``what`` is how to call the coordinates in the message.
    """
    degrees = crs is not None and crs.is_geographic
    if degrees == is_geographic(box):
        return
    if degrees:
        axes = " and ".join(map(repr, box.names))
        raise InvalidInput(
            f"{what} have the CRS {_name(crs)}, in degrees, and the axes of the domain are called {axes}; call them "
            "lon and lat if they are degrees, else convert the coordinates to the domain's units"
        )
    if crs is None:
        raise InvalidInput(
            f"{what} have no CRS, and the domain is in EPSG:4326; if they are in it as well, say so with .set_crs(4326)"
        )
    raise InvalidInput(
        f"{what} have the CRS {_name(crs)}, and the domain is in EPSG:4326; convert them with .to_crs(4326)"
    )


def _name(crs: Any) -> str:
    code = crs.to_epsg()
    return f"EPSG:{code} ({printable(crs.name)})" if code else printable(crs.name)
