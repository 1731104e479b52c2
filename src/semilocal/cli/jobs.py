"""What the job commands (partition, counts, mean, points) have in common: positions, people, the run.

A job command takes :class:`~semilocal.cli.job_options.JobOptions` beside its own options, and gives :func:`run_job` a
function from a :class:`Job` to an :class:`~semilocal.cli.output.Outcome`. Knows options and files. Computes nothing
itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from .. import release
from ..accounting import Ledger
from ..arrays import exact
from ..engines.source import Source
from ..errors import InvalidInput
from ..geometry.box import Box
from ..hierarchy import AnyTree
from ..hierarchy.ranks import SortedCodes
from ..io.files import check_outputs, replacing
from ..io.points import Table, choose_columns, fit, read_located, read_points
from ..pooled.task import PooledTask
from ..pooled.task import Trust as PooledTrust
from ..protocol.column import Column
from ..protocol.keys import SECRET_BYTES
from ..protocol.mark import Mark
from ..protocol.task import Task
from ..release import split
from ..release.count_release import CountsRelease
from ..release.pooled_counts import PooledCounts, pooled_counts, run_pooled
from ..release.streamed import AnyRun, Rows, count_rows, play_rows, with_mark
from ..release.whom import crowd_of
from ..simulation.person_columns import person_columns
from ..simulation.simulate import Run, simulate
from .arguments import named_domain
from .catalogue import DONE
from .engines import OwnValue, engine_of, open_rows, position_columns
from .job_options import JobOptions, MapFiles, Promise, task_options
from .output import Outcome, promise_to_people, tell
from .people import chosen_rows, person_labels

__all__ = [
    "HTML", "REGIONS", "TRANSCRIPT", "Job", "OwnValue", "check_basemap", "run_job", "without", "write_map",
    "write_transcript",
]  # fmt: skip

REGIONS = (".geojson", ".csv", ".parquet")
HTML = (".html",)
TRANSCRIPT = (".slt",)
_POOLED = ("epsilon", "resolution")  # options of a task that do not need trust nobody


@dataclass(frozen=True, eq=False)
class Job:
    """Positions in their domain, and what was asked.

    Attributes
    ----------
    file : Path
        Where the positions are from.
    promise : Promise
    options : JobOptions
    transcript : Path or None
        Where all that was published goes.
    points : float64[n, d] or Source
        One row per participant; none where `located` has them.
    box : Box
    rng : numpy.random.Generator
    column : Column or None
        The participants' own values, if the job asks for a column.
    tree : hierarchy or None
        Where the domain is more than a box.
    located : list of SortedCodes or None
        The participants' deepest cells where these are enough. Counting takes them out: the answers need the memory.
    """

    file: Path
    promise: Promise
    options: JobOptions
    transcript: Path | None
    points: Rows
    box: Box
    rng: np.random.Generator
    column: Column | None = None
    tree: AnyTree | None = None
    located: list[SortedCodes] | None = None

    @classmethod
    def read(
        cls, file: Path, promise: Promise, options: JobOptions, transcript: Path | None = None,
        value: OwnValue | None = None, *, only_counted: bool = False,
    ) -> Job:  # fmt: skip
        """Read the positions, and a column of values if one is asked for, and draw the rows that stand for people.

        With ``only_counted`` their deepest cells are enough where somebody is trusted.
        """
        data, people = options.data, options.people
        _check_trust(promise)
        if promise.bounds == "data" and not data.public_data:
            raise InvalidInput(
                "--bounds data publishes the outermost positions without any protection; name a public box, or say "
                "--public-data if all positions are public anyway"
            )
        rng = np.random.default_rng(options.output.seed)  # without a seed it is drawn from the operating system
        if (engine := engine_of(file, promise.bounds, options)) != "memory":
            source, tree, own = open_rows(file, promise.bounds, options, engine, rng, value)
            return cls(file, promise, options, transcript, source, source.box, rng, own, tree)
        columns, leaves = position_columns(promise.bounds, data)
        if (
            only_counted
            and leaves is None
            and (job := cls._read_located(file, promise, options, transcript, rng, columns))
        ):
            return job
        names, labels = () if value is None else (value.name,), person_labels(people)
        with options.output.step(f"reading {file.name}"):
            table = read_points(file, x=data.x, y=data.y, columns=columns, values=names, labels=labels, words=leaves)
        column = None if value is None else _column(value, table)
        box, tree = _domain(promise.bounds, table)
        points, clipped = fit(table, box, clip=data.clip)
        if data.clip:  # whether anybody was outside is not public
            what = f"moved {clipped:,} of {len(table):,} positions" if data.public_data else "moves positions outside"
            warnings.warn(f"--clip {what} to the edge of {box}", UserWarning, stacklevel=2)
        rows = chosen_rows(people, table, rng, pooled=promise.trust != "nobody")
        if rows is not None:
            points, column = points[rows], None if column is None else column.rows(rows)
        return cls(file, promise, options, transcript, points, box, rng, column, tree)

    @classmethod
    def _read_located(
        cls, file: Path, promise: Promise, options: JobOptions, transcript: Path | None, rng: np.random.Generator,
        columns: list[str] | None,
    ) -> Job | None:  # fmt: skip
        """A job with cells in place of positions; None if these are needed, to choose rows or to say what is wrong."""
        data, people = options.data, options.people
        if promise.trust == "nobody" or data.clip or promise.bounds == "data" or not file.is_file():
            return None
        names, _, others = choose_columns(file, x=data.x, y=data.y, columns=columns)
        if people.user is not None or (person_columns(others) and not people.rows_are_people):
            return None
        person_labels(people)  # refuses options that do not fit
        box, tree = named_domain(promise.bounds, tuple(names))
        job = cls(file, promise, options, transcript, np.empty((0, box.dimensions)), box, rng, None, tree)
        with options.output.step(f"reading {file.name}"):
            located = read_located(file, names, job.pooled_task().hierarchy)
        return None if located is None else replace(job, located=[located])

    @property
    def domain(self) -> dict[str, Any]:
        """What every task takes: the box, or the tree over it."""
        return {"box": self.box} if self.tree is None else {"hierarchy": self.tree}

    @property
    def counted_in(self) -> str:
        """What is counted: participants, or rows where a person may have several."""
        return self.options.people.counted_in

    @property
    def pooled(self) -> bool:
        """Whether the participants trust somebody."""
        return self.promise.trust != "nobody"

    @property
    def noise_rng(self) -> np.random.Generator | None:
        """The generator of seeded noise; None for the operating system's."""
        return None if self.options.output.seed is None else self.rng

    @property
    def mark(self) -> Mark:
        """Of runs where nobody is trusted: this program plays all participants."""
        return Mark(seeded=self.options.output.seed is not None, seed=self.options.output.seed)

    @property
    def cap(self) -> float | None:
        """The most that one participant may lose; a person may be several."""
        cap = self.promise.cap
        return None if cap is None else cap / self.options.people.rows_per_user

    @property
    def person_limit(self) -> Ledger:
        """An empty ledger with the cap of a person."""
        cap = self.promise.cap
        return Ledger(cap=None if cap is None else exact(cap))

    @property
    def task_options(self) -> dict[str, Any]:
        """Options of ``Task.build``, with their defaults."""
        return crowd_of(None, None) | task_options(self.promise, self.promise.cells)

    def pooled_task(self) -> PooledTask:
        """The task where somebody is trusted."""
        promise = self.promise
        return PooledTask.build(
            **self.domain, epsilon=promise.epsilon, trust=cast(PooledTrust, promise.trust),
            resolution=promise.cells.resolution, max_reports=self.options.people.rows_per_user,
        )  # fmt: skip

    def counted(self) -> tuple[AnyRun | PooledCounts, CountsRelease | PooledCounts]:
        """Counts, and what they come from; all of epsilon goes to the map."""
        if not self.pooled:
            run, ledger = self.partition()
            return run, release.counts(run, ledger=ledger)
        task = self.pooled_task()
        cost = self.person_limit.pooled(task)  # refuses before counting
        with self.options.output.step("counting"):
            people = self.points if self.located is None else self.located.pop()
            published = run_pooled(task, people, rng=self.noise_rng, seed=self.options.output.seed)
            result = pooled_counts(published, ledger=cost)
        return result, result

    def partition(self) -> tuple[AnyRun, Ledger]:
        """Find the regions; all of epsilon goes to them."""
        task = Task.build(**self.domain, **self.task_options)
        self.person_limit + Ledger.of(task).times(self.options.people.rows_per_user)  # refuses before anybody is asked
        ledger = Ledger.of(task, cap=self.cap)
        with self.options.output.step("rounds played") as step:

            def progress(*_: int) -> None:
                step.advance()

            if self.transcript is None:
                return with_mark(play_rows(self.points, task, rng=self.rng, progress=progress), self.mark), ledger
            points = self.points  # a transcript has every report, in memory
            if isinstance(points, Source):
                points = np.concatenate([np.empty((0, self.box.dimensions)), *points.batches()])
            secrets = [self.rng.bytes(SECRET_BYTES) for _ in range(count_rows(points))]
            return with_mark(simulate(points, task, secrets=secrets, progress=progress), self.mark), ledger

    def partition_for_values(self) -> tuple[AnyRun, split.Split, Ledger]:
        """Find the regions with a part of epsilon; the rest is for values."""
        with self.options.output.step("rounds played") as step:
            run, parts, ledger = split.partition_for_values(
                self.points, **({"box": None} | self.domain), rng=self.rng, cap=self.cap,
                progress=lambda *_: step.advance(), values_only=self.column is not None, **self.task_options,
            )  # fmt: skip
        return with_mark(run, self.mark), parts, ledger


