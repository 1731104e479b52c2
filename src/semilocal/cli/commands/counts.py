"""``semilocal counts``: how many people are in boxes or polygons, with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from ...errors import InvalidInput
from ...words import number_of
from .. import jobs
from ..answers import NO_BOXES, QueryOptions, answer_columns, queries_of, write_answers
from ..job_options import JobFile, JobOptions, MapFiles, Promise
from ..options import FILE

__all__ = ["run"]


def run(
    file: JobFile,
    /,
    *,
    promise: Promise,
    asked: QueryOptions = QueryOptions(),
    out: Annotated[Path | None, FILE] = None,
    files: MapFiles = MapFiles(),
    job: JobOptions = JobOptions(),
) -> int:
    """Answer range queries.

    Parameters
    ----------
    out
        write the answers: .csv, .geojson or .parquet (GeoParquet; else stdout)
    """
    if not asked.asked and not promise.bounds.lower().endswith(".json"):
        raise InvalidInput(NO_BOXES)
    jobs.check_basemap(files.html, files.basemap)
    outputs = {"--out": (out, jobs.REGIONS), "--html": (files.html, jobs.HTML)}
    return jobs.run_job(
        "counts", file, promise, job, lambda request: _counts(request, asked, out, files), outputs=outputs,
        inputs=[asked.queries, files.basemap], transcript=files.transcript, only_counted=True,
    )  # fmt: skip


def _counts(request: jobs.Request, asked: QueryOptions, out: Path | None, files: MapFiles) -> jobs.Outcome:
    queries = queries_of(asked, request.box, request.tree)
    done = request.run(rounding=asked.rounding)
    result, mark = done.result, done.result.partition.mark
    with request.options.output.step("answering"):
        columns = answer_columns(queries, result.query(queries.areas), request.box, level=asked.level, mark=mark)
    found: dict[str, Any] = {"queries": len(queries), "level": asked.level, "regions": len(result.partition)}
    words = [f"{number_of(len(queries), 'query', 'queries')} over {number_of(len(result.partition), 'region')}"]
    if request.counted_in == "rows":
        words.append(f"Counts are of rows: one person may be in them {request.options.people.rows_per_user} times.")
    with request.options.output.step("writing"):
        table = write_answers(queries, columns, out, request.box, mark=mark)
        written = jobs.write_transcript(request, done) + ([] if out is None else [str(out)])
        written += jobs.write_map(request, files, done)
    if written:
        found["files"] = written
        words += [f"wrote {path}" for path in written]
    if out is None:
        found["answers"] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return jobs.Outcome(done, found, words, table)
