"""Range counts from a finished partition. They cost nothing beyond it: everything used is in the public transcript.

- Crowds are exact: who answers for a region is public by design.
- Inside a region the last round's estimates say how its crowd divides among the children; they are shrunk towards an
  even division by what is known of their noise.
- A TRIM moved some participants into the region next door. The trim round's estimate, less one standard error, is put
  back evenly into the trimmed part and taken from the regions that participants there would have been moved into.

Totals are kept: the whole domain holds exactly the participants of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
import numpy.typing as npt

from ..accounting import Ledger
from ..partition import Partition
from ..rectangles import Answers, BoxCounts
from ..simulate import Run

__all__ = ["CountsRelease", "counts"]

Floats = npt.NDArray[np.float64]

_SPREAD = 0.25  # standard deviation of a child's share among real regions; sets how far estimates are shrunk
_LEAST_SHARE = 0.02  # no child of a region is taken to be quite empty
_PROBES = 64  # positions per trimmed part that show where its people were moved
_MOST_TAKEN = 0.5  # at most this part of a crowd is put back into trimmed parts


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
        return (
            f"No trusted curator. epsilon = {task.epsilon:g} inside your region for participants who were never moved, at "
            f"most {task.epsilon_worst:g} for anybody; crowd of {task.k} except with delta = {task.delta:g}. "
            "Regions and crowds are public by design."
        )

    def query(self, boxes: npt.ArrayLike) -> Answers:
        """Number of participants in boxes, with standard errors.

        Parameters
        ----------
        boxes : array_like, shape (q, 2, d)
            Lower and upper corners, half-open.

        Returns
        -------
        Answers
            ``value`` float64[q], ``stderr`` float64[q], ``interval(level)`` float64[q, 2]. Queries along the edges of
            regions are exact but for participants who may have been moved; the marker ``uncertain`` is set if any
            TRIM was made. Queries that cut regions rest on the assumption that people lie evenly inside the halves of
            a region.
        """
        return self._tiles.query(boxes)

    def density(self, grid: tuple[int, ...]) -> Floats:
        """Expected number of participants in each cell of an even grid over the domain."""
        return self._tiles.density(grid, self.partition.task.box)

    @cached_property
    def _tiles(self) -> BoxCounts:
        partition = self.partition
        trimmed = _trimmed(partition)
        residents = partition.crowds - trimmed.taken
        asked = ~np.isnan(partition.estimates).any(axis=1)
        halves = _divided(partition, asked, residents, trimmed.taken_variance)
        whole = ~asked
        boxes = np.concatenate([trimmed.boxes, halves.boxes, partition.boxes[whole]])
        numbers = np.concatenate([trimmed.counts, halves.counts, residents[whole]])
        variances = np.concatenate([trimmed.variances, halves.variances, trimmed.taken_variance[whole]])
        return BoxCounts(boxes, numbers, variances=variances, uncertain=len(trimmed.counts) > 0)


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


@dataclass(frozen=True, eq=False)
class _Tiles:
    boxes: Floats
    counts: Floats
    variances: Floats


@dataclass(frozen=True, eq=False)
class _Trimmed(_Tiles):
    taken: Floats  # from each region
    taken_variance: Floats


def _trimmed(partition: Partition) -> _Trimmed:
    """What is put back into trimmed parts, and from which regions."""
    task, trims = partition.task, partition.trims
    rows, children = np.nonzero(~trims.kept)
    regions = len(partition)
    if not len(rows):
        empty = np.empty(0)
        return _Trimmed(np.empty((0, 2, task.box.dimensions)), empty, empty, np.zeros(regions), np.zeros(regions))
    boxes = task.hierarchy.boxes(trims.cells[rows] << np.uint64(task.hierarchy.level_bits) | children.astype(np.uint64))
    variance = trims.responders[rows] * task.randomizer.variance(task.tau)
    wanted = np.maximum(trims.estimates[rows, children] - np.sqrt(variance), 0.0)
    source, target, weight = _where_moved(partition, boxes)
    asked = np.bincount(target, wanted[source] * weight, minlength=regions)
    granted = np.minimum(asked, _MOST_TAKEN * partition.crowds)
    rate = np.divide(granted, asked, out=np.zeros(regions), where=asked > 0)
    put_back = np.bincount(source, wanted[source] * weight * rate[target], minlength=len(rows))
    taken_variance = np.bincount(target, variance[source] * weight**2, minlength=regions)
    return _Trimmed(boxes, put_back, variance, granted, taken_variance)


def _where_moved(
    partition: Partition, boxes: Floats
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]:
    """Pairs (trimmed part, region) and how its people divide among those regions: in proportion to their crowds."""
    dimensions = boxes.shape[2]
    steps = max(2, round(_PROBES ** (1 / dimensions)))
    grid = np.array(list(product((np.arange(steps) + 0.5) / steps, repeat=dimensions)))
    probes = boxes[:, None, 0] + grid * (boxes[:, 1] - boxes[:, 0])[:, None]
    region = partition.locate(probes.reshape(-1, dimensions))
    part = np.repeat(np.arange(len(boxes)), len(grid))
    pairs = np.unique(part * len(partition) + region)
    source, target = np.divmod(pairs, len(partition))
    crowd = np.maximum(partition.crowds[target], 1).astype(np.float64)
    weight = crowd / np.bincount(source, crowd, minlength=len(boxes))[source]
    return source, target, weight


def _divided(
    partition: Partition, asked: npt.NDArray[np.bool_], residents: Floats, resident_variance: Floats
) -> _Tiles:
    """Children of the regions whose last round asked for them, with the crowd divided by the shrunk estimates."""
    task = partition.task
    cells = partition.cells[asked]
    children = task.hierarchy.children(cells)
    fanout = children.shape[1]
    crowd = np.maximum(partition.crowds[asked], 1).astype(np.float64)
    noise = task.randomizer.variance(1.0 / fanout) / crowd  # variance of an estimated share
    trust = _SPREAD**2 / (_SPREAD**2 + noise)
    even = 1.0 / fanout
    share = even + (partition.estimates[asked] / crowd[:, None] - even) * trust[:, None]
    share = np.maximum(share, _LEAST_SHARE)
    share /= share.sum(axis=1, keepdims=True)
    people = residents[asked][:, None] * share
    variance = crowd[:, None] ** 2 * (trust * noise)[:, None] + share**2 * resident_variance[asked][:, None]
    return _Tiles(task.hierarchy.boxes(children.ravel()), people.ravel(), np.broadcast_to(variance, share.shape).ravel())
