"""Range counts from a finished partition. They cost nothing beyond it: everything used is in the public transcript.

- Crowds are exact: who answers for a region is public by design.
- Inside a region the last round's estimates say how its crowd divides among the children; they are shrunk towards an
  even division by what is known of their noise.
- A TRIM moved some participants into regions next door. The trim round's estimate, less one standard error, is put
  back evenly into the trimmed part and taken from where participants there would have been moved to.

Answers are cautious about trimmed parts, which mostly are empty. Intervals are not: their centre is what one expects of
a number that is not negative, given the trim round's estimate and its known noise.

Totals are kept: the whole domain holds exactly the participants of the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..accounting import Ledger
from ..hierarchy import Cells
from ..partition import Partition
from ..rectangles import Answers, BoxCounts
from ..run import Run

__all__ = ["CountAnswers", "CountsRelease", "counts"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_SPREAD = 0.25  # standard deviation of a child's share among real regions; sets how far estimates are shrunk
_LEAST_SHARE = 0.02  # no child of a region is taken to be quite empty
_PROBES = 64  # positions on an even grid in a trimmed part, besides those next to tiles
_PROBES_AT_ONCE = 1 << 20
_MOST_TAKEN = 0.5  # at most this part of a tile is put back into trimmed parts
_ROUNDING = 1e-9
_QUERIES_AT_ONCE = 1 << 13


@dataclass(frozen=True, eq=False)
class CountAnswers(Answers):
    """Answers to q range queries; their intervals have a centre of their own.

    Attributes
    ----------
    value : float64[q]
    stderr : float64[q]
        Standard error of the centre.
    uncertain : bool
        Whether anybody may have been moved.
    centre : float64[q]
        Expected number of people, given the transcript.
    total : int
        All participants; intervals end there.
    """

    centre: Floats = field(kw_only=True)
    total: int = field(kw_only=True)

    def interval(self, level: float = 0.95) -> Floats:
        """Interval for each number, within 0 and the total: float64[q, 2].

        Calibrated for boxes along the edges of regions, of their halves and of trimmed parts. Boxes that cut through
        a half rest on the assumption that people lie evenly in it.
        """
        around = Answers(self.centre, self.stderr).interval(level)
        return np.clip(around, 0.0, float(self.total))


@dataclass(frozen=True, eq=False)
class CountsRelease:
    """Counts that answer range queries.

    Attributes
    ----------
    partition : Partition
    spent : Ledger
    """

    partition: Partition
    spent: Ledger

    @property
    def total(self) -> int:
        """All participants of the run; exact."""
        return int(self.partition.crowds.sum())

    @property
    def guarantee(self) -> str:
        """Trust model and adjacency."""
        task = self.partition.task
        kept = f"crowd of {task.k} except with delta = {task.delta:g}"
        crowd = kept if task.keeps_crowd else f"NO crowd of {task.k} is kept (delta = 1)"
        return (
            f"No trusted curator. epsilon = {task.epsilon:g} inside your region for participants who were never moved, "
            f"at most {task.epsilon_worst:g} for anybody; {crowd}. Regions and crowds are public by design."
        )

    def query(self, boxes: npt.ArrayLike) -> CountAnswers:
        """Number of participants in boxes, with standard errors.

        Parameters
        ----------
        boxes : array_like, shape (q, 2, d)
            Lower and upper corners, half-open.

        Returns
        -------
        CountAnswers
            ``value`` float64[q], ``stderr`` float64[q], ``interval(level)`` float64[q, 2]. Queries along the edges of
            regions are exact (standard error 0) but for participants who may have been moved; ``uncertain`` is set if
            any TRIM was made. Queries that cut regions rest on the assumption that people lie evenly inside the
            halves of a region.
        """
        model = self._model
        answers = model.tiles.query(boxes)
        corners = np.asarray(boxes, dtype=np.float64)
        variance = answers.stderr**2 - model.regions.query(boxes).stderr ** 2 - model.settled(corners)
        variance[variance < _ROUNDING * (1.0 + answers.stderr**2)] = 0.0  # what cancels leaves rounding behind
        centre = answers.value + model.shifts.query(boxes).value
        return CountAnswers(answers.value, np.sqrt(variance), model.tiles.uncertain, centre=centre, total=self.total)

    def density(self, grid: tuple[int, ...]) -> Floats:
        """Expected number of participants in each cell of an even grid over the domain."""
        return self._model.tiles.density(grid, self.partition.task.box)

    @cached_property
    def _model(self) -> _Model:
        partition, fanout = self.partition, self.partition.task.randomizer.fanout
        tiles, parts = _Tiles.of(partition), _Parts.of(partition)
        flows = _flows(partition, parts, tiles)
        cautious = np.maximum(parts.estimates - np.sqrt(parts.noise), 0.0)
        answer = _put_back(tiles, flows, cautious, most=_MOST_TAKEN)
        mean, variance = _not_negative(parts.estimates, parts.noise, parts.responders)
        expected = _put_back(tiles, flows, mean, most=np.inf)
        # People of a part are taken to err together: then all tiles they went to carry the variance of the part.
        source, weight = flows.source, flows.weight
        moved = weight * variance[source] + weight * (1.0 - weight) * mean[source]
        # Children of a region err against each other: their sum is exact. Independent errors of this size, less those
        # of the whole region, come to the same.
        against = tiles.variances * fanout / (fanout - 1)
        divided = np.bincount(tiles.regions, against, minlength=len(partition))
        region = np.flatnonzero(divided)
        boxes = np.concatenate([parts.boxes, tiles.boxes])
        variances = np.concatenate([variance, against + np.bincount(flows.target, moved, minlength=len(against))])
        shift = np.concatenate([expected.parts - answer.parts, expected.tiles - answer.tiles])
        shifted = shift != 0
        return _Model(
            BoxCounts(
                boxes,
                np.concatenate([answer.parts, answer.tiles]),
                variances=variances,
                uncertain=len(parts.cells) > 0,
            ),
            BoxCounts(partition.boxes[region], np.zeros(len(region)), variances=divided[region]),
            BoxCounts(boxes[shifted], shift[shifted]),
            partition.task.hierarchy.boxes(parts.cells),
            variance + np.bincount(source, moved, minlength=len(variance)),
        )


class _Model(NamedTuple):
    tiles: BoxCounts  # answers, and variances as if all tiles erred independently
    regions: BoxCounts  # what that is too much where a query holds several tiles of a region
    shifts: BoxCounts  # from answers to centres
    cells: Floats  # trimmed cells: float64[t, 2, d]
    inside: Floats  # variance of moves inside each of them; a query that holds the cell does not feel it

    def settled(self, queries: Floats) -> Floats:
        """Variance of the moves that stay inside each query: float64[q]."""
        out = np.zeros(len(queries))
        for start in range(0, len(queries) if len(self.cells) else 0, _QUERIES_AT_ONCE):
            chunk = queries[start : start + _QUERIES_AT_ONCE]
            holds = np.ones((len(chunk), len(self.cells)), dtype=bool)
            for axis in range(queries.shape[2]):
                holds &= chunk[:, None, 0, axis] <= self.cells[:, 0, axis]
                holds &= chunk[:, None, 1, axis] >= self.cells[:, 1, axis]
            out[start : start + _QUERIES_AT_ONCE] = holds @ self.inside
        return out


def counts(run: Run, *, ledger: Ledger | None = None) -> CountsRelease:
    """Range counts of a run; they cost nothing beyond it.

    Examples
    --------
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(1)
    >>> points = rng.random((20_000, 2))
    >>> run = sl.simulate(points, sl.Task.build(sl.Box((0, 0), (1, 1)), epsilon=1.0, delta=0.01, k=50), rng=rng)
    >>> round(float(counts(run).query([[[0, 0], [1, 1]]]).value[0]), 6)
    20000.0
    """
    return CountsRelease(run.partition, ledger or Ledger.of(run.task))


class _Tiles(NamedTuple):
    """The children of regions that were asked for them, and whole regions that were not."""

    cells: Cells  # in the order of the curve
    boxes: Floats
    regions: Integers
    people: Floats  # who act from there; they add up to the crowds
    variances: Floats

    @staticmethod
    def of(partition: Partition) -> _Tiles:
        task = partition.task
        asked = ~np.isnan(partition.estimates).any(axis=1)
        fanout = task.randomizer.fanout
        crowd = np.maximum(partition.crowds[asked], 1).astype(np.float64)
        noise = task.randomizer.variance(1.0 / fanout) / crowd  # variance of an estimated share
        trust = _SPREAD**2 / (_SPREAD**2 + noise)
        even = 1.0 / fanout
        share = even + (partition.estimates[asked] / crowd[:, None] - even) * trust[:, None]
        share = np.maximum(share, _LEAST_SHARE)
        share /= share.sum(axis=1, keepdims=True)
        people = partition.crowds[asked][:, None] * share
        variance = np.broadcast_to((partition.crowds[asked] ** 2 * trust * noise)[:, None], share.shape)
        whole = np.flatnonzero(~asked)
        cells = np.concatenate([task.hierarchy.children(partition.cells[asked]).ravel(), partition.cells[whole]])
        regions = np.concatenate([np.repeat(np.flatnonzero(asked), fanout), whole])
        numbers = np.concatenate([people.ravel(), partition.crowds[whole]])
        variances = np.concatenate([variance.ravel(), np.zeros(len(whole))])
        order = np.argsort(task.hierarchy.span(cells)[0])
        cells = cells[order]
        return _Tiles(cells, task.hierarchy.boxes(cells), regions[order], numbers[order], variances[order])


class _Parts(NamedTuple):
    """Trimmed parts, in the order of rounds."""

    cells: Cells  # the cells that were trimmed
    children: Integers
    boxes: Floats
    estimates: Floats
    noise: Floats
    responders: Floats

    @staticmethod
    def of(partition: Partition) -> _Parts:
        task, trims = partition.task, partition.trims
        rows, children = np.nonzero(~trims.kept)
        cells = trims.cells[rows]
        boxes = task.hierarchy.boxes(cells << np.uint64(task.hierarchy.level_bits) | children.astype(np.uint64))
        responders = trims.responders[rows].astype(np.float64)
        noise = responders * task.randomizer.variance(task.tau)
        return _Parts(cells, children, boxes, trims.estimates[rows, children], noise, responders)


class _Flows(NamedTuple):
    """Pairs of a trimmed part and a tile that people of the part were moved to."""

    source: Integers
    target: Integers
    weight: Floats  # share of the part's people; adds up to 1 for each part


def _flows(partition: Partition, parts: _Parts, tiles: _Tiles) -> _Flows:
    """Move positions of each part as participants were moved; people divide as they do where they arrive.

    The positions are the nearest ones to every tile of the trimmed cell, so that no tile is overlooked, and an even
    grid.
    """
    hierarchy = partition.task.hierarchy
    first, last = hierarchy.span(parts.cells)
    begins = hierarchy.span(tiles.cells)[0]
    start, stop = np.searchsorted(begins, first), np.searchsorted(begins, last, side="right")
    centres = tiles.boxes.mean(axis=1)
    dimensions = centres.shape[1]
    steps = max(2, round(_PROBES ** (1 / dimensions)))
    grid = np.array(list(product((np.arange(steps) + 0.5) / steps, repeat=dimensions)))
    pairs = [np.empty(0, dtype=np.int64)]
    batches = np.cumsum(stop - start + len(grid)) // _PROBES_AT_ONCE
    for batch in np.unique(batches):
        low, high = np.searchsorted(batches, batch), np.searchsorted(batches, batch, side="right")
        probes, origin = [], []
        for part in range(low, high):
            lower, upper = parts.boxes[part]
            inside = np.clip(centres[start[part] : stop[part]], lower, np.nextafter(upper, lower))
            probes += [inside, lower + grid * (upper - lower)]
            origin.append(np.full(len(inside) + len(grid), part))
        codes = partition.moved_codes(hierarchy.codes(np.concatenate(probes)))
        tile = np.searchsorted(begins, codes, side="right") - 1
        pairs.append(np.unique(np.concatenate(origin) * len(tiles.cells) + tile))
    source, target = np.divmod(np.concatenate(pairs), len(tiles.cells))
    arriving = np.maximum(tiles.people[target], 1.0)
    return _Flows(source, target, arriving / np.bincount(source, arriving, minlength=len(parts.cells))[source])


class _Residents(NamedTuple):
    parts: Floats
    tiles: Floats


def _put_back(tiles: _Tiles, flows: _Flows, acting: Floats, *, most: float) -> _Residents:
    """People by where they were before all moves, if so many acted from each part when it was trimmed."""
    wanted = np.bincount(flows.target, acting[flows.source] * flows.weight, minlength=len(tiles.people))
    granted = wanted if most == np.inf else np.minimum(wanted, most * tiles.people)
    rate = np.divide(granted, wanted, out=np.zeros(len(wanted)), where=wanted > 0)
    back = acting[flows.source] * flows.weight * rate[flows.target]
    parts = np.bincount(flows.source, back, minlength=len(acting)).astype(np.float64)
    return _Residents(parts, tiles.people - granted)


def _not_negative(estimate: Floats, noise: Floats, most: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of a number in [0, most], given its estimate; all were equally likely before.

    That is a normal law cut off at both ends. It does not matter that only small estimates lead to a TRIM: what is
    expected given an estimate does not depend on what happens because of it.
    """
    from scipy.special import log_ndtr  # loaded at first use, as in tails.py

    scale = np.sqrt(noise)
    low, high = -estimate / scale, (most - estimate) / scale
    # The mass between them, from the side on which the tails are small.
    first, last = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
    log_mass = log_ndtr(last) + np.log1p(-np.exp(log_ndtr(first) - log_ndtr(last)))
    at_low, at_high = (np.exp(-0.5 * end**2 - log_mass) / np.sqrt(2 * np.pi) for end in (low, high))
    shift = at_low - at_high
    variance = 1.0 + low * at_low - high * at_high - shift**2
    # Far out the terms cancel to rounding; there the law is exponential with rate `low`.
    return estimate + scale * shift, noise * np.clip(variance, 0.5 / (3.0 + low**2), 1.0)
