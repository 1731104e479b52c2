"""The protocol played for a whole population.

Without secrets all people are played at once (:mod:`.population`); with secrets each report is derived as a device does
(:class:`Devices`) and there is a transcript. Knows the order of the steps. Knows no rule.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats, check_generator, short_repr, sort_on_all_cores
from ..errors import InvalidInput, NoCrowdWarning, outside_level
from ..hierarchy.base import Cells
from ..hierarchy.ranks import SortedCodes
from ..outputs import output
from ..protocol.clip import unit_value
from ..protocol.curator import Curator
from ..protocol.keys import SECRET_BYTES, HashChain, nonce, pseudonym, report_entropy, value_entropy
from ..protocol.messages import Closed, Event, Query, Question, Region, Report, ValueQuery, ValueReport
from ..protocol.partition import Away, Partition
from ..protocol.promise import Mark
from ..protocol.rule import randomizer_for
from ..protocol.task import Task
from ..words import number_of
from .people import POPULATION, check_frame
from .population import Played, Splits, play


def simulate(
    points: npt.ArrayLike,
    task: Task,
    *,
    rng: np.random.Generator | None = None,
    secrets: Sequence[bytes] | None = None,
    chain: HashChain | None = None,
    dropout: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> Run:
    """Play the protocol for a whole population.

    Parameters
    ----------
    points : array_like, shape (n, d)
        One position per participant, inside the task's box. A data frame in which somebody has several rows is refused.
    task : Task
    rng : numpy.random.Generator
        Source of randomness; not needed if ``secrets`` are given and nobody drops out.
    secrets : sequence of bytes, optional
        One secret per participant: reports are derived from them exactly as devices do, and the run has a transcript
        (``events``). Takes about a millisecond per participant.
    chain : HashChain, optional
        With secrets: the server's part of the draws, if the task has a chain.
    dropout : float
        With secrets: chance, per participant and round, of falling silent for good. Independent of the position, as the
        promise needs.
    progress : callable, optional
        Called after every step with its number and the regions in play.

    Returns
    -------
    Run

    Raises
    ------
    InvalidInput
        For positions outside the box or not finite, and arguments that do not fit together.

    Notes
    -----
    Guarantee: ``task.statement()`` says what participants would be promised, with epsilon and delta. This program holds
    all positions, so the result is a simulation and says so.

    Warns
    -----
    NoCrowdWarning
        If there are fewer than k participants in all: the only region is the whole domain, without a crowd.

    Examples
    --------
    >>> from semilocal import Box, Task
    >>> rng = np.random.default_rng(7)
    >>> task = Task.build(Box((0, 0), (1, 1)), epsilon=1.0)
    >>> run = simulate(rng.random((20_000, 2)), task, rng=rng)
    >>> bool(run.partition.crowds.sum() == 20_000), bool(run.partition.crowds.min() >= 20)
    (True, True)
    """
    _check_arguments(task, rng, dropout, secrets)
    check_frame(points, POPULATION)
    positions = task.box.shaped(points)
    warn_if_small(len(positions), task)
    if secrets is not None:
        return _derived(positions, task, secrets, chain, dropout, rng)
    assert rng is not None
    codes = task.hierarchy.codes(positions)
    sort_on_all_cores(codes)
    played = play(task, SortedCodes(codes), rng, progress=progress)
    del codes
    partition = partition_of(task, played, Mark(seeded=True))
    homes = task.hierarchy.codes(positions)  # once more: cheaper than to keep both while the protocol is played
    return Run(task, partition, homes, played.rounds, played.splits, played.answers, played.announcements)


def partition_of(task: Task, played: Played, mark: Mark) -> Partition:
    """The partition that a play found."""
    crowds = played.stop - played.start
    late = np.zeros(len(crowds), dtype=np.int64)
    return Partition(task, played.lower, played.upper, crowds, late, played.walls, Away.nobody(), mark)


def _derived(
    points: npt.NDArray[np.float64], task: Task, secrets: Sequence[bytes], chain: HashChain | None, dropout: float,
    rng: np.random.Generator | None,
) -> Run:  # fmt: skip
    if len(secrets) != len(points):
        raise InvalidInput(f"secrets must be one per participant: {len(points)}; got {len(secrets)}")
    curator = Curator(task, chain=chain)
    devices = Devices(secrets, task.hierarchy.codes(points), task.id)
    events = play_devices(curator, devices, dropout=dropout, rng=rng)
    partition = curator.partition
    object.__setattr__(partition, "mark", Mark(seeded=False))
    rows = {
        region: row for row, region in enumerate(zip(partition.lower.tolist(), partition.upper.tolist(), strict=True))
    }
    homes = [rows.get(curator.home.get(name, (0, 0)), LOST) for name in devices.names]
    reports = [event for event in events if isinstance(event, Report)]
    answers = sum(report.answer is not None for report in reports)
    return Run(
        task, partition, np.array(homes, dtype=np.int32), curator.round - 1, splits_of(events), answers,
        len(reports) - answers, tuple(events),
    )  # fmt: skip


def splits_of(events: Sequence[Event]) -> Splits:
    """Every split in a transcript."""
    rows = []
    questions: tuple[Question, ...] = ()
    for event in events:
        if isinstance(event, Query):
            questions = event.questions
        elif isinstance(event, Closed):
            for question, verdict in zip(questions, event.verdicts, strict=True):
                if verdict.outcome == "split":
                    rows += [(event.round, question.lower, cut, question.upper) for cut in question.cuts]
    rounds, lower, cut, upper = zip(*rows, strict=True) if rows else ((), (), (), ())
    codes = (np.array(column, dtype=np.uint64) for column in (lower, cut, upper))
    return Splits(np.array(rounds, dtype=np.int64), *codes)


def check_task(task: Task) -> None:
    """Refuse anything but a task."""
    if not isinstance(task, Task):
        raise InvalidInput(f"task must be a semilocal.Task, such as Task.build(box, …); got {task!r}")


def warn_if_small(participants: int, task: Task) -> None:
    """Warn if there are fewer than k participants in all."""
    if participants < task.k:
        verb = "is" if participants == 1 else "are"
        words = f"{number_of(participants, 'participant')} {verb} fewer than k = {task.k}"
        warnings.warn(
            f"{words}: the only region is the whole domain, without a crowd", NoCrowdWarning, stacklevel=outside_level()
        )


def _check_arguments(
    task: Task, rng: np.random.Generator | None, dropout: float, secrets: Sequence[bytes] | None
) -> None:
    check_task(task)
    if not isinstance(dropout, int | float) or not 0.0 <= dropout < 1.0:
        raise InvalidInput(f"dropout must be a share from 0 to below 1; got {dropout!r}")
    if dropout and secrets is None:
        raise InvalidInput("dropout needs single reports: give secrets, one per participant")
    if secrets is not None and any(len(secret) != SECRET_BYTES for secret in secrets):
        raise InvalidInput(f"every secret must be {SECRET_BYTES} bytes")
    if rng is None and (secrets is None or dropout):
        raise InvalidInput("rng is needed: pass numpy.random.default_rng(seed)")
    check_generator(rng)


# -- a finished simulation: the partition, who is in which region, and what it took ----------------------------------


LOST = -1  # region of a participant who announced no final region


@dataclass(frozen=True, eq=False)
class Run:
    """A finished simulation.

    Attributes
    ----------
    task : Task
    partition : Partition
    homes : uint64[n] or int32[n]
        Code of each participant, or the row of its region.
    regions : int32[n]
        Row of each participant's region in the partition; -1 for those who never announced one. Found when it is asked
        for.
    rounds : int
        How many rounds the partition took.
    splits : Splits
        Every split, in the order of rounds.
    answers, announcements : int
        Reports of all participants with an answer, and without one.
    events : tuple of messages
        The transcript, if reports were derived from secrets: the task, then per round the query, the reports and the
        closing. Empty otherwise.
    simulated : bool
        Always True: one program held all positions.
    """

    task: Task
    partition: Partition
    homes: Cells | npt.NDArray[np.int32]
    rounds: int
    splits: Splits
    answers: int
    announcements: int
    events: tuple[Event, ...] = ()
    simulated: bool = True

    __repr__ = short_repr

    @property
    def participants(self) -> int:
        """How many took part."""
        return len(self.homes)

    @cached_property
    def regions(self) -> npt.NDArray[np.int32]:
        """Row of each participant's region."""
        if self.homes.dtype == np.int32:
            return self.homes.astype(np.int32, copy=False)
        return SortedCodes(self.partition.lower[1:]).up_to(self.homes.astype(np.uint64, copy=False)).astype(np.int32)

    def check_points(self, points: npt.ArrayLike) -> Floats:
        """Positions of the run's participants, in their order, as float64[n, d]; others are refused."""
        positions = self.task.box.check(points)
        if len(positions) != self.participants:
            raise InvalidInput(
                f"points must be the run's {self.participants} participants in their order; got {len(positions)}"
            )
        return positions

    def _repr_html_(self) -> str:
        words: str = output("notebook").result_html(self)
        return words


# -- with secrets: what the devices of a crowd would send, all in one program -----------------------------------------


class Devices:
    """People with secrets, one each, and the codes uint64[n] of their positions, in a task (its id)."""

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
                entropy = value_entropy(self.secrets[place], self.task, query.plan, query.index, clip.region)
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
