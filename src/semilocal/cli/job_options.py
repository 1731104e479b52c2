"""The options of every job (partition, counts, mean, points), and those that other commands share with them.

One dataclass for each idea: what is promised, where the positions are, whose rows they are, what is asked, how it is
shown. Knows options and their words. Reads no file and computes nothing.
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
from .options import advanced, file, flat, option, path, positive, share, whole

__all__ = [
    "CellRule", "JobFile", "JobOptions", "MapFiles", "OutputOptions", "People", "PositionOptions", "Promise",
    "TranscriptFile", "task_options",
]  # fmt: skip

JobFile = Annotated[Path, option("positions: .csv, .csv.gz, .parquet, GeoParquet or .geojson", "FILE")]
TranscriptFile = Annotated[Path | None, advanced("write all that was published: .slt", "FILE", path)]


@flat
@dataclass(frozen=True, kw_only=True)
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
@dataclass(frozen=True, kw_only=True)
class Promise:
    """Where people may be, whom they trust, and what it may cost them."""

    bounds: Annotated[
        str,
        option(f"the public domain: {BOX_HELP}; {TREE_HELP}. It is never taken from the data, because that would leak",
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
@dataclass(frozen=True, kw_only=True)
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
@dataclass(frozen=True, kw_only=True)
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
@dataclass(frozen=True, kw_only=True)
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
@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """The options of every job beside its promise."""

    data: PositionOptions = PositionOptions()
    people: People = People()
    output: OutputOptions = OutputOptions()


@flat
@dataclass(frozen=True, kw_only=True)
class MapFiles:
    """The map in one file, and as a picture."""

    html: Annotated[Path | None, file("write an interactive map, one file that needs no net")] = None
    plot: Annotated[Path | None, file("draw the map: .png, .svg or .pdf")] = None


_TASK = ("epsilon", "delta", "k", "rule", "resolution", "label")


def task_options(*groups: Any) -> dict[str, Any]:
    """What was given of the options in these groups that a task is built from."""
    values = {field.name: getattr(group, field.name) for group in groups for field in fields(group)}
    return {name: values[name] for name in _TASK if values.get(name) is not None}
