"""Releasing a noisy position per participant: planar Laplace noise, and Laplace noise per coordinate.

Knows both distributions and what they really promise. Positions are scaled so that the domain becomes the
unit cube before noise is added, and scaled back afterwards.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincinv

from ...arrays import Floats, as_number
from ...errors import InvalidInput
from ...geometry.box import Box
from ...protocol.promise import Guarantee
from .counted_tree import check_people
from .results import ReleasedPoints

__all__ = ["laplace_points", "planar_laplace", "radius"]


def planar_laplace(
    points: npt.ArrayLike, box: Box, *, epsilon: float, rng: np.random.Generator, clip: bool = True
) -> ReleasedPoints:
    """Geo-indistinguishable positions (Andrés et al., CCS 2013): density proportional to exp(-epsilon × distance).

    Parameters
    ----------
    points : array_like, shape (n, 2)
    box : Box
        Two dimensions.
    epsilon : float
        Loss per unit of distance, where the unit is a side of the domain: both axes are scaled to [0, 1].
    rng : numpy.random.Generator
    clip : bool
        Move draws outside the domain to its nearest point (post-processing: it costs no privacy).

    Returns
    -------
    ReleasedPoints
        Any two positions at (scaled) distance r are epsilon × r indistinguishable: sqrt(2) epsilon across the
        domain.
    """
    epsilon = as_number(epsilon, "epsilon", positive=True)
    if box.dimensions != 2:
        raise InvalidInput(f"planar_laplace needs a box of 2 dimensions; got {box.dimensions}: use laplace_points")
    positions = check_people(points, box)
    angle = rng.uniform(0.0, 2 * math.pi, len(positions))
    distance = radius(rng.random(len(positions)), epsilon)
    shift = np.stack((distance * np.cos(angle), distance * np.sin(angle)), axis=1)
    across = math.sqrt(2) * epsilon
    ladder = (("one side of the domain apart (axes scaled to [0, 1])", epsilon), ("opposite corners", across))
    note = "The loss is proportional to the distance: near positions are hidden better than far ones."
    guarantee = Guarantee.plain("nobody", across, ladder=ladder, notes=(note,))
    return _release(positions, shift, box, clip, guarantee)


def laplace_points(
    points: npt.ArrayLike, box: Box, *, epsilon: float, rng: np.random.Generator, clip: bool = True
) -> ReleasedPoints:
    """Laplace noise of scale 1/epsilon on every coordinate of the unit cube.

    This is what is often called LDP with epsilon. Each of the d coordinates has range 1, so a move across the
    whole domain costs d × epsilon: that is the epsilon which the guarantee states.

    Parameters
    ----------
    points : array_like, shape (n, d)
    box : Box
    epsilon : float
        The parameter of each coordinate.
    rng : numpy.random.Generator
    clip : bool
        Move draws outside the domain to its nearest point (post-processing: it costs no privacy).
    """
    epsilon = as_number(epsilon, "epsilon", positive=True)
    positions = check_people(points, box)
    shift = rng.laplace(0.0, 1 / epsilon, positions.shape)
    cost = box.dimensions * epsilon
    note = f"{box.dimensions} coordinates with noise of scale 1/{epsilon:g} each."
    return _release(positions, shift, box, clip, Guarantee.plain("nobody", cost, notes=(note,)))


def radius(uniform: Floats, epsilon: float) -> Floats:
    """Inverse of the distance's distribution function 1 - (1 + epsilon r) exp(-epsilon r).

    In closed form it is -(W((uniform - 1) / e) + 1) / epsilon with the lower branch of Lambert's W, which loses all
    digits for small distances; the inverse of the incomplete gamma function is the same number, precisely.
    """
    distance: Floats = gammaincinv(2.0, uniform) / epsilon
    return distance


def _release(positions: Floats, shift: Floats, box: Box, clip: bool, guarantee: Guarantee) -> ReleasedPoints:
    moved = positions + shift * (np.asarray(box.upper) - np.asarray(box.lower))
    if not clip:
        return ReleasedPoints(moved, 0, guarantee)
    inside = box.nearest(moved)
    return ReleasedPoints(inside.points, inside.moved, guarantee)
