"""What the job commands (partition, counts, mean, points) share: options, a file, a run, queries, what is said.

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
from dataclasses import dataclass, fields, replace
from glob import has_magic
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from ..arrays import Integers
from ..engines import open_source
from ..engines.arrow import ArrowSource
from ..engines.files import PARQUET, list_files
from ..errors import InvalidInput, OutsideWarning
from ..functions import BoundedFunction
from ..geometry.areas import outside_words
from ..geometry.box import Box
from ..geometry.places import parse_numbers
from ..hierarchy import AnyTree, TableTree
from ..io.files import check_outputs, replacing, write_text
from ..io.plots import PICTURES, need_matplotlib, save_picture
from ..io.points import choose_columns, fit, read_located, read_points
from ..io.progress import Progress
from ..io.queries import Asked, Queries, corner_names, grid_queries, label_queries, read_queries
from ..io.regions import SEED, csv_text, feature_collection, seed_column
from ..io.trees import label_tree
from ..pooled.play import Published
from ..protocol.column import Column, as_range, stored_column
from ..protocol.promise import Mark, Trust
from ..release.answers import CountAnswers
from ..release.counts import AnyRun
from ..release.job import DELTA, TRUSTS, Done, Job, K, Question
from ..simulation.people import (
    COMMAND,
    MAX_ROWS_PER_USER,
    check_rows_are_people,
    count_filled,
    draw_key,
    person_columns,
    refuse_content_as_person,
    refuse_person_columns,
)
from ..simulation.simulate import Run
from ..tabular import known
from ..words import number_of
from .catalogue import DONE
from .options import DOMAIN_HELP, advanced, file, flat, named_domain, number, option, path, positive, share, whole

TABLES = (".csv", ".geojson")  # how files of answers end
REGIONS = (".geojson", ".csv", ".parquet")
_ENDINGS = {"partition": REGIONS, "counts": TABLES, "points": (".csv",)}  # of --out
_STREAMED = (*PARQUET, ".csv", ".csv.gz")
_IN_MEMORY = 1 << 29  # bytes of a file that is read into memory if nobody says otherwise
ANSWERS = ("count", "stderr", "low", "high")
_OURS = (*ANSWERS, SEED)

# -- options: one dataclass for each idea ------------------------------------------------------------------------------

JobFile = Annotated[Path, option("positions: .csv, .csv.gz, .parquet, GeoParquet or .geojson", "FILE")]
TranscriptFile = Annotated[Path | None, advanced("write all that was published: .slt", "FILE", path)]


@flat
class CellRule:
    """How regions are made."""

    rule: Annotated[
        Literal["cut", "all"] | None,
        advanced("trust nobody: cut asks few people at a time and cuts anywhere; all is the paper's, which asks "
                 "everybody (cut)"),
    ] = None  # fmt: skip
    resolution: Annotated[
        float | None,
        advanced("the shortest side of a region, in kilometres on maps, else in units of the axes", "LENGTH", positive),
    ] = None


@flat
class Promise:
    """Where people may be, whom they trust, and what it may cost them."""

    bounds: Annotated[
        str,
        option(f"{DOMAIN_HELP}. It is never taken from the data, because that would leak",
               "BOX", dash=True),
    ]  # fmt: skip
    trust: Annotated[
        Trust, option("whom the participants trust. " + "; ".join(f"{name}: {words}" for name, words in TRUSTS.items()))
    ]
    epsilon: Annotated[
        float,
        option("loss in all: between any two places of one's region (nobody), or for any change of position (the "
               "others)", "NUMBER", positive),
    ]  # fmt: skip
    k: Annotated[int | None, advanced(f"trust nobody: the smallest crowd of a region ({K})", "K", whole(1))] = None
    delta: Annotated[float | None, advanced(f"trust nobody: chance of fewer than k ({DELTA:g})", "SHARE", share)] = None
    cells: CellRule = CellRule()


@flat
class PositionOptions:
    """Where the positions are in the file."""

    columns: Annotated[str | None, option("of positions, one per axis (longitude,latitude or x,y)", "A,B")] = None
    engine: Annotated[
        Literal["auto", "memory", "arrow"],
        advanced("what reads and counts the rows; auto reads files up to 512 MiB into memory and streams larger ones "
                 "and folders through Arrow. FILE may be a folder or a pattern such as 'points/*.parquet' for all but "
                 "memory"),
    ] = "auto"  # fmt: skip
    clip: Annotated[bool, advanced("move positions outside the box to its edge, at most a tenth")] = False


@flat
class People:
    """Whose row it is."""

    user: Annotated[str | None, option("whose row it is: one row per person is drawn at random", "COLUMN")] = None
    rows_are_people: Annotated[bool, advanced("every row is another person")] = False
    rows_per_user: Annotated[
        int,
        advanced("rows per person; with trust nobody a person loses M times what is promised to one row, with the "
                 "others there is M times as much noise", "M", whole(1, MAX_ROWS_PER_USER)),
    ] = 1  # fmt: skip


@flat
class OutputOptions:
    """How the result is shown."""

    json: Annotated[bool, option("one JSON object on stdout")] = False
    explain: Annotated[bool, advanced("the whole promise, and what every step cost")] = False
    quiet: Annotated[bool, advanced("no progress on stderr")] = False
    seed: Annotated[
        int | None,
        advanced("repeatable noise, which protects nobody: tables get a column simulation_seed, pictures, maps and "
                 "transcripts a line; else the system's randomness", "S", whole(0)),
    ] = None  # fmt: skip

    def step(self, label: str) -> Progress:
        """What shows that a step is under way, to be used in a ``with`` statement."""
        return Progress(None, label, show=not (self.quiet or self.json))


@flat
class MapFiles:
    """The map in one file, and as a picture."""

    html: Annotated[Path | None, file("write an interactive map, one file that needs no net")] = None
    plot: Annotated[Path | None, file("draw the map: .png, .svg or .pdf")] = None


@flat
class JobOptions:
    """The options of every job beside its promise."""

    maps: MapFiles = MapFiles()
    data: PositionOptions = PositionOptions()
    people: People = People()
    output: OutputOptions = OutputOptions()


_TASK = ("epsilon", "delta", "k", "rule", "resolution", "label")


def task_options(*groups: Any) -> dict[str, Any]:
    """What was given of the options in these groups that a task is built from."""
    values = {field.name: getattr(group, field.name) for group in groups for field in fields(group)}
    return {name: values[name] for name in _TASK if values.get(name) is not None}


@flat
class QueryOptions:
    """Which boxes or polygons to count in, and the level of the intervals."""

    grid: Annotated[str | None, option("an even grid, such as 32x32; of a table all labels are counted", "AxB")] = None
    queries: Annotated[
        Path | None,
        file("boxes: CSV with columns x0,y0,x1,y1 (or NAME_lower and NAME_upper for each axis); polygons: .geojson; "
             "labels of a table: a column called label. Other columns come back with the answers"),
    ] = None  # fmt: skip
    level: Annotated[float, advanced("of the intervals", "SHARE", share)] = 0.95
    rounding: Annotated[
        float | None,
        advanced("the step that all coordinates are multiples of, if that is public: 0.01 for two decimals, 0 for "
                 "none", "STEP", number),
    ] = None  # fmt: skip

    @property
    def asked(self) -> bool:
        """Whether boxes were given, in one of the two ways."""
        if self.queries is not None and self.grid is not None:
            raise InvalidInput("give --queries FILE or --grid AxB, not both")
        return self.queries is not None or self.grid is not None

    def read(self, box: Box, tree: AnyTree | None = None) -> Queries:
        """The boxes that were asked for; all labels of a tree if it has some and nothing else was asked for.

        Warns about queries that reach outside the domain, and about columns that the answers replace.
        """
        if self.asked and self.grid is not None:
            queries = grid_queries(self.grid, box)
        elif self.queries is not None:
            queries = read_queries(self.queries, box, tree)
        elif isinstance(tree, TableTree) and tree.leaves:
            queries = label_queries(tree)
        else:
            raise InvalidInput("say which boxes to count in: --queries FILE, or --grid AxB such as --grid 32x32")
        if words := outside_words(queries.areas, box):
            warnings.warn(words, OutsideWarning, stacklevel=2)
        if taken := [name for name in queries.properties if name in _OURS]:
            warnings.warn(f"the answers replace the queries' own {', '.join(taken)}", UserWarning, stacklevel=2)
        return queries


# -- the rows ----------------------------------------------------------------------------------------------------------


class OwnValue(NamedTuple):
    """A column of values that belong to people, and its public range."""

    name: str
    low: float
    high: float

    @classmethod
    def read(cls, name: str, limits: str | None) -> OwnValue:
        """The column that is asked for; refuses one without its range."""
        if limits is None:
            raise InvalidInput(
                f"--value {name} needs its public range: --range LOW,HIGH, the smallest and largest value that anybody "
                "can have. It is never taken from the data, because that would reveal something about them"
            )
        return cls(name, *as_range(parse_numbers(limits, "--range"), f"--value {name}"))


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
    box, domain = named_domain(bounds, names)
    if people.user is not None:
        refuse_content_as_person(people.user, [*names, *own], COMMAND)
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
    transcript: Path | None  # where all that was published goes
    counted: str = ""  # who was counted, in words; empty before the run
    participants: int = 0  # and how many

    @classmethod
    def open(
        cls, command: str, file: Path, promise: Promise, options: JobOptions, *, out: Path | None = None,
        transcript: Path | None = None, queries: Path | None = None, value: str | None = None,
        limits: str | None = None,
    ) -> FileJob:  # fmt: skip
        """Check outputs and options, and read the first line of the file; ``limits`` are those of the column value."""
        own = None if value is None else OwnValue.read(value, limits)
        outputs = {"--out": (out, _ENDINGS.get(command, ())), "--transcript": (transcript, (".slt",))}
        maps = options.maps
        check_maps(maps, outputs, inputs=[file, queries])
        job = cls(command, promise, options, open_rows(file, promise.bounds, options, own), out, transcript)
        job._job("counts").planned()  # refuses
        drawn = {"--out": out, "--plot": maps.plot, "--html": maps.html}
        for name, target in drawn.items() if job.box.dimensions != 2 else ():
            if target is not None and target.suffix.lower() != ".csv":
                raise InvalidInput(
                    f"{name} {target}: maps and pictures need two dimensions, the positions have "
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
        several = self.options.people.rows_per_user
        self.participants = (done.run if isinstance(done.run, AnyRun) else done.result).participants
        self.counted = number_of(self.participants, "person", "people")
        if several > 1:
            self.counted = f"{number_of(self.participants, 'row')}, up to {several} of each person, of {rows.total:,}"
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
        result, rows, maps = done.result, self.options.people.rows_per_user > 1, self.options.maps
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
            people = {"rows" if promised.rows > 1 else "participants": self.participants}
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


# -- answers about boxes or polygons -----------------------------------------------------------------------------------


def answer_columns(
    queries: Queries, answers: CountAnswers, box: Box, *, level: float, mark: Mark | None = None
) -> dict[str, list[Any]]:
    """Columns by name: what the queries are called, corners of boxes, count, stderr, low and high, and a seed.

    Polygons without any properties are numbered.
    """
    corners = np.round(queries.boxes, 9).reshape(len(queries), -1)  # -73.95, not -73.94999999999999
    places = dict(zip(corner_names(box), corners.T.tolist(), strict=True))
    if queries.named:
        places = {}
    elif queries.shapes is not None:
        places = {} if queries.properties else {"polygon": list(range(len(queries)))}
    interval = answers.interval(level)
    values = (answers.value, answers.stderr, interval[:, 0], interval[:, 1])
    return {
        **{name: list(column) for name, column in queries.properties.items() if name not in _OURS},
        **places,
        **{name: known(column, answers.stderr).tolist() for name, column in zip(ANSWERS, values, strict=True)},
        **seed_column(mark, len(queries)),
    }


def write_answers(
    queries: Queries, columns: dict[str, list[Any]], path: Path | None, box: Box, *, mark: Mark | None = None
) -> str:
    """Write CSV or GeoJSON, by the ending of the name; without a name return CSV."""
    if path is None:
        return csv_text(columns)
    kept = {name: column for name, column in columns.items() if name in queries.properties or name in _OURS}
    if path.suffix.lower() == ".geojson":
        rows = (dict(zip(kept, row, strict=True)) for row in zip(*kept.values(), strict=True))
        write_text(path, feature_collection(queries.geometries(box), rows, mark).decode())
    else:
        write_text(path, csv_text(columns))
    return ""
