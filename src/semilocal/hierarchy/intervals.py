"""Intervals of codes, each with a label, and a fast way to the label of any code.

A search in the list of intervals costs a dozen steps per code, each in another place of memory. Here the domain is cut
into equal blocks, with one entry per block: the label of the interval that holds it, or the number of a block that is
cut again. Intervals are as fine as people are dense, so most codes are found in one or two steps.

Knows codes and labels. Knows no participants, reports or randomness.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Integers, on_all_cores
from .base import ROOT, Cells, Heads, Hierarchy

__all__ = ["CodeLabels", "Labels"]

Labels = npt.NDArray[np.int32]

_CUT = -(1 << 30)  # an entry of _CUT + i is the i-th block that is cut again; labels are larger than all of those
_MOST_BITS = 22  # of a table's index: its entries stay in the cache
_FINER_BITS = 4  # of the index within a block that is cut again
_CHUNK = 1 << 15  # codes
_AT_ONCE = 1 << 18  # codes that one thread takes


class _Table(NamedTuple):
    """Entries of blocks that are 2**shift codes long."""

    shift: int
    bits: int  # of the index within a block of the table before
    entries: Labels


class CodeLabels:
    """From codes to labels.

    Parameters
    ----------
    hierarchy : Hierarchy
    first : uint64[m]
        First code of each interval, ascending; the intervals cover the domain.
    labels : int32[m]
        Above -2**29.
    codes : int
        How many will be asked for, about: how large a table is worth its making.
    heads : bool
        Heads (:meth:`Hierarchy.heads`) will be asked for in place of codes; no interval may begin within one.

    Examples
    --------
    >>> from semilocal import BinaryTree, Box
    >>> tree = BinaryTree(Box((0,), (1,)), max_depth=3)
    >>> labels = CodeLabels(tree, np.array([8, 12, 13], np.uint64), np.array([5, 6, 7], np.int32))
    >>> labels.of(tree.codes([0.2, 0.9, 0.5]))
    array([5, 7, 6], dtype=int32)
    """

    def __init__(
        self, hierarchy: Hierarchy, first: Cells, labels: Labels, *, codes: int = 1 << 16, heads: bool = False
    ) -> None:
        low, high = hierarchy.span([ROOT])
        tail = hierarchy.tail_bits if heads else 0
        self._low, shift = None if heads else low[0], int(high[0] - low[0]).bit_length() - tail
        self._tables: list[_Table] = []
        offsets = (first - low[0]) >> np.uint64(tail)
        blocks, covers = np.zeros(1, dtype=np.uint64), labels[:1]
        inside, block = np.arange(1, len(first)), np.zeros(len(first) - 1, dtype=np.int64)
        bits = min(_MOST_BITS, max(int(codes).bit_length() - 1, 1))
        while True:
            bits = min(bits, shift)
            shift -= bits
            within = offsets[inside] - blocks[block]
            entries = _entries(within, block, labels[inside], covers, shift, bits)
            cut = _rest(within, shift) != 0
            place = (block << bits) + (within >> np.uint64(shift)).astype(np.int64)
            inside, place = inside[cut], place[cut]
            starts = np.flatnonzero(np.diff(place, prepend=-1))
            divided = place[starts]
            block = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(place)))
            covers = entries[divided]
            entries[divided] = _CUT + np.arange(len(divided), dtype=np.int32)
            self._tables.append(_Table(shift, bits, entries))
            if not len(divided):
                return
            blocks = blocks[divided >> bits] + ((divided & ((1 << bits) - 1)).astype(np.uint64) << np.uint64(shift))
            bits = _FINER_BITS

    def of(self, codes: Cells | Heads) -> Labels:
        """The label of each code or head: int32[n]."""
        out = np.empty(len(codes), dtype=np.int32)

        def work(begin: int) -> None:
            for start in range(begin, min(begin + _AT_ONCE, len(codes)), _CHUNK):
                self._look_up(codes[start : start + _CHUNK], out[start : start + _CHUNK])

        on_all_cores(work, range(0, len(codes), _AT_ONCE))
        return out

    def _look_up(self, codes: Cells | Heads, out: Labels) -> None:
        offsets = (codes if self._low is None else codes - self._low).astype(np.int64)
        whole = self._tables[0]
        whole.entries.take(offsets >> whole.shift, out=out, mode="clip")
        pending = np.flatnonzero(out < _CUT // 2)
        for table in self._tables[1:]:
            if not len(pending):
                return
            place = offsets[pending] >> table.shift
            place &= (1 << table.bits) - 1
            place += (out[pending].astype(np.int64) - _CUT) << table.bits
            found = table.entries.take(place)
            out[pending] = found
            pending = pending[found < _CUT // 2]


def _entries(within: Cells, block: Integers, labels: Labels, covers: Labels, shift: int, bits: int) -> Labels:
    """The label at the beginning of each part, when every block is cut into 2**bits parts.

    ``within`` says how far behind the beginning of their ``block`` intervals begin; ``covers`` are the labels there.
    """
    up = (within >> np.uint64(shift)).astype(np.int64) + (_rest(within, shift) != 0)
    starts = np.concatenate([(block << bits) + up, np.arange(len(covers)) << bits])
    order = np.argsort(starts, kind="stable")  # where two begin, the one of the next block is the last
    lengths = np.diff(starts[order], append=len(covers) << bits)
    return np.repeat(np.concatenate([labels, covers])[order], lengths)


def _rest(within: Cells, shift: int) -> Cells:
    return within & np.uint64((1 << shift) - 1)
