"""``semilocal counts``: how many people are in boxes or polygons, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from ...errors import InvalidInput
from ...geometry.box import Box
from ...hierarchy import AnyTree, TableTree
from ...io.queries import Queries, grid_queries, label_queries, read_queries
from ...words import number_of
from .. import jobs
from ..answers import answer_columns, check_queries, write_answers
from ..arguments import number
from ..job_options import JobFile, JobOptions, MapFiles
from ..options import FILE, Share, group, option
from ..output import Outcome

__all__ = ["QueryOptions", "queries_of", "run"]

NO_BOXES = "say which boxes to count in: --queries FILE, or --grid AxB such as --grid 32x32"


@group("Queries")
@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """Which boxes or polygons to count in, and the level of the intervals.

    Attributes
    ----------
    queries
        boxes: CSV with columns x0,y0,x1,y1 (or NAME_lower and NAME_upper for each axis); polygons: .geojson, .gpkg,
        GeoParquet, or a column of H3 cells called h3; labels of a table: a column called label; names
        and other columns come back with the answers
    grid
        an even grid over the domain, such as 32x32; the command counts needs neither for a table: it counts all labels
    level
        of the intervals
    rounding
        the step that all coordinates are multiples of, if that is public: 0.01 for two decimals, 0 for none; looked
        for in what is published if left out
    """

    queries: Annotated[Path | None, FILE] = None
    grid: Annotated[str | None, option(metavar="AxB")] = None
    level: Share = 0.95
    rounding: Annotated[float | None, option(number(0), "STEP")] = None

    @property
    def asked(self) -> bool:
        """Whether boxes were given, in one of the two ways."""
        if self.queries is not None and self.grid is not None:
            raise InvalidInput("give --queries FILE or --grid AxB, not both")
        return self.queries is not None or self.grid is not None


def queries_of(options: QueryOptions, box: Box, tree: AnyTree | None = None) -> Queries:
    """The boxes that were asked for; all labels of a tree if it has some and nothing else was asked for."""
    if options.grid is not None:
        queries = grid_queries(options.grid, box)
    elif options.queries is not None:
        queries = read_queries(options.queries, box, tree)
    elif isinstance(tree, TableTree) and tree.leaves:
        return label_queries(tree)
    else:
        raise InvalidInput(NO_BOXES)
    check_queries(queries, box)
    return queries


def run(
    file: JobFile,
    /,
    *,
    job: JobOptions,
    asked: QueryOptions = QueryOptions(),
    out: Annotated[Path | None, FILE] = None,
    files: MapFiles = MapFiles(),
) -> int:
    """Answer range queries.

    Parameters
    ----------
    out
        write the answers: .csv, .geojson or .parquet (GeoParquet; else stdout)
    """
    if not asked.asked and not (job.data.bounds or "").lower().endswith(".json"):
        raise InvalidInput(NO_BOXES)
    jobs.check_basemap(files.html, files.basemap)
    outputs = {"--out": (out, jobs.REGIONS), "--html": (files.html, jobs.HTML)}
    return jobs.run_job(
        "counts", file, job, lambda job: _counts(job, asked, out, files), outputs=outputs,
        inputs=[asked.queries, files.basemap], transcript=files.transcript, only_counted=True,
    )  # fmt: skip


def _counts(job: jobs.Job, asked: QueryOptions, out: Path | None, files: MapFiles) -> Outcome:
    queries = queries_of(asked, job.box, job.tree)
    run, result = job.counted()
    with job.options.output.step("answering"):
        answers = result.answer(queries.areas, rounding=asked.rounding)
        columns = answer_columns(queries, answers, job.box, level=asked.level, mark=result.partition.mark)
    found: dict[str, Any] = {"queries": len(queries), "level": asked.level, "regions": len(result.partition)}
    words = [f"{number_of(len(queries), 'query', 'queries')} over {number_of(len(result.partition), 'region')}"]
    if job.counted_in == "rows":
        words.append(f"Counts are of rows: one person may be in them {job.options.people.rows_per_user} times.")
    with job.options.output.step("writing"):
        table = write_answers(queries, columns, out, job.box, mark=result.partition.mark)
        written = jobs.write_transcript(job, run) + ([] if out is None else [str(out)])
        written += jobs.write_map(job, files, run, result)
    if written:
        found["files"] = written
        words += [f"wrote {path}" for path in written]
    if out is None:
        found["answers"] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return Outcome(run, result.spent, found, words, table=table)
