"""DAWA: buckets that follow the data, then counts that follow the questions (Li, Hay, Miklau, PVLDB 2014).

The finest cells stand along a Hilbert curve. First, with a quarter of epsilon, neighbours with about the same counts
are put together into buckets of 1, 2, 4, 8 … cells: of all partitions the one whose noisy cost is least. The cost of a
bucket is how far its cells are from their mean (L1), and the noise that its count will have. Second, with the rest, a
binary tree over the buckets is counted; each level gets the part of epsilon that suits random ranges best. Least
squares make the tree consistent, and a bucket's people are spread evenly over its cells.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...arrays import Floats, Integers, as_integer, as_number
from ...geometry.box import Box
from ...hierarchy import Quadtree
from ...protocol.promise import Guarantee
from .boxes import GridCounts
from .ldp_trees import make_consistent
from .quadtrees import CountedTree
from .releases import check_people

FIRST_SHARE = 0.25  # of epsilon that the buckets cost
SAMPLE = 64  # random ranges that the levels are suited to
LEAST = 1e-6  # use of a level that no range of the sample takes
MOST_DEPTH = 8  # 65,536 cells
NOTE = "the loss of the buckets is what the authors state"


def dawa(
    points: npt.ArrayLike, box: Box, *, epsilon: float, rng: np.random.Generator, max_depth: int = 7
) -> GridCounts:
    """Counts of the finest cells by way of private buckets.

    Two dimensions, with 2**max_depth finest cells on each, at most 256; N is public.

    Returns
    -------
    GridCounts
        epsilon-differentially private with a trusted curator by the authors' analysis, if one participant is added or
        removed; 2 epsilon for any move.

    Notes
    -----
    The noise of a bucket's cost is the authors': scale (2 - 1 / length - 1 / cells) / epsilon, none for single cells,
    and no deviation below 0. We know no proof that this costs no more than a quarter of epsilon: if it errs, it errs in
    favour of this baseline. With noise on single cells too, of scale (4 - 2 / length) / epsilon, errors are 1.5 times
    as large.
    """
    epsilon = as_number(epsilon, "epsilon", positive=True)
    tree = Quadtree(box, as_integer(max_depth, "max_depth", low=1, high=MOST_DEPTH))
    positions = check_people(points, box)
    side = 1 << max_depth
    cells = np.arange(side**2, 2 * side**2, dtype=np.uint64)  # along the curve
    size = (np.asarray(box.upper) - np.asarray(box.lower)) / side
    where = np.rint((tree.boxes(cells)[:, 0] - box.lower) / size).astype(np.int64).T
    exact = CountedTree(tree, positions).count(cells)

    rest = (1 - FIRST_SHARE) * epsilon
    costs = bucket_costs(exact.astype(np.float64), FIRST_SHARE * epsilon, 1 / rest, rng)
    starts = cheapest_partition(costs)
    lengths = np.diff(starts, append=side**2)
    buckets = np.add.reduceat(exact, starts)
    values = _counted(buckets, _suited(starts, lengths, where, side, rng), rest, len(positions), rng)
    counts = np.empty((side, side))
    counts[tuple(where)] = np.repeat(values / lengths, lengths)
    edges = [np.linspace(low, high, side + 1) for low, high in zip(box.lower, box.upper, strict=True)]
    guarantee = Guarantee.plain("curator", 2 * epsilon, presence=epsilon, notes=(NOTE,))
    return GridCounts((edges[0], edges[1]), counts, guarantee)


# -- first: buckets ----------------------------------------------------------------------------------------------------


def bucket_costs(values: Floats, epsilon: float, price: float, rng: np.random.Generator) -> list[Floats]:
    """Noisy costs of all buckets of 1, 2, 4 … cells, by their first cell: a float64[n - length + 1] per length."""
    n, costs = len(values), [np.full(len(values), price)]
    for length, exact in deviations(values):
        noise = rng.laplace(0.0, (2 - 1 / length - 1 / n) / epsilon, len(exact))
        costs.append(np.maximum(exact + noise, 0.0) + price)
    return costs


def deviations(values: Floats) -> list[tuple[int, Floats]]:
    """Sum of the distances of every 2, 4, 8 … neighbours from their mean: lengths, and float64[n - length + 1] by the
    first.

    Twice what is missing in those below the mean. A wavelet matrix finds number and sum of the values below a threshold
    in any stretch: values are sorted by one bit of their rank after the other, so that every stretch stays one. All
    buckets go down together, in O(n log² n).

    Examples
    --------
    >>> [(length, sums.tolist()) for length, sums in deviations(np.array([1.0, 3.0, 3.0, 3.0]))]
    [(2, [2.0, 0.0, 0.0]), (4, [3.0])]
    """
    n = len(values)
    lengths = [1 << power for power in range(1, n.bit_length()) if 1 << power <= n]
    begin = np.concatenate([np.arange(n - length + 1) for length in lengths])
    long = np.repeat(lengths, [n - length + 1 for length in lengths])
    first, last = begin, begin + long
    before = np.concatenate(([0.0], np.cumsum(values)))
    mean = (before[last] - before[first]) / long

    ordered = np.sort(values)
    threshold = np.searchsorted(ordered, mean)  # the values below the mean have a lower rank; never all of them
    ranks = np.empty(n, dtype=np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(n)
    below, missing = np.zeros(len(begin), dtype=np.int64), np.zeros(len(begin))
    for bit in reversed(range(n.bit_length())):
        zero = (ranks >> bit & 1) == 0
        zeros = np.concatenate(([0], np.cumsum(zero)))
        sums = np.concatenate(([0.0], np.cumsum(np.where(zero, ordered[ranks], 0.0))))
        high = (threshold >> bit & 1) == 1  # all that have a 0 here are below
        below += np.where(high, zeros[last] - zeros[first], 0)
        missing += np.where(high, sums[last] - sums[first], 0.0)
        first, last = (np.where(high, zeros[-1] + end - zeros[end], zeros[end]) for end in (first, last))
        ranks = np.concatenate((ranks[zero], ranks[~zero]))
    all_sums = np.maximum(2 * (mean * below - missing), 0.0)
    parts = np.split(all_sums, np.cumsum([n - length + 1 for length in lengths])[:-1])
    return list(zip(lengths, parts, strict=True))


def cheapest_partition(costs: list[Floats]) -> Integers:
    """First cells of the buckets that cover everything and cost least: int64[b].

    ``costs`` holds the cost of every bucket of 2**i cells, by its first cell: float64[n - 2**i + 1] for every i.
    """
    n = len(costs[0])
    tables = [(1 << power, of.tolist()) for power, of in enumerate(costs)]
    best, chosen = [0.0] * (n + 1), [0] * (n + 1)
    for end in range(1, n + 1):
        best[end], chosen[end] = min(
            (best[end - length] + of[end - length], end - length) for length, of in tables if length <= end
        )
    starts, end = [], n
    while end:
        end = chosen[end]
        starts.append(end)
    return np.array(starts[::-1])


# -- second: their counts ----------------------------------------------------------------------------------------------


def _suited(starts: Integers, lengths: Integers, where: Integers, side: int, rng: np.random.Generator) -> Floats:
    """How often random ranges use a node of each level below the root of the tree, squared shares: float64[levels].

    A range with sides uniform in 1 … ``side`` cells, placed uniformly, takes the largest nodes inside it and shares
    of the buckets that it cuts.
    """
    sides = rng.integers(1, side + 1, (SAMPLE, 2))
    low = rng.integers(0, side - sides + 1)
    inside = np.ones((SAMPLE, side * side))
    for axis in range(2):
        place = where[axis]
        inside *= (place >= low[:, axis, None]) & (place < (low + sides)[:, axis, None])
    share = _padded(np.add.reduceat(inside, starts, axis=1) / lengths)
    used: list[float] = []
    while share.shape[1] > 1:
        whole = (share[:, ::2] == 1) & (share[:, 1::2] == 1)
        used.append(float((share**2 * ~np.repeat(whole, 2, axis=1)).sum()))
        share = whole.astype(np.float64)
    return np.maximum(used[::-1], LEAST)


def _counted(buckets: Integers, used: Floats, epsilon: float, people: int, rng: np.random.Generator) -> Floats:
    """Consistent counts of the buckets.

    The error of the questions is the sum over levels of used / budget², which is least with budgets in proportion to
    the cube roots of ``used``. The root is known: N is public.
    """
    budgets = epsilon * np.cbrt(used) / np.cbrt(used).sum()
    exact, real = [_padded(buckets)], [_padded(np.ones(len(buckets)))]
    for nodes in (exact, real):
        while len(nodes[0]) > 1:
            nodes.insert(0, nodes[0][::2] + nodes[0][1::2])
    values, variances = [np.array([float(people)])], [np.zeros(1)]
    for budget, here, buckets_in in zip(budgets, exact[1:], real[1:], strict=True):
        known = buckets_in == 0  # beyond the last bucket
        values.append(np.where(known, 0.0, here + rng.laplace(0.0, 1 / budget, len(here))))
        variances.append(np.where(known, 0.0, 2 / budget**2))
    depths = np.repeat(np.arange(len(values)), [len(level) for level in values])
    parents = (np.arange(len(depths)) - 1) // 2
    agreed = make_consistent(parents, depths, np.concatenate(values), np.concatenate(variances))
    return agreed[-len(exact[-1]) :][: len(buckets)]


def _padded(nodes: npt.NDArray[np.generic]) -> Floats:
    """As many nodes as the next power of two, the new ones empty."""
    last = nodes.shape[-1]
    more = (1 << (last - 1).bit_length()) - last
    return np.pad(nodes.astype(np.float64), [(0, 0)] * (nodes.ndim - 1) + [(0, more)])
