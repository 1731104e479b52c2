"""One device's side of a transcript: it holds what the device sent, byte for byte, and no more."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from semilocal.protocol.messages import AnyClosed, AnyQuery, AnyReport, Closed, Query
from semilocal.protocol.participant import Participant
from semilocal.transcript.file import read_frames
from semilocal.transcript.verify import Replay, Witness


def check_own_reports(path: Path, device: Participant, reported: Iterable[int]) -> None:
    """Play a fresh participant along a transcript; ``reported`` are the rounds in which its device reported."""
    replay = _Owner(device, frozenset(reported))
    with path.open("rb") as stream:
        for frame in read_frames(stream):
            replay.frame(frame)
    replay.finish()
    assert replay.found.sound, replay.found.lines()
    assert not replay.reported, "no round of the transcript is one of these"


class _Owner(Replay):
    def __init__(self, device: Participant, reported: frozenset[int]) -> None:
        super().__init__()
        self.device, self.reported = device, set(reported)
        self.query: AnyQuery
        self.theirs: list[AnyReport] = []

    def _begin_round(self, query: AnyQuery) -> None:
        super()._begin_round(query)
        self.query, self.theirs = query, []

    def _report(self, curator: Witness, report: AnyReport) -> None:
        super()._report(curator, report)
        if report.pseudonym == self.device.pseudonym:
            self.theirs.append(report)

    def _close(self, curator: Witness, closed: AnyClosed, data: bytes) -> None:
        super()._close(curator, closed, data)
        if isinstance(self.query, Query):
            self.device.observe(self.query)
        sent = self.query.round in self.reported
        assert self.theirs == ([self.device.receive(self.query)] if sent else []), self.query.round
        self.reported.discard(self.query.round)
        if isinstance(closed, Closed):
            self.device.close(closed, self._slices(closed).get(self.device.log.region))
