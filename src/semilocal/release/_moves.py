"""Whom TRIM verdicts moved, and where to: what separates who acts from a box from who is in it.

A trimmed part was left by everybody who acted from it when it was trimmed. How many they were is known from that
round's estimate, with its known noise. Where they went is known but for their division: each place they can have
arrived at, a tile or a part that was trimmed later, takes a share by its density and by how much of the part lies
nearest to it. People may clump, as they do in this run's regions; and a part was trimmed because its estimate was
small, so that the number may lie further above its estimate than noise alone would let it.

Knows a partition and boxes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from ..arrays import Flags, Floats, Integers
from ..hierarchy.base import Cells
from ..protocol.partition import Partition
from ..protocol.rule import trim_limit
from ._tiles import Tiles

__all__ = ["Moved", "Moves", "Parts", "Residents"]


_PROBES = 256  # positions on an even grid in a trimmed part, besides those next to tiles
_NEAREST = 0.5  # weight of those, so that no tile is overlooked
_PROBES_AT_ONCE = 1 << 20
_PAIRS_AT_ONCE = 1 << 20
_MOST_TAKEN = 0.5  # answers take at most this part of a tile for trimmed parts
_MOST_UNSEEN = 1.5  # standard deviations
_STEPS = 50
_ROUNDING = 1e-9


class Parts(NamedTuple):
    """Trimmed parts, in the order of rounds."""

    cells: Cells  # the cells that were trimmed
    boxes: Floats
    estimates: Floats  # of who acted from the part when it was trimmed
    noise: Floats  # their variance
    unseen: Floats  # how far the most likely number lies above the estimate, given that the estimate had to be small

    @staticmethod
    def of(partition: Partition) -> Parts:
        """All parts of a partition."""
        task, trims = partition.task, partition.trims
        rows, children = np.nonzero(~trims.kept)
        cells, responders = trims.cells[rows], trims.responders[rows]
        boxes = task.hierarchy.boxes(task.hierarchy.child(cells, children))
        estimates = trims.estimates[rows, children]
        noise = responders.astype(np.float64) * task.randomizer.variance(task.tau)
        room = np.maximum(trim_limit(task, responders) - estimates, 0.0) / np.sqrt(noise)
        return Parts(cells, boxes, estimates, noise, np.sqrt(noise) * _unseen(room))


class Moved(NamedTuple):
    """How many more people were moved into each of q boxes than out of it."""

    value: Floats
    stderr: Floats
    unseen_in: Floats  # how many more may have been moved in, because small estimates were chosen
    unseen_out: Floats
    only_in: Flags  # nobody can have been moved out
    only_out: Flags


class Residents(NamedTuple):
    """People by where they are, not by where they act from."""

    parts: Floats
    tiles: Floats


@dataclass(frozen=True, eq=False)
class Moves:
    """Parts, and where their people went at once: to tiles, or to parts that were trimmed later.

    Attributes
    ----------
    parts : Parts
    tiles : Tiles
    places : tuple of int64[m]
        For each part the places; tiles first, then parts.
    shares : tuple of float64[m]
        For each part the shares of its people; they add up to 1.
    cells : float64[p, 2, d]
        The boxes of the cells that were trimmed; moves stay inside them.
    """

    parts: Parts
    tiles: Tiles
    places: tuple[Integers, ...]
    shares: tuple[Floats, ...]
    cells: Floats

    @staticmethod
    def of(partition: Partition, tiles: Tiles) -> Moves:
        """Send positions of each part where participants were sent."""
        parts = Parts.of(partition)
        count, total = len(parts.cells), len(tiles.cells) + len(parts.cells)
        origin, place, weight = _arrivals(partition, parts, tiles)
        pairs, where = np.unique(origin * total + place, return_inverse=True)
        source, target = np.divmod(pairs, total)
        boxes = np.concatenate([tiles.boxes, parts.boxes])
        density = np.concatenate([tiles.people, parts.estimates]).clip(1.0) / np.prod(boxes[:, 1] - boxes[:, 0], axis=1)
        share = np.bincount(where, weight, minlength=len(pairs)) * density[target]
        share /= np.bincount(source, share, minlength=count)[source]
        ends = np.searchsorted(source, np.arange(1, count))
        return Moves(
            parts, tiles, tuple(np.split(target, ends))[:count], tuple(np.split(share, ends))[:count],
            partition.task.hierarchy.boxes(parts.cells),
        )  # fmt: skip

    def residents(self) -> Residents:
        """Cautious numbers: each part gets back its estimate less one standard error.

        Trimmed parts mostly are empty, and so an answer should not put people there without evidence.
        """
        parts, tiles = self.parts, len(self.tiles.cells)
        acting = np.maximum(parts.estimates - np.sqrt(parts.noise), 0.0)
        came = np.zeros(tiles + len(acting))
        for part, number in enumerate(acting):
            np.add.at(came, self.places[part], self.shares[part] * number)
        lived = np.maximum(acting - came[tiles:], 0.0)
        wanted = np.concatenate([np.zeros(tiles), lived])  # now only of those who lived there, moved on to the end
        for part in range(len(acting)):
            np.add.at(wanted, self.places[part], self.shares[part] * wanted[tiles + part])
        granted = np.minimum(wanted[:tiles], _MOST_TAKEN * self.tiles.people)
        rate = np.zeros(tiles + len(acting))
        np.divide(granted, wanted[:tiles], out=rate[:tiles], where=wanted[:tiles] > 0)
        for part in reversed(range(len(acting))):
            rate[tiles + part] = self.shares[part] @ rate[self.places[part]]
        return Residents(lived * rate[tiles:], self.tiles.people - granted)

    def across(self, queries: Floats) -> Moved:
        """Net moves into boxes: queries float64[q, 2, d]."""
        value, variance, unseen_in, unseen_out = np.zeros((4, len(queries)))
        only_in, only_out = np.ones((2, len(queries)), dtype=bool)
        boxes = np.concatenate([self.tiles.boxes, self.parts.boxes])
        edges = np.ascontiguousarray(queries.transpose(1, 2, 0))
        for part, cell in enumerate(self.cells):
            cut = _cutting(edges, cell)
            arrives = _settled(_covered(queries[cut], boxes[self.places[part]], self.shares[part]))
            starts = _settled(_covered(queries[cut], self.parts.boxes[part : part + 1], np.ones(1)))
            net = _settled(arrives - starts)
            number, noise = self.parts.estimates[part], self.parts.noise[part]
            people, squared = max(number, 0.0), max(number**2 - noise, 0.0)
            value[cut] += net * number
            variance[cut] += net**2 * noise + starts * (1.0 - starts) * people
            variance[cut] += arrives * (1.0 - arrives) * (people + self.tiles.clumping * squared)
            unseen_in[cut] += np.maximum(net, 0.0) * self.parts.unseen[part]
            unseen_out[cut] += np.maximum(-net, 0.0) * self.parts.unseen[part]
            only_in[cut] &= net >= 0
            only_out[cut] &= net <= 0
        return Moved(value, np.sqrt(variance), unseen_in, unseen_out, only_in, only_out)


def _unseen(room: Floats) -> Floats:
    """How far the most likely mean of a normal law lies above a draw that had to lie below a limit.

    ``room`` is the limit less the draw. Everything is in standard deviations. The shift grows without bound towards
    the limit, where the draw says little, and is cut off.
    """
    from scipy.special import ndtr  # loaded at first use, as in tails.py

    shift = np.zeros(len(room))
    for _ in range(_STEPS):  # towards shift = hazard(room - shift), from below
        rest = room - shift
        shift = np.minimum(np.exp(-0.5 * rest**2) / np.sqrt(2 * np.pi) / ndtr(rest), _MOST_UNSEEN)
    return np.asarray(shift)


def _arrivals(partition: Partition, parts: Parts, tiles: Tiles) -> tuple[Integers, Integers, Floats]:
    """Positions in parts: the part, the place where its people went at once, and a weight.

    The positions are an even grid, and the nearest ones to every tile of the trimmed cell.
    """
    hierarchy = partition.task.hierarchy
    first, last = hierarchy.span(parts.cells)
    begins = hierarchy.span(tiles.cells)[0]
    start, stop = np.searchsorted(begins, first), np.searchsorted(begins, last, side="right")
    centres = tiles.boxes.mean(axis=1)
    dimensions = centres.shape[1]
    steps = max(2, round(_PROBES ** (1 / dimensions)))
    grid = np.array(list(product((np.arange(steps) + 0.5) / steps, repeat=dimensions)))
    nothing = np.empty(0, dtype=np.int64)
    found: list[tuple[Integers, Integers, Floats]] = [(nothing, nothing, np.empty(0))]
    batches = np.cumsum(stop - start + len(grid)) // _PROBES_AT_ONCE
    for batch in np.unique(batches):
        probes, origin, weight = [], [], []
        for part in np.flatnonzero(batches == batch):
            lower, upper = parts.boxes[part]
            nearest = np.clip(centres[start[part] : stop[part]], lower, np.nextafter(upper, lower))
            probes += [lower + grid * (upper - lower), nearest]
            origin.append(np.full(len(grid) + len(nearest), part))
            weight.append(np.repeat([1.0, _NEAREST], [len(grid), len(nearest)]))
        where = np.concatenate(origin)
        codes, moves = partition.trace(hierarchy.codes(np.concatenate(probes)))
        place = np.searchsorted(begins, codes, side="right") - 1
        for who, out_of in reversed(moves):  # so that the earliest move after the first one stays
            later = out_of != where[who]
            place[who[later]] = len(tiles.cells) + out_of[later]
        found.append((where, place, np.concatenate(weight)))
    origins, places, weights = zip(*found, strict=True)
    return np.concatenate(origins), np.concatenate(places), np.concatenate(weights)


def _cutting(edges: Floats, box: Floats) -> Integers:
    """Queries (2, d, q) that meet a box (2, d) and do not hold all of it."""
    meets, holds = np.ones((2, edges.shape[2]), dtype=bool)
    for lower, upper, first, last in zip(*edges, *box, strict=True):
        meets &= (lower < last) & (upper > first)
        holds &= (lower <= first) & (upper >= last)
    return np.flatnonzero(meets & ~holds)


def _covered(queries: Floats, boxes: Floats, shares: Floats) -> Floats:
    """Share of people that each query covers, if they divide so among boxes and lie evenly in each: float64[q]."""
    out = np.empty(len(queries))
    step = max(1, _PAIRS_AT_ONCE // len(boxes))
    for start in range(0, len(queries), step):
        some = queries[start : start + step]
        part = np.ones((len(some), len(boxes)))
        for axis in range(boxes.shape[2]):
            lower = np.maximum(some[:, None, 0, axis], boxes[:, 0, axis])
            upper = np.minimum(some[:, None, 1, axis], boxes[:, 1, axis])
            part *= np.maximum(upper - lower, 0.0) / (boxes[:, 1, axis] - boxes[:, 0, axis])
        out[start : start + step] = part @ shares
    return out


def _settled(share: Floats) -> Floats:
    """Shares next to a whole number are that number: the rest is rounding."""
    whole = np.round(share)
    return np.where(np.abs(share - whole) < _ROUNDING, whole, share)
