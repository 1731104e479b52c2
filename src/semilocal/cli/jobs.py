"""What the job commands (partition, counts, mean, points) have in common: from what was typed to a job, and its result.

A command gives :func:`run_job` a function from a :class:`Request` to an :class:`Outcome`. Knows options, files, words.
Computes nothing itself: :class:`semilocal.release.job.Job` does.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ..engines.source import Source
from ..errors import InvalidInput
from ..functions import BoundedFunction
from ..geometry.box import Box
from ..geometry.places import as_box
from ..hierarchy import AnyTree
from ..io.basemap import read_basemap
from ..io.files import check_outputs, replacing
from ..io.plots import PICTURES, need_matplotlib, save_picture
from ..io.points import Table, choose_columns, fit, read_located, read_points
from ..io.queries import Asked
from ..io.trees import read_tree
from ..pooled.play import Published
from ..protocol.column import Column
from ..protocol.promise import Guarantee
from ..protocol.promise_words import FROM_DATA
from ..release.counts import AnyRun
from ..release.job import Done, Job, Question
from ..simulation.person_columns import person_columns
from ..simulation.simulate import Run
from ..words import number_of
from .arguments import named_domain
from .catalogue import DONE
from .engines import OwnValue, open_rows, position_columns, streams_rows
from .job_options import JobOptions, MapFiles, PageFiles, Promise, task_options
from .people import person_labels, row_owners

__all__ = [
    "HTML", "REGIONS", "TRANSCRIPT", "Function", "Outcome", "OwnValue", "Request", "check_basemap", "map_outputs",
    "run_job", "write_maps", "write_transcript",
]  # fmt: skip

REGIONS = (".geojson", ".csv", ".parquet")
HTML = (".html",)
TRANSCRIPT = (".slt",)
_POOLED = ("epsilon", "resolution")  # options of a task that do not need trust nobody
Function = Callable[[Box, AnyTree | None], BoundedFunction]


@dataclass(frozen=True, eq=False)
class Request:
    """A job as it was typed, ready to be run.

    Attributes
    ----------
    file : Path
        Where the positions are from.
    promise : Promise
    options : JobOptions
    transcript : Path or None
        Where all that was published goes.
    box : Box
    tree : hierarchy or None
        Where the domain is more than a box.
    streamed : bool
        Whether an engine has the rows.
    shown : float64[n, 2] or None
        The positions, if they are public and pictures may show them.
    waiting : list of Job
        The job. Running takes it out: the answers need the memory of its rows.
    """

    file: Path
    promise: Promise
    options: JobOptions
    transcript: Path | None
    box: Box
    tree: AnyTree | None
    streamed: bool
    shown: Any
    waiting: list[Job]

    @property
    def counted_in(self) -> str:
        """What is counted: participants, or rows where a person may have several."""
        return self.options.people.counted_in

    @property
    def pooled(self) -> bool:
        """Whether the participants trust somebody."""
        return self.promise.trust != "nobody"

    def run(self, **changes: Any) -> Done:
        """Run it, with changes of its fields."""
        with self.options.output.step("counting" if self.pooled else "rounds played") as step:
            job = replace(self.waiting.pop(), progress=lambda *_: step.advance(), **changes)
            return replace(job.run(), data=None)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a job found.

    Attributes
    ----------
    done : Done
        What it rests on.
    found : dict
        For JSON.
    words : list of str
        For people.
    table : str
        Goes to stdout by itself; the words then go to stderr.
    """

    done: Done
    found: dict[str, Any]
    words: list[str]
    table: str = field(default="", repr=False)


