"""What the job commands (partition, counts, mean, points) share: a file and what is promised, a run, what is said.

A command calls :meth:`FileJob.open`, which reads the first line of the file alone and refuses all that does not depend
on the rows. It prepares its question, runs, writes, and tells. Rows are read into memory, or streamed by an engine
where they are too many. Computes nothing itself: :class:`semilocal.release.job.Job` does.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from glob import has_magic
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Integers
from ..engines import open_source
from ..engines.arrow import ArrowSource
from ..engines.files import PARQUET, list_files
from ..errors import InvalidInput
from ..functions import BoundedFunction
from ..geometry.box import Box
from ..hierarchy import AnyTree
from ..io.files import check_outputs, replacing
from ..io.plots import PICTURES, need_matplotlib, save_picture
from ..io.points import choose_columns, fit, read_located, read_points
from ..io.queries import Asked
from ..io.trees import label_tree
from ..pooled.play import Published
from ..protocol.column import Column, stored_column
from ..release.counts import AnyRun
from ..release.job import Done, Job, Question
from ..simulation.people import (
    COMMAND,
    check_rows_are_people,
    count_filled,
    draw_key,
    person_columns,
    refuse_content_as_person,
    refuse_person_columns,
)
from ..simulation.simulate import Run
from ..words import number_of
from .arguments import named_domain
from .catalogue import DONE
from .job_options import JobOptions, MapFiles, PositionOptions, Promise, task_options

__all__ = ["REGIONS", "FileJob", "FileRows", "OwnValue", "check_maps", "open_rows"]

REGIONS = (".geojson", ".csv", ".parquet")
_POOLED = ("epsilon", "resolution")  # options of a task that do not need trust nobody
_STREAMED = (*PARQUET, ".csv", ".csv.gz")
_IN_MEMORY = 1 << 29  # bytes of a file that is read into memory if nobody says otherwise


class OwnValue(NamedTuple):
    """A column of values that belong to people, and its public range."""

    name: str
    low: float
    high: float


class Rows(NamedTuple):
    """What a file holds: how many rows, those that may stand for people, their own values, and whose row each is."""

    total: int
    data: Any
    column: Column | None = None
    users: Integers | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class FileRows:
    """A file whose first line was read."""

    file: Path
    options: JobOptions
    names: Sequence[str]  # the columns of positions
    others: Sequence[str]  # and the rest
    box: Box
    tree: AnyTree | None  # where the domain is more than a box
    leaves: Mapping[str, float] | None  # the numbers that stand for positions, where these are labels
    value: OwnValue | None  # as the file spells it
    streamed: bool  # whether an engine reads the rows

    def read(self, draws: np.random.Generator, *, pooled: bool, codes_of: AnyTree | None = None) -> Rows:
        """The rows; ``pooled`` says that somebody is trusted, ``draws`` chooses rows of people in an engine.

        With ``codes_of`` the deepest cells in this tree are enough, if nothing needs positions.
        """
        people = self.options.people
        with self.options.output.step(f"reading {self.file.name}"):
            if self.streamed:
                return self._streamed(draws)
            suspect = person_columns(self.others) and not people.rows_are_people  # rows may be refused by their owners
            if codes_of is not None and not (self.leaves or self.options.data.clip or people.user or suspect):
                located = read_located(self.file, self.names, codes_of)
                if located is not None:
                    return Rows(len(located), located)
            return self._in_memory(pooled)

    def _in_memory(self, pooled: bool) -> Rows:
        people, value, clip = self.options.people, self.value, self.options.data.clip
        labels = person_columns(self.others) if people.user is None else [people.user]
        table = read_points(
            self.file, columns=self.names, values=() if value is None else (value.name,),
            labels=() if people.rows_are_people else labels, words=self.leaves,
        )  # fmt: skip
        content, owners, column = [*table.names, *table.values], None, None
        if people.user is None:
            filled = {name: count_filled(codes) for name, codes in table.labels.items() if name not in content}
            check_rows_are_people(table.path, filled, COMMAND._replace(pooled=pooled))
        else:
            (owners,) = table.labels.values()
            if (owners < 0).any():
                place = table.place(int(np.argmax(owners < 0)))
                raise InvalidInput(f"{table.path}, {place}: --user column {people.user!r} is empty; remove such rows")
        if value is not None:
            numbers = table.values[value.name]
            outside = (numbers < value.low) | (numbers > value.high)
            if outside.any():
                raise InvalidInput(
                    f"{table.path}, {table.place(int(np.argmax(outside)))}: --value {value.name} is outside --range "
                    f"{value.low:g},{value.high:g}; remove such rows, cut their values, or state a wider range (the "
                    "noise grows with it)"
                )
            column = Column(value.name, numbers, value.low, value.high)
        if clip:  # whether anybody was outside is not public
            warnings.warn(f"--clip moves positions outside to the edge of {self.box}", UserWarning, stacklevel=3)
        return Rows(len(table), fit(table, self.box, clip=clip), column, owners)

    def _streamed(self, draws: np.random.Generator) -> Rows:
        people, value = self.options.people, self.value
        if people.user is None and not people.rows_are_people:
            content = (*self.names, *(() if value is None else (value.name,)))
            for path in list_files(self.file):  # a later file may say whose row it is where the first does not
                others = [name for name in choose_columns(path, columns=[])[2] if name not in content]
                refuse_person_columns(path, others, COMMAND)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: temporary files hold rows
        source = open_source(
            self.file, self.names, self.box, person=people.user, rows_per_person=people.rows_per_user,
            key=0 if people.user is None else draw_key(draws), values=() if value is None else (value.name,),
            rows_are_people=people.user is None,
        )  # fmt: skip
        assert isinstance(source, ArrowSource)
        if not source.count():
            raise InvalidInput(f"{self.file}: has no rows; there must be at least one position")
        if value is None:
            return Rows(source.rows_in_all, source)
        source.check_value(*value)
        return Rows(source.rows_in_all, source, stored_column(value.name, (value.low, value.high)))


def open_rows(file: Path, bounds: str, options: JobOptions, value: OwnValue | None = None) -> FileRows:
    """Read the names of the columns, and the domain that ``bounds`` names; refuse options that do not fit."""
    data, people = options.data, options.people
    if people.user is not None and people.rows_are_people:
        raise InvalidInput("give --user or --rows-are-people, not both")
    if people.user is None and people.rows_per_user != 1:
        raise InvalidInput("--rows-per-user needs --user COLUMN, which says whose row it is")
    tree = label_tree(bounds)
    streamed = _streams(file, data, labels=tree is not None)
    first = list_files(file)[0] if streamed else file
    columns = data.columns.split(",") if data.columns is not None else None if tree is None else [tree.name]
    names, own, every = choose_columns(first, columns=columns, values=() if value is None else (value.name,))
    others = [name for name in every if name not in (*names, *own)]
    if people.user is not None:
        refuse_content_as_person(people.user, [*names, *own], COMMAND)
    box, domain = named_domain(bounds, names)
    if people.user is not None:
        looks = [name for name in person_columns(others) if name.lower() != people.user.lower()]
        there = any(name.lower() == people.user.lower() for name in every)  # else it is refused as soon as it is read
        if looks and there and not person_columns([people.user]):
            warnings.warn(
                f"--user {people.user!r}: column {looks[0]!r} looks like a person, too; a person with several "
                f"{people.user!r} loses epsilon for each of them and fills a crowd alone",
                UserWarning,
                stacklevel=2,
            )
    return FileRows(
        file=file, options=options, names=names, others=others, box=box, tree=domain,
        leaves=None if tree is None else tree.leaves, value=None if value is None else value._replace(name=own[0]),
        streamed=streamed,
    )  # fmt: skip


def _streams(file: Path, data: PositionOptions, *, labels: bool) -> bool:
    """Whether rows are streamed, which "auto" does for large files and folders."""
    several = file.is_dir() or (not file.exists() and has_magic(str(file)))
    if (data.clip or labels) and (several or data.engine == "arrow"):
        what = "--clip needs all positions in memory; leave it out, or" if data.clip else "labels are read in memory;"
        raise InvalidInput(f"{what} take --engine memory and one file")
    if data.engine != "auto" or data.clip or labels or several:
        return data.engine == "arrow" or (several and data.engine == "auto")
    streamed = file.exists() and str(file).lower().endswith(_STREAMED) and find_spec("pyarrow") is not None
    return streamed and file.stat().st_size > _IN_MEMORY


# -- the job -----------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class FileJob:
    """A job as it was typed. Its domain is known, its rows are not read yet."""

    command: str
    promise: Promise
    options: JobOptions
    rows: FileRows
    out: Path | None  # where the answer goes
    maps: MapFiles
    transcript: Path | None  # where all that was published goes
    counted: str = ""  # who was counted, in words; empty before the run

    @classmethod
    def open(
        cls, command: str, file: Path, promise: Promise, options: JobOptions, maps: MapFiles, *,
        out: Path | None = None, endings: Sequence[str] = (), transcript: Path | None = None,
        inputs: Sequence[Path | None] = (), value: OwnValue | None = None,
    ) -> FileJob:  # fmt: skip
        """Check outputs and options, and read the first line of the file."""
        outputs = {"--out": (out, endings), "--transcript": (transcript, (".slt",))}
        check_maps(maps, outputs, inputs=[file, *inputs])
        wrong = [name for name in task_options(promise, promise.cells) if name not in _POOLED]
        if promise.trust != "nobody" and wrong:
            raise InvalidInput(
                f"{', '.join(f'--{name}' for name in wrong)}: not with --trust {promise.trust}, which promises plain "
                "differential privacy without regions and crowds; leave it out, or take --trust nobody"
            )
        job = cls(command, promise, options, open_rows(file, promise.bounds, options, value), out, maps, transcript)
        job._job("counts").planned()  # refuses
        drawn = {"--out": out, "--plot": maps.plot, "--html": maps.html}
        for option, path in drawn.items() if job.box.dimensions != 2 else ():
            if path is not None and path.suffix.lower() != ".csv":
                raise InvalidInput(
                    f"{option} {path}: maps and pictures need two dimensions, the positions have "
                    f"{job.box.dimensions}; write .csv"
                )
        return job

    @property
    def box(self) -> Box:
        """The public domain."""
        return self.rows.box

    @property
    def pooled(self) -> bool:
        """Whether the participants trust somebody."""
        return self.promise.trust != "nobody"

    def run(
        self, question: Question = "counts", f: BoundedFunction | None = None, *, only_counted: bool = False,
        **changes: Any,
    ) -> Done:  # fmt: skip
        """Read the rows and run. With ``only_counted`` their deepest cells are enough where somebody is trusted."""
        job = self._job(question)
        cells = job.planned().hierarchy if only_counted and self.pooled else None
        rows = self.rows.read(job._draws, pooled=self.pooled, codes_of=cells)
        with self.options.output.step("counting" if self.pooled else "rounds played") as step:
            job = replace(
                job, data=rows.data, f=f or rows.column, users=rows.users, progress=lambda *_: step.advance(), **changes
            )
            done = replace(job.run(), data=None)  # the answers need the memory of the rows
        several, people = self.options.people.rows_per_user, _participants(done)
        self.counted = number_of(people, "person", "people")
        if several > 1:
            self.counted = f"{number_of(people, 'row')}, up to {several} of each person, of {rows.total:,}"
        elif self.options.people.user:
            self.counted += f", one row each of {rows.total:,}"
        return done

    def _job(self, question: Question) -> Job:
        promise, seed = self.promise, self.options.output.seed
        cells = task_options(promise.cells) | ({} if self.rows.tree is None else {"hierarchy": self.rows.tree})
        return Job(
            question=question, data=None, box=self.box if self.rows.tree is None else None, trust=promise.trust,
            epsilon=promise.epsilon, delta=promise.delta, k=promise.k, rows=self.options.people.rows_per_user,
            seed=seed, keyed=self.transcript is not None, options=cells,
            rng=None if seed is None else np.random.default_rng(seed),
        )  # fmt: skip

    # -- writing and telling -----------------------------------------------------------------------------------

    def write(self, done: Done, *, asked: Sequence[Asked] = (), numbers: Mapping[str, str] | None = None) -> list[str]:
        """Write the maps, with questions and numbers, and the transcript; the names of all files."""
        result, rows, maps = done.result, self.options.people.rows_per_user > 1, self.maps
        people = "rows" if rows else "participants"
        title = f"{self.rows.file.name}: {result.total:,} {people}, trust {self.promise.trust}, "
        title += f"epsilon = {self.promise.epsilon:g}"
        if maps.plot is not None:
            what = f"{number_of(len(asked), 'question')}" if asked else number_of(len(result.partition), "region")
            save_picture(result.partition, maps.plot, title=f"{title}\n{what}", asked=asked)
        if maps.html is not None:
            from ..page.single import write_html

            write_html(
                maps.html, done.run if isinstance(done.run, Run) else result, result.guarantee, title=title,
                numbers={people: f"{result.total:,}", **(numbers or {})}, asked=asked,
            )  # fmt: skip
        if self.transcript is not None:
            with replacing(self.transcript) as stream:
                if isinstance(done.run, Published):
                    stream.write(done.run.to_bytes())
                else:
                    from ..transcript.file import write_events

                    write_events(stream, done.run.events, seed=self.options.output.seed)
        return [str(path) for path in (self.out, maps.plot, maps.html, self.transcript) if path is not None]

    def tell(self, done: Done, found: dict[str, Any], words: Sequence[str], *, table: str = "", files: Any = ()) -> int:
        """Print results and promise: as one JSON object, or in words, on stderr if a table goes to stdout."""
        output, promised = self.options.output, done.result.guarantee
        found |= {"files": files} if files else {}
        if output.json:
            people = {"rows" if promised.rows > 1 else "participants": _participants(done)}
            promise = {"privacy": promised.to_json(), "simulation": done.result.simulated, "seed": output.seed}
            print(json.dumps({"command": self.command, **people, **found, **promise}))
            return DONE
        lines = [*words, *(f"wrote {path}" for path in files)]
        if output.seed is not None:
            lines.insert(0, f"Seed {output.seed} makes the noise repeatable, so it protects nobody.")
        if output.explain:
            lines += ["", promised.explain(), "", str(done.result.spent)]
        else:
            lines.append(f"Promised: {promised.sentence()}")
            if promised.rows > 1:
                lines.append(f"One person may have {promised.rows} rows: the losses are for all of them together.")
            lines.append("The whole statement: --explain.")
        print("\n".join(lines), file=sys.stderr if table else sys.stdout, flush=True)
        print(table, end="")
        return DONE


def check_maps(
    maps: MapFiles, outputs: Mapping[str, tuple[Path | None, Sequence[str]]], *, inputs: Sequence[Path | None]
) -> None:
    """Refuse outputs that cannot be written, and maps that cannot be drawn, before anything is read."""
    if maps.plot is not None:
        need_matplotlib()
    drawn = {"--plot": (maps.plot, PICTURES), "--html": (maps.html, (".html",))}
    check_outputs({**outputs, **drawn}, inputs=inputs)


def _participants(done: Done) -> int:
    found: int = (done.run if isinstance(done.run, AnyRun) else done.result).participants
    return found
