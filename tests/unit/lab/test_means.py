"""Means with central and local noise: the right price, and what is refused."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from semilocal.errors import InvalidInput, OutsideDomain
from semilocal.functions import BoundedFunction, function, linear, squared_norm
from semilocal.geometry.box import Box
from semilocal.lab.baselines import central_mean, local_mean

Floats = npt.NDArray[np.float64]
BOX = Box((-10.0, -10.0), (10.0, 10.0))


def wrong() -> BoundedFunction:
    """States a range that its values leave."""
    return function(lambda x: (x**2).sum(axis=1), lambda boxes: np.tile([0.0, 1.0], (len(boxes), 1)))


def people(rng: np.random.Generator, n: int) -> Floats:
    return np.clip(rng.normal(0, 1.5, (n, 2)), -10, 10)


def test_guarantees_name_trust_and_adjacency() -> None:
    rng = np.random.default_rng(3)
    points = people(rng, 5)
    central = central_mean(points, squared_norm(), BOX, epsilon=0.5, rng=rng).guarantee
    local = local_mean(points, squared_norm(), BOX, epsilon=0.5, rng=rng).guarantee
    for guarantee, trust in ((central, "curator"), (local, "nobody")):
        text = guarantee.sentence()
        assert guarantee.anywhere == guarantee.epsilon == 0.5
        for part in ("epsilon = 0.5", "delta = 0", "anywhere in the domain", trust):
            assert part in text


def test_a_constant_function_needs_no_noise() -> None:
    rng = np.random.default_rng(4)
    result = local_mean(people(rng, 5), linear((0.0, 0.0)), BOX, epsilon=0.5, rng=rng)
    assert (result.value, result.stderr) == (0.0, 0.0)


def test_bad_arguments_are_refused() -> None:
    rng = np.random.default_rng(5)
    points = people(rng, 5)
    for mean in (central_mean, local_mean):
        with pytest.raises(InvalidInput, match="epsilon"):
            mean(points, squared_norm(), BOX, epsilon=0.0, rng=rng)
        with pytest.raises(InvalidInput, match="range"):
            mean(points, lambda x: x[:, 0], BOX, epsilon=1.0, rng=rng)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="leave the range"):
            mean(points, wrong(), BOX, epsilon=1.0, rng=rng)
        with pytest.raises(OutsideDomain):
            mean(points + 20, squared_norm(), BOX, epsilon=1.0, rng=rng)
        with pytest.raises(InvalidInput, match="at least one"):
            mean(np.empty((0, 2)), squared_norm(), BOX, epsilon=1.0, rng=rng)
