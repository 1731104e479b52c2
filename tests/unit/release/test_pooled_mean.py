"""Means and synthetic points of the pooled modes: central privacy's error, unbiased rounding, totals kept."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.errors import InvalidInput
from semilocal.pooled import PooledTask
from semilocal.pooled.values import add_up, cell_grids, round_values, sum_rate
from semilocal.release.means import cell_means, pooled_mean

BOX = sl.Box((0, 0), (2, 1))
POINTS = np.random.default_rng(1).random((50, 2)) * [2, 1]
F = sl.functions.coordinate(0)


def task(epsilon: float) -> PooledTask:
    return PooledTask.build(BOX, epsilon=epsilon, trust="curator", max_depth=2)


def test_a_mean_says_that_the_number_of_reports_is_public() -> None:
    said = pooled_mean(task(0.5), POINTS, F, rng=np.random.default_rng(3)).guarantee.explain()
    assert "added or removed: epsilon = 0.25 (delta = 0) for everything but the number of reports, which is" in said


class Law:
    """The exact law of the published sums of one person with f(x) = x, over a domain cut into even cells.

    With two servers it is what either of them sees, who knows its own noise.
    """

    def __init__(self, cells: int, epsilon: float, *, reports: int = 1, louder: int = 1, centred: bool = True) -> None:
        self.cells, self.reports, self.centred = cells, reports, centred
        rate = louder * float(sum_rate(Fraction(epsilon), TINY, reports))
        reach = 4 * TINY * reports
        self.outputs = np.arange(-reach, reach + 1)
        self.noise = np.exp(-rate * np.abs(self.outputs[:, None] - self.outputs))  # up to a factor: [output, sum]

    def sums(self, x: float, word: int) -> Any:
        """What the code adds up if all words are the same."""
        cell = min(int(x * self.cells), self.cells - 1)
        units, where = np.full(self.reports, x * self.cells - cell), np.full(self.reports, cell)
        steps = round_values(units, 0.0, 1.0, TINY, np.full(self.reports, word, np.uint64))
        found = add_up(steps, where, cell_grids(np.tile([0.0, 1.0], (self.cells, 1)), steps=TINY))
        if not self.centred:
            found[cell] += self.reports * TINY
        return found

    def of(self, x: float) -> Any:
        """Chances of all outputs, up to a factor: float64[outputs, ...] with an axis per cell."""
        up = x * self.cells * TINY % 1.0
        total = np.zeros(())
        for word, chance in ((0, up), (2**64 - 1, 1.0 - up)):
            law = np.ones(())
            for one in self.sums(x, word):
                law = np.multiply.outer(law, self.noise[:, one - self.outputs[0]])
            total = total + chance * law
        return total

    def loss(self) -> float:
        """The largest log of a ratio over all outputs and pairs of positions."""
        laws = np.log([self.of(x) for x in np.linspace(0, 1, 16 * self.cells + 1)])
        return float(max(np.max(one - laws) for one in laws))


TINY = 4


@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize("reports", [1, 2])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_every_output_of_the_sums_is_enumerated_and_the_largest_loss_is_epsilon(
    cells: int, reports: int, epsilon: float
) -> None:
    """A grid of four steps. Planted: noise of half the size; sums that are not taken from the middle of the range."""
    assert Law(cells, epsilon, reports=reports).loss() == pytest.approx(epsilon, rel=1e-9)
    assert Law(cells, epsilon, reports=reports, louder=2).loss() == pytest.approx(2 * epsilon, rel=1e-9)
    if cells > 1:
        assert Law(cells, epsilon, reports=reports, centred=False).loss() > 1.9 * epsilon


def test_nobody_has_no_mean() -> None:
    with pytest.raises(InvalidInput, match="no positions"):
        sl.mean(np.empty((0, 2)), F, BOX, epsilon=1.0, trust="curator")


def test_means_per_cell_add_their_cost_and_hold_the_truth() -> None:
    """Five standard errors for every cell with people: 6e-7 each."""
    rng = np.random.default_rng(6)
    points = rng.beta(2, 5, (20_000, 2)) * [2, 1]
    counted = sl.counts(points, BOX, epsilon=2.0, trust="curator", rng=rng)
    found = cell_means(counted, points, F, epsilon=2.0, rng=rng)
    assert found.spent.epsilon_anywhere == 4
    cells = counted.partition.locate(points)
    number = np.bincount(cells, minlength=len(counted.partition))
    sums = np.bincount(cells, points[:, 0], minlength=len(counted.partition))
    some = (number >= 50) & (counted.partition.crowds >= 50)
    assert some.sum() > 10
    assert (np.abs(found.value - sums / np.maximum(number, 1))[some] <= 6 * found.stderr[some]).all()
    ends = found.interval()
    assert ((ends[:, 0] <= found.value) & (found.value <= ends[:, 1])).all()


def test_the_regions_that_an_area_meets_are_those_that_overlap_it() -> None:
    rng = np.random.default_rng(8)
    points = rng.beta(2, 5, (1_000, 2)) * [2, 1]
    found = cell_means(sl.counts(points, BOX, epsilon=2.0, trust="curator", rng=rng), points, F, epsilon=2.0, rng=rng)
    boxes = found.partition.boxes
    asked = np.array([[[0.3, 0.1], [0.6, 0.4]], [[0.0, 0.0], [2.0, 1.0]], [[5.0, 5.0], [6.0, 6.0]]])
    first, whole, nothing = found.meeting(asked)
    assert len(whole) == len(boxes)
    assert len(nothing) == 0
    overlap = np.minimum(asked[0, 1], boxes[:, 1]) - np.maximum(asked[0, 0], boxes[:, 0])
    assert first.tolist() == np.flatnonzero((overlap > 0).all(axis=1)).tolist()
    ring = [[0.3, 0.1], [0.6, 0.1], [0.3, 0.4], [0.3, 0.1]]
    (triangle,) = found.meeting([{"type": "Polygon", "coordinates": [ring]}])
    assert set(triangle) < set(first)
    assert len(triangle)


def test_synthetic_points_keep_totals_and_stay_inside() -> None:
    rng = np.random.default_rng(7)
    points = rng.beta(2, 5, (5_000, 2)) * [2, 1]
    result = sl.points(points, BOX, epsilon=2.0, trust="two-servers", rng=rng)
    assert result.points.shape == points.shape
    assert len(BOX.check(result.points)) == 5_000
    drawn = np.bincount(result.partition.locate(result.points), minlength=len(result.partition))
    assert np.abs(drawn - result.partition.crowds).max() < 5  # four parts, each rounded up or down
    assert not (result.points[:, None] == points[:200]).all(axis=2).any(), "no true position comes back"
