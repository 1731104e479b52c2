"""Numbers for monitoring, in the Prometheus text format. Counts only; nothing about a single participant.

Counters are this worker's own; campaigns are read from the database. Knows numbers. Knows no routes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

from .campaign import Status

__all__ = ["Metrics"]


class Metrics:
    """What this worker has done since it started."""

    def __init__(self) -> None:
        self._answers: Counter[int] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._refused: dict[bytes, Counter[str]] = {}

    def answered(self, status: int) -> None:
        """Count an answer."""
        self._answers[status] += 1

    def judged(self, outcome: str) -> None:
        """Count what became of a report or an enrolment."""
        self._outcomes[outcome] += 1

    def refused(self, task: bytes, token: str) -> None:
        """Count a report that was refused."""
        if token != "no-such-task":  # anybody can make up names
            self._refused.setdefault(task, Counter())[token] += 1

    def refusals(self, task: bytes) -> dict[str, int]:
        """Refused reports of a campaign by the token of the reason."""
        return dict(self._refused.get(task, ()))

    def text(
        self, statuses: Iterable[Status], *, waiting: int, batches: int, written: int, closings: int, at_fault: int,
        faults: int,
    ) -> str:  # fmt: skip
        """The page."""
        worker = f'worker="{os.getpid()}"'
        lines = _family("semilocal_responses_total", "counter", "Answers by status.")
        lines += [f'semilocal_responses_total{{{worker},status="{s}"}} {n}' for s, n in sorted(self._answers.items())]
        lines += _family("semilocal_outcomes_total", "counter", "What became of reports and enrolments.")
        lines += [f'semilocal_outcomes_total{{{worker},outcome="{o}"}} {n}' for o, n in sorted(self._outcomes.items())]
        for name, kind, text, value in (
            ("semilocal_queue_length", "gauge", "Reports that wait to be written.", waiting),
            ("semilocal_batches_total", "counter", "Transactions that wrote reports.", batches),
            (
                "semilocal_written_total",
                "counter",
                "Reports and enrolments that were written or refused by one.",
                written,
            ),
            ("semilocal_faults_total", "counter", "Looks at a campaign that failed.", faults),
            ("semilocal_rounds_closed_total", "counter", "Rounds opened or closed by this worker.", closings),
        ):
            lines += [*_family(name, kind, text), f"{name}{{{worker}}} {value}"]
        phases: Counter[str] = Counter()
        enrolled = 0
        for status in statuses:
            phases[status.phase] += 1
            enrolled += status.enrolled
        lines += _family("semilocal_campaigns", "gauge", "Campaigns by phase.")
        lines += [f'semilocal_campaigns{{phase="{phase}"}} {number}' for phase, number in sorted(phases.items())]
        lines += [
            *_family("semilocal_campaigns_at_fault", "gauge", "Campaigns that cannot go on now."),
            f"semilocal_campaigns_at_fault {at_fault}",
            *_family("semilocal_participants", "gauge", "Participants of all campaigns."),
            f"semilocal_participants {enrolled}",
        ]
        return "\n".join(lines) + "\n"


def _family(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
