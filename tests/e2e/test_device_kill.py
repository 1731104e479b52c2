"""kill -9 of devices: real ``semilocal join`` processes, killed in the middle of campaigns, go on with the same bytes.

The suite kills 20 times, SEMILOCAL_LONG=1 1,000 times. Every campaign ends with every device, nobody is counted twice,
and the transcript holds for every vault exactly what its device sent.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from semilocal import Participant, Task
from semilocal.device.download import save_transcript
from semilocal.device.vault import unpack
from semilocal.protocol.messages import AnyClosed, AnyQuery, AnyReport, Closed, Query
from semilocal.service.rounds import create_campaign, with_chain
from semilocal.service.stores.base import open_store
from semilocal.testing import ALLOW_ALL, Server, cluster, running_server
from semilocal.transcript.file import read_frames
from semilocal.transcript.verify import Replay, Witness
from tests.helpers import HANG
from tests.helpers.forked import Forked, first_words
from tests.helpers.long import SEED, times
from tests.helpers.service import open_campaign, sample_task
from tests.helpers.stored import verify

KILLS = times(20, long=1000)
DEVICES = 3
LONGEST_LIFE = 0.4  # seconds that a device lives after its first words, until all kills are done


class Fire:
    """How often devices were killed, and how often they may still be."""

    def __init__(self) -> None:
        self.kills, self._lock = 0, threading.Lock()

    def take(self) -> bool:
        with self._lock:
            self.kills += self.kills < KILLS
            return self.kills < KILLS


def live(server: Server, task: Task, vault: Path, position: str, fire: Fire, chance: random.Random) -> None:
    """One device: start it, kill it some time after its first words, start it again, until it finishes."""
    command = ["join", f"{server.url}/tasks/{task.id.hex()}", "--position", position]
    command += ["--vault", str(vault), "--yes", "--spread", "0", "--min-k", "1", "--max-delta", "1"]
    command += ["--max-epsilon", "1000000"]
    more = fire.kills < KILLS
    while True:
        said = vault.with_suffix(".log")
        said.unlink(missing_ok=True)
        process = Forked(command, said, os.environ)
        first_words(process, said, seconds=HANG)
        if more:
            time.sleep(chance.uniform(0.0, LONGEST_LIFE))
            process.kill()  # nothing happens if it has ended
        code = process.wait(HANG)
        if code == -signal.SIGKILL:
            more = fire.take()
            continue
        out = said.read_bytes()
        assert code == 0, out.decode()
        assert b"You have a region." in out
        return


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


@pytest.mark.slow
def test_killed_devices_lose_nothing_and_answer_nothing_twice(tmp_path: Path) -> None:
    chance, fire, number = random.Random(9 + SEED), Fire(), 0
    points = [",".join(map(str, point)) for point in cluster(DEVICES).tolist()]
    vaults = [tmp_path / f"vault{place}" for place in range(DEVICES)]
    with running_server(f"sqlite:///{tmp_path / 'service.db'}", log=tmp_path / "log.txt") as server:
        store = open_store(server.database, worker="test")
        while fire.kills < KILLS:
            number += 1
            task = sample_task(k=1, delta=0.01 + number / 10_000, epsilon=8.0, window=10**6)
            campaign = with_chain(store, open_campaign(task, capacity=DEVICES))
            task = campaign.task
            create_campaign(store, campaign, now=time.time())
            errors: list[BaseException] = []

            def device(place: int, task: Task = task, errors: list[BaseException] = errors) -> None:
                try:
                    live(server, task, vaults[place], points[place], fire, random.Random(chance.random()))
                except BaseException as error:
                    errors.append(error)

            threads = [threading.Thread(target=device, args=(place,)) for place in range(DEVICES)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(HANG)
            assert not errors, errors
            status = store.status(task.id)
            assert status is not None
            assert (status.phase, status.enrolled) == ("finished", DEVICES)
            first = store.reports(task.id, 1, after=b"", limit=1000)
            assert len({row.pseudonym for row in first}) == len(first) == DEVICES
            verify(store, task.id)
            transcript = tmp_path / f"{number}.slt"
            save_transcript(server.url, task.id.hex(), transcript)
            for vault in vaults:  # what each device sent, byte for byte, and no more
                contents = unpack(vault.read_bytes(), vault)
                entry = contents.membership(task.id)
                assert entry is not None
                again = Participant(task, entry.position, contents.secret, ALLOW_ALL, plan=campaign.plan)
                check_own_reports(transcript, again, entry.reported)
        store.close()
    assert fire.kills == KILLS
    print(f"{fire.kills} kills, {number} campaigns: every vault holds what its device sent, and nothing else")
