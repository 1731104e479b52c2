"""What the baselines return, and those without a tree: means and moved positions.

Noise is in floating point, as in the papers. Positions are scaled so that the domain becomes the unit cube before they
are moved, and scaled back afterwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincinv

from ...arrays import Floats, as_number, short_repr
from ...errors import InvalidInput
from ...functions import BoundedFunction, check_values
from ...geometry.box import Box
from ...protocol.promise import Guarantee


@dataclass(frozen=True)
class MeanEstimate:
    """An estimated mean of the participants, without sampling error."""

    value: float
    stderr: float  # of the noise; known exactly and independent of the data
    guarantee: Guarantee

    __repr__ = short_repr


@dataclass(frozen=True, eq=False)
class ReleasedPoints:
    """Perturbed positions, one per participant: float64[n, d]. What fell outside was moved to the nearest point."""

    points: Floats
    guarantee: Guarantee

    __repr__ = short_repr


# -- what every baseline checks before it starts ---------------------------------------------------------------------


def check_people(points: npt.ArrayLike, box: Box) -> Floats:
    """Return the positions as float64[n, d], at least one and all inside the box, or refuse them."""
    array = box.check(points)
    if not len(array):
        raise InvalidInput("points must hold at least one position; got none")
    return array


def _values_and_width(points: npt.ArrayLike, f: BoundedFunction, box: Box) -> tuple[Floats, float]:
    """Values at the points and the width of the range over the whole box; a value outside the range is refused."""
    values, ranges = check_values(f, check_people(points, box), [[box.lower, box.upper]])
    return values, float(ranges[0, 1] - ranges[0, 0])


# -- means -----------------------------------------------------------------------------------------------------------


def central_mean(
    points: npt.ArrayLike, f: BoundedFunction, box: Box, *, epsilon: float, rng: np.random.Generator
) -> MeanEstimate:
    """Mean of f with one Laplace draw of scale (range of f over the box) / (n epsilon).

    epsilon-differentially private if one participant moves anywhere in the domain (n is public); trusts a curator.
    """
    epsilon = as_number(epsilon, "epsilon", positive=True)
    values, width = _values_and_width(points, f, box)
    scale = width / (len(values) * epsilon)
    value = float(np.mean(values)) + float(rng.laplace(0.0, scale))
    return MeanEstimate(value, math.sqrt(2) * scale, Guarantee.plain("curator", epsilon))


def local_mean(
    points: npt.ArrayLike, f: BoundedFunction, box: Box, *, epsilon: float, rng: np.random.Generator
) -> MeanEstimate:
    """Mean of the participants' values of f, each with Laplace noise of scale (range of f over the box) / epsilon.

    epsilon-locally differentially private; trusts nobody.
    """
    epsilon = as_number(epsilon, "epsilon", positive=True)
    values, width = _values_and_width(points, f, box)
    scale = width / epsilon
    reports = values + rng.laplace(0.0, scale, len(values))
    stderr = math.sqrt(2) * scale / math.sqrt(len(values))
    return MeanEstimate(float(np.mean(reports)), stderr, Guarantee.plain("nobody", epsilon))


# -- positions -------------------------------------------------------------------------------------------------------


def planar_laplace(points: npt.ArrayLike, box: Box, *, epsilon: float, rng: np.random.Generator) -> ReleasedPoints:
    """Geo-indistinguishable positions (Andrés et al., CCS 2013): density proportional to exp(-epsilon × distance).

    Two dimensions. epsilon is the loss per unit of distance, where the unit is a side of the domain: both axes are
    scaled to [0, 1]. Any two positions at (scaled) distance r are epsilon × r indistinguishable: sqrt(2) epsilon across
    the domain.
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
    return _moved(positions, shift, box, guarantee)


def laplace_points(points: npt.ArrayLike, box: Box, *, epsilon: float, rng: np.random.Generator) -> ReleasedPoints:
    """Laplace noise of scale 1/epsilon on every coordinate of the unit cube.

    This is what is often called LDP with epsilon. Each of the d coordinates has range 1, so a move across the whole
    domain costs d × epsilon: that is the epsilon which the guarantee states.
    """
    epsilon = as_number(epsilon, "epsilon", positive=True)
    positions = check_people(points, box)
    shift = rng.laplace(0.0, 1 / epsilon, positions.shape)
    cost = box.dimensions * epsilon
    note = f"{box.dimensions} coordinates with noise of scale 1/{epsilon:g} each."
    return _moved(positions, shift, box, Guarantee.plain("nobody", cost, notes=(note,)))


def radius(uniform: Floats, epsilon: float) -> Floats:
    """Inverse of the distance's distribution function 1 - (1 + epsilon r) exp(-epsilon r).

    In closed form it is -(W((uniform - 1) / e) + 1) / epsilon with the lower branch of Lambert's W, which loses all
    digits for small distances; the inverse of the incomplete gamma function is the same number, precisely.
    """
    distance: Floats = gammaincinv(2.0, uniform) / epsilon
    return distance


def _moved(positions: Floats, shift: Floats, box: Box, guarantee: Guarantee) -> ReleasedPoints:
    """Positions with a shift of the unit cube; what falls outside goes to the nearest point, which costs nothing."""
    moved = positions + shift * (np.asarray(box.upper) - np.asarray(box.lower))
    return ReleasedPoints(box.nearest(moved).points, guarantee)
