"""Numbers for monitoring, in the Prometheus text format. Counts only; nothing about a single participant.

A server counts in plain memory, which costs nothing on the way of a report. Campaigns are read from the database. Knows
numbers. Knows no routes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import MissingExtra
from .campaign import Status

try:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector
except ImportError:  # pragma: no cover
    raise MissingExtra("prometheus-client", "service") from None

_WORDS = {
    "semilocal_batches": "Transactions that wrote reports.",
    "semilocal_written": "Reports and enrolments that were written or refused by one.",
    "semilocal_faults": "Looks at a campaign that failed.",
    "semilocal_rounds_closed": "Rounds opened or closed.",
    "semilocal_queue_length": "Reports that wait to be written.",
    "semilocal_campaigns_at_fault": "Campaigns that cannot go on now.",
    "semilocal_peer_silent_seconds": "Seconds since the other server of pairs answered; 0 while it does.",
}


class Metrics(Collector):
    """What this server has done since it started."""

    def __init__(self) -> None:
        self._answers: Counter[str] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._refused: dict[bytes, Counter[str]] = {}
        self._seen: tuple[list[Status], Mapping[str, int], Mapping[str, float]] = ([], {}, {})  # by who asks

    def answered(self, status: int) -> None:
        """Count an answer."""
        self._answers[str(status)] += 1

    def judged(self, outcome: str) -> None:
        """Count the outcome of a report or an enrolment."""
        self._outcomes[outcome] += 1

    def refused(self, task: bytes, token: str) -> None:
        """Count a report that was refused."""
        if token != "no-such-task":  # anybody can make up names
            self._refused.setdefault(task, Counter())[token] += 1

    def refusals(self, task: bytes) -> dict[str, int]:
        """Refused reports of a campaign by the token of the reason."""
        return dict(self._refused.get(task, ()))

    def text(self, statuses: Iterable[Status], totals: Mapping[str, int], gauges: Mapping[str, float]) -> str:
        """The page: what was counted here, numbers of other parts by their names, and all campaigns."""
        self._seen = list(statuses), totals, gauges
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry).decode()

    def collect(self) -> Iterator[Any]:
        """What the library asks for."""
        statuses, totals, gauges = self._seen
        counted: tuple[Any, ...] = (
            CounterMetricFamily("semilocal_responses", "Answers by status.", labels=["status"]),
            CounterMetricFamily("semilocal_outcomes", "Outcomes of reports and enrolments.", labels=["outcome"]),
            GaugeMetricFamily("semilocal_campaigns", "Campaigns by phase.", labels=["phase"]),
        )
        phases: Counter[str] = Counter(status.phase for status in statuses)
        for family, numbers in zip(counted, (self._answers, self._outcomes, phases), strict=True):
            for label, number in sorted(numbers.items()):
                family.add_metric([label], number)
            yield family
        for name, number in totals.items():
            yield CounterMetricFamily(name, _WORDS[name], value=number)
        for name, value in gauges.items():
            yield GaugeMetricFamily(name, _WORDS[name], value=value)
        enrolled = sum(status.enrolled for status in statuses)
        yield GaugeMetricFamily("semilocal_participants", "Participants of all campaigns.", value=enrolled)
