"""The options of every job: partition, counts, mean and points.

Knows options and their words. Reads no file and computes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ..engines import Engine
from ..io.progress import Progress
from ..release.whom import DELTA, TRUSTS, K
from .arguments import BOX_HELP, TREE_HELP, number, whole
from .options import FILE, CellRule, Positive, Seed, Share, group, option
from .people import PeopleWithRows

__all__ = ["JobFile", "JobOptions", "MapFiles", "OutputOptions", "PositionOptions", "Promise"]

JobFile = Annotated[Path, option(metavar="FILE", help="positions: .csv, .csv.gz, .parquet or .geojson")]
TRUST_CHOICES = "; ".join(f"{name}: {words}" for name, words in TRUSTS.items())


@group("Positions")
@dataclass(frozen=True, kw_only=True)
class PositionOptions:
    """Where the positions are in the file, and their public domain.

    Attributes
    ----------
    x
        column of the first axis (longitude)
    y
        column of the second axis (latitude)
    columns
        columns of positions with other than two dimensions
    engine
        what reads and counts the rows; auto reads files up to 512 MiB into memory and streams larger ones and folders
        through Arrow. FILE may be a folder or a pattern such as 'points/*.parquet' for all but memory
    clip
        move positions outside the box to its edge, at most a tenth
    public_data
        the positions are public: pictures show them, and --bounds may be data
    """

    x: Annotated[str | None, option(metavar="COLUMN")] = None
    y: Annotated[str | None, option(metavar="COLUMN")] = None
    columns: Annotated[str | None, option(metavar="A,B,C")] = None
    bounds: Annotated[
        str | None,
        option(
            metavar="BOX", help=f"the public domain, required: {BOX_HELP}; {TREE_HELP}; 'data' publishes the extremes"
        ),
    ] = None
    engine: Engine = "auto"
    clip: bool = False
    public_data: bool = False


@group("Promise")
@dataclass(frozen=True, kw_only=True)
class Promise:
    """Whom the participants trust, and the options that belong to one of the answers; none has a default here.

    Attributes
    ----------
    epsilon
        loss in all: between any two places of one's region (nobody), or for any change of position (the others)
    cap
        refuse if anybody could lose more
    """

    trust: Annotated[
        str | None, option(metavar="WHOM", help=f"whom the participants trust, required. {TRUST_CHOICES}")
    ] = None
    epsilon: Positive
    k: Annotated[int | None, option(whole(1), "K", f"trust nobody: the smallest crowd of a region ({K})")] = None
    delta: Annotated[Share | None, option(help=f"trust nobody: chance that a crowd is below k ({DELTA:g})")] = None
    cap: Annotated[float | None, option(number(0), "EPSILON")] = None


@group("Output")
@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """How the result is shown.

    Attributes
    ----------
    seed
        repeatable noise, which protects nobody: tables get a column simulation_seed, pictures, maps and transcripts a
        line; else the system's randomness
    explain
        print the whole statement of what is promised, and what every step cost
    json
        one JSON object on stdout
    quiet
        no progress on stderr
    """

    seed: Seed | None = None
    explain: bool = False
    json: bool = False
    quiet: bool = False

    def step(self, label: str) -> Progress:
        """What shows that a step is under way, to be used in a ``with`` statement."""
        return Progress(None, label, show=not (self.quiet or self.json))


@group()
@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """The options of every job."""

    data: PositionOptions = PositionOptions()
    people: PeopleWithRows = PeopleWithRows()
    promise: Promise
    cells: CellRule = CellRule()
    output: OutputOptions = OutputOptions()


@group("Files")
@dataclass(frozen=True, kw_only=True)
class MapFiles:
    """The map in one file, and the transcript.

    Attributes
    ----------
    html
        write an interactive map, one file that needs no net
    basemap
        lines behind the map of --html, GeoJSON; else the coast
    transcript
        write all that was published: .slt
    """

    html: Annotated[Path | None, FILE] = None
    basemap: Annotated[Path | None, FILE] = None
    transcript: Annotated[Path | None, FILE] = None
