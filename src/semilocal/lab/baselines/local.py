"""The mean of a bounded function when every participant randomises its own value (plain local privacy).

Knows two mechanisms for one bounded number. Both use the range of f over the whole domain, which is what a
partition improves on.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ...arrays import as_number
from ...errors import InvalidInput
from ...functions import BoundedFunction
from ...geometry.box import Box
from ...protocol.promise import Guarantee
from .counted_tree import evaluate
from .results import MeanEstimate

__all__ = ["local_mean"]


def local_mean(
    points: npt.ArrayLike,
    f: BoundedFunction,
    box: Box,
    *,
    epsilon: float,
    rng: np.random.Generator,
    mechanism: str = "laplace",
) -> MeanEstimate:
    """Mean of the participants' noisy values of f.

    Parameters
    ----------
    points : array_like, shape (n, d)
    f : BoundedFunction
    box : Box
        The public domain.
    epsilon : float
        The loss of each participant.
    rng : numpy.random.Generator
    mechanism : {"laplace", "duchi"}
        ``"laplace"`` adds Laplace noise of scale (range of f over the box) / epsilon to every value, as plain
        LDP is usually compared with. ``"duchi"`` (Duchi, Jordan, Wainwright 2018) reports one of two points;
        it is the better one for small epsilon, and its standard error is the worst case over all positions.

    Returns
    -------
    MeanEstimate
        epsilon-locally differentially private; trusts nobody.
    """
    epsilon = as_number(epsilon, "epsilon", positive=True)
    if mechanism not in ("laplace", "duchi"):
        raise InvalidInput(f"mechanism must be 'laplace' or 'duchi'; got {mechanism!r}")
    values, low, high = evaluate(points, f, box)
    guarantee = Guarantee.plain("nobody", epsilon)
    if mechanism == "laplace":
        scale = (high - low) / epsilon
        reports = values + rng.laplace(0.0, scale, len(values))
        spread = math.sqrt(2) * scale
    else:
        middle, half = (low + high) / 2, (high - low) / 2
        reach = half / math.tanh(epsilon / 2)  # half (e^epsilon + 1) / (e^epsilon - 1)
        lean = (values - middle) / reach if reach > 0 else np.zeros(len(values))
        reports = middle + np.where(rng.random(len(values)) < (1 + lean) / 2, reach, -reach)
        spread = reach
    return MeanEstimate(float(np.mean(reports)), spread / math.sqrt(len(values)), "normal", guarantee)