def run_job(
    command: str,
    file: Path,
    promise: Promise,
    options: JobOptions,
    work: Callable[[Request], Outcome],
    *,
    question: Question = "counts",
    about: OwnValue | Function | None = None,
    outputs: Mapping[str, tuple[Path | None, Sequence[str]]] | None = None,
    inputs: Sequence[Path | None] = (),
    transcript: Path | None = None,
    only_counted: bool = False,
) -> int:
    """Check the outputs, read the positions, do the work, and say what came out and what it cost.

    With ``only_counted`` the deepest cells of the positions are enough where somebody is trusted.
    """
    outputs = {**(outputs or {}), "--transcript": (transcript, TRANSCRIPT)}
    check_outputs(outputs, inputs=[file, *inputs])
    _check_promise(promise, options)
    rng = None if options.output.seed is None else np.random.default_rng(options.output.seed)
    value = about if isinstance(about, OwnValue) else None
    rows = _read(file, promise, options, value, rng or np.random.default_rng(), only_counted=only_counted)
    job = Job(
        question=question, data=rows.data, f=about(rows.box, rows.tree) if callable(about) else rows.column,
        trust=promise.trust, epsilon=promise.epsilon, delta=promise.delta, k=promise.k, cap=promise.cap, rng=rng,
        users=rows.users, rows=options.people.rows_each, seed=options.output.seed, keyed=transcript is not None,
        **_domain_of(promise, rows.box, rows.tree),
    )  # fmt: skip
    request = Request(
        file, promise, options, transcript, rows.box, rows.tree, isinstance(rows.data, Source), rows.shown, [job]
    )  # fmt: skip
    del rows, job
    tables = (".csv", *TRANSCRIPT, *([".parquet"] if command == "points" else []))
    for option, (path, _) in outputs.items():
        if path is not None and path.suffix.lower() not in tables and request.box.dimensions != 2:
            raise InvalidInput(
                f"{option} {path}: maps and pictures need two dimensions, the positions have "
                f"{request.box.dimensions}; write .csv"
            )
    _tell(command, request, work(request))
    return DONE


def _check_promise(promise: Promise, options: JobOptions) -> None:
    """Refuse options of another answer to: whom do the participants trust? And extremes that are not public."""
    given = task_options(promise, promise.cells)
    wrong = [f"--{name.replace('_', '-')}" for name in given if name not in _POOLED]
    if promise.trust != "nobody" and wrong:
        raise InvalidInput(
            f"{', '.join(wrong)}: not with --trust {promise.trust}, which promises plain differential privacy without "
            "regions and crowds; leave it out, or take --trust nobody"
        )
    if promise.bounds != "data":
        if read_tree(promise.bounds) is None:
            as_box(promise.bounds)  # a name that is none is refused before the file is read
    elif not options.data.public_data:
        raise InvalidInput(
            "--bounds data publishes the outermost positions without any protection; name a public box, or say "
            "--public-data if all positions are public anyway"
        )


# -- reading -----------------------------------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """What a file holds: the rows and their domain, people's own values, whose row each is, what may be drawn."""

    data: Any
    box: Box
    tree: AnyTree | None
    column: Column | None = None
    users: Any = None
    shown: Any = None


def _read(
    file: Path, promise: Promise, options: JobOptions, value: OwnValue | None, draws: np.random.Generator, *,
    only_counted: bool,
) -> _Rows:  # fmt: skip
    """Read the positions, and a column of values if one is asked for."""
    data, people, bounds = options.data, options.people, promise.bounds
    if streams_rows(file, bounds, options):
        source, tree, own = open_rows(file, bounds, options, draws, value)
        return _Rows(source, source.box, tree, own)
    columns, leaves = position_columns(bounds, data)
    if only_counted and leaves is None and (located := _read_located(file, promise, options, columns)):
        return located
    names, labels = () if value is None else (value.name,), person_labels(people)
    with options.output.step(f"reading {file.name}"):
        table = read_points(file, x=data.x, y=data.y, columns=columns, values=names, labels=labels, words=leaves)
    column = None if value is None else _column(value, table)
    box, tree = _domain(bounds, table)
    points, clipped = fit(table, box, clip=data.clip)
    if data.clip:  # whether anybody was outside is not public
        what = f"moved {clipped:,} of {len(table):,} positions" if data.public_data else "moves positions outside"
        warnings.warn(f"--clip {what} to the edge of {box}", UserWarning, stacklevel=2)
    users = row_owners(people, table, pooled=promise.trust != "nobody")
    return _Rows(points, box, tree, column, users, points if data.public_data else None)


def _read_located(file: Path, promise: Promise, options: JobOptions, columns: list[str] | None) -> _Rows | None:
    """Cells in place of positions; None if these are needed, to choose rows or to say what is wrong."""
    people, data = options.people, options.data
    if promise.trust == "nobody" or data.clip or promise.bounds == "data" or not file.is_file():
        return None
    names, _, others = choose_columns(file, x=data.x, y=data.y, columns=columns)
    if people.user is not None or (person_columns(others) and not people.rows_are_people):
        return None
    person_labels(people)  # refuses options that do not fit
    box, tree = named_domain(promise.bounds, tuple(names))
    asked = _domain_of(promise, box, tree)
    planned = Job(question="counts", data=None, epsilon=promise.epsilon, trust=promise.trust, **asked).planned()
    with options.output.step(f"reading {file.name}"):
        located = read_located(file, names, planned.hierarchy)
    return None if located is None else _Rows(located, box, tree)


