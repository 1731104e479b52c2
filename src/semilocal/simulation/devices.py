"""What the devices of a crowd would send, all in one program: reports derived from secrets, counted by the Curator.

The same secrets give the same bytes as real devices do, and so the same transcript. Public records of regions are the
curator's own, so that nobody keeps them twice. Devices of a crowd may drop out. Knows secrets and positions. Verdicts
are the curator's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Flags
from ..hierarchy.base import Cells
from ..protocol.clip import unit_value
from ..protocol.curator import Curator
from ..protocol.keys import nonce, pseudonym, report_entropy, value_entropy
from ..protocol.messages import Event, Query, Report, ValueQuery, ValueReport
from ..protocol.rule import randomizer_for

__all__ = ["Devices", "play_devices"]

Region = tuple[int, int]


class Devices:
    """People with secrets.

    Parameters
    ----------
    secrets : sequence of bytes
        One per person.
    codes : uint64[n]
        Of their positions.
    task : bytes
        The task's id.
    """

    def __init__(self, secrets: Sequence[bytes], codes: Cells, task: bytes) -> None:
        self.secrets, self.codes, self.task = secrets, codes.tolist(), task
        self.names = [pseudonym(secret, task) for secret in secrets]
        self.place = {name: place for place, name in enumerate(self.names)}

    def reports(self, curator: Curator, query: Query, present: Flags) -> list[Report]:
        """Everything that is sent in a round of the partition, by ascending pseudonym."""
        out = []
        speaking: dict[int, Report] = {}
        if query.round == 1:
            root = curator.task.hierarchy.ends
            for place in np.flatnonzero(present).tolist():
                speaking[place] = self._report(place, query.round, root, None)
        for region in curator.announcing:
            for name in curator.above[region].members:
                place = self.place[name]
                if present[place]:
                    own = self._region_of(place, curator.parts_of(region))
                    speaking[place] = self._report(place, query.round, own, None)
        for question in query.questions:
            randomizer = randomizer_for(curator.task, len(question.parts))
            for name in curator.asked_now(question.region):
                place = self.place[name]
                if not present[place]:
                    continue
                entropy = report_entropy(
                    self.secrets[place], self.task, query.round, question.region, question.cuts, randomizer.words
                )
                part = sum(self.codes[place] >= cut for cut in question.cuts)
                answer = randomizer.respond(part, entropy)
                speaking[place] = self._report(place, query.round, question.region, answer)
        out = list(speaking.values())
        return sorted(out, key=lambda report: report.pseudonym)

    def _report(self, place: int, round_: int, region: Region, answer: int | tuple[int, ...] | None) -> Report:
        own = nonce(self.secrets[place], self.task, round_)
        return Report(self.task, round_, self.names[place], *region, answer, own)

    def _region_of(self, place: int, regions: Sequence[Region]) -> Region:
        code = self.codes[place]
        return next(region for region in regions if region[0] <= code < region[1])

    def values(self, curator: Curator, query: ValueQuery, values: list[float], present: Flags) -> list[ValueReport]:
        """Everything that is sent in a round of values, by ascending pseudonym; ``values`` are f of each person."""
        release = curator.plan.releases[query.index]
        assert release.mechanism is not None
        out = []
        for clip in query.clips:
            for name in curator.logs[clip.region].members:
                place = self.place[name]
                if not present[place]:
                    continue
                entropy = value_entropy(
                    self.secrets[place], self.task, query.plan, query.index, clip.region, release.mechanism.words
                )
                unit = unit_value(values[place], clip.low, clip.high)
                answer = release.mechanism.release_one(unit, entropy)
                out.append(ValueReport(self.task, query.round, name, *clip.region, answer))
        return sorted(out, key=lambda report: report.pseudonym)


def play_devices(
    curator: Curator, devices: Devices, *, dropout: float = 0.0, rng: np.random.Generator | None = None
) -> list[Event]:
    """Play the partition; returns the transcript's events. With dropout, people fall silent for good by chance."""
    present = np.ones(len(devices.names), dtype=bool)
    events: list[Event] = [curator.task]
    while not curator.partitioned:
        query = curator.query()
        assert isinstance(query, Query)
        if dropout:
            assert rng is not None
            present &= rng.random(len(present)) >= dropout
        reports = devices.reports(curator, query, present)
        events += [query, *reports, curator.close(reports)]
    return events
