"""The mean of a bounded function by a trusted curator.

Knows the Laplace mechanism for a mean of known size.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ...arrays import as_number
from ...functions import BoundedFunction
from ...geometry.box import Box
from ...protocol.promise import Guarantee
from .counted_tree import evaluate
from .results import MeanEstimate

__all__ = ["central_mean"]


def central_mean(
    points: npt.ArrayLike, f: BoundedFunction, box: Box, *, epsilon: float, rng: np.random.Generator
) -> MeanEstimate:
    """Mean of f with one Laplace draw of scale (range of f over the box) / (n epsilon).

    Parameters
    ----------
    points : array_like, shape (n, d)
    f : BoundedFunction
        Its range over the whole box sets the noise: moving one participant changes the mean by at most range
        / n.
    box : Box
        The public domain.
    epsilon : float
    rng : numpy.random.Generator

    Returns
    -------
    MeanEstimate
        epsilon-differentially private if one participant moves anywhere in the domain (the number of
        participants is public); trusts a curator.
    """
    epsilon = as_number(epsilon, "epsilon", positive=True)
    values, low, high = evaluate(points, f, box)
    scale = (high - low) / (len(values) * epsilon)
    value = float(np.mean(values)) + float(rng.laplace(0.0, scale))
    guarantee = Guarantee.plain("curator", epsilon)
    return MeanEstimate(value, math.sqrt(2) * scale, "laplace", guarantee)
