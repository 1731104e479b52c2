"""Every baseline refuses an epsilon that is none, positions outside the domain, and nobody."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from semilocal.errors import InvalidInput, OutsideDomain
from semilocal.functions import squared_norm
from semilocal.geometry.box import Box
from semilocal.lab import baselines

UNIT = Box((0.0, 0.0), (1.0, 1.0))
RNG = np.random.default_rng(0)
EVERY: dict[str, Callable[..., Any]] = {
    name: getattr(baselines, name)
    for name in ("identity", "ugrid", "agrid", "dawa", "heatmap", "privtree", "ahead", "ldp_kdtree", "planar_laplace",
                 "laplace_points")
} | {
    "published": partial(baselines.published, delta=0.05, k=20),
    "central_mean": lambda points, box, **more: baselines.central_mean(points, squared_norm(), box, **more),
    "local_mean": lambda points, box, **more: baselines.local_mean(points, squared_norm(), box, **more),
}  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
def test_bad_arguments_are_refused(name: str) -> None:
    make, people = EVERY[name], RNG.random((100, 2))
    for epsilon in (0.0, float("nan"), -1.0):
        with pytest.raises(InvalidInput, match="epsilon"):
            make(people, UNIT, epsilon=epsilon, rng=RNG)
    with pytest.raises(OutsideDomain):
        make(people + 0.5, UNIT, epsilon=1.0, rng=RNG)
    with pytest.raises(InvalidInput, match="at least one"):
        make(np.empty((0, 2)), UNIT, epsilon=1.0, rng=RNG)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [("identity", "max_depth", 99), ("dawa", "max_depth", 99), ("privtree", "max_depth", 31), ("ahead", "depth", 0),
     ("ldp_kdtree", "height", 31), ("ldp_kdtree", "buckets", 1), ("published", "k", 0)],
)  # fmt: skip
def test_bad_options_are_refused_by_name(name: str, option: str, value: int) -> None:
    with pytest.raises(InvalidInput, match=option):
        EVERY[name](RNG.random((100, 2)), UNIT, **{"epsilon": 1.0, "rng": RNG, option: value})