def run_job(
    command: str,
    file: Path,
    promise: Promise,
    options: JobOptions,
    work: Callable[[Job], Outcome],
    *,
    outputs: Mapping[str, tuple[Path | None, Sequence[str]]] | None = None,
    inputs: Sequence[Path | None] = (),
    transcript: Path | None = None,
    value: OwnValue | None = None,
    only_counted: bool = False,
) -> int:
    """Check the outputs, read the positions, do the work, and say what came out and what it cost."""
    outputs = {**(outputs or {}), "--transcript": (transcript, TRANSCRIPT)}
    check_outputs(outputs, inputs=[file, *inputs])
    job = Job.read(file, promise, options, transcript, value, only_counted=only_counted)
    tables = (".csv", *TRANSCRIPT, *([".parquet"] if command == "points" else []))
    for option, (path, _) in outputs.items():
        if path is not None and path.suffix.lower() not in tables and job.box.dimensions != 2:
            raise InvalidInput(
                f"{option} {path}: maps and pictures need two dimensions, the positions have {job.box.dimensions}; "
                "write .csv"
            )
    outcome = work(job)
    tell(command, promise, options, outcome)
    return DONE


def check_basemap(html: Path | None, basemap: Path | None) -> None:
    """Refuse a base map that nothing is drawn on, and one that cannot be read, before anything is written."""
    if basemap is None:
        return
    if html is None:
        raise InvalidInput("--basemap: is drawn behind the map of --html; give both")
    from ..io.plots import read_basemap

    read_basemap(basemap)


