"""What a verification found: counts, differences and notes.

Knows how to say it. Knows no files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..protocol.plan import Plan
from ..protocol.task import Task
from ..words import number_of
from .checkpoints import Seal
from .file import Simulation

__all__ = ["Difference", "Verification", "difference_lines"]

_EXAMPLES = 3


@dataclass
class Difference:
    """Something that does not follow, once or several times."""

    token: str  # which check failed
    round: int | None  # none if it concerns no single round
    examples: list[str]  # for a person; the first few
    count: int = 1

    @property
    def what(self) -> str:
        """The examples, and how many more there are."""
        more = self.count - len(self.examples)
        return "; ".join(self.examples) + (f" and {more} more" if more else "")

    def __str__(self) -> str:
        where = "" if self.round is None else f"round {self.round}: "
        return f"{where}{self.what} [{self.token}]"


@dataclass(eq=False)
class Verification:
    """What was checked, what is different, and what else an owner should know."""

    task: Task | None = None
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rounds: int = 0
    reports: int = 0
    events: int = 0
    participants: int = 0
    seals: list[Seal] = field(default_factory=list)
    signatures: int = 0
    closings: list[bytes] = field(default_factory=list)  # SHA-256 of every closing
    plan: Plan | None = None
    simulation: Simulation | None = None  # what the file is marked as

    @property
    def sound(self) -> bool:
        """Whether nothing is different."""
        return not self.differences

    def add(self, token: str, round_: int | None, what: str) -> None:
        """Note a difference; more of its kind in the same round are counted, and the first few are told."""
        for one in reversed(self.differences):
            if one.round != round_:
                break
            if one.token == token:
                one.count += 1
                one.examples += [what] if len(one.examples) < _EXAMPLES else []
                return
        self.differences.append(Difference(token, round_, [what]))

    def lines(self) -> list[str]:
        """For a person: what it is, what was checked, every difference, and notes; without a task nothing was."""
        marked = [] if self.simulation is None else [self.simulation.words]
        if self.task is None:
            return marked + difference_lines(self.differences)
        checked = [
            f"{number_of(self.rounds, 'round')} with {number_of(self.reports, 'report')} of "
            f"{number_of(self.participants, 'participant')}: draws made again, answers counted again, thresholds and "
            "verdicts decided again",
            "one report per participant and round, each inside the region that the participant announced before",
            f"{number_of(self.events, 'event')} under {number_of(len(self.seals), 'checkpoint')} in one chain, "
            f"{self.signatures:,} of them signed with the key that the task pins",
        ]
        out = [*marked, "Checked:", *(f"  {line}" for line in checked), *difference_lines(self.differences)]
        return out + [f"Note: {note}" for note in self.notes]


def difference_lines(differences: Sequence[Difference]) -> list[str]:
    """For a person: how many there are, and each of them.

    Examples
    --------
    >>> difference_lines([])
    ['No difference.']
    """
    count = len(differences)
    found = f"{number_of(count, 'difference')}:" if count else "No difference."
    return [found, *(f"  {difference}" for difference in differences)]
