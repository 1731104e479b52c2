"""Numbers for monitoring, in the Prometheus text format. Counts only; nothing about a single participant.

A worker counts in plain memory, which costs nothing on the way of a report, and shares its counts about once a second:
with prometheus-client, in files if there are several workers, so that every scrape has the sums over all of them.
Campaigns are read from the database. Knows numbers. Knows no routes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import MissingExtra
from .campaign import Status

try:
    from prometheus_client import CollectorRegistry, Gauge, generate_latest
    from prometheus_client import Counter as Total
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
    from prometheus_client.registry import Collector
except ImportError:  # pragma: no cover
    raise MissingExtra("prometheus-client", "service") from None

__all__ = ["FOLDER", "SHARE_EVERY", "Metrics"]

FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # set before a worker starts: where several workers share their numbers
SHARE_EVERY = 1.0  # seconds

_TOTALS = {
    "batches": ("semilocal_batches", "Transactions that wrote reports."),
    "written": ("semilocal_written", "Reports and enrolments that were written or refused by one."),
    "faults": ("semilocal_faults", "Looks at a campaign that failed."),
    "closings": ("semilocal_rounds_closed", "Rounds opened or closed."),
}


class Metrics:
    """What this worker has done since it started, and what all workers have done."""

    def __init__(self) -> None:
        self._answers: Counter[int] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._refused: dict[bytes, Counter[str]] = {}
        self._shared: Counter[tuple[str, str]] = Counter()
        own = self._own = CollectorRegistry()
        self._responses = Total("semilocal_responses", "Answers by status.", ["status"], registry=own)
        self._judged = Total("semilocal_outcomes", "Outcomes of reports and enrolments.", ["outcome"], registry=own)
        self._totals = {name: Total(title, words, registry=own) for name, (title, words) in _TOTALS.items()}
        self._waiting = Gauge(
            "semilocal_queue_length", "Reports that wait to be written.", registry=own, multiprocess_mode="livesum"
        )

    def answered(self, status: int) -> None:
        """Count an answer."""
        self._answers[status] += 1

    def judged(self, outcome: str) -> None:
        """Count the outcome of a report or an enrolment."""
        self._outcomes[outcome] += 1

    def refused(self, task: bytes, token: str) -> None:
        """Count a report that was refused."""
        if token != "no-such-task":  # anybody can make up names
            self._refused.setdefault(task, Counter())[token] += 1

    def refusals(self, task: bytes) -> dict[str, int]:
        """Refused reports of a campaign by the token of the reason; this worker's own."""
        return dict(self._refused.get(task, ()))

    def share(self, *, waiting: int, **totals: int) -> None:
        """Let every scrape see this worker's numbers: those counted here, and totals of its other parts."""
        for status, number in self._answers.items():
            self._grow(self._responses.labels(str(status)), ("answers", str(status)), number)
        for outcome, number in self._outcomes.items():
            self._grow(self._judged.labels(outcome), ("outcomes", outcome), number)
        for name, number in totals.items():
            self._grow(self._totals[name], ("totals", name), number)
        self._waiting.set(waiting)

    def _grow(self, total: Total, key: tuple[str, str], number: int) -> None:
        if number > self._shared[key]:
            total.inc(number - self._shared[key])
            self._shared[key] = number

    def text(self, statuses: Iterable[Status], *, at_fault: int, silence: float | None = None) -> str:
        """The page: the numbers of all workers, as they were shared last, and of all campaigns."""
        workers, campaigns = self._own, CollectorRegistry()
        folder = os.environ.get(FOLDER)
        if folder is not None:
            workers = CollectorRegistry()
            _forget_dead_workers(Path(folder))
            MultiProcessCollector(workers, path=folder)  # type: ignore[no-untyped-call]
        campaigns.register(_Campaigns(statuses, at_fault, silence))
        return (generate_latest(workers) + generate_latest(campaigns)).decode()


class _Campaigns(Collector):
    """Campaigns and participants, as the database has them."""

    def __init__(self, statuses: Iterable[Status], at_fault: int, silence: float | None) -> None:
        self._statuses, self._at_fault, self._silence = list(statuses), at_fault, silence

    def collect(self) -> Iterator[GaugeMetricFamily]:
        phases = GaugeMetricFamily("semilocal_campaigns", "Campaigns by phase.", labels=["phase"])
        for phase, number in sorted(Counter(status.phase for status in self._statuses).items()):
            phases.add_metric([phase], number)
        yield phases
        yield GaugeMetricFamily(
            "semilocal_campaigns_at_fault", "Campaigns that cannot go on now.", value=self._at_fault
        )
        if self._silence is not None:
            words = "Seconds since the other server of pairs answered; 0 while it does."
            yield GaugeMetricFamily("semilocal_peer_silent_seconds", words, value=self._silence)
        enrolled = sum(status.enrolled for status in self._statuses)
        yield GaugeMetricFamily("semilocal_participants", "Participants of all campaigns.", value=enrolled)


def _forget_dead_workers(folder: Path) -> None:
    """A worker that was killed has no queue any more; what it did still counts."""
    for file in folder.glob("gauge_live*_*.db"):
        pid = int(file.stem.rpartition("_")[2])
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call]
