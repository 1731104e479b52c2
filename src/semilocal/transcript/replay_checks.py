"""Single checks of the replay: pure functions of what was published and what was counted.

Knows one round at a time. Keeps no state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from ..protocol.messages import Closed, Slice, ValueClosed
from ..protocol.task import Task
from .checkpoints import Seal, next_head, signature_fault
from .witness import Finding

__all__ = ["check_seal", "compare_heads", "compare_values", "not_ascending"]


def compare_heads(closed: Closed, slices: Mapping[tuple[int, int], Slice]) -> Iterator[Finding]:
    """Differences between the heads of a closing and the reports of the round."""
    claimed = {(head.lower, head.upper): head for head in closed.heads}
    less, more, other = 0, 0, 0
    for region in sorted(claimed.keys() | slices.keys()):
        head, part = claimed.get(region), slices.get(region)
        said, have = 0 if head is None else head.reports, 0 if part is None else len(part.entries)
        less, more = less + max(0, said - have), more + max(0, have - said)
        other += said == have and head is not None and part is not None and head.digest != part.digest()
    if less:
        yield Finding(
            "missing-report", f"{less} reports missing: the closing counts them, the transcript does not", less
        )
    if more:
        yield Finding("extra-report", f"{more} reports too many: the closing does not count them", more)
    if other:
        yield Finding("wrong-slice", f"{other} slices do not have the hash that the closing says", other)


def compare_values(closed: ValueClosed, counted: ValueClosed) -> Iterator[Finding]:
    """Differences between a closing of values and the one that follows from its reports."""
    if closed == counted:
        return
    more = sum(closed.responders) - sum(counted.responders)
    if more:
        token, word = ("missing-report", "missing") if more > 0 else ("extra-report", "too many")
        have = sum(counted.responders)
        what = f"{abs(more)} values {word}: {have + more} were closed, the transcript has {have}"
        yield Finding(token, what, abs(more))
    else:
        yield Finding("wrong-values", "the closing does not follow from the values reported")


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
