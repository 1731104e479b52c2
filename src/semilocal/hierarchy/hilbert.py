"""The order of boxes: a Hilbert curve in any number of dimensions, some levels per look-up in a table.

Theory of operation. A *path* has d bits per level, the highest level first. On the *grid* the d bits of a level are
one bit of every tick, axis 0 first. Along the *curve* they are d halvings, one after the other, so every prefix of a
path, of any length, is a box. A state says how the curve runs through a box: the axis that is halved first, a, and for
every axis whether the curve runs downwards (its flip). Step j of the level halves axis a + j (mod d):

    w_j = w_(j-1) xor (bit of the axis's tick) xor (flip of the axis),    w_(-1) = 0

which is a Gray code: parts that follow each other are neighbours. Read w = w_0 w_1 ... w_(d-1) as a number. In part w
the curve goes on like this. u is w - 1 with the last bit cleared (0 for w = 0): the axis of step j is flipped once more
if bits j - 1 and j of u differ. t is the number of ones at the end of w, or of w - 1 if w is even (0 for w = 0): the
axis of step d - 1 - (t mod d) is now halved first. The whole domain has a = 0 and no flips.

A level with w = 0 takes a one step down and flips nothing. So paths of different lengths are followed together,
right-aligned with zeros in front, each from the state from which its zeros lead to a = 0.

The curve through a part is the curve through the whole, from another state: its *turn*, the number a * 2**d + flips.
Flips at the start mirror the whole grid.

Knows bits. Knows no positions and no trees.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..arrays import Integers, Words

__all__ = ["along_curve", "ends_on_grid", "next_halving", "turn_below"]

_LARGEST = 1 << 17  # entries of a table of several levels: it stays in the cache


class _Curve(NamedTuple):
    """Tables for d axes. A state is the number a * 2**d + flips, axis 0 highest."""

    levels: int  # per look-up
    to_curve: Words  # uint64[states * 2**bits], by state and bits on the grid: the state behind, and bits on the curve
    to_grid: Words  # the way back
    begun: Words  # uint64[states * 2**d, 2], by state and a leading one with the bits of a begun level: least, free
    halving: Integers  # int64[states * 2**d, 2], the same rows: the axis that is halved next; 1 if upper half first


def along_curve(paths: Words, dimensions: int, levels: int, out: Words, spare: Words, turn: int = 0) -> None:
    """Fill in ``out``, the paths along the curve of ``paths`` of so many levels on the grid, with ``spare`` uint64[2,
    n] to work in.
    """
    if dimensions == 1:
        out[:] = paths
    else:
        curve = _curve(dimensions)
        grid = paths ^ _mirror(turn, dimensions, levels) if turn else paths
        _follow(grid, curve.to_curve, dimensions, curve.levels, levels, levels, out, spare, turn >> dimensions)


def ends_on_grid(paths: Words, bits: Integers, dimensions: int, turn: int = 0) -> tuple[Words, Words]:
    """Paths on the grid of the lowest and the highest corner of the box of each path: uint64[m], uint64[m].

    They have as many levels as the path has or begins. ``bits`` are the lengths of the paths.
    """
    whole, rest = np.divmod(bits, dimensions)
    grid, row = _behind(paths, whole, rest, dimensions, turn)
    inside = rest > 0
    least, free = np.where(inside, _curve(dimensions).begun[row].T, np.uint64(0))
    grid <<= np.where(inside, dimensions, 0).astype(np.uint64)
    grid |= least
    if turn:
        levels = (whole + inside).astype(np.uint64)
        known = (np.uint64(1) << np.uint64(dimensions) * levels) - np.uint64(1)
        grid ^= _mirror(turn, dimensions, int(levels.max(initial=0))) & known & ~free
    return grid, grid | free


def next_halving(paths: Words, bits: Integers, dimensions: int, turn: int = 0) -> tuple[Integers, Integers]:
    """The axis on which the box of each path is halved, and 1 if its first half is the upper one: int64[m] each."""
    _, row = _behind(paths, *np.divmod(bits, dimensions), dimensions, turn)
    axis, upper = _curve(dimensions).halving[row].T
    return axis, upper ^ (turn >> (dimensions - 1 - axis) & 1)


def turn_below(path: int, levels: int, dimensions: int, turn: int = 0) -> int:
    """How the curve runs through the part at the end of a path of so many levels."""
    whole, rest = np.array([[levels], [0]])
    _, row = _behind(np.array([path], dtype=np.uint64), whole, rest, dimensions, turn)
    return int(row[0] >> dimensions) ^ turn & ((1 << dimensions) - 1)


def _behind(paths: Words, whole: Integers, rest: Integers, dimensions: int, turn: int) -> tuple[Words, Integers]:
    """The whole levels of paths on the grid, and the row of ``begun`` for what follows them."""
    curve, length = _curve(dimensions), rest.astype(np.uint64)
    above = paths >> length
    grid, spare = np.empty_like(above), np.empty((2, len(above)), dtype=np.uint64)
    most = int(whole.max(initial=0))
    _follow(above, curve.to_grid, dimensions, curve.levels, most, whole, grid, spare, turn >> dimensions)
    state = spare[1] >> np.uint64(dimensions * curve.levels)
    begun = (paths ^ (above << length)) | (np.uint64(1) << length)
    return grid, ((state << np.uint64(dimensions)) | begun).astype(np.int64)


def _follow(
    paths: Words,
    table: Words,
    dimensions: int,
    together: int,
    most: int,
    own: int | Integers,
    out: Words,
    spare: Words,
    first: int,
) -> None:
    """Look up the levels of paths, ``together`` at a time. The states behind them are left in ``spare[1]``, shifted.

    ``most`` is the largest number of levels, ``own`` that of each path. ``first`` is the axis that is halved first.
    """
    index, found = spare
    looks = -(-most // together)
    bits = np.uint64(dimensions * together)
    low = (np.uint64(1) << bits) - np.uint64(1)
    start = (first + looks * together - own) % dimensions
    found[:] = np.asarray(start, dtype=np.uint64) << (np.uint64(dimensions) + bits)
    out[:] = 0
    for look in reversed(range(looks)):
        np.right_shift(paths, np.uint64(look) * bits, out=index)
        index &= low
        index |= found
        table.take(index.view(np.int64), out=found, mode="clip")
        np.bitwise_and(found, low, out=index)
        out <<= bits
        out |= index
        found ^= index


def _mirror(turn: int, dimensions: int, levels: int) -> np.uint64:
    """The flips of a turn on every level of a path on the grid."""
    flips = turn & ((1 << dimensions) - 1)
    return np.uint64(sum(flips << dimensions * level for level in range(levels)))


@lru_cache(maxsize=8)
def _curve(dimensions: int) -> _Curve:
    d, parts = dimensions, 1 << dimensions
    state, w = np.arange(d * parts)[:, None], np.arange(parts)[None, :]
    first, flips = state >> d, state & (parts - 1)
    axes = [(first + step) % d for step in range(d)]  # of the steps
    gray = w ^ (w >> 1)
    grid = np.broadcast_to(flips, (len(state), parts)).copy()  # the bits on the grid of part w
    after = grid.copy()  # its flips
    u = np.maximum(w - 1, 0) & ~1
    turned = u ^ (u >> 1)
    for step, axis in enumerate(axes):
        grid ^= ((gray >> (d - 1 - step)) & 1) << (d - 1 - axis)
        after ^= ((turned >> (d - 1 - step)) & 1) << (d - 1 - axis)
    odd = np.where(w > 0, w - 1 + w % 2, 0)
    ones = sum((odd + 1) % (1 << count) == 0 for count in range(1, d + 1)) * (w > 0)
    after |= (first + d - 1 - ones % d) % d << d
    levels = 1
    while len(state) << (d * (levels + 1)) <= _LARGEST:
        levels += 1
    to_grid = _several(after, grid, d, levels)
    ahead = np.argsort(grid, axis=1)
    to_curve = _several(np.take_along_axis(after, ahead, axis=1), ahead, d, levels)

    begun, halving = np.zeros((2, len(state) * parts, 2), dtype=np.int64)
    for length in range(d):
        for part in range(1 << length):
            row = np.arange(len(state)) * parts + (1 << length) + part
            inside = grid[:, part << (d - length) : (part + 1) << (d - length)]
            begun[row, 0] = np.bitwise_and.reduce(inside, axis=1)
            begun[row, 1] = np.bitwise_or.reduce(inside, axis=1) ^ begun[row, 0]
            axis = axes[length][:, 0]
            halving[row, 0] = axis
            halving[row, 1] = (inside[:, 0] >> (d - 1 - axis)) & 1
    return _Curve(levels, to_curve, to_grid, begun.astype(np.uint64), halving)


def _several(after: Integers, bits: Integers, dimensions: int, levels: int) -> Words:
    """One table of several levels, from that of one, by state and bits: the state behind, and the bits found."""
    states, found = after, bits
    for _ in range(levels - 1):
        found = ((found << dimensions)[:, :, None] | bits[states]).reshape(len(after), -1)
        states = after[states].reshape(len(after), -1)
    table = ((states << (dimensions * levels)) | found).ravel().astype(np.uint64)
    table.flags.writeable = False
    return table
