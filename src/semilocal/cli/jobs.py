"""What the job commands (partition, counts, mean, points) have in common: options, positions, people, the run.

A job command adds its own options, and gives :func:`run_job` a function from a :class:`Job` to an
:class:`~semilocal.cli.output.Outcome`. Knows arguments and files. Computes nothing itself.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import release
from ..accounting import Ledger
from ..arrays import Floats, exact
from ..errors import InvalidInput
from ..geometry.box import Box
from ..geometry.places import LATITUDE, LONGITUDE
from ..io.files import check_outputs, replacing
from ..io.points import Table, read_points
from ..io.positions import fit
from ..io.progress import Progress
from ..pooled.task import PooledTask
from ..protocol.task import Task
from ..release import split
from ..release.count_release import CountsRelease
from ..release.pooled_counts import PooledCounts, pooled_counts, run_pooled
from ..release.whom import TRUSTS, crowd_of, pooled_options
from ..simulation.population import Detail
from ..simulation.run import Run
from ..simulation.simulate import simulate
from . import people
from .arguments import BOX_HELP, add_seed, add_trust, number, parse_box, task_options
from .exits import DONE
from .output import Outcome, promise_to_people, tell, trim_limit_advice

__all__ = [
    "HTML", "REGIONS", "TRANSCRIPT", "Job", "add_arguments", "add_html_arguments", "progress", "run_job", "without",
    "write_map", "write_transcript",
]  # fmt: skip

REGIONS = (".geojson", ".csv")
HTML = (".html",)
TRANSCRIPT = (".slt",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of every job."""
    data = parser.add_argument_group("positions")
    data.add_argument("file", metavar="FILE", type=Path, help="positions: .csv, .csv.gz, .parquet or .geojson")
    data.add_argument("--x", metavar="COLUMN", help="column of the first axis (longitude)")
    data.add_argument("--y", metavar="COLUMN", help="column of the second axis (latitude)")
    data.add_argument("--columns", metavar="A,B,C", help="columns of positions with other than two dimensions")
    data.add_argument(
        "--bounds", metavar="BOX", help=f"the public domain, required: {BOX_HELP}; 'data' publishes the extremes"
    )
    data.add_argument("--clip", action="store_true", help="move positions outside the box to its edge, at most a tenth")
    people.add_arguments(data)
    data.add_argument(
        "--public-data",
        action="store_true",
        help="the positions are public: exact shares of moved people may be printed",
    )
    promise = parser.add_argument_group("promise")
    add_trust(promise)
    promise.add_argument("--cap", type=number(0), metavar="EPSILON", help="refuse if anybody could lose more")
    output = parser.add_argument_group("output")
    add_seed(output, "repeatable noise, which protects nobody; else the system's randomness")
    output.add_argument("--json", action="store_true", help="one JSON object on stdout")
    output.add_argument("--quiet", action="store_true", help="no progress on stderr")


@dataclass(frozen=True, eq=False)
class Job:
    """Positions in their domain, and what was asked.

    Attributes
    ----------
    args : Namespace
    points : float64[n, d]
        One row per participant.
    box : Box
    rng : numpy.random.Generator
    """

    args: argparse.Namespace
    points: Floats
    box: Box
    rng: np.random.Generator

    @classmethod
    def read(cls, args: argparse.Namespace) -> Job:
        """Read the positions and draw the rows that stand for people."""
        if args.trust not in TRUSTS:
            known = "; ".join(f"{name}: {words}" for name, words in TRUSTS.items())
            got = "it is missing" if args.trust is None else f"got {args.trust!r}"
            raise InvalidInput(f"--trust must say whom the participants trust; {got}. Take one of {known}")
        if args.trust != "nobody":
            options = task_options(args)
            pooled_options(args.trust, options.pop("delta", None), options.pop("k", None), without(options, "epsilon"))
        if args.bounds is None:
            raise InvalidInput(
                "--bounds is missing: name a public box, such as --bounds world, --bounds california or "
                "--bounds -10,-10,10,10; it is never taken from the data in silence, because that would leak"
            )
        rng = np.random.default_rng(args.seed)  # without a seed it is drawn from the operating system
        columns = args.columns.split(",") if args.columns else None
        table = read_points(args.file, x=args.x, y=args.y, columns=columns, labels=people.person_labels(args))
        box = _domain(args, table)
        points, clipped = fit(table, box, clip=args.clip)
        if clipped:
            count = f"{clipped:,} of {len(table):,}" if args.public_data else "some"
            warnings.warn(f"--clip moved {count} positions to the edge of {box}", UserWarning, stacklevel=2)
        return cls(args, points[people.chosen_rows(args, table, rng)], box, rng)

    @property
    def pooled(self) -> bool:
        """Whether the participants trust somebody."""
        return bool(self.args.trust != "nobody")

    @property
    def noise_rng(self) -> np.random.Generator | None:
        """The generator of seeded noise; None for the operating system's."""
        return None if self.args.seed is None else self.rng

    @property
    def cap(self) -> float | None:
        """The most that one participant may lose; a person may be several."""
        return None if self.args.cap is None else self.args.cap / self.args.rows_per_user

    @property
    def task_options(self) -> dict[str, Any]:
        """Options of ``Task.build``, with their defaults."""
        return crowd_of(None, None) | task_options(self.args)

    def pooled_task(self) -> PooledTask:
        """The task where somebody is trusted."""
        args = self.args
        return PooledTask.build(
            self.box, epsilon=args.epsilon, trust=args.trust, resolution=args.resolution, max_reports=args.rows_per_user
        )

    def counted(self) -> tuple[Run | PooledCounts, CountsRelease | PooledCounts]:
        """Counts, and what they come from; all of epsilon goes to the map."""
        args = self.args
        if not self.pooled:
            run, ledger = self.partition()
            return run, release.counts(run, ledger=ledger)
        task = self.pooled_task()
        cost = Ledger(cap=None if args.cap is None else exact(args.cap)).pooled(task)  # refuses before counting
        result = pooled_counts(run_pooled(task, self.points, rng=self.noise_rng), ledger=cost)
        return result, result

    def partition(self) -> tuple[Run, Ledger]:
        """Find the regions; all of epsilon goes to them."""
        args = self.args
        task = Task.build(self.box, **self.task_options)
        detail: Detail = "tallies" if args.transcript is None else "reports"  # a transcript has every report
        ledger = Ledger.of(task, cap=self.cap)  # refuses before anybody is asked
        with progress(args) as advance:
            return simulate(self.points, task, rng=self.rng, detail=detail, progress=advance), ledger

    def partition_for_values(self) -> tuple[Run, split.Split, Ledger]:
        """Find the regions with a part of epsilon; the rest is for values."""
        args = self.args
        with progress(args) as advance:
            return split.partition_for_values(
                self.points, self.box, rng=self.rng, cap=self.cap, progress=advance, **self.task_options
            )


