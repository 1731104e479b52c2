"""``semilocal counts``: how many people are in boxes, with intervals."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ...geometry.box import Box
from ...io.queries import Queries, grid_queries, read_queries
from .. import jobs
from ..answers import answer_columns, check_queries, write_answers
from ..arguments import share
from ..output import Outcome

__all__ = ["add_arguments", "add_query_arguments", "queries_of", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    jobs.add_arguments(parser)
    add_query_arguments(parser, required=True)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the answers: .csv or .geojson (else stdout)")
    jobs.add_html_arguments(parser)
    parser.add_argument("--transcript", type=Path, metavar="FILE", help="write all that was published: .slt")


def add_query_arguments(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Which boxes to count in, and the level of the intervals."""
    asked = parser.add_mutually_exclusive_group(required=required)
    asked.add_argument(
        "--queries",
        type=Path,
        metavar="FILE",
        help="CSV with columns x0,y0,x1,y1 (or NAME_lower and NAME_upper for each axis), or GeoJSON with rectangles; "
        "names and other columns come back with the answers",
    )
    asked.add_argument("--grid", metavar="AxB", help="an even grid over the domain, such as 32x32")
    parser.add_argument("--level", type=share, default=0.95, help="of the intervals (%(default)s)")


def queries_of(args: argparse.Namespace, box: Box) -> Queries:
    """The boxes that were asked for."""
    queries = grid_queries(args.grid, box) if args.grid else read_queries(args.queries, box)
    check_queries(queries, box)
    return queries


def run(args: argparse.Namespace) -> int:
    """Answer range queries."""
    outputs = {
        "--out": (args.out, jobs.REGIONS),
        "--html": (args.html, jobs.HTML),
        "--transcript": (args.transcript, jobs.TRANSCRIPT),
    }
    return jobs.run_job(args, _counts, outputs=outputs, inputs=[args.queries, args.basemap])


def _counts(job: jobs.Job) -> Outcome:
    args = job.args
    queries = queries_of(args, job.box)
    run, result = job.counted()
    answers = result.query(queries.boxes)
    columns = answer_columns(queries, answers, job.box, level=args.level)
    found: dict[str, Any] = {"queries": len(queries), "level": args.level, "regions": len(result.partition)}
    found["uncertain"] = answers.uncertain
    words = [f"{len(queries):,} queries over {len(result.partition):,} regions"]
    if answers.uncertain:
        words.append("Some participants may have been moved into a neighbouring region; the intervals allow for that.")
    table = write_answers(queries, columns, args.out)
    files = jobs.write_transcript(args.transcript, run) + ([] if args.out is None else [str(args.out)])
    files += jobs.write_map(job, run, result)
    if files:
        found["files"] = files
        words += [f"wrote {path}" for path in files]
    if args.out is None:
        found["answers"] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return Outcome(run, result.spent, found, words, table=table)
