"""``semilocal counts``: how many people are in boxes or polygons, with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from ...errors import InvalidInput
from ...io.queries import asked_on_map
from ...words import number_of
from .. import jobs
from ..answers import NO_BOXES, QueryOptions, answer_columns, queries_of, write_answers
from ..job_options import JobFile, JobOptions, MapFiles, Promise
from ..options import file

__all__ = ["run"]


def run(
    file: JobFile,
    /,
    *,
    promise: Promise,
    asked: QueryOptions = QueryOptions(),
    out: Annotated[Path | None, file("write the answers: .csv, .geojson or .parquet (GeoParquet; else stdout)")] = None,
    files: MapFiles = MapFiles(),
    job: JobOptions = JobOptions(),
) -> int:
    """Answer range queries."""
    if not asked.asked and not promise.bounds.lower().endswith(".json"):
        raise InvalidInput(NO_BOXES)
    outputs = {"--out": (out, jobs.REGIONS), **jobs.map_outputs(files)}
    return jobs.run_job(
        "counts", file, promise, job, lambda request: _counts(request, asked, out, files), outputs=outputs,
        inputs=[asked.queries, files.basemap], transcript=files.transcript, only_counted=True,
    )  # fmt: skip


def _counts(request: jobs.Request, options: QueryOptions, out: Path | None, files: MapFiles) -> jobs.Outcome:
    queries = queries_of(options, request.box, request.tree)
    done = request.run(rounding=options.rounding)
    result, mark = done.result, done.result.partition.mark
    with request.options.output.step("answering"):
        columns = answer_columns(queries, result.query(queries.areas), request.box, level=options.level, mark=mark)
    found: dict[str, Any] = {"queries": len(queries), "level": options.level, "regions": len(result.partition)}
    words = [f"{number_of(len(queries), 'query', 'queries')} over {number_of(len(result.partition), 'region')}"]
    if request.counted_in == "rows":
        words.append(f"Counts are of rows: one person may be in them {request.options.people.rows_per_user} times.")
    with request.options.output.step("writing"):
        table = write_answers(queries, columns, out, request.box, mark=mark)
        written = jobs.write_transcript(request, done) + ([] if out is None else [str(out)])
        drawn = files.plot is not None or files.html is not None
        asked = asked_on_map(queries, columns) if drawn and request.box.dimensions == 2 else []
        written += jobs.write_maps(request, files, done, asked=asked)
    if written:
        found["files"] = written
        words += [f"wrote {path}" for path in written]
    if out is None:
        found["answers"] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return jobs.Outcome(done, found, words, table)