def run_job(
    args: argparse.Namespace,
    work: Callable[[Job], Outcome],
    *,
    outputs: Mapping[str, tuple[Path | None, Sequence[str]]] | None = None,
    inputs: Sequence[Path | None] = (),
) -> int:
    """Check the outputs, read the positions, do the work, and say what came out and what it cost."""
    check_outputs(outputs or {}, inputs=[args.file, *inputs])
    job = Job.read(args)
    for option, (path, _) in (outputs or {}).items():
        if path is not None and path.suffix.lower() not in (".csv", *TRANSCRIPT) and job.box.dimensions != 2:
            raise InvalidInput(
                f"{option} {path}: maps and pictures need two dimensions, the positions have {job.box.dimensions}; "
                "write .csv"
            )
    outcome = work(job)
    if isinstance(outcome.run, Run) and (advice := trim_limit_advice(outcome.run)):
        warnings.warn(advice, UserWarning, stacklevel=2)
    tell(args, outcome)
    return DONE


@contextmanager
def progress(args: argparse.Namespace) -> Iterator[Callable[[int, int], None]]:
    """A line on stderr that counts rounds."""
    bar = Progress(None, "rounds played", show=not (args.quiet or args.json))
    try:
        yield lambda _round, _cells: bar.advance()
    except BaseException:
        bar.close(failed=True)
        raise
    bar.close(failed=False)


def add_html_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the map in one file."""
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write an interactive map, one file that needs no net"
    )
    parser.add_argument(
        "--basemap", type=Path, metavar="FILE", help="lines behind the map of --html, GeoJSON; else the coast"
    )


def write_map(job: Job, run: Run | PooledCounts, result: CountsRelease | PooledCounts) -> list[str]:
    """Write the map of --html; the name of the file."""
    args = job.args
    if args.html is None:
        if args.basemap is not None:
            raise InvalidInput("--basemap: is drawn behind the map of --html; give both")
        return []
    from ..page.single import write_html

    numbers = {"participants": f"{result.total:,}", "regions": f"{len(result.partition):,}"}
    write_html(
        args.html, run if isinstance(run, Run) else result.partition, promise_to_people(args, run, result.spent),
        title=f"{args.file.name}, trust {args.trust}", numbers=numbers, basemap=args.basemap,
    )  # fmt: skip
    return [str(args.html)]


def write_transcript(path: Path | None, run: Run | PooledCounts) -> list[str]:
    """Write all that was published, for ``semilocal verify``; the name of the file."""
    if path is None:
        return []
    with replacing(path) as stream:
        if isinstance(run, Run):
            from ..transcript.file import write_events

            write_events(stream, run.events)
        else:
            stream.write(run.published.to_bytes())
    return [str(path)]


def without(options: dict[str, Any], *names: str) -> dict[str, Any]:
    """The other options."""
    return {name: value for name, value in options.items() if name not in names}


def _domain(args: argparse.Namespace, table: Table) -> Box:
    if args.bounds != "data":
        box = parse_box(args.bounds, names=table.names)
        first, second = (name.lower() for name in (*table.names, "", "")[:2])
        if "," not in args.bounds and first in LATITUDE and second in LONGITUDE:
            raise InvalidInput(
                f"the axes are swapped: --bounds {args.bounds} has longitude first, and the first column is "
                f"{table.names[0]!r}. Exchange --x and --y"
            )
        return box
    low, high = table.points.min(axis=0), table.points.max(axis=0)
    box = Box(tuple(low), tuple(np.where(high > low, high, low + 1.0)), names=table.names)
    warnings.warn(
        f"--bounds data publishes the outermost positions, {box}, without any protection; name a public box",
        UserWarning,
        stacklevel=2,
    )
    return box