def write_map(job: Job, files: MapFiles, run: AnyRun | PooledCounts, result: CountsRelease | PooledCounts) -> list[str]:
    """Write the map of --html; the name of the file."""
    if files.html is None:
        return []
    from ..page.single import write_html

    numbers = {job.counted_in: f"{result.total:,}", "regions": f"{len(result.partition):,}"}
    write_html(
        files.html, run if isinstance(run, Run) else result.partition,
        promise_to_people(job.promise, job.options, run, result.spent),
        title=f"{job.file.name}, trust {job.promise.trust}", numbers=numbers, basemap=files.basemap,
    )  # fmt: skip
    return [str(files.html)]


def write_transcript(job: Job, run: AnyRun | PooledCounts) -> list[str]:
    """Write all that was published, for ``semilocal verify``; the name of the file."""
    if job.transcript is None:
        return []
    with replacing(job.transcript) as stream:
        if isinstance(run, Run):
            from ..transcript.file import write_events

            write_events(stream, run.events, seed=job.options.output.seed)
        elif isinstance(run, PooledCounts):
            stream.write(run.published.to_bytes())
    return [str(job.transcript)]


def without(options: dict[str, Any], *names: str) -> dict[str, Any]:
    """The other options."""
    return {name: value for name, value in options.items() if name not in names}


def _check_trust(promise: Promise) -> None:
    """Refuse options of another answer to: whom do the participants trust?"""
    given = task_options(promise, promise.cells)
    wrong = [f"--{name.replace('_', '-')}" for name in given if name not in _POOLED]
    if promise.trust != "nobody" and wrong:
        raise InvalidInput(
            f"{', '.join(wrong)}: not with --trust {promise.trust}, which promises plain differential privacy without "
            "regions and crowds; leave it out, or take --trust nobody"
        )


def _column(value: OwnValue, table: Table) -> Column:
    """The column of a table; refuses a value outside the public range, with its place in the file."""
    ((name, numbers),) = table.values.items()
    outside = (numbers < value.low) | (numbers > value.high)
    if outside.any():
        raise InvalidInput(
            f"{table.path}, {table.place(int(np.argmax(outside)))}: --value {name} is outside --range "
            f"{value.low:g},{value.high:g}; remove such rows, cut their values, or state a wider range (the noise "
            "grows with it)"
        )
    return Column(name, numbers, value.low, value.high)


def _domain(bounds: str, table: Table) -> tuple[Box, AnyTree | None]:
    if bounds != "data":
        return named_domain(bounds, table.names)
    low, high = table.points.min(axis=0), table.points.max(axis=0)
    box = Box(tuple(low), tuple(np.where(high > low, high, low + 1.0)), names=table.names)
    warnings.warn(
        f"--bounds data publishes the outermost positions, {box}, without any protection; name a public box",
        UserWarning,
        stacklevel=2,
    )
    return box, None
