"""Single checks of the replay: pure functions of what was published and what was counted.

Knows one round at a time. Keeps no state.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from ..arrays import Flags, Integers
from ..protocol.messages import Closed, ValueClosed
from ..protocol.task import Task
from .checkpoints import Seal, next_head, signature_fault

__all__ = ["check_seal", "compare_counts", "compare_values", "not_ascending", "published"]


def compare_counts(
    closed: Closed, responders: Integers, tally: Integers, widths: Integers
) -> Iterator[tuple[str, str, int]]:
    """Differences between a closing and the count of its reports: token, words, how many.

    Parameters
    ----------
    closed : Closed
    responders, tally : int64[m], int64[m, fanout]
        Counted again, for the same cells.
    widths : int64[m]
        How many children each cell has.
    """
    cells = closed.cells
    claimed = np.array(closed.responders, dtype=np.int64)
    for token, less, word in (
        ("missing-report", claimed - responders, "missing"), ("extra-report", responders - claimed, "too many"),
    ):  # fmt: skip
        rows = np.flatnonzero(less > 0)
        if len(rows):
            row, count = int(rows[0]), int(less[rows].sum())
            yield token, (
                f"{count} reports {word}: cell {cells[row]} was closed with {int(claimed[row])} responders, the "
                f"transcript has {int(responders[row])}"
            ), count  # fmt: skip
    same = np.flatnonzero(claimed == responders).tolist()
    counted = [tuple(row[:width]) for row, width in zip(tally.tolist(), widths.tolist(), strict=True)]
    wrong = [row for row in same if counted[row] != closed.tally[row]]
    if wrong:
        row = wrong[0]
        yield "wrong-tally", (
            f"{len(wrong)} tallies are not the sums of their reports: cell {cells[row]} was closed with "
            f"{closed.tally[row]}, the reports add up to {counted[row]}"
        ), len(wrong)  # fmt: skip


def compare_values(closed: ValueClosed, counted: ValueClosed) -> Iterator[tuple[str, str, int]]:
    """Differences between a closing of values and the one that follows from its reports: token, words, how many."""
    if closed == counted:
        return
    more = sum(closed.responders) - sum(counted.responders)
    if more:
        token, word = ("missing-report", "missing") if more > 0 else ("extra-report", "too many")
        have = sum(counted.responders)
        yield token, f"{abs(more)} values {word}: {have + more} were closed, the transcript has {have}", abs(more)
    else:
        yield "wrong-values", "the closing does not follow from the values reported", 1


def check_seal(seal: Seal, task: Task, head: bytes, *, size: int, root: bytes) -> Iterator[tuple[str, str]]:
    """Faults of a seal over events with this size and root, after the chain's head: token and words."""
    point = seal.checkpoint
    if point.size != size:
        yield "wrong-size", f"the checkpoint is over {point.size} events; there are {size}"
    elif point.root != root:
        yield "wrong-root", "the checkpoint's root is not that of the events before it"
    if seal.head != next_head(head, point):
        yield "wrong-chain", "the checkpoint does not continue the one before"
    fault = signature_fault(seal, task)
    if fault is not None:
        yield fault


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
