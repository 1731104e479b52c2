"""What everybody knows about one region: its members, what they answered about cuts inside it, and the open question.

The same record is kept by the server for every region, by the verifier, and by a device for the regions on its path.
It is built from the public log alone. Two numbers of it matter for the promise (PROOF.md):

- **askable**, F: members of the roster with fewer than A answers about cuts strictly inside the region, who did not
  stay silent when they were last asked;
- **failed**, w: questions whose cut lies strictly inside the region and that did not split it, each as often as it was
  put, counted from its draw on.

Knows pseudonyms and codes. Knows no positions and no rule.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from ..randomizer.base import Answer
from .estimate import Walls
from .messages import Question, Slice

__all__ = ["RegionLog", "draw", "walls_of"]


class RegionLog:
    """The public record of the region of codes ``lower`` to before ``upper``."""

    __slots__ = ("answers", "drawn", "failed", "known", "lower", "members", "question", "silent", "tally", "upper")

    def __init__(self, lower: int, upper: int) -> None:
        self.lower, self.upper = lower, upper
        self.members: dict[bytes, bool] = {}  # who announced to be here; true: enrolled late, counted nowhere
        self.known: dict[bytes, bool] = {}  # the same of regions it was cut from: they may still announce this one
        self.silent: set[bytes] = set()  # members who were asked, did not answer, and have not spoken since
        self.answers: dict[bytes, list[tuple[int, Answer]]] = {}  # about cuts strictly inside: first cut, and answer
        self.failed: list[int] = []  # the first cuts of the questions that count in w
        self.question: Question | None = None  # the one that is open or was closed last
        self.drawn: tuple[bytes, ...] = ()  # whom it is put to, in the order of the draw
        self.tally: tuple[int, ...] = ()  # sums of the answers to it so far

    @property
    def region(self) -> tuple[int, int]:
        """Its codes."""
        return self.lower, self.upper

    def holds(self, lower: int, upper: int) -> bool:
        """Whether another region lies inside."""
        return self.lower <= lower and upper <= self.upper

    @property
    def crowd(self) -> int:
        """Members of the roster."""
        return sum(not late for late in self.members.values())

    def askable(self, limit: int, *, late: bool = False) -> list[bytes]:
        """Who may be asked, ascending: members with fewer than ``limit`` answers inside who are not silent.

        Those who enrolled late count only where nothing is decided (``late=True``).
        """
        return sorted(
            name
            for name, enrolled_late in self.members.items()
            if (late or not enrolled_late) and name not in self.silent and len(self.answers.get(name, ())) < limit
        )

    # -- what happens in a round -----------------------------------------------------------------------------

    def ask(self, question: Question, seed: bytes, limit: int) -> None:
        """A question is put: draw its members, unless it is the second portion of one that was drawn before."""
        if self.question is None or question.drawn != self.question.drawn:
            self.drawn = draw(self.askable(limit, late=not question.decides), seed, question.asked)
            self.tally = (0,) * len(question.parts)
            if question.decides:
                self.failed.append(question.cuts[0])
        self.question = question

    @property
    def asked_now(self) -> tuple[bytes, ...]:
        """Who answers in this round."""
        return () if self.question is None else self.drawn[self.question.start : self.question.stop]

    def take(self, reports: Slice | None, *, asked: bool, late: bool) -> None:
        """The reports of a round that name the region, if there are any.

        ``asked``: whether the region had a question in this round. ``late``: whether people who were never seen before
        enrolled after the first round.
        """
        entries = () if reports is None else reports.entries
        awaited = set(self.asked_now) if asked else set()
        self.silent |= awaited
        for entry in entries:
            self.silent.discard(entry.pseudonym)
            if entry.pseudonym not in self.members:
                self.members[entry.pseudonym] = self.known.get(entry.pseudonym, late)
            if entry.answer is not None and entry.pseudonym in awaited:
                assert self.question is not None
                self.answers.setdefault(entry.pseudonym, []).append((self.question.cuts[0], entry.answer))
                self.tally = _added(self.tally, entry.answer)
                awaited.discard(entry.pseudonym)

    def part(self, lower: int, upper: int) -> RegionLog:
        """The record of a part after a split: nobody has announced it yet, walls outside no longer count."""
        out = RegionLog(lower, upper)
        out.known = self.known | self.members
        out.failed = [cut for cut in self.failed if lower < cut < upper]
        for name, said in self.answers.items():
            inside = [(cut, answer) for cut, answer in said if lower < cut < upper]
            if inside:
                out.answers[name] = inside
        return out


def draw(names: list[bytes], seed: bytes, count: int) -> tuple[bytes, ...]:
    """The ``count`` names with the smallest SHA-256(seed ‖ name), in that order."""
    tickets = sorted((hashlib.sha256(seed + name).digest(), name) for name in names)
    return tuple(name for _, name in tickets[:count])


def walls_of(logs: Iterable[RegionLog]) -> Walls:
    """What present members answered about single cuts inside each region."""
    first, cuts, asked, yes = [0], [], [], []
    for log in logs:
        found: dict[int, list[int]] = {}
        for name in log.members:
            for cut, answer in log.answers.get(name, ()):
                if isinstance(answer, int):
                    count = found.setdefault(cut, [0, 0])
                    count[0] += 1
                    count[1] += answer
        for cut in sorted(found):
            cuts.append(cut)
            asked.append(found[cut][0])
            yes.append(found[cut][1])
        first.append(len(cuts))
    counts = (np.array(column, dtype=np.int64) for column in (asked, yes))
    return Walls(np.array(first), np.array(cuts, dtype=np.uint64), *counts)


def _added(tally: tuple[int, ...], answer: Answer) -> tuple[int, ...]:
    if isinstance(answer, tuple):
        return tuple(one + other for one, other in zip(tally, answer, strict=True))
    return tuple(count + (part == answer) for part, count in enumerate(tally))
