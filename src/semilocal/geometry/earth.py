"""Boxes on the globe: whether axes are degrees, and areas in square kilometres.

Knows boxes and one radius. Knows no participants.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Floats
from .box import Box
from .places import LONGITUDE
from .sides import is_geographic

__all__ = ["RADIUS_KM", "areas", "aspect", "is_map"]

RADIUS_KM = 6371.0088  # of the sphere with the mean radius of the Earth


def is_map(box: Box) -> bool:
    """Whether a map with north at the top can be drawn: the axes are longitude and latitude in degrees, in this order.

    Examples
    --------
    >>> is_map(Box((-10, 35), (5, 45), names=("lon", "lat"))), is_map(Box((35, -10), (45, 5), names=("lat", "lon")))
    (True, False)
    """
    return is_geographic(box) and box.names[0].lower() in LONGITUDE and box.lower[1] >= -90 and box.upper[1] <= 90


def areas(boxes: Floats, *, geographic: bool) -> Floats:
    """Areas of boxes float64[m, 2, d]: km² on the sphere, or products of the sides in the axes' own units. float64[m].

    Examples
    --------
    >>> round(float(areas(np.array([[[-180.0, -90.0], [180.0, 90.0]]]), geographic=True)[0]) / 1e6)
    510
    """
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
