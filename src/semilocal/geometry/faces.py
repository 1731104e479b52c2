"""The sphere as twelve squares of equal area: the projection that HEALPix pixels are squares of.

Each *face* is a unit square with coordinates x (to the north-east) and y (to the north-west). Faces 0 to 3 touch the
north pole at (1, 1), faces 4 to 7 lie on the equator, faces 8 to 11 touch the south pole at (0, 0). Equal areas of a
square are equal areas of the sphere. Latitude grows with x + y, longitude with x - y. The definition is that of
Górski et al. (2005), "HEALPix: a framework for high-resolution discretization and fast analysis of data distributed on
the sphere".

Longitudes out of here are *unwrapped*: within 45 degrees of the middle of their face, from -45 to 360.

Knows a sphere. Knows no cells and no participants.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Integers

__all__ = ["FACES", "FACE_KM", "OnFace", "on_earth", "on_face", "wrapped"]

FACES = 12
FACE_KM = 6519.62  # side of a square with the area of a face, on a sphere with the mean radius of the Earth

_ROW = np.array([2.0, 3.0, 4.0]).repeat(4)  # x + y at the equator is 1, 0 + 1, 1 less: see on_earth
_MIDDLE = np.array([1.0, 3.0, 5.0, 7.0, 0.0, 2.0, 4.0, 6.0, 1.0, 3.0, 5.0, 7.0])  # longitude, in units of 45 degrees


class OnFace(NamedTuple):
    """Places on faces: int64[n], float64[n], float64[n]; x and y from 0 to 1."""

    face: Integers
    x: Floats
    y: Floats


def on_face(points: Floats) -> OnFace:
    """Where positions float64[n, 2], longitude and latitude in degrees, lie on the faces.

    Examples
    --------
    >>> found = on_face(np.array([[0.0, 0.0], [45.0, 90.0], [-135.0, -90.0]]))
    >>> found.face.tolist(), found.x.round(9).tolist(), found.y.round(9).tolist()
    ([4, 0, 10], [0.5, 1.0, 0.0], [0.5, 1.0, 0.0])
    """
    longitude, latitude = points[:, 0], np.radians(points[:, 1])
    height = np.sin(latitude)
    turn = np.mod(longitude, 360.0) / 90.0
    turn[turn >= 4.0] = 0.0  # a tiny negative longitude rounds up to a whole turn
    turn[longitude == 180.0] = np.nextafter(2.0, 0.0)  # the eastern end of the domain, not its western one
    # Between the polar caps, edges of faces are straight lines in longitude and height.
    up, down = (0.5 + turn) - 0.75 * height, (0.5 + turn) + 0.75 * height
    first, second = np.floor(up).astype(np.int64), np.floor(down).astype(np.int64)
    face = np.where(first == second, 4 + first % 4, np.where(first < second, first % 4, 8 + second % 4))
    x, y = down - second, 1.0 - (up - first)
    # In the caps, meridians are straight lines through the pole.
    cap = np.flatnonzero(np.abs(height) > 2.0 / 3.0)
    quarter = turn[cap].astype(np.int64)
    along = turn[cap] - quarter
    away = np.minimum(np.cos(latitude[cap]) * np.sqrt(3.0 / (1.0 + np.abs(height[cap]))), 1.0)
    north = height[cap] > 0
    face[cap] = np.where(north, quarter, 8 + quarter)
    x[cap] = np.where(north, 1.0 - (1.0 - along) * away, along * away)
    y[cap] = np.where(north, 1.0 - along * away, (1.0 - along) * away)
    return OnFace(face, np.clip(x, 0.0, 1.0), np.clip(y, 0.0, 1.0))


def on_earth(face: Integers, x: Floats, y: Floats) -> Floats:
    """Longitude (unwrapped) and latitude in degrees of places on faces: float64[n, 2].

    At a pole, which has every longitude, it is that of the middle of the face.

    Examples
    --------
    >>> on_earth(np.array([4, 0, 10]), np.array([0.5, 1.0, 0.0]), np.array([0.5, 1.0, 0.0])).round(9).tolist()
    [[0.0, 0.0], [45.0, 90.0], [225.0, -90.0]]
    """
    row = _ROW[face] - x - y
    away = np.minimum(np.minimum(row, 4.0 - row), 1.0)  # below 1 in the caps; 0 at the poles
    polar = 90.0 - np.degrees(2.0 * np.arcsin(away / np.sqrt(6.0)))
    between = np.degrees(np.arcsin(np.clip((2.0 - row) * (2.0 / 3.0), -1.0, 1.0)))
    latitude = np.where(row < 1.0, polar, np.where(row > 3.0, -polar, between))
    aside = np.divide(x - y, away, out=np.zeros_like(away), where=away > 0)
    return np.stack([45.0 * (_MIDDLE[face] + np.clip(aside, -1.0, 1.0)), latitude], axis=1)


def wrapped(longitude: Floats) -> Floats:
    """Longitudes from -180 up to below 180, or 180 itself where 180 was given."""
    return np.asarray(np.where(longitude > 180.0, longitude - 360.0, longitude))