def _domain_of(promise: Promise, box: Box, tree: AnyTree | None) -> dict[str, Any]:
    """Where people may be and how regions are made, as a job has it."""
    options = task_options(promise.cells)
    return {"box": box, "options": options} if tree is None else {"options": options | {"hierarchy": tree}}


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


# -- writing and telling -----------------------------------------------------------------------------------------------


def map_outputs(files: PageFiles) -> dict[str, tuple[Path | None, Sequence[str]]]:
    """The files of maps with their endings; refuses what cannot be drawn before anything is read."""
    check_basemap(files.html, files.basemap)
    plot = files.plot if isinstance(files, MapFiles) else None
    if plot is not None:
        need_matplotlib()
    return {"--plot": (plot, PICTURES), "--html": (files.html, HTML)}


def check_basemap(html: Path | None, basemap: Path | None) -> None:
    """Refuse a base map that nothing is drawn on, and one that cannot be read, before anything is written."""
    if basemap is None:
        return
    if html is None:
        raise InvalidInput("--basemap: is drawn behind the map of --html; give both")
    read_basemap(basemap)


def write_maps(
    request: Request, files: PageFiles, done: Done, *, asked: Sequence[Asked] = (),
    numbers: Mapping[str, str] | None = None,
) -> list[str]:  # fmt: skip
    """Write the maps of --plot and --html, with questions and numbers that were asked for; the names of the files."""
    title = f"{request.file.name}: {done.result.total:,} {request.counted_in}, trust {request.promise.trust}, "
    title += f"epsilon = {request.promise.epsilon:g}"
    plot = files.plot if isinstance(files, MapFiles) else None
    if plot is not None:
        what = f"{number_of(len(asked), 'question')}" if asked else number_of(len(done.result.partition), "region")
        save_picture(done.result.partition, plot, points=request.shown, title=f"{title}\n{what}", asked=asked)
    if files.html is not None:
        from ..page.single import write_html

        write_html(
            files.html, done.run if isinstance(done.run, Run) else done.result, _promised(request, done), title=title,
            numbers={request.counted_in: f"{done.result.total:,}", **(numbers or {})}, basemap=files.basemap,
            asked=asked,
        )  # fmt: skip
    return [str(path) for path in (plot, files.html) if path is not None]


def write_transcript(request: Request, done: Done) -> list[str]:
    """Write all that was published, for ``semilocal verify``; the name of the file."""
    if request.transcript is None:
        return []
    with replacing(request.transcript) as stream:
        if isinstance(done.run, Run):
            from ..transcript.file import write_events

            write_events(stream, done.run.events, seed=request.options.output.seed)
        elif isinstance(done.run, Published):
            stream.write(done.run.to_bytes())
    return [str(request.transcript)]


def _promised(request: Request, done: Done) -> Guarantee:
    """What is promised to a person, who may have several rows."""
    found: Guarantee = done.result.guarantee
    if request.promise.bounds != "data":
        return found
    return msgspec.structs.replace(found, notes=(*found.notes, FROM_DATA))


def _participants(done: Done) -> int:
    found: int = (done.run if isinstance(done.run, AnyRun) else done.result).participants
    return found


def _tell(command: str, request: Request, outcome: Outcome) -> None:
    """Print results and promise: as one JSON object, or in words; the whole statement if it is asked for."""
    output, done = request.options.output, outcome.done
    promised, seed = _promised(request, done), output.seed
    if output.json:
        everything = {"command": command, request.counted_in: _participants(done), **outcome.found}
        everything |= {"privacy": promised.to_json(), "simulation": done.result.simulated, "seed": seed}
        print(json.dumps(everything))
        return
    lines = list(outcome.words)
    if seed is not None:
        lines.insert(0, f"Seed {seed} makes the noise repeatable, so it protects nobody.")
    if output.explain:
        lines += ["", promised.explain(), "", str(done.result.spent)]
    else:
        lines.append(f"Promised: {promised.sentence()}")
        if FROM_DATA in promised.notes:
            lines.append(FROM_DATA)
        if promised.rows > 1:
            lines.append(f"One person may have {promised.rows} rows: the losses are for all of them together.")
        lines.append("The whole statement: --explain.")
    print("\n".join(lines), file=sys.stderr if outcome.table else sys.stdout, flush=True)
    print(outcome.table, end="")
