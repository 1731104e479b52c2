"""One server's half of the work: evaluate the reports level by level, and say what must agree with the other server.

    half = Half(task, shape, server, nonces, public, private)     the value trees are evaluated at once
    level = half.verify_init()                                    sums over reports per child, and a tag per report
    half.verify_next(rejected)                                    reports that failed the check no longer count
    half.open(rows)                                               the next parameter: go on with some of the children

The names are those of a verifiable distributed aggregation function; :class:`Parameter` is its aggregation parameter,
:func:`~semilocal.sharing.report.shard` its first step, :mod:`semilocal.sharing.party` aggregates.

For each report and level three things must be the same on both servers: the xor L of the proofs of all left children of
opened cells, the same R for the right children, and d, the payload of the opened cells minus that of their children.
Together they are the report's *tag*. On an honest report both servers compute the same tag, so sending it tells
nothing. Equal tags make a report worth one person in one place (PROOF.md): a child whose control bits are equal needs
equal states and is worth nothing, only one child can have different ones, and d says that it carries all. The state is
hashed *with* its control bit and each side has its own key: without either, attacks exist, and the tests show them.
Tags are compared in chunks: one digest for ``CHUNK`` reports; single tags only where a digest differs.

Reports are evaluated in chunks, so that one chunk's states stay in the processor's cache. Only states of opened cells
are kept: 16 bytes per report and opened cell. Where that is too much, a level is opened without keeping its states:
they are computed again from the last level that was kept, a chunk at a time, whenever they are needed.

Knows reports and arrays. Knows no peer, noise, clock, file or random generator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Words
from ..errors import InvalidInput
from .point import (
    NONCE,
    PROOF_WORDS,
    Blocks,
    Corrections,
    FixedKeys,
    Room,
    Side,
    correction_bytes,
    descend,
    payloads,
    root_states,
    sides,
)
from .report import SEED, Shape

Tags = npt.NDArray[np.uint8]
Chosen = slice | npt.NDArray[np.intp]
CHUNK = 4096  # reports that have one digest
_PAIRS = 1 << 17  # (cell, report) pairs evaluated at a time: long rows, and 8 MB of blocks that stay in the cache
_LEAST = 16  # reports evaluated at a time


class Parameter(NamedTuple):
    """What is looked at: the children of these cells."""

    level: int  # depth of the cells, 0 for the root
    frontier: Words  # uint64[m], their paths, ascending: the steps as bits, after a leading one

    @property
    def children(self) -> Words:
        """Paths of the children, in the order of :attr:`LevelShare.sums`: uint64[2 m]."""
        return np.repeat(np.uint64(2) * self.frontier, 2) + np.tile(np.arange(2, dtype=np.uint64), len(self.frontier))


ROOT = Parameter(0, np.ones(1, dtype=np.uint64))


def is_valid(parameter: Parameter, previous: Parameter | None) -> bool:
    """Whether a level may follow: the root at first, then children of what was looked at, one level down, each once."""
    level, frontier = parameter
    if previous is None:
        return level == 0 and np.array_equal(frontier, ROOT.frontier)
    known = np.isin(frontier, previous.children).all()
    return bool(level == previous.level + 1 and known and (frontier[1:] > frontier[:-1]).all())


class LevelShare(NamedTuple):
    """What one server has after expanding a level."""

    sums: Words  # uint64[2 m, w], payload words over the reports that count; server 0 minus server 1 is the true sum
    tags: Tags  # uint8[n, 64 + 8 w], one row per report; at level 0 after SHA-256 of the value tree's, if there is one


class Half:
    """One server's state of a task, with the reports in the same order on both servers."""

    def __init__(
        self, task: bytes, shape: Shape, server: int, nonces: Sequence[bytes], public: Sequence[bytes],
        private: Sequence[bytes],
    ) -> None:  # fmt: skip
        shape.check()
        if server not in (0, 1):
            raise InvalidInput(f"server must be 0 or 1; got {server!r}")
        n, sizes = len(nonces), {"id": NONCE, "public part": shape.public_bytes, "private part": shape.private_bytes}
        for (what, size), parts in zip(sizes.items(), (nonces, public, private), strict=True):
            wrong = set(map(len, parts)) - {size}
            if wrong:
                raise InvalidInput(f"the {what} of a report has {size} bytes; got {min(wrong)}")
            if len(parts) != n:
                raise InvalidInput(f"every report has one {what}; got {len(parts)} for {n} reports")
        cut = correction_bytes(shape.levels, shape.width)
        self.shape, self.server = shape, server
        self.parameter = ROOT  # the opened cells of the present level
        self._keys = FixedKeys(task, b"place")
        self._public = Corrections.from_bytes([part[:cut] for part in public], levels=shape.levels, width=shape.width)
        roots = root_states(task, b"place", nonces, [part[:SEED] for part in private], server)
        self.accepted = np.ones(n, dtype=bool)  # which reports still count
        self._root = np.full((n, shape.width), np.uint64(1 - server))  # (1, value) by definition
        self.tags: Tags = np.empty((n, 0), dtype=np.uint8)  # of the value trees
        if shape.value_bits:
            corrections = Corrections.from_bytes([part[cut:] for part in public], levels=shape.value_bits, width=1)
            small = root_states(task, b"value", nonces, [part[SEED:] for part in private], server)
            self._root[:, 1], self.tags = _values(task, corrections, small, server)
        # States of the opened cells, part by part: in one array the rows of a part would lie far from each other.
        self._kept: list[tuple[slice, Blocks]] = [(slice(0, n), roots[None])]
        self._below: list[npt.NDArray[np.int64]] = []  # rows that were opened since, level by level

    def __len__(self) -> int:
        return len(self.accepted)

    @property
    def level(self) -> int:
        """Depth of the opened cells."""
        return self.parameter.level

    @property
    def cells(self) -> int:
        """How many cells are opened."""
        return len(self.parameter.frontier)

    def verify_init(self) -> LevelShare:
        """Look one level below the opened cells. Calling it twice gives the same."""
        if self.level >= self.shape.levels:
            raise InvalidInput(f"the reports have {self.shape.levels} levels; there is nothing below the last one")
        sums = np.zeros((2 * self.cells, self.shape.width), dtype=np.uint64)
        tags = np.empty((len(self), (2 * PROOF_WORDS + self.shape.width) * 8), dtype=np.uint8)
        for part, states, room in self._parts(self.cells):
            states = self._brought(part, states, room)
            difference = self._opened(part, states, room)
            counted = self.accepted[part]
            proofs = []
            for side, found in enumerate(sides(self._keys, states, self._correction(self.level, part), room)):
                difference = difference - found.words.sum(axis=0, dtype=np.uint64)
                sums[side::2] += _summed(found.words if counted.all() else found.words[:, counted])
                proofs.append(found.proof)
            tags[part] = _bytes(*proofs, difference)
        if self.level == 0 and self.shape.value_bits:
            joined = b"".join(hashlib.sha256(row.tobytes()).digest() for row in self.tags)
            tags = np.concatenate([np.frombuffer(joined, dtype=np.uint8).reshape(len(self), 32), tags], axis=1)
        return LevelShare(sums, tags)

    def sums_of(self, reports: npt.NDArray[np.bool_]) -> Words:
        """Sums over some reports only, for taking rejected ones out again: uint64[2 m, w]."""
        sums = np.zeros((2 * self.cells, self.shape.width), dtype=np.uint64)
        for part, kept, room in self._parts(self.cells):
            chosen = np.flatnonzero(reports[part])
            if len(chosen):
                states = self._brought(part.start + chosen, np.ascontiguousarray(kept[:, chosen]), room)
                correction = self._correction(self.level, part.start + chosen)
                for side, found in enumerate(sides(self._keys, states, correction, room)):
                    sums[side::2] += _summed(found.words)
        return sums

    def verify_next(self, rejected: npt.NDArray[np.bool_]) -> None:
        """Reports that failed a check count no longer."""
        self.accepted = self.accepted & ~rejected

    def open(self, rows: npt.NDArray[np.int64], *, keep: bool = True) -> None:
        """Go one level down, to some of the children: ascending rows of :attr:`LevelShare.sums`.

        Their states take ``16 * r * n`` bytes, unless they are not kept; then they are computed when they are needed.
        """
        following = Parameter(self.level + 1, self.parameter.children[rows])
        if not is_valid(following, self.parameter):
            raise InvalidInput("the cells to open must be ascending rows of the children, each once")
        if keep:
            opened = []
            for part, states, room in self._parts(max(self.cells, len(rows))):
                states = self._brought(part, states, room)
                opened.append((part, descend(self._keys, states, self._correction(self.level, part), rows, room)))
            self._kept, self._below = opened, []
        else:
            self._below.append(rows)
        self.parameter = following

    @property
    def kept_bytes(self) -> int:
        """Memory of the states that are kept."""
        return sum(states.nbytes for _, states in self._kept)

    def _parts(self, cells: int) -> Iterator[tuple[slice, Blocks, Room]]:
        """Reports, their kept states and room to work in, small enough for a given number of cells."""
        most = max(self.cells, cells, *(len(rows) for rows in self._below), 1)
        step = max(1 << (_PAIRS // most).bit_length() >> 1, _LEAST)  # powers of two: parts are cut without a rest
        room = Room(step * most)
        for whole, states in self._kept:
            for start in range(whole.start, whole.stop, step):
                part = slice(start, min(start + step, whole.stop))
                yield part, np.ascontiguousarray(states[:, part.start - whole.start : part.stop - whole.start]), room

    def _brought(self, reports: Chosen, states: Blocks, room: Room) -> Blocks:
        """States of the opened cells from those that are kept: uint64[m, c, 2]."""
        for depth, rows in enumerate(self._below, start=self.level - len(self._below)):
            states = descend(self._keys, states, self._correction(depth, reports), rows, room)
        return states

    def _opened(self, part: slice, states: Blocks, room: Room) -> Words:
        """Payload of all opened cells, per report: uint64[c, w]."""
        if self.level == 0:
            return self._root[part]
        words = payloads(self._keys, states, self._public.payload[self.level - 1, part], room)
        return np.asarray(words.sum(axis=0, dtype=np.uint64))

    def _correction(self, level: int, reports: Chosen) -> Corrections:
        return self._public.at((level, reports))


def chunks(reports: int) -> list[slice]:
    """The slices of reports that have one digest each."""
    return [slice(start, min(start + CHUNK, reports)) for start in range(0, reports, CHUNK)]


def digests(tags: Tags) -> list[bytes]:
    """SHA-256 of the tags of each chunk."""
    return [hashlib.sha256(np.ascontiguousarray(tags[part]).tobytes()).digest() for part in chunks(len(tags))]


def differing(own: Tags, other: Tags) -> npt.NDArray[np.bool_]:
    """Which reports have different tags: bool[n]."""
    if own.shape != other.shape:
        raise InvalidInput(f"tags must have the shape {own.shape}; got {other.shape}")
    return np.asarray((own != other).any(axis=1))


def _values(task: bytes, corrections: Corrections, roots: Blocks, server: int) -> tuple[Words, Tags]:
    """Each report's share of its value uint64[n], and the tags of its value tree uint8[n, b]."""
    keys = FixedKeys(task, b"value")
    n, bits = len(roots), len(corrections.seed)
    leaves = np.arange(1 << bits, dtype=np.uint64)
    shares = np.empty(n, dtype=np.uint64)
    tags = np.empty((n, bits * (2 * PROOF_WORDS + 1) * 8), dtype=np.uint8)
    step = max(_PAIRS >> bits, _LEAST)
    room = Room(step << bits)
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        states, rows = roots[None, part], []
        above = np.full((states.shape[1], 1), np.uint64(1 - server))
        for level in range(bits):
            left, right = (
                Side(side.states.copy(), side.words.copy(), side.proof)
                for side in sides(keys, states, corrections.at((level, part)), room)
            )
            states = np.stack([left.states, right.states], axis=1).reshape(-1, len(above), 2)
            words = np.stack([left.words, right.words], axis=1).reshape(-1, len(above), 1)
            below = words.sum(axis=0, dtype=np.uint64)
            rows += [left.proof, right.proof, above - below]
            above = below
        shares[part] = (words[:, :, 0] * leaves[:, None]).sum(axis=0, dtype=np.uint64)
        tags[part] = _bytes(*rows)
    return shares, tags


def _summed(words: Words) -> Words:
    """Words of every cell summed over reports: uint64[m, w]. A loop over the words of a report would be slow."""
    return np.stack([words[..., word].sum(axis=1, dtype=np.uint64) for word in range(words.shape[2])], axis=1)


def _bytes(*words: Words) -> Tags:
    """Words of every report side by side: uint8[n, b]."""
    return np.concatenate(words, axis=1).view(np.uint8)
