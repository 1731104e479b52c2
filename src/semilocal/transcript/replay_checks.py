"""Single checks of the replay: pure functions of what was published and what was counted.

Knows one round at a time. Keeps no state.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import msgspec
import numpy as np

from ..arrays import Flags, Floats, Integers
from ..errors import InvalidInput
from ..hierarchy.base import Cells
from ..protocol.messages import Closed
from ..protocol.rule import Frontier
from ..protocol.task import Task
from .checkpoints import Seal, check_signature, next_head

__all__ = ["check_seal", "compare_counts", "follow", "not_ascending", "published", "tag_of"]


def compare_counts(
    cells: Cells, closed: Closed, responders: Integers, tally: Integers
) -> Iterator[tuple[str, str, int]]:
    """Differences between a closing and the count of its reports: token, words, how many.

    Parameters
    ----------
    cells : uint64[m]
    closed : Closed
        Of these cells.
    responders, tally : int64[m], int64[m, fanout]
        Counted again.
    """
    claimed = np.array(closed.responders, dtype=np.int64)
    for token, less, word in (
        ("missing-report", claimed - responders, "missing"), ("extra-report", responders - claimed, "too many"),
    ):  # fmt: skip
        rows = np.flatnonzero(less > 0)
        if len(rows):
            row, count = int(rows[0]), int(less[rows].sum())
            yield token, (
                f"{count} reports {word}: cell {int(cells[row])} was closed with {int(claimed[row])} responders, the "
                f"transcript has {int(responders[row])}"
            ), count  # fmt: skip
    same = np.flatnonzero(claimed == responders).tolist()
    wrong = [row for row in same if tuple(tally[row].tolist()) != closed.tally[row]]
    if wrong:
        row = wrong[0]
        yield "wrong-tally", (
            f"{len(wrong)} tallies are not the sums of their reports: cell {int(cells[row])} was closed with "
            f"{closed.tally[row]}, the reports add up to {tuple(tally[row].tolist())}"
        ), len(wrong)  # fmt: skip


def check_seal(seal: Seal, task: Task, head: bytes, *, size: int, root: bytes) -> Iterator[tuple[str, str]]:
    """Faults of a seal over events with this size and root, after the chain's head: token and words."""
    point = seal.checkpoint
    if point.size != size:
        yield "wrong-size", f"the checkpoint is over {point.size} events; there are {size}"
    elif point.root != root:
        yield "wrong-root", "the checkpoint's root is not that of the events before it"
    if seal.head != next_head(head, point):
        yield "wrong-chain", "the checkpoint does not continue the one before"
    if task.server_key and not seal.signature:
        yield "not-signed", "the task pins a key, but the checkpoint is not signed"
    elif task.server_key and not check_signature(seal, task):
        yield "bad-signature", "the checkpoint is not signed with the key that the task pins"
    elif seal.signature and not task.server_key:
        yield "bad-signature", "the checkpoint is signed, but the task pins no key"


def tag_of(data: bytes) -> str:
    """What an event is: the tag of a message, "task", or "unknown"."""
    try:
        first = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidInput(f"an event is no MessagePack: {error}") from None
    if isinstance(first, list) and first and isinstance(first[0], str):
        return first[0]
    return "task" if isinstance(first, dict) else "unknown"


def not_ascending(names: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Neighbours of which the second does not come after the first; an empty name comes before all."""
    for before, name in pairwise(names):
        if not before < name:
            yield before, name


def published(closed: Closed, fanout: int) -> Flags:
    """The children that a closing lets go on: bool[m, fanout]."""
    kept = np.zeros((len(closed.cells), fanout), dtype=bool)
    for row, children in enumerate(closed.kept):
        kept[row, [child for child in children if child < fanout]] = True
    return kept


def follow(task: Task, frontier: Frontier, kept: Flags, estimates: Floats) -> Frontier:
    """The next frontier if these children go on."""
    rows, children = np.nonzero(kept)
    trimmed = np.asarray(kept.any(axis=1) & ~kept.all(axis=1) & (task.rule == "trim"))
    cells = task.hierarchy.child(frontier.cells[rows], children)
    return Frontier(cells, frontier.trims[rows] + trimmed[rows], estimates[rows, children])
