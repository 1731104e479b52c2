"""The options of every job (partition, counts, mean, points), and those of people and cells that others share.

Knows options and their words. Reads no file and computes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from ..io.progress import Progress
from ..protocol.promise import Trust
from ..release.job import DELTA, TRUSTS, K
from ..simulation.people import MAX_ROWS_PER_USER
from .arguments import BOX_HELP, TREE_HELP
from .options import ADVANCED, FILE, Positive, Seed, Share, flat, number, option, whole

__all__ = [
    "CellRule", "JobFile", "JobOptions", "MapFiles", "OutputOptions", "People", "PeopleWithRows", "PositionOptions",
    "Promise", "task_options",
]  # fmt: skip

JobFile = Annotated[Path, option(metavar="FILE", help="positions: .csv, .csv.gz, .parquet or .geojson")]
ENGINE_HELP = (
    "what reads and counts the rows; auto reads files up to 512 MiB into memory and streams larger ones and folders "
    "through Arrow. FILE may be a folder or a pattern such as 'points/*.parquet' for all but memory"
)


@flat
@dataclass(frozen=True, kw_only=True)
class CellRule:
    """How regions are made.

    Attributes
    ----------
    rule
        trust nobody: cut asks few people at a time and cuts anywhere; all is the paper's, which asks everybody (cut)
    resolution
        the shortest side of a region, in kilometres on maps, else in units of the axes
    """

    rule: Annotated[Literal["cut", "all"] | None, ADVANCED] = None
    resolution: Annotated[float | None, option(number(0, above=True), "LENGTH"), ADVANCED] = None


@flat
@dataclass(frozen=True, kw_only=True)
class Promise:
    """Where people may be, whom they trust, and what it may cost them.

    Attributes
    ----------
    epsilon
        loss in all: between any two places of one's region (nobody), or for any change of position (the others)
    cap
        refuse if anybody could lose more
    """

    bounds: Annotated[
        str,
        option(
            metavar="BOX", dash=True,
            help=f"the public domain: {BOX_HELP}; {TREE_HELP}. It is never taken from the data in silence, because "
            "that would leak; 'data' publishes the extremes",
        ),
    ]  # fmt: skip
    trust: Annotated[
        Trust,
        option(help="whom the participants trust. " + "; ".join(f"{name}: {words}" for name, words in TRUSTS.items())),
    ]
    epsilon: Positive
    k: Annotated[int | None, option(whole(1), "K", f"trust nobody: the smallest crowd of a region ({K})"), ADVANCED] = (
        None
    )
    delta: Annotated[
        Share | None, option(help=f"trust nobody: chance that a crowd is below k ({DELTA:g})"), ADVANCED
    ] = None
    cap: Annotated[float | None, option(number(0), "EPSILON"), ADVANCED] = None
    cells: CellRule = CellRule()


@flat
@dataclass(frozen=True, kw_only=True)
class PositionOptions:
    """Where the positions are in the file.

    Attributes
    ----------
    x
        column of the first axis (longitude)
    y
        column of the second axis (latitude)
    columns
        columns of positions with other than two dimensions
    clip
        move positions outside the box to its edge, at most a tenth
    public_data
        the positions are public: pictures show them, and --bounds may be data
    """

    x: Annotated[str | None, option(metavar="COLUMN")] = None
    y: Annotated[str | None, option(metavar="COLUMN")] = None
    columns: Annotated[str | None, option(metavar="A,B,C"), ADVANCED] = None
    engine: Annotated[Literal["auto", "memory", "arrow"], option(help=ENGINE_HELP), ADVANCED] = "auto"
    clip: Annotated[bool, ADVANCED] = False
    public_data: Annotated[bool, ADVANCED] = False


@flat
@dataclass(frozen=True, kw_only=True)
class People:
    """Whose row it is.

    Attributes
    ----------
    user
        whose row it is: one row per person is drawn at random
    rows_are_people
        every row is another person, whatever the columns are called
    """

    user: Annotated[str | None, option(metavar="COLUMN")] = None
    rows_are_people: Annotated[bool, ADVANCED] = False

    @property
    def rows_each(self) -> int:
        """Rows that one person may have."""
        return 1


@flat
@dataclass(frozen=True, kw_only=True)
class PeopleWithRows(People):
    """Whose row it is, where a person may have several."""

    rows_per_user: Annotated[
        int,
        option(
            whole(1, MAX_ROWS_PER_USER), "M",
            "rows per person; with trust nobody a person loses M times what is promised to one row, with the others "
            "there is M times as much noise",
        ),
        ADVANCED,
    ] = 1  # fmt: skip

    @property
    def counted_in(self) -> str:
        """What is counted: participants, or rows where a person may have several."""
        return "participants" if self.rows_per_user == 1 else "rows"

    @property
    def rows_each(self) -> int:
        """Rows that one person may have."""
        return self.rows_per_user


@flat
@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """How the result is shown.

    Attributes
    ----------
    json
        one JSON object on stdout
    explain
        print the whole statement of what is promised, and what every step cost
    quiet
        no progress on stderr
    """

    seed: Annotated[
        Seed | None,
        option(
            help="repeatable noise, which protects nobody: tables get a column simulation_seed, pictures, maps and "
            "transcripts a line; else the system's randomness"
        ),
    ] = None
    json: bool = False
    explain: Annotated[bool, ADVANCED] = False
    quiet: Annotated[bool, ADVANCED] = False

    def step(self, label: str) -> Progress:
        """What shows that a step is under way, to be used in a ``with`` statement."""
        return Progress(None, label, show=not (self.quiet or self.json))


@flat
@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """The options of every job beside its promise."""

    data: PositionOptions = PositionOptions()
    people: PeopleWithRows = PeopleWithRows()
    output: OutputOptions = OutputOptions()


@flat
@dataclass(frozen=True, kw_only=True)
class PageFiles:
    """The map in one file.

    Attributes
    ----------
    html
        write an interactive map, one file that needs no net
    basemap
        lines behind the map of --html, GeoJSON; else land and sea
    """

    html: Annotated[Path | None, FILE] = None
    basemap: Annotated[Path | None, FILE, ADVANCED] = None


@flat
@dataclass(frozen=True, kw_only=True)
class MapFiles(PageFiles):
    """The map in one file, as a picture, and the transcript.

    Attributes
    ----------
    plot
        draw the map: .png, .svg or .pdf
    transcript
        write all that was published: .slt
    """

    plot: Annotated[Path | None, FILE] = None
    transcript: Annotated[Path | None, FILE, ADVANCED] = None


_TASK = ("epsilon", "delta", "k", "rule", "resolution", "label")


def task_options(*groups: Any) -> dict[str, Any]:
    """What was given of the options in these groups that a task is built from."""
    values = {field.name: getattr(group, field.name) for group in groups for field in fields(group)}
    return {name: values[name] for name in _TASK if values.get(name) is not None}
