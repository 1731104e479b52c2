"""Populations with a dense corner, and runs over them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import semilocal as sl
from semilocal.testing import unit_box

Floats = npt.NDArray[np.float64]


def crowded(size: int, dimensions: int, rng: np.random.Generator) -> Floats:
    """Most people in a corner, one in a hundred anywhere."""
    dense = rng.beta(2, 8, (size, dimensions)) * 0.5
    return np.where(rng.random((size, 1)) < 0.01, rng.random((size, dimensions)), dense)


def run_of(dimensions: int, *, seed: int, size: int = 3_000, **options: Any) -> tuple[Floats, sl.Run]:
    """A population and a run over it."""
    rng = np.random.default_rng(seed)
    points = crowded(size, dimensions, rng)
    task = sl.Task.build(unit_box(dimensions), **({"epsilon": 2.0, "delta": 0.05, "k": 20} | options))
    return points, sl.simulate(points, task, rng=rng)
